"""Compare the vector tasks of KernelBench at their published sizes with PyTorch in float64, on the card.

    python benchmarks/witness/tasks.py FOLDER [--rows PATTERN]...     needs PyTorch, but no card
    python benchmarks/witness/prebuild.py FOLDER
    python FOLDER/campaign.py FOLDER --out OUT --jobs 2 --devices 0,1 there: also PyTorch for the card

Tensors of 2^31 elements are too large for the twin and NumPy.  Data are generated on the card, the kernel uses them
there, and every element is compared with the task's function, computed in float64 by PyTorch: rows and oracle are those
of ``benchmarks/gpu``.  The error of PyTorch's own float32 is shown next to the kernel's.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packed import PackedCase, PackedLibrary, PackedRun, read_binary, read_case, write_case

HERE = Path(__file__).resolve().parent
_GPU = next(p for p in (HERE / "gpu", HERE.parent / "gpu") if p.is_dir())
sys.path.insert(0, str(_GPU))

TASKS = "tasks.json"
_SET, _SEED = "kernelbench", 2026
#: Maximum number of templates to run per task.
_KEYS = 2
#: Errors up to the first value are rounding (in units of ``oracle.Oracle``), as are errors up to the second value times
#: those of PyTorch's float32.  Larger ones are shown: a sum in another order may be larger.  A sum of 4096 numbers that
#: lacks one is 1000 away.
_ROUNDING, _PEER = 4.0, 4.0
#: Results with larger errors are wrong, as for peers in ``benchmarks/gpu``.
_WRONG = 64.0
#: Initial value of every byte of outputs and workspaces: NaN.
_POISON = 0xFF


def about(folder: Path) -> dict[str, Any]:
    """Return the facts about the tasks of a folder.

    Returns:
        ``tiny``: True if their sizes are a few dozen; ``orders``: task -> the inputs of its kernel, in order.
    """
    path = folder / TASKS
    return json.loads(path.read_text()) if path.exists() else {"tiny": False, "orders": {}}


def pack(folder: Path, patterns: list[str], target: str, tiny: bool = False) -> Iterator[str]:
    """Pack tasks, yielding the outcome of each in words."""
    from competitors import NotOfferedError, graph_of
    from pack import copy_code, packed_files
    from rows import rows
    from torch._subclasses import FakeTensorMode

    from autofuse import api
    from autofuse.base.diagnostics import AutofuseError
    from autofuse.machines.twin.run.compile import QUICK, compile_kernel
    from autofuse.machines.twin.run.kernel import TwinKernel

    copy_code(folder)
    known = about(folder)["orders"]
    for row in rows((_SET,), patterns):
        if row.name in known:
            continue
        start = time.perf_counter()
        try:
            with FakeTensorMode():
                case = row.case("cpu", _SEED, tiny)
            graph, order = graph_of(case)
            built = api.build(graph, target=target)
            library = compile_kernel(built.files, built.graph.name, opt=QUICK)
            kernel = TwinKernel(library, built.graph)
            runs = list(_runs(kernel))
        except (AutofuseError, NotOfferedError) as e:
            yield f"{row.name}: left out: {e}"
            continue
        code = packed_files(built.files, built.graph.name)
        write_case(folder, PackedCase(row.name, built.graph, code, kernel.key_count, runs))
        known[row.name] = order
        (folder / TASKS).write_text(json.dumps({"tiny": tiny, "orders": known}))
        yield f"{row.name}: {len(runs)} runs, {time.perf_counter() - start:.1f} s"


def _runs(kernel: Any) -> Iterator[PackedRun]:
    """Yield a run of the chosen template, then one of another template that accepts the sizes."""
    from autofuse.machines.twin.run.native import StatusError

    chosen = kernel.library.tiling([]).key
    others = [k for k in range(kernel.key_count) if k != chosen]
    found = 0
    for key in (chosen, *others):
        try:
            tiling = kernel.library.tiling([], key)
        except StatusError as e:
            if e.not_applicable:
                continue
            raise
        yield PackedRun({}, key, _SEED, tiling, "", {})
        found += 1
        if found == _KEYS:
            return


def run_task(folder: Path, name: str, device: int, timeout: float = 30.0) -> dict[str, Any]:
    """Execute all runs of a task in this process, and return a row as in ``campaign.py``."""
    import torch
    from oracle import Oracle, call_of
    from rows import rows

    from autofuse.base.diagnostics import AutofuseError
    from autofuse.machines.witness.kernel import CudaKernel
    from autofuse.machines.witness.nvcc import source_digest

    start = time.perf_counter()
    packed, known, place = read_case(folder, name), about(folder), place_of(device)
    row: dict[str, Any] = {"name": name, "runs": []}
    if torch.cuda.is_available():
        torch.cuda.set_device(device)
        torch.cuda.init()
    try:
        library: Any = PackedLibrary(packed)
        image = read_binary(folder, name, source_digest(packed.files, packed.graph.name))
        row["compiled"] = image is None
        kernel = CudaKernel(
            packed.files,
            packed.graph,
            f"cuda:{device}",
            timeout=timeout,
            library=library,
            image=image,
        )
    except AutofuseError as e:
        return {**row, "failed": str(e.diagnostics[0].message)[:600]}
    row |= {"card": kernel.card.name, "made_s": round(time.perf_counter() - start, 2)}
    (task,) = (r for r in rows((_SET,)) if r.name == name)
    case = task.case(place, _SEED, known["tiny"])
    oracle = Oracle(case)
    peer = call_of(case.function, case)()
    specs = [(tuple(o.shape), o.dtype) for o in peer]
    peers = oracle.errors(peer)
    del peer
    inputs = [case.inputs[k].contiguous() for k in known["orders"][name]]
    for r in packed.runs:
        one: dict[str, Any] = {"symbols": {}, "key": r.key, "block_dim": r.tiling.block_dim}
        row["runs"].append(one)
        outputs = [_poisoned(torch, s, t, place) for s, t in specs]
        scratch = _poisoned(torch, (r.tiling.workspace + 64,), torch.uint8, place)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        began = time.perf_counter()
        try:
            kernel.queue(r.tiling, [t.data_ptr() for t in (*inputs, *outputs, scratch)])
            kernel.card.wait(timeout)
        except AutofuseError as e:
            one["failed"] = str(e.diagnostics[0].message)[:600]
            break
        one["s"] = round(time.perf_counter() - began, 4)
        found = oracle.errors(outputs)
        one["outputs"] = [
            _compared(o.numel(), e, p) for o, e, p in zip(outputs, found, peers, strict=True)
        ]
    row["s"] = round(time.perf_counter() - start, 2)
    del inputs, case, oracle
    gc.collect()
    torch.cuda.empty_cache()
    return row


def place_of(device: int) -> str:
    """Return PyTorch's name of a card."""
    return f"cuda:{device}"


