"""AKG ops composed of several ops of autofuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from autofuse.base.wording import counted
from autofuse.frontends.akg.model import Op
from autofuse.frontends.json_positions import Findings
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import AttrValue, Constant, Tensor

__all__ = ["COMPOSED", "Make", "composed"]

Value: TypeAlias = "Tensor | Constant"
#: Makes a node from a row, operands and attributes; None, with a finding, if the row refuses them.
Make: TypeAlias = Callable[[str, Sequence[Value], Mapping[str, AttrValue]], "Tensor | None"]

COMPOSED = frozenset({"ElemAny", "OneHot"})
#: Op -> number of operands.
_OPERANDS = {"ElemAny": 1, "OneHot": 3}


def composed(
    op: Op, operands: Sequence[Value], d: DType, pointer: str, findings: Findings, make: Make
) -> Tensor | None:
    """Return the result of an op of ``COMPOSED``.

    Args:
        op: the op.
        operands: its operands.
        d: element type of the result.
        pointer: its place, for findings.
        findings: collects errors.
        make: makes the nodes.
    """
    if len(operands) != _OPERANDS[op.name]:
        text = f"{op.name} takes {counted(_OPERANDS[op.name], 'input')}, not {len(operands)}"
        findings.add("AF1202", text, f"{pointer}/input_desc")
        return None
    data = operands[0]
    if not isinstance(data, Tensor):
        findings.add("AF1202", f"the input of {op.name} is a constant", f"{pointer}/input_desc")
        return None
    if op.name == "ElemAny":
        return _elem_any(data, d, make)
    depth, axis = (op.attrs().get(name) for name in ("depth", "axis"))
    rank = len(data.shape) + 1
    if type(depth) is not int or type(axis) is not int or not -rank <= axis < rank:
        text = f"OneHot needs the attributes 'depth' and 'axis', integers, axis from {-rank} to {rank - 1}"
        findings.add("AF1205", text, pointer)
        return None
    return _one_hot(data, operands[1:], depth, axis % rank, make)


def _elem_any(x: Tensor, d: DType, make: Make) -> Tensor | None:
    """Return a scalar tensor that is 1 if any element is not 0, else 0."""
    if x.shape:
        found = make("ReduceAny", [x], {"axes": tuple(range(len(x.shape))), "keepdims": False})
    else:
        found = make("Cast", [x], {"dtype": "bool"})
    return None if found is None else make("Cast", [found], {"dtype": d.name})


def _one_hot(
    index: Tensor, values: Sequence[Value], depth: int, axis: int, make: Make
) -> Tensor | None:
    """Return the first value where the index equals its place, else the second; a negative index never matches."""
    one = const(1)
    wide = (*index.shape[:axis], one, *index.shape[axis:])
    line: tuple[Expr, ...] = tuple(const(depth) if i == axis else one for i in range(len(wide)))
    at = make("Reshape", [index], {"shape": wide})
    places = make("Iota", [], {"shape": line, "axis": axis, "dtype": index.dtype.name})
    if at is None or places is None:
        return None
    hit = make("Equal", [at, places], {})
    return None if hit is None else make("Select", [hit, *values], {})
