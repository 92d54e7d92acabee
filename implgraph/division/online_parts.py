"""Divided sums that depend on an earlier divided reduction of the same rows, without waiting for its end.

Every core has a part of each row and computes the sum about the maximum or mean of that part, by the rules of
:mod:`autofuse.implgraph.division.online_reductions`.  The same rules join the parts: with ``c`` the maximum or mean of
all elements, ``c_i`` that of part ``i``, and ``s_i`` the sum over its ``n_i`` elements,

* sums of exponentials are ``sum s_i exp(k (c_i - c))``, all of whose powers are at most 1;
* sums of products about means are ``sum s_i + n_i (c_i - c) (e_i - e)``.

So the cores synchronise once and read each row once for both reductions.  The maximum of a part is clamped to the
lowest finite number: an empty part, or one of -inf only, has that maximum and a sum of 0.  A row of -inf only still
gives NaN, because the maximum of all parts stays -inf.  The mean of an empty part is 0 when joined.

This module recognises such sums in a FusionGraph and builds their replacement;
:mod:`autofuse.implgraph.division.split_reductions` determines the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from autofuse.implgraph.division.online_reductions import LOWEST, Centre, Online, online_reductions
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, Max, product
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.fusion import AttrValue, Constant, FusionNode, Operand, Tensor
from autofuse.implgraph.ir.graph import Attr, Node, TensorView
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES, reduced_axes

__all__ = ["Builder", "Follower", "Half", "Joiner", "axes_of", "follower_of", "needed"]

_Shape = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Follower:
    """A sum that can be computed along with the reductions it depends on.

    Attributes:
        rule: how the sum follows them; its nodes are named by the tensors they produce.
        path: the nodes between the earlier reductions and this one, in order.
        shape: shape of the summed tensor.
        kept: the same shape with size 1 for reduced dimensions.
        count: elements of a row.
    """

    rule: Online
    path: tuple[FusionNode, ...]
    shape: _Shape
    kept: _Shape
    count: Expr


@dataclass(frozen=True, slots=True)
class Half:
    """The equal parts, or the short part, of all tensors that are divided alike.

    Attributes:
        key: tells halves apart.
        full: shape of the reduced operand.
        gone: its reduced dimensions.
        lined: dimension of the parts in ``full``; -1 if there is one part.
        count: elements reduced into each result.
    """

    key: tuple[object, ...]
    full: _Shape
    gone: tuple[int, ...]
    lined: int
    count: Expr

    @property
    def kept(self) -> _Shape:
        """The shape of one value per row and part, broadcastable to ``full``."""
        return tuple(ONE if d in self.gone else s for d, s in enumerate(self.full))

    @property
    def rows(self) -> _Shape:
        """The shape of one value per row, broadcastable to ``full``."""
        return tuple(ONE if d == self.lined else s for d, s in enumerate(self.kept))

    def results(self, shape: _Shape) -> _Shape:
        """Return a shape like ``full`` without its reduced dimensions."""
        return tuple(s for d, s in enumerate(shape) if d not in self.gone)


# recognition ---------------------------------------------------------------------------


def follower_of(
    n: FusionNode,
    nodes: Sequence[FusionNode],
    tensors: Mapping[str, Tensor],
) -> Follower | None:
    """Return the rule by which a sum follows the reductions it needs; None if it needs none or no rule applies.

    Args:
        n: a node of ``nodes``.
        nodes: the nodes of a FusionGraph without composite ops, in order.
        tensors: the tensors of the graph.
    """
    x = n.inputs[0]
    if n.op != "ReduceSum" or not isinstance(x, str):
        return None
    shape = tensors[x].shape
    gone = axes_of(n, len(shape))
    kept = tuple(ONE if d in gone else s for d, s in enumerate(shape))
    view = _LegalView(tensors, shape, kept, gone)
    path = _before(n, nodes)
    for f in path:
        view.add(f)
    view.add(n)
    count = product(shape[a] for a in gone)
    reduced = frozenset(a for a in gone if shape[a] != ONE)
    rule = online_reductions(view.nodes, reduced, count).get(n.outputs[0])
    if rule is None:
        return None
    return Follower(rule, tuple(f for f in path if f.outputs[0] in rule.path), shape, kept, count)


def axes_of(n: FusionNode, rank: int) -> tuple[int, ...]:
    """Return the dimensions, in order, that a reduction reduces of an operand of this rank."""
    named = n.attrs.get("axes", ())
    given = tuple(a for a in named if isinstance(a, int)) if isinstance(named, tuple) else ()
    return reduced_axes(given, rank)


def _before(n: FusionNode, nodes: Sequence[FusionNode]) -> list[FusionNode]:
    """Return the nodes that a node depends on, up to reductions, in order."""
    makers = {y: f for f in nodes for y in f.outputs}
    seen: set[str] = set()
    todo = [x for x in n.inputs if isinstance(x, str)]
    while todo:
        name = todo.pop()
        if name in seen or name not in makers:
            continue
        seen.add(name)
        if makers[name].op not in REDUCES:
            todo += [x for x in makers[name].inputs if isinstance(x, str)]
    return [f for f in nodes if seen.intersection(f.outputs)]


@dataclass
class _LegalView:
    """A view of FusionGraph nodes as the calls they become, as far as the laws of online reductions need them."""

    tensors: Mapping[str, Tensor]
    shape: _Shape
    kept: _Shape
    gone: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def add(self, f: FusionNode) -> None:
        """Add the calls of a node with one result."""
        y = f.outputs[0]
        inputs = tuple(
            self._source(x) if isinstance(x, str) else self._scalar(f"{y}%{k}", x)
            for k, x in enumerate(f.inputs)
        )
        op = self._call(f)
        view = self._view(self.tensors[y].dtype, self.tensors[y].shape)
        if f.op in REDUCES:
            # Only reductions of the same rows, whether or not they keep dimensions of 1.
            view = self._view(self.tensors[y].dtype, self.kept if self._same_rows(f) else ())
        self._put(Node(y, op, inputs, view))

    def _put(self, n: Node) -> None:
        self.nodes.append(n)
        self._known.add(n.name)

    def _view(self, dtype: DType, shape: _Shape) -> TensorView:
        return TensorView(dtype, tuple(range(len(shape))), shape, tuple(ZERO for _ in shape))

    def _source(self, name: str) -> str:
        """Return a tensor's name, after adding a Data node if no node produces it yet."""
        if name not in self._known:
            t = self.tensors[name]
            self._put(Node(name, "Data", (), self._view(t.dtype, t.shape)))
        return name

    def _scalar(self, name: str, c: Constant) -> str:
        attrs: dict[str, Attr] = {"value": c.value} if c.expr is None else {"expr": c.expr}
        self._put(Node(name, "Scalar", (), self._view(c.dtype or BY_NAME["float32"], ()), attrs))
        return name

    def _same_rows(self, f: FusionNode) -> bool:
        x = f.inputs[0]
        assert isinstance(x, str)
        own = self.tensors[x].shape
        return own == self.shape and axes_of(f, len(own)) == self.gone

    def _call(self, f: FusionNode) -> str:
        """Return the op of the call; ``Other`` where no law covers it."""
        own = [self.tensors[x].shape for x in f.inputs if isinstance(x, str)]
        shape = self.tensors[f.outputs[0]].shape
        if f.op in REDUCES:
            return f.op
        if lookup(f.op).cost == "none" or f.op == "Broadcast":
            return "Broadcast" if self._keeps_places(f, own, shape) else "Other"
        if len(own) > 1 and (shape != self.shape or not all(map(self._goes_with, own))):
            return "Other"
        if len(own) == 1 and own[0] != shape:
            return "Other"
        return f.op

    def _keeps_places(self, f: FusionNode, own: Sequence[_Shape], shape: _Shape) -> bool:
        """Return True if a node repeats each row's number along the row, or reshapes numbers in their order."""
        if lookup(f.op).compute_type not in _ORDERLY or len(own) != 1:
            return False
        if shape == self.shape and _padded(own[0], len(shape)) == self.kept:
            return True
        return product(own[0]) == product(shape)

    def _goes_with(self, own: _Shape) -> bool:
        """Return True for a tensor of the full shape, with one value per row, or of one element."""
        return own == self.shape or product(own) == 1 or _padded(own, len(self.kept)) == self.kept


