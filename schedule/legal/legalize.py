"""Legalisation: rewriting nodes to ops that the target has calls for.

Expansions, promotions and tensor/scalar forms come from the registry rows; this file adds the two forms of a truth
value (a byte in GM and after a Load, a bit mask after a Compare), the routes of Cast, and the filling of a uniform
operand where a call requires a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.implgraph.expr.expression import ONE, ZERO
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Attr, HintGraph, Node, TensorView
from autofuse.implgraph.ir.ordering import execution_order, most_alive
from autofuse.implgraph.lowering.lowering import in_place_pairs
from autofuse.implgraph.ops.cast_routes import cast_route
from autofuse.implgraph.ops.definition import Expansion, OpDef
from autofuse.implgraph.ops.registry import call_of, find_call, lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.implgraph.ops.rules import ROUNDING
from autofuse.implgraph.rewrites.short_results import short_results, steps_of
from autofuse.schedule.legal.casts import cast_mode, convert, to_whole
from autofuse.schedule.legal.ends import is_sink, is_source
from autofuse.schedule.legal.takes import contiguous, load_of_rows, take
from autofuse.targets import Architecture, TargetSpec

__all__ = ["Legalizer", "legalize"]

MASK, BOOL, HALF, SINGLE = (BY_NAME[n] for n in ("mask", "bool", "float16", "float32"))
#: Maximum calls of one group beyond its nodes: a longer kernel is too long for compilers as well.
MAX_CALLS = 10_000
_KEEP = ("Data", "Output", "Load", "Workspace")
#: Ops that keep every true byte of a bool nonzero, and comparisons that only test for that.
_ZERO_STAYS = frozenset(
    {"Load", "Store", "Workspace", "Broadcast", "ReduceMax", "ReduceMin", "Maximum", "Minimum"}
)
_OF_ZERO = frozenset({"Greater", "NotEqual", "Equal", "LessEqual"})
_TRUTH = {"MaskAnd": 2, "MaskOr": 2, "MaskNot": 1, "SelectMask": 1}


def legalize(nodes: Sequence[Node], hint: HintGraph, target: TargetSpec) -> tuple[Node, ...]:
    """Rewrite the nodes of one group for ``target``.

    Args:
        nodes: one group in execution order, with the Data and Output nodes it touches.
        hint: the graph they belong to.
        target: decides which calls exist.

    Raises:
        AutofuseError: AF3001 if neither a call, an expansion nor a promotion realises an op, for every such op
            independent of the others; AF2104, there are too many calls.
    """
    return Legalizer(hint, target).of(nodes)


class Legalizer:
    """Legalises the groups of one graph, sharing common work."""

    def __init__(self, hint: HintGraph, target: TargetSpec) -> None:
        self._target = target
        self._reserved = Reserved(n.name for n in hint.nodes)
        self._in_place = in_place_pairs(hint)
        self._zero_or_not = _compared_with_zero(hint)

    def of(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Legalise one group, as :func:`legalize`."""
        rewriter = _Rewriter(self._target, self._reserved, self._zero_or_not)
        rewriter.short = short_results(steps_of(nodes))
        lacking: list[Diagnostic] = []
        refused: set[str] = set()
        for n in nodes:
            if not refused.isdisjoint(n.inputs):
                refused.add(n.name)
                continue
            try:
                rewriter.visit(n)
            except AutofuseError as e:
                if any(d.code != "AF3001" for d in e.diagnostics):
                    raise
                lacking += e.diagnostics
                refused.add(n.name)
        if lacking:
            raise AutofuseError(dict.fromkeys(lacking))
        return rewriter.result(self._in_place)


