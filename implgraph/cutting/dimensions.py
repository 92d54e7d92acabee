"""Equal dimensions of a FusionGraph, and graphs with smaller, symbolic or fixed sizes for them.

Every dimension of every tensor is a product of *factors*.  Ops equate factors: an element-wise op equates the
dimensions of its operands and its result, a Reshape the products of its dimensions, which splits a dimension of 768
into 12 x 64 if the other side has those.  Where a Reshape mixes dimensions that do not divide, their factors are
*frozen*: they keep their sizes.  The frame of a Pad keeps its size: a padded dimension is a *framed* factor, the
operand's dimension plus a constant, and is never chosen.  Changing the size of a factor everywhere keeps the graph
legal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import Expr, const, divide_exact, product, sym
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, Symbol, Tensor
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import reduced_axes

__all__ = ["Dimensions", "bind", "check_shapes", "shrink", "symbolize"]

#: Largest number of elements of a tensor with symbolic sizes.
MAX_ELEMENTS = 1 << 40
MAX_SIZE = 1 << 31


@dataclass(slots=True, eq=False)
class _Factor:
    size: Expr
    parent: _Factor | None = None
    parts: tuple[_Factor, _Factor] | None = None
    frozen: bool = False
    shared: bool = False


def _root(f: _Factor) -> _Factor:
    while f.parent is not None:
        if f.parent.parent is not None:
            f.parent = f.parent.parent
        f = f.parent
    return f


def _leaves(dimension: _Factor) -> list[_Factor]:
    """Return the factors of a dimension, outermost first."""
    out: list[_Factor] = []
    stack = [dimension]
    while stack:
        f = _root(stack.pop())
        if f.parts is None:
            out.append(f)
        else:
            stack += (f.parts[1], f.parts[0])
    return out


class Dimensions:
    """The factors of all dimensions of a graph.

    Dimensions that are literally 1 have no factor: they stay 1.
    """

    def __init__(self, graph: FusionGraph) -> None:
        self.graph = graph
        self._pads: list[tuple[_Factor, _Factor, Expr]] = []
        self._dims: dict[str, tuple[_Factor | None, ...]] = {
            name: tuple(None if s == 1 else _Factor(s) for s in t.shape)
            for name, t in graph.tensors.items()
        }
        for node in graph.nodes:
            for name in node.outputs:
                for x in node.inputs:
                    if isinstance(x, str):
                        self._relate(node, x, name)
        #: ``id`` of a framed factor -> (dimension inside its frame, size of the frame).
        self._framed: dict[int, tuple[_Factor, Expr]] = {}
        for out in graph.outputs:
            if out.inout is not None:
                self._equate(self._dims[out.tensor], self._dims[out.inout])
        self._frame()

    def _relate(self, node: FusionNode, source: str, target: str) -> None:
        a, b = self._dims[source], self._dims[target]
        row = lookup(node.op)
        if row.compute_type == "view":
            _unify([f for f in a if f is not None], [f for f in b if f is not None])
        elif row.compute_type in ("elewise", "broadcast"):
            self._equate(a, b)
        else:
            self._relate_moved(node, row.name, a, b)

    def _relate_moved(
        self,
        node: FusionNode,
        op: str,
        a: Sequence[_Factor | None],
        b: Sequence[_Factor | None],
    ) -> None:
        """Relate the operand's dimensions to those of the result that they become; freeze sizes fixed by attributes."""
        attrs: Mapping[str, Any] = node.attrs
        if op == "Transpose":
            self._equate([a[p] for p in attrs["perm"]], b)
        elif op in ("Softmax", "LogSoftmax", "CumSum"):
            self._equate(a, b)
        elif "axes" in attrs or lookup(op).cost == "reduce":
            axes = attrs.get("axes", ()) if "axis" not in attrs else (attrs["axis"],)
            gone = reduced_axes(axes, len(a))
            kept = [f for i, f in enumerate(a) if i not in gone]
            if len(a) == len(b):
                kept = [f if i not in gone else None for i, f in enumerate(a)]
            self._equate(kept, b)
        else:
            self._relate_parts(node, op, a, b)

    def _relate_parts(
        self,
        node: FusionNode,
        op: str,
        a: Sequence[_Factor | None],
        b: Sequence[_Factor | None],
    ) -> None:
        """Relate the dimensions that Slice, Concat, Pad and Gather leave alone; the others keep their sizes.

        Padded dimensions are handled once all ops are known (:meth:`_frame`).
        """
        attrs: Mapping[str, Any] = node.attrs
        same = [False] * len(a)
        if op == "Concat":
            axis = attrs["axis"] % len(a)
            same = [i != axis for i in range(len(a))]
        elif op == "Pad":
            same = [lo == 0 and hi == 0 for lo, hi in zip(attrs["low"], attrs["high"], strict=True)]
        elif op == "Slice":
            steps = attrs.get("steps") or (1,) * len(a)
            same = [
                f is not None and g is not None and f.size == g.size and start == 0 and step == 1
                for f, g, start, step in zip(a, b, attrs["starts"], steps, strict=True)
            ]
        if len(a) == len(b):
            self._equate(
                [f if s else None for f, s in zip(a, same, strict=True)],
                [g if s else None for g, s in zip(b, same, strict=True)],
            )
        else:
            same = [False] * len(a)
        if op == "Pad":
            frames = (lo + hi for lo, hi in zip(attrs["low"], attrs["high"], strict=True))
            for f, g, frame, s in zip(a, b, frames, same, strict=True):
                if f is not None and g is not None and not s:
                    self._pads.append((f, g, frame))
                elif not s:
                    _freeze(g)
            return
        for f, s in zip(a, same, strict=True):
            _freeze(None if s else f)
        for i, g in enumerate(b):
            _freeze(None if len(a) == len(b) and same[i] else g)

    def _equate(self, a: Sequence[_Factor | None], b: Sequence[_Factor | None]) -> None:
        for f, g in zip(reversed(a), reversed(b), strict=False):
            if f is not None and g is not None:
                _unify([f], [g])

    def _frame(self) -> None:
        """Make the results of Pads framed factors.

        Where that is impossible, freeze the sizes on both sides: where a Reshape splits the result, where two Pads make
        it from different dimensions, or where its size equals that of the inner dimension, is fixed, or is not a
        number.
        """
        for f, g, frame in self._pads:
            root, inside = _root(g), _leaves(f)
            known = self._framed.get(id(root))
            again = known is not None and _leaves(known[0]) == inside and known[1] == frame
            free = root.parts is None and known is None and frame.is_const
            if free and root not in [x for leaf in inside for x in (leaf, *self.choices(leaf))]:
                self._framed[id(root)] = (f, frame)
            elif not again:
                _freeze(f)
                _freeze(g)
        changed = True
        while changed:  # a frozen size freezes those it depends on
            changed = False
            for f, g, _ in self._pads:
                ends = [*_leaves(f), *_leaves(g)]
                inner = [x for leaf in ends for x in self.choices(leaf)]
                if any(x.frozen for x in (*ends, *inner)) and not all(
                    x.frozen for x in (*ends, *inner)
                ):
                    for x in (*ends, *inner):
                        x.frozen = changed = True

    def choices(self, f: _Factor) -> list[_Factor]:
        """Return the factors that the size of a factor depends on: itself, or those inside its frame."""
        framed = self._framed.get(id(f))
        if framed is None:
            return [f]
        return [x for leaf in _leaves(framed[0]) for x in self.choices(leaf)]

    def is_framed(self, f: _Factor) -> bool:
        """Return True if the size of a factor follows from others."""
        return id(f) in self._framed

    def size(self, f: _Factor, sizes: Mapping[int, Expr]) -> Expr:
        """Return the size of a factor, given the sizes of some unframed factors by ``id``."""
        framed = self._framed.get(id(f))
        if framed is None:
            return sizes.get(id(f), f.size)
        return product(self.size(x, sizes) for x in _leaves(framed[0])) + framed[1]

    def factors(self, tensor: str) -> list[list[_Factor]]:
        """Return the factors of every dimension of a tensor, outermost first; none for a size of 1."""
        return [[] if f is None else _leaves(f) for f in self._dims[tensor]]

    def all_factors(self) -> list[_Factor]:
        """Return every factor once, in order of first appearance."""
        seen: dict[int, _Factor] = {}
        for name in self.graph.tensors:
            for dim in self.factors(name):
                for f in dim:
                    seen.setdefault(id(f), f)
        return list(seen.values())

    def rebuilt(self, sizes: Mapping[int, Expr], symbols: Sequence[Symbol]) -> FusionGraph:
        """Return the graph with new factor sizes, by ``id``; shapes and strides follow."""
        tensors: dict[str, Tensor] = {}
        for name, t in self.graph.tensors.items():
            shape = tuple(product(self.size(f, sizes) for f in dim) for dim in self.factors(name))
            tensors[name] = (
                t if shape == t.shape else replace(t, shape=shape, strides=_restrided(t, shape))
            )
        nodes = tuple(_reshaped(n, tensors) for n in self.graph.nodes)
        return replace(self.graph, symbols=tuple(symbols), nodes=nodes, tensors=tensors)


