"""Measure rows on a GPU against eager PyTorch, Inductor and kernel libraries; every element is compared.

    python benchmarks/gpu/run.py --set sweep --rows softmax --out FOLDER --seconds 480
    python benchmarks/gpu/run.py --out FOLDER --competitors eager,inductor,max,autofuse,quack,liger
    python benchmarks/gpu/run.py --out FOLDER --device cpu --tiny --competitors eager

The files in ``--out`` (one per set) have one line per row.  A row with an answer from every competitor is not measured
again without ``--again``, so a set can be spread over several runs, and, with ``--share K/N`` and separate folders,
over several cards (CUDA_VISIBLE_DEVICES).  All competitors of a row are measured in one process.  A process that dies,
or that takes longer than ``--row-seconds`` for a competitor, is replaced, and the row is recorded as failed there.
``--warm N`` compiles in N processes before timing: 12 for small inputs, 3 for KernelBench.  ``TORCHINDUCTOR_CACHE_DIR``
and ``TRITON_CACHE_DIR`` keep compiled kernels between runs.  Needs torch, triton and NumPy, and autofuse on the path
for its columns.  ``report.py`` writes the page of a folder, or of files archived with
``benchmarks/results/archive.py add h100 gpu/sweep.jsonl=FOLDER/sweep.jsonl``.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from records import INDUCTORS, OURS, Record, append, of_roof, ratio, read, time_of
from torch._inductor.runtime.cache_dir_utils import cache_dir
from worker import parser

_WORKER = Path(__file__).with_name("worker.py")
#: Polling interval for a worker, in seconds.
_LOOK_S = 0.25


def main() -> int:
    """Measure the requested rows and print a table."""
    options = parser()
    options.description = (__doc__ or "").partition("\n")[0]
    options.add_argument("--seconds", type=float, default=math.inf, help="start no row after this")
    options.add_argument("--row-seconds", type=float, default=150.0, help="limit of a competitor")
    options.add_argument("--warm", type=int, default=0, help="processes that compile beforehand")
    options.add_argument("--warm-seconds", type=float, default=120.0, help="limit of these")
    options.add_argument("--again", action="store_true", help="also rows that are done")
    args = options.parse_args()
    began = time.time()
    since = began if args.again else args.since
    passed = [
        *(f"--set={','.join(args.set)}", f"--rows={','.join(args.rows)}"),
        *(f"--competitors={','.join(args.competitors)}", f"--out={args.out}"),
        *(f"--device={args.device}", f"--target={args.target}", f"--seed={args.seed}"),
        *(f"--since={since}", f"--until={min(args.until, began + args.seconds)}"),
        f"--share={args.share[0]}/{args.share[1]}",
        f"--draw={'/'.join(map(str, args.draw))}",
        *(["--tiny"] if args.tiny else []),
    ]
    if args.warm:
        compiled(passed, args.warm, args.warm_seconds)
    current = args.out / "current.json"
    current.unlink(missing_ok=True)
    while (why := watched(passed, current, args.row_seconds)) is not None:
        if not current.exists():
            print(f"the worker ended before the first row: {why}", file=sys.stderr)
            return 1
        append(args.out, lost(json.loads(current.read_text()), args.competitors, why))
        current.unlink()
    found = [r for r in read(args.out, since) if r["set"] in args.set]
    print("\n".join(table(found, args.competitors)))
    return 0


def compiled(arguments: Sequence[str], count: int, limit_s: float) -> None:
    """Compile rows in parallel processes, into the caches of Inductor and Triton; each holds a row's inputs."""
    began = time.time()
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    command = [sys.executable, str(_WORKER), *arguments]
    parts = [
        subprocess.Popen([*command, f"--part={k}/{count}"], env=environment) for k in range(count)
    ]
    while any(p.poll() is None for p in parts) and time.time() < began + limit_s:
        time.sleep(_LOOK_S)
    for p in parts:
        p.kill()
    codes = [p.wait() for p in parts]
    # Chosen while other processes used the device.
    tuned = list(Path(cache_dir()).rglob("*.best_config"))
    for path in tuned:
        path.unlink(missing_ok=True)
    took = time.time() - began
    print(f"compiled in {took:.0f} s, exit codes {codes}; {len(tuned)} kernels to tune", flush=True)


def watched(arguments: Sequence[str], current: Path, limit_s: float) -> str | None:
    """Run a worker to its end; return None on success, else the error."""
    worker = subprocess.Popen([sys.executable, str(_WORKER), *arguments])
    while (code := worker.poll()) is None:
        time.sleep(_LOOK_S)
        try:
            noted = json.loads(current.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        if time.time() - noted["began"] > limit_s:
            worker.kill()
            worker.wait()
            return f"no end after {limit_s:.0f} s"
    return None if code == 0 else f"the process ended with {code}"


def lost(noted: Record, competitors: Sequence[str], why: str) -> Record:
    """Return the record of a row during which the process was lost."""
    record: Record = noted["record"]
    record["results"][noted["doing"]] = {"failed": why}
    for c in competitors:
        record["results"].setdefault(c, {"skipped": "not reached: the process was lost before"})
    return record


def table(found: Iterable[Record], competitors: Sequence[str]) -> list[str]:
    """Return the rows as lines: times in us, autofuse's fraction of the roof, and the ratios to Inductor."""
    ours = next((c for c in OURS if c in competitors), OURS[0])
    head = f"{'row':44} {'roof':>8}" + "".join(f"{c:>10}" for c in competitors)
    lines = [head + f"{'of roof':>9}{'/default':>9}{'/better':>9}"]
    for r in found:
        times = "".join(_cell(time_of(r, c), 10, ".1f") for c in competitors)
        own = _cell(of_roof(r, ours), 9, ".2f")
        against = (ratio(r, "inductor", own=ours), ratio(r, *INDUCTORS, own=ours))
        ratios = "".join(_cell(a, 9, ".2f") for a in against)
        lines.append(f"{r['name'][:44]:44} {r['roof_us']:8.1f}{times}{own}{ratios}")
    return lines


def _cell(value: float | None, width: int, form: str) -> str:
    return f"{'-' if value is None else format(value, form):>{width}}"


if __name__ == "__main__":
    sys.exit(main())
