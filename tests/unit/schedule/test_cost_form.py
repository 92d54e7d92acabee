"""Costs are remembered by the template that they were read off, and go with it."""

import gc
from dataclasses import replace

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ir.serialise import from_json, to_json
from autofuse.schedule.cost.cost_form import CostForm, cost_form
from autofuse.targets import load_target

CHIP, OTHER = load_target("ascend910b1"), load_target("ascend310p")
GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "g",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [96, 128]}],
    "nodes": [{"name": "a", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}


def template() -> ImplGraph:
    return api.build(GRAPH, target=CHIP).schedule[0].groups[0].impls[0]


def test_costs_are_found_once_for_all_that_cost_the_same() -> None:
    impl = template()
    form = cost_form(impl, CHIP)
    assert cost_form(impl, CHIP) is form
    assert cost_form(replace(impl, graph="other"), CHIP) is form
    first = replace(impl.tiling, first_core="core")
    assert cost_form(replace(impl, tiling=first), CHIP) is form


def test_what_costs_something_else_has_costs_of_its_own() -> None:
    impl = template()
    form = cost_form(impl, CHIP)
    assert cost_form(impl, OTHER) is not form
    fewer = replace(impl, nodes=tuple(n for n in impl.nodes if n.op != "Abs"))
    assert cost_form(fewer, CHIP) != form
    assert cost_form(impl, CHIP) == form


def test_costs_are_no_part_of_the_value() -> None:
    impl = template()
    cost_form(impl, CHIP)
    again = from_json(to_json(impl))
    assert isinstance(again, ImplGraph)
    assert again == impl
    assert (len(impl.costs), again.costs) == (1, [])


def test_no_costs_are_left_when_a_template_is_gone() -> None:
    def forms() -> int:
        return sum(type(x) is CostForm for x in gc.get_objects())

    gc.collect()
    before = forms()
    impl = template()
    cost_form(impl, CHIP)
    assert forms() > before
    del impl
    gc.collect()
    assert forms() == before
