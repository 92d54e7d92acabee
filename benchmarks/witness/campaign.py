"""Run packed Ascend C kernels on a card, and compare every element with NumPy and with the twin.

    python campaign.py FOLDER --out OUT [--jobs 16] [--devices 0,1] [--only NAME]... [--seconds 500]

FOLDER is the output of pack.py.  Processes take one graph after the other: they compile the kernel with nvcc, unless
prebuild.py did, generate the data from seeds, execute every packed run, and compare with the reference of the registry
(float64 per op, with an error bound) and with the checksums of the twin's results.  OUT gets ``results.jsonl``, a row
per graph, and a table; an interrupted campaign resumes where it stopped.  Exit status 0 if every graph ran, no element
is wrong, none differs from the twin, and the data equal the twin's.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if (HERE / "project").is_dir():
    sys.path.insert(0, str(HERE / "project"))

#: Time limit per graph in seconds, including compilation.
_LIMIT = 240


def run_case(
    folder: Path, name: str, device: int, repeats: int = 1, timeout: float = 30.0
) -> dict[str, Any]:
    """Execute all runs of a graph in this process, each ``repeats`` times."""
    from tasks import TASKS, run_task

    if (folder / TASKS).exists():
        return run_task(folder, name, device, timeout)
    import numpy as np
    from packed import PackedLibrary, digest_of, group_of, read_binary, read_case, sums_of

    from autofuse.base.diagnostics import AutofuseError
    from autofuse.machines.twin.oracle.compare import compare
    from autofuse.machines.twin.oracle.data import random_inputs
    from autofuse.machines.twin.oracle.oracle import evaluate
    from autofuse.machines.witness.kernel import CudaKernel
    from autofuse.machines.witness.nvcc import source_digest

    start = time.perf_counter()
    case = read_case(folder, name)
    row: dict[str, Any] = {"name": name, "runs": []}
    try:
        library: Any = PackedLibrary(case)
        image = read_binary(folder, name, source_digest(case.files, case.graph.name))
        row["compiled"] = image is None
        kernel = CudaKernel(
            case.files, case.graph, f"cuda:{device}", timeout=timeout, library=library, image=image
        )
    except AutofuseError as e:
        return {**row, "failed": _said(e)}
    row |= {"card": kernel.card.name, "made_s": round(time.perf_counter() - start, 2)}
    known: dict[str, Any] = {}
    for r in (r for r in case.runs for _ in range(repeats)):
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
        if r.inputs and digest_of(inputs) != r.inputs:
            about["other_data"] = True
        given = {n: a.copy() for n, a in inputs.items()}
        try:
            began = time.perf_counter()
            done = kernel.run(given, symbols=r.symbols, key=r.key, cores=r.cores)
            about["s"] = round(time.perf_counter() - began, 4)
        except AutofuseError as e:
            # A failed kernel destroys the card's context.
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


class Worker:
    """A process that runs one graph after another on a card, and is replaced when a kernel fails in it.

    Args:
        folder: folder of the packed campaign.
        device: index of the card.
        cache: folder for binaries.
        options: command-line options passed on to it.
    """

    def __init__(self, folder: Path, device: int, cache: Path, options: Sequence[str]) -> None:
        self._cmd = [sys.executable, str(Path(__file__).resolve()), str(folder)]
        self._cmd += ["--serve", "--device", str(device), *options]
        self._env = {**os.environ, "AUTOFUSE_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
        self._process: subprocess.Popen[str] | None = None
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the object

    def run(self, name: str) -> dict[str, Any]:
        """Return the row of a graph."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._cmd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                env=self._env,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()
        clock = threading.Timer(_LIMIT, lambda: (late.set(), process.kill()))
        clock.start()
        try:
            process.stdin.write(name + "\n")
            process.stdin.flush()
            found: dict[str, Any] = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            self._process = None
            status = process.wait()
            why = f"takes more than {_LIMIT} s" if late.is_set() else self._last(status)
            return {"name": name, "runs": [], "failed": why}
        finally:
            clock.cancel()
        if found.get("failed") or any(r.get("failed") for r in found["runs"]):
            self.close()
        return found

    def _last(self, status: int) -> str:
        self._said.seek(0)
        said = (self._said.read().strip().splitlines() or ["nothing"])[-3:]
        return f"exit status {status}: {' / '.join(said)}"[:600]

    def close(self) -> None:
        """Kill the process, which would not end by itself if its card hangs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def serve(folder: Path, device: int, repeats: int, timeout: float) -> None:
    """Serve as a worker: names of cases in, rows out."""
    for line in sys.stdin:
        print(json.dumps(run_case(folder, line.strip(), device, repeats, timeout)), flush=True)


def table(rows: Iterable[Mapping[str, Any]]) -> tuple[str, bool]:
    """Return the counts as text, and True if nothing is wrong."""
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
            far = [o for o in r.get("outputs", ()) if o.get("far") and not o["wrong"]]
            if far:
                lines.append(f"FAR {row['name']} key {r['key']}: {far[0]['first']}")
        if row.get("failed"):
            lines.append(f"FAILED {row['name']}: {row['failed']}")
        differ = [o for r in row["runs"] for o in r.get("outputs", ()) if o.get("differ")]
        if differ:
            total = sum(o["differ"] * o["group"] for o in differ)
            lines.append(
                f"DIFFERS {row['name']}: {total} elements at most of {len(differ)} outputs"
            )
    differ = any(o["differ"] for o in beside) or any(r.get("other_data") for r in runs)
    return "\n".join(lines), not (wrong or failed or differ)


def main(argv: list[str] | None = None) -> int:
    """Run the script and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    kept = "folder of the results; benchmarks/results/archive.py add keeps its files"
    parser.add_argument("--out", type=Path, help=kept)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--devices", default="0", metavar="N,N", help="cards, by index")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=500.0, help="begin no graph after these")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "autofuse-witness"
    )
    parser.add_argument("--repeats", type=int, default=1, help="of every run")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds of a launch")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--device", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.serve:
        serve(args.folder, args.device, args.repeats, args.timeout)
        os._exit(0)  # a hanging card would keep the process alive
    from packed import longest_first, names_in

    out = args.out or args.folder / "out"
    out.mkdir(parents=True, exist_ok=True)
    results = out / "results.jsonl"
    rows = [json.loads(x) for x in results.read_text().splitlines()] if results.exists() else []
    done = {row["name"] for row in rows}
    there = names_in(args.folder)
    names = [n for n in there if n not in done and (not args.only or n in args.only)]
    names = longest_first(args.folder, names)
    start = time.monotonic()
    cards = [int(d) for d in args.devices.split(",")]
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    options = ["--repeats", str(args.repeats), "--timeout", str(args.timeout)]
    workers = [
        Worker(args.folder.resolve(), cards[i % len(cards)], args.cache, options)
        for i in range(args.jobs)
    ]
    for w in workers:
        idle.put(w)

    def one(name: str) -> dict[str, Any] | None:
        if time.monotonic() - start > args.seconds:
            return None
        worker = idle.get()
        try:
            return worker.run(name)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(args.jobs) as pool, results.open("a") as f:
        for job in as_completed([pool.submit(one, n) for n in names]):
            row = job.result()
            if row is not None:
                rows.append(row)
                f.write(json.dumps(row) + "\n")
                f.flush()
    for w in workers:
        w.close()
    text, ok = table(rows)
    left = len(there) - len(rows)
    text += f"\nleft                 {left}\nseconds              {time.monotonic() - start:.0f}\n"
    (out / "table.txt").write_text(text)
    print(text)
    return 0 if ok and not (left and not args.only) else 1


if __name__ == "__main__":
    sys.exit(main())