#: Free ops that keep every element in place, unlike transpositions or slices.
_ORDERLY = ("view", "broadcast", "elewise")


def _padded(shape: _Shape, rank: int) -> _Shape:
    return (*(ONE for _ in range(rank - len(shape))), *shape)


# replacement -----------------------------------------------------------------------------


class Builder(Protocol):
    """The graph under construction, with the divisions of its tensors."""

    tensors: dict[str, Tensor]
    ranges: dict[str, tuple[int, int]]

    def put(
        self,
        n: FusionNode,
        what: str,
        op: str,
        operands: Sequence[Operand],
        dims: Sequence[Expr],
        dtype: DType,
        attrs: Mapping[str, AttrValue],
    ) -> str:
        """Add a node that does what ``n`` does, and return the name of its result."""

    def outlives(self, count: Expr) -> bool:
        """Return True if an output may have elements where ``count`` is 0."""

    def half_of(self, n: FusionNode, x: str, half: Half) -> str:
        """Return one half of a tensor that has the shape of the reduced operand."""

    def reduced_half(self, reduction: str, half: Half) -> str:
        """Return the result of an earlier reduction, given by its tensor, over one half."""


class Joiner:
    """The halves of a follower: the tensors they sum, and the rules that join their sums."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._made: dict[tuple[object, ...], str] = {}

    def summed(self, n: FusionNode, follower: Follower, half: Half) -> str:
        """Return the tensor that a half sums up, computed for the centres of that half."""
        return self._copies(n, follower, half, half.count)[str(n.inputs[0])]

    def joined(self, n: FusionNode, follower: Follower, half: Half, total: str) -> str:
        """Convert a sum about the centre of a half to the centre of all elements; the shape is that of ``total``."""
        b, rule = self.builder, follower.rule
        named = {f.outputs[0]: f for f in follower.path}
        dims, dtype = b.tensors[total].shape, b.tensors[total].dtype
        count = half.count if bounds(half.count, b.ranges)[0] > 0 else Max(half.count, 1)
        own = self._copies(n, follower, half, count, centres=True)

        def through(x: str, names: Iterable[str]) -> str:
            for name in names:
                f = named[name]
                operands = [c if isinstance(c, Constant) else x for c in f.inputs]
                x = b.put(n, "move", f.op, operands, dims, b.tensors[name].dtype, f.attrs)
            return x

        def move(centre: Centre, names: Sequence[str]) -> str:
            like = b.tensors[centre.value].dtype
            shape, rows = half.results(half.kept), half.results(half.rows)
            before = b.put(n, "own", "Reshape", [own[centre.value]], shape, like, {"shape": shape})
            after = b.put(n, "centre", "Reshape", [centre.value], rows, like, {"shape": rows})
            after = self._of_nothing(n, follower, centre, after)
            return through(b.put(n, "move", "Sub", [before, after], dims, like, {}), names)

        moves = [move(c, names) for c, names in zip(rule.centres, rule.moves, strict=True)]
        if rule.scales:
            return b.put(n, "scaled", "Mul", [total, moves[0]], dims, dtype, {})
        wide = b.tensors[moves[0]].dtype
        times = b.put(n, "weighted", "Mul", [moves[0], number(half.count, wide)], dims, wide, {})
        shift = through(b.put(n, "moved", "Mul", [times, moves[1]], dims, wide, {}), rule.after)
        return b.put(n, "shifted", "Add", [total, shift], dims, dtype, {})

    def _of_nothing(self, n: FusionNode, follower: Follower, centre: Centre, x: str) -> str:
        """Return ``x``, the centre of all elements, but finite where there are none: their sum is 0, not NaN."""
        b, count = self.builder, follower.count
        if centre.is_number or bounds(count, b.ranges)[0] > 0 or not b.outlives(count):
            return x
        dims, dtype = b.tensors[x].shape, b.tensors[x].dtype
        zero = Constant(0.0, dtype)
        many = b.put(n, "count", "Broadcast", [number(count, dtype)], dims, dtype, {"shape": dims})
        some = b.put(n, "some", "Greater", [many, zero], dims, BY_NAME["bool"], {})
        other = zero if centre.is_mean else _lowest(dtype)
        return b.put(n, "centre", "Select", [some, x, other], dims, dtype, {})

    def _copies(
        self, n: FusionNode, follower: Follower, half: Half, count: Expr, *, centres: bool = False
    ) -> dict[str, str]:
        """Copy the path's nodes for one half, by tensors of the graph; ``centres``: only those the centres need."""
        rule, found = follower.rule, dict[str, str]()
        means = {c.value: c for c in rule.centres if c.is_mean}
        for c in rule.centres:
            found[c.reduction] = self._once(
                ("reduced", c.reduction, c.is_mean, half.key), partial(self._reduced, n, c, half)
            )
        last = {c.value for c in rule.centres}
        for f in follower.path:
            if centres and last <= found.keys():
                break
            y = f.outputs[0]
            made: tuple[object, ...] = ("copy", y, half.key, *((count,) if y in means else ()))
            made += tuple(found[x] for x in f.inputs if isinstance(x, str) and x in found)
            found[y] = self._once(made, partial(self._copy, n, follower, half, f, found, count))
        return found

    def _once(self, key: tuple[object, ...], make: Callable[[], str]) -> str:
        """Return the tensor of ``key``, created once for all followers that share it."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _reduced(self, n: FusionNode, centre: Centre, half: Half) -> str:
        """Return the earlier reduction of a half, shaped to broadcast against the tensor it is subtracted from."""
        b = self.builder
        x, shape = b.reduced_half(centre.reduction, half), half.kept
        dtype = b.tensors[x].dtype
        x = b.put(n, "centre", "Reshape", [x], shape, dtype, {"shape": shape})
        if centre.is_mean:
            return x
        return b.put(n, "centre", "Maximum", [x, _lowest(dtype)], shape, dtype, {})

    def _copy(
        self,
        n: FusionNode,
        follower: Follower,
        half: Half,
        f: FusionNode,
        found: Mapping[str, str],
        count: Expr,
    ) -> str:
        b, rank = self.builder, len(follower.kept)
        if lookup(f.op).cost == "none" or f.op == "Broadcast":
            return found[str(f.inputs[0])]
        mean = any(c.is_mean and c.value == f.outputs[0] for c in follower.rule.centres)
        operands: list[Operand] = []
        for x in f.inputs:
            if not isinstance(x, str):
                dtype = b.tensors[f.outputs[0]].dtype
                operands.append(number(count, x.dtype or dtype) if mean else x)
            elif x in found:
                operands.append(found[x])
            elif b.tensors[x].shape == follower.shape:
                operands.append(b.half_of(n, x, half))
            elif product(b.tensors[x].shape) == 1:
                operands.append(x)
            else:
                assert _padded(b.tensors[x].shape, rank) == follower.kept
                like, shape = b.tensors[x].dtype, half.rows
                operands.append(b.put(n, "rows", "Reshape", [x], shape, like, {"shape": shape}))
        full = any(isinstance(x, str) and b.tensors[x].shape == half.full for x in operands)
        dims = half.full if full else half.kept
        return b.put(n, "part", f.op, operands, dims, b.tensors[f.outputs[0]].dtype, f.attrs)


def _lowest(dtype: DType) -> Constant:
    return Constant(LOWEST[dtype.name], dtype)


def number(e: Expr, dtype: DType) -> Constant:
    """Return a size as an operand."""
    return Constant(float(e.value), dtype) if e.is_const else Constant(0, dtype, e)


def needed(nodes: Sequence[FusionNode], outputs: Iterable[str]) -> list[FusionNode]:
    """Return the nodes that outputs depend on, in order."""
    wanted, found = set(outputs), list[FusionNode]()
    for f in reversed(nodes):
        if wanted.intersection(f.outputs):
            found.append(f)
            wanted.update(x for x in f.inputs if isinstance(x, str))
    return found[::-1]
