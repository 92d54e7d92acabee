"""Compile packed kernels on a machine with nvcc but without a card, ahead of a campaign.

    python benchmarks/witness/prebuild.py FOLDER [--jobs 1] [--seconds 3600]

FOLDER is the output of pack.py, which may still be running.  Each binary is stored with a digest of its sources and the
headers; a stale one is compiled again, here or by campaign.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packed import longest_first, names_in, read_binary, read_case, write_binary

from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.witness.nvcc import compile_for_card, source_digest


def compile_case(folder: Path, name: str) -> str:
    """Compile a case if needed and return the outcome in words."""
    case = read_case(folder, name)
    digest = source_digest(case.files, case.graph.name)
    if read_binary(folder, name, digest) is not None:
        return ""
    start = time.perf_counter()
    try:
        binary = compile_for_card(case.files, case.graph.name)
    except AutofuseError as e:
        return f"{name}: {e}"
    write_binary(folder, name, digest, binary)
    return f"{name}: {len(binary)} bytes, {time.perf_counter() - start:.1f} s"


def main(argv: list[str] | None = None) -> int:
    """Run the script and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin none after these")
    args = parser.parse_args(argv)
    start = time.monotonic()

    def one(name: str) -> str:
        late = time.monotonic() - start > args.seconds
        return "" if late else compile_case(args.folder, name)

    with ThreadPoolExecutor(args.jobs) as pool:
        for said in pool.map(one, longest_first(args.folder, names_in(args.folder))):
            if said:
                print(said, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
