"""Outputs that share buffers with inputs; clients do this for inputs that they no longer need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autofuse import api
from autofuse.clients.cann.pyautofuse.reading.translate import Translated
from autofuse.implgraph.cutting.cut import INPUT, OUTPUT
from autofuse.implgraph.ir.graph import ImplGraph, TensorView
from autofuse.schedule.axes.result import ScheduleResult

__all__ = ["in_place", "other_views", "unsafe_pairs"]

Pair = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _At:
    """Load or store of a kernel: its group, template and node position, and the elements per iteration."""

    group: int
    template: int
    node: int
    view: TensorView


def unsafe_pairs(
    built: api.SplitResult, translated: Translated, pairs: Sequence[Pair]
) -> tuple[Pair, ...]:
    """Return the ``pairs`` whose output may be written before the input is fully read.

    An output that may overwrite an input has its layout and depends on it.  So a pair is safe if every Load of the
    input loads the elements stored in the same iteration, and precedes the Store in program order: a core has then
    loaded its elements, and other cores load other elements.  Loads of other groups must also have finished.
    """
    inputs = translated.graph.inputs
    return tuple((name, k) for name, k in pairs if not _in_order(built, inputs.index(name), k))


def in_place(translated: Translated, pairs: Sequence[Pair]) -> tuple[Translated, tuple[Pair, ...]]:
    """Return the graph with in-place outputs for as many of ``pairs`` as are compatible, and these pairs.

    An output overwrites at most one input.  A client is most likely to overwrite the input that it uses last.
    """
    graph = translated.graph
    chosen: dict[int, str] = {}
    for name, k in reversed(pairs):
        if k not in chosen and name not in chosen.values() and graph.outputs[k].inout is None:
            chosen[k] = name
    outputs = tuple(
        replace(o, inout=chosen[k]) if k in chosen else o for k, o in enumerate(graph.outputs)
    )
    shared = replace(translated, graph=replace(graph, outputs=outputs))
    return shared, tuple((name, k) for k, name in chosen.items())


def other_views(translated: Translated, name: str) -> bool:
    """Return True if the client's buffer is also loaded in another layout: cores then read data written by others."""
    graph = translated.graph
    pointers = dict(zip(graph.inputs, translated.inputs, strict=True))
    return any(p == pointers[name] and other != name for other, p in pointers.items())


def _in_order(built: api.SplitResult, i: int, k: int) -> bool:
    if built.split is None:
        return all(_kernel_in_order(r, i, k) for r in built.parts[0].schedule)
    parts = built.split.parts
    for q, writer in enumerate(parts):
        written = [n for n, p in enumerate(writer.targets) if (p.kind, p.index) == (OUTPUT, k)]
        if not written:
            continue
        for p, reader in enumerate(parts):
            read = [n for n, x in enumerate(reader.sources) if (x.kind, x.index) == (INPUT, i)]
            if read and p > q:
                return False
            results = built.parts[p].schedule
            if p == q and not all(
                _kernel_in_order(r, a, b) for r in results for a in read for b in written
            ):
                return False
    return True


def _kernel_in_order(result: ScheduleResult, i: int, k: int) -> bool:
    loads = list(_found(result, f"Data_{i}", -1))
    for store in _found(result, "", k):
        for load in loads:
            if load.group > store.group:
                return False
            if load.group < store.group:
                between = result.groups[load.group + 1 : store.group + 1]
                if not any(g.sync_before for g in between):
                    return False
            elif load.template == store.template and (
                load.node > store.node or not _element_by_element(load.view, store.view)
            ):
                return False
    return True


def _element_by_element(load: TensorView, store: TensorView) -> bool:
    """Return True if both touch the same element in every iteration."""
    same = (load.axis, load.repeats, load.offset) == (store.axis, store.repeats, store.offset)
    return same and load.strides == store.strides


def _found(result: ScheduleResult, data: str, output: int) -> Iterator[_At]:
    """Yield the Loads of an input, or the Stores of an output."""
    for g, group in enumerate(result.groups):
        for t, impl in enumerate(group.impls):
            stores = _stores(impl, output)
            for n, node in enumerate(impl.nodes):
                if (node.op == "Load" and node.inputs[0] == data) or node.name in stores:
                    yield _At(g, t, n, node.y)


def _stores(impl: ImplGraph, output: int) -> frozenset[str]:
    ends = (n for n in impl.nodes if n.op == "Output" and n.attrs.get("index") == output)
    return frozenset(x for n in ends for x in n.inputs)