def _unify(a: Sequence[_Factor], b: Sequence[_Factor]) -> None:
    """Unify two lists of factors, outermost first, that have the same product."""
    left, right = list(a), list(b)
    _match(left, right, inner=True)
    left.reverse()
    right.reverse()
    _match(left, right, inner=False)
    for rest in (*left, *right):
        for f in _leaves(rest):
            f.frozen = True


def _match(left: list[_Factor], right: list[_Factor], *, inner: bool) -> None:
    """Strip factors off the ends while they line up; ``inner``: the lists end innermost."""
    while left and right:
        f, g = _root(left.pop()), _root(right.pop())
        if f.parts is not None or g.parts is not None:
            left += _halves(f, inner)
            right += _halves(g, inner)
        elif f is g:
            continue
        elif f.size == g.size:
            g.parent = f
            f.frozen, f.shared = f.frozen or g.frozen, f.shared or g.shared
        else:
            left.append(f)
            right.append(g)
            if not (_split(f, g.size, inner) or _split(g, f.size, inner)):
                break


def _freeze(f: _Factor | None) -> None:
    for leaf in [] if f is None else _leaves(f):
        leaf.frozen = True


def _halves(f: _Factor, inner: bool) -> tuple[_Factor, ...]:
    if f.parts is None:
        return (f,)
    return f.parts if inner else (f.parts[1], f.parts[0])