class Reserved:
    """Names that new nodes must not use.

    Every group numbers names until one is free; runs of taken numbers are skipped in one step.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        #: (base, number) of a taken name -> a later number such that all numbers in between are taken.
        self._behind: dict[tuple[str, int], int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def behind(self, base: str, number: int) -> int:
        """Return the first number, at least ``number``, that makes a free name."""
        passed = []
        while numbered(base, number) in self._names:
            passed.append(number)
            number = self._behind.get((base, number), number + 1)
        for k in passed:
            self._behind[base, k] = number
        return number


def _compared_with_zero(hint: HintGraph) -> frozenset[str]:
    """Return casts of bools whose results are only moved, reduced by Max or Min, or compared with 0."""
    nodes = hint.by_name()
    asked: dict[str, bool] = {}
    users: dict[str, list[Node]] = {}
    for n in reversed(hint.nodes):
        asked[n.name] = n.op != "Output" and all(
            u.op in _OF_ZERO and n.name == u.inputs[0] and _is_zero(nodes[u.inputs[1]])
            if u.op not in _ZERO_STAYS
            else asked[u.name]
            for u in users.get(n.name, ())
        )
        for x in n.inputs:
            users.setdefault(x, []).append(n)
    return frozenset(
        n.name
        for n in hint.nodes
        if n.op == "Cast" and asked[n.name] and nodes[n.inputs[0]].y.dtype is BOOL
    )


def _is_zero(n: Node) -> bool:
    return n.op == "Scalar" and "expr" not in n.attrs and n.attrs.get("value") == 0


def numbered(base: str, number: int) -> str:
    """Return a name with a number; 0 for none."""
    return f"{base}_{number}" if number else base


def _with_inputs(n: Node, inputs: tuple[str, ...]) -> Node:
    """Return the node with these inputs; the same node if it has them already."""
    return n if n.inputs == inputs else replace(n, inputs=inputs)


@dataclass
class _Rewriter:
    """Implements ``OpSink``; handles are names of the new nodes."""

    target: TargetSpec
    reserved: Reserved
    #: Casts of bools that are only tested for 0.
    zero_or_not: frozenset[str]
    nodes: dict[str, Node] = field(default_factory=dict)
    #: Bools from the kernel's caller: any nonzero byte is true.  Bools computed by the kernel are 0 or 1.
    bytes: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    memo: dict[tuple[object, ...], str] = field(default_factory=dict)
    #: Base of a name -> the last number used with it.
    numbers: dict[str, int] = field(default_factory=dict)
    current: Node | None = None
    axis: tuple[int, ...] = ()
    all_uniform: bool = False
    #: Narrow tensor -> the wider one that it was cast from, within a chain of promoted ops.
    wide: dict[str, str] = field(default_factory=dict)
    #: float32 nodes whose result is rounded to 16 bits and needs no higher accuracy.
    short: frozenset[str] = frozenset()
    #: Original views of the nodes.
    views: dict[str, TensorView] = field(default_factory=dict)

    @property
    def arch(self) -> Architecture:
        """Architecture of the target."""
        return self.target.arch

    # OpSink -----------------------------------------------------------------------------------
    def emit(
        self,
        op: str,
        inputs: Sequence[Any],
        attrs: Mapping[str, Any] | None = None,
        dtype: DType | None = None,
    ) -> str:
        row = lookup(op)
        return self._emit(row, row.expand, inputs, dict(attrs or {}), dtype)

    def _emit(
        self,
        row: OpDef,
        expand: Expansion | None,
        inputs: Sequence[Any],
        a: dict[str, Any],
        dtype: DType | None = None,
    ) -> str:
        op = row.name
        xs = [self._strip(x) for x in inputs]
        if op in ("Low", "High"):
            word = self._word(xs[0], op == "High")
            if word is not None:
                return word
        if op == "MaskNot" and self.nodes[xs[0]].op == op:
            return self.nodes[xs[0]].inputs[0]
        outer = self.all_uniform
        self.all_uniform = all(self._is_one(x) for x in xs)
        try:
            if op == "Cast":
                return self._cast(xs[0], BY_NAME[a["dtype"]], str(a.get("round") or ""))
            # An op promoted to a wider type is promoted as a whole: its parts do not round in between.
            if expand is not None and self.dtype_of(xs[-1]).name not in row.promote:
                done = expand(self, xs, a)
                if done is not None:
                    return str(done)
            return self._call(row, xs, a, dtype)
        finally:
            self.all_uniform = outer

    def _word(self, x: str, high: bool) -> str | None:
        """Return an available word of a 64-bit operand: of a constant, or of words that were just joined."""
        n = self.nodes[x]
        value = self.constant_of(x)
        if value is not None:
            part = (int(value) >> (32 if high else 0)) % (1 << 32)
            return self.constant((part + (1 << 31)) % (1 << 32) - (1 << 31), BY_NAME["int32"])
        return n.inputs[int(high)] if n.op == "Join" else None

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
        if "expr" in n.attrs:
            return None
        value = n.attrs["value"]
        assert isinstance(value, (int, float))
        return value

    def is_uniform(self, operand: Any) -> bool:
        """Return True for one-element operands; if all operands are, only for constants: the rest are data."""
        return self.nodes[operand].op == "Scalar" if self.all_uniform else self._is_one(operand)

    def takes(self, op: str, dtype: DType) -> bool:
        call = find_call(op, self.arch)
        return call is not None and dtype.name in call.dtypes

    # nodes ------------------------------------------------------------------------------------
    def visit(self, n: Node) -> None:
        """Legalise one node of the input."""
        self.current, self.axis = n, n.y.axis or self.axis
        xs = [self.renamed[i] for i in n.inputs]
        if n.op == "Load" and n.attrs.get("taken"):
            out = self._take(n, *xs)
        elif n.op in _KEEP:
            if n.op == "Load" and len(xs) > 1:
                # The scalar unit reads the index from UB.
                xs[1] = self._fill(xs[1], self.nodes[xs[1]].y)
            out = n.name
            self.nodes[out] = _with_inputs(n, tuple(xs))
            if n.y.dtype is BOOL and xs and self.nodes[xs[0]].op == "Data":
                self.bytes.add(out)
        elif n.op == "Scalar" and "expr" in n.attrs:
            out = n.name
            self.nodes[out] = n
        elif n.op == "Scalar":
            value = n.attrs["value"]
            assert isinstance(value, (int, float))
            out = self.constant(value, n.y.dtype)
        elif n.op == "Store":
            src = self._spread(self._stored(xs[0], n.y.dtype), n.y)
            out = n.name
            self.nodes[out] = _with_inputs(n, (src,))
        elif n.op == "Broadcast":
            out = self._broadcast(xs[0], n.y)
        elif n.op in REDUCES:
            out = self._reduce(n, xs[0])
        elif n.op == "Scan":
            out = self._scan(n, xs[0])
        elif n.op == "Iota":
            out = self._iota(n)
        elif n.name in self.zero_or_not:
            out = self._byte(xs[0], n.y.dtype)
        else:
            row = lookup(n.op)
            form = row.short if n.name in self.short else row.expand
            out = self._emit(row, form, xs, dict(n.attrs))
        self.renamed[n.name] = out
        self.views[n.name] = n.y

    def result(self, in_place: Sequence[tuple[str, str]]) -> tuple[Node, ...]:
        """Return the nodes that a Store needs, reordered, since expansions change the best order.

        If more values are live than there are buffers, the original order may need fewer: in a chain of 64-bit integers
        the lower words do not depend on the upper ones, which depend on all lower ones.

        ``in_place``: pairs of a Load and the Store that overwrites its memory and must come later.
        """
        nodes = list(self.nodes.values())
        index = {n.name: i for i, n in enumerate(nodes)}
        operands = [[index[x] for x in n.inputs] for n in nodes]
        for load, store in in_place:
            if load in index and store in index:
                operands[index[store]].append(index[load])
        stores = [i for i, n in enumerate(nodes) if n.op == "Store"]
        free = [n.op == "Scalar" or is_source(n) for n in nodes]
        order = execution_order(operands, stores, free)
        alive = most_alive(operands, order, free)
        if alive > self.arch.buffers_total - 2 * self.arch.queue_buffers_per_position:
            written = sorted(order)
            order = written if most_alive(operands, written, free) < alive else order
        data = [n for n in nodes if is_source(n)]
        inside = [nodes[i] for i in order if not is_source(nodes[i])]
        return (*data, *inside, *(n for n in nodes if is_sink(n)))

    def _add(
        self,
        op: str,
        inputs: tuple[str, ...],
        view: TensorView,
        attrs: Mapping[str, Attr],
        stem: str = "",
    ) -> str:
        # Unchanged nodes keep their names.
        stays = self.current is None or self.current.op in _KEEP or self.current.op == "Store"
        own = self.current.name if self.current and not stays else ""
        base = stem or own or op.lower()
        # Numbers up to the last one are taken; the name of the node itself may still be free.
        k = 0 if own.startswith(base) else self.numbers.get(base, 0)
        if own == base and own in self.nodes:
            k = self.numbers.get(base, 0)
        name, k = self._free(base, k, own)
        if own == base or not own.startswith(base):
            self.numbers[base] = max(k, self.numbers.get(base, 0))
        origin = self.current.origin if self.current else ""
        if len(self.nodes) >= MAX_CALLS + len(self.reserved):
            raise AutofuseError.of(
                "AF2104",
                f"the fused operators need more than {MAX_CALLS} calls",
                where=Where(pointer=origin, node=own),
                hint="split the graph, or use autofuse build --split",
            )
        self.nodes[name] = Node(name, op, inputs, view, attrs, origin=origin)
        return name

    def _free(self, base: str, number: int, own: str) -> tuple[str, int]:
        """Return the first unused name from a number on that is not reserved, or is ``own``."""
        own_number = own[len(base) + 1 :] if own.startswith(f"{base}_") else ""
        mine = int(own_number) if own_number.isdecimal() else -1
        while True:
            name = numbered(base, number)
            if name in self.nodes:
                number += 1
            elif name == own or name not in self.reserved:
                return name, number
            else:
                behind = self.reserved.behind(base, number)
                number = mine if number < mine < behind else behind

    def _node(
        self, op: str, inputs: Sequence[str], attrs: Mapping[str, Attr], view: TensorView
    ) -> str:
        """Add a node, or return an existing equal one."""
        key = (op, tuple(inputs), tuple(sorted(attrs.items())), view.dtype.name, view.repeats)
        if key not in self.memo:
            self.memo[key] = self._add(op, tuple(inputs), view, attrs)
        return self.memo[key]

    def _is_one(self, name: str) -> bool:
        return all([r.number == 1 for r in self.nodes[name].y.repeats])

    def _strip(self, name: str) -> str:
        """Replace a broadcast of one element by the element: calls take it as a scalar, or it is filled again."""
        n = self.nodes[name]
        while n.op in ("Broadcast", "Duplicate") and self._is_one(n.inputs[0]):
            n = self.nodes[n.inputs[0]]
        return n.name

    def _view(self, xs: Sequence[str], dtype: DType) -> TensorView:
        """Return the view of an element-wise result: that of the varying operand, else of the first."""
        best = self.nodes[next((x for x in xs if not self._is_one(x)), xs[0])]
        y = best.y
        if best.op == "Load" and len(best.inputs) > 1:
            y = contiguous(y)
        return replace(y, dtype=dtype, offset=ZERO)

    def _take(self, n: Node, data: str, offsets: str) -> str:
        """Load the rows of an indexed dimension, once for all that take elements from them, and take these."""
        load = load_of_rows(n, data)
        key = ("rows", data, load.y, load.size("row"))
        if key not in self.memo:
            self.nodes[load.name] = load
            self.memo[key] = load.name
        offsets = self._fill(offsets, self.nodes[offsets].y)
        self.nodes[n.name] = take(n, self.memo[key], offsets)
        return n.name

    # calls ------------------------------------------------------------------------------------
    def _call(self, row: OpDef, xs: list[str], attrs: dict[str, Any], dtype: DType | None) -> str:
        call = find_call(row.name, self.target.arch)
        truths = _TRUTH.get(row.name, 0)
        xs = [self._as_mask(x) if i < truths else x for i, x in enumerate(xs)]
        lead = self.nodes[xs[truths if truths < len(xs) else 0]].y.dtype
        if call is None or (lead.name not in call.dtypes and lead.name not in call.as_type):
            return self._promote(row, xs, attrs)
        tensors = xs if call.style not in ("scalar", "compare_scalar") else xs[:1]
        view = self._view(tensors, lead)
        if call.style == "select":
            view = self._view(xs, lead)
            # Tensor-scalar mode takes the last operand as a scalar, except where types are reinterpreted.
            plain = lead.name in call.dtypes
            scalar = self.nodes[xs[2]].op == "Scalar" or (
                self._is_one(xs[2]) and any(r != 1 for r in view.repeats)
            )
            tensors = xs[:2] if plain and scalar else xs
        filled = [self._fill(x, view) for x in tensors] + xs[len(tensors) :]
        kinds = [self.nodes[x].y.dtype for x in filled]
        if dtype is not None and "dtype" in row.attr_names():
            attrs = {**attrs, "dtype": dtype.name}
        result = dtype or row.dtype_rule(kinds, attrs)
        return self._node(row.name, filled, attrs, replace(view, dtype=result))

    def _promote(self, row: OpDef, xs: list[str], attrs: dict[str, Any]) -> str:
        lead = self.dtype_of(xs[-1])
        wide = row.promote.get(lead.name) or self._taken_wider(row, lead)
        if wide is None:
            raise self._unavailable(
                f"{row.name} on {lead}", "insert a Cast to float32 before this op"
            )
        keep = 1 if row.name == "Select" else 0
        widened = self._byte if keep and lead is BOOL else self._widened
        wider = xs[:keep] + [widened(x, BY_NAME[wide]) for x in xs[keep:]]
        # The accuracy of float32 beyond 16 bits would be lost.
        short = row.short if lead.kind == "f" and lead.itemsize == 2 else None
        out = self._emit(row, short or row.expand, wider, attrs)
        result = row.dtype_rule([self.dtype_of(x) for x in xs], attrs)
        if result is BOOL:
            return out if self.nodes[out].y.dtype is MASK else self._cast(out, BOOL, "")
        narrow = self._cast(out, result, "")
        if result.kind == "f" and self.nodes[narrow].op == "Cast":
            self.wide[narrow] = out
        return narrow

    def _taken_wider(self, row: OpDef, lead: DType) -> str | None:
        """Return float32 for a call that takes float16 on other architectures but not on this one."""
        elsewhere = row.call is not None and lead is HALF and lead.name in row.call.dtypes
        return "float32" if elsewhere and self.takes(row.name, BY_NAME["float32"]) else None

    def _widened(self, x: str, to: DType) -> str:
        """Return ``x`` in a wider dtype: the unrounded value, if available.

        So a chain of promoted ops rounds only at its end (a Store, an explicit Cast, an op of the narrow type), not
        after every op.
        """
        wide = self.wide.get(x)
        if wide is not None and self.dtype_of(wide) is to:
            return wide
        return self._cast(x, to, "")

    def _fill(self, x: str, view: TensorView) -> str:
        """Return ``x`` if it is a tensor of the right extent, else a buffer filled with its value."""
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
                return self.cast_node(filled, BOOL, "")
            # Not emit(), which would reduce the fill to its one element.
            zero = self.constant(0, HALF)
            return self._call(lookup("CompareScalar"), [filled, zero], {"mode": "NE"}, None)
        if not self.takes("Duplicate", n.y.dtype):
            value = self.constant_of(x)
            if n.y.dtype.itemsize == 8 and value is not None and not -(1 << 31) <= value < 1 << 31:
                words = [self._spread(self.emit(w, (x,)), view) for w in ("Low", "High")]
                return self._call(lookup("Join"), words, {"dtype": n.y.dtype.name}, n.y.dtype)
            # Types that Duplicate lacks (8 and 64 bits) are filled in a type that converts to them.
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
            half = self._byte(x, HALF)
            wide = self._node("Broadcast", (half,), {}, replace(view, dtype=HALF))
            if d in (MASK, BOOL):
                return self.emit("CompareScalar", (wide, self.constant(0, HALF)), {"mode": "NE"})
            return self._cast(wide, d, "")
        if d.itemsize == 8:
            words = [self._broadcast(self.emit(w, (x,)), view) for w in ("Low", "High")]
            return self.emit("Join", words, {"dtype": d.name}, d)
        return self._node("Broadcast", (x,), {}, replace(view, dtype=d))

    def _scan(self, n: Node, x: str) -> str:
        """Legalise running sums: their operand must vary along all axes of the result."""
        x = self._spread(x, n.y) if self._is_one(x) else x
        have, call = self.dtype_of(x), call_of(n.op, self.arch)
        if have.name not in call.dtypes and have.name not in call.as_type:
            raise self._unavailable(
                f"CumSum on {have}", "insert a Cast to float32 or int32 before it"
            )
        return self._node(n.op, (x,), n.attrs, replace(n.y, dtype=have, offset=ZERO))

    def _iota(self, n: Node) -> str:
        """Legalise an Iota: count in a type that the chip supports."""
        native = self.takes("Iota", n.y.dtype)
        dtype = n.y.dtype if native else BY_NAME["int32" if n.y.dtype.kind in "iu" else "float32"]
        attrs = {k: n.attrs[k] for k in ("start", "step") if k in n.attrs}
        return self._cast(self._node("Iota", (), attrs, replace(n.y, dtype=dtype)), n.y.dtype, "")

    def _reduce(self, n: Node, x: str) -> str:
        """Legalise a reduction: its operand must vary along all reduced axes."""
        if self._is_one(x):
            x = self._spread(x, self.views[n.inputs[0]])
        row, have = lookup(n.op), self.dtype_of(x)
        if self.takes(n.op, have):
            return self._node(n.op, (x,), n.attrs, replace(n.y, dtype=have, offset=ZERO))
        wide = row.promote.get(have.name)
        if wide is None:
            raise self._unavailable(f"{n.op} on {have}", "insert a Cast to float32 before it")
        y = replace(n.y, dtype=BY_NAME[wide], offset=ZERO)
        return self._cast(
            self._node(n.op, (self._widened(x, BY_NAME[wide]),), n.attrs, y), have, ""
        )

    # truth values and casts -------------------------------------------------------------------
    def _as_mask(self, x: str) -> str:
        d = self.nodes[x].y.dtype
        if d is MASK:
            return x
        return self.emit(
            "CompareScalar", (self._byte(x, HALF), self.constant(0, HALF)), {"mode": "NE"}
        )

    def _zero_or_one(self, x: str) -> str:
        """Return a bool whose true byte is 1; other operands unchanged."""
        return self.cast_node(self.cast_node(x, HALF, ""), BOOL, "") if x in self.bytes else x

    def _byte(self, x: str, to: DType) -> str:
        """Return ``x`` as ``to`` for users that only test for 0: the byte of a bool as a number, whatever it is."""
        direct = x in self.bytes and len(cast_route(self.arch, BOOL.name, to.name) or "..") == 1
        return self._one_cast(x, to, "") if direct else self._cast(x, to, "")

    def _stored(self, x: str, dtype: DType) -> str:
        """Return the value in the form that GM holds."""
        n = self.nodes[x]
        if n.y.dtype is MASK:
            return self._cast(x, BOOL, "")
        if n.op == "Scalar" and dtype is BOOL:
            return self.constant(1 if n.attrs["value"] else 0, BY_NAME["uint8"])
        return self._zero_or_one(x)

    def _cast(self, x: str, to: DType, mode: str) -> str:
        have = self.nodes[x].y.dtype
        value = self.constant_of(x)
        if value is not None:
            return self.constant(_converted(value, to, mode), to)
        if have is to and not mode:
            return x
        if self.nodes[x].op == "Scalar":
            # A value known when the kernel starts is written in the other dtype.
            n = self.nodes[x]
            return self._node("Scalar", (), n.attrs, replace(n.y, dtype=to))
        if have is MASK:
            direct = to if to.name in ("float16", "float32") else HALF
            value01 = self.emit(
                "SelectMask", (x, self.constant(1, direct), self.constant(0, direct))
            )
            return self.cast_node(value01, BOOL, "") if to is BOOL else self._cast(value01, to, "")
        if to is BOOL:
            return self.emit("NotEqual", (x, self.constant(0, have)))
        if have is to:
            # Rounding to an integral value: a call that only float32 has.
            whole = self.cast_node(self._cast(x, SINGLE, ""), SINGLE, mode)
            return self._cast(whole, to, "")
        done = convert(self, self._zero_or_one(x) if to.bits == BOOL.bits else x, to, mode)
        if done is None:
            raise self._unavailable(f"Cast from {have} to {to}")
        return done

    def _unavailable(self, what: str, hint: str = "") -> AutofuseError:
        n = self.current
        where = Where(pointer=n.origin, node=n.name) if n else Where()
        text = f"{what} is not available on {self.target.name}"
        return AutofuseError.of("AF3001", text, where=where, hint=hint)

    def cast_node(self, x: str, to: DType, mode: str) -> str:
        """Add one Cast call; AF3001 if the chip lacks it.  True becomes 1, whatever its byte."""
        number = self._one_cast(x, to, mode)
        return self.emit("Mins", (number, self.constant(1, to))) if x in self.bytes else number

    def _one_cast(self, x: str, to: DType, mode: str) -> str:
        have = self.nodes[x].y.dtype
        if have is not to and len(cast_route(self.arch, have.name, to.name) or "..") > 1:
            raise self._unavailable(f"Cast from {have} to {to}")
        how = cast_mode(self.arch, have, to, mode)
        if how is None and have is SINGLE and to is SINGLE:
            return to_whole(self, x, mode)
        if how is None:
            raise self._unavailable(f"Cast from {have} to {to} with CAST_{mode}")
        return self._node("Cast", (x,), {"round": how}, self._view((x,), to))


def _converted(value: float | int, to: DType, mode: str) -> float | int:
    """Return a compile-time value after a Cast: integers wrap, floats saturate, NaN becomes zero."""
    if to is BOOL:
        return int(bool(value))
    if to.kind == "f":
        return float(ROUNDING[mode](np.asarray(value))) if mode else value
    if isinstance(value, int):
        low = -(1 << (to.bits - 1)) if to.kind == "i" else 0
        return (value - low) % (1 << to.bits) + low
    lo, hi = (
        (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1)
        if to.kind == "i"
        else (0, (1 << to.bits) - 1)
    )
    if not math.isfinite(value):
        return 0 if math.isnan(value) else hi if value > 0 else lo
    return max(lo, min(hi, int(ROUNDING[mode or "TRUNC"](np.asarray(value)))))
