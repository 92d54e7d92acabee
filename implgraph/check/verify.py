"""Invariants of HintGraph and ImplGraph, one small function each.

A check is a generator of :class:`Finding`; :data:`CHECKS` lists them all.  The first four validate references; the
others run only on graphs that pass these, so they may follow every name and axis id without checking.  Memory checks
apply to an ImplGraph only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.implgraph.check.groups import CHECKS as GROUP_CHECKS
from autofuse.implgraph.check.groups import Finding
from autofuse.implgraph.check.memory import CHECKS as MEMORY_CHECKS
from autofuse.implgraph.expr.expression import ZERO, CeilDiv, Expr, Func, product
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.graph import (
    Axis,
    AxisType,
    HintGraph,
    ImplGraph,
    Node,
)
from autofuse.implgraph.ops.definition import OpDef, OpError
from autofuse.implgraph.ops.registry import find

__all__ = ["CHECKS", "Finding", "check", "verify"]

#: Ops without a result in UB.
_STRUCTURAL = frozenset({"Data", "Output", "Scalar", "Store", "Workspace"})
_COPIES = frozenset({"Load", "Store", "Output", "Workspace"})
_SPLIT = {
    AxisType.TILE_OUT: AxisType.TILE_IN,
    AxisType.BLOCK_OUT: AxisType.BLOCK_IN,
}

Graph: TypeAlias = HintGraph | ImplGraph


# references -----------------------------------------------------------------------------------


def names_are_unique(g: Graph) -> Iterator[Finding]:
    """Names of nodes, axes and symbols are unique."""
    kinds = (
        ("node", [n.name for n in g.nodes]),
        ("axis", [a.name for a in g.axes]),
        ("symbol", [s.name for s in g.symbols]),
    )
    for kind, names in kinds:
        for name, count in Counter(names).items():
            if count > 1:
                yield Finding(f"{kind} {name!r} occurs {count} times")


def inputs_come_first(g: Graph) -> Iterator[Finding]:
    """A node uses only results of earlier nodes."""
    seen: set[str] = set()
    names = {n.name for n in g.nodes}
    for n in g.nodes:
        for i in n.inputs:
            if i not in seen:
                what = "comes later" if i in names else "does not exist"
                yield Finding(f"input {i!r} {what}", n.name)
        seen.add(n.name)


def axes_exist(g: Graph) -> Iterator[Finding]:
    """Axis ids are valid indices into ``axes``; no list names an axis twice."""
    count = len(g.axes)
    for i, a in enumerate(g.axes):
        if a.id != i:
            yield Finding(f"axis {a.name} has id {a.id}, but is at {i}", axis=a.name)
        yield from _known(a.origin, count, "from", axis=a.name)
        if any(o >= a.id for o in a.origin):
            yield Finding(f"axis {a.name} comes from an axis that comes later", axis=a.name)
    for n in g.nodes:
        yield from _known(n.axis, count, "axis", n.name)
        yield from _known(n.y.axis, count, "y.axis", n.name)
        yield from _known(n.y.vectorized_axis, count, "y.vectorized_axis", n.name)
        if n.loop_axis is not None and n.loop_axis not in n.axis:
            yield Finding(f"loop_axis {n.loop_axis} is not in the node's axes {n.axis}", n.name)
    if isinstance(g, ImplGraph):
        places = [g.tiling.opened.axis, g.y_axis, g.x_axis, g.r_axis]
        for p in places:
            if p is not None:
                yield from _known((p,), count, "the tiling or the name of the graph")


def _known(
    ids: tuple[int, ...], count: int, what: str, node: str = "", axis: str = ""
) -> Iterator[Finding]:
    for i in ids:
        if not 0 <= i < count:
            yield Finding(f"{what} refers to axis {i}; there are {count} axes", node, axis)
    if len(set(ids)) != len(ids):
        yield Finding(f"{what} {ids} names an axis twice", node, axis)


def lengths_match(g: Graph) -> Iterator[Finding]:
    """One repeat and one stride per axis, one vectorized stride per vectorized axis."""
    for n in g.nodes:
        y = n.y
        if not len(y.axis) == len(y.repeats) == len(y.strides):
            counts = f"{len(y.axis)} axes, {len(y.repeats)} repeats, {len(y.strides)} strides"
            yield Finding(f"the tensor has {counts}", n.name)
        if len(y.vectorized_axis) != len(y.vectorized_strides):
            counts = f"{len(y.vectorized_axis)} axes, {len(y.vectorized_strides)} strides"
            yield Finding(f"the tensor has {counts} that are vectorized", n.name)


# axes and sizes -------------------------------------------------------------------------------


def symbols_are_declared(g: Graph) -> Iterator[Finding]:
    """Expressions use the graph's symbols and, in an ImplGraph, the two tile symbols."""
    known = {s.name for s in g.symbols}
    for s in g.symbols:
        if not 0 <= s.min <= s.max:
            yield Finding(f"symbol {s.name} has the range {s.min} to {s.max}")
        elif s.hint is not None and not s.min <= s.hint <= s.max:
            yield Finding(f"the hint {s.hint} of symbol {s.name} is not in {s.min} to {s.max}")
    if isinstance(g, ImplGraph):
        known |= {g.tiling.opened.symbol, g.tiling.block_size}
    for e, what, node, axis in _expressions(g):
        lacking = sorted(e.symbols() - known)
        if lacking:
            yield Finding(f"{what} {e} uses the unknown symbol {lacking[0]}", node, axis)


