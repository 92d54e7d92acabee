"""Time C++ loops against Inductor's C++ and NumPy, on this machine.

    python benchmarks/cpu/run.py [--threads N] [--corpus N] [--only TEXT] [--out FILE.json]

The graphs are those of ``examples/gallery`` at their typical sizes, and ``--corpus`` many of AKG's at their own.  Every
call gets the same inputs and allocates its outputs.  The implementations take turns, and the minimum time of each
counts.  NumPy computes the graph op by op with the references of the registry, in the dtypes of the graph, with one
thread.  Ratios are Inductor's time over that of the loops: above 1 the loops are faster.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus" / "akg"
#: Range of elements of the largest tensor in measured corpus graphs.
_ELEMENTS = (1 << 18, 1 << 24)
#: Number of turns, and minimum seconds per turn.
_TURNS, _TURN_S = 5, 0.05


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of one graph; None for an implementation without a call."""

    name: str
    elements: int
    loops_s: float
    inductor_s: float | None
    numpy_s: float | None
    differs: str = ""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--corpus", type=int, default=30, help="graphs of the corpus (default: 30)")
    parser.add_argument("--only", default="", help="graphs whose name has this text")
    parser.add_argument("--out", type=Path, help="a file for the rows")
    args = parser.parse_args()
    # Both OpenMP libraries read it at load time.
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch

    torch.set_num_threads(args.threads)
    # With one thread, use CPU time, which other load on the machine does not inflate.
    clock = time.thread_time if args.threads == 1 else time.perf_counter
    rows = []
    for name, graph in _graphs(args.corpus):
        if args.only in name:
            rows.append(_measured(name, graph, clock))
            print(_line(rows[-1]), flush=True)
    known = [math.log(r.inductor_s / r.loops_s) for r in rows if r.inductor_s is not None]
    about = {
        "cpu": _cpu(),
        "threads": args.threads,
        "clock": clock.__name__,
        "torch": torch.__version__,
    }
    if known:
        about["geometric_mean"] = round(math.exp(sum(known) / len(known)), 3)
    print(json.dumps(about))
    if args.out is not None:
        args.out.write_text(
            json.dumps({**about, "rows": [asdict(r) for r in rows]}, indent=1) + "\n"
        )
    return 0


def _graphs(corpus: int) -> Iterator[tuple[str, Any]]:
    from in_torch import UnknownOpError, function

    from autofuse import api
    from autofuse.base.diagnostics import AutofuseError
    from autofuse.machines.twin.oracle.sizes import largest_tensor

    for path in [
        ROOT / "examples" / "demo.json",
        *sorted((ROOT / "examples" / "gallery").glob("*.json")),
    ]:
        yield path.stem, api.read(path)
    paths = sorted(CORPUS.rglob("*.json")) + sorted(CORPUS.rglob("*.info"))
    random.Random(0).shuffle(paths)
    kinds: set[tuple[str, ...]] = set()
    for path in paths:
        if len(kinds) == corpus:
            return
        try:
            graph = api.read(path)
            function(graph, {})
        except (AutofuseError, UnknownOpError):
            continue
        kind = tuple(n.op for n in graph.nodes)
        if kind not in kinds and _ELEMENTS[0] <= largest_tensor(graph, {}) <= _ELEMENTS[1]:
            kinds.add(kind)
            yield f"{path.parent.name} {path.stem[:40]}", graph


def _measured(name: str, graph: Any, clock: Callable[[], float]) -> Row:
    import torch
    from in_torch import function

    from autofuse.machines.twin.oracle.data import random_inputs
    from autofuse.machines.twin.oracle.sizes import largest_tensor

    sizes = {s.name: s.hint or min(max(s.min, 1024), s.max) for s in graph.symbols}
    inputs = random_inputs(graph, sizes, 0)
    calls: dict[str, Callable[[], Any]] = {"loops": _loops(graph, inputs, sizes)}
    tensors = [_tensor(inputs[x]) for x in graph.inputs]
    differs = ""
    # Dynamo limits the compilations of functions that share a code object.
    torch._dynamo.reset()
    compiled = torch.compile(function(graph, sizes), dynamic=False)
    with torch.no_grad():
        try:
            made = compiled(*tensors)
            calls["inductor"] = lambda: compiled(*tensors)
            differs = _difference(graph, calls["loops"](), made)
        except Exception as e:  # Inductor may raise anything
            differs = f"Inductor: {type(e).__name__}"
        calls["numpy"] = _numpy(graph, inputs, sizes)
        best = dict.fromkeys(calls, math.inf)
        for turn in range(_TURNS):
            for which, call in calls.items():
                # NumPy is slow, and the ratios do not use its times.
                if turn == 0 or which != "numpy":
                    best[which] = min(best[which], _seconds(call, clock))
    return Row(
        name,
        largest_tensor(graph, sizes),
        best["loops"],
        best.get("inductor"),
        best["numpy"],
        differs,
    )


