"""Passes that bring a HintGraph into canonical form.

Every pass is a value with a ``name`` and a ``__call__`` from HintGraph to HintGraph; a pass that finds nothing to do
returns the graph it was given.  :func:`canonicalise` runs :data:`PIPELINE` until nothing changes, so it is idempotent.
Names of nodes survive, except those assigned by lowering (``gather_0``, ``broadcast_0``, ...), which are renumbered.

One file, because the order of the passes is read together with their short classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from autofuse.base.observing import Watch, named, told
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, product
from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Attr, Axis, AxisType, HintGraph, Node, TensorView
from autofuse.implgraph.ir.group_order import in_place_pairs
from autofuse.implgraph.ir.iteration_space import contiguous_strides
from autofuse.implgraph.ir.ordering import execution_order
from autofuse.implgraph.ops.registry import find
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.implgraph.ops.rules import with_source
from autofuse.implgraph.simplify.identities import TruthIdentities
from autofuse.implgraph.simplify.integer_limits import IntegerLimits

__all__ = [
    "PIPELINE",
    "UNMERGED",
    "CommonSubexpressions",
    "ConstantFolding",
    "DeadCode",
    "DoubleBroadcast",
    "MergeAxes",
    "NoOpCast",
    "Order",
    "Pass",
    "SinkBroadcast",
    "canonicalise",
    "canonicalise_all",
]

#: Maximum rounds; graphs need two or three.
MAX_ROUNDS = 16

Varies: TypeAlias = tuple[bool, ...]


class Pass(Protocol):
    """A rewriting of a HintGraph."""

    @property
    def name(self) -> str:
        """Name of the pass, for traces."""

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Return the rewritten graph; ``ir`` itself if nothing changed."""


def _with_nodes(ir: HintGraph, nodes: Iterable[Node]) -> HintGraph:
    return replace(ir, nodes=tuple(nodes))


def _rename(n: Node, names: Mapping[str, str]) -> Node:
    """Return the node with its inputs replaced."""
    if not names or names.keys().isdisjoint(n.inputs):
        return n
    return replace(n, inputs=tuple(names.get(i, i) for i in n.inputs))


def _varies(y: TensorView) -> Varies:
    pairs = zip(y.strides, y.repeats, strict=True)
    return tuple([s.number != 0 or r.number != 1 for s, r in pairs])


def _is_elementwise(n: Node) -> bool:
    row = find(n.op)
    return row is not None and row.compute_type == "elewise"


class _Fresh:
    """Generator of unused names ``<prefix>_<k>``."""

    def __init__(self, ir: HintGraph) -> None:
        self._taken = {n.name for n in ir.nodes}
        self._next: dict[str, int] = {}

    def name(self, prefix: str) -> str:
        k = self._next.get(prefix, 0)
        while f"{prefix}_{k}" in self._taken:
            k += 1
        self._next[prefix] = k + 1
        return f"{prefix}_{k}"


def _broadcast_before_store(ir: HintGraph, nodes: list[Node]) -> HintGraph:
    """Insert a Broadcast between a Scalar and a Store that would take it."""
    scalars = {n.name: n for n in nodes if n.op == "Scalar"}
    if not any(n.op == "Store" and n.inputs[0] in scalars for n in nodes):
        return _with_nodes(ir, nodes)
    fresh = _Fresh(ir)
    out: list[Node] = []
    for n in nodes:
        if n.op == "Store" and n.inputs[0] in scalars:
            source = scalars[n.inputs[0]]
            moved = replace(
                source,
                name=fresh.name("broadcast"),
                op="Broadcast",
                inputs=(source.name,),
                attrs={},
            )
            out.append(moved)
            n = replace(n, inputs=(moved.name,))
        out.append(n)
    return _with_nodes(ir, out)


# constants ------------------------------------------------------------------------------------


def _rounded(value: Any, d: DType) -> int | float | bool | None:
    """Return ``value`` rounded to ``d``, or None if it does not fit."""
    if d.kind == "b":
        return bool(value)
    if d.kind in "iu":
        if isinstance(value, float) and not np.isfinite(value):
            return None
        low = -(1 << (d.bits - 1)) if d.kind == "i" else 0
        whole = int(value)
        return whole if low <= whole < low + (1 << d.bits) else None
    with np.errstate(over="ignore"):
        return float(np.asarray(value, dtype=np.float64).astype(numpy_dtype(d)))


