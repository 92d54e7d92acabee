"""Run a server's loop: many threads compile graphs, and nothing may fail, grow, or differ.

    python benchmarks/speed/serve.py                          1,000 compiles in 8 threads
    python benchmarks/speed/serve.py --compiles 200 --mark 50 a short run
    python benchmarks/speed/serve.py --load-every 10 --json   load and run more kernels

A compile covers everything from the text of a graph to the text of all files.  Every graph is requested twice, by any
free thread, and both answers must be equal; at the end, a single thread repeats a sample.  Every 25th graph is also
compiled for the CPU twin, loaded, run on random data and compared with the reference.  After every ``--mark`` compiles,
while all threads wait, a row shows: memory of the process after returning free memory, blocks held by Python, mapped
kernel libraries, open files, and threads.  The exit code is 1 if anything failed or differed, or if a resource grew
unexpectedly from the second row on.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import hashlib
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from serve_graphs import text

import autofuse
from autofuse.base.ending import end_cleanly
from autofuse.base.knobs import CACHE_DIR
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.report.build_summary import typical_sizes

#: Growth of the process from the second to the last row that is not a leak: memory kept by the allocator.
_SLACK_MB = 24.0
#: Number of graphs that a single thread repeats at the end.
_SAMPLE = 12


@dataclass(frozen=True)
class Mark:
    """Resources of the process after a number of compiles, while all threads are idle.

    Attributes:
        compiles: compiles so far.
        seconds: wall-clock seconds since the last mark.
        cpu_seconds: CPU seconds of all threads, and of the compilers they called.
        rss_mb: resident memory in MiB.
        blocks: memory blocks held by Python.
        libraries: mapped kernel libraries.
        files: open files.
        threads: threads of the process, including the twin's.
    """

    compiles: int
    seconds: float
    cpu_seconds: float
    rss_mb: float
    blocks: int
    libraries: int
    files: int
    threads: int


@dataclass
class Outcome:
    """Observations of the threads; ``lock`` guards the other fields."""

    answers: dict[tuple[int, str], str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    loaded: int = 0
    wrong: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, number: int, kind: str, digest: str) -> None:
        """Record the digest of files or of results, and a difference from the previous one."""
        with self.lock:
            if self.answers.setdefault((number, kind), digest) != digest:
                self.differing.append(f"{kind} of graph {number}")


def main() -> int:
    """Serve, print the rows, and return the exit code."""
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="autofuse-serve-") as folder:
        # A fresh cache: kernels of an earlier run would not be compiled again.
        os.environ[CACHE_DIR.name] = folder
        report = serve(
            args.compiles, args.threads, mark=args.mark, load_every=args.load_every, seed=args.seed
        )
    if args.json:
        print(json.dumps({"schema": "autofuse.benchmark.serve/1", **report}, indent=2))
    else:
        show(report)
    return 0 if report["ok"] else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--compiles", type=int, default=1000, help="in all (default 1000)")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--mark", type=int, default=200, help="compiles per row (default 200)")
    parser.add_argument(
        "--load-every", type=int, default=25, help="graphs per one that is run; 0: none is"
    )
    parser.add_argument("--seed", type=int, default=0, help="another number: other graphs")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if min(args.compiles, args.threads, args.mark) < 1 or args.load_every < 0:
        parser.error("numbers of compiles and threads are positive")
    return args


def serve(
    compiles: int, threads: int, *, mark: int = 200, load_every: int = 25, seed: int = 0
) -> dict[str, Any]:
    """Compile in threads and return a report, ready for JSON."""
    found = Outcome()
    marks: list[Mark] = []
    done = 0
    graph = seed * 1_000_000
    first = graph
    with ThreadPoolExecutor(threads) as pool:
        while done < compiles:
            count = min(mark, compiles - done)
            new = range(graph, graph + (count + 1) // 2)
            wanted = [*new, *new][:count]
            random.Random(graph).shuffle(wanted)
            clock, cpu = time.perf_counter(), _cpu_seconds()
            list(pool.map(lambda n: _request(n, found, load_every), wanted))
            done += count
            graph = new.stop
            marks.append(_mark(done, time.perf_counter() - clock, _cpu_seconds() - cpu))
    for number in random.Random(seed).sample(range(first, graph), min(_SAMPLE, graph - first)):
        _request(number, found, 0)
    return _report(found, marks, threads, compiles)


def _request(number: int, found: Outcome, load_every: int) -> None:
    """Serve one compile, and for some also run the kernel."""
    try:
        built = autofuse.build(text(number))
        files = [f"{path}\0{content}\0".encode() for path, content in sorted(built.files.items())]
        found.answer(number, "files", _digest(files))
        if load_every and number % load_every == 0:
            found.answer(number, "results", _digest(_run(built, number, found)))
    except Exception as e:  # the loop continues after any error; the report lists it
        with found.lock:
            found.errors.append(f"graph {number}: {type(e).__name__}: {e}")


def _digest(parts: Iterable[bytes]) -> str:
    h = hashlib.sha256()
    for p in parts:
        h.update(p)
    return h.hexdigest()


def _run(built: autofuse.BuildResult, number: int, found: Outcome) -> list[bytes]:
    """Run a kernel on random data, compare it with the reference, and return the bytes of all outputs."""
    sizes = {k: min(n, 257) for k, n in typical_sizes(built.graph.symbols).items()}
    inputs = random_inputs(built.graph, sizes, number)
    run = autofuse.load(built).run(inputs, symbols=sizes)
    wanted = evaluate(built.graph, inputs, sizes)
    good = True
    for o in built.graph.outputs:
        dtype = built.graph.tensors[o.tensor].dtype
        good &= compare(o.name, run.outputs[o.name], wanted[o.name], dtype).ok
    with found.lock:
        found.loaded += 1
        if not good:
            found.wrong.append(number)
    return [np.ascontiguousarray(a).tobytes() for a in run.outputs.values()]


# resources of the process ---------------------------------------------------------------------


def _mark(compiles: int, seconds: float, cpu: float) -> Mark:
    gc.collect()
    _give_back()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    libraries = {line.split()[-1] for line in maps.splitlines() if "/kernels/" in line}
    return Mark(
        compiles,
        round(seconds, 3),
        round(cpu, 3),
        round(_status("VmRSS") / 1024, 1),
        sys.getallocatedblocks(),
        len(libraries),
        len(list(Path("/proc/self/fd").iterdir())),
        _status("Threads"),
    )


def _give_back() -> None:
    """Make the C library return free memory, so that resident memory equals held memory."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(row.split()[1]) for row in text.splitlines() if row.startswith(f"{name}:"))


