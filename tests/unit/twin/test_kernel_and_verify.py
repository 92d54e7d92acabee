"""Calling a compiled kernel, and verifying it, with a kernel written by hand."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import CeilDiv, const, sym
from autofuse.implgraph.expr.parser import parse
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import (
    Constant,
    FusionGraph,
    FusionNode,
    GraphOutput,
    Symbol,
    Tensor,
)
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.run.arguments import solve_symbols
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import (
    VerifyReport,
    verify_in_subprocess,
    verify_kernel,
    verify_with,
)

pytestmark = pytest.mark.twin


@pytest.fixture
def kernel(abs_files, abs_graph):
    return TwinKernel(compile_kernel(abs_files(), "absk"), abs_graph)


def x_of(n):
    return np.linspace(-3, 3, n, dtype=np.float32)


def test_a_call_by_position_and_by_name(kernel):
    x = x_of(77)
    assert np.array_equal(kernel(x), np.abs(x))
    assert np.array_equal(kernel(x=x), np.abs(x))
    assert np.array_equal(kernel(x_of(64)[::-1]), np.abs(x_of(64)))
    assert kernel(x_of(0)).shape == (0,)


def test_a_kernel_may_have_the_name_of_a_library_function(abs_files, abs_graph):
    files = {name: text.replace("absk", "div") for name, text in abs_files().items()}
    k = TwinKernel(compile_kernel(files, "div"), replace(abs_graph, name="div"))
    assert np.array_equal(k(x_of(77)), np.abs(x_of(77)))


def test_keys_cores_and_what_ran(kernel):
    x = x_of(64)
    assert kernel.key_count == 2
    assert kernel.run({"x": x}).key == 1
    r = kernel.run({"x": x}, key=0, cores=5)
    assert (r.key, r.block_dim, r.symbols) == (0, 5, {"s0": 64})
    with pytest.raises(AutofuseError, match="not a multiple of 8"):
        kernel(x_of(65), key=1)


def test_an_inout_output_is_written_in_place(abs_files, abs_graph):
    g = replace(abs_graph, outputs=(GraphOutput("y", "y", inout="x"),))
    k = TwinKernel(compile_kernel(abs_files(), "absk"), g)
    x = x_of(40)
    want = np.abs(x)
    assert k(x) is x
    assert np.array_equal(x, want)
    wide = np.repeat(x_of(40), 2)
    view = wide[::2]
    assert k(view) is view
    assert np.array_equal(wide[::2], want)
    assert (wide[1::2] == x_of(40)).all()
    frozen = x_of(40)
    frozen.flags.writeable = False
    with pytest.raises(AutofuseError, match="read-only"):
        k(frozen)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([1.0, 2.0],), "must be a NumPy array"),
        ((), "input x is missing"),
        ((x_of(4), x_of(4)), "takes 1 input"),
        ((x_of(4).astype(np.float64),), "float64"),
        ((x_of(4).reshape(2, 2),), "rank 2"),
        ((np.float32(3),), "not a number"),
    ],
)
def test_arguments_that_do_not_fit(kernel, arguments, text):
    with pytest.raises(AutofuseError, match=text) as caught:
        kernel(*arguments)
    assert caught.value.diagnostics[0].code == "AF5007"


def test_an_unknown_name_is_named(kernel):
    with pytest.raises(AutofuseError, match="these are: x"):
        kernel(z=x_of(4))


def test_threads_do_not_disturb_each_other(kernel):
    def job(n):
        x = x_of(n)
        return np.array_equal(kernel(x), np.abs(x))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(job, range(1, 400)))


def test_symbols_are_solved_exactly(abs_graph):
    shape = (parse("s0*4 + 2"), CeilDiv(sym("s1"), 2), sym("s0") * sym("s1"))
    symbols = (Symbol("s0", 1, 100), Symbol("s1", 1, 100))
    g = replace(
        abs_graph,
        symbols=symbols,
        tensors={**abs_graph.tensors, "x": replace(abs_graph.tensors["x"], shape=shape)},
    )
    assert solve_symbols(g, {"x": (14, 3, 18)}, {}) == {"s0": 3, "s1": 6}
    assert solve_symbols(g, {"x": (14, 3, 15)}, {}) == {"s0": 3, "s1": 5}
    for bad in ((15, 3, 18), (14, 4, 18), (14, 3, 19), (402 + 4, 1, 101)):
        with pytest.raises(AutofuseError, match="AF5007"):
            solve_symbols(g, {"x": bad}, {})
    alone = replace(g, tensors={**g.tensors, "x": replace(g.tensors["x"], shape=shape[:2])})
    with pytest.raises(AutofuseError, match="s1 does not follow"):
        solve_symbols(alone, {"x": (14, 3)}, {})
    assert solve_symbols(alone, {"x": (14, 3)}, {"s1": 5}) == {"s0": 3, "s1": 5}


# verification ---------------------------------------------------------------------------------


def test_a_correct_kernel_passes(abs_files, abs_graph):
    r = verify_kernel(abs_files(), abs_graph, count=6, seed=1)
    assert r.ok, r.diagnostics
    assert {c.key for c in r.cases} == {0, 1}
    assert {c.status for c in r.cases} == {"passed", "not applicable"}
    assert len({c.symbols["s0"] for c in r.cases}) == 6
    assert VerifyReport.from_json(r.to_json()) == r
    assert r.to_json()["ok"] is True


BROKEN = [
    ("wrong operation", ("Abs(b, a,", "Exp(b, a,"), "AF6001", "differ"),
    ("nothing written", ("DataCopyPad(y[at], b, copy);", ""), "AF6002", "not written"),
    ("tiles left out", ("at += t.tile)", "at += 2 * t.tile)"), "AF6002", "not written"),
    ("past the end", ("y[at], b", "y[at + 1], b"), "AF5004", "gm-oob"),
    ("no EnQue", ("qin.EnQue(a);", ""), "AF5004", "DeQue"),
    ("writes the input", ("DataCopyPad(y[at], b", "DataCopyPad(x[at], b"), "AF5004", "x"),
    ("refuses all", ("key == 1 && s0 % 8 != 0", "s0 >= 0"), "AF5003", "no tiling key accepts"),
    ("fails", ("if (s0 > 1048576) {", "if (s0 >= 0) {"), "AF5003", "102"),
    (
        "wrong shape",
        ("out[0] = in[0];", "out[0] = in[0]; out[0].dims[0] += 1;"),
        "AF5003",
        "InferShape",
    ),
]


@pytest.mark.parametrize(
    ("change", "code", "text"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN]
)
def test_a_broken_kernel_is_found(abs_files, abs_graph, change, code, text):
    r = verify_kernel(abs_files(change), abs_graph, bindings=[{"s0": 1000}])
    assert not r.ok
    d = r.diagnostics[0]
    assert d.code == code
    assert text in str(d)
    assert "s0=1000" in str(d)


def test_a_comparison_that_is_wrong_for_equal_numbers_is_found():
    """3.25 is on no grid that random numbers are on: only data made for the comparison show the error."""
    x = Tensor("x", dtype("float32"), (const(1000),))
    y = replace(x, name="y", dtype=dtype("bool"))
    node = FusionNode("c", "Greater", ("x", Constant(3.25)), ("y",))
    g = FusionGraph("gt", (), ("x",), (node,), (GraphOutput("y", "y"),), {"x": x, "y": y})
    files = api.build(g).files
    assert verify_kernel(files, g, seed=3).ok
    wrong = {n: text.replace("CMPMODE::GT", "CMPMODE::GE") for n, text in files.items()}
    assert wrong != files
    r = verify_kernel(wrong, g, seed=3)
    assert {d.code for d in r.diagnostics} == {"AF6001"}
    assert "data seed 3, operands of comparisons nearly equal" in str(r.diagnostics[0])
    assert not (random_inputs(g, {}, 3)["x"] == 3.25).any()


def test_the_seed_is_named(abs_files, abs_graph):
    r = verify_kernel(
        abs_files(("Abs(b, a,", "Exp(b, a,")), abs_graph, bindings=[{"s0": 64}], seed=5
    )
    assert "data seed 5" in str(r.diagnostics[0])
    c = r.cases[0].outputs[0]
    assert c.first == (0,)
    assert c.got in str(r.diagnostics[0])


def test_only_the_rare_nan_is_not_taken_for_unwritten(abs_files, abs_graph):
    r = verify_kernel(abs_files(), abs_graph, bindings=[{"s0": 5000}], special=True)
    assert r.ok, r.diagnostics


def test_outputs_that_show_the_poison_run_once_more_together(monkeypatch):
    """Numbers that look unwritten are told from those that are by one other run, whatever the number of outputs."""
    x = Tensor("x", dtype("int8"), (const(300),))
    names = [f"y{i}" for i in range(5)]
    nodes = [FusionNode(f"n{y}", "Neg", ("x",), (y,)) for y in names]
    tensors = {"x": x} | {y: replace(x, name=y) for y in names}
    g = FusionGraph(
        "many", (), ("x",), tuple(nodes), tuple(GraphOutput(y, y) for y in names), tensors
    )
    path = compile_kernel(api.build(g).files, "many")
    poisons, run = [], TwinKernel.run
    monkeypatch.setattr(
        TwinKernel, "run", lambda *a, **k: poisons.append(k["poison"]) or run(*a, **k)
    )
    given = {"x": np.arange(300).astype(np.int8)}
    report = verify_with(TwinKernel(path, g), bindings=[{}], given=given)
    assert report.ok
    assert poisons == [0xFF, 0x7F] * len(report.cases)


def test_a_crash_and_a_loop_are_findings(abs_files, abs_graph):
    crash = abs_files(("TPipe pipe;", "TPipe pipe; *reinterpret_cast<volatile int*>(8) = 1;"))
    loop = abs_files(("TPipe pipe;", "TPipe pipe; for (volatile int i = 0; i < 1;) { }"))
    with WorkerPool(
        "autofuse.machines.twin.verify.verify:verify_job", workers=1, timeout_s=20
    ) as pool:
        assert verify_in_subprocess(abs_files(), abs_graph, pool=pool, count=2).ok
        r = verify_in_subprocess(crash, abs_graph, pool=pool, count=2)
        assert not r.ok
        assert "SIGSEGV" in str(r.diagnostics[0])
        assert verify_in_subprocess(abs_files(), abs_graph, pool=pool, count=2).ok
        pool.timeout_s = 2.0
        r = verify_in_subprocess(loop, abs_graph, pool=pool, count=2)
        assert "more than 2 s" in str(r.diagnostics[0])
    with pytest.raises(AutofuseError, match="AF5002"):
        verify_in_subprocess(abs_files(("TPipe pipe;", "nonsense")), abs_graph)


def test_a_constant_only_output(abs_graph):
    t = Tensor("x", abs_graph.tensors["x"].dtype, (const(1),))
    assert solve_symbols(replace(abs_graph, symbols=(), tensors={"x": t}), {"x": (1,)}, {}) == {}


def test_an_array_without_memory_before_it_is_no_view_with_offset() -> None:
    from autofuse.machines.twin.run.kernel import _memory_before

    buffer = np.zeros(16, np.float32)
    assert _memory_before(buffer) == 0
    assert _memory_before(buffer[4:].reshape(3, 4)) == 16
