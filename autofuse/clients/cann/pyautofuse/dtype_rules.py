"""Inference of a node's element type from its inputs, in the client's types: booleans are uint8."""

from __future__ import annotations

from autofuse.clients.cann.pyautofuse.cann_ops import CannOp, find_op
from autofuse.clients.cann.pyautofuse.nodes import Operator, source_of
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import OpError

__all__ = ["infer_dtype", "outside"]

_BOOL, _UINT8 = BY_NAME["bool"], BY_NAME["uint8"]


def outside(dtype: DType) -> DType:
    """Return the client's element type for one of autofuse: uint8 for bool."""
    return _UINT8 if dtype == _BOOL else dtype


def infer_dtype(node: Operator) -> None:
    """Set the element type of a node's output if it is unset and follows from the inputs.

    Errors in the inputs are left for the scheduler to report.
    """
    if node.count is not None:
        source = source_of(node.inputs.get("x"))
        for y in node.y:
            if y.dtype is None and source is not None:
                y.dtype = source.dtype
        return
    row = find_op(node.type)
    if row is None or node.y.dtype is not None:
        return
    given = [source_of(node.inputs.get(name)) for name in row.inputs]
    dtypes = [s.dtype for s in given if s is not None and isinstance(s.dtype, DType)]
    if not dtypes or (row.kind == "elewise" and len(dtypes) < row.row.arity[0]):
        return
    found = _dtype(row, dtypes)
    if found is not None:
        node.y.dtype = outside(found)


def _dtype(row: CannOp, dtypes: list[DType]) -> DType | None:
    if row.kind in ("data", "scalar", "cast"):
        return None
    if row.kind == "position":
        return BY_NAME["int64"]
    if row.kind not in ("elewise", "reduce"):
        return dtypes[0]
    if any(a.name == "dtype" for a in row.row.attrs):
        return None  # the client sets it
    for at in condition_inputs(row):
        dtypes[at] = _BOOL
    try:
        return row.row.dtype_rule(dtypes, {})
    except OpError:
        return None


def condition_inputs(row: CannOp) -> tuple[int, ...]:
    """Return the positions of inputs used as conditions, whatever their element type."""
    return {"Select": (0,), "MaskedFill": (1,)}.get(row.op, ())
