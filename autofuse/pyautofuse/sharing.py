"""Outputs that are passed the buffers of inputs: clients do that where they have no more use for an input."""

from __future__ import annotations

from dataclasses import replace

from autofuse import api
from autofuse.implgraph.group_order import groups
from autofuse.implgraph.ops import lookup
from autofuse.pyautofuse.translate import Translated

__all__ = ["in_place", "may_mix"]

_PASSES = frozenset({"reduce", "scan"})


def may_mix(built: api.SplitResult, translated: Translated) -> bool:
    """Whether a kernel may store to an output while it still has to load an input that may be the same buffer.

    With one output it cannot: everything that is loaded of an element goes into what is stored there.  With several,
    it can where elements are loaded more than once: by several groups or kernels, or before and after a reduction.
    """
    if not translated.overlaps or len(translated.outputs) < 2:
        return False
    if built.split is not None or any(
        lookup(n.op).compute_type in _PASSES for r in built.parts[0].schedule for n in r.hint.nodes
    ):
        return True
    return any(len(groups(r.hint)) > 1 for r in built.parts[0].schedule)


def in_place(translated: Translated) -> tuple[Translated, tuple[tuple[str, int], ...]]:
    """The graph with outputs that overwrite inputs, at most one each, and the pairs that remain.

    A client decides by the node that computes the output, so inputs that are taken late are likely; they are last.
    """
    chosen: dict[int, str] = {}
    graph = translated.graph
    for name, k in reversed(translated.overlaps):
        if k not in chosen and name not in chosen.values() and graph.outputs[k].inout is None:
            chosen[k] = name
    outputs = tuple(
        replace(o, inout=chosen[k]) if k in chosen else o for k, o in enumerate(graph.outputs)
    )
    left = tuple(p for p in translated.overlaps if chosen.get(p[1]) != p[0])
    return replace(translated, graph=replace(graph, outputs=outputs)), left
