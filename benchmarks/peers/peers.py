"""Time autofuse and its peers from a parsed graph to generated text, on the same graphs.

    python benchmarks/peers/peers.py                                     autofuse alone; how to install the peers
    python benchmarks/peers/peers.py --torch-python T --bishengir B      against PyTorch Inductor and bishengir-compile
    python benchmarks/peers/peers.py --case softmax --repeat 5 --json    graphs with this in their name

The peers are not dependencies of autofuse.  Install them outside the project:

    python -m venv T && T/bin/pip install torch==2.13.0            then --torch-python T/bin/python
    pip install --target B ascendnpu-ir                            then --bishengir B/ascendnpuir/bin/bishengir-compile

Every generator and graph has separate processes, which run one at a time.  autofuse and Inductor are timed inside
theirs: the first run, then repetitions in the same process.  ``bishengir-compile`` is a program that compiles one file,
so whole processes are timed, and whole processes of ``autofuse build`` for comparison.  It stops where it would call
``hivmc``, which is part of CANN and not of the wheel: a dummy program with this name replaces it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))

from peer_graphs import cases, document, linalg
from traffic import Case

HERE = Path(__file__).resolve().parent

#: Time limit of one process in seconds.
LIMIT_S = 300

AUTOFUSE = "autofuse"
INDUCTOR = "Inductor"
BUILD = "autofuse build, process"
BISHENGIR = "bishengir-compile, process"

INSTALL = {
    INDUCTOR: "python -m venv T; T/bin/pip install torch==2.13.0; --torch-python T/bin/python",
    BISHENGIR: "pip install --target B ascendnpu-ir; --bishengir B/ascendnpuir/bin/bishengir-compile",
}

#: Names in bishengir-compile of autofuse's default target and its vector cores.
BISHENGIR_OPTIONS = (
    "--enable-hfusion-compile=true",
    "--enable-auto-multi-buffer=true",
    "--target=Ascend910B1",
    "--block-dim=48",
)


class PeerError(Exception):
    """A generator failed."""


@dataclass(frozen=True)
class Counts:
    """Number of repetitions inside a process, and of whole processes; both exclude a first one."""

    repeat: int
    processes: int


@dataclass(frozen=True)
class Times:
    """Times of repetitions.

    Attributes:
        wall: wall-clock seconds of each.
        cpu: seconds of processor time of each.
        first: times of the first run in a new process, unless whole processes are repeated.
    """

    wall: Sequence[float]
    cpu: Sequence[float]
    first: tuple[float, float] | None = None


@dataclass(frozen=True)
class Row:
    """One generator and one graph.

    Attributes:
        status: ``measured``, ``not installed`` or ``failed``.
        text: why there are no times.
        times: the times, if measured.
        version: version of the generator.
    """

    generator: str
    case: Case
    status: str
    text: str = ""
    times: Times | None = None
    version: str = ""


def main() -> int:
    """Measure the requested graphs and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--case", default="", help="only graphs with this in their name")
    parser.add_argument("--repeat", type=int, default=20, help="in a process (default 20)")
    parser.add_argument("--processes", type=int, default=10, help="whole ones (default 10)")
    parser.add_argument("--torch-python", type=Path, help="a Python that has torch")
    parser.add_argument("--bishengir", type=Path, help="the program bishengir-compile")
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    args = parser.parse_args()
    wanted = [c for c in cases() if args.case in c.name]
    if not wanted:
        parser.error(f"no graph has {args.case!r} in its name")
    if min(args.repeat, args.processes) < 1:
        parser.error("at least one repetition")
    counts = Counts(args.repeat, args.processes)
    with tempfile.TemporaryDirectory() as folder:
        try:
            rows = measure(wanted, counts, args.torch_python, args.bishengir, Path(folder))
        except PeerError as e:
            # A failed peer is a row; this is autofuse.
            sys.exit(f"autofuse: {e}")
    if args.json:
        print(json.dumps(report(rows, counts), indent=2))
    else:
        print(text(rows, counts))
    return 0


