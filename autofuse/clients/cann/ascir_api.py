"""One function per op that adds a node to a client's graph: ``y = ascir_api.Add(graph, a, b, axis=[z0, z1])``.

``Op(owner_graph, inputs..., *, axis, size=None, stride=None, **attributes)`` makes a node with a unique name and
returns its output.  ``size`` defaults to the sizes of the axes, ``stride`` to contiguous strides.  Functions with
other arguments are defined below.
"""

from __future__ import annotations

from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from autofuse.base.wording import counted
from autofuse.clients.cann.pyautofuse import ascir as _ascir
from autofuse.clients.cann.pyautofuse.cann_ops import find_op as _find_op
from autofuse.clients.cann.pyautofuse.cann_ops import op_names as _op_names
from autofuse.clients.cann.pyautofuse.errors import ClientTypeError as _ClientTypeError
from autofuse.clients.cann.pyautofuse.errors import ClientValueError as _ClientValueError

__all__ = ["Cast", "Data", "IndexExpr", "IndirectLoad", "Output", "Scalar", "ScalarData"]

_Axes = _Sequence[_ascir.Axis]
_Sizes = _Sequence[_ascir.SizeExpr | int] | None
_Output = _ascir.OpsOperatorOutput


def Data(owner_graph: _ascir.HintGraph, *, dtype: _Any) -> _Output:  # noqa: N802
    """Add an input to the graph; inputs are numbered in creation order."""
    node = _node("Data", owner_graph)
    node.attr.ir_attr.index = owner_graph.get_input_num() - 1
    return _typed(node, dtype)


def Scalar(owner_graph: _ascir.HintGraph, *, dtype: _Any, value: str) -> _Output:  # noqa: N802
    """Add a constant, given as text."""
    return _first("Scalar", owner_graph, dtype, value=value)


def ScalarData(owner_graph: _ascir.HintGraph, *, dtype: _Any, value: str) -> _Output:  # noqa: N802
    """Add a scalar that is known when the kernel is called."""
    return _first("ScalarData", owner_graph, dtype, value=value)


def IndexExpr(  # noqa: N802
    owner_graph: _ascir.HintGraph, *, dtype: _Any, expr: int | None = None
) -> _Output:
    """Add a value computed from sizes."""
    return _first("IndexExpr", owner_graph, dtype, expr=expr)


def Output(owner_graph: _ascir.HintGraph, x: _Any, *, dtype: _Any = None) -> _Output:  # noqa: N802
    """Add an output to the graph, from one Store or a list of them; outputs are numbered like inputs."""
    node = _node("Output", owner_graph)
    node.x = x
    node.attr.ir_attr.index = owner_graph.get_output_num() - 1
    return _typed(node, dtype)


def Cast(  # noqa: N802
    owner_graph: _ascir.HintGraph,
    x: _Any,
    *,
    dtype: _Any,
    axis: _Axes,
    size: _Sizes = None,
    stride: _Sizes = None,
) -> _Output:
    """Create a node of type Cast: the same values in another element type."""
    node = _node("Cast", owner_graph)
    node.x = x
    _lay_out(node, axis, size, stride)
    return _typed(node, dtype)


def IndirectLoad(  # noqa: N802
    owner_graph: _ascir.HintGraph,
    x1: _Any,
    x2: _Any,
    *,
    axis: int,
    sched_axis: _Axes,
    size: _Sizes = None,
    stride: _Sizes = None,
    **attributes: _Any,
) -> _Output:
    """Gather elements of ``x1`` at the indices in ``x2`` along dimension ``axis``."""
    node = _node("IndirectLoad", owner_graph)
    node.x1, node.x2 = x1, x2
    _set(node, {"axis": axis, **attributes})
    _lay_out(node, sched_axis, size, stride)
    return _typed(node)


def _first(kind: str, graph: _ascir.HintGraph, dtype: _Any, **attributes: _Any) -> _Output:
    node = _node(kind, graph)
    _set(node, attributes)
    return _typed(node, dtype)


def _node(kind: str, graph: _ascir.HintGraph) -> _ascir.Operator:
    if not isinstance(graph, _ascir.HintGraph):
        raise _ClientTypeError.of("AF1103", f"{kind}: {graph!r} is not a HintGraph")
    names = {n.name for n in graph.operators}
    count = sum(n.type == kind for n in graph.operators)
    while f"{kind.lower()}_{count}" in names:
        count += 1
    made: _ascir.Operator = getattr(_ascir.ops, kind)(f"{kind.lower()}_{count}", graph)
    return made


def _set(node: _ascir.Operator, attributes: dict[str, _Any]) -> None:
    for name, value in attributes.items():
        if value is not None:
            setattr(node.attr.ir_attr, name, value)


def _typed(node: _ascir.Operator, dtype: _Any = None) -> _Output:
    if dtype is not None:
        node.y.dtype = dtype
    node.infer_dtype()
    return node.output(0)


def _lay_out(node: _ascir.Operator, axis: _Axes, size: _Sizes, stride: _Sizes) -> None:
    node.attr.sched.axis = axis
    node.y.axis = axis
    if size is None and stride is not None:
        text = f"{node.name}: stride is given without size"
        raise _ClientValueError.of("AF1101", text, hint="give both, or size alone, or neither")
    sizes = [a.size for a in axis] if size is None else list(size)
    steps: list[_Any] = [] if stride is None else list(stride)
    if stride is None:
        step: _Any = 1
        for n in reversed(sizes):
            steps.insert(0, step)
            step = step * n
    if not len(axis) == len(sizes) == len(steps):
        text = (
            f"{node.name} has {counted(len(axis), 'axis', 'axes')}, {counted(len(sizes), 'size')} "
            f"and {counted(len(steps), 'stride')}"
        )
        raise _ClientValueError.of("AF1204", text)
    node.y.size, node.y.strides = sizes, steps


def _inputs(kind: str, count: int) -> tuple[str, ...]:
    """Return the names of the inputs of an op called with ``count`` positional arguments."""
    row = _find_op(kind)
    if row is not None:
        return row.inputs
    return ("x",) if count == 1 else tuple(f"x{i + 1}" for i in range(count))


def __getattr__(kind: str) -> _Callable[..., _Output]:
    """Return the function of an op."""
    if kind.startswith("_"):
        raise AttributeError(kind)

    def add(
        owner_graph: _ascir.HintGraph,
        *given: _Any,
        axis: _Axes,
        size: _Sizes = None,
        stride: _Sizes = None,
        **others: _Any,
    ) -> _Output:
        names = _inputs(kind, len(given))
        row = _find_op(kind)
        # Arguments after the inputs are attributes, such as `n` of a polynomial.
        order = (*names, *(row.attrs if row is not None else ()))
        twice = sorted(set(order[: len(given)]) & set(others))
        if len(given) > len(order) or twice:
            text = f"{kind} takes {', '.join(order)} and axis, size, stride"
            raise _ClientTypeError.of("AF1103", text)
        values = {**dict(zip(order, given, strict=False)), **others}
        node = _node(kind, owner_graph)
        for name in names:
            if name in values:
                setattr(node, name, values.pop(name))
        _set(node, values)
        _lay_out(node, axis, size, stride)
        return _typed(node)

    add.__name__ = add.__qualname__ = kind
    add.__doc__ = f"Create a node of type {kind}."
    return add


def __dir__() -> list[str]:
    return sorted({*__all__, *_op_names()})
