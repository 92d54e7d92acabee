"""Rows of reductions and of other ops along a dimension."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.clients.kernelgen.pytorch.operation import Operation, Row, number
from autofuse.implgraph.ops.rows.reductions import neutral, reduced_axes

__all__ = ["ROWS"]


def _axes(op: Operation) -> tuple[int, ...]:
    return reduced_axes(op.attrs.get("axes", ()), len(op.shapes[0]))


def _axis(op: Operation) -> int:
    return reduced_axes((op.attrs["axis"],), len(op.shapes[0]))[0]


def _arguments(op: Operation) -> str:
    """Return the dimensions and ``keepdim``; a 0-d tensor has no dimensions to reduce."""
    axes = _axes(op)
    return f"dim={axes}, keepdim={bool(op.attrs.get('keepdims', False))}"


def _along(word: str, *, dtype: bool = False) -> Row:
    def form(op: Operation) -> str:
        kind = f", dtype={op.carrier_text}" if dtype and op.dtypes[0].kind in "iu" else ""
        return f"torch.{word}({op[0]}, {_arguments(op)}{kind})" if _axes(op) else op[0]

    return Row(form, tensors=(0,))


def _extreme(word: str, name: str) -> Row:
    def form(op: Operation) -> str:
        axes = _axes(op)
        if not axes:
            return op[0]
        found = f"torch.{word}({op[0]}, {_arguments(op)})"
        zero = [op.shapes[0][a] for a in axes if op.may_be_zero(op.shapes[0][a])]
        if not zero:
            return found
        # PyTorch has no maximum of an empty tensor.
        some = " and ".join(f"{op.atomic(e)} > 0" for e in zero)
        value = op.in_order(neutral(name, op.dtype))
        none = f"torch.full({op.sizes(op.shape)}, {value}, dtype={op.carrier_text}, device={op.device})"
        return f"{found} if {some} else {none}"

    return Row(form, tensors=(0,), ordered=True)


def _product(op: Operation) -> str:
    found = op[0]
    keep = bool(op.attrs.get("keepdims", False))
    kind = f", dtype={op.carrier_text}" if op.dtypes[0].kind in "iu" else ""
    for a in reversed(_axes(op)):
        found = f"torch.prod({found}, dim={a}, keepdim={keep}{kind})"
    return found


def _truth(word: str) -> Row:
    def form(op: Operation) -> str:
        true = op[0] if op.dtypes[0].kind == "b" else f"({op[0]} != 0)"
        return f"torch.{word}({true}, {_arguments(op)})" if _axes(op) else true

    return Row(form, tensors=(0,), moves=True)


def _place(word: str) -> Row:
    def form(op: Operation) -> str:
        keep = bool(op.attrs.get("keepdims", False))
        found = f"torch.{word}({op[0]}, dim={_axis(op)}, keepdim={keep})"
        return found if op.dtype.name == "int64" else f"{found}.to({op.dtype_text})"

    return Row(form, tensors=(0,), ordered=True)


def _running(op: Operation) -> str:
    axis, rank, x = _axis(op), len(op.shapes[0]), op[0]
    reverse = bool(op.attrs.get("reverse", False))
    x = f"torch.flip({x}, ({axis},))" if reverse else x
    if op.attrs.get("exclusive", False):
        pads = number_list((0, 0) * (rank - 1 - axis) + (1, 0))
        x = f"torch.nn.functional.pad({x}, {pads}).narrow({axis}, 0, {op.size(op.shapes[0][axis])})"
    kind = f", dtype={op.carrier_text}" if op.dtypes[0].kind in "iu" else ""
    found = f"torch.cumsum({x}, dim={axis}{kind})"
    return f"torch.flip({found}, ({axis},))" if reverse else found


def number_list(values: tuple[int, ...]) -> str:
    """Return numbers as a tuple."""
    return f"({', '.join(number(v) for v in values)},)"


def _dimension(word: str, *, wide: bool = False) -> Row:
    return Row(lambda op: f"torch.{word}({op[0]}, dim={_axis(op)})", wide=wide, tensors=(0,))


ROWS: Mapping[str, Row] = {
    "ReduceSum": _along("sum", dtype=True),
    "ReduceMean": _along("mean"),
    "ReduceMax": _extreme("amax", "ReduceMax"),
    "ReduceMin": _extreme("amin", "ReduceMin"),
    "ReduceProd": Row(_product, wide=True, tensors=(0,)),
    "ReduceAny": _truth("any"),
    "ReduceAll": _truth("all"),
    "ArgMax": _place("argmax"),
    "ArgMin": _place("argmin"),
    "Softmax": _dimension("softmax"),
    "LogSoftmax": _dimension("log_softmax", wide=True),
    "CumSum": Row(_running, wide=True, tensors=(0,)),
}
