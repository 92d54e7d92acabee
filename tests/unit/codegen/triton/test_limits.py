"""What triton-ascend lacks is refused, and blocks fit UB."""

from random import Random
from typing import Any

import draws
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton import limits
from autofuse.codegen.backends.triton.blocks import rows_of_core
from autofuse.codegen.backends.triton.kernels import Blocks, Form, Kernel
from autofuse.codegen.backends.triton.plan import plan
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.lowering.lowering import lower
from autofuse.targets import load_gpu

TARGET = load_gpu("triton-ascend910b1")


def graph(op: str, dtype: str, inputs: list[Any], shape: list[int], **attrs: Any) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": "case",
        "inputs": [{"name": n, "dtype": dtype, "shape": shape} for n in ("a", "b") if n in inputs],
        "nodes": [{"name": "n", "op": op, "inputs": inputs, "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }


def kernels(source: dict[str, Any]) -> tuple[Kernel, ...]:
    read = api.read(source)
    return plan(read, lower(read), TARGET).kernels


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (graph("Add", "uint8", ["a", "b"], [99]), "values of uint8"),
        (graph("Add", "uint64", ["a", "b"], [99]), "values of uint64"),
        (graph("Maximum", "uint16", ["a", "b"], [99]), "values of uint16"),
        (graph("Pow", "float32", ["a", "b"], [99]), "float64, in which Pow of floats is computed"),
        (graph("LShift", "int32", ["a", "b"], [99]), "LShift by a count per element"),
        (graph("CumSum", "float32", ["a"], [9, 9], axis=1, reverse=True), "running sum from the"),
    ],
)
def test_what_the_compiler_lacks_is_refused(source: dict[str, Any], what: str) -> None:
    with pytest.raises(AutofuseError, match=f"AF3001: triton-ascend has no {what}") as e:
        api.build(source, target=TARGET)
    assert e.value.diagnostics[0].where.pointer.startswith(("/inputs/", "/nodes/0"))
    api.build(source, target="nvidia-h100")


@pytest.mark.parametrize(
    "source",
    [
        graph("Pow", "int32", ["a", "b"], [99]),
        graph("LShift", "int32", ["a", {"const": 3}], [99]),
        graph("CumSum", "float32", ["a"], [9, 9], axis=1),
        graph("Greater", "int8", ["a", "b"], [99]),
    ],
)
def test_what_is_like_it_is_not(source: dict[str, Any]) -> None:
    api.build(source, target=TARGET)


@pytest.mark.parametrize("op", ["Abs", "Gelu", "Tanh", "Softmax", "ReduceMax", "CumSum"])
@pytest.mark.parametrize("shape", [[1], [7, 131], [3, 40_009], [100_003, 17], [5, 1 << 20]])
def test_blocks_fit_ub(op: str, shape: list[int]) -> None:
    axis = {
        "Softmax": {"axis": -1},
        "CumSum": {"axis": -1},
        "ReduceMax": {"axes": [len(shape) - 1]},
    }
    found = kernels(graph(op, "float32", ["a"], shape, **axis.get(op, {})))
    assert found
    for k in found:
        b = k.blocks
        assert b is not None
        assert b.parts == 1
        elements = b.rows * b.cols
        # The input and the result at least; a device function holds more than these.
        assert elements * 8 <= TARGET.ub_bytes // 2
        assert op != "Gelu" or elements * 32 <= TARGET.ub_bytes // 2
        assert b.chunks <= TARGET.multiprocessors


def test_blocks_are_cut_and_grow() -> None:
    seed = draws.seed()
    rng = Random(seed)
    (k,) = kernels(graph("Abs", "float32", ["a"], [4096]))
    core = limits.core_of(TARGET)
    assert core is not None
    most = core.elements(k.nest)
    assert most & (most - 1) == 0
    assert most * 8 <= core.room < most * 16
    for _ in range(200):
        b = Blocks(1 << rng.randrange(12), 1 << rng.randrange(16), warps=8, stages=3)
        rows = rng.randrange(1, 1 << 24)
        found = core.fitted(b, Form.LOOP, k.nest, rows)
        assert found.rows * found.cols <= most, (seed, b)
        assert found.cols <= b.cols, (seed, b)
        assert found.stages == 1
        full = found.rows * found.cols * 2 > most
        assert full or -(-rows // found.rows) <= core.cores or found.rows == b.rows, (seed, b, rows)
        cols = rng.randrange(most + 1)
        side, held = rows_of_core(rows, cols, most, core.cores)
        assert side * held <= most
        assert held >= max(cols, 1) > held // 2
    assert core.whole_rows(Blocks(1, 2 * most), k.nest, 1) is None
    assert core.whole_rows(Blocks(1, 8, parts=2), k.nest, 1) is None
    with pytest.raises(AutofuseError, match="AF3003: a row of"):
        core.fitted(Blocks(1, 2 * most), Form.ROWS, k.nest, 1)


def test_rows_have_sums_beside_them_where_these_fit() -> None:
    core = limits.core_of(TARGET)
    assert core is not None
    assert core.has_room_for_sums(Expr.of(96), 2)
    assert not core.has_room_for_sums(Expr.of(1 << 14), 1)
