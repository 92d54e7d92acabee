"""Template families: which candidates they propose, and how axes are split."""

import pytest
from twin_graphs import every_template

from autofuse.implgraph.expr.expression import CeilDiv, const, sym
from autofuse.implgraph.ir.graph import AxisType
from autofuse.schedule import scheduler
from autofuse.schedule.axes.tiling_axes import Candidate, Padding, split_axes
from autofuse.schedule.templates.family import ELEMENTWISE, Family
from autofuse.schedule.templates.general import GENERAL, GENERAL_ROWS, LONG, rows_in_loop
from autofuse.schedule.templates.row import MAX_INNER, ROW
from autofuse.schedule.templates.table import FAMILIES


def flat(group, shape, **symbols):
    return group({"x": ("float32", shape)}, [("y", "Exp", ["x"])], ["y"], **symbols)


def bias(group, shape, **symbols):
    inputs = {"x": ("float32", shape), "b": ("float32", shape[-1:])}
    return group(inputs, [("y", "Add", ["x", "b"])], ["y"], **symbols)


def test_general_tiles_the_innermost_axis(group):
    ((_, candidate),) = GENERAL.candidates(bias(group, [40, 64]))
    assert (candidate.template, candidate.suffix, candidate.position, candidate.padding) == (
        "general",
        "",
        1,
        Padding.NONE,
    )


def test_group_of_one_axis_has_no_rows(group):
    assert ROW.candidates(flat(group, [40, 64])) == []


@pytest.mark.parametrize(
    ("size", "suffixes"), [(64, [""]), (8, [""]), (7, ["unaligned"]), ("s", ["", "unaligned"])]
)
def test_row_length_decides_which_variants_are_tried(group, size, suffixes):
    symbols = {"s": (1, 4096, 64)} if size == "s" else {}
    found = [c for _, c in ROW.candidates(bias(group, [40, size], **symbols))]
    assert [c.suffix for c in found] == suffixes
    assert [c.padding is Padding.INNERMOST for c in found] == [s == "unaligned" for s in suffixes]


def test_static_sizes_try_every_axis_and_symbols_few(group):
    def middle(shape, **symbols):
        inputs = {"x": ("float32", shape)}
        nodes = []
        last = "x"
        for i in range(len(shape)):
            narrow = [s if i % 2 == k % 2 else 1 for k, s in enumerate(shape)]
            inputs[f"b{i}"] = ("float32", narrow)
            nodes.append((f"t{i}", "Add", [last, f"b{i}"]))
            last = f"t{i}"
        return group(inputs, nodes, [last], **symbols)

    static = [c for _, c in ROW.candidates(middle([2, 3, 4, 5, 8]))]
    assert [c.position for c in static] == [3, 2, 1, 0]
    symbolic = [c for _, c in ROW.candidates(middle(["s", 3, 4, 5, 8], s=(1, 9, 2)))]
    assert min(c.position for c in symbolic) == 4 - MAX_INNER


def test_split_names_and_sizes(group):
    g = flat(group, ["s", 5], s=(1, 99, 9))
    split = split_axes(g, 0)
    named = {a.name: a for a in split.axes}
    t, b = sym("z0z1t_size"), sym("z0z1Tb_size")
    assert named["z0z1T"].size == CeilDiv(5 * sym("s"), t)
    assert named["z0z1T"].type is AxisType.TILE_OUT
    assert named["z0z1t"].size == t
    assert named["z0z1t"].type is AxisType.TILE_IN
    assert named["z0z1TB"].size == CeilDiv(named["z0z1T"].size, b)
    assert named["z0z1Tb"].type is AxisType.BLOCK_IN
    assert split.vector == (split.tile_in,)


def test_axes_outside_the_tile_are_merged_with_the_tiles(group):
    split = split_axes(bias(group, [40, 64]), 1)
    loop = next(a for a in split.axes if a.type is AxisType.MERGED)
    assert loop.name == "z0z1T"
    assert loop.origin == (*split.outer, split.tile_out)
    assert loop.size == 40 * CeilDiv(64, sym("z1t_size"))


def test_view_on_the_split_axes_keeps_broadcast_axes(group):
    g = bias(group, [40, 64])
    split = split_axes(g, 0)
    load = next(n for n in g.nodes if n.op == "Load" and n.y.repeats[0] == 1)
    y = split.view(load.y)
    repeat = dict(zip(y.axis, y.repeats, strict=True))
    assert repeat[split.tile_in] == 1
    assert repeat[split.inner[0]] == 64


def test_long_rows_with_a_bias_have_a_loop_over_rows(group):
    ((cut, candidate),) = GENERAL_ROWS.candidates(bias(group, [96, 40000]))
    assert (candidate.template, candidate.suffix) == ("general", "rows_32")
    rows = next(a for a in cut.axes if a.id == cut.reduced[0])
    assert (rows.type, rows.size) == (AxisType.TILE_IN, const(32))
    assert cut.order[candidate.position] == cut.order[-1]


@pytest.mark.parametrize(
    ("rows", "loop"), [(2, 2), (31, 31), (32, 32), (33, 17), (97, 25), (1021, 32), (None, 32)]
)
def test_loops_over_rows_are_even(rows, loop):
    assert rows_in_loop(rows) == loop


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_rows_share_nothing(group, rows):
    assert GENERAL_ROWS.candidates(bias(group, [rows, 40000])) == []


def test_short_rows_and_rows_of_their_own_have_no_loop(group):
    assert GENERAL_ROWS.candidates(bias(group, [96, LONG - 1])) == []
    assert GENERAL_ROWS.candidates(flat(group, [96, 40000])) == []
    inputs = {"x": ("float32", [96, 40000]), "c": ("float32", [96, 1])}
    assert GENERAL_ROWS.candidates(group(inputs, [("y", "Add", ["x", "c"])], ["y"])) == []


def test_the_innermost_axis_along_which_rows_share_is_looped_over(group):
    inputs = {"x": ("float32", [9, 5, 40000]), "b": ("float32", [5, 40000])}
    found = GENERAL_ROWS.candidates(group(inputs, [("y", "Add", ["x", "b"])], ["y"]))
    assert [c.suffix for _, c in found] == ["rows_9"]


class Alone(Family):
    """Only single buffers, and legal for every size: what a family says counts, whatever its name is."""

    kinds = ELEMENTWISE

    def candidates(self, g):
        return [(g, Candidate("alone", "", len(g.order) - 1))]

    def planned(self, template):
        return template.planned([(1, False)])

    def always_legal(self, impl):
        return True


def test_a_family_takes_a_line_of_the_table_and_nothing_else(impls, monkeypatch):
    def made():
        size = {"n": (1, 1 << 20, None)}
        return impls({"x": ("float32", ["n", 64])}, [("y", "Exp", ["x"])], ["y"], **size)

    before = {i.template for i in made()}
    monkeypatch.setattr(scheduler, "FAMILIES", (Alone(), *FAMILIES[1:]))
    with every_template():
        alone, *others = sorted(made(), key=lambda i: i.template)
    assert alone.template == "alone"
    assert {b.buf_num for b in alone.buffers} == {1}
    assert {i.template for i in others} <= before
