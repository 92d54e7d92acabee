"""Compare functions on vector registers with calls on UB for Ascend 950: modelled time and UB accesses.

    python benchmarks/model/registers_950.py examples/gallery/*.json    a Markdown table
    python benchmarks/model/registers_950.py --target ascend950dt examples/demo.json
    python benchmarks/model/registers_950.py --json examples/demo.json
    python benchmarks/model/registers_950.py FOLDER --limit 100 --seed 1 --max-elements 1048576

From a folder, ``--limit`` graphs without a tensor larger than ``--max-elements`` are drawn, and not listed.
The same templates and tiles are generated twice: for the chip, and for the chip without registers.  Times come from
timed mode, a model; nothing was measured.  Accesses are the UB tensors that vector statements of all templates read or
write.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from autofuse.api import build, read, timed
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.ir.calls import Call, VectorFunction
from autofuse.codegen.ir.kernel_ir import For, Stmt
from autofuse.codegen.lower.kernel import lower_templates
from autofuse.codegen.passes import run_passes
from autofuse.implgraph.expr.expression import product
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.results import BuildResult
from autofuse.schedule.cost.cost import NOTE
from autofuse.targets import TargetSpec, load_chip

CHIP = "ascend950pr"


@dataclass(frozen=True)
class Row:
    """One graph: modelled microseconds, and the UB tensors that calls and functions read or write."""

    name: str
    calls_us: float
    functions_us: float
    calls_accesses: int
    functions_accesses: int

    @property
    def ratio(self) -> float:
        """Time with functions over time without."""
        return self.functions_us / self.calls_us


def without_registers(chip: TargetSpec) -> TargetSpec:
    """Return the chip restricted to calls on UB."""
    return replace(chip, arch=replace(chip.arch, vector_registers=0, mask_registers=0))


def accesses(built: BuildResult, chip: TargetSpec) -> int:
    """Count the UB tensors that statements of all templates use as operands and results of the vector unit."""
    functions = lower_templates(built.graph, built.schedule, chip).values()
    return sum(_accesses(run_passes(fn).body) for fn in functions)


def _accesses(body: Sequence[Stmt]) -> int:
    found = 0
    for s in body:
        if isinstance(s, For):
            found += _accesses(s.body)
        elif isinstance(s, VectorFunction):
            found += len(s.loads) + len(s.stores)
        elif isinstance(s, Call):
            found += len(s.reads) + len(s.writes)
    return found


def drawn(folder: Path, limit: int, seed: int, max_elements: int) -> list[Path]:
    """Return readable graphs of a folder without a tensor larger than ``max_elements``."""
    paths = sorted(folder.rglob("*.json"))
    random.Random(seed).shuffle(paths)
    return list(islice((p for p in paths if _is_small(p, max_elements)), limit))


def _is_small(path: Path, max_elements: int) -> bool:
    try:
        graph = read(path)
    except AutofuseError:
        return False
    sizes = {s.name: s.min if s.hint is None else s.hint for s in graph.symbols}
    elements = [product(t.shape).evaluate(sizes) for t in graph.tensors.values()]
    return max(elements, default=0) <= max_elements


def rows(paths: Sequence[Path], chip: TargetSpec) -> Iterator[Row]:
    """Yield a row per graph that is one kernel; the others are listed on stderr."""
    plain = without_registers(chip)
    for path in paths:
        try:
            found = [(build(path, target=t), t) for t in (plain, chip)]
        except AutofuseError as e:
            print(f"{path}: {e.diagnostics[0].message}", file=sys.stderr)
            continue
        graph = found[0][0].graph
        sizes = {s.name: s.hint for s in graph.symbols if s.hint is not None}
        inputs = random_inputs(graph, sizes, 0)
        us = [float(timed(b, inputs, symbols=sizes).report["total_us"]) for b, _ in found]
        yield Row(graph.label, us[0], us[1], *(accesses(b, t) for b, t in found))


def table(found: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| graph | calls, us (model) | functions, us (model) | ratio | accesses to UB | with functions |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for r in found:
        times = f"{r.calls_us:.1f} | {r.functions_us:.1f} | {r.ratio:.2f}"
        lines.append(f"| {r.name} | {times} | {r.calls_accesses} | {r.functions_accesses} |")
    return "\n".join(lines)


def summary(found: Sequence[Row]) -> str:
    """Return the least, median and worst ratio as text."""
    ratios = sorted(r.ratio for r in found)
    least, middle, most = ratios[0], statistics.median(ratios), ratios[-1]
    changed = sum(r.functions_accesses < r.calls_accesses for r in found)
    return (
        f"{len(found)} graphs, {changed} of them with functions: {middle:.2f} of the time of calls in the middle, "
        f"{least:.2f} at least, {most:.2f} at most"
    )


def main() -> int:
    """Run the script; return 1 if no graph is one kernel."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument(
        "--target", default=CHIP, help=f"a target with registers, {CHIP} unless told"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--limit", type=int, default=100, help="graphs of a folder (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn from a folder")
    parser.add_argument(
        "--max-elements", type=int, default=1 << 20, help="of a tensor of these (default 2**20)"
    )
    args = parser.parse_args()
    chip = load_chip(args.target)
    if not chip.arch.vector_registers:
        parser.error(f"{chip.name} has no functions on registers")
    folders = [p for p in args.graphs if p.is_dir()]
    paths = [p for p in args.graphs if p not in folders]
    for folder in folders:
        paths += drawn(folder, args.limit, args.seed, args.max_elements)
    found = list(rows(paths, chip))
    if not found:
        return 1
    if args.json:
        print(json.dumps([asdict(r) for r in found], indent=1))
    else:
        listed = "" if folders else f"{table(found)}\n\n"
        print(f"{listed}{summary(found)}\n{NOTE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
