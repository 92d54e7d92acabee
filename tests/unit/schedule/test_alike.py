"""Which groups of a graph count as alike, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from unittest import mock

import pytest
from schedule_steps import group_inputs

from autofuse.implgraph.ir.graph import HintGraph
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.cost.alike import likeness
from autofuse.schedule.cost.cost_form import CostForm
from autofuse.schedule.cost.costs import Costs
from autofuse.schedule.rank import Ranking
from autofuse.schedule.scheduler import _schedule_group, _scheduled

X = ("float32", [40, 64])
B = ("float32", [64])
#: Inputs ``x1``, ``x2``, ... and ``b1``, ..., and the nodes that make ``y1``, ... of them.
PLAIN = ({"x": X, "b": B}, [("y", "Add", ["x", "b"])])
PARTS = {
    "another op": ({"x": X, "b": B}, [("y", "Sub", ["x", "b"])]),
    "another type": ({"x": ("float16", [40, 64]), "b": ("float16", [64])}, PLAIN[1]),
    "other sizes": ({"x": ("float32", [40, 72]), "b": ("float32", [72])}, PLAIN[1]),
    "other strides": ({"x": ("float32", [40, 64], [128, 1], 0), "b": B}, PLAIN[1]),
    "another offset": ({"x": ("float32", [40, 64], [64, 1], 8), "b": B}, PLAIN[1]),
    "another order": ({"x": X, "b": B}, [("y", "Add", ["b", "x"])]),
    "one operand": ({"x": X, "b": B}, [("z", "Exp", ["x"]), ("y", "Add", ["x", "b"])]),
    "another constant": ({"x": X, "b": B}, [("z", "Mul", ["x", 3.0]), ("y", "Add", ["z", "b"])]),
    "no broadcast": ({"x": X, "b": X}, PLAIN[1]),
    "a reduction": ({"x": X}, [("y", "ReduceSum", ["x"], {"axes": (1,)})]),
    "another reduction": ({"x": X}, [("y", "ReduceSum", ["x"], {"axes": (0,)})]),
    "a running sum": ({"x": X}, [("y", "CumSum", ["x"], {"axis": 1})]),
    "another running sum": ({"x": X}, [("y", "CumSum", ["x"], {"axis": 0})]),
    "a sum from the end": ({"x": X}, [("y", "CumSum", ["x"], {"axis": 1, "reverse": True})]),
    "a transposition": ({"x": X}, [("y", "Transpose", ["x"], {"perm": (1, 0)})]),
}


@pytest.fixture
def hint(make) -> Callable[..., HintGraph]:
    """A graph that has all these parts."""

    def do(*parts) -> HintGraph:
        inputs = {f"{n}{k}": v for k, (named, _) in enumerate(parts) for n, v in named.items()}
        nodes = [
            (f"{y}{k}", op, [f"{x}{k}" if isinstance(x, str) else x for x in operands], *rest)
            for k, (_, made) in enumerate(parts)
            for y, op, operands, *rest in made
        ]
        return canonicalise(lower(make(inputs, nodes, [f"y{k}" for k in range(len(parts))])))

    return do


@pytest.fixture
def keys(hint, target) -> Callable[..., list[Hashable]]:
    """What stands for each group of such a graph."""
    return lambda *parts: [likeness(g) for g in group_inputs(hint(*parts), target)]


@pytest.mark.parametrize("part", [PLAIN, *PARTS.values()], ids=["plain", *PARTS])
def test_the_same_to_other_tensors(keys, part):
    found = keys(part, part, part)
    assert len(found) == 3
    assert len(set(found)) == 1


def test_anything_else_makes_a_difference(keys):
    alone = ["one operand"]  # what is not used is not there
    found = keys(PLAIN, *(p for name, p in PARTS.items() if name not in alone))
    assert len(set(found)) == len(found) == len(PARTS)


def test_the_order_of_operands_counts(keys):
    twice = ({"x": X}, [("z", "Exp", ["x"]), ("y", "Mul", ["z", "z"])])
    other = ({"x": X}, [("z", "Exp", ["x"]), ("y", "Mul", ["z", "x"])])
    found = keys(twice, other, twice)
    assert found[0] == found[2] != found[1]


@pytest.fixture
def forms(hint, target) -> Callable[..., list[list[CostForm]]]:
    """For each group of such a graph, of its templates what has been found out about their costs."""

    def do(*parts) -> list[list[CostForm]]:
        costs = Costs(target)
        result = _scheduled(hint(*parts), costs, 0, {})
        with mock.patch("autofuse.schedule.cost.costs.cost_form", return_value=None):
            # What is not known yet would be asked for.
            found = [[costs.form(i) for i in g.impls] for g in result.groups]
        return [[f for f in forms if f is not None] for forms in found]

    return do


def test_alike_groups_are_modelled_once(forms):
    first, other, *alike = forms(PLAIN, PARTS["other sizes"], PLAIN, PLAIN, PLAIN)
    assert first
    assert all(a is b for group in alike for a, b in zip(group, first, strict=True))
    assert not any(a is b for a, b in zip(other, first, strict=False))


@pytest.mark.parametrize("part", [PLAIN, *PARTS.values()], ids=["plain", *PARTS])
def test_what_a_group_drops_is_not_made_for_others_like_it(hint, target, part):
    first, *alike = group_inputs(hint(part, part, part), target)
    shared = Ranking(first, Costs(target))
    _schedule_group(first, 1, 100, shared)
    for g in alike:
        alone = _schedule_group(g, 1, 100, Ranking(g, Costs(target)))
        assert _schedule_group(g, 1, 100, shared) == alone


def test_a_dropped_template_stands_for_itself_by_its_name_only(hint, target):
    first, other = group_inputs(hint(*[PARTS["a transposition"]] * 2), target)
    shared = Ranking(first, Costs(target))
    (kept,), dropped = _schedule_group(first, 1, 100, shared)
    found = {n: shared.dropped(n, other, "of_another_axis") for n in range(len(dropped) + 1)}
    made = [impl for impl in found.values() if impl is not None]
    assert len(made) == len(dropped)
    assert {impl.suffix for impl in made} == {"of_another_axis"}
    assert not any(impl.nodes for impl in made)
    assert kept.nodes


def test_forms_of_a_graph_share_what_is_in_both(hint, target):
    one, more = hint(PLAIN, PLAIN), hint(PARTS["a reduction"], PLAIN, PLAIN)
    alike: dict[Hashable, Ranking] = {}
    costs = Costs(target)
    _scheduled(one, costs, 0, alike)
    assert _scheduled(more, costs, 0, alike) == _scheduled(more, Costs(target), 0, {})


def test_templates_that_are_all_kept_in_one_order_are_not_modelled(forms):
    assert forms(PLAIN) == [[]]
