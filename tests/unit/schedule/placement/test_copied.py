"""One account of a copy: its dimensions, and how many of them a command moves; lowering and the cost model read it."""

from __future__ import annotations

import pytest
from twin_graphs import every_template, graph

from autofuse import api
from autofuse.implgraph.expr.expression import ONE, ZERO, const, sym
from autofuse.implgraph.ir.graph import AxisSizes
from autofuse.schedule.placement.copied import DmaDim, copied, run_dims
from autofuse.schedule.search.cost_form import cost_form
from autofuse.targets import load_target


def columns(rows: int, width: int, dtype: str, target: str) -> api.BuildResult:
    nodes = [("y", "ReduceSum", ["x"], {"axes": [0], "keepdims": True})]
    with every_template():
        return api.build(graph({"x": (dtype, [rows, width])}, nodes), target=target)


@pytest.mark.parametrize("target", ["ascend910b1", "ascend310p", "ascend950pr"])
@pytest.mark.parametrize("width", [256, 1024, 4096])
def test_rows_of_a_tile_are_one_command(target: str, width: int) -> None:
    """On 310P too: a piece of a row is whole blocks by its granule, so the gap is if the distance of two rows is."""
    built = columns(512, width, "float32", target)
    whole = [i for r in built.schedule for g in r.groups for i in g.impls if "reduce_all" in i.name]
    assert whole
    for impl in whole:
        (load,) = (
            c for c in cost_form(impl, load_target(target)).copies if c.route.name != "WRITE"
        )
        assert load.commands.exprs() == (ONE, ZERO)
    assert "for (int64_t row0" not in built.files[f"device/{built.name}_kernel.cpp"]


def test_rows_at_odd_distances_are_a_command_each_where_gaps_are_blocks() -> None:
    """The chip with DataCopyPad counts gaps in bytes, the other one in blocks of 32."""
    rows = {}
    for target in ("ascend910b1", "ascend310p"):
        built = columns(512, 1024, "float32", "ascend910b1")
        impl = next(i for g in built.schedule[0].groups for i in g.impls if "reduce_all" in i.name)
        size = AxisSizes(impl.axes)
        load = next(n for n in impl.nodes if n.op == "Load")
        found = copied(load, lambda a, size=size: size[a])
        outer, inner = found.dims
        odd = type(found)(load, (), (DmaDim(outer.size, const(1025), outer.ub), inner))
        ranges = {impl.tiling.opened.symbol: (1, 1024)}
        arch = load_target(target).arch
        rows[target] = found.in_command(arch, ranges), odd.in_command(arch, ranges)
    assert rows == {"ascend910b1": (2, 2), "ascend310p": (2, 1)}


def test_a_run_backwards_begins_at_its_last_element() -> None:
    n = sym("n")
    assert run_dims([DmaDim(n, const(-2), const(2))], 1) == ([DmaDim(2 * n, ONE, ONE)], 2 - 2 * n)
