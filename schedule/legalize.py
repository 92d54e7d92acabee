"""Legalisation: every node becomes one that the target has a call for.

Expansions, promotions and tensor/scalar forms come from the registry rows; what this file adds is the two shapes of a
truth value (a byte in GM and after a Load, a bit mask after a Compare), the routes of Cast, and the filling of a
uniform operand where a call wants a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autofuse.diagnostics import AutofuseError, Where
from autofuse.implgraph.dtypes import BY_NAME, DType
from autofuse.implgraph.expr import ONE, ZERO
from autofuse.implgraph.graph import Attr, HintGraph, Node, TensorView
from autofuse.implgraph.lowering import in_place_pairs
from autofuse.implgraph.op_rules import ROUNDING
from autofuse.implgraph.ops import OpDef, lookup
from autofuse.implgraph.ordering import execution_order
from autofuse.schedule.cast_routes import cast_route
from autofuse.targets import TargetSpec

__all__ = ["legalize"]

MASK, BOOL, HALF, SINGLE = (BY_NAME[n] for n in ("mask", "bool", "float16", "float32"))
_KEEP = ("Data", "Output", "Load")
_TRUTH = {"MaskAnd": 2, "MaskOr": 2, "MaskNot": 1, "SelectMask": 1}


def legalize(nodes: Sequence[Node], hint: HintGraph, target: TargetSpec) -> tuple[Node, ...]:
    """Rewrite the nodes of one group for ``target``.

    Args:
        nodes: one group in execution order, with the Data and Output nodes it touches.
        hint: the graph they belong to.
        target: decides which calls exist.

    Raises:
        AutofuseError: AF3001 when neither a call, an expansion nor a promotion realises an op.
    """
    rewriter = _Rewriter(target, reserved=frozenset(n.name for n in hint.nodes))
    for n in nodes:
        rewriter.visit(n)
    return rewriter.result(in_place_pairs(hint))


@dataclass
class _Rewriter:
    """Implements ``OpSink``; handles are names of the new nodes."""

    target: TargetSpec
    reserved: frozenset[str]
    nodes: dict[str, Node] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    memo: dict[tuple[object, ...], str] = field(default_factory=dict)
    current: Node | None = None
    axis: tuple[int, ...] = ()
    all_uniform: bool = False

    # OpSink -----------------------------------------------------------------------------------
    def emit(
        self,
        op: str,
        inputs: Sequence[Any],
        attrs: Mapping[str, Any] | None = None,
        dtype: DType | None = None,
    ) -> str:
        row, a = lookup(op), dict(attrs or {})
        xs = [self._strip(x) for x in inputs]
        outer = self.all_uniform
        self.all_uniform = all(self._is_one(x) for x in xs)
        try:
            if op == "Cast":
                return self._cast(xs[0], BY_NAME[a["dtype"]], str(a.get("round") or ""))
            # An op that is computed in a wider type is so as a whole: its parts do not round in between.
            if row.expand is not None and self.dtype_of(xs[-1]).name not in row.promote:
                done = row.expand(self, xs, a)
                if done is not None:
                    return str(done)
            return self._call(row, xs, a, dtype)
        finally:
            self.all_uniform = outer

    def constant(self, value: float | int, dtype: DType) -> str:
        key = ("const", repr(value), dtype.name)
        if key not in self.memo:
            ones = tuple(ONE for _ in self.axis)
            view = TensorView(dtype, self.axis, ones, tuple(ZERO for _ in self.axis))
            self.memo[key] = self._add("Scalar", (), view, {"value": value}, stem="scalar")
        return self.memo[key]

    def dtype_of(self, operand: Any) -> DType:
        d = self.nodes[operand].y.dtype
        return BOOL if d is MASK else d

    def constant_of(self, operand: Any) -> float | int | None:
        n = self.nodes[operand]
        if n.op != "Scalar":
            return None
        value = n.attrs["value"]
        assert isinstance(value, (int, float))
        return value

    def is_uniform(self, operand: Any) -> bool:
        """Among uniform tensors only a constant counts as uniform: the rest are data of one element."""
        return self.nodes[operand].op == "Scalar" if self.all_uniform else self._is_one(operand)

    # nodes ------------------------------------------------------------------------------------
    def visit(self, n: Node) -> None:
        """Legalise one node of the input."""
        self.current, self.axis = n, n.y.axis or self.axis
        xs = [self.renamed[i] for i in n.inputs]
        if n.op in _KEEP:
            out = n.name
            self.nodes[out] = replace(n, inputs=tuple(xs))
        elif n.op == "Scalar":
            value = n.attrs["value"]
            assert isinstance(value, (int, float))
            out = self.constant(value, n.y.dtype)
        elif n.op == "Store":
            src = self._spread(self._stored(xs[0], n.y.dtype), n.y)
            out = n.name
            self.nodes[out] = replace(n, inputs=(src,))
        elif n.op == "Broadcast":
            out = self._broadcast(xs[0], n.y)
        else:
            out = self.emit(n.op, xs, n.attrs)
        self.renamed[n.name] = out

    def result(self, in_place: Sequence[tuple[str, str]]) -> tuple[Node, ...]:
        """The nodes that a Store needs, ordered anew: expansions change what is best computed first.

        ``in_place``: pairs of a Load and the Store that overwrites what it reads, and so comes later.
        """
        nodes = list(self.nodes.values())
        index = {n.name: i for i, n in enumerate(nodes)}
        operands = [[index[x] for x in n.inputs] for n in nodes]
        for load, store in in_place:
            if load in index and store in index:
                operands[index[store]].append(index[load])
        stores = [i for i, n in enumerate(nodes) if n.op == "Store"]
        order = execution_order(operands, stores, [n.op in ("Scalar", "Data") for n in nodes])
        data = [n for n in nodes if n.op == "Data"]
        inside = [nodes[i] for i in order if nodes[i].op != "Data"]
        return (*data, *inside, *(n for n in nodes if n.op == "Output"))

    def _add(
        self,
        op: str,
        inputs: tuple[str, ...],
        view: TensorView,
        attrs: Mapping[str, Attr],
        stem: str = "",
    ) -> str:
        own = self.current.name if self.current and self.current.op != "Store" else ""
        base = stem or own or op.lower()
        name, k = base, 0
        while name in self.nodes or (name in self.reserved and name != own):
            k += 1
            name = f"{base}_{k}"
        origin = self.current.origin if self.current else ""
        self.nodes[name] = Node(name, op, inputs, view, attrs, origin=origin)
        return name

    def _node(
        self, op: str, inputs: Sequence[str], attrs: Mapping[str, Attr], view: TensorView
    ) -> str:
        """A node, or the equal one that exists already."""
        key = (op, tuple(inputs), tuple(sorted(attrs.items())), view.dtype.name, view.repeats)
        if key not in self.memo:
            self.memo[key] = self._add(op, tuple(inputs), view, attrs)
        return self.memo[key]

    def _is_one(self, name: str) -> bool:
        return all(r == 1 for r in self.nodes[name].y.repeats)

    def _strip(self, name: str) -> str:
        """A broadcast of one element is that element: calls take it as a scalar, or it is filled again."""
        n = self.nodes[name]
        while n.op in ("Broadcast", "Duplicate") and self._is_one(n.inputs[0]):
            n = self.nodes[n.inputs[0]]
        return n.name

    def _view(self, xs: Sequence[str], dtype: DType) -> TensorView:
        """The view of an element-wise result: that of the operand that varies, else of the first."""
        best = next((x for x in xs if not self._is_one(x)), xs[0])
        return replace(self.nodes[best].y, dtype=dtype, offset=ZERO)

    # calls ------------------------------------------------------------------------------------
    def _call(self, row: OpDef, xs: list[str], attrs: dict[str, Any], dtype: DType | None) -> str:
        call = row.calls.get(self.target.arch)
        truths = _TRUTH.get(row.name, 0)
        xs = [self._as_mask(x) if i < truths else x for i, x in enumerate(xs)]
        lead = self.nodes[xs[truths if truths < len(xs) else 0]].y.dtype
        if call is None or (lead.name not in call.dtypes and lead.name not in call.as_type):
            return self._promote(row, xs, attrs)
        tensors = xs if call.style not in ("scalar", "compare_scalar") else xs[:1]
        view = self._view(tensors, lead)
        if call.style == "select":
            view = self._view(xs, lead)
            # Tensor-scalar mode takes the last operand as a scalar; not where the types are reinterpreted.
            plain = lead.name in call.dtypes
            scalar = self.nodes[xs[2]].op == "Scalar" or (
                self._is_one(xs[2]) and any(r != 1 for r in view.repeats)
            )
            tensors = xs[:2] if plain and scalar else xs
        filled = [self._fill(x, view) for x in tensors] + xs[len(tensors) :]
        kinds = [self.nodes[x].y.dtype for x in filled]
        result = dtype or row.dtype_rule(kinds, attrs)
        return self._node(row.name, filled, attrs, replace(view, dtype=result))

    def _promote(self, row: OpDef, xs: list[str], attrs: dict[str, Any]) -> str:
        lead = self.dtype_of(xs[-1])
        wide = row.promote.get(lead.name)
        if wide is None:
            raise self._unavailable(
                f"{row.name} on {lead}", "insert a Cast to float32 before this op"
            )
        keep = 1 if row.name == "Select" else 0
        wider = xs[:keep] + [self._cast(x, BY_NAME[wide], "") for x in xs[keep:]]
        out = self.emit(row.name, wider, attrs)
        result = row.dtype_rule([self.dtype_of(x) for x in xs], attrs)
        if result is BOOL:
            return out if self.nodes[out].y.dtype is MASK else self._cast(out, BOOL, "")
        return self._cast(out, result, "")

    def _fill(self, x: str, view: TensorView) -> str:
        """``x`` itself if it is a tensor of the right extent, else a buffer filled with its value."""
        n = self.nodes[x]
        if n.op != "Scalar" and (not self._is_one(x) or all(r == 1 for r in view.repeats)):
            return x
        return self._spread(x, view)

    def _spread(self, x: str, view: TensorView) -> str:
        n = self.nodes[x]
        if n.op != "Scalar" and n.y.repeats == view.repeats:
            return x
        if n.y.dtype in (MASK, BOOL):
            half = self._cast(x, HALF, "")
            filled = self._node("Duplicate", (half,), {}, replace(view, dtype=HALF, offset=ZERO))
            if n.y.dtype is BOOL and view.dtype is BOOL:
                return self._cast_node(filled, BOOL, "")
            # Not emit(): it would take the fill for the one element that it came from.
            zero = self.constant(0, HALF)
            return self._call(lookup("CompareScalar"), [filled, zero], {"mode": "NE"}, None)
        if n.y.dtype.name not in lookup("Duplicate").calls[self.target.arch].dtypes:
            # What Duplicate lacks (8 and 64 bits) is filled in a type that converts to it.
            wide = BY_NAME["float16" if n.y.dtype.itemsize == 1 else "int32"]
            value = self.constant_of(x)
            source = self.constant(value, wide) if value is not None else self._cast(x, wide, "")
            filled = self._node("Duplicate", (source,), {}, replace(view, dtype=wide, offset=ZERO))
            return self._cast(filled, n.y.dtype, "")
        return self._node("Duplicate", (x,), {}, replace(view, dtype=n.y.dtype, offset=ZERO))

    def _broadcast(self, x: str, view: TensorView) -> str:
        if self._is_one(x):
            return x  # users take it as a scalar or fill it
        if self.nodes[x].y.repeats == view.repeats:
            return x
        d = self.nodes[x].y.dtype
        if d in (MASK, BOOL) or d.itemsize == 1:
            half = self._cast(x, HALF, "")
            wide = self._node("Broadcast", (half,), {}, replace(view, dtype=HALF))
            if d in (MASK, BOOL):
                return self.emit("CompareScalar", (wide, self.constant(0, HALF)), {"mode": "NE"})
            return self._cast(wide, d, "")
        if d.itemsize == 8:
            raise self._unavailable(
                f"Broadcast on {d}", "Cast to int32 or float32 before the Broadcast"
            )
        return self._node("Broadcast", (x,), {}, replace(view, dtype=d))

    # truth values and casts -------------------------------------------------------------------
    def _as_mask(self, x: str) -> str:
        d = self.nodes[x].y.dtype
        if d is MASK:
            return x
        return self.emit(
            "CompareScalar", (self._cast(x, HALF, ""), self.constant(0, HALF)), {"mode": "NE"}
        )

    def _stored(self, x: str, dtype: DType) -> str:
        """The value in the form that GM holds."""
        n = self.nodes[x]
        if n.y.dtype is MASK:
            return self._cast(x, BOOL, "")
        if n.op == "Scalar" and dtype is BOOL:
            return self.constant(1 if n.attrs["value"] else 0, BY_NAME["uint8"])
        return x

    def _cast(self, x: str, to: DType, mode: str) -> str:
        have = self.nodes[x].y.dtype
        value = self.constant_of(x)
        if value is not None:
            return self.constant(_converted(value, to, mode), to)
        if have is to and not mode:
            return x
        if have is MASK:
            direct = to if to.name in ("float16", "float32") else HALF
            value01 = self.emit(
                "SelectMask", (x, self.constant(1, direct), self.constant(0, direct))
            )
            return self._cast_node(value01, BOOL, "") if to is BOOL else self._cast(value01, to, "")
        if to is BOOL:
            return self.emit("NotEqual", (x, self.constant(0, have)))
        if have is to:
            # To an integral value: a call that only float32 has.
            whole = self._cast_node(self._cast(x, SINGLE, ""), SINGLE, mode)
            return self._cast(whole, to, "")
        route = cast_route(self.target.arch, have.name, to.name)
        if route is None:
            raise self._unavailable(f"Cast from {have} to {to}")
        down = have.kind == "f" and to.kind in "iu"
        if down and len(route) > 1 and mode in ("RINT", "ROUND"):
            # Rounding to nearest twice is not rounding once: first to an integer, then on exactly.
            return self._cast(self._cast_node(self._cast(x, SINGLE, ""), SINGLE, mode), to, "")
        for step in route:
            # A narrower float between must not round up to the next integer; a wider one does not round.
            how = (mode or "TRUNC") if down and step == "float16" else mode
            x = self._cast_node(x, BY_NAME[step], "" if down and step == "float32" else how)
        return x

    def _unavailable(self, what: str, hint: str = "") -> AutofuseError:
        n = self.current
        where = Where(pointer=n.origin, node=n.name) if n else Where()
        text = f"{what} is not available on {self.target.name}"
        return AutofuseError.of("AF3001", text, where=where, hint=hint)

    def _cast_node(self, x: str, to: DType, mode: str) -> str:
        have = self.nodes[x].y.dtype
        return self._node(
            "Cast", (x,), {"round": mode or _rounding(have, to)}, self._view((x,), to)
        )


def _converted(value: float | int, to: DType, mode: str) -> float | int:
    """A compile-time value after a Cast; to integers as the chip does: saturating, NaN to zero."""
    if to is BOOL:
        return int(bool(value))
    if to.kind == "f":
        return float(ROUNDING[mode](np.asarray(value))) if mode else value
    if isinstance(value, int):
        return value
    lo, hi = (
        (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1)
        if to.kind == "i"
        else (0, (1 << to.bits) - 1)
    )
    if not math.isfinite(value):
        return 0 if math.isnan(value) else hi if value > 0 else lo
    return max(lo, min(hi, int(ROUNDING[mode or "TRUNC"](np.asarray(value)))))


def _rounding(have: DType, to: DType) -> str:
    """NumPy's rounding: to nearest even into floats, to zero into integers; NONE where the value is exact."""
    if have.kind == "f" and to.kind in "iub":
        return "TRUNC"
    if have.kind == "f" and to.kind == "f":
        return "RINT" if to.itemsize < have.itemsize else "NONE"
    if have.kind in "iu" and to.kind == "f" and have.itemsize >= 4:
        return "RINT"
    return "NONE"