def only_repeats_are_quotients(g: Graph) -> Iterator[Finding]:
    """A quotient that may not be an integer occurs only in ``repeats``."""
    for e, what, node, axis in _expressions(g):
        if what != "y.repeats" and _has_ratio(e):
            yield Finding(f"{what} {e} may not be an integer", node, axis)


def _has_ratio(e: Expr) -> bool:
    functions = (a for a in e.atoms() if isinstance(a, Func))
    return any(a.name == "Ratio" or any(map(_has_ratio, a.args)) for a in functions)


def _expressions(g: Graph) -> Iterator[tuple[Expr, str, str, str]]:
    """Yield (expression, description, node, axis)."""
    for a in g.axes:
        yield a.size, "the size", "", a.name
    for n in g.nodes:
        y = n.y
        groups = (("y.repeats", y.repeats), ("y.strides", y.strides), ("y.offset", (y.offset,)))
        for what, values in (*groups, ("y.vectorized_strides", y.vectorized_strides)):
            for e in values:
                yield e, what, n.name, ""
        for t in n.tmp_buffers:
            yield t.nbytes, "the size of a tmp buffer", n.name, ""
    if isinstance(g, ImplGraph):
        for b in g.buffers:
            yield b.nbytes, f"the size of {b.kind} {b.id}", "", ""
        spec = g.tiling
        for what, e in (("extent", spec.opened.extent), ("outer", spec.outer), ("ub", spec.ub)):
            yield e, f"tiling.{what}", "", ""
        for c in spec.conditions:
            yield c.value, "a condition", "", ""


def axes_derive(g: Graph) -> Iterator[Finding]:
    """Sizes of split and merged axes follow from their origins.

    ORIGINAL: no origin.  MERGED: the product of the origins.  TILE_OUT and BLOCK_OUT: one origin, and size
    ``CeilDiv(origin, inner)``, where ``inner`` is the size of the one TILE_IN or BLOCK_IN axis of the same origin: a
    symbol or a number.
    """
    for a in g.axes:
        if a.type is AxisType.ORIGINAL:
            if a.origin:
                yield Finding(f"{a.name} is ORIGINAL, but has an origin", axis=a.name)
        elif a.type is AxisType.MERGED:
            want = product(g.axes[o].size for o in a.origin)
            if not a.origin or a.size != want:
                yield Finding(f"{a.name} is merged to {a.size}, not {want}", axis=a.name)
        elif len(a.origin) != 1:
            yield Finding(f"{a.name} is {a.type.value} with {len(a.origin)} origins", axis=a.name)
        elif a.type in _SPLIT.values():
            symbols = a.size.symbols()
            single = len(symbols) == 1 and str(a.size) in symbols
            if not single and (a.size.as_int() or 0) < 1:
                yield Finding(
                    f"the size {a.size} of {a.name} is neither a symbol nor a number", axis=a.name
                )
        else:
            yield from _split_size(g, a)


def _split_size(g: Graph, a: Axis) -> Iterator[Finding]:
    kind = _SPLIT[a.type]
    parts = [b for b in g.axes if b.type is kind and b.origin == a.origin]
    if len(parts) != 1:
        yield Finding(f"{a.name} has {len(parts)} {kind.value} axes beside it, not 1", axis=a.name)
        return
    want = CeilDiv(g.axes[a.origin[0]].size, parts[0].size)
    if a.size != want:
        yield Finding(f"the size of {a.name} is {a.size}, not {want}", axis=a.name)


