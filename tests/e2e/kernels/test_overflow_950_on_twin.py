"""Overflow, infinities and NaN on Ascend 950: what kernels give, and that a control bit set or left wrong shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autofuse import api
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.results import BuildResult
from autofuse.targets import load_target

pytestmark = [pytest.mark.twin, pytest.mark.slow]

CHIP = "ascend950pr"
SET, KEPT = "  SetCtrlSpr<48, 48>(1);\n", "  SetCtrlSpr<48, 48>(autofuse_overflows);\n"
#: Beyond the largest number of each narrower type, its neighbours, and what is not finite.
VALUES = (
    1e6,
    -1e6,
    65504.0,
    65519.0,
    65520.0,
    -65520.0,
    3.3e38,
    3.4e38,
    -3.4e38,
    300.0,
    -129.5,
    2.5,
)
VALUES += (np.inf, -np.inf, np.nan, 3e9, -3e9, 40000.0, 0.0, -0.0)


def graph(inputs: dict[str, tuple[str, list[int]]], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": "over",
        "inputs": [{"name": n, "dtype": d, "shape": s} for n, (d, s) in inputs.items()],
        "nodes": [{"name": f"n_{k}", **n} for k, n in enumerate(nodes)],
        "outputs": ["y"],
    }


def cast(source: str, result: str, shape: list[int]) -> dict[str, Any]:
    node = {"op": "Cast", "inputs": ["x"], "outputs": ["y"], "attrs": {"dtype": result}}
    return graph({"x": (source, shape)}, [node])


def chain(source: str, result: str, shape: list[int]) -> dict[str, Any]:
    """A cast in a function on registers."""
    first = {"op": "Abs", "inputs": ["x"], "outputs": ["a"]}
    second = {"op": "Sub", "inputs": ["a", "x"], "outputs": ["s"]}
    third = {"op": "Cast", "inputs": ["s"], "outputs": ["y"], "attrs": {"dtype": result}}
    return graph({"x": (source, shape)}, [first, second, third])


def row_maximum(source: str, result: str, shape: list[int]) -> dict[str, Any]:
    """Casts of both kinds, in device functions and in functions of rows, by the template."""
    first = {"op": "ReduceMax", "inputs": ["x"], "outputs": ["m"], "attrs": {"axes": [1]}}
    second = {"op": "Cast", "inputs": ["m"], "outputs": ["y"], "attrs": {"dtype": result}}
    return graph({"x": (source, shape)}, [first, second])


def text_of(built: BuildResult) -> str:
    return built.files[f"device/{built.name}_kernel.cpp"]


def said(built: BuildResult, text: str | None = None, special: bool = False) -> list[str]:
    """Result of a verification with these values."""
    path = f"device/{built.name}_kernel.cpp"
    files = {**built.files, path: text or built.files[path]}
    report = verify_kernel(files, built.graph, count=1, seed=3, special=special)
    return [str(d) for d in report.diagnostics if d.severity == "error"]


def expected(x: np.ndarray, dtype: str) -> np.ndarray:
    """Floats overflow to infinity; integers take the nearest number, and NaN is 0."""
    to = numpy_dtype(BY_NAME[dtype])
    with np.errstate(all="ignore"):
        if BY_NAME[dtype].kind == "f":
            return x.astype(to)
        limits = np.iinfo(to)
        wide = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30))
        return np.array(
            [min(max(int(v), limits.min), limits.max) for v in wide.ravel()], to
        ).reshape(x.shape)


FORMS = {"a call": cast, "registers": chain, "rows": row_maximum}
PAIRS = [
    ("float32", "float16"),
    ("float32", "bfloat16"),
    ("bfloat16", "float16"),
    ("float16", "bfloat16"),
    ("float16", "int8"),
    ("float16", "uint8"),
    ("float32", "int16"),
    ("float32", "int32"),
    ("float32", "int8"),
    ("bfloat16", "int32"),
]


@pytest.mark.parametrize(("source", "result"), PAIRS)
def test_casts_give_what_numpy_gives(source: str, result: str) -> None:
    built = api.build(cast(source, result, [200]), target=CHIP)
    path = compile_kernel(built.files, built.name, opt="-O0", checked=True)
    run = TwinKernel(path, built.graph, check="all", chip=load_target(CHIP))
    with np.errstate(all="ignore"):
        x = np.resize(np.array(VALUES, np.float32), 200).astype(numpy_dtype(BY_NAME[source]))
    got, want = run(x), expected(x, result)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("result", ["float16", "bfloat16"])
def test_the_control_bit_decides(form: str, result: str) -> None:
    built = api.build(FORMS[form]("float32", result, [45, 1000]), target=CHIP)
    text = text_of(built)
    assert text.count(SET) == text.count(KEPT) == 1
    assert said(built) == []
    assert any("differ" in d for d in said(built, text.replace(SET, "")))
    forgotten = text.replace(KEPT, "  (void)autofuse_overflows;\n")
    assert any("control-bits" in d for d in said(built, forgotten))


@pytest.mark.parametrize("bit", ["<60, 60>(0)", "<59, 59>(1)", "<53, 53>(1)"])
def test_a_bit_that_is_left_changed_is_found(bit: str) -> None:
    built = api.build(cast("float32", "float16", [45, 1000]), target=CHIP)
    text = text_of(built)
    assert any(
        "control-bits" in d for d in said(built, text.replace(KEPT, f"{KEPT}  SetCtrlSpr{bit};\n"))
    )


@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_arithmetic_of_halves_overflows(op: str) -> None:
    node = {"op": op, "inputs": ["x", "x"], "outputs": ["y"]}
    built = api.build(graph({"x": ("float16", [300])}, [node]), target=CHIP)
    assert said(built, special=True) == []
    assert said(built, text_of(built).replace(SET, ""), special=True) != []


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_kernels_without_short_floats_leave_the_register_alone(dtype: str) -> None:
    node = {"op": "Add", "inputs": ["x", "x"], "outputs": ["y"]}
    built = api.build(graph({"x": (dtype, [300])}, [node]), target=CHIP)
    assert "CtrlSpr" not in text_of(built)
    assert said(built) == []


@pytest.mark.parametrize("chip", ["ascend910b1", "ascend310p"])
def test_other_chips_have_no_such_bits(chip: str) -> None:
    built = api.build(cast("float32", "float16", [320]), target=chip)
    assert "CtrlSpr" not in text_of(built)
    assert said(built) == []
