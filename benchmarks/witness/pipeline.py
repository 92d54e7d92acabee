"""Test the cost model's pipes, buffers and tails on a card: times of Ascend C kernels against the model.

    python benchmarks/witness/pipeline.py pack FOLDER [--jobs 2]                       here: kernels, tilings, binaries
    python FOLDER/pipeline.py run FOLDER --out OUT [--devices 0,1] [--seconds 150]     there: Python, NumPy, ml_dtypes
    python benchmarks/witness/pipeline.py table OUT/times.jsonl                        here: tables in Markdown

Microbenchmarks, the kernels of ``autofuse silicon``, determine the figures of this machine: copies, vector calls,
barriers, starts.  From these alone the model predicts generated kernels, for many tiles and numbers of cores, with two
buffers per queue and with one.  Before each timed launch, more bytes are filled than L2 holds.  A row of
``times.jsonl`` is one kernel; an interrupted run resumes where it stopped.  Exit status 1 if a kernel failed or is
wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if (HERE / "project").is_dir():
    sys.path.insert(0, str(HERE / "project"))

#: Elements up to which results are compared with NumPy; larger ones with the first tiling of the same sizes.
_NUMPY = 1 << 18
#: Time limit in seconds for the launches of a kernel, and the number of timed launches.
_TIMEOUT, _REPEATS = 10.0, 15


def pack(folder: Path, jobs: int) -> None:
    """Write kernels, tilings and binaries, and ``plan.json``, which describes each run of a case."""
    from concurrent.futures import ThreadPoolExecutor

    from pack import copy_code, packed_files
    from packed import PackedCase, PackedRun, names_in, write_case
    from pipeline_kernels import machine, packed_tiling, single_like, subjects, tilings_of
    from prebuild import compile_case

    from autofuse.machines.twin.run.native import Tiling
    from autofuse.measure.calibration.cases import calibration_cases
    from autofuse.measure.calibration.folder import program_files, program_graph
    from autofuse.measure.calibration.programs import PROGRAMS

    plan: dict[str, list[dict[str, Any]]] = {}
    copy_code(folder)
    cases = [(c.program, c.name, dict(c.parameters)) for c in calibration_cases(machine())]
    for program in sorted({p for p, _, _ in cases}):
        name = f"cal_{program}"
        about = [{"micro": c, "sizes": s} for p, c, s in cases if p == program]
        sizes = [a["sizes"] for a in about]
        plan[name] = about
        p = PROGRAMS[program]
        runs = [
            PackedRun(s, k, 0, Tiling(_of_program(p, s), 0, s["cores"]), "", {})
            for k, s in enumerate(sizes)
        ]
        code = packed_files(program_files(p, machine()), p.kernel)
        write_case(folder, PackedCase(name, program_graph(p), code, len(runs), runs))
    known: dict[str, list[Any]] = {}
    for subject in subjects():
        built = subject.build()
        about, runs = [], []
        for sizes in subject.sizes():
            label = f"{built.graph.name} {sizes}"
            if subject.single:
                given = single_like(built, known[label], sizes)
            else:
                given = known[label] = tilings_of(built, sizes, subject.name)
            for t in given:
                tiling = packed_tiling(built, t, sizes)
                runs.append(PackedRun(sizes, len(runs), 0, tiling, "", {}))
                groups = [[g.template, g.tile, g.cores] for g in t.groups]
                about.append({"sizes": sizes, "groups": groups, "cores": tiling.block_dim})
        plan[subject.name] = about
        code = packed_files(built.files, built.graph.name)
        write_case(folder, PackedCase(subject.name, built.graph, code, len(runs), runs))
    (folder / "plan.json").write_text(json.dumps(plan))
    with ThreadPoolExecutor(jobs) as pool:
        for said in pool.map(lambda n: compile_case(folder, n), names_in(folder)):
            print(said, flush=True)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{sum(map(len, plan.values()))} kernels, {size / (1 << 20):.1f} MiB")


def _of_program(program: Any, sizes: Mapping[str, int]) -> bytes:
    """Return the tiling data of a microbenchmark: key, cores, sizes."""
    import struct

    values = [sizes[p.name] for p in program.parameters]
    return struct.pack(f"<II{len(values)}q", 0, sizes["cores"], *values)


def kernel_of(folder: Path, name: str, device: int) -> Any:
    """Return a packed kernel on a card, with the run numbers as keys, and its case."""
    from packed import PackedLibrary, read_binary, read_case

    from autofuse.machines.witness.kernel import CudaKernel
    from autofuse.machines.witness.nvcc import source_digest

    case = read_case(folder, name)
    image = read_binary(folder, name, source_digest(case.files, case.graph.name))
    library: Any = PackedLibrary(case)
    files, graph = case.files, case.graph
    return case, CudaKernel(
        files, graph, f"cuda:{device}", timeout=_TIMEOUT, library=library, image=image
    )


def serve(folder: Path, out: Path, device: int, share: str, seconds: float) -> None:
    """Time the kernels of a share of the cases without a row, until one fails or the time is over."""
    import numpy as np

    from autofuse.base.diagnostics import AutofuseError
    from autofuse.machines.twin.oracle.data import random_inputs
    from autofuse.machines.twin.oracle.oracle import evaluate
    from autofuse.measure.calibration.programs import PROGRAMS

    end = time.monotonic() + seconds
    plan = json.loads((folder / "plan.json").read_text())
    done = {(r["case"], r["run"]) for r in read_rows(out)}
    mine, of = map(int, share.split("/"))
    names = sorted(plan, key=lambda n: (not n.startswith("cal_"), n.removesuffix("_single")))
    for name in names[mine::of]:
        wanted = [k for k in range(len(plan[name])) if (name, k) not in done]
        if not wanted:
            continue
        case, kernel = kernel_of(folder, name, device)
        program = PROGRAMS.get(name.removeprefix("cal_")) if name.startswith("cal_") else None
        label, inputs, reference = "", {}, {}
        for k in wanted:
            if time.monotonic() > end:
                return
            about = plan[name][k]
            sizes = about["sizes"]
            row = {"case": name, "run": k, **about, "card": kernel.card.name}
            if label != str(sizes):
                label, reference = str(sizes), {}
                if program is None:
                    inputs = random_inputs(case.graph, sizes, 0)
                    small = all(x.size <= _NUMPY for x in inputs.values())
                    found = evaluate(case.graph, inputs, sizes) if small else {}
                    reference = {n: _values(v.value) for n, v in found.items()}
                else:
                    source = program.input(sizes)
                    inputs = {n: source for n in program.inputs}
            try:
                run = kernel.run({n: x.copy() for n, x in inputs.items()}, symbols=sizes, key=k)
                times = kernel.time(
                    inputs, warm_up=1, repeats=_REPEATS, clear=True, symbols=sizes, key=k
                )
            except AutofuseError as e:
                write_row(out, {**row, "failed": str(e)[:300]})
                os._exit(1)  # this process cannot use the card any more
            if program is not None:
                right = program.is_right(run.outputs["y"], source, sizes)
            else:
                with np.errstate(all="ignore"):
                    results = {n: _values(x) for n, x in run.outputs.items()}
                    reference = reference or results
                    right = all(_close(x, reference[n]) for n, x in results.items())
            us = [round(t, 2) for t in times]
            write_row(out, {**row, "us": us} | ({} if right else {"wrong": True}))


def _values(found: Any) -> Any:
    """Return some elements of a result, or all of a small one."""
    import numpy as np

    flat = np.asarray(found).reshape(-1)
    return flat[:: 1 if flat.size <= _NUMPY else 13].astype(np.float64)


def _close(a: Any, b: Any) -> bool:
    """Return True if results roughly agree, enough to trust a launch; a campaign compares bit by bit."""
    import numpy as np

    largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)
    same = np.isclose(a, b, rtol=2e-2, atol=1e-3 * largest, equal_nan=True)
    return bool(same.mean() > 0.999)


def read_rows(out: Path) -> list[dict[str, Any]]:
    """Return the rows of a folder of results."""
    place = out / "times.jsonl"
    return [json.loads(x) for x in place.read_text().splitlines()] if place.exists() else []


def write_row(out: Path, row: Mapping[str, Any]) -> None:
    """Append a row in a single write, because several processes do."""
    with (out / "times.jsonl").open("a") as f:
        f.write(json.dumps(row) + "\n")


def run(folder: Path, out: Path, devices: Sequence[int], seconds: float) -> int:
    """Time everything with a process per card; one that ends early is replaced as long as it adds rows."""
    out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    left = dict(enumerate(devices))
    while left and time.monotonic() - start < seconds:
        before = len(read_rows(out))
        rest = str(seconds - (time.monotonic() - start))
        command = [
            sys.executable,
            str(HERE / "pipeline.py"),
            "serve",
            str(folder),
            "--out",
            str(out),
        ]
        working = {
            k: subprocess.Popen(
                [*command, "--devices", str(d), "--share", f"{k}/{len(devices)}", "--seconds", rest]
            )
            for k, d in left.items()
        }
        left = {k: devices[k] for k, p in working.items() if p.wait() != 0}
        if len(read_rows(out)) == before:
            break
    rows = read_rows(out)
    plan = json.loads((folder / "plan.json").read_text())
    bad = [r for r in rows if "us" not in r or r.get("wrong")]
    for r in bad:
        print(
            f"{'WRONG' if r.get('wrong') else 'FAILED'} {r['case']} {r['run']}: {r.get('failed', '')}"
        )
    missing = sum(map(len, plan.values())) - len(rows)
    print(f"{len(rows)} kernels, {len(bad)} bad, {missing} left, {time.monotonic() - start:.0f} s")
    return 1 if bad or missing else 0


def main(argv: list[str] | None = None) -> int:
    """Run the script and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("pack", "run", "table", "serve"))
    parser.add_argument("path", type=Path, help="the folder, or the file of results")
    parser.add_argument("--out", type=Path, help="folder of results")
    parser.add_argument("--devices", default="0", metavar="N,N", help="cards, by index")
    parser.add_argument("--seconds", type=float, default=150.0, help="time no kernel after these")
    parser.add_argument("--jobs", type=int, default=1, help="compilers at a time")
    parser.add_argument("--share", default="0/1", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    out = args.out or args.path / "out"
    if args.what == "pack":
        pack(args.path, args.jobs)
    elif args.what == "table":
        from pipeline_table import tables

        print(tables([json.loads(x) for x in args.path.read_text().splitlines()]))
    elif args.what == "serve":
        serve(args.path, out, int(args.devices), args.share, args.seconds)
        os._exit(0)  # no need to free held memory
    else:
        return run(args.path, out, [int(d) for d in args.devices.split(",")], args.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
