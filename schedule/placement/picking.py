"""Strided loads: the whole run that contains the elements, and a vector call that picks them in UB.

Loaded separately, each non-contiguous element costs a row of a DMA command and a 32-byte sector.  If the run from the
first element to the last touches no other sectors, it is loaded as a whole, in the layout of the result with every
stride times the step, and a call gathers the elements: ``GatherMask`` if the chip has the pattern, else ``Gather`` with
a table of offsets that is built once per core.  A run with a negative step is in UB in GM order and is read from its
end, row by row.  Loads of interleaved elements, such as the even and odd ones of a row, share one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from autofuse.implgraph.expr.expression import ZERO, Expr
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Api, Attr, Node, TensorView
from autofuse.implgraph.ops.registry import find_call
from autofuse.schedule.axes.layout import Layout
from autofuse.schedule.legal.casts import exact_mode
from autofuse.targets import Architecture

__all__ = [
    "PATTERNS",
    "beyond",
    "is_run",
    "picked_load",
    "run_step",
    "share_runs",
    "tables",
]

#: Calls that can take elements of a run from any first element.
_OF_RUNS = frozenset({"PickByMask", "PickAhead", "PickBack", "Unlace", "UnlaceByMask"})
_WITH_TABLES = frozenset({"PickAhead", "PickBack", "Lace", "Unlace"})
#: Steps with a GatherMask pattern.
PATTERNS = (2, 4)

_VECTOR = Api("Compute", "pick", "Vector")
_CAST = Api("Compute", "elewise", "Vector")
_HALF, _INT32 = BY_NAME["float16"], BY_NAME["int32"]


def is_run(n: Node) -> bool:
    """Return True if a Load takes the whole run that contains its elements."""
    return n.op == "Load" and bool(n.attrs.get("run"))


def beyond(n: Node) -> int:
    """Return the number of elements by which a Load's run, or each of its rows, extends past its last one.

    Loads that share a run take them, or they complete a block.
    """
    return n.number("beyond", 0)


def run_step(n: Node, layout: Layout) -> int | None:
    """Return the GM step between elements of a Load along its last axis, if it should load the run.

    None if that touches more 32-byte sectors than the elements alone, or if a row of the result would not start at a
    32-byte address.
    """
    y, axes = n.y, n.y.vectorized_axis
    if n.op != "Load" or not axes or len(n.inputs) > 1:
        return None
    gm = dict(zip(y.axis, y.strides, strict=True))
    step = gm[axes[-1]].as_int()
    if step is None or step in (0, 1) or abs(step) * y.dtype.itemsize > layout.arch.block_bytes:
        return None
    if any(gm[a] == 1 for a in axes):
        return None  # rows along that axis are moved and transposed
    return step if _rows_are_aligned(y, layout, backwards=step < 0) else None


def _rows_are_aligned(y: TensorView, layout: Layout, *, backwards: bool) -> bool:
    """Return True if every row of the result starts at a 32-byte address, or all of them are one run."""
    gm = dict(zip(y.axis, y.strides, strict=True))
    axes, last = y.vectorized_axis, y.vectorized_axis[-1]
    # Rows along the last axis are padded, or a multiple of 32 bytes by a condition, or one run in GM.
    by_template = last == layout.split.vector[-1] or last in layout.pitches
    for i, (a, b) in enumerate(pairwise(axes)):
        above, below = y.vectorized_strides[i : i + 2]
        if layout.in_blocks(above * y.dtype.itemsize):
            continue
        size = layout.split.sizes[b]
        one_run = gm[a] == gm[b] * size and above == below * size
        # Read from its end, a run of several rows would reverse the order of rows.
        if not (one_run or by_template) or (one_run and backwards):
            return False
    return True


def picked_load(n: Node, step: int, arch: Architecture) -> list[Node]:
    """Return the Load of the run that contains the elements of ``n``, and the nodes that compute ``n`` from it.

    Args:
        n: a Load for which :func:`run_step` returned a step.
        step: the step.
        arch: the architecture; determines the operands of calls.
    """
    apart = abs(step)
    strides = tuple(s * apart for s in n.y.vectorized_strides)
    raw = replace(n.y, vectorized_strides=strides)
    load = replace(n, name=f"{n.name}_run", y=raw, attrs={**n.attrs, "run": True})
    if n.y.dtype.bits != 8:
        return [load, _pick(n, n.name, load, n.y.dtype, step, arch)]
    # Halves hold every byte exactly.
    wide = _cast(n, f"{n.name}_half", load, raw, _HALF, arch)
    picked = _pick(n, f"{n.name}_picked", wide, _HALF, step, arch)
    return [load, wide, picked, _cast(n, n.name, picked, n.y, n.y.dtype, arch)]


def _cast(like: Node, name: str, x: Node, y: TensorView, to: DType, arch: Architecture) -> Node:
    attrs = {"round": exact_mode(arch, x.y.dtype, to)}
    y = replace(y, dtype=to)
    return replace(like, name=name, op="Cast", inputs=(x.name,), y=y, attrs=attrs, api=_CAST)


def _pick(like: Node, name: str, x: Node, dtype: DType, step: int, arch: Architecture) -> Node:
    op = "PickAhead" if step > 0 else "PickBack"
    by_mask = find_call("PickByMask", arch)
    if step in PATTERNS and by_mask is not None and dtype.name in by_mask.dtypes:
        op = "PickByMask"
    y = replace(like.y, dtype=dtype)
    attrs = {"step": abs(step)}
    return replace(like, name=name, op=op, inputs=(x.name,), y=y, attrs=attrs, api=_VECTOR)


def share_runs(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes with one Load for all Loads of a loop whose runs start at different elements of the same step.

    Runs that go backwards are not shared.
    """
    alike: dict[tuple[object, ...], list[Node]] = {}
    for n in filter(is_run, nodes):
        if _apart(n) > 0:
            view = replace(n.y, offset=ZERO)
            alike.setdefault((n.inputs, view, n.loop_axis, n.loop_pass), []).append(n)
    shared = {
        name: (load, first)
        for found in alike.values()
        for load, begins in _shared(found)
        for name, first in begins.items()
    }
    return _with_shared(nodes, shared) if shared else list(nodes)


