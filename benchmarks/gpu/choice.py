"""Compare the blocks chosen by the rules with the fastest found by a search on a card.

    python benchmarks/gpu/choice.py --out FOLDER --seconds 400 --jobs 8
    python benchmarks/gpu/choice.py --out FOLDER --rows "4?_*" --jobs 4

For every kernel of a row, the search doubles and halves one block size after another while that is faster, in at most
two rounds.  Each candidate is a tuning for ``--tuning``.  ``--jobs`` processes compile in parallel and take turns on
the card.  Writes ``choice.json`` into ``--out``: for every row the time of the choice, the time and sizes of the
fastest, and the number of candidates.  Results are not checked here: ``run.py`` checks those of the choice, the tests
those of other blocks.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measure import device_facts
from model import captured
from rows import Row, rows
from worker import parser, share

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.tuning import KernelTuning, Tuning
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.gpu.loading import load_here
from autofuse.machines.gpu.timing import spans, timing_inputs
from autofuse.targets import GpuTarget, load_gpu

FILE = "choice.json"
#: Minimum relative gain for accepting a candidate.
_LEAST_GAIN = 0.01
_ROUNDS = 2
_SAMPLES = 9

_Sizes = tuple[KernelTuning, ...]

#: Candidates: factors for the sizes.
_STEPS: tuple[dict[str, float], ...] = (
    *(
        {key: f}
        for key in ("rows", "cols", "warps", "parts", "chunks", "programs")
        for f in (2, 0.5)
    ),
    {"stages": 2},
    {"rows": 2, "cols": 0.5},
    {"rows": 0.5, "cols": 2},
    {"rows": 2, "warps": 2},
    {"cols": 2, "warps": 2},
)


def main() -> int:
    """Search for the requested rows."""
    options = parser()
    options.description = (__doc__ or "").partition("\n")[0]
    options.add_argument("--seconds", type=float, default=math.inf, help="start no row after this")
    options.add_argument("--jobs", type=int, default=4, help="processes that compile")
    options.add_argument("--part", type=share, help="K/N: one of these processes")
    options.add_argument("--lock", type=Path, help="held while something is timed")
    args = options.parse_args()
    if args.part:
        return search(args)
    args.out.mkdir(parents=True, exist_ok=True)
    until = min(args.until, time.time() + args.seconds)
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock"
        lock.touch()
        workers = [
            subprocess.Popen(
                [
                    *(sys.executable, __file__, *sys.argv[1:], f"--part={k}/{args.jobs}"),
                    *(f"--lock={lock}", f"--until={until}"),
                ],
                stdout=(Path(folder) / f"{k}.jsonl").open("w"),
            )
            for k in range(args.jobs)
        ]
        codes = [w.wait() for w in workers]
        texts = [p.read_text(encoding="utf-8") for p in sorted(Path(folder).glob("*.jsonl"))]
    found = [json.loads(line) for text in texts for line in text.splitlines()]
    found.sort(key=lambda r: (r["set"], r["name"]))
    document = {"run": device_facts(args.device) | {"time": time.time()}, "rows": found}
    args.out.joinpath(FILE).write_text(json.dumps(document, indent=0) + "\n", encoding="utf-8")
    print("\n".join(table(found)))
    return max(codes, default=0)


def search(args: Any) -> int:
    """Run one of the processes: search its rows, and print a line of JSON for each."""
    gpu, (part, parts) = load_gpu(args.target), args.part
    for row in rows(args.set, args.rows, args.draw)[part::parts]:
        if time.time() > args.until:
            break
        try:
            record = of_row(row, gpu, args)
        except Exception as e:
            print(f"{row.name}: {type(e).__name__}: {e}", file=sys.stderr)
            continue
        print(json.dumps(record), flush=True)
        torch.cuda.empty_cache()
    return 0


def of_row(row: Row, gpu: GpuTarget, args: Any) -> dict[str, Any]:
    """Search for all kernels of a row."""
    kernels = [of_graph(g, gpu, args) for g in captured(row, gpu.name)]
    return {
        "set": row.set,
        "name": row.name,
        "us": sum(k["us"] for k in kernels),
        "best_us": sum(k["best_us"] for k in kernels),
        "graphs": kernels,
    }


def of_graph(graph: FusionGraph, gpu: GpuTarget, args: Any) -> dict[str, Any]:
    """Search the block sizes of a graph's kernels by coordinate descent."""
    built = api.build(graph, target=gpu)
    first = Tuning.of(plan(built.graph, built.hint, gpu), gpu)
    inputs = timing_inputs(built.graph, {}, torch.device(args.device), args.seed)

    def measured(sizes: _Sizes) -> float:
        text = api.build(graph, target=gpu, tuning=replace(first, kernels=sizes)).files
        function = load_here(text, built.graph, args.device).function
        with held(args.lock):
            return timed(lambda: function(*inputs))

    tried: dict[str, float] = {}
    now, chosen = first.kernels, 0.0
    best = chosen = measured(now)
    for _ in range(_ROUNDS):
        before = best
        for at, factors in itertools.product(range(len(now)), _STEPS):
            sizes = scaled(now, at, factors)
            name = json.dumps([k.sizes for k in sizes], sort_keys=True)
            if name in tried or time.time() > args.until:
                continue
            try:
                tried[name] = measured(sizes)
            except AutofuseError:
                tried[name] = math.inf  # impossible blocks
            except Exception as e:
                tried[name] = math.inf  # Triton cannot compile it
                print(f"{graph.name} {name}: {type(e).__name__}", file=sys.stderr)
            if tried[name] < best * (1 - _LEAST_GAIN):
                best, now = tried[name], sizes
        if best == before:
            break
    return {
        "us": chosen,
        "best_us": best,
        "tried": sum(map(math.isfinite, tried.values())),
        "chosen": {k.name: dict(k.sizes) for k in first.kernels},
        "best": {k.name: dict(k.sizes) for k in now},
    }


def scaled(sizes: _Sizes, at: int, factors: Mapping[str, float]) -> _Sizes:
    """Return the sizes of all kernels, with some sizes of one kernel multiplied by a factor."""
    own = dict(sizes[at].sizes)
    for key, factor in factors.items():
        if key in own:
            own[key] = max(1, int(own[key] * factor))
    if "parts" in factors and "cols" in own and "cols" not in factors:
        own["cols"] = max(1, int(own["cols"] / factors["parts"]))
    return (*sizes[:at], replace(sizes[at], sizes=own), *sizes[at + 1 :])


def timed(call: Callable[[], object]) -> float:
    """Return the microseconds of a call, the median of several; the first calls compile."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    torch.cuda._sleep(1_000_000)  # type: ignore[no-untyped-call]
    return statistics.median(spans(call, _SAMPLES))


@contextmanager
def held(lock: Path | None) -> Iterator[None]:
    """Hold the card exclusively, if processes share it."""
    if lock is None:
        yield
        return
    with lock.open() as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def table(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the rows, the worst choice first, and the mean."""
    yield f"{'row':48} {'chosen us':>10} {'best us':>10} {'cost':>7}"
    for r in sorted(found, key=lambda r: r["best_us"] / r["us"]):
        yield f"{r['name'][:48]:48} {r['us']:10.1f} {r['best_us']:10.1f} {r['us'] / r['best_us'] - 1:7.1%}"
    if found:
        mean = sum(r["us"] / r["best_us"] - 1 for r in found) / len(found)
        yield f"mean of {len(found)} rows: {mean:.1%}"


if __name__ == "__main__":
    sys.exit(main())
