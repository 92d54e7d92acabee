"""Compare modelled times of Triton kernels with those measured on a card.

    python benchmarks/gpu/model.py h100              errors, the worst rows; nothing is measured
    python benchmarks/gpu/model.py h100 --write      also model.json in the archive, for the page of report.py
    python benchmarks/gpu/model.py h200 --target nvidia-h200 --write
    python benchmarks/gpu/model.py FOLDER --write    of a folder of run.py, and into it

The graphs of a row are taken from PyTorch on fake tensors, so no card and no memory is needed; their kernels are those
of this version.  Rows with several kernels are compared by the sum.  An error is the mean of
|ln(modelled / measured)|:

- ``in``: with the figures of the target file;
- ``held out``: figures fitted without all rows of an operator, tested on these;
- ``bytes only``: bytes that kernels move, each element once, over the copy rate, and one launch per kernel.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
from records import Record, latest
from rows import Row, rows, tensors
from torch._subclasses import FakeTensorMode

from autofuse import api
from autofuse.clients.torch import autofuse as backend
from autofuse.clients.torch import compiler
from autofuse.clients.torch.refusal import RefusedError
from autofuse.codegen.backends.triton.cost import KernelTime, Work, time_of, works
from autofuse.codegen.backends.triton.plan import plan
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import GpuTarget, load_gpu

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "results"))

import archive

__all__ = ["Point", "captured", "error", "fit", "held_out", "operator", "points"]

TARGET = "nvidia-h100"
FILE = "model.json"
#: Figures of a target that are fitted.
FITTED = ("launch_us", "late_us", "meet_us", "alone_gbs", "waste_bytes", "thread_registers")
_ROUNDS = 14


@dataclass(frozen=True)
class Point:
    """A row with a measured time.

    Attributes:
        name: of the row.
        operator: what it is without sizes and dtype.
        us: measured microseconds of all its kernels.
        works: of its kernels.
    """

    name: str
    operator: str
    us: float
    works: tuple[Work, ...]

    def times(self, gpu: GpuTarget) -> list[KernelTime]:
        """Its kernels, by the model."""
        return [time_of(w, gpu) for w in self.works]

    def error(self, gpu: GpuTarget) -> float:
        """ln(modelled / measured)."""
        return math.log(sum(t.us for t in self.times(gpu)) / self.us)


def main() -> int:
    """Print the errors."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("place", help="a machine of benchmarks/results, or a folder of run.py")
    options.add_argument("--target", default=TARGET, help=f"default {TARGET}")
    options.add_argument("--write", action="store_true", help=f"keep {FILE} there, too")
    args = options.parse_args()
    records = latest(archive.files(args.place, "gpu"))
    if not records:
        print(f"no results in {args.place}", file=sys.stderr)
        return 1
    gpu = load_gpu(args.target)
    found, left = points(records, gpu)
    document = summary(found, left, gpu)
    shown(document)
    if args.write:
        data = (json.dumps(document) + "\n").encode()
        if args.place in archive.machines():
            archive.add(args.place, {f"gpu/{FILE}": data})
        else:
            Path(args.place, FILE).write_bytes(data)
    return 0


# rows and their kernels -----------------------------------------------------------------------


def points(records: Iterable[Record], gpu: GpuTarget) -> tuple[list[Point], list[str]]:
    """Rows with a time of autofuse for these kernels and no others; and the names of all other rows."""
    known = {(r.set, r.name): r for r in rows()}
    found, left = [], []
    for record in records:
        result = record["results"].get("autofuse", {})
        row = known.get((record["set"], record["name"]))
        other = record["set"] == "level2" or not result.get("right") or result.get("left")
        if row is None or other:
            left.append(record["name"])
            continue
        own = tuple(w for g in captured(row, gpu.name) for w in _works(g, gpu))
        found.append(Point(row.name, operator(row), result["us"], own))
    return found, left


def operator(row: Row) -> str:
    """Return the operator of a row, without sizes and dtype: rows of one operator are held out together."""
    if row.sweep:
        return f"{row.sweep}{' bwd' if row.backward else ''}"
    if row.set == "kernelbench":
        return row.name
    words = [w for w in row.name.split() if not re.fullmatch(r"[\d^x]+|fp\d+|bf16|g\d+", w)]
    return " ".join(words)


def _works(graph: FusionGraph, gpu: GpuTarget) -> Iterable[Work]:
    built = api.build(graph, target=gpu)
    return works(plan(built.graph, built.hint, gpu), gpu, {})


