"""Memory plan: queues and TBufs, live ranges, reuse, limits of the chip."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import serve_graphs
from schedule_steps import group_inputs, placed_templates

import autofuse
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import AllocType, Position
from autofuse.implgraph.ops.registry import find_call
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tiling_axes import Candidate
from autofuse.schedule.memory.memory_plan import _Planner, least_memory, plan_memory
from autofuse.schedule.placement.placement import place

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
SOFTMAX = json.dumps(
    {
        "schema": "autofuse.graph/1",
        "name": "rows",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 3000]}],
        "nodes": [
            {"name": "n", "op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": -1}}
        ],
        "outputs": ["y"],
    }
)
GENERAL = Candidate("general", "", 0)


@pytest.fixture
def plan(group, target):
    def do(inputs, nodes, outputs, *, buf_num=2, choice=GENERAL, few=False):
        placed = place(group(inputs, nodes, outputs), choice)
        return plan_memory(placed, target, buf_num, few=few)

    return do


def chain(count, op="Exp"):
    nodes = [("t0", op, ["x"])] + [(f"t{i}", op, [f"t{i - 1}"]) for i in range(1, count)]
    return {"x": ("float32", [4096])}, nodes, [f"t{count - 1}"]


def many_alive(count):
    """Every input is used twice, far apart."""
    inputs = {f"x{i}": ("float32", [4096]) for i in range(count)}
    nodes, last = [], "x0"
    for k in range(2):
        for i in range(1, count):
            op = "Add" if k == 0 else "Mul"
            nodes.append((f"t{k}_{i}", op, [last, f"x{i}"]))
            last = f"t{k}_{i}"
    return inputs, nodes, [last]


def kinds(p):
    return [(b.kind, b.position, b.copy) for b in p.buffers]


def test_one_op_needs_two_queues(plan):
    p = plan(*chain(1))
    assert kinds(p) == [
        ("queue", Position.VECIN, False),
        ("queue", Position.VECOUT, False),
    ]
    assert all(b.buf_num == b.depth == 2 for b in p.buffers)


def test_bytes_add_up_with_the_number_of_buffers(plan):
    p = plan(*chain(1))
    t = next(iter(p.ub.symbols()))
    assert p.ub.evaluate({t: 64}) == 2 * 256 + 2 * 256
    assert p.ub.evaluate({t: 63}) == 2 * 256 + 2 * 256
    single = plan(*chain(1), buf_num=1)
    assert single.ub.evaluate({t: 64}) == 2 * 256


def test_chain_takes_over_its_buffer(plan):
    p = plan(*chain(6))
    bufs = [b for b in p.buffers if b.kind == "buf"]
    assert len(bufs) == 1
    assert len(bufs[0].tensors) == 5


def test_call_that_must_not_overwrite_its_operand_gets_another_buffer(plan):
    p = plan(*chain(4, "Tanh"))
    where = {n.name: n.y.buf for n in p.nodes() if n.op == "Tanh"}
    tmp = {n.name: n.tmp_buffers[0].id for n in p.nodes() if n.op == "Tanh"}
    # The first reads what was loaded, and the last is in the queue of the result.
    inside = [n for n in p.nodes() if where.get(n.name) is not None]
    between = [n for n in inside if n.inputs[0] in where]
    assert len(between) == 2
    for n in between:
        assert where[n.name] != where[n.inputs[0]]
        assert tmp[n.name] not in (where[n.name], where[n.inputs[0]])


def test_input_that_is_stored_unchanged_shares_one_queue(plan):
    p = plan({"x": ("float32", [4096])}, [], ["x"])
    assert kinds(p) == [("queue", Position.VECOUT, True)]


def test_loaded_tensor_that_is_used_and_stored_is_copied_in_ub(plan):
    p = plan({"x": ("float32", [4096])}, [("y", "Exp", ["x"])], ["x", "y"])
    assert [n.op for n in p.nodes()].count("UbCopy") == 1


def test_two_stores_of_one_result_share_its_buffer(plan):
    p = plan({"x": ("float32", [4096])}, [("y", "Exp", ["x"])], ["y", "y"])
    assert len([b for b in p.buffers if b.position is Position.VECOUT]) == 1


def test_no_two_live_tensors_share_a_buffer(plan):
    p = plan(*many_alive(5))
    last = {n.name: i for i, n in enumerate(p.nodes())}
    for i, n in enumerate(p.nodes()):
        for x in n.inputs:
            last[x] = i
    start = {n.name: i for i, n in enumerate(p.nodes())}
    pairs = [pair for b in p.buffers for pair in itertools.pairwise(b.tensors)]
    assert len(pairs) >= 5
    for early, late in pairs:
        # A result may take the place of an operand that dies with it.
        assert last[early] <= start[late]


def test_many_loads_alive_fall_back_to_copies_with_single_buffers(plan):
    graph = many_alive(6)
    with pytest.raises(TemplateRejectedError, match="live at once"):
        plan(*graph)
    single = plan(*graph, buf_num=1)
    assert sum(b.buf_num for b in single.buffers if b.position is Position.VECIN) <= 8
    spilled = plan(*many_alive(12), buf_num=1)
    assert any(n.op == "UbCopy" for n in spilled.nodes())
    assert sum(b.position is Position.VECIN for b in spilled.buffers if b.kind == "queue") <= 8


def test_loads_that_are_dead_give_their_queue_to_others_where_few_are_wanted(plan):
    inputs = {f"x{i}": ("float32", [4096]) for i in range(6)}
    nodes = [(f"t{i}", "Add", [f"t{i - 1}" if i > 1 else "x0", f"x{i}"]) for i in range(1, 6)]
    queues = [
        sum(b.position is Position.VECIN for b in p.buffers)
        for p in (plan(inputs, nodes, ["t5"], buf_num=1, few=few) for few in (False, True))
    ]
    assert queues == [6, 2]


def test_more_buffers_than_a_pipe_has_are_refused(plan):
    with pytest.raises(TemplateRejectedError, match="a TPipe has"):
        plan(*many_alive(80), buf_num=1)


@pytest.mark.parametrize(
    ("graph", "buf_num"),
    [
        (chain(1), 2),
        (chain(6), 1),
        (chain(3, "Tanh"), 2),
        (many_alive(3), 2),
        (many_alive(12), 1),
    ],
)
def test_a_pipe_takes_as_many_buffers_as_it_has_and_not_one_more(group, target, graph, buf_num):
    """With a pipe of as many buffers as a plan needs, the plan is made; with one fewer, it is refused."""
    placed = place(group(*graph), GENERAL)

    def planned(buffers):
        arch = replace(target.arch, buffers_total=buffers)
        return plan_memory(placed, replace(target, arch=arch), buf_num)

    needed = sum(b.buf_num for b in plan_memory(placed, target, buf_num).buffers)
    for room in (needed, needed + 1):
        assert sum(b.buf_num for b in planned(room).buffers) == needed
    with pytest.raises(TemplateRejectedError) as refused:
        planned(needed - 1)
    assert f"{needed} buffers are needed; a TPipe has {needed - 1}" in str(refused.value)


@pytest.mark.parametrize(("count", "buf_num"), [(3, 1), (4, 1), (6, 1), (9, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("limit", [2, 3, 4, 6, 8])
def test_no_position_has_more_queue_buffers_than_it_may(group, target, limit, count, buf_num):
    """A plan has at most as many queue buffers at each TPosition as the architecture says, or there is no plan."""
    placed = place(group(*many_alive(count)), GENERAL)
    arch = replace(target.arch, queue_buffers_per_position=limit)
    try:
        found = plan_memory(placed, replace(target, arch=arch), buf_num)
    except TemplateRejectedError:
        assert (
            buf_num > 1 or limit < 3
        )  # one buffer per queue, and the rest copied, is always possible
        return
    at = Counter()
    for b in found.buffers:
        if b.kind == "queue":
            at[b.position] += b.buf_num
    assert at
    assert max(at.values()) <= limit


def test_masks_take_a_bit_per_element_and_calls_whole_256_bytes(plan):
    p = plan(
        {"x": ("float32", [4096]), "y": ("float32", [4096])},
        [("c", "Less", ["x", "y"]), ("z", "Select", ["c", "x", "y"])],
        ["z"],
    )
    compare = next(n for n in p.nodes() if n.op == "Compare")
    buffer = next(b for b in p.buffers if b.kind == "buf" and compare.name in b.tensors)
    (t,) = p.ub.symbols()
    assert buffer.nbytes.evaluate({t: 256}) == 32
    assert buffer.nbytes.evaluate({t: 257}) == 64
    loads = next(b for b in p.buffers if b.position is Position.VECIN)
    assert loads.nbytes.evaluate({t: 65}) == 512


def test_scratch_space_is_a_buffer_of_its_own_while_it_is_used(plan):
    p = plan(*chain(1, "Tanh"))
    (tanh,) = (n for n in p.nodes() if n.op == "Tanh")
    (tmp,) = tanh.tmp_buffers
    (t,) = p.ub.symbols()
    assert tmp.nbytes.evaluate({t: 1000}) == 4000
    assert tmp.nbytes.evaluate({t: 1}) == 256
    assert any(b.kind == "buf" and b.id == tmp.id for b in p.buffers)


#: Ops whose calls take scratch space: name, dtype, operands.
SCRATCH = [
    *((op, d, ["x"]) for op in ("Tanh", "Sin", "Cos", "Erf") for d in ("float16", "float32")),
    *(("Pow", d, ["x", "z"]) for d in ("float16", "float32", "int32")),
]


@pytest.mark.parametrize(("op", "dtype", "operands"), SCRATCH)
def test_every_buffer_is_whole_blocks_for_every_tile(plan, target, op, dtype, operands):
    """Tensors and scratch space end at blocks, whatever the length of a tile, and hold what is needed."""
    p = plan({x: (dtype, [4096]) for x in operands}, [("y", op, operands)], ["y"])
    calls = [(n, t) for n in p.nodes() for t in n.tmp_buffers]
    assert calls
    (t,) = p.ub.symbols()
    size = BY_NAME[dtype].itemsize
    for tile in (*range(1, 70), 127, 128, 129, 1001, 4095):
        for nbytes in (*(b.nbytes for b in p.buffers), *(s.nbytes for _, s in calls)):
            assert nbytes.evaluate({t: tile}) % 32 == 0
        for b in p.buffers:
            if b.tensors and set(b.tensors) <= {
                n.name for n in p.nodes() if n.y.dtype.name == dtype
            }:
                assert b.nbytes.evaluate({t: tile}) >= size * tile
        for n, scratch in calls:
            call = find_call(n.op, target.arch)
            needed = call.tmp(const(tile), n.y.dtype).evaluate({})
            assert needed <= scratch.nbytes.evaluate({t: tile}) < needed + 32
            (held,) = (b for b in p.buffers if b.kind == "buf" and b.id == scratch.id)
            assert held.nbytes.evaluate({t: tile}) >= needed


def norm(columns):
    """Rows of float16 less their mean, times a row of float16 and plus another one."""
    keep = {"axes": [1], "keepdims": True}
    wide = {"dtype": "float32"}
    return {
        "schema": "autofuse.graph/1",
        "name": "norm",
        "inputs": [
            {"name": n, "dtype": "float16", "shape": s}
            for n, s in (("x", [8192, columns]), ("w", [columns]), ("b", [columns]))
        ],
        "nodes": [
            {"name": y, "op": op, "inputs": inputs, "outputs": [y], "attrs": attrs}
            for y, op, inputs, attrs in (
                ("xf", "Cast", ["x"], wide),
                ("m", "ReduceMean", ["xf"], keep),
                ("d", "Sub", ["xf", "m"], {}),
                ("q", "Mul", ["d", "d"], {}),
                ("v", "ReduceMean", ["q"], keep),
                ("r", "Rsqrt", ["v"], {}),
                ("e", "Mul", ["d", "r"], {}),
                ("wf", "Cast", ["w"], wide),
                ("s", "Mul", ["e", "wf"], {}),
                ("bf", "Cast", ["b"], wide),
                ("z", "Add", ["s", "bf"], {}),
                ("y", "Cast", ["z"], {"dtype": "float16"}),
            )
        ],
        "outputs": ["y"],
    }


def rows_kept(columns):
    """The template that keeps rows in UB, and the buffer of each tensor."""
    return kept(norm(columns))


def kept(document):
    built = autofuse.build(json.dumps(document), verify_ir=True)
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    impl = next(i for i in impls if i.template == "reduce_all")
    return impl, {t: b for b in impl.buffers for t in b.tensors}


def test_what_only_nodes_before_the_loop_use_leaves_its_buffer_to_others():
    """The rows that all tiles share are kept as they are used, not as they were loaded and converted."""
    impl, buffers = rows_kept(8192)
    spread = [n for n in impl.nodes if n.op == "Broadcast" and n.loop_axis is None]
    assert len(spread) == 2
    nodes = {n.name: n for n in impl.nodes}
    for n in spread:
        assert buffers[n.name].tensors[-1] == n.name  # loops read it to the end
        cast = nodes[n.inputs[0]]
        assert cast.op == "Cast"
        assert buffers[cast.name].tensors[-1] in {n.name for n in impl.nodes if n.loop_axis}
        load = buffers[cast.inputs[0]]
        assert load.position is Position.VECIN
        assert len(load.tensors) > 1
    # Both of these rows, two to compute with, two of float16 in a queue, and little else.
    used = impl.tiling.ub.evaluate({impl.tiling.opened.symbol: 1})
    assert 0 < used - 5 * 4 * 8192 < 4 * 8192 // 4
    assert {b.buf_num for b in impl.buffers if b.kind == "queue"} == {2}


def test_rows_that_tiles_share_stay_as_loaded_where_two_buffers_do_not_fit_else():
    """Rows of 10,240: in float32 scale and shift would take 80 of 184 KiB."""
    impl, _ = rows_kept(10240)
    nodes = {n.name: n for n in impl.nodes}
    spread = [n for n in impl.nodes if n.op == "Broadcast" and n.loop_axis is None]
    assert [n.y.dtype.name for n in spread] == ["float16"] * 2
    assert all(nodes[n.inputs[0]].op == "Load" for n in spread)
    late = [n for n in impl.nodes if n.op == "Cast" and n.inputs[0] in {s.name for s in spread}]
    users = [n for n in impl.nodes if not {c.name for c in late}.isdisjoint(n.inputs)]
    assert [n.op for n in users] == ["Mul", "Add"]
    assert {n.loop_axis for n in late} == {n.loop_axis for n in users} != {None}
    assert {b.buf_num for b in impl.buffers if b.kind == "queue"} == {2}
    # Where there is room, a conversion per core is less than one per tile.
    roomy, _ = rows_kept(4096)
    names = {n.name for n in roomy.nodes if n.op == "Broadcast"}
    assert not any(n.op == "Cast" and n.inputs[0] in names for n in roomy.nodes)


def test_results_take_over_loads_where_that_makes_room_for_more_rows():
    """Two rows of 4,096 in a tile instead of one; of a hundred short ones, some more would gain nothing."""
    impl, _ = rows_kept(4096)
    (queue,) = (b for b in impl.buffers if b.kind == "queue")
    assert queue.copy
    t = impl.tiling.opened.symbol
    assert impl.tiling.ub.evaluate({t: 2}) <= impl.tiling.ub_limit
    short, _ = rows_kept(256)
    assert not any(b.copy for b in short.buffers)


def test_every_tensor_has_memory_of_one_kind(plan):
    nodes = [n for n in plan(*many_alive(4)).nodes() if n.op != "Store"]
    assert len(nodes) >= 10
    for n in nodes:
        assert (n.y.que is None) != (n.y.buf is None)
        assert n.y.mem.alloc_type is (AllocType.QUEUE if n.y.que else AllocType.BUFFER)


@pytest.mark.parametrize(
    "text",
    [
        serve_graphs.text(3),
        (EXAMPLES / "adam_like.json").read_text(),
        (EXAMPLES / "add_bias_dynamic.json").read_text(),
        (EXAMPLES / "where_mask.json").read_text(),
        SOFTMAX,
    ],
)
def test_no_plan_needs_less_than_what_is_alive_at_one_time(target, text):
    hints = [r.hint for r in autofuse.build(text).schedule]
    made = [t for h in hints for g in group_inputs(h, target) for t in placed_templates(g)]
    compared = 0
    for template, buf_num, share, banks in itertools.product(
        made, (1, 2), (False, True), (False, True)
    ):
        try:
            found = plan_memory(template.placed, target, buf_num, share=share, banks=banks)
        except TemplateRejectedError:
            continue
        sizes = {s.name: 1000 for s in template.g.symbols}
        for tile in (1, 8, 100, 4096):
            env = {**sizes, str(template.placed.split.t): tile}
            buffers, used = least_memory(template.placed, target, env)
            assert 0 < used <= found.ub.evaluate(env)
            assert 0 < buffers <= sum(b.buf_num for b in found.buffers)
            compared += 1
    assert compared >= 16


def test_what_is_alive_at_one_time_is_counted_by_hand(group, target):
    inputs, nodes, outputs = many_alive(5)
    placed = place(group(inputs, nodes, outputs), GENERAL)
    tile = {str(placed.split.t): 1024}
    # All loads but the first, which only the first call reads, and one intermediate result.
    assert least_memory(placed, target, tile) == (5, 5 * 1024 * 4)


@pytest.mark.parametrize("count", [20, 40])
def test_loads_leave_their_queues_in_one_pass(group, target, monkeypatch, count):
    """However many there are, the nodes are looked through once more."""
    placed = place(group(*many_alive(count)), GENERAL)
    passes = 0
    index = _Planner._index

    def counted(self):
        nonlocal passes
        passes += 1
        index(self)

    monkeypatch.setattr(_Planner, "_index", counted)
    found = plan_memory(placed, target, 1)
    kept = [n for n in found.bare if n.op == "UbCopy"]
    assert len(kept) >= count // 2
    assert passes == 2
