"""Mechanisms of the schedule that few graphs need: the graph for which each is kept takes a tenth longer without it."""

from collections.abc import Callable
from typing import Any

import pytest
from row_graphs import graph, node, softmax, weighed_layer_norm

from autofuse import api
from autofuse.schedule import realise, scheduler
from autofuse.schedule.realise import Template
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import result_cycles
from autofuse.schedule.templates.transpose import CUT_REDUCE
from autofuse.targets import load_target

Patch = pytest.MonkeyPatch


def cycles(document: dict[str, Any]) -> float:
    (result,) = api.build(document).schedule
    found = result_cycles(result, Costs(load_target("ascend910b1")))
    assert found is not None
    return found


def transposed_sum() -> dict[str, Any]:
    """The sum over a batch of what is stored in the other order, and of a second tensor."""
    nodes = [
        node("turned", "Transpose", "x", perm=[0, 2, 1]),
        node("both", "Add", "turned", "other"),
        node("y", "ReduceSum", "both", axes=[0]),
    ]
    shape = [32, 500, 300]
    return graph([32, 300, 500], "float16", nodes, ("y",), other=("float16", shape))


def without_late_casts(patch: Patch) -> None:
    patch.setattr(Template, "with_late_casts", lambda self: None)


def without_further_plans(patch: Patch) -> None:
    patch.setattr(Template, "less", lambda self, impl, other: impl)


def without_shared_buffers(patch: Patch) -> None:
    patch.setattr(realise, "_BUFFERING_OF_ROWS", realise._BUFFERING)


def without_cut_reductions(patch: Patch) -> None:
    families = tuple(f for f in scheduler.FAMILIES if f is not CUT_REDUCE)
    patch.setattr(scheduler, "FAMILIES", families)


@pytest.mark.parametrize(
    ("document", "without"),
    [
        (weighed_layer_norm(8192, 10240, "float16"), without_late_casts),
        (weighed_layer_norm(8192, 4096, "float16"), without_further_plans),
        (softmax(8192, 16384, "float16"), without_shared_buffers),
        (transposed_sum(), without_cut_reductions),
    ],
    ids=lambda v: v.__name__ if callable(v) else "",
)
def test_a_graph_needs_it(
    document: dict[str, Any], without: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    whole = cycles(document)
    without(monkeypatch)
    assert cycles(document) > 1.1 * whole