def tiling_names_the_split(g: Graph) -> Iterator[Finding]:
    """The TilingSpec refers to existing axes."""
    if not isinstance(g, ImplGraph):
        return
    t = g.tiling
    tiles = [a for a in g.axes if a.type is AxisType.TILE_IN and a.origin == (t.opened.axis,)]
    name = g.axes[t.opened.axis].name
    if len(tiles) != 1 or str(tiles[0].size) != t.opened.symbol:
        yield Finding(f"no TILE_IN axis of size {t.opened.symbol} comes from {name}", axis=name)
    blocks = [a for a in g.axes if a.type is AxisType.BLOCK_IN]
    if len(blocks) != 1 or str(blocks[0].size) != t.block_size:
        yield Finding(f"there is not one BLOCK_IN axis of size {t.block_size}")
    if g.axes[t.opened.axis].size != t.opened.extent:
        size = g.axes[t.opened.axis].size
        yield Finding(f"the extent is {t.opened.extent}, the size of {name} {size}", axis=name)


def repeats_fit_axes(g: Graph) -> Iterator[Finding]:
    """A repeat is 1 or the size of its axis; on outer axes also an exact quotient.

    The size of an outer axis is rounded up; its repeat is not.
    """
    for n in g.nodes:
        for a, repeat in zip(n.y.axis, n.y.repeats, strict=True):
            axis = g.axes[a]
            if axis.type not in _SPLIT and repeat != 1 and repeat != axis.size:
                text = f"the repeat {repeat} along {axis.name} is neither 1 nor {axis.size}"
                yield Finding(text, n.name, axis.name)


def strides_mark_broadcasts(g: Graph) -> Iterator[Finding]:
    """Stride 0 if and only if repeat 1.

    Exceptions: along an axis of size 1 any stride is valid; an empty tensor has no order; the position of an element
    that is loaded by index does not follow from the index's axes, and results computed from it keep its view.
    """
    loose: set[str] = set()
    for n in g.nodes:
        if (n.op == "Load" and len(n.inputs) > 1) or not loose.isdisjoint(n.inputs):
            loose.add(n.name)
        if any(r == 0 for r in n.y.repeats):
            continue
        for a, repeat, stride in zip(n.y.axis, n.y.repeats, n.y.strides, strict=True):
            axis = g.axes[a]
            if n.name in loose and stride == ZERO and n.op != "Store":
                continue
            if axis.size != 1 and (repeat == 1) != (stride == ZERO):
                text = f"repeat {repeat} and stride {stride} along {axis.name}"
                yield Finding(f"{text}: the stride is 0 where the repeat is 1", n.name, axis.name)


def vectorized_axes_are_inside(g: Graph) -> Iterator[Finding]:
    """Vectorized axes lie inside the innermost loop, in the node's order.

    They include every axis inside the loop along which the tensor varies; others may be left out.
    """
    for n in g.nodes:
        if n.op in _STRUCTURAL - {"Store"} or not n.axis:
            continue
        vector = n.y.vectorized_axis
        start = 0 if n.loop_axis is None else n.axis.index(n.loop_axis) + 1
        inside = n.axis[start:]
        if tuple(a for a in inside if a in vector) != vector:
            text = f"{_names(g, vector)} are not axes inside the loop, in order: "
            yield Finding(text + _names(g, inside), n.name)
        if n.loop_axis is None:
            continue
        varies = set(n.y.varies())
        lacking = [a for a in inside if a in varies and a not in vector]
        if lacking:
            text = f"varies along {_names(g, lacking)} inside the loop, which is not vectorized"
            yield Finding(text, n.name)


def _names(g: Graph, ids: Iterable[int]) -> str:
    return "{" + ", ".join(g.axes[i].name for i in ids) + "}"


def hoisted_nodes_use_hoisted(g: Graph) -> Iterator[Finding]:
    """Nodes that run before the loop use no results of the loop."""
    if not isinstance(g, ImplGraph):
        return
    nodes = g.by_name()
    for n in g.nodes:
        if n.loop_axis is None and n.op not in _STRUCTURAL:
            for i in n.inputs:
                if nodes[i].loop_axis is not None:
                    yield Finding(f"runs before the loop, but uses {i} of the loop", n.name)


# ops ------------------------------------------------------------------------------------------


