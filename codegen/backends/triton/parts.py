"""Nests cut from another one: the nest that joins its partial results, and the nest after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from autofuse.codegen.backends.triton.kernels import Partial
from autofuse.codegen.nests.levels import Item, Join
from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import Nest, varies, walk
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Attr, Node, TensorView
from autofuse.implgraph.ir.iteration_space import contiguous_strides
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["PARTS", "behind", "frontier", "joining", "rest"]

#: Axis of the partial results; axes of graphs are numbered from 0.
PARTS = -1
_F32, _I32 = BY_NAME["float32"], BY_NAME["int32"]


def behind(nest: Nest, names: Sequence[str]) -> set[str]:
    """Return ``names`` and all nodes that depend on them."""
    found = set(names)
    for n in nest.nodes:
        if not found.isdisjoint(n.inputs):
            found.add(n.name)
    return found


def frontier(nest: Nest, known: Sequence[str], later: Collection[str] = ()) -> list[Node]:
    """Return the nodes constant along the columns that wait for ``known``, and that a following nest needs.

    Args:
        nest: nest to cut.
        known: reductions of this nest.
        later: nodes of the following one, besides those that vary along the columns.
    """
    cols = frozenset(nest.cols)
    late = behind(nest, known)
    after = [n for n in nest.nodes if n.name in later or varies(n) & cols]
    used = {i for n in after if n.op != "Broadcast" for i in n.inputs}
    named = nest.by_name()
    spread = [named[u] for u in used if u in named and named[u].op == "Broadcast"]
    used |= {i for n in spread for i in n.inputs}
    return [
        n
        for n in nest.nodes
        if n.name in used
        and n.name in late
        and n.name not in later
        and not varies(n) & cols
        and n.op != "Broadcast"
    ]


def joining(
    nest: Nest,
    kept: tuple[int, ...],
    partials: Sequence[Partial],
    number: int,
    span: int,
    stored: Sequence[str],
    left: Mapping[str, Memory],
) -> Nest:
    """Return the nest that joins partial results ``[number, kept]``, and computes everything that depends only on them.

    Args:
        nest: nest to cut.
        kept: axes of the partial results.
        partials: partial results, with their nodes and memory.
        number: number of parts.
        span: columns of a part, except the last one.
        stored: Stores of the nest to include.
        left: nodes to store for the following nest -> their memory.
    """
    axes = (PARTS, *kept)
    sizes = {PARTS: const(number), **{a: nest.sizes[a] for a in kept}}
    made = _Joined(axes, tuple(sizes[a] for a in axes))
    known = {p.node.name: made.load(p) for p in partials}
    for p in partials:
        if p.item is None or p.item.join is Join.PLAIN:
            made.add(p.node.name, p.node.op, [known[p.node.name]], p.node.y.dtype, parts=False)
        elif p.node.name == p.item.first.name:
            made.pair(p.item, known, nest, span)
    done = frozenset(p.node.name for p in partials)
    for n in walk(nest.nodes, [*stored, *left], done):
        if n.op != "Store":
            made.nodes.append(_on(n, axes))
    made.nodes += [_on(n, axes) for n in nest.nodes if n.name in stored]
    for name in left:
        view = made.view(nest.by_name()[name].y.dtype, parts=False)
        made.nodes.append(Node(f"{name}_left", "Store", (name,), view, axis=axes))
    return Nest(axes, sizes, tuple(made.nodes), (PARTS,))


def rest(nest: Nest, left: Mapping[str, Memory], stored: Sequence[str]) -> Nest:
    """Return the nest that computes ``stored`` along the columns, with ``left`` loaded from memory."""
    named = nest.by_name()
    sizes = tuple(nest.sizes[a] if a in nest.rows else ONE for a in nest.axes)
    steps = iter(contiguous_strides([nest.sizes[a] for a in nest.rows]))
    strides = tuple(next(steps) if a in nest.rows else ZERO for a in nest.axes)
    nodes = [
        Node(
            name,
            "Load",
            (m.name,),
            TensorView(named[name].y.dtype, nest.axes, sizes, strides),
            axis=nest.axes,
        )
        for name, m in left.items()
    ]
    nodes += walk(nest.nodes, stored, frozenset(left))
    reduces = any(n.op in REDUCES for n in nodes)
    return replace(nest, nodes=tuple(nodes), cols=nest.cols if reduces else ())


def _on(n: Node, axes: tuple[int, ...]) -> Node:
    """Return a node on other axes, constant along the new ones."""
    at = {a: (r, s) for a, r, s in zip(n.y.axis, n.y.repeats, n.y.strides, strict=True)}
    pairs = [at.get(a, (ONE, ZERO)) for a in axes]
    y = replace(
        n.y, axis=axes, repeats=tuple(r for r, _ in pairs), strides=tuple(s for _, s in pairs)
    )
    return replace(n, y=y, axis=axes)


class _Joined:
    """Builder of the nodes of the joining nest."""

    def __init__(self, axes: tuple[int, ...], sizes: tuple[Expr, ...]) -> None:
        self.axes, self.sizes = axes, sizes
        self.nodes: list[Node] = []

    def view(self, dtype: DType, *, parts: bool) -> TensorView:
        """Return a dense tensor along the kept axes, and along the parts if ``parts``."""
        sizes = (self.sizes[0] if parts else ONE, *self.sizes[1:])
        strides = contiguous_strides(sizes)
        return TensorView(dtype, self.axes, sizes, strides if parts else (ZERO, *strides[1:]))

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[str],
        dtype: DType = _F32,
        *,
        parts: bool = True,
        **attrs: Attr,
    ) -> str:
        """Add a node."""
        view = self.view(dtype, parts=parts)
        self.nodes.append(Node(name, op, tuple(inputs), view, attrs, axis=self.axes))
        return name

    def load(self, p: Partial) -> str:
        """Load the partial results of a reduction."""
        return self.add(f"{p.node.name}_parts", "Load", [p.memory.name], p.memory.dtype)

    def pair(self, item: Item, known: Mapping[str, str], nest: Nest, span: int) -> None:
        """Join the two results of an item of two reductions; ``nest``: the nest to cut."""
        first, second = (r.name for r in item.results)
        a, b = known[first], known[second]
        self.add(first, item.first.op, [a], parts=False)
        if item.join is Join.EXPONENTIALS:
            self.add(second, "ReduceSum", [self._scaled(item, a, b, nest)], parts=False)
            return
        number = self._elements(second, count := nest.count(nest.cols).value, span)
        one = self._scalar(f"{second}_one", 1.0, _F32)
        some = self.add(f"{second}_some", "Maximum", [number, one])
        mean = self.add(f"{second}_mean", "Div", [a, some])
        total = self._scalar(f"{second}_count", count, _F32)
        middle = self.add(f"{second}_middle", "Div", [first, total], parts=False)
        apart = self.add(f"{second}_apart", "Sub", [mean, middle])
        square = self.add(f"{second}_square", "Mul", [apart, apart])
        moved = self.add(f"{second}_moved", "Mul", [square, number])
        part = self.add(f"{second}_part", "Add", [b, moved])
        self.add(second, "ReduceSum", [part], parts=False)

    def _scaled(self, item: Item, a: str, b: str, nest: Nest) -> str:
        """Return the sums ``b`` of exponentials, rescaled from the maxima ``a`` of the parts to that of all."""
        follower, rule = item.followed()
        named = nest.by_name()
        (centre,) = rule.centres

        def again(n: Node, x: str, what: str, *, parts: bool = True) -> str:
            """Rebuild a node with ``x`` for the operand that depends on the maximum; the other is a number."""
            inputs = []
            for i in n.inputs:
                if i in rule.path or i == centre.reduction:
                    inputs.append(x)
                else:
                    value = named[i].attrs["value"]
                    assert isinstance(value, int | float)
                    inputs.append(self._scalar(f"{follower.name}_{what}_{i}", value, _F32))
            name = f"{follower.name}_{what}_{n.name}"
            return self.add(name, n.op, inputs, parts=parts)

        have, to = a, item.first.name
        if centre.is_number:
            value = named[centre.value]
            have, to = again(value, a, "own"), again(value, to, "centre", parts=False)
        x = self.add(f"{follower.name}_apart", "Sub", [have, to])
        for name in rule.moves[0]:
            x = again(named[name], x, "scale")
        return self.add(f"{follower.name}_part", "Mul", [b, x])

    def _elements(self, name: str, count: int, span: int) -> str:
        """Return the number of columns of every part, in float32."""
        ones, zeros = tuple(ONE for _ in self.axes[1:]), tuple(ZERO for _ in self.axes[1:])
        line = TensorView(_I32, self.axes, (self.sizes[0], *ones), (ONE, *zeros))
        none = self._scalar(f"{name}_none", 0, _I32)
        whole = self._scalar(f"{name}_span", span, _I32)
        steps: tuple[tuple[str, str, tuple[str, ...], DType, Mapping[str, Attr]], ...] = (
            ("from_here", "Iota", (), _I32, {"start": count, "step": -span}),
            ("at_least", "Maximum", (f"{name}_from_here", none), _I32, {}),
            ("at_most", "Minimum", (f"{name}_at_least", whole), _I32, {}),
            ("elements", "Cast", (f"{name}_at_most",), _F32, {"dtype": "float32"}),
        )
        for what, op, inputs, dtype, attrs in steps:
            view = replace(line, dtype=dtype)
            self.nodes.append(Node(f"{name}_{what}", op, inputs, view, attrs, axis=self.axes))
        return f"{name}_elements"

    def _scalar(self, name: str, value: float, dtype: DType) -> str:
        ones, zeros = tuple(ONE for _ in self.axes), tuple(ZERO for _ in self.axes)
        view = TensorView(dtype, self.axes, ones, zeros)
        self.nodes.append(Node(name, "Scalar", (), view, {"value": value}, axis=self.axes))
        return name
