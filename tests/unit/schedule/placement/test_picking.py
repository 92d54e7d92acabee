"""Which loads take the run that holds their elements, and what picks the elements."""

from __future__ import annotations

import pytest
from copied_rows import copied

from autofuse.implgraph.check.verify import check
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.implgraph.ops.rows.device import PICK_BYTES
from autofuse.schedule.axes.tile_limits import sample_env
from autofuse.schedule.placement.picking import is_run


def sliced(starts, sizes, steps):
    """Attributes of a Slice."""
    return {"starts": tuple(map(const, starts)), "shape": tuple(sizes), "steps": tuple(steps)}


def scheduled(impls, shape, starts, sizes, steps, dtype="float32"):
    """The templates of a Slice, by name."""
    attrs = sliced(starts, sizes, steps)
    nodes = [
        ("a", "Slice", ["x"], attrs),
        ("y", "Abs" if dtype == "float32" else "Identity", ["a"]),
    ]
    made = impls({"x": (dtype, shape)}, nodes, ["y"])
    for impl in made:
        check(impl)
    return {(f"{i.template}_{i.suffix}" if i.suffix else i.template): i for i in made}


def load_of(impl: ImplGraph) -> Node:
    return next(n for n in impl.nodes if n.op == "Load")


def picks(impl: ImplGraph) -> list[Node]:
    return [n for n in impl.nodes if n.op in ("PickByMask", "PickAhead", "PickBack")]


@pytest.mark.parametrize("dtype", sorted(d for d in BY_NAME if d != "mask"))
@pytest.mark.parametrize("sign", [1, -1])
def test_a_run_is_loaded_where_it_touches_no_more_sectors_than_its_elements(impls, dtype, sign):
    most = 32 // BY_NAME[dtype].itemsize
    for step, run in ((most, True), (most + 1, False)):
        n = 5000
        start = 0 if sign > 0 else (n - 1) * step
        found = scheduled(impls, [n * step], [start], [n], [sign * step], dtype)
        assert {is_run(load_of(i)) for i in found.values()} == {run}
        assert all(bool(picks(i)) == run for i in found.values())


@pytest.mark.parametrize(
    ("dtype", "step", "op"),
    [
        ("float32", 2, "PickByMask"),
        ("int16", 4, "PickByMask"),
        ("float32", 3, "PickAhead"),
        ("int64", 2, "PickAhead"),
        ("float16", -1, "PickBack"),
        ("uint64", -2, "PickBack"),
    ],
)
def test_what_picks_the_elements(impls, dtype, step, op):
    start = 0 if step > 0 else 999
    (impl,) = {
        i.name: i
        for i in scheduled(impls, [1000], [start], [1000 // abs(step)], [step], dtype).values()
    }.values()
    (pick,) = picks(impl)
    named = impl.by_name()
    assert (pick.op, pick.attrs["step"]) == (op, abs(step))
    tables = [named[i] for i in pick.inputs[1:]]
    size = BY_NAME[dtype].itemsize
    if op == "PickByMask":
        assert not tables
    else:
        (table,) = tables
        assert table.op == ("PairOffsets" if size == 8 else "PickOffsets")
        assert table.attrs["step"] == step * size
        assert table.loop_axis is None


def test_bytes_are_picked_as_halves(impls):
    for impl in scheduled(impls, [2000], [0], [1000], [2], "uint8").values():
        (pick,) = picks(impl)
        assert str(pick.y.dtype) == "float16"
        assert [n.op for n in impl.nodes].count("Cast") == 2


def test_the_layout_of_a_run_is_that_of_the_result_spread_out(impls):
    found = scheduled(impls, [100, 150], [0, 0], [100, 50], [1, 3])
    for impl in found.values():
        (pick,) = picks(impl)
        run = impl.by_name()[pick.inputs[0]]
        assert run.y.vectorized_axis == pick.y.vectorized_axis
        assert run.y.vectorized_strides == tuple(3 * s for s in pick.y.vectorized_strides)


def test_two_loads_with_one_step_have_one_table(impls):
    attrs = [sliced([s], [1000], [3]) for s in (0, 1)]
    nodes = [
        ("a", "Slice", ["x"], attrs[0]),
        ("b", "Slice", ["x"], attrs[1]),
        ("y", "Add", ["a", "b"]),
    ]
    for impl in impls({"x": ("float32", [3000])}, nodes, ["y"]):
        (table,) = (n for n in impl.nodes if n.op in ("PickOffsets", "PairOffsets"))
        assert sum(table.name in n.inputs for n in impl.nodes) == 2
        (buffer,) = (b for b in impl.buffers if table.name in b.tensors)
        assert buffer.nbytes == PICK_BYTES


@pytest.mark.parametrize(("columns", "run"), [(5, False), (8, True)])
def test_rows_that_would_not_begin_at_32_bytes_stay_elements(impls, columns, run):
    """Beside a third axis along which it does not vary, a tensor of two axes has rows without padding."""
    attrs = sliced([0, 0], [40, columns], [1, 3])
    nodes = [
        ("a", "Slice", ["x"], attrs),
        ("b", "Reshape", ["a"], {"shape": [40, columns, 1]}),
        ("y", "Add", ["b", "z"]),
    ]
    inputs = {"x": ("int64", [40, 30]), "z": ("int64", [40, columns, 64])}
    found = impls(inputs, nodes, ["y"])
    # Templates with tiles of single rows tell nothing.
    (impl,) = (i for i in found if len(load_of(i).y.vectorized_axis) > 1)
    load = load_of(impl)
    assert is_run(load) == run
    pitch = load.y.vectorized_strides[-2] * load.y.dtype.itemsize
    assert pitch.evaluate({impl.tiling.opened.symbol: 1}) % 32 == 0


@pytest.mark.parametrize(
    ("shape", "sizes", "want"),
    [
        ([20, 160_000], [20, 50_000], (1, 1, 19 * 3 + 1)),
        # Rows are 160 elements apart, and elements of a row end behind 148.
        ([100, 160], [100, 50], (20, 1, 20 * 148)),
    ],
)
def test_rows_of_a_copy(impls, target, shape, sizes, want):
    """Rows, commands and elements of a run, with what lies between its elements; the tile is 20."""
    (impl,) = scheduled(impls, shape, [0, 0], sizes, [1, 3]).values()
    env = {**sample_env(impl), impl.tiling.opened.symbol: 20, impl.tiling.block_size: 1}
    assert copied(load_of(impl), impl, target, env) == want
