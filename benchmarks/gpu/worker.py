"""Measure rows one after the other in one process, started and watched by ``run.py``.

The row is saved to ``current.json`` before each competitor, so that it survives the process.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
from competitors import COMPETITORS, NotOfferedError
from measure import copy_gbs, device_facts, timed
from oracle import Oracle, call_of
from records import OURS, Record, append, done, of_roof, read
from rows import SETS, Row, compulsory_bytes, rows
from sets.random import MOST

#: Fraction of the roof from which max-autotune is not tried.
_ENOUGH = 0.93
#: Errors of autofuse up to this are rounding, for 16-bit floats and for others; larger ones may be up to a peer's error
#: times its factor in _PEERS.  Casts between ops are part of a graph: autofuse rounds there like eager, but sums in
#: another order.
_ROUNDING = (1.0, 4.0)
_PEERS = {"inductor": 2.0, "eager": 1.25}
#: Bound for peers: their results are accepted unless they are plainly wrong.
_PLAINLY_WRONG = 64.0
#: Competitors of autofuse that leave a report.
_IN_TORCH = ("autofuse", "measured", "tuned", "all")
#: Those that time regions: both ways to compile one are compiled beforehand in their place.
_TIMED = ("measured", "tuned")
#: Maximum length of a reason in a record.
_LONGEST = 600


def main() -> int:
    """Measure the remaining rows until the time is over."""
    options = parser()
    options.add_argument(
        "--part", type=share, help="K/N: compile only, every N-th row from row K on"
    )
    args = options.parse_args()
    known = done(read(args.out, args.since), args.competitors)
    chosen = rows(args.set, args.rows, args.draw)[args.share[0] :: args.share[1]]
    wanted = [r for r in chosen if (r.set, r.name) not in known]
    if not wanted:
        return 0
    # A backward graph is called repeatedly, so its inputs must not be donated.
    torch._functorch.config.donated_buffer = False
    if args.part:
        return compile_only(wanted, args)
    run: dict[str, Any] = {"time": time.time(), "seed": args.seed, "tiny": args.tiny}
    run |= device_facts(args.device) | {"copy_gbs": copy_gbs(args.device, args.tiny)}
    print(f"{run['name']}, copy {run['copy_gbs']:.0f} GB/s, {len(wanted)} row(s)", flush=True)
    for k, row in enumerate(wanted):
        if time.time() > args.until:
            print("time is over", flush=True)
            return 0
        append(args.out, Measurement(row, run, args).record())
        args.out.joinpath("current.json").unlink(missing_ok=True)
        _free()
        if k == 0:
            # Imported objects are permanent: exclude them from later collections.
            gc.freeze()
    return 0


def compile_only(wanted: list[Row], args: argparse.Namespace) -> int:
    """Call everything that compiles once, to fill the caches; several processes can do this at the same time.

    Regions are not timed, which requires an idle device; ``run.py`` drops the configurations that Inductor chose.
    """
    part, parts = args.part
    chosen = set(args.competitors) & {"inductor", "max", *OURS}
    if chosen & set(_TIMED):
        chosen = chosen - set(_TIMED) | {"all"}
    for row in wanted[part::parts]:
        case = row.case(args.device, args.seed, args.tiny)
        for name in sorted(chosen):
            if time.time() > args.until:
                return 0
            try:
                call_of(COMPETITORS[name](row, case, args.target), case)()
            except Exception as e:
                # The measurement will hit it again and record it.
                print(f"{row.name}: {name}: {type(e).__name__}", flush=True)
            _free()
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the options shared by ``run.py`` and its workers."""
    out = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    listed = lambda text: [x for x in text.split(",") if x]  # noqa: E731
    out.add_argument("--set", type=listed, default=list(SETS))
    out.add_argument(
        "--draw",
        type=draw,
        default=(0, 0, MOST),
        help="SEED/COUNT[/BITS]: rows of the set random, of at most 2^BITS elements (default 27)",
    )
    out.add_argument("--rows", type=listed, default=[], help="patterns or parts of names")
    out.add_argument("--competitors", type=listed, default=["eager", "inductor", "max", "autofuse"])
    out.add_argument(
        "--out",
        type=Path,
        required=True,
        help="a folder; benchmarks/results/archive.py add keeps its files",
    )
    out.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    out.add_argument("--target", default="nvidia-h100", help="of autofuse (default nvidia-h100)")
    out.add_argument("--tiny", action="store_true", help="small shapes; times mean nothing")
    out.add_argument(
        "--share", type=share, default=(0, 1), help="K/N: every N-th row from row K on"
    )
    out.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    out.add_argument("--since", type=float, default=0.0, help="older records do not count")
    out.add_argument("--until", type=float, default=float("inf"), help="start no row after this")
    return out


def draw(text: str) -> tuple[int, int, int]:
    """Parse ``SEED/COUNT`` or ``SEED/COUNT/BITS``."""
    seed, count, *most = map(int, text.split("/"))
    return seed, count, *(most or [MOST])


def share(text: str) -> tuple[int, int]:
    """Parse ``K/N``: card K of N, each of which measures its own rows."""
    part, parts = map(int, text.split("/"))
    if not 0 <= part < parts:
        raise ValueError(text)
    return part, parts


