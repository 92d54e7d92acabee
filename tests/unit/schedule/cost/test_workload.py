"""The model of a template at given sizes: bytes, rows, commands, banks of UB, and the tiling."""

from dataclasses import replace

import pytest
from twin_graphs import every_template

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.tile_limits import largest_tile
from autofuse.schedule.cost.cost import Conflict
from autofuse.schedule.cost.ub_map import conflicts, ub_map
from autofuse.schedule.search.bound import BoundForm, bind, chip_figures
from autofuse.schedule.search.breakdown import cost_of
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.form import SINGLE, Route
from autofuse.schedule.search.solver import best_tiling
from autofuse.targets import TargetSpec, load_target

ADD = ({"x": ("float32", ["n"]), "y": ("float32", ["n"])}, [("z", "Add", ["x", "y"])], ["z"])
N = (0, 1 << 30, 1 << 20)


@pytest.fixture
def add(impls):
    return impls(*ADD, n=N)[0]


def bound(impl: ImplGraph, target: TargetSpec, sizes: dict[str, int]) -> BoundForm:
    return bind(cost_form(impl, target), impl.tiling, sizes)


@pytest.mark.parametrize("n", [1, 7, 64, 1021, 4099, 1 << 20, (1 << 20) + 77])
def test_element_wise_traffic_is_compulsory_at_every_tile(add, target, n):
    form, chip = bound(add, target, {"n": n}), chip_figures(target)
    lengths = form.lengths(chip)
    assert lengths
    for tile in lengths:
        per_core = -(-form.tiles(tile) // chip.cores)
        found = form.shares(chip, tile, per_core)
        assert found.bytes == 12 * n
        m = target.model
        gm = (8 * n / m.read_gbs + 4 * n / m.write_gbs) * target.clock_mhz / 1e3
        assert found.gm == pytest.approx(gm, rel=1e-4)
        tiles = -(-n // tile)
        assert (found.cores - 1) * per_core < tiles <= found.cores * per_core


def test_one_loop_with_its_commands_and_calls(add, target):
    form = cost_form(add, target)
    (body,) = form.bodies
    assert (body.buffers, body.chained) == (2, False)
    copies = [(c.route, c.count, c.commands, c.rows) for c in form.copies]
    assert copies == [(Route.STREAM, 2, SINGLE, SINGLE), (Route.WRITE, 1, SINGLE, SINGLE)]
    m, row = target.model, target.vector["binary"]
    # One core takes a tile at its own rate.
    at = bound(add, target, {"n": 4096}).shares(chip_figures(target), 4096, 1).tile
    assert at.load == pytest.approx(2 * (m.load_issue + 16384 / m.load_core_rate), rel=1e-4)
    assert at.vector == pytest.approx(row.head + m.vector_gap + 4096 / row.rate32, rel=1e-4)


def test_a_size_of_zero_is_no_work(add, target):
    found = best_tiling(add, Costs(target), {"n": 0})
    assert found is not None
    assert found.cost.total == pytest.approx(found.cost.start)


@pytest.mark.parametrize("n", [1, 37, 1000, 1 << 16, 1 << 22, 50_000_017])
def test_the_best_tiling_is_legal_and_none_that_is_tried_is_better(add, target, n):
    sizes = {"n": n}
    found = best_tiling(add, Costs(target), sizes)
    spec = add.tiling
    assert found is not None
    form, chip = bound(add, target, sizes), chip_figures(target)
    tried = form.lengths(chip)
    shares = [max(-(-form.tiles(t) // chip.cores), 1) for t in tried]
    costs = [cost_of(form, target, t, k).total for t, k in zip(tried, shares, strict=True)]
    assert found.cost.total <= min(costs)
    for tile in tried:
        assert tile % spec.opened.granule == 0 or tile == n
        assert spec.ub.evaluate({**sizes, spec.opened.symbol: tile}) <= spec.ub_limit


@pytest.mark.parametrize(("nbytes", "cores"), [(256, 1), (1 << 16, 22), (1 << 18, 44)])
def test_small_tensors_take_few_cores(impls, target, nbytes, cores):
    """The closed form for a load per core: half of the square root of bytes over the cost of a further core."""
    (load,) = impls({"x": ("float32", ["n"])}, [("y", "Abs", ["x"])], ["y"], n=N)
    found = best_tiling(load, Costs(target), {"n": nbytes // 4})
    assert found is not None
    assert cores / 2 <= found.cores <= cores * 1.5


@pytest.mark.parametrize("n", [1 << 22, 1 << 24, 50_000_017])
def test_large_tensors_take_as_many_cores_as_gm_can_feed_and_no_huge_tiles(add, target, n):
    found = best_tiling(add, Costs(target), {"n": n})
    assert found is not None
    assert found.cores >= 20
    assert found.per_core >= 4
    # More gains nothing, and the first and the last are seen in full; less costs commands.
    assert 4 << 10 <= 4 * found.tile <= 40 << 10


def test_where_no_tile_fits_there_is_no_tiling(impls, target):
    made = impls({"x": ("float32", [64, "n"])}, [("y", "Softmax", ["x"], {"axis": -1})], ["y"], n=N)
    whole = next(i for i in made if i.template == "reduce_all")
    assert largest_tile(whole.tiling, {"n": 1 << 20}) == 0
    assert best_tiling(whole, Costs(target), {"n": 1 << 20}) is None
    assert best_tiling(whole, Costs(target), {"n": 1 << 10}) is not None


def test_a_second_pass_reads_again_from_l2(impls, target):
    made = impls(
        {"x": ("float32", ["m", "n"])}, [("y", "Softmax", ["x"], {"axis": -1})], ["y"], m=N, n=N
    )
    loop = next(i for i in made if i.template == "reduce" and not i.tiling.conditions)
    sizes = {"m": 96, "n": 100_000}
    nbytes, m = 4 * 96 * 100_000, target.model

    def gm(sizes):
        form, chip = bound(loop, target, sizes), chip_figures(target)
        return form.shares(chip, form.largest, 2).gm / target.clock_mhz * 1e3

    once = nbytes / m.read_gbs + nbytes / m.write_gbs
    assert gm(sizes) == pytest.approx(once + nbytes / m.l2_read_gbs, rel=1e-4)
    # The rows that all cores are at do not fit L2 any more.
    huge = {"m": 96, "n": 20_000_000}
    assert gm(huge) > 200 * (once + nbytes / m.l2_read_gbs) * 1.05


def test_what_every_core_reads(impls, target):
    made = impls(
        {"x": ("float16", ["m", 768]), "r": ("float16", [1, 768])},
        [("y", "Add", ["x", "r"])],
        ["y"],
        m=N,
    )
    row = next(i for i in made if i.template == "row" and not i.suffix)
    chip, nbytes = chip_figures(target), 2 * 2 * 768 * 4096
    found = bound(row, target, {"m": 4096}).shares(chip, 4, 22)
    assert found.cores > 40
    assert found.bytes == nbytes + 2 * 768 * found.cores
    alone = bound(row, target, {"m": 4}).shares(chip, 4, 1)
    assert (alone.cores, alone.bytes) == (1, 2 * 768 * (4 + 4 + 1))


@pytest.mark.parametrize(("m", "n"), [(14736, 5), (8, 4), (899, 131), (3, 7), (130, 1021)])
def test_axes_in_tiles_of_a_constant_length_count_as_far_as_they_go(impls, target, m, n):
    """A tile of 128 of an axis of 5 moves 5."""
    with every_template():
        made = impls(
            {"x": ("float32", ["m", "n"])},
            [("y", "Transpose", ["x"], {"perm": (1, 0)})],
            ["y"],
            m=(1, 1 << 20, None),
            n=(1, 1 << 20, None),
        )
    sizes = {"m": m, "n": n}
    cut = [i for i in made if i.cut_axes()]
    assert len(cut) > 2
    for impl in cut:
        tiling = best_tiling(impl, Costs(target), sizes)
        assert tiling is not None
        found = bound(impl, target, sizes).shares(
            chip_figures(target), tiling.tile, tiling.per_core
        )
        ((_, inside),) = impl.cut_axes()
        length, tile = impl.axes[inside.origin[0]].size.evaluate(sizes), inside.size.value
        # Of an axis that is longer, the last tile counts as a whole one.
        whole = -(-length // tile) * tile if length > tile else length
        assert found.bytes == pytest.approx(8 * m * n * whole / length, rel=0.01), impl.name


def sliced(starts, sizes):
    """Attributes of a Slice."""
    return {"starts": tuple(map(const, starts)), "shape": tuple(sizes), "steps": (1, 1)}


@pytest.mark.parametrize("shift", [[0, 1], [1, 0], [5, 0]])
def test_bytes_that_slices_have_in_common_come_from_memory_once(impls, target, shift):
    """Three slices of one tensor, each shifted against the one before."""
    n, shape = 1000, [1100, 1100]
    nodes = [(f"s{k}", "Slice", ["x"], sliced([k * d for d in shift], [n, n])) for k in range(3)]
    nodes += [("a", "Add", ["s0", "s1"]), ("y", "Add", ["a", "s2"])]
    for impl in impls({"x": ("float32", shape)}, nodes, ["y"]):
        m, form = target.model, bound(impl, target, {})
        chip, whole = chip_figures(target), 4 * n * n
        more = 4 * n * max(shift)
        read = (whole + 2 * more) / m.read_gbs + 2 * (whole - more) / m.l2_read_gbs
        found = form.shares(chip, form.largest, 1).gm / target.clock_mhz * 1e3
        assert found == pytest.approx(read + whole / m.write_gbs, rel=1e-3)


def test_slices_apart_are_all_read(impls, target):
    nodes = [(f"s{k}", "Slice", ["x"], sliced([k * 500, 0], [500, 1000])) for k in range(2)]
    for impl in impls(
        {"x": ("float32", [1000, 1000])}, [*nodes, ("y", "Add", ["s0", "s1"])], ["y"]
    ):
        m, form = target.model, bound(impl, target, {})
        gm = 4e6 / m.read_gbs + 2e6 / m.write_gbs
        found = form.shares(chip_figures(target), form.largest, 1).gm / target.clock_mhz * 1e3
        assert found == pytest.approx(gm, rel=1e-3)


def test_unaligned_rows_have_the_alignment_of_their_stride(impls, target):
    made = impls(
        {"x": ("float16", ["m", 100], [1001, 1], 3)}, [("y", "Exp", ["x"])], ["y"], m=(1, 10**6, 64)
    )
    for impl in made:
        apart = 0
        for c in cost_form(impl, target).copies:
            if c.route is not Route.WRITE:
                for _, distance in c.apart:
                    apart |= distance.evaluate({"m": 64})
        assert apart & -apart == 2


def test_buffers_lie_one_behind_the_other(add, target):
    sizes, tile = {"n": 1 << 20}, 4096
    found = ub_map(add, sizes, tile)
    ends = [b.offset + b.nbytes * b.count for b in found]
    assert [b.offset for b in found] == [0, *ends[:-1]]
    assert ends[-1] == add.tiling.ub.evaluate({**sizes, add.tiling.opened.symbol: tile})


def test_operands_do_not_collide_whatever_the_tile_is(add, target):
    for tile in (1, 100, 4096, 4096 + 32):
        ((node, read, found),) = conflicts(add, {"n": 1 << 20}, tile, target.arch)
        assert (node.op, read, found) == ("Add", 2, Conflict.NONE)


def test_conflicts_of_a_kernel_follow_from_its_addresses(add, target):
    # Two queues of two buffers of 16 KiB each, and no pad: operands 32 KiB apart, in the same groups of banks.
    bare = replace(add, buffers=tuple(b for b in add.buffers if not b.pad))
    ((_, _, found),) = conflicts(bare, {"n": 1 << 20}, 4096, target.arch)
    assert found is Conflict.SOURCES


@pytest.mark.parametrize("chip", ["ascend310p", "ascend910b3", "ascend910b4", "ascend910c"])
def test_other_chips(impls, chip):
    target = load_target(chip)
    (impl, *_) = impls({"x": ("float32", [4096, 64])}, [("y", "Exp", ["x"])], ["y"])
    found = best_tiling(impl, Costs(target), {})
    assert found is not None
    assert found.cores <= target.aiv_cores
    assert found.cost.total > found.cost.start