def _cpu_seconds() -> float:
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


# report ---------------------------------------------------------------------------------------


def _report(found: Outcome, marks: Sequence[Mark], threads: int, compiles: int) -> dict[str, Any]:
    seconds = sum(m.seconds for m in marks)
    grown = _grown(marks)
    return {
        "compiles": compiles,
        "graphs": len({number for number, _ in found.answers}),
        "threads": threads,
        "loaded": found.loaded,
        "seconds": round(seconds, 3),
        "compiles_per_s": round(compiles / seconds, 2),
        "cpu_s_per_compile": round(sum(m.cpu_seconds for m in marks) / compiles, 4),
        "errors": found.errors,
        "differing": sorted(set(found.differing)),
        "wrong": sorted(found.wrong),
        "growth_mb": round(marks[-1].rss_mb - marks[min(1, len(marks) - 1)].rss_mb, 1),
        "grown": grown,
        "marks": [asdict(m) for m in marks],
        "ok": not (found.errors or found.differing or found.wrong or grown),
    }


def _grown(marks: Sequence[Mark]) -> list[str]:
    """Return the resources that grew from the second mark on; the first ones fill the caches."""
    if len(marks) < 3:
        return []
    early, late = marks[1], marks[-1]
    out = []
    if late.rss_mb - early.rss_mb > _SLACK_MB:
        out.append(f"memory by {late.rss_mb - early.rss_mb:.1f} MiB")
    if late.libraries > early.libraries:
        out.append(f"libraries by {late.libraries - early.libraries}")
    if late.files > early.files:
        out.append(f"open files by {late.files - early.files}")
    return out


def show(report: dict[str, Any]) -> None:
    """Print the report as text."""
    print(
        f"{report['compiles']} compiles of {report['graphs']} graphs in {report['threads']} threads, "
        f"{report['loaded']} kernels loaded and run"
    )
    print(
        f"{report['compiles_per_s']} compiles/s, {1e3 * report['cpu_s_per_compile']:.0f} ms of "
        "processor time each (g++ included)"
    )
    columns = tuple(Mark.__dataclass_fields__)
    print("  ".join(f"{c:>11}" for c in columns))
    for m in report["marks"]:
        print("  ".join(f"{m[c]:>11}" for c in columns))
    _list("errors", report["errors"])
    _list("differing answers", report["differing"])
    _list("wrong results", report["wrong"])
    _list("grown", report["grown"])


def _list(title: str, found: Iterable[object]) -> None:
    lines = [str(x) for x in found]
    print(f"{title}: {len(lines) or 'none'}")
    for line in lines[:10]:
        print(f"  {line}")


if __name__ == "__main__":
    end_cleanly()
    sys.exit(main())
