"""Functions on vector registers in the twin: dtypes, tails, orders of accesses to UB, and faults that have to show."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from mixed_graphs import document

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.results import BuildResult

pytestmark = [pytest.mark.twin, pytest.mark.slow]

CHIP = "ascend950pr"
#: Elements: fewer than a register has, one more than a register, registers and a tail.
SIZES = (1, 65, 231, 1024)


def graph(size: int, inputs: dict[str, str], nodes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": "f",
        "inputs": [{"name": n, "dtype": d, "shape": [size]} for n, d in inputs.items()],
        "nodes": [{"name": f"n_{k}", **n} for k, n in enumerate(nodes)],
        "outputs": ["y"],
    }


def node(result: str, op: str, *inputs: str, **attrs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"outputs": [result], "op": op, "inputs": list(inputs)}
    return found | ({"attrs": attrs} if attrs else {})


def choosing(size: int) -> BuildResult:
    """Bytes, halves and floats in one function, with a mask: ``keep ? half(float(x) * exp(float(x))) : b``."""
    nodes = [
        node("wide", "Cast", "x", dtype="float32"),
        node("e", "Exp", "wide"),
        node("p", "Mul", "wide", "e"),
        node("h", "Cast", "p", dtype="float16"),
        node("y", "Select", "keep", "h", "b"),
    ]
    inputs = {"x": "float16", "b": "float16", "keep": "bool"}
    return api.build(graph(size, inputs, nodes), target=CHIP, verify_ir=True)


def said(built: BuildResult, text: str | None = None, seed: int = 0) -> list[str]:
    """What checked mode finds."""
    path = f"device/{built.name}_kernel.cpp"
    files = {**built.files, path: text or built.files[path]}
    report = verify_kernel(
        files, built.graph, count=1, opt="-O0", check="all", check_seed=seed, special=not text
    )
    return [str(d) for d in report.diagnostics]


def text_of(built: BuildResult) -> str:
    return built.files[f"device/{built.name}_kernel.cpp"]


@pytest.mark.parametrize("size", SIZES)
def test_three_widths_in_one_function(size: int) -> None:
    built = choosing(size)
    text = text_of(built)
    functions = text.count("__simd_vf__")
    assert functions >= 1
    assert text.count("LoadAlign") == 3 * functions
    assert text.count("StoreAlign") == functions
    for seed in (0, 1, 2, 3):
        assert said(built, seed=seed) == []


#: Conversions through float32, of all widths; those whose first or last cast registers do not have among them.
CASTS = (
    ("int8", "bfloat16"),
    ("uint8", "int16"),
    ("int16", "int8"),
    ("int32", "float16"),
    ("float16", "uint8"),
    ("bfloat16", "bool"),
    ("float32", "int32"),
)


@pytest.mark.parametrize(("source", "result"), CASTS)
def test_casts(source: str, result: str) -> None:
    nodes = [
        node("wide", "Cast", "x", dtype="float32"),
        {"op": "Mul", "inputs": ["wide", {"const": 1.5}], "outputs": ["m"]},
        node("y", "Cast", "m", dtype=result),
    ]
    built = api.build(graph(231, {"x": source}, nodes), target=CHIP, verify_ir=True)
    assert "__simd_vf__" in text_of(built)
    assert said(built) == []


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_masks_are_joined_in_mask_registers(dtype: str) -> None:
    nodes = [
        node("a", "Gt", "x", "b"),
        node("c", "Lt", "b", "z"),
        node("both", "LogicalAnd", "a", "c"),
        node("no", "LogicalNot", "both"),
        node("any", "LogicalOr", "no", "a"),
        node("s", "Select", "any", "x", "z"),
        node("y", "Abs", "s"),
    ]
    built = api.build(graph(231, dict.fromkeys("xbz", dtype), nodes), target=CHIP)
    text = text_of(built)
    for name in ("And(", "Or(", "Not("):
        assert f"Reg::{name}" in text
    assert said(built) == []


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint16", "uint32"])
def test_integers(dtype: str) -> None:
    nodes = [
        node("a", "Add", "x", "b"),
        node("m", "Mul", "a", "x"),
        node("c", "Maximum", "m", "b"),
        node("e", "Sub", "c", "x"),
        node("y", "Minimum", "e", "b"),
    ]
    built = api.build(graph(231, dict.fromkeys("xb", dtype), nodes), target=CHIP)
    assert "__simd_vf__" in text_of(built)
    assert said(built) == []


FAULTS = {
    "a mask of narrow lanes": ("UpdateMask<float>", "UpdateMask<half>"),
    "no last step": ("(count + 63) / 64", "count / 64"),
    "a step too far apart": ("x_local + i * 64", "x_local + i * 128"),
    "stores in one place": ("y_local + i * 64", "y_local"),
    "halves that are not spread": ("LoadDist::DIST_UNPACK_B16", "LoadDist::DIST_NORM"),
    "bytes spread too little": ("LoadDist::DIST_UNPACK4_B8", "LoadDist::DIST_UNPACK_B8"),
    "halves that are not packed": ("StoreDist::DIST_PACK_B32", "StoreDist::DIST_NORM_B16"),
    "the other half of a lane": (
        "RegLayout::ZERO, Reg::SatMode::NO_SAT",
        "RegLayout::ONE, Reg::SatMode::NO_SAT",
    ),
    "the other choice": ("CMPMODE::NE", "CMPMODE::EQ"),
    "an operation left out": ("Reg::Exp(", "Reg::Abs("),
}


@pytest.fixture(scope="module")
def built() -> BuildResult:
    return choosing(231)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(built: BuildResult, fault: str) -> None:
    text, (right, wrong) = text_of(built), FAULTS[fault]
    assert right in text
    assert said(built, text.replace(right, wrong)) != []


@pytest.mark.parametrize("call", ["autofuse::CoreFrom(0, 1)", "GetBlockIdx()", "autofuse::Lost()"])
def test_a_call_that_registers_do_not_have_is_refused(built: BuildResult, call: str) -> None:
    step = "mask = Reg::UpdateMask<float>(count);\n"
    lost = "namespace autofuse {\ntemplate <typename T = float> __aicore__ inline T Lost() { return T(1); }\n"
    text = text_of(built).replace("namespace autofuse {\n", lost, 1)
    assert said(built, text) == []
    assert step in text
    with pytest.raises(AutofuseError, match="AF5002") as refused:
        said(built, text.replace(step, f"{step}    (void){call};\n", 1))
    name = call.partition("(")[0].rpartition(":")[2]
    assert f"{name}(" in str(refused.value).partition("unsafe function call")[2]


def test_a_mask_of_all_lanes_stores_behind_the_tensor() -> None:
    nodes = [node("e", "Exp", "x"), node("y", "Abs", "e")]
    chain = api.build(graph(33, {"x": "float32"}, nodes), target=CHIP)
    text = text_of(chain)
    assert said(chain) == []
    assert said(chain, text.replace("UpdateMask<float>(count)", "CreateMask<float>()")) != []


@pytest.mark.parametrize("number", range(8))
def test_random_graphs(number: int) -> None:
    rng = Random(f"functions on registers {number}")
    while True:
        try:
            built = api.build(document(rng, 14), target=CHIP, verify_ir=True)
        except AutofuseError:
            continue
        if "__simd_vf__" in text_of(built):
            break
    report = verify_kernel(
        built.files, built.graph, count=2, opt="-O0", check="all", check_seed=number % 4
    )
    assert report.ok, "\n".join(map(str, report.diagnostics))
