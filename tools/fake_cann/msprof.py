"""``msprof`` of the fake CANN: run a program and write the operator table of its launches.

``msprof --output=DIR [--application="PROGRAM WORDS"] [PROGRAM WORDS...]``; other options are accepted without effect.
"""

from __future__ import annotations

import csv
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = (
    "Device_id",
    "Task ID",
    "Stream ID",
    "Op Name",
    "OP Type",
    "Task Type",
    "Task Start Time(us)",
    "Task Duration(us)",
    "Task Wait Time(us)",
    "Block Dim",
    "aiv_time(us)",
    "aiv_vec_time(us)",
    "aiv_vec_ratio",
    "aiv_scalar_time(us)",
    "aiv_scalar_ratio",
    "aiv_mte2_time(us)",
    "aiv_mte2_ratio",
    "aiv_mte3_time(us)",
    "aiv_mte3_ratio",
    # No real profiler has this column: it tells import-msprof that these are not times of a chip.
    "autofuse fake",
)


def main(argv: list[str]) -> int:
    """Run as msprof."""
    output, program = Path.cwd(), []
    for i, word in enumerate(argv[1:], 1):
        if word.startswith("--output="):
            output = Path(word.partition("=")[2])
        elif word.startswith("--application="):
            program = shlex.split(word.partition("=")[2])
        elif not word.startswith("-"):
            program = argv[i:]
            break
    if not program:
        print("msprof: there is no application", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "launches"
        done = subprocess.run(program, env={**os.environ, "AUTOFUSE_FAKE_PROFILE": str(log)})
        lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    now = time.strftime("%Y%m%d%H%M%S")
    folder = output / f"PROF_000001_{now}_{os.getpid():08d}FAKE" / "mindstudio_profiler_output"
    folder.mkdir(parents=True)
    with (folder / f"op_summary_{now}.csv").open("w", newline="", encoding="utf-8") as f:
        table = csv.writer(f)
        table.writerow(COLUMNS)
        for i, line in enumerate(lines):
            table.writerow(row(i, line))
    print(f"msprof of the fake CANN: {len(lines)} launches, in {folder}")
    return done.returncode


def row(number: int, line: str) -> list[object]:
    """Return a launch recorded by the runtime as a row of the table."""
    name, device, start, duration, cores, *pipes = line.split("\t")
    us = float(duration)
    scalar, vec, mte2, mte3 = (min(float(p), us) for p in pipes)
    parts = [
        x for p in (vec, scalar, mte2, mte3) for x in (f"{p:.3f}", f"{p / us if us else 0.0:.3f}")
    ]
    head = [device, number, 0, name, name, "AI_VECTOR_CORE", start, duration, 0, cores]
    return [*head, f"{us:.3f}", *parts, 1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
