"""Costs are remembered by the memo of a build, and go with it."""

import gc
from dataclasses import replace

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.form import CostForm
from autofuse.schedule.search.solver import solve_template
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
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
    impl, costs = template(), Costs(CHIP)
    form = costs.form(impl)
    assert form == cost_form(impl, CHIP)
    assert costs.form(impl) is form
    assert costs.form(replace(impl, graph="other")) is form
    first = replace(impl.tiling, first_core="core")
    assert costs.form(replace(impl, tiling=first)) is form


def test_what_costs_something_else_has_costs_of_its_own() -> None:
    impl, costs = template(), Costs(CHIP)
    form = costs.form(impl)
    fewer = replace(impl, nodes=tuple(n for n in impl.nodes if n.op != "Abs"))
    assert costs.form(fewer) != form
    longer = replace(
        impl.tiling, lengths=(replace(impl.tiling.opened, granule=2 * impl.tiling.opened.granule),)
    )
    longer = replace(longer, ub_limit=1 << 12)
    assert costs.form(replace(impl, tiling=longer)) is not form
    assert costs.form(impl) == form


def test_what_a_template_is_bound_to_is_remembered_without_symbols() -> None:
    impl, costs = template(), Costs(CHIP)
    bound, searched = costs.bound(impl, {}, None)
    assert solve_template(impl, costs, {}) is not None
    assert costs.bound(impl, {}, None) == (bound, searched)
    assert costs.chip.cores in searched
    assert costs.bound(impl, {}, 4096)[1] == {}


def test_no_costs_are_left_when_a_build_is_over() -> None:
    def forms() -> int:
        return sum(type(x) in (CostForm, Costs) for x in gc.get_objects())

    gc.collect()
    before = forms()
    impl = template()
    costs = Costs(CHIP)
    costs.form(impl)
    assert forms() > before
    del costs
    gc.collect()
    assert forms() == before
