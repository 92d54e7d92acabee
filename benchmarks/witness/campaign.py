"""Run packed kernels of Ascend C on a card, and compare every element with NumPy and with the twin.

    python campaign.py FOLDER --out OUT [--jobs 16] [--device 0] [--only NAME]... [--seconds 500]

FOLDER is what pack.py made.  Each graph is a process of its own: it compiles the kernel with nvcc, makes the data from
their seeds, runs every packed run, and compares with the reference of the registry (float64 per op, with a bound of
the error) and with the checksums of what the twin gave.  OUT gets ``results.jsonl``, a row per graph, and a table; a
campaign that was ended goes on where it was.  Exit status 0 if nothing is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if (HERE / "project").is_dir():
    sys.path.insert(0, str(HERE / "project"))

#: Seconds that a graph may take, compiling included.
_LIMIT = 240


def run_case(folder: Path, name: str, device: int) -> dict[str, Any]:
    """All runs of a graph, in this process."""
    import numpy as np
    from packed import PackedLibrary, digest_of, group_of, read_case, sums_of

    from autofuse.base.diagnostics import AutofuseError
    from autofuse.twin.oracle.compare import compare
    from autofuse.twin.oracle.data import random_inputs
    from autofuse.twin.oracle.oracle import evaluate
    from autofuse.witness.kernel import CudaKernel

    start = time.perf_counter()
    case = read_case(folder, name)
    row: dict[str, Any] = {"name": name, "runs": []}
    try:
        library: Any = PackedLibrary(case)
        kernel = CudaKernel(case.files, case.graph, f"cuda:{device}", timeout=30, library=library)
    except AutofuseError as e:
        return {**row, "failed": _said(e)}
    row |= {"card": kernel.card.name, "made_s": round(time.perf_counter() - start, 2)}
    known: dict[str, Any] = {}
    for r in case.runs:
        about: dict[str, Any] = {
            "symbols": r.symbols,
            "key": r.key,
            "block_dim": r.tiling.block_dim,
        }
        row["runs"].append(about)
        label = json.dumps([r.symbols, r.seed], sort_keys=True)
        if label not in known:
            inputs = random_inputs(case.graph, r.symbols, r.seed)
            known = {label: (inputs, evaluate(case.graph, inputs, r.symbols))}
        inputs, references = known[label]
        if digest_of(inputs) != r.inputs:
            about["other_data"] = True
        given = {n: a.copy() for n, a in inputs.items()}
        try:
            began = time.perf_counter()
            done = kernel.run(given, symbols=r.symbols, key=r.key)
            about["s"] = round(time.perf_counter() - began, 4)
        except AutofuseError as e:
            # The context of the card is lost with a kernel that fails.
            about["failed"] = _said(e)
            break
        about["outputs"] = []
        for o in case.graph.outputs:
            got = done.outputs[o.name]
            c = compare(o.name, got, references[o.name], case.graph.tensors[o.tensor].dtype)
            out = {
                "elements": c.elements,
                "wrong": c.wrong,
                "ulp": c.max_ulp,
                "ill": c.ill_conditioned,
            }
            if c.wrong:
                out["first"] = f"{c.first}: {c.got}, expected {c.want} within {c.tolerance:.3g}"
            twin = r.twin.get(o.name)
            if twin is not None and not about.get("other_data"):
                here = np.array(sums_of(got), dtype=np.uint32)
                out["differ"] = int(np.count_nonzero(here != np.array(twin, dtype=np.uint32)))
                out["group"] = group_of(got.size)
                out["beside"] = c.elements
            about["outputs"].append(out)
    row["s"] = round(time.perf_counter() - start, 2)
    return row


def _said(e: Any) -> str:
    d = e.diagnostics[0]
    return "; ".join((f"{d.code} {d.message}", *d.notes))[:600]


def run_apart(folder: Path, name: str, device: int, cache: Path) -> dict[str, Any]:
    """The same in another process, whose end does no harm."""
    cmd = [sys.executable, str(Path(__file__).resolve()), str(folder), "--one", name]
    env = {**os.environ, "AUTOFUSE_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*cmd, "--device", str(device)], capture_output=True, text=True, timeout=_LIMIT, env=env
        )
    except subprocess.TimeoutExpired:
        return {"name": name, "runs": [], "failed": f"takes more than {_LIMIT} s"}
    last = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        found: dict[str, Any] = json.loads(last[0])
        return found
    except ValueError:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-3:]
        return {
            "name": name,
            "runs": [],
            "failed": f"exit status {done.returncode}: {' / '.join(said)}"[:600],
        }


def table(rows: Iterable[Mapping[str, Any]]) -> tuple[str, bool]:
    """The counts as text, and whether nothing is wrong."""
    rows = list(rows)
    runs = [r for row in rows for r in row["runs"]]
    outputs = [o for r in runs for o in r.get("outputs", ())]
    beside = [o for o in outputs if "differ" in o]
    failed = [row["name"] for row in rows if row.get("failed")]
    failed += [row["name"] for row in rows if any(r.get("failed") for r in row["runs"])]
    wrong = sum(o["wrong"] for o in outputs)
    lines = [
        f"graphs               {len(rows)}",
        f"graphs that failed   {len(failed)}",
        f"runs                 {len(runs)}",
        f"elements             {sum(o['elements'] for o in outputs)}",
        f"wrong                {wrong}",
        f"ill-conditioned      {sum(o['ill'] for o in outputs)}",
        f"largest difference   {max((o['ulp'] for o in outputs), default=0.0):.3g} ulp of the reference",
        f"beside the twin      {sum(o['beside'] for o in beside)} elements of {len(beside)} outputs",
        f"outputs that differ  {sum(o['differ'] > 0 for o in beside)}",
        f"elements that differ {sum(o['differ'] * o['group'] for o in beside)} at most",
        f"runs with other data {sum(bool(r.get('other_data')) for r in runs)}",
    ]
    for row in rows:
        for r in row["runs"]:
            bad = [o for o in r.get("outputs", ()) if o["wrong"]]
            if bad:
                lines.append(
                    f"WRONG {row['name']} key {r['key']} {r['symbols']}: {bad[0]['wrong']} of "
                    f"{bad[0]['elements']}, first {bad[0]['first']}"
                )
            if r.get("failed"):
                lines.append(f"FAILED {row['name']} key {r['key']} {r['symbols']}: {r['failed']}")
        if row.get("failed"):
            lines.append(f"FAILED {row['name']}: {row['failed']}")
        differ = [o for r in row["runs"] for o in r.get("outputs", ()) if o.get("differ")]
        if differ:
            total = sum(o["differ"] * o["group"] for o in differ)
            lines.append(
                f"DIFFERS {row['name']}: {total} elements at most of {len(differ)} outputs"
            )
    return "\n".join(lines), not wrong and not failed


def main(argv: list[str] | None = None) -> int:
    """Run the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=500.0, help="begin no graph after these")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "autofuse-witness"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.one:
        print(json.dumps(run_case(args.folder, args.one, args.device)), flush=True)
        os._exit(0)  # a card that hangs would not let the process end
    from packed import names_in

    out = args.out or args.folder / "out"
    out.mkdir(parents=True, exist_ok=True)
    results = out / "results.jsonl"
    rows = [json.loads(x) for x in results.read_text().splitlines()] if results.exists() else []
    done = {row["name"] for row in rows}
    names = [
        n for n in names_in(args.folder) if n not in done and (not args.only or n in args.only)
    ]
    start = time.monotonic()

    def one(name: str) -> dict[str, Any] | None:
        if time.monotonic() - start > args.seconds:
            return None
        return run_apart(args.folder.resolve(), name, args.device, args.cache)

    with ThreadPoolExecutor(args.jobs) as pool, results.open("a") as f:
        for row in pool.map(one, names):
            if row is not None:
                rows.append(row)
                f.write(json.dumps(row) + "\n")
                f.flush()
    text, ok = table(rows)
    left = len(names_in(args.folder)) - len(rows)
    text += f"\nleft                 {left}\nseconds              {time.monotonic() - start:.0f}\n"
    (out / "table.txt").write_text(text)
    print(text)
    return 0 if ok and not (left and not args.only) else 1


if __name__ == "__main__":
    sys.exit(main())
