"""Several forms of one graph: results of one kernel, numbered, of which all but the first may be missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from twin_graphs import centred, every_template

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.implgraph.lowering.lowering import lower_all
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.scheduler import schedule, schedule_all
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import result_cycles
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")


def sums(columns: int | str = 300) -> dict[str, object]:
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {n: {"min": 0, "max": 100_000} for n in ("n", columns) if isinstance(n, str)},
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", columns]}],
        "nodes": [
            {
                "name": "s",
                "op": "ReduceSum",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"axes": [0]},
            }
        ],
        "outputs": ["y"],
    }


def forms() -> list[HintGraph]:
    return [canonicalise(h) for h in lower_all(api.read(sums()), CHIP)]


def test_results_are_numbered_and_so_are_their_functions():
    first, second = schedule_all(forms(), CHIP)
    assert (first.index, second.index) == (0, 1)
    assert (len(first.groups), len(second.groups)) == (1, 3)
    names = [i.name for r in (first, second) for g in r.groups for i in g.impls]
    assert len(set(names)) == len(names)
    assert {i.result for g in second.groups for i in g.impls} == {1}
    keys = tiling_keys((first, second))
    assert [k[0].result for k in keys] == sorted(k[0].result for k in keys)


def too_many_alive() -> HintGraph:
    """What has no template: 80 inputs are added up, and then multiplied in the same order."""
    xs = [f"x{i}" for i in range(80)]
    nodes, last = [], xs[0]
    for op in ("Add", "Mul"):
        for x in xs[1:]:
            y = f"{op}_{x}"
            nodes.append({"name": y, "op": op, "inputs": [last, x], "outputs": [y]})
            last = y
    document = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": x, "dtype": "float32", "shape": [4096]} for x in xs],
        "nodes": nodes,
        "outputs": [last],
    }
    return api.hint_of(document)


def test_a_form_without_a_template_is_left_out_with_the_reason():
    odd = too_many_alive()
    with pytest.raises(AutofuseError) as caught:
        schedule(odd, CHIP)
    (why,) = caught.value.diagnostics
    (only,) = schedule_all([forms()[0], odd], CHIP)
    assert only.index == 0
    assert [(r.template, r.reason, r.code) for r in only.rejected][-1] == (
        "form 1",
        why.message,
        why.code,
    )


def test_the_first_form_has_to_fit():
    with pytest.raises(AutofuseError, match="AF300"):
        schedule_all(forms(), CHIP.with_ub(64))


def test_long_rows_that_are_kept_have_templates_of_blocks():
    with every_template():
        _, second = schedule_all(forms(), CHIP)
    main = second.groups[1]
    (block,) = (i for i in main.impls if i.suffix == "block_128")
    (tiles, inside) = next(iter(block.cut_axes()))
    assert (str(tiles.size), inside.size) == ("3", 128)
    assert not block.tiling.conditions
    assert not main.impls[0].tiling.conditions  # one that is legal for every size comes first


def test_rows_of_any_length_have_a_template_of_blocks():
    with every_template():
        built = api.build(sums("m"), verify_ir=True)
    assert any(i.suffix == "block_128" for g in built.schedule[0].groups for i in g.impls)


def test_a_chip_that_copies_whole_units_has_no_shorter_last_block():
    document = {**sums(320), "symbols": {"n": {"min": 1, "max": 100_000}}}
    built = api.build(document, target="ascend310p", verify_ir=True)
    suffixes = {i.suffix for r in built.schedule for g in r.groups for i in g.impls}
    assert not any("block" in s for s in suffixes)


def test_a_barrier_costs_what_the_target_says():
    text = api.build(sums()).files["host/g_tiling.cpp"]
    cost = float(CHIP.sync_all)
    (row,) = [line for line in text.splitlines() if line.strip().endswith(f", {cost}}},")]
    assert row.strip().startswith("{1, 3, ")
    plain = api.build({**sums(), "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 300]}]})
    assert len(plain.schedule) == 1
    assert str(cost) not in plain.files["host/g_tiling.cpp"]


@pytest.mark.parametrize(
    ("rows", "columns", "forms", "groups"),
    [
        (2048, 64, 2, 1),  # all rows fit UB, and barriers take longer
        (2048, 256, 2, 1),  # the same, for which the estimate takes three times as long
        (16_384, 64, 1, 3),  # one core by itself
        (16_384, 2048, 2, 1),  # two barriers for less than shorter blocks of columns save
        (131_072, 2048, 2, 1),
    ],
)
def test_of_known_sizes_the_form_of_the_least_modelled_time_is_taken(rows, columns, forms, groups):
    graph = api.read(centred(rows, columns))
    hints = [canonicalise(h) for h in lower_all(graph, CHIP)]
    assert len(hints) == forms
    (taken,) = schedule_all(hints, CHIP)
    assert len(taken.groups) == groups
    each = [result_cycles(schedule(h, CHIP)[0], Costs(CHIP)) for h in hints]
    assert result_cycles(taken, Costs(CHIP)) == min(each)
    dropped = [r for r in taken.rejected if r.template.startswith("form ")]
    assert len(dropped) == len(hints) - 1
    assert all("slower by the model than form " in r.reason for r in dropped)
    assert {i.result for g in taken.groups for i in g.impls} == {0}


@pytest.mark.parametrize("refused", [0, 1])
def test_of_known_sizes_a_form_that_does_not_fit_leaves_the_other(refused):
    hints = [canonicalise(h) for h in lower_all(api.read(centred(16_384, 2048)), CHIP)]
    hints[refused] = too_many_alive()
    (taken,) = schedule_all(hints, CHIP)
    assert taken.hint is hints[1 - refused]
    (why,) = (r for r in taken.rejected if r.template == f"form {refused}")
    assert why.reason.startswith("no template fits")


def test_a_form_whose_barriers_alone_take_longer_is_not_looked_at(monkeypatch):
    hints = [canonicalise(h) for h in lower_all(api.read(centred(2048, 64)), CHIP)]
    (whole,) = schedule(hints[0], CHIP)
    least = result_cycles(whole, Costs(CHIP))
    assert least is not None
    slow = replace(CHIP, sync_all=least)
    (taken,) = schedule_all(hints, slow)
    assert len(taken.groups) == 1
    (why,) = (r.reason for r in taken.rejected if r.template == "form 1")
    assert why.startswith("slower by the model than form 0: its barriers and GM alone take")
