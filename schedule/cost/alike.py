"""Groups of a graph that do the same to other tensors, as the parts of a parallel fusion do.

Names of tensors and axes go into the text of a kernel, but into nothing that it costs: what the templates of one such
group cost is what those of another one do, and what one does not keep, another one does not either.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Attr, ImplGraph, Node
from autofuse.schedule.axes.tiling_axes import GroupInput, merged_parts
from autofuse.schedule.placement.scan import SCAN, scanned_axes

__all__ = ["likeness", "named_for"]

#: What stands for memory of the kernel.
_ENDS = frozenset({"Data", "Output", "Workspace"})


def likeness(g: GroupInput) -> Hashable:
    """A value that two groups of one graph have in common only if they differ in nothing but names.

    Tensors go by their place among the nodes, axes by theirs among those of the group; which of the kernel's
    parameters a tensor is makes no difference, unless one overwrites the other.
    """
    axes = {a.id: a for a in g.axes}
    parts = tuple([a.id for a in merged_parts(g)])
    place = {a: i for i, a in enumerate(_own_axes(g, parts))}
    number = {n.name: i for i, n in enumerate(g.nodes)}
    data = {n.number("index"): i for i, n in enumerate(g.nodes) if n.op == "Data"}
    sizes = tuple([(axes[a].type, axes[a].size) for a in (*g.order, *parts)])

    def places(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([place.get(a, ~a) for a in ids])

    views = {(): (), g.order: places(g.order)}

    def of(n: Node) -> tuple[object, ...]:
        y = n.y
        axis = views[y.axis] if y.axis in views else places(y.axis)
        inputs = tuple([number[i] for i in n.inputs])
        attrs = _attrs(n, place, data) if n.attrs else ()
        return (n.op, inputs, y.dtype.name, axis, y.repeats, y.strides, y.offset, attrs)

    return places(g.order), places(parts), sizes, places(g.reduced), tuple(map(of, g.nodes))


def named_for(impl: ImplGraph, other: GroupInput, g: GroupInput, suffix: str) -> ImplGraph:
    """What stands for a template that is not kept: it has its name, tiling and axes, and no nodes.

    Args:
        impl: the same template of a group that does the same to other tensors.
        other: that group.
        g: the group.
        suffix: of the template in it.
    """
    own = [_own_axes(x, [a.id for a in merged_parts(x)]) for x in (other, g)]
    number = dict(zip(*own, strict=True))

    def axis(a: int) -> int:
        # Those that the template has made follow all axes of the graph.
        return number[a] if a < len(other.axes) else a - len(other.axes) + len(g.axes)

    return replace(
        impl,
        group=g.group,
        suffix=suffix,
        y_axis=axis(impl.y_axis),
        r_axis=None if impl.r_axis is None else axis(impl.r_axis),
        nodes=(),
    )


def _own_axes(g: GroupInput, parts: Iterable[int]) -> list[int]:
    """The axes of a group and those that one of them was merged from, in order."""
    return sorted({*g.order, *parts})


def _attrs(
    n: Node, place: Mapping[int, int], data: Mapping[int, int]
) -> tuple[tuple[str, Attr], ...]:
    """The attributes of a node, with axes and tensors by their places."""
    attrs = dict(n.attrs)
    if n.op in _ENDS:
        attrs.pop("index")
        attrs.pop("offset", None)
        if "inout" in attrs:
            attrs["inout"] = data.get(n.number("inout"), -1)
    elif n.op == SCAN:
        attrs["axes"] = tuple([place[a] for a in scanned_axes(n)])
    return tuple(attrs.items())