class Measurement:
    """One row with all its competitors."""

    def __init__(self, row: Row, run: dict[str, Any], args: argparse.Namespace) -> None:
        self.row = row
        self.args = args
        self.found: Record = {
            "set": row.set,
            "name": row.name,
            "shape": list(row.shape),
            "dtype": str(row.dtype).removeprefix("torch."),
            "backward": row.backward,
            "sweep": row.sweep,
            "draw": args.draw[0],
            "most": args.draw[2],
            "aim": row.aim,
            "counted": row.counted,
            "bytes": 0,
            "roof_us": 0.0,
            "run": run,
            "results": {},
        }
        self._note("inputs")
        self.case = row.case(args.device, args.seed, args.tiny)
        self.oracle = Oracle(self.case)
        results = call_of(self.case.function, self.case)()
        self.specs = [(r.shape, r.dtype) for r in results]
        moved = compulsory_bytes(row, self.case, results)
        self.found |= {"bytes": moved, "roof_us": moved / run["copy_gbs"] / 1e3}

    def record(self) -> Record:
        """Measure all competitors.

        Raises:
            RuntimeError: the device is unusable, for example after an out-of-bounds access.
        """
        for name in self.args.competitors:
            self._note(name)
            began = time.perf_counter()
            try:
                result = self._measured(name)
            except NotOfferedError as e:
                result = {"skipped": str(e)}
            except Exception as e:
                traceback.print_exc(limit=-2)
                result = {"failed": f"{type(e).__name__}: {e}"[:_LONGEST]}
                _check_device(self.args.device)
            result["seconds"] = round(time.perf_counter() - began, 2)
            self.found["results"][name] = result
            print(f"{self.row.name:44} {name:9} {shown(result)}", flush=True)
            _free()
        return self.found

    def _note(self, doing: str) -> None:
        noted = {"doing": doing, "began": time.time(), "record": self.found}
        self.args.out.mkdir(parents=True, exist_ok=True)
        partial = self.args.out / "current.part"
        partial.write_text(json.dumps(noted), encoding="utf-8")
        partial.replace(self.args.out / "current.json")

    def _measured(self, name: str) -> dict[str, Any]:
        if name == "max" and (reached := of_roof(self.found, "inductor") or 0.0) >= _ENOUGH:
            return {"skipped": f"Inductor's default reaches {reached:.2f} of the roof"}
        torch._dynamo.reset()
        counted = _Kernels(name)
        function = COMPETITORS[name](self.row, self.case, self.args.target)
        keep = (*self.case.inputs, *self.case.dys)
        timing = timed(lambda: call_of(function, self.case), keep, self.args.device)
        errors = [e / self.row.terms**0.5 for e in self.oracle.errors(timing.results)]
        if [(r.shape, r.dtype) for r in timing.results] != self.specs:
            errors = [float("inf")] * len(self.specs)
        bounds = self._bounds() if name in OURS else [_PLAINLY_WRONG] * len(errors)
        return {
            "us": timing.us,
            "least_us": timing.least_us,
            "most_us": timing.most_us,
            "method": timing.method,
            "why": timing.why[:_LONGEST],
            "host_us": timing.host_us,
            # JSON has no infinity.
            "errors": [min(e, sys.float_info.max) for e in errors],
            "bounds": bounds,
            "right": all(e <= b for e, b in zip(errors, bounds, strict=True)),
            **counted.since(),
        }

    def _bounds(self) -> list[float]:
        """Return the maximum errors allowed for autofuse."""
        floats = [d.is_floating_point and d.itemsize == 2 for _, d in self.specs]
        bounds = [_ROUNDING[0] if short else _ROUNDING[1] for short in floats]
        for name, times in _PEERS.items():
            result = self.found["results"].get(name, {})
            if result.get("right"):
                bounds = [max(b, times * e) for b, e in zip(bounds, result["errors"], strict=True)]
        return bounds


class _Kernels:
    """Counts the kernels that a competitor compiles, and the ops that autofuse leaves to PyTorch."""

    def __init__(self, competitor: str) -> None:
        self.competitor = competitor
        if competitor in ("inductor", "max"):
            from torch._inductor import metrics

            metrics.reset()
        elif competitor in _IN_TORCH:
            from autofuse.clients.torch import reset

            reset()

    def since(self) -> dict[str, Any]:
        """Return the counts as entries of a result."""
        if self.competitor in ("inductor", "max"):
            from torch._inductor import metrics

            return {"kernels": metrics.generated_kernel_count}
        if self.competitor in _IN_TORCH:
            from autofuse.clients.torch import report

            graphs = report().graphs
            return {
                "kernels": sum(k.kernels for g in graphs for k in g.fused),
                "regions": [k.why for g in graphs for k in g.fused],
                "left": sorted({op for g in graphs for op, _ in g.not_fused}),
                "at_run_time": [w for g in graphs for w in g.at_run_time][:3],
            }
        return {}


def shown(result: dict[str, Any]) -> str:
    """Return a result as a line."""
    for word in ("failed", "skipped"):
        if word in result:
            return f"{word}: {result[word][:100]}"
    worst = max(result["errors"], default=0.0)
    wrong = "" if result["right"] else "  WRONG"
    text = f"{result['us']:10.1f} us  error {worst:.2g}{wrong}  {result['method']}"
    return f"{text}  ({result['seconds']:.1f} s)"


def _check_device(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _free() -> None:
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
