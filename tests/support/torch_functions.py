"""Generated functions of PyTorch in this process, on arrays of NumPy, and against the reference of their graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.oracle import Reference, evaluate

__all__ = ["from_torch", "loaded", "to_torch", "wrong"]


def loaded(text: str, name: str) -> Any:
    """The function ``name`` of a module."""
    space: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, f"{name}.py", "exec"), space)
    return space[name]


def to_torch(array: np.ndarray) -> torch.Tensor:
    if array.dtype == numpy_dtype(BY_NAME["bfloat16"]):
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def from_torch(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype is torch.bfloat16:
        data = tensor.contiguous().view(torch.int16).numpy()
        return data.view(numpy_dtype(BY_NAME["bfloat16"]))
    return tensor.contiguous().numpy()


def wrong(
    graph: FusionGraph,
    function: Any,
    inputs: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> list[str]:
    """Where the outputs of a function differ from the reference by more than its bound and the tolerances."""
    want = evaluate(graph, inputs, sizes)
    given = [to_torch(inputs[x]) for x in graph.inputs]
    free = {s.name for s in graph.symbols} - {
        str(e) for x in graph.inputs for e in graph.tensors[x].shape
    }
    made = function(*given, **{s: sizes[s] for s in free})
    results = made if isinstance(made, tuple) else (made,)
    found = []
    for o, result in zip(graph.outputs, results, strict=True):
        dtype = graph.tensors[o.tensor].dtype
        reference = want[o.name]
        if dtype.kind == "f" and (rtol or atol) and reference.value.size:
            with np.errstate(invalid="ignore"):
                bound = np.abs(reference.value.astype(np.float64)) * rtol + atol
            own = 0.0 if reference.tolerance is None else reference.tolerance
            reference = Reference(reference.value, own + bound, reference.ill_conditioned)
        got = from_torch(result)
        expected = reference.value.shape, numpy_dtype(dtype)
        if (got.shape, got.dtype) != expected or not result.is_contiguous():
            found.append(f"{o.name}: {got.dtype}{got.shape}, not {expected}")
            continue
        c = compare(o.name, got, reference, dtype)
        if not c.ok or c.inconclusive:
            at = c.first or ()
            xs = [inputs[x][at] if inputs[x].shape == got.shape else "-" for x in graph.inputs]
            found.append(f"{o.name}: {c.wrong} of {c.elements}: f({xs}) = {c.want}, not {c.got}")
    return found
