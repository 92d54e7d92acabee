"""Attributes of AKG ops translated to the registry's; they come as attributes or as inline operands."""

from __future__ import annotations

from typing import Any, TypeAlias

from autofuse.base.wording import counted
from autofuse.frontends.akg.model import TYPE_IDS, Desc, Op
from autofuse.frontends.builder import shape_text
from autofuse.frontends.json_positions import Findings
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import DType, dtype
from autofuse.implgraph.ir.fusion import AttrValue, Constant, Tensor
from autofuse.implgraph.ops import definition

__all__ = ["cast_agrees", "dimensions", "known_attrs", "padding", "tile_is_broadcast"]

Value: TypeAlias = "Tensor | Constant"
Shape: TypeAlias = tuple[Expr, ...]


def dimensions(
    op: Op, row: definition.OpDef, descs: list[tuple[Desc, str]], pointer: str, findings: Findings
) -> dict[str, AttrValue] | None:
    """Return the attributes of a reduction or a Transpose, which may also be inline operands."""
    inline = [d.value for d, _ in descs[1:] if d.inline]
    given = op.attrs()
    name = "perm" if row.name == "Transpose" else "axis"
    numbers = given[name] if name in given else inline.pop(0) if inline else None
    numbers = [numbers] if isinstance(numbers, int) else numbers
    if not isinstance(numbers, list) or not all(type(n) is int for n in numbers):
        text = f"{op.name} needs the attribute {name!r}, a list of integers"
        findings.add("AF1205", text, pointer)
        return None
    if row.name == "Transpose":
        return {"perm": tuple(numbers)}
    keep = given["keep_dims"] if "keep_dims" in given else inline.pop(0) if inline else False
    return {"axes": tuple(numbers), "keepdims": bool(keep)}


def padding(
    op: Op, kind: str, operand: Value, pointer: str, findings: Findings
) -> dict[str, AttrValue] | None:
    """Return the attributes of the Pad or Slice equivalent to PadAkg or UnPadAkg."""
    shape = operand.shape if isinstance(operand, Tensor) else ()
    given = op.attrs()
    frames: list[Shape] = []
    for name in ("head", "tail"):
        numbers = given.get(name, [0] * len(shape) if name == "head" else None)
        if not isinstance(numbers, list) or not all(type(n) is int for n in numbers):
            text = f"{op.name} needs the attribute {name!r}, a list of integers"
            findings.add("AF1205", text, pointer)
            return None
        frames.append(tuple(const(n) for n in numbers))
    low, high = frames
    if kind == "Pad":
        return {"low": low, "high": high, "value": float(given.get("pad_val", 0))}
    if not len(low) == len(high) == len(shape):
        text = (
            f"the tail of {op.name} has {counted(len(high), 'entry', 'entries')}, its input "
            f"{counted(len(shape), 'dimension')}"
        )
        findings.add("AF1205", text, pointer)
        return None
    sizes = tuple(s - a - b for s, a, b in zip(shape, low, high, strict=True))
    return {"starts": low, "shape": sizes, "steps": (1,) * len(shape)}


def known_attrs(row: definition.OpDef, op: Op) -> dict[str, AttrValue]:
    """Return the attributes that the row has; files carry many more."""
    given = op.attrs()
    out: dict[str, AttrValue] = {}
    for a in row.attrs:
        value = given.get(a.name)
        if value is None:
            continue
        if a.kind == "ints":
            value = tuple(value) if isinstance(value, list) else (value,)
        elif a.kind == "shape" and isinstance(value, list):
            value = tuple(const(v) for v in value if isinstance(v, int))
        out[a.name] = value
    return out


def cast_agrees(
    op: Op, descs: list[tuple[Desc, str]], d: DType, pointer: str, findings: Findings
) -> bool:
    """Return True if the up to three targets of a Cast agree: attribute, operand, output description."""
    said: Any = next((op.attrs()[k] for k in ("dst_type", "DstT") if k in op.attrs()), None)
    if len(descs) > 1 and descs[1][0].inline:
        said = descs[1][0].value
    if isinstance(said, int):
        said = TYPE_IDS.get(said, f"type number {said}")
    try:
        agrees = said is None or dtype(str(said)) == d
    except KeyError:
        agrees = False
    if not agrees:
        text = f"the Cast is to {said}, but its output is declared as {d}"
        findings.add("AF1207", text, f"{pointer}/output_desc/0/data_type")
    return agrees


def tile_is_broadcast(
    op: Op, descs: list[tuple[Desc, str]], pointer: str, findings: Findings
) -> bool:
    """Return True if a Tile repeats only dimensions of size 1, which is a broadcast; no other is supported."""
    given = op.attrs().get("multiples")
    if given is None and len(descs) > 1 and descs[1][0].inline:
        given = descs[1][0].value
    times = given if isinstance(given, list) else [given]
    if not descs or not all(isinstance(n, int) for n in times):
        findings.add("AF1205", "Tile needs the attribute 'multiples', a list of integers", pointer)
        return False
    shape = [1] * (len(times) - len(descs[0][0].shape)) + descs[0][0].shape
    times = [1] * (len(shape) - len(times)) + times
    if any(n != 1 and s != 1 for n, s in zip(times, shape, strict=True)):
        have = shape_text(descs[0][0].shape)
        text = f"Tile of {have} by {shape_text(times)} repeats data, which is not supported"
        findings.add(
            "AF1201", text, f"{pointer}/name", hint="only dimensions of size 1 can be repeated"
        )
        return False
    return True
