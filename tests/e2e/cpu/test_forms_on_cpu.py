"""Each form of loops at sizes of every kind, with one thread and with several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from triton_checks import found_wrong
from triton_graphs import ONLINE, WAITING

from autofuse import api
from autofuse.codegen.backends.cpu.loops import Form, Threads
from autofuse.codegen.backends.cpu.plan import plan
from autofuse.compiler import Stages, lower_to_plan
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.targets import load_cpu

pytestmark = pytest.mark.twin

Node = tuple[str, list[str], dict[str, Any]]
#: What each graph does with ``x``, ``[rows, cols]``.
GRAPHS: Mapping[str, Sequence[Node]] = {
    "elements": [("Exp", ["x"], {})],
    "tiles": [("Transpose", ["x"], {"perm": [1, 0]})],
    "softmax": [("Softmax", ["x"], {"axis": 1})],
    "columns": [("ReduceSum", ["x"], {"axes": [0]}), ("Tanh", ["y0"], {})],
    "down_softmax": [("Softmax", ["x"], {"axis": 0})],
    "largest": [("ReduceMax", ["x"], {"axes": [0, 1]})],
    "running": [("CumSum", ["x"], {"axis": 1, "reverse": True})],
    "down": [("CumSum", ["x"], {"axis": 0, "exclusive": True})],
}
#: Sizes 0 and 1, primes, whole blocks and their neighbours.
SIZES = [(0, 5), (5, 0), (1, 1), (1, 67), (67, 1), (31, 33), (32, 256), (33, 257)]
#: From here on threads share the loops.
LARGE = {
    "elements": (3, 20011),
    "tiles": (211, 307),
    "softmax": (97, 1031),
    "columns": (4099, 13),
    "down_softmax": (1031, 97),
    "largest": (3, 40009),
    "running": (7, 9001),
    "down": (9001, 7),
}


def document(
    name: str, rows: int | str = "rows", cols: int | str = "cols", dtype: str = "float32"
) -> dict[str, Any]:
    nodes, before = [], 0
    for k, (op, inputs, attrs) in enumerate(GRAPHS[name]):
        nodes.append(
            {"name": f"n{k}", "op": op, "inputs": inputs, "outputs": [f"y{k}"], "attrs": attrs}
        )
        before = k
    symbols = {s: {"min": 0, "max": 65536} for s in (rows, cols) if isinstance(s, str)}
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": symbols,
        "inputs": [{"name": "x", "dtype": dtype, "shape": [rows, cols]}],
        "nodes": nodes,
        "outputs": [f"y{before}"],
    }


@pytest.mark.parametrize("name", GRAPHS)
def test_sizes_of_every_kind(loops: WorkerPool, name: str) -> None:
    empty = name in ("softmax", "down_softmax", "largest")
    sizes = [s for s in SIZES if not (empty and 0 in s)]
    bindings = [{"rows": r, "cols": c} for r, c in [*sizes, LARGE[name]]]
    assert not found_wrong(loops, document(name), bindings=bindings, target="cpu", opt="-O1")


@pytest.mark.parametrize("name", ["elements", "tiles", "softmax", "columns", "running"])
def test_runs_of_16_bits(loops: WorkerPool, name: str) -> None:
    bindings = [{"rows": r, "cols": c} for r, c in [(1, 1), (33, 255), (5, 257), (600, 17)]]
    graph = document(name, dtype="float16")
    assert not found_wrong(loops, graph, bindings=bindings, target="cpu", opt="-O1")


@pytest.mark.parametrize("name", ["softmax", "columns", "largest", "down"])
def test_known_sizes(loops: WorkerPool, name: str) -> None:
    graph = document(name, *LARGE[name])
    assert not found_wrong(loops, graph, bindings=[{}], target="cpu", opt="-O1")


@pytest.mark.parametrize("name", ["softmax", "columns", "largest", "tiles"])
def test_nan_and_infinities(loops: WorkerPool, name: str) -> None:
    bindings = [{"rows": 37, "cols": 53}]
    graph = document(name)
    assert not found_wrong(loops, graph, bindings=bindings, special=True, target="cpu", opt="-O3")


@pytest.mark.parametrize("what", [*ONLINE, *WAITING])
def test_sums_of_powers(loops: WorkerPool, what: str) -> None:
    graph = {**ONLINE, **WAITING}[what]("rows", "cols")
    bindings = [{"rows": r, "cols": c} for r, c in [(1, 1), (37, 53), (3, 517)]]
    for special in (False, True):
        assert not found_wrong(
            loops, graph, bindings=bindings, special=special, target="cpu", opt="-O1"
        )


#: Steps of each graph of short rows, on ``x`` and a row ``w``; a result that no step reads is an output.
SHORT: Mapping[str, Sequence[Node]] = {
    "softmax": [("Softmax", ["x"], {"axis": -1})],
    "scaled": [
        ("ReduceMax", ["x"], {"axes": [-1], "keepdims": True}),
        ("Sub", ["x", "y0"], {}),
        ("Mul", ["y1", "w"], {}),
    ],
    "running": [("CumSum", ["x"], {"axis": -1})],
    "sums": [("ReduceSum", ["x"], {"axes": [-1]}), ("Abs", ["y0"], {})],
    "largest": [("ArgMax", ["x"], {"axis": -1})],
    "signs": [
        ("ReduceMax", ["x"], {"axes": [-1], "keepdims": True}),
        ("Equal", ["x", "y0"], {}),
    ],
}


def short(name: str, shape: Sequence[Any], dtype: str, **of_x: Any) -> dict[str, Any]:
    nodes = [
        {"name": f"n{k}", "op": op, "inputs": inputs, "outputs": [f"y{k}"], "attrs": attrs}
        for k, (op, inputs, attrs) in enumerate(SHORT[name])
    ]
    used = {x for _, inputs, _ in SHORT[name] for x in inputs}
    inputs = [{"name": "x", "dtype": dtype, "shape": list(shape), **of_x}]
    if "w" in used:
        inputs.append({"name": "w", "dtype": dtype, "shape": [shape[-1]]})
    symbols = {s: {"min": 0, "max": 65536} for s in shape if isinstance(s, str)}
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": symbols,
        "inputs": inputs,
        "nodes": nodes,
        "outputs": [y for y in (f"y{k}" for k in range(len(nodes))) if y not in used],
    }


def form_of(document: Mapping[str, Any]) -> Form:
    graph = api.read(document)
    (loops,) = plan(graph, lower_to_plan(graph, Stages()), load_cpu("cpu")).loops
    return loops.form


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("cols", [2, 39, 64])
def test_short_rows(loops: WorkerPool, cols: int, dtype: str) -> None:
    """All rows fit one block, fill it, or leave a rest, and threads share the blocks."""
    bindings = [{"rows": r} for r in (0, 1, 31, 32, 33, 2101)]
    for name in SHORT:
        if dtype == "int32" and name == "softmax":
            continue
        graph = short(name, ["rows", cols], dtype)
        if name != "largest":
            assert form_of(graph) is Form.TURNED
        # A chain of float16 rounds once, so that products of numbers that overflow in between differ.
        for special in {False, dtype == "float32"}:
            assert not found_wrong(
                loops, graph, bindings=bindings, special=special, target="cpu", opt="-O1"
            )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_short_rows_with_gaps_and_of_several_axes(loops: WorkerPool, dtype: str) -> None:
    gaps = short("scaled", [70, 9], dtype, strides=[20, 1])
    several = short("softmax", [3, "rows", 9], dtype)
    with_gaps = short("softmax", [3, 70, 9], dtype, strides=[1600, 20, 1])
    for graph, bindings in (
        (gaps, [{}]),
        (several, [{"rows": r} for r in (1, 33, 64)]),
        (with_gaps, [{}]),
    ):
        assert form_of(graph) is Form.TURNED
        assert not found_wrong(loops, graph, bindings=bindings, target="cpu", opt="-O3")


def test_rows_that_are_not_turned() -> None:
    """Long ones, few ones, and those of a size that is not known."""
    for shape in ([4096, 65], [31, 8], [4096, 1], [4096, "cols"]):
        assert form_of(short("scaled", shape, "float32")) is not Form.TURNED


FORMS = {
    "elements": (Form.ELEMENTS, Threads.OUTER),
    "tiles": (Form.TILES, Threads.OUTER),
    "softmax": (Form.ROWS, Threads.OUTER),
    "columns": (Form.COLUMNS, Threads.REDUCED),
    "largest": (Form.ROWS, Threads.REDUCED),
    "running": (Form.ROWS, Threads.ONE),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_planned(name: str) -> None:
    graph = api.read(document(name, *LARGE[name]))
    program = plan(graph, lower_to_plan(graph, Stages()), load_cpu("cpu"))
    (loops,) = program.loops
    assert (loops.form, loops.threads) == FORMS[name]


def test_an_exponential_is_kept_for_the_next_pass() -> None:
    graph = api.read(document("softmax", 97, 1031))
    (loops,) = plan(graph, lower_to_plan(graph, Stages()), load_cpu("cpu")).loops
    assert len(loops.kept) == 1


@pytest.mark.parametrize(("rows", "shared"), [(8, False), (1 << 12, True)])
def test_threads_are_for_large_sizes(rows: int, shared: bool) -> None:
    text = api.build(document("elements", rows, 64), target="cpu").files["elements.cpp"]
    assert ("#pragma omp parallel" in text) is shared


def test_the_text_is_a_function_of_the_graph() -> None:
    first, second = (api.build(document("softmax"), target="cpu").files for _ in range(2))
    assert first == second
    assert set(first) == {"softmax.cpp", "softmax.graph.json"}


def test_a_call_in_this_process() -> None:
    kernel = api.load(api.build(document("softmax"), target="cpu"))
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(kernel(x), e / e.sum(1, keepdims=True), rtol=1e-6)
    # Another layout in memory is copied.
    np.testing.assert_array_equal(kernel(x[:, ::-1]), kernel(np.ascontiguousarray(x[:, ::-1])))


def test_a_long_sum_does_not_depend_on_what_the_compiler_makes_of_it(loops: WorkerPool) -> None:
    """One accumulator, as without optimisation, would lose a thousandth and more of so many squares."""
    nodes = [
        {"name": "n0", "op": "Square", "inputs": ["x"], "outputs": ["y0"], "attrs": {}},
        {
            "name": "n1",
            "op": "ReduceSum",
            "inputs": ["y0"],
            "outputs": ["y"],
            "attrs": {"axes": [0]},
        },
    ]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "squares",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4_000_000]}],
        "nodes": nodes,
        "outputs": ["y"],
    }
    assert not found_wrong(loops, graph, target="cpu", opt="-O0")


def test_a_rounding_that_only_casts_name(loops: WorkerPool) -> None:
    nodes = [
        ("c", "Cast", ["x"], {"dtype": "int32", "round": "ROUND"}),
        ("m", "ReduceMax", ["c"], {"axes": [1], "keepdims": True}),
        ("y", "Sub", ["c", "m"], {}),
    ]
    graph = document("softmax", 5, 67) | {
        "nodes": [
            {"name": y, "op": op, "inputs": xs, "outputs": [y], "attrs": attrs}
            for y, op, xs, attrs in nodes
        ],
        "outputs": ["y"],
    }
    assert not found_wrong(loops, graph, bindings=[{}], target="cpu", opt="-O1")
