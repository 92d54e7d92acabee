"""Refusals of a graph that are right on a chip: decided by shapes and dtypes alone, not by what a plan comes to.

A chip without DataCopyPad moves whole blocks between GM and UB.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from autofuse.implgraph.expr.expression import ONE, Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode
from autofuse.targets import TargetSpec
from autofuse.targets.architecture import Architecture

__all__ = ["dtypes_of", "may_be_drawn", "refusals_of"]

#: Why a chip may refuse a graph.
LACKING = "dtypes that the chip lacks"
UNEVEN = "rows that are no whole blocks"
LONG = "a block of what has one element for each row is of more rows than UB holds"
BETWEEN = "results of one of several reductions that are no whole blocks"
#: Bytes of the widest dtype in which such a chip computes.
WIDEST = 4
WIDE = frozenset({"int64", "uint64"})
#: Sizes of symbols: a row that is a multiple with each of them counts as one with all.
PROBES = (1, 2, 3, 7)


def dtypes_of(arch: Architecture, dtypes: Sequence[str]) -> frozenset[str]:
    """Those of the dtypes in which a chip computes: it has them, and for 64-bit integers casts."""
    lacking = {"bfloat16"} if "bfloat16_t" in arch.lacks else set()
    if not any(WIDE.intersection(pair) for pair in arch.casts):
        lacking |= WIDE
    return frozenset(dtypes) - lacking


def refusals_of(graph: FusionGraph, target: TargetSpec) -> dict[str, str]:
    """The codes with which a chip may refuse a graph, each with its reason.

    Args:
        graph: without strides.
        target: the chip, with the UB that the case has.
    """
    found: dict[str, str] = {}
    dtypes = {t.dtype.name for t in graph.tensors.values()}
    if dtypes - dtypes_of(target.arch, tuple(dtypes)):
        found["AF3001"] = LACKING
    if target.arch.has_datacopypad:
        return found
    block = target.arch.block_bytes
    # Each tensor may have to be in UB at the same time, in the widest dtype that is computed in.
    held = _summed(graph) * (WIDEST * len(graph.tensors))
    if any(_most(graph, n * held) > target.ub_usable for n in _blocks_of_rows(graph, block)):
        # Of sizes that are known at run time only, it is the tiling function that finds no tile.
        found |= dict.fromkeys(("AF3002", "AF3003", *(("AF5003",) if graph.symbols else ())), LONG)
    if any(not _is_whole(graph, size, dtype, block) for size, dtype in _rows_between(graph)):
        found["AF3002"] = BETWEEN
    if any(not _is_whole(graph, size, dtype, block) for size, dtype in _moved_rows(graph)):
        found["AF3002"] = UNEVEN
    return found


def may_be_drawn(graph: FusionGraph, target: TargetSpec) -> bool:
    """Whether a kernel for the graph on the chip is worth a try: what it is given and gives is whole blocks."""
    return set(refusals_of(graph, target).values()) <= {LONG, BETWEEN}


def _is_whole(graph: FusionGraph, size: Expr, dtype: DType, block: int) -> bool:
    """Whether so many elements are whole blocks, whatever the symbols are."""
    names = [s.name for s in graph.symbols if s.name in size.symbols()]
    return all(
        size.evaluate(dict(zip(names, values, strict=True))) * dtype.itemsize % block == 0
        for values in itertools.product(PROBES, repeat=len(names))
    )


def _most(graph: FusionGraph, size: Expr) -> int:
    """The size with the largest symbols: the sizes of a graph only grow with them."""
    return size.evaluate({s.name: s.max for s in graph.symbols})


def _moved_rows(graph: FusionGraph) -> Iterator[tuple[Expr, DType]]:
    """Elements that lie side by side, of all that a kernel has to load or store by itself."""
    for name in graph.inputs:
        t = graph.tensors[name]
        at = _innermost(t.shape)
        # The scalar unit reads an input of one element.
        if at is not None:
            yield t.shape[at], t.dtype
    for o in graph.outputs:
        t = graph.tensors[o.tensor]
        at = _innermost(t.shape)
        yield (ONE if at is None else t.shape[at]), t.dtype
    for n in graph.nodes:
        yield from _rows_of_parts(graph, n)


def _rows_between(graph: FusionGraph) -> Iterator[tuple[Expr, DType]]:
    """The rows of what reductions leave for others: these are parts of a kernel that meet in GM."""
    made = [n for n in graph.nodes if n.op.startswith(("Reduce", "Arg")) or n.op == "CumSum"]
    for n in made if len(made) > 1 else ():
        y = graph.tensors[n.outputs[0]]
        at = _innermost(y.shape)
        yield (ONE if at is None else y.shape[at]), y.dtype


def _rows_of_parts(graph: FusionGraph, n: FusionNode) -> Iterator[tuple[Expr, DType]]:
    """The rows of what an op takes of a larger tensor, or puts into one."""
    xs = [graph.tensors[x] for x in n.inputs if isinstance(x, str)]
    y = graph.tensors[n.outputs[0]]
    if n.op in ("Concat", "Pad"):
        at = _innermost(y.shape)
        if at is not None:
            yield from ((x.shape[at], x.dtype) for x in xs)
        if any(other.op == "Transpose" for other in graph.nodes):
            # Another dimension of the pieces may be the innermost one where they are moved.
            pairs = ((x, i) for x in xs for i, d in enumerate(y.shape) if x.shape[i] != d)
            yield from ((x.shape[i], x.dtype) for x, i in pairs)
    elif n.op == "Slice":
        at = _innermost(xs[0].shape)
        if at is not None:
            # A run that goes backwards is one; of other steps the elements lie apart.
            step = n.attrs.get("steps", [1] * len(y.shape))[at]
            yield (y.shape[at] if step in (1, -1) else ONE), y.dtype
        if n.inputs[0] not in graph.inputs:
            # Of what a computed tensor is made of, the innermost dimension may be another one.
            cut = (i for i, d in enumerate(xs[0].shape) if y.shape[i] != d)
            yield from ((y.shape[i], y.dtype) for i in cut)
    elif n.op in ("Gather", "GatherElements"):
        axis = n.attrs["axis"] % len(xs[0].shape)
        at = _innermost(xs[0].shape)
        # Every element of these has a place of its own.
        if n.op == "GatherElements" or at is None or at <= axis:
            yield ONE, y.dtype


def _blocks_of_rows(graph: FusionGraph, block: int) -> Iterator[Expr]:
    """Of each tensor that has one element for each row of another one: elements of the rows that make up a block of it.

    A block is moved as a whole, so these rows are in UB at the same time.
    """
    for n in graph.nodes:
        xs = [graph.tensors[x] for x in n.inputs if isinstance(x, str)]
        y = graph.tensors[n.outputs[0]]
        if n.op in ("Gather", "GatherElements"):
            few, long = xs[1], xs[0].shape[n.attrs["axis"] % len(xs[0].shape) + 1 :]
            yield math.prod(long, start=ONE) * (block // few.dtype.itemsize)
        elif n.op.startswith(("Reduce", "Arg")):
            rank = len(xs[0].shape)
            axes = n.attrs.get("axes", (n.attrs.get("axis"),))
            gone = {a % rank for a in axes} or set(range(rank))
            kept = [i for i, d in enumerate(xs[0].shape) if i not in gone and d != 1]
            row = math.prod(xs[0].shape[kept[-1] + 1 if kept else 0 :], start=ONE)
            # A core has one element of a result of one.
            yield row * (block // y.dtype.itemsize) if kept else row
        elif n.op == "Transpose":
            at = _innermost(y.shape)
            if at is not None:
                behind = xs[0].shape[n.attrs["perm"][at] + 1 :]
                yield math.prod(behind, start=ONE) * (block // y.dtype.itemsize)
        else:
            for x in xs:
                at = _innermost(x.shape)
                if len(x.shape) <= len(y.shape) and at is not None and at + 1 < len(x.shape):
                    behind = y.shape[len(y.shape) - len(x.shape) + at + 1 :]
                    yield math.prod(behind, start=ONE) * (block // x.dtype.itemsize)


def _summed(graph: FusionGraph) -> Expr:
    """The sizes of the dimensions along which there are running sums: they are in UB from end to end."""
    sums = (n for n in graph.nodes if n.op == "CumSum")
    return math.prod((graph.tensors[n.outputs[0]].shape[n.attrs["axis"]] for n in sums), start=ONE)


def _innermost(shape: Sequence[Expr]) -> int | None:
    """The last dimension of more than one element; None: there is none."""
    return next((i for i in reversed(range(len(shape))) if shape[i] != 1), None)
