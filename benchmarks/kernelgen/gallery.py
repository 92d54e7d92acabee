"""Run all five stages of ``autofuse kernelgen`` over the gallery, on a card.

    python benchmarks/kernelgen/gallery.py --device cuda
    python benchmarks/kernelgen/gallery.py --device cuda --seconds 500 --only layer_norm,swiglu
    python benchmarks/kernelgen/gallery.py --profile
    python benchmarks/kernelgen/gallery.py --report > report.md

Each operator gets a folder under ``--out``, and its state goes to ``--states`` as ``NAME.json``.  Stages that are up to
date are skipped, so repeating the call resumes an interrupted run; ``--seconds`` starts no operator after that time.
``benchmarks/results/archive.py add h200 kernelgen/NAME.json=FILE`` keeps a state in the archive of a machine;
``--report`` and ``--profile`` use the states of all machines, unless ``--states`` names a folder.
The default target speedup is out of reach, so tuning continues until no family of settings is left, and every section
of the log is complete; ``--profile`` adds Nsight Compute counters to kept states.  On ``cpu``, times come from the
model, and no states are written.
Needs autofuse, torch and triton.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen import stages
from autofuse.clients.kernelgen import state as states
from autofuse.clients.kernelgen.defining.sources import describe
from autofuse.clients.kernelgen.operator import Operator
from autofuse.clients.kernelgen.profiled import profiled
from autofuse.clients.kernelgen.state_format import State, read_state
from autofuse.clients.kernelgen.tuning.log import value
from autofuse.targets import load_gpu

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "results"))

import archive

HERE = Path(__file__).resolve().parent
GALLERY = HERE.parents[1] / "examples" / "gallery"
STATES = Path("build/kernelgen_states")
#: A speedup that no kernel reaches over its baseline.
OUT_OF_REACH = 1000.0


def main(words: Sequence[str] | None = None) -> int:
    """Run the requested operators and return the number that failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N, or cpu for the model")
    parser.add_argument("--target", default="nvidia-h100", help="what the kernels are for")
    parser.add_argument("--out", type=Path, default=Path("build/kernelgen"), help="of the folders")
    parser.add_argument("--states", type=Path, help=f"folder of states (default {STATES})")
    parser.add_argument("--only", default="", help="names of operators, with commas")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start none after this")
    parser.add_argument("--speedup", type=float, default=OUT_OF_REACH, help="that is asked for")
    parser.add_argument("--rounds", type=int, default=5, help="of tuning, at most")
    parser.add_argument("--report", action="store_true", help="print a table of what is kept")
    parser.add_argument("--profile", action="store_true", help="count hits and use of what is kept")
    args = parser.parse_args(words)
    if args.report:
        with kept(args.states) as folder:
            print("\n".join(report(folder)))
        return 0
    load_gpu(args.target)
    names = args.only.split(",") if args.only else [p.stem for p in sorted(GALLERY.glob("*.json"))]
    began, failed = time.monotonic(), 0
    for name in names:
        if time.monotonic() - began > args.seconds:
            print(f"{name}: not begun, the time is over")
            continue
        try:
            state = counted(name, args) if args.profile else operator(name, args)
        except AutofuseError as e:
            print(f"{name}: {e}", file=sys.stderr)
            failed += 1
            continue
        wrong = [c for c in state.accuracy if not c.ok]
        failed += bool(wrong)
        verdict = wrong[0].reason if wrong else f"{len(state.rounds)} rounds, {state.ended}"
        print(f"{name}: {verdict}; speedup {value(state.speedup)}", flush=True)
        if args.device != "cpu":
            states.save_as((args.states or STATES) / f"{name}.json", state)
    return failed


def operator(name: str, args: argparse.Namespace) -> State:
    """Run the stages of one operator as far as possible."""
    graph = api.read(GALLERY / f"{name}.json")
    found = describe(graph, target=args.target, rounds=args.rounds, target_speedup=args.speedup)
    options = stages.Options(
        args.out / name,
        device=args.device,
        watch=lambda text: print(f"  {name}: {text}", file=sys.stderr),
    )
    results = [stages.describe(found, options)]
    for stage in (stages.generate, stages.check, stages.tune, stages.log):
        if results[-1].ok:
            results.append(stage(options))
    state = states.load(options.folder)
    assert state is not None
    return state


def counted(name: str, args: argparse.Namespace) -> State:
    """Return the kept state of an operator, with counters of its rounds."""
    with kept(args.states) as folder:
        state = read_state(folder / f"{name}.json")
    graph = api.read(GALLERY / f"{name}.json")
    made = Operator(describe(graph, target=state.target), state.names)
    return profiled(state, made) if state.rounds else state


@contextmanager
def kept(states: Path | None) -> Iterator[Path]:
    """Provide a folder with states: the given one, or one extracted from the archives of all machines."""
    if states:
        yield states
        return
    with tempfile.TemporaryDirectory() as folder:
        for machine in archive.machines():
            for name, data in archive.files(machine, "kernelgen").items():
                Path(folder, name).write_bytes(data)
        yield Path(folder)


def report(folder: Path) -> Iterator[str]:
    """Yield a table of the kept states, every number with its status."""
    yield "| operator | accuracy | speedup before | after | rounds | bandwidth used | not recorded |"
    yield "|---|---|---|---|---|---|---|"
    for path in sorted(folder.glob("*.json")):
        state = read_state(path)
        passed = sum(c.ok for c in state.accuracy)
        first = state.rounds[0].speedup if state.rounds else state.speedup
        bandwidth = state.speeds[-1].bandwidth if state.speeds else None
        cells = (
            state.operator,
            f"{passed} of {len(state.accuracy)}",
            value(first),
            value(state.speedup),
            str(len(state.rounds)),
            value(bandwidth),
            ", ".join(missing(state)) or "nothing",
        )
        yield f"| {' | '.join(cells)} |"


def missing(state: State) -> list[str]:
    """Return the data missing from the log; cache hit rates and unit utilisation come from a profiler."""
    lacks = {
        "rounds": not state.rounds,
        "bandwidth": any(s.bandwidth is None for r in state.rounds for s in r.speeds),
        "parallelism": any(s.parallelism is None for r in state.rounds for s in r.speeds),
        "bottleneck": any(not r.bottleneck for r in state.rounds),
        "speedup": any(r.speedup is None or r.result is None for r in state.rounds),
        "gain": any(r.gain is None for r in state.rounds),
        "cache hits": any(r.profile.cache_hit is None for r in state.rounds),
        "use of units": any(r.profile.core_use is None for r in state.rounds),
    }
    return [name for name, lacking in lacks.items() if lacking]


if __name__ == "__main__":
    sys.exit(main())