def measure(
    wanted: Sequence[Case],
    counts: Counts,
    torch_python: Path | None,
    bishengir: Path | None,
    folder: Path,
) -> list[Row]:
    """Return all rows; files go into ``folder``."""

    def inductor(case: Case) -> Row:
        return _in_process(INDUCTOR, case, counts.repeat, torch_python, "peer_inductor.py", folder)

    def compiler(case: Case) -> Row:
        return _bishengir(case, counts.processes, bishengir, folder)

    python = Path(sys.executable)
    out = []
    for case in wanted:
        out.append(_in_process(AUTOFUSE, case, counts.repeat, python, "peer_autofuse.py", folder))
        out.append(_kept(INDUCTOR, case, inductor))
        out.append(_autofuse_build(case, counts.processes, folder))
        out.append(_kept(BISHENGIR, case, compiler))
    return out


def _kept(generator: str, case: Case, measured: Callable[[Case], Row]) -> Row:
    """Return a peer's row; a failure is a row as well."""
    try:
        return measured(case)
    except (PeerError, OSError, ValueError) as e:
        return Row(generator, case, "failed", str(e).strip())


def _in_process(
    generator: str, case: Case, repeat: int, python: Path | None, script: str, folder: Path
) -> Row:
    """Return the row of a script that measures itself."""
    if python is None:
        return Row(generator, case, "not installed", INSTALL[generator])
    asked = {"graph": document(case), "repeat": repeat}
    # One core, and no cache except Inductor's information about the processor.
    own = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    done = subprocess.run(
        [python, HERE / script],
        input=json.dumps(asked),
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise PeerError(_last_line(done.stderr))
    found = json.loads(done.stdout)
    if "missing" in found:
        return Row(generator, case, "not installed", f"{found['missing']}; {INSTALL[generator]}")
    first, *others = found["times_s"]
    times = Times([t[0] for t in others], [t[1] for t in others], (first[0], first[1]))
    return Row(generator, case, "measured", times=times, version=found["version"])


def _autofuse_build(case: Case, repeat: int, folder: Path) -> Row:
    """Time whole processes that read a graph file and write the generated files."""
    graph = folder / "graph.json"
    graph.write_text(json.dumps(document(case)), encoding="utf-8")
    python = Path(sys.executable)

    def command(k: int) -> list[str | Path]:
        return [python, "-m", "autofuse", "build", graph, "-o", folder / f"{case.name} {k}"]

    env = {k: v for k, v in os.environ.items() if k != "ASCEND_HOME_PATH"}
    return Row(BUILD, case, "measured", times=_processes(command, repeat, env))


def _bishengir(case: Case, repeat: int, program: Path | None, folder: Path) -> Row:
    """Time whole processes of bishengir-compile, up to the call of the compiler missing from its wheel."""
    if program is None:
        return Row(BISHENGIR, case, "not installed", INSTALL[BISHENGIR])
    stand_in = folder / "bin" / "hivmc"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    stand_in.chmod(0o755)
    graph, temps = folder / "graph.mlir", folder / "bishengir"
    graph.write_text(linalg(document(case)), encoding="utf-8")
    lowered = temps / "module.hivm.opt.mlir"
    lowered.unlink(missing_ok=True)
    env = os.environ | {"PATH": f"{stand_in.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    last: list[str | Path] = [f"--save-temps={temps}", graph, "-o", folder / "out.o"]

    def command(_: int) -> list[str | Path]:
        return [program, *BISHENGIR_OPTIONS, *last]

    times = _processes(command, repeat, env)
    if not lowered.is_file():
        raise PeerError("it hands nothing to hivmc")
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    name = " ".join(version.stdout.split()[:2])
    return Row(BISHENGIR, case, "measured", times=times, version=name)


def _processes(
    command: Callable[[int], Sequence[str | Path]], repeat: int, env: Mapping[str, str]
) -> Times:
    """Return the times of ``repeat`` processes, after an uncounted one."""
    wall, cpu = [], []
    for k in range(repeat + 1):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            command(k), env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        wall.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if done.returncode:
            raise PeerError(_last_line(done.stderr))
    return Times(wall[1:], cpu[1:])


def _last_line(stream: str) -> str:
    """Return the most informative line of an error message."""
    lines = [line.strip() for line in stream.splitlines() if line.strip()]
    errors = [line for line in lines if "error: " in line.lower()]
    return ([*lines[-1:], *errors] or ["it says nothing"])[-1][:200]


# printing -------------------------------------------------------------------------------------


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return median, 95th percentile (nearest rank) and smallest value, in milliseconds."""
    ordered = sorted(1e3 * s for s in seconds)
    return {
        "median": statistics.median(ordered),
        "p95": ordered[math.ceil(0.95 * len(ordered)) - 1],
        "min": ordered[0],
    }


def ratios(row: Row, rows: Sequence[Row]) -> dict[str, float] | None:
    """Return the medians relative to autofuse on the same graph, by wall clock and by processor time."""
    against = BUILD if row.generator == BISHENGIR else AUTOFUSE
    if row.times is None or row.generator in (AUTOFUSE, BUILD):
        return None
    own = next(r.times for r in rows if r.generator == against and r.case is row.case)
    assert own is not None
    return {
        "wall": statistics.median(row.times.wall) / statistics.median(own.wall),
        "cpu": statistics.median(row.times.cpu) / statistics.median(own.cpu),
    }


def report(rows: Sequence[Row], counts: Counts) -> dict[str, Any]:
    """Return all results, ready for JSON; times in milliseconds."""
    out = []
    for r in rows:
        found: dict[str, Any] = {
            "graph": r.case.name,
            "generator": r.generator,
            "status": r.status,
            "text": r.text,
            "version": r.version,
            "wall_ms": r.times and spread(r.times.wall),
            "cpu_ms": r.times and spread(r.times.cpu),
            "first_ms": None,
            "ratio": ratios(r, rows),
        }
        if r.times is not None and r.times.first is not None:
            found["first_ms"] = {"wall": 1e3 * r.times.first[0], "cpu": 1e3 * r.times.first[1]}
        out.append(found)
    head = {"schema": "autofuse.benchmark.peers/1", "repeat": counts.repeat}
    return head | {"processes": counts.processes, "rows": out}


def text(rows: Sequence[Row], counts: Counts) -> str:
    """Return the tables as Markdown."""
    versions = sorted({r.version for r in rows if r.version})
    how = f"{counts.repeat} repetitions, or {counts.processes} processes"
    head = f"Milliseconds: median / p95 / min of {how}; {', '.join(versions)}."
    failed = [
        f"{r.generator} fails on {r.case.name}: {r.text}" for r in rows if r.status == "failed"
    ]
    missing = {r.generator: r.text for r in rows if r.status == "not installed"}
    notes = [*failed, *(f"{name} is not installed: {how}" for name, how in missing.items())]
    return "\n\n".join([head, _times_table(rows), *notes])


def _times_table(rows: Sequence[Row]) -> str:
    """Return a table of median / 95th percentile / smallest, of wall-clock and processor time."""
    head = ("graph", "generator", "wall", "processor", "first, wall", "first, processor")
    ends = ("wall over autofuse", "processor over autofuse")
    lines = [f"| {' | '.join((*head, *ends))} |", f"| --- | --- |{' --: |' * 6}"]
    for r in rows:
        cells = [r.status, *[""] * 5]
        if r.times is not None:
            ratio, first = ratios(r, rows), r.times.first
            cells = [
                " / ".join(f"{x:.1f}" for x in spread(t).values())
                for t in (r.times.wall, r.times.cpu)
            ]
            cells += [f"{1e3 * t:.0f}" for t in first] if first else ["", ""]
            cells += [f"{ratio[k]:.2f}" for k in ("wall", "cpu")] if ratio else ["", ""]
        lines.append(f"| {' | '.join([r.case.name, r.generator, *cells])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