def captured(row: Row, target: str = TARGET) -> list[FusionGraph]:
    """The graphs of the regions that ``torch.compile`` with autofuse makes of a row, or of its backward graph."""
    found: list[FusionGraph] = []

    def built_for(graph: FusionGraph, options: Any, device: torch.device) -> Any:
        api.build(graph, target=target)  # what the library refuses is cut otherwise
        found.append(graph)
        raise RefusedError("the graph is all that is wanted")

    own = compiler.built_for
    donated = torch._functorch.config.donated_buffer
    compiler.built_for = built_for
    torch._functorch.config.donated_buffer = False
    try:
        torch._dynamo.reset()
        with FakeTensorMode():
            case = row.case("cpu", 0, tiny=False)
            function: Callable[..., Any] = torch.compile(
                case.function,
                dynamic=False,
                backend=backend,
                options={"target": target, "min_ops": 1},
            )
            if not row.backward:
                with torch.no_grad():
                    function(*case.inputs)
                return found
            inputs = [x.detach() for x in case.inputs]
            wanted = [inputs[k].requires_grad_() for k in case.gradients]
            outputs = tensors(function(*inputs))
            found.clear()
            torch.autograd.grad(outputs, wanted, case.dys)
            return found
    finally:
        compiler.built_for = own
        torch._functorch.config.donated_buffer = donated


# the fit --------------------------------------------------------------------------------------


def error(found: Sequence[Point], gpu: GpuTarget) -> float:
    """The mean of |ln(modelled / measured)|."""
    return _mean(p.error(gpu) for p in found)


def fit(found: Sequence[Point], gpu: GpuTarget) -> GpuTarget:
    """The card with the figures of least error, looked for one after another, in steps that become smaller."""
    best = error(found, gpu)
    steps = dict.fromkeys(FITTED, 0.3)
    for _ in range(_ROUNDS):
        for name, step in steps.items():
            for factor in (1 + step, 1 / (1 + step)):
                changed = replace(gpu, **{name: getattr(gpu, name) * factor})
                now = error(found, changed)
                if now < best:
                    best, gpu = now, changed
                    break
            else:
                steps[name] = step / 2
    return gpu


def held_out(found: Sequence[Point], gpu: GpuTarget) -> dict[str, float]:
    """ln(modelled / measured) of every row, with figures fitted without the rows of its operator."""
    errors: dict[str, float] = {}
    for own in dict.fromkeys(p.operator for p in found):
        fitted = fit([p for p in found if p.operator != own], _start(gpu))
        errors |= {p.name: p.error(fitted) for p in found if p.operator == own}
    return errors


def _start(gpu: GpuTarget) -> GpuTarget:
    """Round numbers to begin a fit with, which know nothing of the rows that are held out."""
    rounds = {"launch_us": 2.0, "late_us": 0.01, "meet_us": 2.0, "alone_gbs": 100.0}
    return replace(gpu, **rounds, waste_bytes=16.0, thread_registers=32)


def summary(found: Sequence[Point], left: Sequence[str], gpu: GpuTarget) -> dict[str, Any]:
    """All numbers, ready for JSON."""
    held = held_out(found, gpu)
    simple = [math.log(_bytes_only(p, gpu) / p.us) for p in found]
    fitted = fit(found, _start(gpu))
    return {
        "target": gpu.name,
        "fitted": {name: round(getattr(fitted, name), 4) for name in FITTED},
        "in": round(error(found, gpu), 4),
        "held_out": round(_mean(held.values()), 4),
        "bytes_only": round(_mean(simple), 4),
        "operators": len({p.operator for p in found}),
        "left_out": list(left),
        "rows": [
            {
                "name": p.name,
                "us": round(p.us, 3),
                "held_out": round(held[p.name], 4),
                "kernels": [[round(t.us, 2), t.bottleneck] for t in p.times(gpu)],
            }
            for p in found
        ],
    }


def _mean(errors: Iterable[float]) -> float:
    found = list(map(abs, errors))
    return sum(found) / len(found)


def _bytes_only(p: Point, gpu: GpuTarget) -> float:
    return sum(gpu.launch_us + w.bytes / gpu.copy_gbs / 1e3 for w in p.works)


def shown(document: Mapping[str, Any]) -> None:
    """Print it."""
    listed = document["rows"]
    print(f"{len(listed)} rows, {document['operators']} operators; {document['target']}")
    for key, text in (
        ("in", "in: figures of the target file"),
        ("held_out", "held out: without all rows of the operator"),
        ("bytes_only", "bytes only: over the copy rate, and launches"),
    ):
        print(f"{document[key]:.3f}  {text}")
    print("fitted to all:", ", ".join(f"{k} {v:g}" for k, v in document["fitted"].items()))
    print(f"not compared, no time for these kernels alone: {', '.join(document['left_out'])}")
    print(
        "\nworst, held out: ln(modelled / measured), measured us, modelled us and what takes most"
    )
    for r in sorted(listed, key=lambda r: -abs(r["held_out"]))[:10]:
        times = "; ".join(f"{us:.1f} {most}" for us, most in r["kernels"])
        print(f"{r['held_out']:+.2f}  {r['us']:8.1f}  {r['name']}: {times}")


if __name__ == "__main__":
    sys.exit(main())
