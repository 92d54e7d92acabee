"""Break generated kernels in one place at a time and count which checks notice.

    python benchmarks/mutation/mutation_run.py --graphs 60 --per-class 3 --seed 1
    python benchmarks/mutation/mutation_run.py examples/demo.json --per-class 20 --json

A mutant is a kernel with one statement of one template changed: no EnQue/DeQue, no barrier, an offset or a length
off by one, and so on.  All mutants of a kernel are compiled into one library; a launch selects one through the upper
bits of the tiling key.  Each runs in a worker process with ``check="all"``, for every tiling key that reaches it,
several legal tilings (the host's, and others with short tiles, tails and few cores) and several scheduler seeds, and
its outputs are compared with the reference.

A mutant is killed if the twin has a finding, an output differs, or the process crashes or hangs.  Findings of the
static verifier are counted separately.  The rules of ``mutation_rules.py`` recognise mutants equivalent to the kernel;
the rest are survivors.  A rule that matches a killed mutant is wrong.  Exit status 0 without survivors and wrong rules.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from autofuse import api
from autofuse.base import cache, knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.ending import end_cleanly
from autofuse.codegen.backends.ascendc.host.abi import tiling_fields
from autofuse.codegen.verification import verify_kernel, verify_schedule
from autofuse.implgraph.cutting.dimensions import shrink
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.run.native import Finding, KernelLibrary, Region, StatusError, Tiling
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.schedule.axes.result import tiling_keys
from autofuse.targets import Architecture

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: Folders of modules imported by this script and its workers.
_MODULES = tuple(map(str, (HERE, HERE.parent / "corpus", ROOT / "tests" / "support")))
sys.path[:0] = _MODULES

from mutation_data import (  # noqa: E402
    inputs_for,
    is_large,
    sizes_for,
    sizes_that_fill,
    tiles_for,
)
from mutation_kernels import (  # noqa: E402
    KEY_BITS,
    KINDS,
    Candidate,
    compiled,
    impls_of,
    sample,
    without_sync,
)
from mutation_registers import REGISTERS, register_graphs  # noqa: E402
from mutation_rules import Mutation, equivalent  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus" / "akg"
OWN = (
    *sorted((ROOT / "examples").glob("*.json")),
    *sorted((ROOT / "tests/snapshot/graphs").glob("*.json")),
)
MAX_ELEMENTS = 4096
_SCHEDULES = (0, 1, 2, 3, 4)
#: Launches after the twin's first finding that may still show a difference in an output.
_PATIENCE = 16
_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Row:
    """Outcome of a mutant.

    ``state``: killed, equivalent, survived, rejected (it does not compile), unreached (no tiling tried selects the
    template), or refuted (for a function on registers: by the static verifier alone).  ``rule`` is the rule that shows
    equivalence; for a killed mutant, the wrong rule.
    """

    kernel: str
    function: str
    kind: str
    text: str
    state: str
    codes: tuple[str, ...] = ()
    differs: bool = False
    lost: str = ""
    static: bool | None = None
    static_checks: tuple[str, ...] = ()
    rule: str = ""


#: Tiling key, limit on cores, and (unless 0) block_dim with values of the tiling data by position.
_Variant: TypeAlias = tuple[int, int, int, dict[str, int]]


# running --------------------------------------------------------------------------------------
class _Library:
    """Library of a kernel that uses the tiling of one key for a mutant and collects findings."""

    def __init__(self, inner: KernelLibrary) -> None:
        self.inner = inner
        self.key_count = inner.key_count
        self.mutant = 0
        self.seed = 0
        self.forced: tuple[int, dict[str, int]] = (0, {})
        self.found: list[Finding] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def tiling(self, symbols: Sequence[int], key: int | None = None, cores: int = 0) -> Tiling:
        t = self.inner.tiling(symbols, key, cores)
        data = bytearray(t.data)
        data[:4] = (t.key | self.mutant << KEY_BITS).to_bytes(4, "little")
        block_dim, values = self.forced
        if block_dim:
            data[4:8] = block_dim.to_bytes(4, "little")
        for at, value in values.items():
            data[int(at) : int(at) + 8] = value.to_bytes(8, "little")
        return replace(t, data=bytes(data), block_dim=block_dim or t.block_dim)

    def launch(
        self,
        tiling: Tiling,
        pointers: Sequence[int],
        regions: Sequence[Region],
        *,
        check: str,
        seed: int,
        ub_bytes: int = 0,
        arch: Architecture | None = None,
    ) -> list[Finding]:
        del seed
        self.found = self.inner.launch(
            tiling, pointers, regions, check=check, seed=self.seed, ub_bytes=ub_bytes, arch=arch
        )
        return []


@dataclass(slots=True)
class _State:
    graph: FusionGraph
    kernel: TwinKernel
    library: _Library
    data: list[tuple[dict[str, int], Any, Any, list[_Variant]]]


@lru_cache(maxsize=2)
def _state(library: str, payload: str) -> _State:
    graph, sizes, variants = pickle.loads(base64.b64decode(payload))
    kernel = TwinKernel(Path(library), graph, check="all")
    wrapped = _Library(kernel.library)
    kernel.library = wrapped  # type: ignore[assignment]
    data = []
    for i, (symbols, ways) in enumerate(zip(sizes, variants, strict=True)):
        chosen = inputs_for(graph, symbols, i)
        data += [(symbols, x, evaluate(graph, x, symbols), ways) for x in chosen]
    return _State(graph, kernel, wrapped, data)


def run_job(item: dict[str, Any]) -> dict[str, Any]:
    """Run one mutant in a worker; return its findings, and whether outputs differ."""
    state = _state(item["library"], item["kernel"])
    state.library.mutant = item["mutant"]
    codes: Counter[str] = Counter()
    differs, runs, since = False, 0, 0
    for i, (symbols, inputs, references, ways) in enumerate(state.data):
        large = is_large(state.graph, symbols)
        for k, (key, cores, block_dim, values) in enumerate(ways):
            if key not in item["keys"]:
                continue
            state.library.forced = block_dim, values
            for seed in (_SCHEDULES[(i + k) % len(_SCHEDULES)],) if large else _SCHEDULES:
                if (differs and codes) or since > _PATIENCE:
                    return {"codes": sorted(codes), "differs": differs, "runs": runs}
                state.library.seed = seed
                given = {n: a.copy() for n, a in inputs.items()}
                try:
                    run = state.kernel.run(given, symbols=symbols, key=key, cores=cores)
                except StatusError as e:
                    if e.not_applicable:
                        break
                    raise
                runs += 1
                codes.update(f.code for f in state.library.found)
                differs = differs or _differs(state.graph, run.outputs, references)
                since += bool(codes) or differs
    return {"codes": sorted(codes), "differs": differs, "runs": runs}


def _differs(graph: FusionGraph, outputs: dict[str, Any], references: Any) -> bool:
    with np.errstate(all="ignore"):
        return not all(
            compare(o.name, outputs[o.name], references[o.name], graph.tensors[o.tensor].dtype).ok
            for o in graph.outputs
        )


# a kernel -------------------------------------------------------------------------------------
def variants_of(built: api.BuildResult, sizes: Sequence[dict[str, int]]) -> list[list[_Variant]]:
    """Return ways to run the kernel for each binding of its symbols: the host's tiling, and others it may choose."""
    fields = [f.name for f in tiling_fields(built.graph, built.schedule)]
    out = []
    for symbols in sizes:
        found: list[_Variant] = []
        for key, choice in enumerate(tiling_keys(built.schedule)):
            found += [(key, 0, 0, {}), (key, 1, 0, {}), (key, 2, 0, {})]
            tiles = [tiles_for(i, symbols) for i in choice]
            for n in range(2 * max(map(len, tiles)) if all(tiles) else 0):
                values: dict[str, int] = {}
                block_dim = 1
                for impl, legal in zip(choice, tiles, strict=True):
                    spec, tile = impl.tiling, legal[n % len(legal)]
                    count = spec.tiles.evaluate({**symbols, spec.opened.symbol: tile})
                    per_core = _per_core(count, n, n // len(legal))
                    block_dim = max(block_dim, -(-count // per_core))
                    values |= {spec.opened.symbol: tile, spec.block_size: per_core}
                places = {str(8 * fields.index(k) - 8): v for k, v in values.items()}
                if (key, 0, block_dim, places) not in found:
                    found.append((key, 0, block_dim, places))
        out.append(found)
    return out


def _per_core(count: int, n: int, again: int) -> int:
    """Return the tiles per core for few cores, the last with less work than the others if possible."""
    if count <= 3:
        return max(count - again % 2, 1)
    even = [-(-count // (2 + (n + k) % 3)) for k in range(3)]
    return next((p for p in (*even, 2, 3, 7, 11, 13) if 1 < p < count and count % p), even[0])


def rows_of(
    built: api.BuildResult, chosen: Sequence[Candidate], pool: WorkerPool, sizes: int = 8
) -> Iterator[Row]:
    """Run mutants of one kernel.

    Args:
        built: the kernel.
        chosen: its mutants.
        pool: workers with the job :func:`run_job`.
        sizes: small bindings of the symbols of a dynamic graph, possibly with larger ones.

    Raises:
        AutofuseError: the kernel itself fails.
    """
    impls = impls_of(built)
    extents = (i.tiling.opened.extent for i in impls)
    bindings = sizes_for(built.graph, extents, sizes, MAX_ELEMENTS)
    bindings += sizes_that_fill(built.graph, impls, bindings, MAX_ELEMENTS)
    parts = (built.graph, bindings, variants_of(built, bindings))
    kernel = base64.b64encode(pickle.dumps(parts)).decode()
    keys = tiling_keys(built.schedule)
    places = compiled(built, chosen)
    sound = next((p for p, _ in places if p is not None), None)
    if sound is None:
        return
    item = {"library": str(sound), "kernel": kernel, "mutant": 0}
    reached = {k for c in chosen for k in _keys_of(c, keys)}
    outcome = pool.run({**item, "keys": sorted(reached)})
    if not outcome.ok or outcome.value["codes"] or outcome.value["differs"]:
        why = outcome.value if outcome.ok else outcome.diagnostics[0].message
        raise AutofuseError.of("AF6001", f"the kernel of {built.name} itself is killed: {why}")
    for c, (path, number) in zip(chosen, places, strict=True):
        function = c.fn.name if c.fn is not None else built.name
        row = Row(built.name, function, c.kind, c.text, "rejected")
        if path is None:
            yield row
            continue
        row = _with_static(row, c, built)
        job = {"library": str(path), "kernel": kernel, "mutant": number + 1}
        outcome = pool.run({**job, "keys": _keys_of(c, keys)})
        if outcome.ok:
            v = outcome.value
            if not v["runs"]:
                yield replace(row, state="unreached")
                continue
            row = replace(row, codes=tuple(v["codes"]), differs=v["differs"])
        else:
            row = replace(row, lost=outcome.diagnostics[0].message)
        if c.fn is not None and c.original is not None and c.impl is not None:
            others = cores_of_others(built, c.impl)
            change = Mutation(c.kind, c.original, c.fn, c.impl, built.target, others)
            row = replace(row, rule=equivalent(change))
        if row.codes or row.differs or row.lost:
            yield replace(row, state="killed")
        elif row.rule:
            yield replace(row, state="equivalent")
        else:
            refuted = row.static and c.kind in REGISTERS
            yield replace(row, state="refuted" if refuted else "survived")


def _keys_of(c: Candidate, keys: Sequence[Sequence[ImplGraph]]) -> list[int]:
    """Return the tiling keys that reach the change."""
    names = [{i.name for i in choice} for choice in keys]
    return [k for k, of in enumerate(names) if c.fn is None or c.fn.name in of]


def cores_of_others(built: api.BuildResult, impl: ImplGraph) -> int | None:
    """Return the maximum tiles of the other groups of a launch.

    None if that depends on symbols, or if groups run concurrently, so that cores of one come after the last of another.
    """
    counts = [0]
    launch = next(r for r in built.schedule if r.groups[0].impls[0].result == impl.result)
    if not all(g.sync_before for g in launch.groups[1:]):
        return None
    for other in (i for r in built.schedule for g in r.groups for i in g.impls):
        if other.result == impl.result and other.group != impl.group:
            spec = other.tiling
            longest = spec.opened.longest.as_int()
            shortest = const(max(min(spec.opened.granule, longest or 0), 1))
            tiles = spec.tiles.substitute({spec.opened.symbol: shortest}).as_int()
            if longest is None or tiles is None:
                return None
            counts.append(tiles)
    return max(counts)


def _with_static(row: Row, c: Candidate, built: api.BuildResult) -> Row:
    """Return the row with the verdict of the static verifier."""
    if c.fn is not None and c.impl is not None:
        found = verify_kernel(c.fn, c.impl, built.graph, built.target)
    else:
        found = verify_schedule(built.graph, without_sync(built, c.sync), built.target)
    errors = [d for d in found if d.severity == "error"]
    notes = {n.removeprefix("check ") for d in errors for n in d.notes if n.startswith("check ")}
    return replace(row, static=bool(errors), static_checks=tuple(sorted(notes)))


# graphs ---------------------------------------------------------------------------------------
def choose(folder: Path, count: int, seed: int) -> list[FusionGraph]:
    """Return the built-in graphs, then graphs of the folder, in turn from every class and with different ops."""
    from corpus import classes_of

    graphs = [api.read(p) for p in OWN]
    classes: dict[tuple[str, ...], list[FusionGraph]] = {}
    seen = set()
    paths = sorted(folder.rglob("*.json"))
    random.Random(seed).shuffle(paths)
    for p in paths:
        try:
            graph = api.read(p)
        except AutofuseError:
            continue
        ops = Counter(n.op for n in graph.nodes)
        ranks = Counter((t.dtype.name, len(t.shape)) for t in graph.tensors.values())
        signature = (frozenset(ops.items()), frozenset(ranks.items()))
        if signature not in seen and len(graph.nodes) <= 40:
            seen.add(signature)
            classes.setdefault((*classes_of(graph, p), *_reduced(graph)), []).append(graph)
    keys = sorted(classes)
    random.Random(seed).shuffle(keys)
    left = [classes[k] for k in _various_first(keys)]
    while len(graphs) < count and any(left):
        for found in left:
            if found and len(graphs) < count:
                graphs.append(found.pop(0))
    return graphs[:count]


def _various_first(keys: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the keys ordered so that each adds the most new entries."""
    out: list[tuple[str, ...]] = []
    seen: set[str] = set()
    rest = list(keys)
    while rest:
        best = max(rest, key=lambda k: len(set(k) - seen))
        rest.remove(best)
        out.append(best)
        seen.update(best)
    return out


def _reduced(graph: FusionGraph) -> tuple[str, ...]:
    """Return the axes that the reductions of a graph keep and reduce, such as ``ReduceSum RAR``."""
    found = set()
    for n in graph.nodes:
        if lookup(n.op).compute_type == "reduce" and isinstance(n.inputs[0], str):
            rank = len(graph.tensors[n.inputs[0]].shape)
            axes = n.attrs.get("axes") or range(rank)
            assert isinstance(axes, Iterable)
            gone = {a % rank for a in axes}
            kept = (key for key, _ in groupby("R" if i in gone else "A" for i in range(rank)))
            found.add(f"{n.op} {''.join(kept)}")
    return tuple(sorted(found))


# report ---------------------------------------------------------------------------------------
def table(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the counts per class, and in total."""
    rows = [r for r in rows if r.state not in ("rejected", "unreached")]
    out = []
    for kind in (*KINDS, "all"):
        of = [r for r in rows if kind in (r.kind, "all")]
        if not of:
            continue
        wrong = [r for r in of if r.state != "equivalent"]
        killed = [r for r in of if r.state == "killed"]
        out.append(
            {
                "class": kind,
                "mutants": len(of),
                "equivalent": len(of) - len(wrong),
                "checked": sum(bool(r.codes) for r in of),
                "comparison": sum(r.differs for r in of),
                "lost": sum(bool(r.lost) for r in of),
                "killed": len(killed),
                "static": sum(r.static is True for r in wrong),
                "survived": sum(r.state == "survived" for r in of),
                "rate": len(killed) / len(wrong) if wrong else 1.0,
            }
        )
    return out


def print_table(found: Sequence[dict[str, Any]]) -> None:
    """Print the table of :func:`table` as Markdown."""
    names = list(found[0])
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for d in found:
        cells = [f"{v:.1%}" if k == "rate" else str(v) for k, v in d.items()]
        print("| " + " | ".join(cells) + " |")


def main(argv: list[str] | None = None) -> int:
    """Run the script and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="graph files instead of a choice")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="folder of graph files")
    parser.add_argument("--graphs", type=int, default=60, help="number of kernels (default 60)")
    parser.add_argument("--per-class", type=int, default=3, help="mutants per kernel and class")
    parser.add_argument("--class", dest="kinds", action="append", choices=KINDS)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of graphs and mutants")
    parser.add_argument(
        "--ub-bytes",
        type=int,
        help="of UB, to reach the templates of rows that fill it with small graphs",
    )
    parser.add_argument(
        "--registers",
        action="store_true",
        help="kernels of Ascend 950 with functions on registers, and the classes of these",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument("--log", type=Path, help="file that gets a JSON line per mutant at once")
    args = parser.parse_args(argv)
    graphs = [api.read(p) for p in args.files]
    if args.registers:
        graphs = graphs or [api.read(g) for g in register_graphs().values()]
    graphs = graphs or choose(args.corpus, args.graphs, args.seed)
    target, kinds = ("ascend950pr", REGISTERS) if args.registers else (None, KINDS)
    start = time.perf_counter()
    rows: list[Row] = []
    failed: dict[str, str] = {}
    families: Counter[str] = Counter()
    synced = 0
    with cache.scratch() as folder, worker_pool() as pool:
        os.environ.update(environment(str(folder)))
        for i, graph in enumerate(graphs):
            try:
                # Shrunk rows would not fill a register.
                small = graph if args.registers else shrink(graph, MAX_ELEMENTS)
                built = api.build(small, target=target, ub_bytes=args.ub_bytes)
                families.update({family(x) for x in impls_of(built)})
                synced += any(g.sync_before for r in built.schedule for g in r.groups)
                chosen = sample(built, args.kinds or kinds, args.per_class, args.seed)
                for row in rows_of(built, chosen, pool):
                    rows.append(row)
                    if args.log is not None:
                        with args.log.open("a", encoding="utf-8") as log:
                            log.write(json.dumps(asdict(row)) + "\n")
            except AutofuseError as e:
                failed[graph.name] = e.diagnostics[0].message
            print(f"{i + 1} of {len(graphs)}: {graph.name}, {len(rows)} mutants", file=sys.stderr)
    found = table(rows)
    survivors = [r for r in rows if r.state == "survived"]
    wrong = [r for r in rows if r.rule and r.state == "killed"]
    rules = Counter(r.rule for r in rows if r.rule)
    codes = Counter(c for r in rows for c in r.codes)
    seconds = time.perf_counter() - start
    if args.json:
        report = {
            "schema": "autofuse.benchmark.mutation/1",
            "seed": args.seed,
            "kernels": len(graphs),
            "failed": failed,
            "families": families,
            "synced": synced,
            "seconds": seconds,
            "table": found,
            "codes": codes,
            "rules": rules,
            "wrong_rules": Counter(r.rule for r in wrong),
            "rows": [asdict(r) for r in rows],
        }
        print(json.dumps(report, indent=1))
    else:
        if found:
            print_table(found)
        print(f"\n{len(graphs)} kernels, seed {args.seed}, {seconds:.0f} s")
        print(f"kernels with template: {dict(families.most_common())}, with SyncAll: {synced}")
        print(f"findings: {dict(codes.most_common())}")
        for state in ("rejected", "unreached"):
            print(f"{state}: {sum(r.state == state for r in rows)}")
        for rule, n in rules.most_common():
            print(f"equivalent: {n:4} {rule}")
        for r in survivors:
            print(f"SURVIVED {r.kernel} {r.function} {r.kind}: {r.text} (static: {r.static})")
        for r in wrong:
            print(f"WRONG RULE {r.rule}: {r.kernel} {r.function} {r.kind}: {r.text}")
        for name, message in failed.items():
            print(f"FAILED {name}: {message}")
    return 1 if survivors or wrong or failed else 0


def family(impl: ImplGraph) -> str:
    """Return the template family with its variant, such as ``row_unaligned``."""
    return f"{impl.template}_{impl.suffix}" if impl.suffix else impl.template


def environment(cache: str) -> dict[str, str]:
    """Return the environment for compiling and running mutants: libraries go to the folder ``cache``."""
    path = [*_MODULES, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        knobs.CACHE_DIR.name: cache,
        # Mutants have unused variables.
        knobs.CXXFLAGS.name: "-w",
        knobs.THREADS.name: "1",
        "PYTHONPATH": os.pathsep.join(path),
    }


def worker_pool() -> WorkerPool:
    """Return a pool for :func:`run_job`, to be used in :func:`environment`."""
    return WorkerPool("mutation_run:run_job", workers=1, timeout_s=_LIMIT_S)


if __name__ == "__main__":
    end_cleanly()
    sys.exit(main())
