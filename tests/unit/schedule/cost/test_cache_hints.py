"""Which loads bypass L2: those of inputs that are read once, where the kernel's bytes exceed L2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.cost.cache_hints import bypass_bytes, bypasses
from autofuse.schedule.search.bound import bind
from autofuse.schedule.search.breakdown import cost_of
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.form import Route
from autofuse.schedule.search.solver import best_tiling
from autofuse.targets import TargetSpec, load_target

CHIP = replace(load_target("ascend910b2"), l2_bytes=1 << 20)
F32 = "float32"


def impls(
    inputs: dict[str, Sequence[Any]],
    nodes: Sequence[tuple[str, Sequence[str], dict[str, Any]]],
    outputs: Sequence[Any],
    target: TargetSpec = CHIP,
    symbols: dict[str, Any] | None = None,
) -> list[ImplGraph]:
    """The templates of a graph whose results are t0, t1, ..."""
    document = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": symbols or {},
        "inputs": [{"name": n, "dtype": F32, "shape": list(s)} for n, s in inputs.items()],
        "nodes": [
            {"name": f"n{k}", "op": op, "inputs": list(xs), "outputs": [f"t{k}"], "attrs": attrs}
            for k, (op, xs, attrs) in enumerate(nodes)
        ],
        "outputs": list(outputs),
    }
    built = api.build(document, target=target)
    return [i for r in built.schedule for g in r.groups for i in g.impls]


def bypassing(impl: ImplGraph) -> set[str]:
    """Inputs that may bypass L2."""
    return {n.inputs[0] for n in impl.nodes if n.op == "Load" and bypass_bytes(n) is not None}


ADD = [("Add", ["x", "y"], {})]
LARGE = (1024, 1024)


def test_inputs_that_are_read_once_bypass_l2() -> None:
    for impl in impls({"x": LARGE, "y": LARGE}, ADD, ["t0"]):
        assert bypassing(impl) == {"Data_0", "Data_1"}


def test_what_fits_l2_stays_there() -> None:
    for impl in impls({"x": (64, 1024), "y": (64, 1024)}, ADD, ["t0"]):
        assert not bypassing(impl)


def test_a_row_that_all_tiles_need_keeps_l2() -> None:
    for impl in impls({"x": LARGE, "y": (1024,)}, ADD, ["t0"]):
        assert bypassing(impl) == {"Data_0"}


def test_what_a_second_pass_reads_again_keeps_l2() -> None:
    softmax = [("Softmax", ["x"], {"axis": -1})]
    found = impls({"x": (96, 40000)}, softmax, ["t0"])
    passes = {i.template: bypassing(i) for i in found}
    assert passes["reduce"] == set()


def test_what_two_groups_read_keeps_l2() -> None:
    nodes = [("ReduceSum", ["x"], {"axes": [0]}), ("ReduceSum", ["x"], {"axes": [1]})]
    for impl in impls({"x": LARGE}, nodes, ["t0", "t1"]):
        assert not bypassing(impl)


def test_an_input_that_is_overwritten_keeps_l2() -> None:
    for impl in impls({"x": LARGE, "y": LARGE}, ADD, [{"tensor": "t0", "inout": "x"}]):
        assert bypassing(impl) == {"Data_1"}


def test_chips_without_the_hint_have_none() -> None:
    chip = replace(load_target("ascend310p"), l2_bytes=1 << 20)
    for impl in impls({"x": LARGE, "y": LARGE}, ADD, ["t0"], target=chip):
        assert not bypassing(impl)
        assert Route.STREAM not in {c.route for c in cost_form(impl, chip).copies}


@pytest.mark.parametrize(("n", "large"), [(1, False), (85, False), (86, True), (4096, True)])
def test_where_a_size_is_a_symbol_the_kernel_compares(n: int, large: bool) -> None:
    symbols = {"n": {"min": 1, "max": 1 << 20}}
    for impl in impls({"x": ("n", 1024), "y": ("n", 1024)}, ADD, ["t0"], symbols=symbols):
        loads = [x for x in impl.nodes if x.op == "Load"]
        # 3 tensors of 4 KiB per row, of 1 MiB.
        assert [bypasses(x, CHIP, {"n": n}) for x in loads] == [large] * 2


def test_the_model_spills_less_of_what_is_written(
    make_plain: Callable[[ImplGraph], ImplGraph],
) -> None:
    """Writes that fit L2 alone cost nothing more; of the ones that do not, the part that does not."""
    for rows, fits in ((200, True), (1024, False)):
        shape = (rows, 1024)
        impl = impls({"x": shape, "y": shape}, ADD, ["t0"])[0]
        found = best_tiling(impl, Costs(CHIP), {})
        assert found is not None
        with_hint, without = (
            cost_of(bind(cost_form(i, CHIP), i.tiling, {}), CHIP, found.tile, found.per_core)
            for i in (impl, make_plain(impl))
        )
        assert with_hint.gm < without.gm
        m, moved = CHIP.model, 4096 * rows
        unspilled = (2 * moved / m.read_gbs + moved / m.write_gbs) / 1e3
        assert (with_hint.gm == pytest.approx(unspilled, rel=1e-4)) is fits


@pytest.fixture
def make_plain() -> Callable[[ImplGraph], ImplGraph]:
    """Takes the hints off."""

    def do(impl: ImplGraph) -> ImplGraph:
        nodes = [
            replace(n, attrs={k: v for k, v in n.attrs.items() if k != "bypass"})
            for n in impl.nodes
        ]
        return replace(impl, nodes=tuple(nodes))

    return do
