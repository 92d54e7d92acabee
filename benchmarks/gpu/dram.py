"""Compare the DRAM traffic of the rows' kernels, counted by Nsight Compute, with the compulsory bytes.

    python benchmarks/gpu/dram.py --out FOLDER --set sweep,operators
    python benchmarks/gpu/dram.py --out FOLDER --rows softmax --seconds 300

Writes ``dram.json`` into ``--out``: device, versions, and for every row the compulsory bytes, and the kernels with
their bytes read and written.  L2 is flushed before every kernel; data that a kernel leaves in L2 (50 MB on an H100) is
not yet written.  Needs ``ncu`` on PATH and permission to read the card's counters.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from competitors import COMPETITORS
from measure import device_facts
from oracle import call_of
from rows import compulsory_bytes, rows
from worker import parser

from autofuse.machines.gpu.profiler import counters, part

FILE = "dram.json"
_METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")


def main() -> int:
    """Count the requested rows."""
    options = parser()
    options.description = (__doc__ or "").partition("\n")[0]
    options.add_argument("--seconds", type=float, default=math.inf, help="start no row after this")
    options.add_argument("--inside", type=Path, help="the file of rows: a process that ncu watches")
    args = options.parse_args()
    if args.inside:
        return profiled(args)
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "rows.jsonl"
        until = min(args.until, time.time() + args.seconds)
        script = str(Path(__file__).resolve())
        own = (script, *sys.argv[1:], f"--inside={listed}", f"--until={until}")
        parts = counters(own, _METRICS, Path(folder))
        done = [json.loads(line) for line in listed.read_text(encoding="utf-8").splitlines()]
    for row, kernels in zip(done, parts, strict=True):
        row["kernels"] = [
            {"name": k.name, "read": int(k.values[0]), "written": int(k.values[1])} for k in kernels
        ]
    document = {"run": device_facts(args.device) | {"time": time.time()}, "rows": done}
    text = json.dumps(document, indent=0) + "\n"
    args.out.joinpath(FILE).write_text(text, encoding="utf-8")
    print("\n".join(table(done)))
    return 0


def profiled(args: Any) -> int:
    """Run one counted call of every row, after an uncounted one."""
    torch._functorch.config.donated_buffer = False
    for row in rows(args.set, args.rows)[args.share[0] :: args.share[1]]:
        if time.time() > args.until:
            break
        torch._dynamo.reset()
        try:
            case = row.case(args.device, args.seed, args.tiny)
            call = call_of(COMPETITORS["autofuse"](row, case, args.target), case)
            results = call()
            torch.cuda.synchronize()
        except Exception as e:
            print(f"{row.name}: {type(e).__name__}: {e}", file=sys.stderr)
            continue
        entry = {
            "set": row.set,
            "name": row.name,
            "bytes": compulsory_bytes(row, case, results),
        }
        del results
        with part():
            call()
        with args.inside.open("a", encoding="utf-8") as f:
            f.write(json.dumps(entry) + "\n")
        print(row.name, file=sys.stderr, flush=True)
        del case, call
        torch.cuda.empty_cache()
    return 0


def moved(row: dict[str, Any]) -> int:
    """Return the bytes of all kernels of a row."""
    return sum(k["read"] + k["written"] for k in row["kernels"])


def table(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line per row: compulsory MB, and the ratio of moved to compulsory bytes."""
    yield f"{'row':48} {'MB':>9} {'kernels':>8} {'moved/compulsory':>17}"
    for r in found:
        ratio = moved(r) / r["bytes"]
        yield f"{r['name'][:48]:48} {r['bytes'] / 1e6:9.1f} {len(r['kernels']):8} {ratio:17.3f}"


if __name__ == "__main__":
    sys.exit(main())