@dataclass(frozen=True)
class ConstantFolding:
    """Evaluates ops of constant operands by the row's reference, rounded to the dtype.

    An integer result that does not fit its dtype is not folded.  A folded value that is stored goes through a
    Broadcast, since a Store takes no Scalar.
    """

    name: str = "constant-folding"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Fold."""
        values: dict[str, tuple[Any, DType]] = {}
        folded: dict[str, Node] = {}
        for n in ir.nodes:
            if n.op == "Scalar":
                if "expr" not in n.attrs:
                    values[n.name] = (n.attrs["value"], n.y.dtype)
            elif n.inputs and all(i in values for i in n.inputs):
                value = _fold(n, [values[i] for i in n.inputs])
                if value is not None:
                    values[n.name] = (value, n.y.dtype)
                    folded[n.name] = replace(n, op="Scalar", inputs=(), attrs={"value": value})
        if not folded:
            return ir
        return _broadcast_before_store(ir, [folded.get(n.name, n) for n in ir.nodes])


def _fold(n: Node, operands: list[tuple[Any, DType]]) -> int | float | bool | None:
    row = find(n.op)
    if row is None or row.reference is None or row.compute_type not in ("elewise", "view"):
        return None
    arrays: list[np.ndarray] = []
    for value, d in operands:
        held = _rounded(value, d)
        if held is None:
            return None
        kind = {"f": np.float64, "b": np.bool_, "u": np.uint64}.get(d.kind, np.int64)
        arrays.append(np.asarray(held, dtype=kind))
    with np.errstate(all="ignore"):
        given = with_source(n.attrs, row.attr_names(), operands[0][1].name if operands else "")
        result = row.reference(arrays, given)
    return _rounded(np.asarray(result).item(), n.y.dtype)


# casts ----------------------------------------------------------------------------------------

#: Bits of the significand and of the exponent.
_FLOAT_BITS = {"float32": (24, 8), "float16": (11, 5), "bfloat16": (8, 8)}


def _exact(a: DType, b: DType) -> bool:
    """Return True if every value of ``a`` is a value of ``b``."""
    if a == b or a.kind == "b":
        return True
    if b.kind == "b":
        return False
    if b.kind == "f":
        precision, exponent = _FLOAT_BITS[b.name]
        if a.kind == "f":
            have = _FLOAT_BITS[a.name]
            return have[0] <= precision and have[1] <= exponent
        return a.bits - (a.kind == "i") <= precision and a.bits <= 16
    if a.kind == "f":
        return False
    if a.kind == "u":
        return b.bits > a.bits or (b.kind == "u" and b.bits == a.bits)
    return b.kind == "i" and b.bits >= a.bits


@dataclass(frozen=True)
class NoOpCast:
    """Removes casts to the same dtype, and widening casts followed by the cast back."""

    name: str = "no-op-cast"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Remove."""
        names: dict[str, str] = {}
        nodes: dict[str, Node] = {}
        out: list[Node] = []
        for old in ir.nodes:
            n = _rename(old, names)
            source = nodes[n.inputs[0]] if n.op == "Cast" else None
            if source is not None:
                if source.y.dtype == n.y.dtype and not (
                    n.attrs.get("round") and n.y.dtype.kind == "f"
                ):
                    names[n.name] = source.name
                    continue
                if source.op == "Cast":
                    first = nodes[source.inputs[0]]
                    if first.y.dtype == n.y.dtype and _exact(first.y.dtype, source.y.dtype):
                        names[n.name] = first.name
                        continue
            nodes[n.name] = n
            out.append(n)
        return _broadcast_before_store(ir, out) if names else ir