def ops_are_known(g: Graph) -> Iterator[Finding]:
    """Every op has a registry row that accepts its number of inputs."""
    for n in g.nodes:
        row = find(n.op)
        if row is None:
            yield Finding(f"the op {n.op!r} has no row in the registry", n.name)
        elif not row.arity[0] <= len(n.inputs) <= row.arity[1]:
            yield Finding(f"{n.op} has {len(n.inputs)} inputs", n.name)


def dtypes_fit_rows(g: Graph) -> Iterator[Finding]:
    """The dtype of a result follows the row's rule.

    Exceptions: nodes without inputs carry their own dtype, and so does a Cast without the attribute.  A copy may
    relabel bool as uint8 and back: the chip has no bool.
    """
    nodes = g.by_name()
    for n in g.nodes:
        row = find(n.op)
        if row is None or not n.inputs or (n.op == "Cast" and "dtype" not in n.attrs):
            continue
        dtypes = [nodes[i].y.dtype for i in n.inputs]
        try:
            want = row.dtype_rule(dtypes, n.attrs)
        except (OpError, KeyError, IndexError) as err:
            yield Finding(f"{n.op}: {err}", n.name)
            continue
        same_byte = n.op in _COPIES and {want.name, n.y.dtype.name} == {"bool", "uint8"}
        if want != n.y.dtype and not same_byte:
            names = ", ".join(map(str, dtypes))
            yield Finding(f"the dtype is {n.y.dtype}; {n.op} of {names} is {want}", n.name)


def calls_take_dtypes(g: Graph) -> Iterator[Finding]:
    """Some architecture has an Ascend C call for each op of an ImplGraph and its element type.

    Exceptions: structural nodes, broadcasts and views have no call of their own; Cast's row does not list its dtype
    pairs.
    """
    if not isinstance(g, ImplGraph):
        return
    nodes = g.by_name()
    without = ("data", "output", "scalar", "load", "store", "broadcast", "view", "workspace")
    for n in g.nodes:
        row = find(n.op)
        if row is None or n.op == "Cast" or (row.call is None and row.compute_type in without):
            continue
        if row.call is None:
            yield Finding(f"{n.op} has no Ascend C call; it must be expanded", n.name)
            continue
        element = _element_type(n, row, nodes)
        taken = {*row.call.dtypes, *row.call.as_type}
        if element.name not in taken:
            text = f"{n.op} does not take {element}; it takes {', '.join(sorted(taken))}"
            yield Finding(text, n.name)


def _element_type(n: Node, row: OpDef, nodes: dict[str, Node]) -> DType:
    """Return the dtype of the first tensor operand; a mask counts only where the call works on masks."""
    masks = row.call is not None and "mask" in row.call.dtypes
    for i in n.inputs:
        d = nodes[i].y.dtype
        if nodes[i].op != "Scalar" and (masks or d.kind != "m"):
            return d
    return n.y.dtype


_REFERENCES: tuple[Callable[[Graph], Iterator[Finding]], ...] = (
    names_are_unique,
    inputs_come_first,
    axes_exist,
    lengths_match,
)
#: Every invariant.
CHECKS: tuple[Callable[[Graph], Iterator[Finding]], ...] = (
    *_REFERENCES,
    symbols_are_declared,
    only_repeats_are_quotients,
    axes_derive,
    tiling_names_the_split,
    repeats_fit_axes,
    strides_mark_broadcasts,
    vectorized_axes_are_inside,
    hoisted_nodes_use_hoisted,
    ops_are_known,
    dtypes_fit_rows,
    calls_take_dtypes,
    *MEMORY_CHECKS,
    *GROUP_CHECKS,
)


def verify(g: HintGraph | ImplGraph) -> list[Diagnostic]:
    """Return all broken invariants as AF2002, in the order of :data:`CHECKS`; empty for a valid graph."""
    # The other checks rely on valid references.
    return _run(g, _REFERENCES) or _run(g, CHECKS[len(_REFERENCES) :])


def _run(g: Graph, checks: Iterable[Callable[[Graph], Iterator[Finding]]]) -> list[Diagnostic]:
    return [
        Diagnostic(
            "AF2002",
            f.message,
            Where(node=f.node, axis=f.axis),
            notes=(f"invariant {one.__name__}",),
        )
        for one in checks
        for f in one(g)
    ]


def check(g: HintGraph | ImplGraph) -> None:
    """Raise all findings of :func:`verify`.

    Raises:
        AutofuseError: AF2002, if there are any.
    """
    found = verify(g)
    if found:
        raise AutofuseError(found)
