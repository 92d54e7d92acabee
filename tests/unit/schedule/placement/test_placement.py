"""Placement: what runs before the loop, how tensors lie in UB, which broadcasts become steps."""

import pytest

from autofuse.implgraph.expr.expression import const
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tiling_axes import Candidate, Padding
from autofuse.schedule.placement.placement import MAX_RESIDENT, alignment, place

BIAS = ({"x": ("float32", [40, 64]), "b": ("float32", [64])}, [("y", "Add", ["x", "b"])], ["y"])
COLUMN = (
    {"x": ("float32", [40, 64]), "b": ("float32", [40, 1])},
    [("y", "Add", ["x", "b"])],
    ["y"],
)
GENERAL = Candidate("general", "", 1)
ROW = Candidate("row", "", 0)
PADDED = Candidate("row", "unaligned", 0, Padding.INNERMOST)


def ops(nodes):
    return [n.op for n in nodes]


def test_tensor_that_does_not_vary_between_tiles_is_loaded_and_broadcast_once(group):
    placed = place(group(*BIAS), ROW)
    assert ops(placed.hoisted) == ["Load", "Broadcast"]
    assert ops(placed.looped) == ["Load", "Add", "Store"]


def test_general_template_needs_no_broadcast_of_outer_axes(group):
    placed = place(group(*BIAS), GENERAL)
    assert placed.hoisted == ()
    assert ops(placed.looped) == ["Load", "Load", "Add", "Store"]


def test_column_in_the_general_template_is_one_value_per_tile(group):
    placed = place(group(*COLUMN), GENERAL)
    load = next(n for n in placed.looped if n.op == "Load" and not n.y.vectorized_axis)
    assert load.y.que is None
    assert any(n.op in ("Broadcast", "Duplicate") for n in placed.looped)


def test_rows_are_padded_to_32_bytes_of_the_narrowest_tensor(group):
    g = group(
        {"x": ("float32", [40, 5]), "h": ("float16", [5])},
        [("f", "Cast", ["h"], {"dtype": "float32"}), ("y", "Mul", ["x", "f"])],
        ["y"],
    )
    placed = place(g, PADDED)
    assert placed.layout.extent(placed.split.vector[-1]) == 16
    store = next(n for n in placed.looped if n.op == "Store")
    assert store.y.vectorized_strides == (const(16), const(1))


def test_alignment_counts_only_tensors_along_the_axis(group):
    g = group(
        {"x": ("float32", [40, 5]), "h": ("float16", [40, 1])},
        [("f", "Cast", ["h"], {"dtype": "float32"}), ("y", "Mul", ["x", "f"])],
        ["y"],
    )
    assert alignment(g, g.order[-1]) == 8
    assert alignment(g, g.order[0]) == 16


def test_middle_and_inner_axes_are_broadcast_in_two_steps_innermost_first(group):
    g = group(
        {"x": ("float32", [4, 8, 16, 32]), "b": ("float32", [4, 1, 16, 1])},
        [("y", "Add", ["x", "b"])],
        ["y"],
    )
    placed = place(g, Candidate("row", "", 0))
    steps = [n for n in placed.looped if n.op == "Broadcast"]
    assert len(steps) == 2
    first, second = (n.y.vectorized_axis for n in steps)
    assert set(first) < set(second)
    assert first[-1] == second[-1] == placed.split.vector[-1]


def test_rows_of_a_partial_broadcast_must_start_at_32_bytes(group):
    # [4, 3, 1] -> [4, 7, 3, 1]: rows of 12 bytes that no padding covers.
    g = group(
        {"x": ("float32", [4, 7, 3, 32]), "b": ("float32", [4, 1, 3, 1])},
        [("a", "Broadcast", ["b"], {"shape": [4, 7, 3, 1]}), ("y", "Add", ["x", "a"])],
        ["y"],
    )
    placed = place(g, Candidate("row", "", 0))
    steps = [n for n in placed.looped if n.op == "Broadcast"]
    assert all(n.y.vectorized_axis[-1] == placed.split.vector[-1] for n in steps)


def test_strided_column_is_gathered_from_single_elements(group):
    g = group(
        {"x": ("float32", [40, 1], [9, 1], 0), "y": ("float32", [40, 1])},
        [("z", "Add", ["x", "y"])],
        ["z"],
    )
    placed = place(g, Candidate("general", "", 0))
    load, turn = (n for n in placed.looped if n.name.endswith("_rows") or n.op == "UbTranspose")
    assert turn.inputs == (load.name,)
    assert [str(s) for s in load.y.vectorized_strides] == ["8"]
    assert [str(s) for s in turn.y.vectorized_strides] == ["1"]
    assert placed.layout.elements(load.y) == placed.split.t * 8


def test_strided_rows_that_are_dense_in_ub_must_be_multiples_of_32_bytes(group):
    inputs = {"x": ("float16", [8, 33, 1], [36, 1, 1], 0), "y": ("float16", [8, 33, 16])}
    g = group(inputs, [("z", "Add", ["x", "y"])], ["z"])
    with pytest.raises(TemplateRejectedError, match="66 bytes"):
        place(g, Candidate("row", "", 0))
    place(g, Candidate("row", "", 1))
    place(g, Candidate("general", "", 2))


def test_few_fills_stay_before_the_loop_and_many_move_into_it(group):
    def fills(count):
        nodes = [(f"d{i}", "Div", [float(3 + 2 * i), "x"]) for i in range(count)]
        g = group({"x": ("float32", [4096])}, nodes, [n[0] for n in nodes])
        placed = place(g, Candidate("general", "", 0))
        return ops(placed.hoisted).count("Duplicate"), ops(placed.looped).count("Duplicate")

    assert fills(MAX_RESIDENT) == (MAX_RESIDENT, 0)
    assert fills(MAX_RESIDENT + 1) == (0, MAX_RESIDENT + 1)


def test_too_many_resident_loads_are_not_hoisted(group):
    inputs = {f"b{i}": ("float32", [64]) for i in range(20)}
    nodes = []
    last = "x"
    for i in range(20):
        nodes.append((f"t{i}", "Add", [last, f"b{i}"]))
        last = f"t{i}"
    g = group({"x": ("float32", [40, 64]), **inputs}, nodes, [last])
    assert place(g, ROW).hoisted == ()


def test_order_of_execution_keeps_operands_before_users(group):
    placed = place(group(*COLUMN), PADDED)
    seen = {n.name for n in placed.structural}
    for n in (*placed.hoisted, *placed.looped):
        assert set(n.inputs) <= seen
        seen.add(n.name)