# broadcasts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DoubleBroadcast:
    """Merges nested broadcasts and removes those that add no axis, except after a Scalar."""

    name: str = "double-broadcast"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Merge."""
        names: dict[str, str] = {}
        nodes: dict[str, Node] = {}
        out: list[Node] = []
        changed = False
        for old in ir.nodes:
            n = _rename(old, names)
            if n.op == "Broadcast":
                source = nodes[n.inputs[0]]
                if source.op == "Broadcast":
                    n = replace(n, inputs=source.inputs)
                    source = nodes[n.inputs[0]]
                if source.op != "Scalar" and _varies(source.y) == _varies(n.y):
                    names[n.name] = source.name
                    changed = True
                    continue
            changed = changed or n is not old
            nodes[n.name] = n
            out.append(n)
        return _with_nodes(ir, out) if changed else ir


@dataclass(frozen=True)
class SinkBroadcast:
    """Moves broadcasts after element-wise ops, so that these compute on small tensors.

    An element-wise op whose operands, before their broadcasts, vary along fewer axes than its result is computed along
    those axes only.  The broadcast of a single element is dropped, unless a reduction produces the element: then it is
    in UB, not a scalar.  Ops with a bool result stay in place: the device has no broadcast of bit masks.
    """

    name: str = "sink-broadcast"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Sink."""
        if not any(n.op == "Broadcast" for n in ir.nodes):
            return ir
        fresh = _Fresh(ir)
        sizes = {a.id: a.size for a in ir.axes}
        nodes: dict[str, Node] = {}
        names: dict[str, str] = {}
        reduced: set[str] = set()
        out: list[Node] = []
        changed = False

        def add(n: Node) -> Node:
            nodes[n.name] = n
            if n.op in REDUCES or not reduced.isdisjoint(n.inputs):
                reduced.add(n.name)
            out.append(n)
            return n

        def broadcast(source: Node, like: TensorView, varies: Varies) -> Node:
            y = _view(source.y.dtype, like.axis, sizes, varies)
            name = fresh.name("broadcast")
            return add(
                Node(name, "Broadcast", (source.name,), y, axis=source.axis, origin=source.origin)
            )

        for old in ir.nodes:
            n = _rename(old, names)
            below = [nodes[i] for i in n.inputs] if n.axis and _is_elementwise(n) else []
            if not any(b.op == "Broadcast" for b in below):
                add(n)
                continue
            sources = [nodes[b.inputs[0]] if b.op == "Broadcast" else b for b in below]
            full = _varies(n.y)
            natural = [_varies(s.y) for s in sources]
            union = tuple(any(v) for v in zip(*natural, strict=True))
            if union == full or n.y.dtype.kind in "bm":
                uniform = [
                    b.op == "Broadcast" and not any(v) and b.name not in reduced
                    for b, v in zip(below, natural, strict=True)
                ]
                if any(uniform) and (any(union) or union == full):
                    inputs = [
                        s.name if u else b.name
                        for b, s, u in zip(below, sources, uniform, strict=True)
                    ]
                    n = replace(n, inputs=tuple(inputs))
                    changed = True
                add(n)
                continue
            changed = True
            inputs = [
                s.name
                if v == union or (not any(v) and s.name not in reduced)
                else broadcast(s, n.y, union).name
                for s, v in zip(sources, natural, strict=True)
            ]
            small = replace(n, inputs=tuple(inputs), y=_view(n.y.dtype, n.y.axis, sizes, union))
            add(small)
            names[n.name] = broadcast(small, n.y, full).name
        return _with_nodes(ir, out) if changed else ir


def _view(
    dtype: DType, axis: tuple[int, ...], sizes: Mapping[int, Expr], varies: Varies
) -> TensorView:
    """Return the view of a contiguous tensor along the marked axes of ``axis``."""
    inner = iter(contiguous_strides([sizes[a] for a, v in zip(axis, varies, strict=True) if v]))
    return TensorView(
        dtype,
        axis,
        tuple(sizes[a] if v else ONE for a, v in zip(axis, varies, strict=True)),
        tuple(next(inner) if v else ZERO for v in varies),
    )


# equal and dead nodes -------------------------------------------------------------------------


def _result_key(n: Node) -> tuple[object, ...]:
    """Return a key that is equal for nodes with the same result."""
    y = n.y
    attrs = tuple(sorted((k, *_attr_key(v)) for k, v in n.attrs.items())) if n.attrs else ()
    return n.op, n.inputs, n.axis, y.dtype, y.repeats, y.strides, y.offset, attrs


def _attr_key(value: Attr) -> tuple[str, str]:
    return (
        type(value).__name__,
        repr(value),
    )  # distinguishes 0.0 from -0.0 and 1 from True, and equates a NaN with itself