def _poisoned(torch: Any, shape: tuple[int, ...], dtype: Any, place: str) -> Any:
    count = max(math.prod(shape) * dtype.itemsize, 1)
    flat = torch.full((count,), _POISON, dtype=torch.uint8, device=place)
    return flat.view(dtype).reshape(shape) if math.prod(shape) else flat[:0].view(dtype)


def _compared(elements: int, error: float, peer: float) -> dict[str, Any]:
    """Return an output's comparison in the format of ``campaign.py``, without a true count of wrong elements."""
    out = {"elements": elements, "wrong": int(not error <= _WRONG), "ulp": 0.0, "ill": 0}
    out["far"] = not error <= max(_ROUNDING, _PEER * peer)
    # JSON has no infinity.
    out |= {"error": min(error, sys.float_info.max), "peer": min(peer, sys.float_info.max)}
    if out["far"]:
        out["first"] = f"error {error:.3g} roundings, PyTorch's float32 has {peer:.3g}"
    return out


def main(argv: list[str] | None = None) -> int:
    """Run the script and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--tiny", action="store_true", help="sizes of a few dozens")
    parser.add_argument("--target", default="ascend910b1")
    args = parser.parse_args(argv)
    for said in pack(args.folder, args.rows, args.target, args.tiny):
        print(said, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
