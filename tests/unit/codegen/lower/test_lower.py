"""ImplGraph -> KernelIR: DMA descriptors, tails, offsets, the queue protocol, syncs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from autofuse.codegen.ir.calls import Call
from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    CopyIn,
    CopyOut,
    DeQue,
    EnQue,
    For,
    Free,
    GlobalDecl,
    KernelFn,
    Let,
    ReturnIfEmpty,
    ScalarRead,
    Stmt,
    Sync,
    TilingField,
)
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.frontends import parse_graph
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.scheduler import schedule
from autofuse.targets import load_target

SIZES = {"m": {"min": 1, "max": 1 << 20}, "n": {"min": 1, "max": 4096}}


def kernels(inputs, nodes, outputs, symbols=None) -> dict[str, KernelFn]:
    """The functions of a graph by template and suffix."""
    data: dict[str, Any] = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": symbols or {},
        "inputs": [
            {"name": k, "dtype": v[0], "shape": v[1], **dict(*v[2:])} for k, v in inputs.items()
        ],
        "nodes": [
            {"name": f"n{i}", "op": op, "inputs": xs, "outputs": [y], "attrs": dict(*rest)}
            for i, (y, op, xs, *rest) in enumerate(nodes)
        ],
        "outputs": outputs,
    }
    graph = parse_graph(json.dumps(data))
    target = load_target("ascend910b1")
    results = schedule(canonicalise(lower(graph)), target)
    tensors = parameter_names(graph)
    return {
        f"{i.group}_{i.template}{'_' + i.suffix if i.suffix else ''}": lower_kernel(
            i, tensors, target
        )
        for r in results
        for g in r.groups
        for i in g.impls
    }


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, For):
            yield from walk(s.body)


def every(fn: KernelFn, *kinds: type) -> list[Any]:
    return [s for s in walk(fn.body) if isinstance(s, kinds)]


def loop_of(fn: KernelFn) -> For:
    return next(s for s in fn.body if isinstance(s, For))


def lets(fn: KernelFn, env: Mapping[str, int]) -> dict[str, int]:
    """Values of all names for one core and one tile."""
    values = dict(env)
    for s in walk(fn.body):
        if isinstance(s, Let) and s.value.symbols() <= values.keys():
            values.setdefault(s.name, s.value.evaluate(values))
    return values


EXP = ({"x": ("float32", ["m", "n"])}, [("y", "Exp", ["x"])], ["y"])
BIAS = (
    {"x": ("float32", ["m", "n"]), "b": ("float32", ["n"])},
    [("y", "Add", ["x", "b"])],
    ["y"],
)


@pytest.fixture(scope="module")
def flat() -> KernelFn:
    return kernels(*EXP, SIZES)["0_general"]


@pytest.fixture(scope="module")
def rows() -> dict[str, KernelFn]:
    return kernels(*BIAS, SIZES)


def test_order_of_statements_around_one_op(flat):
    kinds = [type(s) for s in loop_of(flat).body]
    order = [Alloc, CopyIn, EnQue, DeQue, Alloc, Call, Free, EnQue, DeQue, CopyOut, Free]
    assert [k for k in kinds if k in order] == order


def test_a_core_without_tiles_returns_before_memory_is_taken(flat):
    kinds = [type(s) for s in flat.body]
    assert kinds.index(ReturnIfEmpty) < kinds.index(GlobalDecl)


def test_no_second_return_where_rows_cannot_be_empty(rows):
    assert all(len(every(fn, ReturnIfEmpty)) == 1 for fn in rows.values())


def test_rows_that_may_be_empty_return_first():
    symbols = {"m": {"min": 0, "max": 99}, "n": {"min": 0, "max": 99}}
    for name, fn in kernels(*BIAS, symbols).items():
        returns = [s.value for s in every(fn, ReturnIfEmpty)]
        assert len(returns) == (1 if "general" in name else 2), name


def test_tail_of_the_last_tile(flat):
    env = {"m": 10, "n": 10, "z0z1t_size": 64, "z0z1Tb_size": 1, "z0z1Tb": 0}
    for core, expected in ((0, 64), (1, 36)):
        at = lets(flat, {**env, "z0z1TB": core})
        assert at["z0z1t_actual_size"] == expected
        (load,) = every(flat, CopyIn)
        assert load.block.length.evaluate(at) == 4 * expected
        assert load.gm_offset.evaluate(at) == 64 * core


def test_rows_are_one_command_with_padded_rows_in_ub(rows):
    fn = rows["0_row_unaligned"]
    load = next(s for s in loop_of(fn).body if isinstance(s, CopyIn))
    env = {"m": 40, "n": 5, "z0t_size": 8, "z0t_actual_size": 3, "z0T": 2}
    assert load.block.count.evaluate(env) == 3
    assert load.block.length.evaluate(env) == 20
    assert load.block.gm_gap.evaluate(env) == 0
    assert load.block.ub_gap.evaluate(env) == 0
    assert load.gm_offset.evaluate(env) == 2 * 8 * 5


def test_strided_rows_leave_a_gap_in_gm():
    strided = {"x": ("float32", [64, 8], {"strides": [12, 1], "offset": 3}), "b": BIAS[0]["b"]}
    strided["b"] = ("float32", [8])
    fn = kernels(strided, *BIAS[1:])["0_row"]
    load = next(s for s in loop_of(fn).body if isinstance(s, CopyIn))
    assert load.block.length == 32
    assert load.block.gm_gap == 16
    assert load.gm_offset.evaluate({"z0T": 0, "z0t_size": 4}) == 3
    assert load.gm_offset.evaluate({"z0T": 1, "z0t_size": 4}) == 3 + 4 * 12


def test_mixed_dtypes_pad_rows_differently_in_ub():
    inputs = {"x": ("float32", [64, 3]), "h": ("float16", [64, 3]), "b": ("float16", [3])}
    nodes = [
        ("a", "Add", ["h", "b"]),
        ("f", "Cast", ["a"], {"dtype": "float32"}),
        ("y", "Mul", ["x", "f"]),
    ]
    fn = kernels(inputs, nodes, ["y"])["0_row_unaligned"]
    gaps = {s.dtype.name: s.block.ub_gap for s in loop_of(fn).body if isinstance(s, CopyIn)}
    # 16 elements per row: 64 bytes of which the 12 take one unit, and 32 bytes.
    assert gaps == {"float32": 1, "float16": 0}


def test_resident_data_are_awaited_once_before_the_loop(rows):
    fn = run_passes(rows["0_row"])
    before = fn.body[: fn.body.index(loop_of(fn))]
    kinds = [type(s) for s in before]
    assert kinds.count(Sync) == 1
    assert kinds.index(CopyIn) < kinds.index(Sync) < kinds.index(Call)
    assert next(s for s in before if isinstance(s, Sync)).event == "MTE2_V"


def test_run_time_scalar_is_read_once_from_gm():
    inputs = {"x": ("float32", [4096]), "s": ("float32", [1])}
    nodes = [("a", "Mul", ["x", "s"]), ("y", "Add", ["a", "s"])]
    fn = run_passes(kernels(inputs, nodes, ["y"])["0_general"])
    (read,) = every(fn, ScalarRead)
    assert (read.gm, read.offset, read.load) == ("s_gm", 0, "gather_1")
    assert read in fn.body[: fn.body.index(loop_of(fn))]
    assert not every(fn, Sync)
    assert [s.gm for s in every(fn, CopyIn)] == ["x_gm"]


def test_run_time_scalar_that_is_converted_is_put_into_ub():
    inputs = {"x": ("float32", [4096]), "s": ("int32", [1])}
    nodes = [("f", "Cast", ["s"], {"dtype": "float32"}), ("y", "Mul", ["x", "f"])]
    fn = run_passes(kernels(inputs, nodes, ["y"])["0_general"])
    first, second = every(fn, ScalarRead)
    (put, _) = every(fn, CopyIn)
    assert (put.scalar, put.local) == (first.name, first.local)
    assert (first.gm, second.gm) == ("s_gm", "")
    before = fn.body[: fn.body.index(loop_of(fn))]
    assert [s.event for s in before if isinstance(s, Sync)] == ["S_V", "V_S"]


def test_value_per_row_is_read_by_the_call():
    inputs = {"x": ("float32", [64, 4000]), "s": ("float32", [64, 1])}
    fn = run_passes(kernels(inputs, [("y", "Mul", ["x", "s"])], ["y"])["0_general"])
    assert [s.api for s in every(fn, Call)] == ["WithRows"]
    assert not every(fn, ScalarRead)


def test_result_of_one_element_is_read_in_the_loop_behind_a_sync():
    nodes = [("s", "ReduceSum", ["x"], {"axes": [0, 1]}), ("y", "Mul", ["x", "s"])]
    fn = run_passes(kernels({"x": ("float32", [64, 64])}, nodes, ["y"])["0_reduce_all"])
    body = loop_of(fn).body
    (read,) = [i for i, s in enumerate(body) if isinstance(s, ScalarRead)]
    (sync,) = [i for i, s in enumerate(body) if isinstance(s, Sync) and s.event == "V_S"]
    (made,) = [i for i, s in enumerate(body) if isinstance(s, Call) and s.api == "Reduce"]
    assert made < sync < read


def test_result_stored_twice_is_enqueued_once():
    outputs = ["y", {"name": "again", "tensor": "y"}]
    fn = kernels(*EXP[:2], outputs, SIZES)["0_general"]
    assert len(every(fn, EnQue)) == len(every(fn, Free)) == 2
    assert len(every(fn, CopyOut)) == 2


def test_input_to_output_goes_through_one_queue_for_both_dmas():
    fn = kernels({"x": ("float32", [4096])}, [], ["x"])["0_general"]
    body = loop_of(fn).body
    kinds = [type(s) for s in body if not isinstance(s, (Let,))]
    wanted = [Alloc, CopyIn, EnQue, DeQue, CopyOut, Free]
    assert [k for k in kinds if k in wanted] == wanted
    assert every(fn, Call) == []


def test_a_group_takes_the_parameters_that_it_touches():
    inputs = {"x": ("float32", [4096]), "y": ("float32", [17])}
    found = kernels(inputs, [("a", "Exp", ["x"]), ("b", "Exp", ["y"])], ["a", "b"])
    first, second = found["0_general"], found["1_general"]
    assert first.pointers == ("x", "a")
    assert second.pointers == ("y", "b")


@pytest.mark.parametrize("name", ["0_general", "0_row", "0_row_unaligned"])
def test_every_name_is_defined_before_it_is_used(rows, name):
    fn = rows[name]
    defined = {"z0TB", "z0z1TB"}
    for s in walk(fn.body):
        if isinstance(s, Let):
            used = s.value.symbols()
            assert used <= defined | {x for x in used if x.endswith("B")}, s.name
            defined.add(s.name)
        elif isinstance(s, TilingField):
            defined.add(s.name)
        elif isinstance(s, For):
            assert s.extent.symbols() <= defined
            defined.add(s.var)
    assert len(defined) > 10