@dataclass(frozen=True)
class CommonSubexpressions:
    """Merges nodes with equal op, inputs, attributes and axes."""

    name: str = "common-subexpressions"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Unify."""
        names: dict[str, str] = {}
        seen: dict[tuple[object, ...], str] = {}
        out: list[Node] = []
        for old in ir.nodes:
            n = _rename(old, names)
            if n.axis and n.op != "Store":
                first = seen.setdefault(_result_key(n), n.name)
                if first != n.name:
                    names[n.name] = first
                    continue
            out.append(n)
        return _with_nodes(ir, out) if names else ir


@dataclass(frozen=True)
class DeadCode:
    """Removes nodes that reach no Store, except Data nodes: they are the kernel's parameters."""

    name: str = "dead-code"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Remove."""
        live: set[str] = set()
        for n in reversed(ir.nodes):
            if n.op in ("Output", "Data") or n.name in live:
                live.add(n.name)
                live.update(n.inputs)
        if len(live) == len(ir.nodes):
            return ir
        return _with_nodes(ir, (n for n in ir.nodes if n.name in live))


# axes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MergeAxes:
    """Merges neighbouring axes that every tensor of the group traverses as one.

    A merged axis is appended to ``axes`` and lists the axes of lowering that it was merged from; these stay in the
    list.
    """

    name: str = "merge-axes"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Merge."""
        views: dict[tuple[int, ...], list[TensorView]] = {}
        scanned: dict[tuple[int, ...], tuple[int, ...]] = {}
        for n in ir.nodes:
            if n.op == "Scan":
                scanned[n.axis] = _scanned(n)
            if len(n.axis) > 1:
                views.setdefault(n.axis, []).append(n.y)
        axes = list(ir.axes)
        runs: dict[tuple[int, ...], list[list[int]]] = {}
        ids: dict[tuple[int, ...], tuple[int, ...]] = {}
        for axis, seen in views.items():
            found = _mergeable(axis, seen, scanned.get(axis, ()))
            if len(found) == len(axis):
                continue
            merged: list[int] = []
            for run in found:
                if len(run) == 1:
                    merged.append(axis[run[0]])
                    continue
                parts = [axes[axis[k]] for k in run]
                merged.append(len(axes))
                name, size = "".join(a.name for a in parts), product(a.size for a in parts)
                origin = tuple(o for a in parts for o in (a.origin or (a.id,)))
                axes.append(Axis(len(axes), name, size, AxisType.MERGED, origin))
            runs[axis], ids[axis] = found, tuple(merged)
        if not runs:
            return ir
        cache: dict[int, tuple[TensorView, TensorView]] = {}
        nodes = []
        for n in ir.nodes:
            if n.axis in runs:
                hit = cache.get(id(n.y))
                y = hit[1] if hit else _merge_view(n.y, ids[n.axis], runs[n.axis], axes)
                cache[id(n.y)] = (n.y, y)
                if n.op == "Scan":
                    n = replace(n, attrs={**n.attrs, "axes": _merged_ids(n, runs[n.axis], ids)})
                n = replace(n, y=y, axis=ids[n.axis])
            nodes.append(n)
        return replace(ir, axes=tuple(axes), nodes=tuple(nodes))


def _scanned(n: Node) -> tuple[int, ...]:
    """Return the axes along which a Scan adds up."""
    axes = n.attrs["axes"]
    assert isinstance(axes, tuple)
    return axes


def _merged_ids(
    n: Node, runs: list[list[int]], ids: Mapping[tuple[int, ...], tuple[int, ...]]
) -> tuple[int, ...]:
    """Return the axes along which a Scan adds up, after merging."""
    new = {n.axis[k]: i for i, run in zip(ids[n.axis], runs, strict=True) for k in run}
    return tuple(dict.fromkeys(new[a] for a in _scanned(n)))


def _mergeable(
    axis: Sequence[int], views: Iterable[TensorView], scanned: Sequence[int]
) -> list[list[int]]:
    """Return the positions of the axes, grouped where all views allow it and running sums continue across them."""
    count = len(axis)
    joined = [True] * (count - 1)
    for k in range(count - 1):
        a, b = (scanned.index(x) if x in scanned else None for x in axis[k : k + 2])
        joined[k] = a is b is None or (a is not None and b is not None and b == a + 1)
    for y in views:
        if True not in joined:
            break
        varies = _varies(y)
        for k in range(count - 1):
            if joined[k]:
                joined[k] = varies[k] == varies[k + 1] and (
                    not varies[k] or y.strides[k] == y.strides[k + 1] * y.repeats[k + 1]
                )
    out = [[0]]
    for k, join in enumerate(joined):
        if join:
            out[-1].append(k + 1)
        else:
            out.append([k + 1])
    return out


