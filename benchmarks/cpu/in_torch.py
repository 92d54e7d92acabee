"""Graphs as functions of PyTorch tensors, one call per node, for ``run.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode
from autofuse.machines.twin.oracle.oracle import shape_of

__all__ = ["UnknownOpError", "function", "torch_dtype"]

Tensors = tuple[torch.Tensor, ...]


class UnknownOpError(Exception):
    """The table has no row for an op."""


def torch_dtype(name: str) -> torch.dtype:
    """Return PyTorch's dtype for a dtype of autofuse."""
    return getattr(torch, BY_NAME[name].name)  # type: ignore[no-any-return]


def _reduce(call: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, axes: Sequence[int] = (), keepdims: bool = False) -> Any:
        return call(x, dim=tuple(axes) or tuple(range(x.ndim)), keepdim=keepdims)

    return run


def _slice(x: Any, starts: Sequence[int], shape: Sequence[int]) -> Any:
    return x[tuple(slice(a, a + n) for a, n in zip(starts, shape, strict=True))]


def _gather(x: Any, index: Any, axis: int = 0) -> Any:
    taken = torch.index_select(x, axis, index.reshape(-1))
    return taken.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


_CALLS: Mapping[str, Callable[..., Any]] = {
    "Abs": torch.abs,
    "Add": torch.add,
    "AddN": lambda *xs: sum(xs[1:], xs[0]),
    "Concat": lambda *xs, axis: torch.cat(xs, axis),
    "Div": torch.div,
    "Exp": torch.exp,
    "Gather": _gather,
    "Gelu": torch.nn.functional.gelu,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "LessEqual": torch.le,
    "Ln": torch.log,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Pow": torch.pow,
    "Reciprocal": torch.reciprocal,
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum),
    "Rsqrt": torch.rsqrt,
    "Select": torch.where,
    "Silu": torch.nn.functional.silu,
    "Slice": _slice,
    "Softmax": lambda x, axis: torch.softmax(x, axis),
    "Sqrt": torch.sqrt,
    "Square": torch.square,
    "Sub": torch.sub,
    "Tanh": torch.tanh,
    "Transpose": lambda x, perm: x.permute(perm),
}
#: Ops whose operands must be tensors.
_TENSORS = frozenset({"Maximum", "Minimum", "Select"})


def function(graph: FusionGraph, sizes: Mapping[str, int]) -> Callable[..., Tensors]:
    """Return the graph as a function from its inputs to its outputs.

    Args:
        graph: the graph; outputs that overwrite inputs do so here too.
        sizes: sizes of its symbols.

    Raises:
        UnknownOpError: an op is not in the table.
    """
    odd = (
        {n.op for n in graph.nodes} - _CALLS.keys() - {"Cast", "RoundToInt", "Reshape", "Broadcast"}
    )
    if odd:
        raise UnknownOpError(", ".join(sorted(odd)))
    steps = [(n, _step(n, graph, sizes)) for n in graph.nodes]

    def run(*tensors: torch.Tensor) -> Tensors:
        values: dict[str, Any] = dict(zip(graph.inputs, tensors, strict=True))
        for n, step in steps:
            xs = [x.value if isinstance(x, Constant) else values[x] for x in n.inputs]
            values[n.outputs[0]] = step(xs)
        results = []
        for o in graph.outputs:
            value = values[o.tensor].contiguous()
            if o.inout is not None:
                value = tensors[graph.inputs.index(o.inout)].copy_(value)
            results.append(value)
        return tuple(results)

    return run


def _step(
    n: FusionNode, graph: FusionGraph, sizes: Mapping[str, int]
) -> Callable[[list[Any]], Any]:
    out = graph.tensors[n.outputs[0]]
    shape, dtype = shape_of(out.shape, sizes), torch_dtype(out.dtype.name)
    if n.op == "Cast":
        return lambda xs: torch.as_tensor(xs[0]).to(dtype)
    if n.op == "RoundToInt":
        return lambda xs: torch.round(xs[0]).to(dtype)
    if n.op == "Reshape":
        return lambda xs: torch.as_tensor(xs[0], dtype=dtype).reshape(shape)
    if n.op == "Broadcast":
        return lambda xs: torch.as_tensor(xs[0], dtype=dtype).expand(shape)
    attrs = {k: _number(v, sizes) for k, v in n.attrs.items()}
    if n.op == "Gelu":
        attrs = {"approximate": "tanh"} if attrs.get("approximate") else {}
    call = _CALLS[n.op]

    def run(xs: list[Any]) -> Any:
        if n.op in _TENSORS:
            kind = next((x.dtype for x in reversed(xs) if isinstance(x, torch.Tensor)), dtype)
            xs = [x if isinstance(x, torch.Tensor) else torch.full((), x, dtype=kind) for x in xs]
        return call(*xs, **attrs)

    return run


def _number(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_number(v, sizes) for v in value)
    return value.evaluate(sizes) if isinstance(value, Expr) else value
