"""From a template and sizes to its work: bytes, rows, commands, calls, banks of UB."""

from dataclasses import replace

import pytest

from autofuse.schedule.cost.cost import Conflict, Reach, evaluate
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import best_tiling
from autofuse.schedule.search.workload import (
    conflicts,
    tilings,
    ub_map,
    workload,
)
from autofuse.targets import load_target

ADD = ({"x": ("float32", ["n"]), "y": ("float32", ["n"])}, [("z", "Add", ["x", "y"])], ["z"])
N = (0, 1 << 30, 1 << 20)


@pytest.fixture
def add(impls):
    return impls(*ADD, n=N)[0]


@pytest.mark.parametrize("n", [1, 7, 64, 1021, 4099, 1 << 20, (1 << 20) + 77])
def test_element_wise_traffic_is_compulsory_at_every_tile(add, target, n):
    for tile in tilings(add, target, {"n": n}):
        found = workload(add, target, {"n": n}, tile)
        assert (found.traffic.read, found.traffic.written) == (8 * n, 4 * n)
        assert found.traffic.cached == 12 * n
        assert found.traffic.reread == found.traffic.same_order == 0
        assert found.cores <= target.aiv_cores
        tiles = -(-n // tile)
        assert found.rounds == -(-tiles // target.aiv_cores)
        assert (found.cores - 1) * found.rounds < tiles <= found.cores * found.rounds


def test_one_loop_with_its_commands_and_calls(add, target):
    (loop,) = workload(add, target, {"n": 1 << 20}, 4096).loops
    body = loop.body
    assert loop.iterations == 1
    assert [(c.commands, c.rows, c.row_bytes, c.align) for c in body.loads] == [
        (1, 1, 16384, 512)
    ] * 2
    assert [(c.kind, c.count, c.bits) for c in body.calls] == [("binary", 4096, 32)]
    assert (body.buffers, body.chained, len(body.stores)) == (2, False, 1)


def test_a_size_of_zero_is_no_work(add, target):
    found = best_tiling(add, Costs(target), {"n": 0})
    assert found is not None
    assert found.cost.total == found.cost.start
    assert workload(add, target, {"n": 0}, 1).loops == ()


@pytest.mark.parametrize("n", [1, 37, 1000, 1 << 16, 1 << 22, 50_000_017])
def test_the_best_tiling_is_legal_and_none_that_is_tried_is_better(add, target, n):
    sizes = {"n": n}
    found = best_tiling(add, Costs(target), sizes)
    spec = add.tiling
    assert found is not None
    tried = tilings(add, target, sizes)
    costs = [evaluate(workload(add, target, sizes, t), target).total for t in tried]
    # The solver counts what is hidden for a 256th, and costs in integers.
    assert found.cost.total <= min(costs) * 1.005
    for tile in tried:
        assert tile % spec.granule == 0 or tile == n
        assert spec.ub.evaluate({**sizes, spec.tile_size: tile}) <= spec.ub_limit


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
    assert tilings(whole, target, {"n": 1 << 20}) == ()
    assert best_tiling(whole, Costs(target), {"n": 1 << 20}) is None
    assert best_tiling(whole, Costs(target), {"n": 1 << 10}) is not None


def test_a_second_pass_reads_again_from_l2(impls, target):
    made = impls(
        {"x": ("float32", ["m", "n"])}, [("y", "Softmax", ["x"], {"axis": -1})], ["y"], m=N, n=N
    )
    loop = next(i for i in made if i.template == "reduce" and not i.tiling.conditions)
    sizes = {"m": 96, "n": 100_000}
    tile = tilings(loop, target, sizes)[0]
    found = workload(loop, target, sizes, tile)
    assert found.traffic.read == found.traffic.reread == 4 * 96 * 100_000
    first, second = (x.body.loads for x in found.loops if x.body.loads)
    assert [c.reach for c in first] == [Reach.MEMORY]
    assert [c.reach for c in second] == [Reach.L2]
    assert found.loops[0].iterations == -(-100_000 // tile)
    # The rows that all cores are at do not fit L2 any more.
    huge = {"m": 96, "n": 20_000_000}
    found = workload(loop, target, huge, tilings(loop, target, huge)[0])
    assert found.traffic.reread < 4 * 96 * 20_000_000 < found.traffic.read


def _calls_of(made, target, tile):
    whole = next(i for i in made if i.template == "reduce_all")
    (loop,) = workload(whole, target, {}, tile).loops
    return {
        k: [c for c in loop.body.calls if c.kind == k] for k in ("binary", "reduce", "block_reduce")
    }


def test_a_reduction_of_float16_folds_what_it_takes_in_to_a_repeat_per_row(impls, target):
    made = impls({"x": ("float16", [64, 2048])}, [("y", "ReduceMax", ["x"], {"axes": (1,)})], ["y"])
    found = _calls_of(made, target, 5)
    assert [(c.count, c.calls) for c in found["reduce"]] == [(5 * 128, 1)]
    # Everything but the last 128 of a row is compared with something; eight parts of 256, which become 128.
    assert sum(c.count for c in found["binary"]) == 5 * (2048 - 128)
    assert sum(c.calls for c in found["binary"]) == pytest.approx(7 * 2 + 1, abs=1)


def test_a_reduction_of_float32_takes_eighths(impls, target):
    made = impls({"x": ("float32", [64, 1024])}, [("y", "ReduceSum", ["x"], {"axes": (1,)})], ["y"])
    found = _calls_of(made, target, 5)
    assert not found["binary"]
    assert not found["reduce"]
    # 1024, 128 and 16 elements of five rows, each in whole repeats, and eight elements of every row.
    assert sum(c.count for c in found["block_reduce"]) == 5 * (1024 + 128 + 64) + 64
    # Rows that are whole repeats are one run; of the others a call per repeat of a row, if these are fewer.
    assert sum(c.calls for c in found["block_reduce"]) == 1 + 1 + 2
    found = _calls_of(made, target, 3)
    assert [(c.count, c.calls) for c in found["reduce"]] == [(3 * 64, 1)]


def test_what_every_core_reads(impls, target):
    made = impls(
        {"x": ("float16", ["m", 768]), "r": ("float16", [1, 768])},
        [("y", "Add", ["x", "r"])],
        ["y"],
        m=N,
    )
    row = next(i for i in made if i.template == "row" and not i.suffix)
    found = workload(row, target, {"m": 4096}, 4)
    assert found.once is not None
    assert [c.reach for c in found.once.loads] == [Reach.SAME_ORDER]
    assert found.traffic.same_order == 2 * 768 * found.cores
    assert found.cores > 40
    alone = workload(row, target, {"m": 4}, 4)
    assert alone.cores == 1
    assert alone.traffic.same_order == 0
    assert alone.traffic.read == 2 * 768 * 5


@pytest.mark.parametrize(("m", "n"), [(14736, 5), (8, 4), (899, 131), (3, 7), (130, 1021)])
def test_axes_in_tiles_of_a_constant_length_count_as_far_as_they_go(impls, target, m, n):
    """A tile of 128 of an axis of 5 moves 5: bytes are compulsory, and timed mode agrees with the time."""
    found = impls(
        {"x": ("float32", ["m", "n"])},
        [("y", "Transpose", ["x"], {"perm": (1, 0)})],
        ["y"],
        m=(1, 1 << 20, None),
        n=(1, 1 << 20, None),
    )
    sizes = {"m": m, "n": n}
    cut = [i for i in found if i.cut_axes()]
    assert len(cut) > 2
    for impl in cut:
        tiling = best_tiling(impl, Costs(target), sizes)
        assert tiling is not None
        work = workload(impl, target, sizes, tiling.tile, per_core=tiling.per_core)
        traffic = work.traffic
        bytes_ = 4 * m * n
        assert traffic.read + traffic.reread == pytest.approx(bytes_, rel=0.01), impl.name
        assert traffic.written == pytest.approx(bytes_, rel=0.01), impl.name
        ((tiles, inside),) = impl.cut_axes()
        (length,) = (n if s == "n" else m for s in impl.axes[inside.origin[0]].size.symbols())
        (body,) = (x.body for x in work.loops)
        for copy in (*body.loads, *body.stores):
            most = tiling.tile * min(length, inside.size.value)
            assert copy.rows * copy.row_bytes <= 4 * most, (impl.name, tiles.name)


def test_unaligned_rows_have_the_alignment_of_their_stride(impls, target):
    made = impls(
        {"x": ("float16", ["m", 100], [1001, 1], 3)}, [("y", "Exp", ["x"])], ["y"], m=(1, 10**6, 64)
    )
    for impl in made:
        for t in tilings(impl, target, {"m": 64})[:1]:
            body = workload(impl, target, {"m": 64}, t).loops[0].body
            assert body.loads[0].align == 2


def test_buffers_lie_one_behind_the_other(add, target):
    sizes, tile = {"n": 1 << 20}, 4096
    found = ub_map(add, sizes, tile)
    ends = [b.offset + b.nbytes * b.count for b in found]
    assert [b.offset for b in found] == [0, *ends[:-1]]
    assert ends[-1] == add.tiling.ub.evaluate({**sizes, add.tiling.tile_size: tile})


def test_operands_do_not_collide_whatever_the_tile_is(add, target):
    for tile in (1, 100, 4096, 4096 + 32):
        ((node, read, found),) = conflicts(add, {"n": 1 << 20}, tile, target.arch)
        assert (node.op, read, found) == ("Add", 2, Conflict.NONE)


def test_conflicts_of_a_kernel_follow_from_its_addresses(add, target):
    # Two queues of two buffers of 16 KiB each, and no pad: operands 32 KiB apart, in the same groups of banks.
    bare = replace(add, buffers=tuple(b for b in add.buffers if not b.pad))
    ((_, _, found),) = conflicts(bare, {"n": 1 << 20}, 4096, target.arch)
    assert found is Conflict.SOURCES
    (slow,) = workload(bare, target, {"n": 1 << 20}, 4096).loops[0].body.calls
    (fast,) = workload(add, target, {"n": 1 << 20}, 4096).loops[0].body.calls
    assert (slow.conflict, fast.conflict) == (Conflict.SOURCES, Conflict.NONE)


@pytest.mark.parametrize("chip", ["ascend310p", "ascend910b3", "ascend910b4", "ascend910c"])
def test_other_chips(impls, chip):
    target = load_target(chip)
    (impl, *_) = impls({"x": ("float32", [4096, 64])}, [("y", "Exp", ["x"])], ["y"])
    found = best_tiling(impl, Costs(target), {})
    assert found is not None
    assert found.cores <= target.aiv_cores
    assert found.cost.total > found.cost.start