def _merge_view(
    y: TensorView, ids: tuple[int, ...], runs: list[list[int]], axes: list[Axis]
) -> TensorView:
    varies = _varies(y)
    return replace(
        y,
        axis=ids,
        repeats=tuple(
            axes[i].size if varies[r[0]] else ONE for i, r in zip(ids, runs, strict=True)
        ),
        strides=tuple(y.strides[r[-1]] for r in runs),
    )


# order ----------------------------------------------------------------------------------------

_COUNTED: Mapping[str, str] = {"Load": "gather", "Broadcast": "broadcast", "Scalar": "scalar"}


@dataclass(frozen=True)
class Order:
    """Orders the nodes for short live ranges, and renumbers loads and similar nodes."""

    name: str = "order"

    def __call__(self, ir: HintGraph) -> HintGraph:
        """Order."""
        position = {n.name: k for k, n in enumerate(ir.nodes)}
        uses = [[position[i] for i in n.inputs] for n in ir.nodes]
        for load, store in in_place_pairs(ir):
            uses[position[store]].append(position[load])
        stores = [k for k, n in enumerate(ir.nodes) if n.op == "Store"]
        data = [k for k, n in enumerate(ir.nodes) if n.op == "Data"]
        free = [n.op in ("Scalar", "Data") for n in ir.nodes]
        # Data nodes first, Outputs last; both keep their order.
        order = execution_order(uses, data + stores, free)
        order += [k for k, n in enumerate(ir.nodes) if n.op == "Output"]
        names = _count([ir.nodes[k] for k in order])
        if not names and order == list(range(len(ir.nodes))):
            return ir
        out = []
        for k in order:
            n = _rename(ir.nodes[k], names)
            out.append(replace(n, name=names[n.name]) if n.name in names else n)
        return _with_nodes(ir, out)


def _count(nodes: list[Node]) -> dict[str, str]:
    """Return the new names of numbered nodes; only those that change."""
    counted = [
        (n, _COUNTED[n.op])
        for n in nodes
        if n.op in _COUNTED and _is_counted(n.name, _COUNTED[n.op])
    ]
    taken = {n.name for n in nodes} - {n.name for n, _ in counted}
    following: dict[str, int] = {}
    names: dict[str, str] = {}
    for n, prefix in counted:
        k = following.get(prefix, 0)
        while f"{prefix}_{k}" in taken:
            k += 1
        following[prefix] = k + 1
        if n.name != f"{prefix}_{k}":
            names[n.name] = f"{prefix}_{k}"
    return names


def _is_counted(name: str, prefix: str) -> bool:
    return name.startswith(f"{prefix}_") and name[len(prefix) + 1 :].isdecimal()


#: The passes of one round.
PIPELINE: tuple[Pass, ...] = (
    NoOpCast(),
    IntegerLimits(),
    DoubleBroadcast(),
    SinkBroadcast(),
    ConstantFolding(),
    TruthIdentities(),
    CommonSubexpressions(),
    DeadCode(),
    MergeAxes(),
    Order(),
)


#: Passes for backends that inspect the axes of several groups before merging them.
UNMERGED: tuple[Pass, ...] = tuple(p for p in PIPELINE if not isinstance(p, MergeAxes))


def canonicalise(
    hint: HintGraph, watch: Watch | None = None, passes: tuple[Pass, ...] = PIPELINE
) -> HintGraph:
    """Run ``passes`` until nothing changes; idempotent.  ``watch`` is notified of every pass."""
    settled = 0
    for step in passes * MAX_ROUNDS:
        before, hint = hint, step(hint)
        told(watch, step.name, before, hint)
        settled = settled + 1 if hint is before else 0
        if settled == len(passes):
            return hint
    raise RuntimeError(f"the passes do not settle on {hint.name} within {MAX_ROUNDS} rounds")


def canonicalise_all(
    hints: Sequence[HintGraph], watch: Watch | None = None
) -> tuple[HintGraph, ...]:
    """Return the forms of a graph, each canonicalised; ``watch`` is notified of every pass."""
    if len(hints) == 1:
        return (canonicalise(hints[0], watch),)
    return tuple(canonicalise(h, named(watch, f"form {k}")) for k, h in enumerate(hints))
