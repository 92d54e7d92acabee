"""Legalise element-wise nodes to ops that a language can spell, for backends that plan.

Such a language has integers of every width, comparisons of every type and truth values, so most nodes stay unchanged.
An op without a spelling is replaced by its registry row's expansion.

16-bit floats exist in memory only: values computed from them are held in float32, and rounded for stores, bit
operations, and casts of the graph to 16 bits.  Values that are only moved stay in 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.codegen.nests.formulas import EXPANSIONS
from autofuse.codegen.nests.language import Language
from autofuse.implgraph.expr.expression import ONE, ZERO
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Attr, Node, TensorView
from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.implgraph.rewrites.short_results import short_results, steps_of

__all__ = ["legalize", "rounds_each_step"]

BOOL, SINGLE = BY_NAME["bool"], BY_NAME["float32"]
#: Ends of a kernel, kept even if nothing uses their result.
_ENDS = frozenset({"Data", "Output", "Workspace", "Store"})
#: Ops whose result is an unchanged operand; on 16 bits nothing is computed.
_MOVES = frozenset({"Broadcast", "Select", "MaskedFill", "Identity"})
#: Round modes of a float to an integral value.
_ROUNDING = {
    "RINT": "Round",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "RoundAway",
    "TRUNC": "Trunc",
}
#: Calls with a scalar operand and on masks -> ops that take any operands.
_SAME = {
    "Adds": "Add",
    "Muls": "Mul",
    "Maxs": "Maximum",
    "Mins": "Minimum",
    "MaskAnd": "BitwiseAnd",
    "MaskOr": "BitwiseOr",
    "MaskNot": "BitwiseNot",
}
#: Calls that treat their operands as integers.
_ON_BITS = {
    "IntAdds": "Add",
    "IntAdd": "Add",
    "IntSub": "Sub",
    "BitAnd": "BitwiseAnd",
    "BitOr": "BitwiseOr",
    "BitNot": "BitwiseNot",
    "Shl": "Shl",
    "Sar": "Shr",
    "Shr": "Shr",
}
#: Exponents of floats that the registry expands to products and quotients.
_PRODUCTS = (1, 2, 3, -1)


def legalize(nodes: Sequence[Node], language: Language) -> tuple[Node, ...]:
    """Return nodes of a HintGraph, in execution order, as nodes that a language can spell.

    Args:
        nodes: nodes in execution order, with the Data and Output nodes that they access.
        language: language with formulas of ops.

    Returns:
        Nodes in execution order, without those whose result is unused.  A node without an equal one keeps its name;
        names of additional nodes begin with that of the node they belong to.  ``y.dtype`` is the type that a value is
        held in.  The attribute ``accuracy`` of a node is ``short`` if 16-bit precision suffices for its result,
        ``exact`` if it must be correctly rounded.
    """
    rewriter = _Rewriter(nodes, language)
    for n in nodes:
        rewriter.visit(n)
    return rewriter.result()


def rounds_each_step(nodes: Sequence[Node]) -> bool:
    """Return True if fusing products and sums would change the meaning of nodes (before legalisation).

    A kernel of such nodes is launched with ``enable_fp_fusion=False``.
    """
    return any(lookup(n.op).each_step and n.y.dtype.kind == "f" for n in nodes)


def _is_half(d: DType) -> bool:
    return d.kind == "f" and d.bits == 16


def _held(d: DType) -> DType:
    """Return the type that a computed value is held in."""
    return SINGLE if _is_half(d) else d


def _rounded_exponentials(nodes: Sequence[Node]) -> frozenset[str]:
    """Return exponentials whose uses are all rounded to 16 bits, which hides the errors of tl.exp."""
    users: dict[str, list[Node]] = {}
    for n in nodes:
        for x in dict.fromkeys(n.inputs):
            users.setdefault(x, []).append(n)
    rounded: set[str] = set()
    for n in reversed(nodes):
        rounds = n.op in ("Cast", "Store") and _is_half(n.y.dtype)
        passes = (n.op == "Exp" or lookup(n.op).errors != "") and n.name in users
        if rounds or (passes and all(u.name in rounded for u in users[n.name])):
            rounded.add(n.name)
    return frozenset(n.name for n in nodes if n.op == "Exp" and n.name in rounded)


class _Rewriter:
    """``OpSink`` over new nodes; handles are their names."""

    def __init__(self, nodes: Sequence[Node], language: Language) -> None:
        self._language = language
        self._given = {n.name: n for n in nodes}
        self._short = short_results(steps_of(nodes))
        self._rounded = _rounded_exponentials(nodes)
        self._nodes: dict[str, Node] = {}
        self._renamed: dict[str, str] = {}
        self._memo: dict[tuple[object, ...], str] = {}
        self._node = nodes[0] if nodes else None
        self._is_short = False

    # OpSink -----------------------------------------------------------------------------------
    def emit(
        self,
        op: str,
        inputs: Sequence[Any],
        attrs: Mapping[str, Any] | None = None,
        dtype: DType | None = None,
    ) -> str:
        """As ``OpSink.emit``."""
        xs, a = [str(x) for x in inputs], dict(attrs or {})
        if op == "Cast":
            return self._cast(xs[0], BY_NAME[a["dtype"]], str(a.get("round") or ""))
        if op == "Reinterpret":
            return self._bits_as(xs[0], dtype or BY_NAME[a["dtype"]])
        if op in _ON_BITS:
            return self._on_bits(op, xs, dtype)
        row = lookup(_SAME.get(op, op))
        chosen = self._chosen(row, xs, a)
        if self._language.spelled(chosen, self.dtype_of(xs[-1])) and not self._is_written_out(
            op, xs
        ):
            result = row.dtype_rule([self.dtype_of(x) for x in xs], a)
            return self._add(chosen, xs, result, self._accuracy(chosen))
        short = row.short if self._is_short else None
        expand = EXPANSIONS.get(op) or short or row.expand
        done = expand(self, xs, a) if expand is not None else None
        if done is None:
            assert self._node is not None
            raise AutofuseError.of(
                "AF3001",
                f"{op} on {self.dtype_of(xs[-1])} has no implementation in {self._language.name}",
                where=Where(pointer=self._node.origin, node=self._node.name),
            )
        return str(done)

    def constant(self, value: float | int, dtype: DType) -> str:
        """As ``OpSink.constant``."""
        assert self._node is not None
        y = self._node.y
        ones, zeros = tuple(ONE for _ in y.axis), tuple(ZERO for _ in y.axis)
        view = TensorView(_held(dtype), y.axis, ones, zeros)
        key = ("Scalar", repr(value), view.dtype.name, view.axis)
        if key not in self._memo:
            self._memo[key] = self._new("Scalar", (), view, {"value": value})
        return self._memo[key]

    def dtype_of(self, operand: Any) -> DType:
        """As ``OpSink.dtype_of``."""
        return self._nodes[operand].y.dtype

    def constant_of(self, operand: Any) -> float | int | None:
        """As ``OpSink.constant_of``."""
        n = self._nodes[operand]
        value = n.attrs.get("value") if n.op == "Scalar" and "expr" not in n.attrs else None
        assert value is None or isinstance(value, int | float)
        return value

    def is_uniform(self, operand: Any) -> bool:
        """As ``OpSink.is_uniform``."""
        return all(r.number == 1 for r in self._nodes[operand].y.repeats)

    def takes(self, op: str, dtype: DType) -> bool:
        """As ``OpSink.takes``."""
        return self._language.spelled(op, dtype)

    # input nodes ------------------------------------------------------------------------------
    def visit(self, n: Node) -> None:
        """Legalise one node whose operands are already legalised."""
        self._node = n
        xs = [self._renamed[x] for x in n.inputs]
        if n.op in ("Data", "Output", "Workspace", "Load"):
            out = self._keep(n, xs)
        elif n.op in ("Scalar", "Iota"):
            out = self._keep(replace(n, y=replace(n.y, dtype=_held(n.y.dtype))), xs)
        elif n.op == "Store":
            out = self._keep(n, [self._spread(self._cast(xs[0], n.y.dtype, ""), n.y)])
        elif n.op in REDUCES or n.op == "Scan":
            given = n.y if n.op == "Scan" else self._given[n.inputs[0]].y
            x = self._spread(self._wide(xs[0]), given)
            out = self._keep(replace(n, y=replace(n.y, dtype=self.dtype_of(x))), [x, *xs[1:]])
        elif n.op == "Broadcast":
            out = self._keep(replace(n, y=replace(n.y, dtype=self.dtype_of(xs[0]))), xs)
        else:
            out = self._named(n, self._elementwise(n, xs))
        self._renamed[n.name] = out

    def _elementwise(self, n: Node, xs: list[str]) -> str:
        have = [self._given[x].y.dtype for x in n.inputs]
        self._is_short = n.name in self._short or _is_half(n.y.dtype)
        if n.op == "Cast":
            mode = str(n.attrs.get("round") or "")
            if have[0] != n.y.dtype:
                return self._cast(xs[0], n.y.dtype, mode)
            # One type: only rounding to integral values.
            return self._cast(xs[0], _held(n.y.dtype), mode) if mode else xs[0]
        if n.op == "BitCast":
            # The bits of a 16-bit value are those of the rounded one.
            return self._bits_as(self._cast(xs[0], have[0], ""), n.y.dtype)
        values = [x for x, d in zip(xs, have, strict=True) if _is_half(d)]
        if n.op not in _MOVES or not all(_is_half(self.dtype_of(x)) for x in values):
            xs = [self._wide(x) for x in xs]
        return self.emit(n.op, xs, n.attrs)

    def result(self) -> tuple[Node, ...]:
        """Return the nodes with a use, in execution order."""
        used: set[str] = set()
        kept: list[Node] = []
        for n in reversed(self._nodes.values()):
            if n.op in _ENDS or n.name in used:
                used.update(n.inputs)
                kept.append(n)
        return tuple(reversed(kept))

    # emitted nodes ----------------------------------------------------------------------------
    def _chosen(self, row: OpDef, xs: Sequence[str], attrs: Mapping[str, Any]) -> str:
        """Return the op whose spelling a node takes; attributes and constant operands decide."""
        name = row.name
        if name == "BitShift":
            name = "LShift" if attrs.get("direction", "LEFT") == "LEFT" else "RShift"
        if name == "Mod":
            name = "Fmod" if attrs.get("fmod", False) else "Remainder"
        if name in ("LShift", "RShift"):
            count = self.constant_of(xs[1])
            if count is not None and 0 <= count < self.dtype_of(xs[0]).bits:
                name = "Shl" if name == "LShift" else "Shr"
        return name

    def _is_written_out(self, op: str, xs: Sequence[str]) -> bool:
        """Return True if the expansion of an op is shorter than its function."""
        if op == "Pow":
            return self.dtype_of(xs[0]).kind == "f" and self.constant_of(xs[1]) in _PRODUCTS
        return op == "Gelu" and self._is_short

    def _accuracy(self, op: str) -> dict[str, Attr]:
        assert self._node is not None
        if op == "Exp" and (self._is_short or self._node.name in self._rounded):
            return {"accuracy": "short"}
        exact = op == "Div" and lookup(self._node.op).exact_quotients
        return {"accuracy": "exact"} if exact else {}

    def _on_bits(self, op: str, xs: Sequence[str], dtype: DType | None) -> str:
        """Emit a call on the bits of its operands, as integers of their width: unsigned for Shr, else signed."""
        have = self.dtype_of(xs[0])
        kind = BY_NAME[f"{'uint' if op == 'Shr' else 'int'}{have.bits}"]
        done = self._add(_ON_BITS[op], [self._bits_as(x, kind) for x in xs], kind, {})
        return self._bits_as(done, dtype or have)

    def _bits_as(self, x: str, to: DType) -> str:
        value, have = self.constant_of(x), self.dtype_of(x)
        if have == to:
            return x
        if have == BOOL:
            return self._cast(x, to, "")
        if value is not None and have.kind in "iu" and to.kind in "iu":
            low = -(1 << (to.bits - 1)) if to.kind == "i" else 0
            return self.constant((int(value) - low) % (1 << to.bits) + low, to)
        return self._add("BitCast", [x], to, {"dtype": to.name})

    def _cast(self, x: str, to: DType, mode: str) -> str:
        """Emit a cast; casts to an integer round in a mode, by default to zero."""
        have = self.dtype_of(x)
        if mode and have.kind == "f" and (mode != "TRUNC" or to.kind == "f"):
            x = self._add(_ROUNDING[mode], [self._wide(x)], SINGLE, {})
            have = SINGLE
        if have == to:
            return x
        if _is_half(to) or _is_half(have):
            # Through float32 also if one of the two is an integer.
            x = self._wide(x) if _is_half(have) else self._cast(x, SINGLE, "")
            if to == SINGLE:
                return x
        if to == BOOL:
            return self._add("NotEqual", [x, self.constant(0, self.dtype_of(x))], BOOL, {})
        return self._add("Cast", [x], to, {"dtype": to.name})

    def _wide(self, x: str) -> str:
        """Return a 16-bit value in float32, cast before its broadcast if there is one."""
        n = self._nodes[x]
        if not _is_half(n.y.dtype):
            return x
        if n.op == "Cast" and self._is_truth(n.inputs[0]):
            return n.inputs[0]
        key = ("wide", x)
        if key not in self._memo:
            view = replace(n.y, dtype=SINGLE, offset=ZERO)
            if n.op == "Broadcast":
                inner = self._wide(n.inputs[0])
                self._memo[key] = self._new("Broadcast", (inner,), view, n.attrs)
            else:
                self._memo[key] = self._new("Cast", (x,), view, {"dtype": SINGLE.name})
        return self._memo[key]

    def _is_truth(self, x: str) -> bool:
        """Return True if a float32 value is a cast bool: 0 or 1, which 16 bits hold."""
        n = self._nodes[x]
        return n.op == "Cast" and n.y.dtype == SINGLE and self.dtype_of(n.inputs[0]) == BOOL

    def _spread(self, x: str, view: TensorView) -> str:
        """Return a value broadcast to all axes of a view."""
        n = self._nodes[x]
        if n.y.repeats == view.repeats:
            return x
        return self._new("Broadcast", (x,), replace(view, dtype=n.y.dtype, offset=ZERO), {})

    def _view(self, xs: Sequence[str], dtype: DType) -> TensorView:
        """Return the view of the current node, along the axes on which an operand varies."""
        assert self._node is not None
        y = self._node.y
        varies = {a for x in xs for a in self._nodes[x].y.varies()}
        return replace(
            y,
            dtype=dtype,
            repeats=tuple(
                r if a in varies else ONE for a, r in zip(y.axis, y.repeats, strict=True)
            ),
            strides=tuple(
                s if a in varies else ZERO for a, s in zip(y.axis, y.strides, strict=True)
            ),
            offset=ZERO,
        )

    def _add(self, op: str, xs: Sequence[str], dtype: DType, attrs: Mapping[str, Attr]) -> str:
        """Add an element-wise node, or reuse an equal one."""
        view = self._view(xs, dtype)
        key = (op, tuple(xs), tuple(sorted(attrs.items())), dtype.name, view.axis, view.repeats)
        if key not in self._memo:
            self._memo[key] = self._new(op, tuple(xs), view, attrs)
        return self._memo[key]

    def _new(
        self, op: str, xs: tuple[str, ...], view: TensorView, attrs: Mapping[str, Attr]
    ) -> str:
        assert self._node is not None
        base, k = self._node.name, 0
        while (name := f"{base}_{k}") in self._nodes or name in self._given:
            k += 1
        self._nodes[name] = replace(self._node, name=name, op=op, inputs=xs, y=view, attrs=attrs)
        return name

    def _keep(self, n: Node, xs: Sequence[str]) -> str:
        self._nodes[n.name] = replace(n, inputs=tuple(xs))
        return n.name

    def _named(self, n: Node, out: str) -> str:
        """Give the last node emitted for ``n`` its name."""
        last = next(reversed(self._nodes), None)
        if out != last or out in self._given or not out.startswith(f"{n.name}_"):
            return out
        self._nodes[n.name] = replace(self._nodes.pop(out), name=n.name)
        key = next(key for key in reversed(self._memo) if self._memo[key] == out)
        self._memo[key] = n.name
        return n.name