def _apart(load: Node) -> int:
    """Return the GM step between elements of a run."""
    return dict(zip(load.y.axis, load.y.strides, strict=True))[load.y.vectorized_axis[-1]].value


def _shared(alike: Sequence[Node]) -> Iterator[tuple[Node, dict[str, int]]]:
    """Yield the shared Loads of runs, with the names of the Loads that each replaces and their offsets in it."""
    left = list(alike)
    while left:
        base, step = left[0], _apart(left[0])
        places = {n.name: (n.y.offset - base.y.offset).as_int() for n in left}
        lowest = [d for d in places.values() if d is not None and -step < d <= 0]
        behind = {n.name: beyond(n) for n in left}
        for start in (min(lowest), 0):
            near = {
                name: d - start
                for name, d in places.items()
                if d is not None and start <= d and d + behind[name] < start + step
            }
            if base.name in near:  # a run from there also contains its rows
                break
        first = next(n for n in left if places[n.name] == start)
        left = [n for n in left if n.name not in near]
        if len(near) > 1:
            y = replace(base.y, offset=first.y.offset)
            last = max(d + behind[name] for name, d in near.items())
            yield replace(base, y=y, attrs={**base.attrs, "beyond": last}), near


def _with_shared(nodes: Sequence[Node], shared: dict[str, tuple[Node, int]]) -> list[Node]:
    """Return the nodes with these Loads instead of their own; the bytes of a run are widened once."""
    out: list[Node] = []
    #: Replacement of a run, and the offset of the elements in it.
    instead: dict[str, tuple[Node, int]] = {}
    for n in nodes:
        if n.name in shared:
            instead[n.name] = shared[n.name]
            if all(m.name != shared[n.name][0].name for m in out):
                out.append(shared[n.name][0])
            continue
        run, first = instead.get(n.inputs[0], (None, 0)) if n.inputs else (None, 0)
        if run is None:
            out.append(n)
            continue
        n = replace(n, inputs=(run.name, *n.inputs[1:]))
        if n.op in _OF_RUNS:
            out.append(replace(n, attrs={**n.attrs, "first": first}))
            continue
        same = next((m for m in out if (m.op, m.inputs, m.y) == (n.op, n.inputs, n.y)), n)
        instead[n.name] = (same, first)
        out += [n] if same is n else []
    return out


def tables(hoisted: Sequence[Node], looped: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Return both lists with the tables of offsets that their nodes need: each once, before the loop."""
    if not any(n.op in _WITH_TABLES for n in (*hoisted, *looped)):
        return list(hoisted), list(looped)
    made: dict[tuple[str, tuple[Attr, ...]], Node] = {}
    named = {n.name: n for n in (*hoisted, *looped)}
    taken = set(named)

    def with_table(n: Node) -> Node:
        if n.op not in _WITH_TABLES:
            return n
        op, attrs = _offsets_for(n, named[n.inputs[0]])
        key = (op, tuple(attrs.values()))
        if key not in made:
            made[key] = _table(n, op, attrs, taken)
        return replace(n, inputs=(*n.inputs, made[key].name))

    before, inside = [with_table(n) for n in hoisted], [with_table(n) for n in looped]
    return [*made.values(), *before], inside


def _offsets_for(n: Node, source: Node) -> tuple[str, dict[str, Attr]]:
    """Return the table that a node takes: its op and attributes."""
    size = n.y.dtype.itemsize
    if n.op == "Lace":
        pitch = source.y.vectorized_strides[-2]
        return "LaceOffsets", {"k": n.attrs["k"], "pitch": pitch, "size": size}
    if n.op == "Unlace":
        return "PickOffsets", {"step": n.number("step") * size}
    step = n.number("step") * size
    op = "PairOffsets" if size == 8 else "PickOffsets"
    return op, {"step": step if n.op == "PickAhead" else -step}


def _table(like: Node, op: str, attrs: dict[str, Attr], taken: set[str]) -> Node:
    """Return the table of offsets for ``like``, under a name that is not ``taken``."""
    if op == "LaceOffsets":
        name = f"places_of_{attrs['k']}_by_{attrs['size']}"
    else:
        step = attrs["step"]
        assert isinstance(step, int)
        kind = "pairs" if op == "PairOffsets" else "offsets"
        name = f"{kind}_of_{f'minus_{-step}' if step < 0 else step}"
    while name in taken:
        name += "_"
    taken.add(name)
    ones = tuple(Expr.of(1) for _ in like.y.axis)
    zeros = tuple(ZERO for _ in like.y.axis)
    return replace(
        like,
        name=name,
        op=op,
        inputs=(),
        y=TensorView(_INT32, like.y.axis, ones, zeros),
        attrs=attrs,
        loop_axis=None,
        loop_pass=0,
        api=Api("Compute", "offsets", "Vector"),
        origin="",
    )
