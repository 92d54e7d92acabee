"""Halves of the banks of UB: the rule, which tensors are apart, and addresses that hold for every tile."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofuse.implgraph.expr.expression import CeilDiv, Expr, Max, align_up, const, sym
from autofuse.schedule.axes.tile_limits import largest_tile
from autofuse.schedule.axes.tiling_axes import Candidate
from autofuse.schedule.cost.banks import Halves, bank_conflict, round_up
from autofuse.schedule.cost.cost import Conflict
from autofuse.schedule.cost.ub_map import conflicts, ub_map
from autofuse.schedule.memory.memory_plan import plan_memory
from autofuse.schedule.placement.placement import place
from autofuse.schedule.scheduler import schedule
from autofuse.targets import load_chip, load_target

CHIP = load_target("ascend910b1")
PERIOD = CHIP.arch.bank_period
HALF_BYTES = PERIOD // 2
N = (0, 1 << 30, 1 << 20)
GENERAL = Candidate("general", "", 0)


@pytest.mark.parametrize(
    ("operands", "result", "found"),
    [
        # The scenarios of the vendor's example, with what was measured there.
        ([0, 0x10100], 0x20000, Conflict.NONE),
        ([0, 0x4000], 0x10000, Conflict.SOURCES),
        ([0, 0x10000], 0x14100, Conflict.SOURCES),
        ([0, 0x10100], 0x4000, Conflict.NONE),
        ([0, 0x10100], 0x4020, Conflict.RESULT),
        ([0, 0x10100], 0x10100, Conflict.NONE),
        ([0, 0x100], None, Conflict.NONE),
        ([0], 0x40, Conflict.RESULT),
    ],
)
def test_bank_conflicts(operands, result, found):
    assert bank_conflict(operands, result, CHIP.arch) is found


# relations ------------------------------------------------------------------------------------
def test_relations_of_a_long_chain():
    """More of them than Python has frames: each joins the chain at its end."""
    halves, count = Halves(), 20_000
    for i in range(count):
        assert halves.put(f"t{i + 1}", f"t{i}", apart=True)
    assert halves.may_share("t0", f"t{count}")
    assert not halves.may_share("t1", f"t{count}")
    assert not halves.put("t0", f"t{count - 1}", apart=False)


RELATIONS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.booleans()), max_size=25)


@given(RELATIONS)
def test_relations_hold_unless_they_contradict_earlier_ones(relations):
    halves = Halves()
    possible = [tuple(bool(bits >> i & 1) for i in range(8)) for bits in range(256)]
    apart_from_any = set()
    for a, b, apart in relations:
        left = [p for p in possible if (p[a] != p[b]) == apart]
        assert halves.may_share(str(a), str(b)) == any(p[a] == p[b] for p in possible)
        assert halves.put(str(a), str(b), apart=apart) == bool(left)
        possible = left or possible
        if left and apart:
            apart_from_any.add(a)
    sides = [halves.side(str(i)) for i in range(8)]
    for i in range(8):
        assert (sides[i] is None) == all(
            len({p[i] != p[k] for p in possible}) > 1 or possible[0][i] == possible[0][k]
            for k in range(8)
        )
        for k in range(8):
            if sides[i] is not None and sides[k] is not None and sides[i][0] == sides[k][0]:
                assert all((p[i] != p[k]) == (sides[i][1] != sides[k][1]) for p in possible)
    assert all(sides[a] is not None for a in apart_from_any)


# lengths --------------------------------------------------------------------------------------
T, M = sym("t"), sym("m")
SIZES: list[Expr] = [
    align_up(T * 4, 32),
    align_up(T * M * 2, 256),
    CeilDiv(T, 256) * 32,
    align_up(T, 8) * 32,
    Max(align_up(T * 4, 32), align_up(M * 2, 32)),
    align_up(T * 4, 32) + align_up(M, 32),
    const(0),
    const(32),
    const(1024),
    T * M * 32,
]


@pytest.mark.parametrize("nbytes", SIZES, ids=str)
@pytest.mark.parametrize("step", [HALF_BYTES, PERIOD])
@given(t=st.integers(0, 5000), m=st.integers(0, 300))
def test_rounding_up_is_exact_for_nested_lengths(nbytes, step, t, m):
    env = {"t": t, "m": m}
    want = -(-nbytes.evaluate(env) // step) * step
    assert round_up(nbytes, step).evaluate(env) == want


def test_lengths_stay_short():
    assert round_up(align_up(T * 4, 32), PERIOD) == align_up(T * 4, PERIOD)


# plans ----------------------------------------------------------------------------------------
def binary_dag(steps):
    """A graph of Adds: step i adds two earlier tensors."""
    names = ["x0", "x1", "x2"]
    nodes = []
    for i, (a, b) in enumerate(steps):
        nodes.append((f"t{i}", "Add", [names[a % len(names)], names[b % len(names)]]))
        names.append(f"t{i}")
    return {x: ("float32", ["n"]) for x in names[:3]}, nodes, [names[-1]]


STEPS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=10)


@settings(deadline=None)
@given(steps=STEPS)
def test_addresses_are_those_of_the_plan_for_every_tile(steps):
    from tests.unit.schedule.conftest import hint_of, make_graph

    target = load_target("ascend910b1")
    (result,) = schedule(hint_of(make_graph(*binary_dag(steps), n=N)), target)
    for impl in result.groups[0].impls:
        found = []
        for tile in (largest_tile(impl.tiling, {"n": 1 << 20}), 1, 7, 64, 65, 1021):
            buffers = ub_map(impl, {"n": 1 << 20}, tile)
            for b in buffers:
                blocks = [b.offset + k * b.nbytes for k in range(b.count)]
                if b.plan.bank is not None:
                    assert {p % PERIOD for p in blocks} == {b.plan.bank}
            found.append(conflicts(impl, {"n": 1 << 20}, tile, target.arch))
        assert found[0]
        assert all(f == found[0] for f in found)
        assert all(c is not Conflict.RESULT for f in found for _, _, c in f)
        # One tensor twice, and calls that want three tensors apart from each other, are what is left.
        pairs = [set(n.inputs) for n, read, _ in found[0] if read == 2]
        odd = any(len(p) == 1 for p in pairs) or not _two_halves_do(pairs)
        if not odd and len(pairs) <= 2 and impl.template == "general":
            assert all(c is Conflict.NONE for _, _, c in found[0])


def _two_halves_do(pairs):
    names = sorted(set().union(*pairs))
    return any(
        all(len({bits >> names.index(x) & 1 for x in p}) == 2 for p in pairs)
        for bits in range(1 << len(names))
    )


@pytest.fixture
def plan(group, target):
    def do(inputs, nodes, outputs, *, chip=target, banks=True):
        return plan_memory(place(group(inputs, nodes, outputs), GENERAL), chip, 2, banks=banks)

    return do


ADD = ({x: ("float32", [4096]) for x in "xy"}, [("z", "Add", ["x", "y"])], ["z"])


def test_the_second_half_is_behind_a_pad(plan):
    p = plan(*ADD)
    assert [(b.kind, b.bank, b.pad) for b in p.buffers] == [
        ("queue", 0, False),
        ("buf", 0, True),
        ("queue", 256, False),
        ("queue", None, False),
    ]
    (t,) = p.ub.symbols()
    assert p.ub.evaluate({t: 64}) == 2 * 512 + 256 + 2 * 512 + 2 * 256
    assert p.ub.evaluate({t: 128}) == 3 * 2 * 512 + 256


def test_without_two_operands_nothing_is_padded(plan):
    p = plan({"x": ("float32", [4096])}, [("y", "Exp", ["x"])], ["y"])
    assert {b.bank for b in p.buffers} == {None}
    assert not any(b.pad for b in p.buffers)


def test_a_plan_without_banks_is_one_buffer_after_another(plan):
    p = plan(*ADD, banks=False)
    assert {b.bank for b in p.buffers} == {None}
    (t,) = p.ub.symbols()
    assert p.ub.evaluate({t: 72}) == 3 * 2 * 288


def test_chips_whose_operands_collide_anyway_get_no_pads(plan, target):
    assert target.arch.bank_halves
    assert not load_chip("ascend950pr").arch.bank_halves
    p = plan(*ADD, chip=replace(target, arch=replace(target.arch, ub_bank_groups=8)))
    assert {b.bank for b in p.buffers} == {None}


def test_three_tensors_that_all_meet_leave_one_call(plan):
    inputs = {x: ("float32", [4096]) for x in "xyz"}
    nodes = [("a", "Add", ["x", "y"]), ("b", "Mul", ["y", "z"]), ("c", "Sub", ["z", "x"])]
    nodes += [("d", "Maximum", ["a", "b"]), ("e", "Minimum", ["d", "c"])]
    p = plan(inputs, nodes, ["e"])
    bank = {t: b.bank for b in p.buffers for t in b.tensors}
    same = [n.op for n in p.nodes() if len(n.inputs) == 2 and len({bank[x] for x in n.inputs}) == 1]
    assert len(same) == 1


def test_masks_and_single_elements_lie_behind_everything_else(plan):
    inputs = {"x": ("float32", [4096]), "y": ("float32", [4096]), "s": ("float32", [1])}
    nodes = [("c", "Less", ["x", "y"]), ("z", "Select", ["c", "x", "y"]), ("w", "Mul", ["z", "s"])]
    p = plan(inputs, nodes, ["w"])
    mask = next(n for n in p.nodes() if n.y.dtype.kind == "m")
    small = [i for i, b in enumerate(p.buffers) if mask.name in b.tensors]
    wide = [i for i, b in enumerate(p.buffers) if b.bank is not None or b.kind == "queue"]
    assert min(small) > max(wide)


def test_where_ub_has_no_room_the_operands_may_collide(impls, target):
    # Rows that fill UB to the last bytes: three queues of two buffers.
    row = target.ub_usable // 6 // 32 * 8
    made = impls({x: ("float32", [8, row]) for x in "xy"}, [("z", "Add", ["x", "y"])], ["z"])
    full = [i for i in made if all(b.bank is None for b in i.buffers)]
    spare = [i for i in made if any(b.bank is not None for b in i.buffers)]
    assert spare
    for impl in full:
        assert impl.tiling.ub.evaluate({impl.tiling.opened.symbol: 1}) > target.ub_usable - 6 * 512
