"""Inputs of one element, which the scalar unit reads: every dtype that a target has, alone and in UB as well."""

from __future__ import annotations

import re
from typing import Any

import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.results import BuildResult

pytestmark = [pytest.mark.twin, pytest.mark.slow]

CHIPS = ("ascend910b1", "ascend950pr", "ascend310p")
NUMBERS = ("float16", "float32", "int8", "uint8", "bool", "int16", "uint16", "int32", "uint32")


def made(chip: str, document: dict[str, Any]) -> BuildResult:
    built = api.build(document, target=chip, verify_ir=True)
    report = verify_kernel(dict(built.files), built.graph, special=True)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    return built


def text(built: BuildResult) -> str:
    return built.files[f"device/{built.name}_kernel.cpp"]


def reads(built: BuildResult, name: str) -> tuple[int, int]:
    """Counts of scalar reads and of DMA copies of a tensor."""
    k = text(built)
    templates = k.count("inline __aicore__ void k_")
    return (
        len(re.findall(rf"= {name}_gm\.GetValue\(", k)) // templates,
        len(re.findall(rf"DataCopy\w*\({name}_local", k)),
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_scalars_of_every_dtype(chip: str) -> None:
    dtypes = [*NUMBERS, *(() if chip == "ascend310p" else ("int64", "bfloat16"))]
    inputs: dict[str, Any] = {"x": ("float32", [96, 64])}
    nodes: list[Any] = []
    for d in dtypes:
        inputs |= {f"k{d}": (d, [], {"scalar": True}), f"z{d}": (d, [1])}
        nodes += [
            (f"kf{d}", "Cast", [f"k{d}"], {"dtype": "float32"}),
            (f"zf{d}", "Cast", [f"z{d}"], {"dtype": "float32"}),
            (f"s{d}", "Mul", ["x", f"kf{d}"]),
            (f"y{d}", "Add", [f"s{d}", f"zf{d}"]),
        ]
    built = made(chip, graph(inputs, nodes, [f"y{d}" for d in dtypes]))
    for name in inputs.keys() - {"x"}:
        assert reads(built, name) == (1, 0), name


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_scalars_that_calls_take_as_such_have_no_place_in_ub(chip: str, dtype: str) -> None:
    inputs = {"x": (dtype, ["n*16"]), "k": (dtype, [1])}
    nodes: list[Any] = [("s", "Mul", ["x", "k"]), ("y", "Maximum", ["s", "k"])]
    built = made(chip, graph(inputs, nodes, n={"min": 1, "max": 5000, "hint": 64}))
    assert reads(built, "k") == (1, 0)
    assert "k_local" not in text(built)
    assert "k_buf" not in text(built)


@pytest.mark.parametrize("chip", CHIPS)
def test_an_element_of_a_tensor_is_read_where_it_is(chip: str) -> None:
    part = {"starts": [3, 5], "shape": [1, 1]}
    inputs = {"x": ("float32", [32, 64]), "w": ("float32", [7, 9])}
    nodes: list[Any] = [("k", "Slice", ["w"], part), ("y", "Sub", ["x", "k"])]
    built = made(chip, graph(inputs, nodes))
    assert "w_gm.GetValue(32)" in text(built)
    assert reads(built, "w")[1] == 0


@pytest.mark.parametrize("chip", CHIPS)
def test_a_scalar_beside_reductions_and_conditions(chip: str) -> None:
    inputs = {"x": ("float32", [40, 64]), "k": ("float32", [1]), "c": ("bool", [1])}
    nodes: list[Any] = [
        ("m", "ReduceMax", ["x"], {"axes": [1], "keepdims": True}),
        ("d", "Sub", ["x", "m"]),
        ("g", "Greater", ["d", "k"]),
        ("e", "Select", ["g", "d", "k"]),
        ("y", "Select", ["c", "e", "x"]),
    ]
    built = made(chip, graph(inputs, nodes))
    assert reads(built, "k")[1] == reads(built, "c")[1] == 0


def test_faults_are_found() -> None:
    """The vector pipe has to wait for what the scalar unit puts into UB."""
    inputs = {"x": ("float32", [96, 64]), "k": ("int32", [1])}
    nodes: list[Any] = [("f", "Cast", ["k"], {"dtype": "float32"}), ("y", "Mul", ["x", "f"])]
    built = made("ascend910b1", graph(inputs, nodes))
    sync = re.search(r"  \{\n.*HardEvent::S_V.*\n.*\n.*\n.*\n  \}\n", text(built))
    assert sync is not None
    path = f"device/{built.name}_kernel.cpp"
    files = {**built.files, path: text(built).replace(sync[0], "")}
    report = verify_kernel(files, built.graph)
    assert any("race" in str(d) for d in report.diagnostics), report.diagnostics