def _split(f: _Factor, size: Expr, inner: bool) -> bool:
    """Split off ``size`` as the inner or outer part; return False if it does not divide."""
    rest = None if f.size == 0 else divide_exact(f.size, size)
    if rest is None:
        return False
    one = _Factor(size, frozen=f.frozen, shared=True)
    other = _Factor(rest, frozen=f.frozen, shared=True)
    f.parts = (other, one) if inner else (one, other)
    return True


def _restrided(t: Tensor, shape: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """Return strides for another shape: dense stays dense, padding between rows keeps its length."""
    if t.strides is None:
        return None
    out = list(t.strides)
    for k in range(len(shape) - 2, -1, -1):
        old = t.strides[k]
        if old == 0:
            continue
        below = next((i for i in range(k + 1, len(shape)) if t.strides[i] != 0), None)
        if below is None:
            continue
        gap = old - t.strides[below] * t.shape[below]
        if not gap.is_const or gap.value >= 0:
            out[k] = out[below] * shape[below] + gap
    return tuple(out)


def _reshaped(n: FusionNode, tensors: Mapping[str, Tensor]) -> FusionNode:
    attrs: dict[str, Any] = dict(n.attrs)
    for a in lookup(n.op).attrs:
        if a.name == "shape" and a.name in attrs:
            attrs[a.name] = tensors[n.outputs[0]].shape
    return replace(n, attrs=attrs) if n.attrs else n


def check_shapes(graph: FusionGraph) -> None:
    """Infer every node again and compare with the graph.

    Raises:
        OpError: the row of an op does not accept its operands.
        AutofuseError: AF1207 when a tensor has another shape or dtype than inferred.
    """
    for n in graph.nodes:
        operands = [graph.tensors[x] if isinstance(x, str) else x for x in n.inputs]
        got = infer_node(lookup(n.op), operands, n.attrs)
        t = graph.tensors[n.outputs[0]]
        if got != (t.dtype, t.shape):
            raise AutofuseError.of(
                "AF1207",
                f"{n.op} {n.name} gives {got[0]} {_text(got[1])}, not {t.dtype} {_text(t.shape)}",
            )


def _text(shape: Sequence[Expr]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


# shrink ---------------------------------------------------------------------------------------


def shrink(graph: FusionGraph, max_elements: int) -> FusionGraph:
    """Return the graph with smaller dimensions, for runs where the full size takes too long.

    While the largest tensor has more than ``max_elements`` elements, its largest factor is reduced
    everywhere it occurs.  A size v becomes, in this order of preference,

    1. v mod 64 + 64 (8000 becomes 64 and 3121 becomes 113),
    2. v mod 64, where that is at least 2,
    3. v mod 16 + 16, then v mod 16 where that is at least 2, for factors that are innermost in no
       tensor.

    The frames of Pads stay as wide as they are: a dimension of 416 + 1 becomes 96 + 1.

    This preserves the ranks, the pattern of broadcasts (1 stays 1, others stay at least 2) and the alignment of rows.
    A tensor of many small dimensions may stay larger than ``max_elements``.  Symbolic sizes stay; they count as their
    hint, or else their minimum.

    Args:
        graph: any graph.
        max_elements: target bound on the number of elements of every tensor.
    """
    d = Dimensions(graph)
    env = {s.name: s.min if s.hint is None else s.hint for s in graph.symbols}
    now: dict[int, int] = {}
    fixed: set[int] = set()
    for f in d.all_factors():
        now[id(f)] = f.size.evaluate(env)
        if f.frozen or d.is_framed(f) or not f.size.is_const:
            fixed.add(id(f))
    members = dict.fromkeys(tuple(f for dim in d.factors(t) for f in dim) for t in graph.tensors)
    innermost = {id(d.choices(m[-1])[-1]) for m in members if m}
    left = list(members)
    changed = False
    while left:
        given = {i: const(v) for i, v in now.items() if i not in fixed}
        counts = [math.prod(d.size(f, given).evaluate(env) for f in m) for m in left]
        largest = max(range(len(counts)), key=counts.__getitem__)
        if counts[largest] <= max_elements:
            break
        chosen = dict.fromkeys(id(x) for f in left[largest] for x in d.choices(f))
        ids = [i for i in chosen if i not in fixed]
        step = _next_size(ids, now, innermost)
        if step is None:
            del left[largest]
            continue
        now[step[0]] = step[1]
        changed = True
    if not changed:
        return graph
    return d.rebuilt({i: const(v) for i, v in now.items() if i not in fixed}, graph.symbols)


def _next_size(
    ids: Sequence[int], now: Mapping[int, int], innermost: set[int]
) -> tuple[int, int] | None:
    """Return the factor of a tensor to shrink next, and its new size."""
    ids = sorted(ids, key=lambda i: -now[i])
    for modulus, movable in ((64, ids), (16, [i for i in ids if i not in innermost])):
        for floor in (modulus, 0):
            for i in movable:
                new = now[i] % modulus + floor
                if 2 <= new < now[i]:
                    return i, new
    return None


# symbols --------------------------------------------------------------------------------------


def symbolize(graph: FusionGraph, limit: int = 4) -> FusionGraph:
    """Return the graph with symbolic sizes.

    The ``limit`` largest literal factors become symbols ``s0``, ``s1``, ... (names already in the graph are skipped);
    every shape and shape attribute that holds them follows.  ``hint`` is the old size; ``min`` is 0, or 1 for a factor
    that a Reshape divides by.  ``max`` is a power of two, or the old size where that is larger, such that no tensor
    exceeds 2**40 elements and no symbol 2**31.

    Args:
        graph: any graph.
        limit: largest number of new symbols.
    """
    d = Dimensions(graph)
    candidates = [
        f
        for f in d.all_factors()
        if not (f.frozen or d.is_framed(f)) and f.size.is_const and f.size.value >= 2
    ]
    chosen = sorted(candidates, key=lambda f: -f.size.value)[: max(limit, 0)]
    if not chosen:
        return graph
    taken = {s.name for s in graph.symbols}
    free = (f"s{k}" for k in range(len(taken) + len(chosen)))
    names = [name for name in free if name not in taken][: len(chosen)]
    tops = _maxima(d, chosen)
    symbols = [
        Symbol(name, 1 if f.shared else 0, tops[id(f)], f.size.value)
        for name, f in zip(names, chosen, strict=True)
    ]
    sizes = {id(f): sym(name) for name, f in zip(names, chosen, strict=True)}
    return d.rebuilt(sizes, (*graph.symbols, *symbols))


def _maxima(d: Dimensions, chosen: Sequence[_Factor]) -> dict[int, int]:
    """Return the largest value per symbol; a tensor's element budget is shared evenly among its symbols."""
    ranges = d.graph.symbol_ranges()
    hints = {id(f): f.size.value for f in chosen}
    top = {i: max(MAX_SIZE, h) for i, h in hints.items()}
    for name in d.graph.tensors:
        fixed = 1
        mine: list[int] = []
        for dim in d.factors(name):
            for f in (x for leaf in dim for x in d.choices(leaf)):
                if id(f) in hints:
                    mine.append(id(f))
                elif f.size.is_const:
                    fixed *= max(f.size.value, 1)
                else:
                    fixed *= max(max(ranges[s][1] for s in f.size.symbols()), 1)
        waiting = list(mine)
        room = MAX_ELEMENTS // fixed
        while waiting:
            bits = max(room.bit_length() - 1, 0) // len(waiting)
            large = [i for i in waiting if hints[i] > 1 << bits]
            if not large:
                for i in waiting:
                    top[i] = min(top[i], 1 << bits)
                break
            for i in large:
                top[i] = min(top[i], hints[i])
                room //= hints[i]
            waiting = [i for i in waiting if i not in large]
    return {i: max(v, hints[i]) for i, v in top.items()}


def bind(graph: FusionGraph, values: Mapping[str, int]) -> FusionGraph:
    """Replace symbols by numbers; symbols without a value stay.

    Args:
        graph: a graph with symbols.
        values: value per symbol.

    Raises:
        AutofuseError: AF1109 for a symbol not in the graph, or a value outside its range.
    """
    ranges = graph.symbol_ranges()
    for name, value in values.items():
        if name not in ranges:
            known = ", ".join(ranges) or "none"
            raise AutofuseError.of(
                "AF1109", f"the graph has no symbol {name!r}", hint=f"its symbols are: {known}"
            )
        low, high = ranges[name]
        if not low <= value <= high:
            raise AutofuseError.of(
                "AF1109", f"{name} = {value} is outside its range {low} to {high}"
            )
    if not values:
        return graph

    def put(e: Expr) -> Expr:
        return e.substitute(values)

    tensors = {
        name: replace(
            t,
            shape=tuple(map(put, t.shape)),
            strides=None if t.strides is None else tuple(map(put, t.strides)),
            offset=None if t.offset is None else put(t.offset),
        )
        for name, t in graph.tensors.items()
    }
    nodes = []
    for n in graph.nodes:
        attrs: dict[str, Any] = {
            k: tuple(put(x) if isinstance(x, Expr) else x for x in v) if isinstance(v, tuple) else v
            for k, v in n.attrs.items()
        }
        nodes.append(replace(n, attrs=attrs) if n.attrs else n)
    symbols = tuple(s for s in graph.symbols if s.name not in values)
    return replace(graph, symbols=symbols, nodes=tuple(nodes), tensors=tensors)