def _loops(graph: Any, inputs: Any, sizes: Any) -> Callable[[], list[Any]]:
    """Return a call of the entry, with outputs allocated by PyTorch, as for Inductor."""
    import torch
    from in_torch import torch_dtype

    from autofuse import api
    from autofuse.machines.twin.oracle.oracle import shape_of

    kernel = api.load(api.build(graph, target="cpu"))
    kernel.run({k: v.copy() for k, v in inputs.items()}, symbols=sizes)
    entry = kernel._entry
    given = [np.ascontiguousarray(inputs[x].copy()) for x in graph.inputs]
    tensors = [graph.tensors[x] for x in graph.inputs]
    outs = [graph.tensors[o.tensor] for o in graph.outputs if o.inout is None]
    made = [(shape_of(t.shape, sizes), torch_dtype(t.dtype.name)) for t in outs]
    rows = [
        (ctypes.c_int64 * (1 + len(t.shape)))(0, *shape_of(t.shape, sizes))
        for t in [*tensors, *outs]
    ]
    table = (ctypes.c_void_p * len(rows))(*(ctypes.addressof(r) for r in rows))
    dynamic = (table,) if graph.symbols else ()

    def call() -> list[Any]:
        results = [torch.empty(s, dtype=d) for s, d in made]
        data = (ctypes.c_void_p * (len(given) + len(results)))(
            *(a.ctypes.data for a in given), *(a.data_ptr() for a in results)
        )
        entry(data, *dynamic)
        call.rows = rows  # type: ignore[attr-defined]
        return results

    return call


def _numpy(graph: Any, inputs: Any, sizes: Any) -> Callable[[], Any]:
    """Return a call of NumPy, op by op, in the dtypes of the graph."""
    from in_torch import _number

    from autofuse.implgraph.ir.dtypes import numpy_dtype
    from autofuse.implgraph.ir.fusion import Constant
    from autofuse.implgraph.ops.registry import lookup
    from autofuse.machines.twin.oracle.oracle import shape_of

    def call() -> Any:
        values = dict(inputs)
        with np.errstate(all="ignore"):
            for n in graph.nodes:
                out = graph.tensors[n.outputs[0]]
                dtype, shape = numpy_dtype(out.dtype), shape_of(out.shape, sizes)
                kinds = [values[x].dtype for x in n.inputs if isinstance(x, str)]
                xs = [
                    np.asarray(x.value, kinds[0] if kinds else dtype)
                    if isinstance(x, Constant)
                    else values[x]
                    for x in n.inputs
                ]
                row = lookup(n.op)
                if row.compute_type == "view":
                    made = xs[0].reshape(shape)
                elif row.compute_type == "broadcast":
                    made = np.broadcast_to(xs[0], shape)
                elif n.op == "Cast":
                    made = xs[0].astype(dtype)
                else:
                    made = row.reference(xs, {k: _number(v, sizes) for k, v in n.attrs.items()})
                values[n.outputs[0]] = np.asarray(made, dtype)
        # Views of inputs still need a copy.
        return [np.ascontiguousarray(values[o.tensor]) for o in graph.outputs]

    return call


def _difference(graph: Any, ours: list[Any], theirs: Any) -> str:
    """Return the outputs that differ from Inductor's by more than its own errors may."""
    found = []
    new = [k for k, o in enumerate(graph.outputs) if o.inout is None]
    for a, k in zip(ours, new, strict=True):
        a, b = a.float().numpy(), theirs[k].float().numpy()
        scale = float(np.nanmax(np.abs(b), initial=0.0, where=np.isfinite(b))) or 1.0
        if not np.allclose(a, b, rtol=2e-2, atol=2e-2 * scale, equal_nan=True):
            found.append(graph.outputs[k].name)
    return ", ".join(found)


def _tensor(array: Any) -> Any:
    import torch

    array = np.array(array)
    if array.dtype.kind == "V":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _seconds(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Return the minimum seconds of a call within one turn."""
    best, end = math.inf, time.perf_counter() + _TURN_S
    while True:
        start = clock()
        call()
        best = min(best, clock() - start)
        if time.perf_counter() > end:
            return best


def _line(r: Row) -> str:
    def us(s: float | None) -> str:
        return "-" if s is None else f"{s * 1e6:,.0f} us"

    ratio = "-" if r.inductor_s is None else f"{r.inductor_s / r.loops_s:.2f}"
    times = " ".join(f"{us(s):>12}" for s in (r.loops_s, r.inductor_s, r.numpy_s))
    return f"{r.name:60} {r.elements:>10,} {times} {ratio:>6} {r.differs}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(x.partition(":")[2].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


if __name__ == "__main__":
    sys.exit(main())
