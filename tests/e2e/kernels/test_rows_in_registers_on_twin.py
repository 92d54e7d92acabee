"""Rows in vector registers in the twin: dtypes, tails, orders of accesses to UB, and faults that have to show."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from row_graphs import (
    FAMILIES,
    NORMS,
    elements_of_rows,
    graph,
    layer_norm,
    node,
    random_rows,
    reduced,
    shifted_softmax,
    softmax,
    weighed_layer_norm,
)

from autofuse import api
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.results import BuildResult

pytestmark = [pytest.mark.twin, pytest.mark.slow]

CHIP = "ascend950pr"
#: Rows and their elements: registers with a tail, prime numbers, one row, more than fit the registers.
SHAPES = ((77, 250), (41, 1021), (1, 768), (130, 2100))
#: The orders of accesses to UB.
SEEDS = (0, 1, 2, 3)


def built(document: Any) -> BuildResult:
    return api.build(document, target=CHIP, verify_ir=True)


def text_of(b: BuildResult) -> str:
    return b.files[f"device/{b.name}_kernel.cpp"]


def said(b: BuildResult, text: str | None = None, seed: int = 0, special: bool = True) -> list[str]:
    """What checked mode finds; with special values among the data, unless the text is another one."""
    path = f"device/{b.name}_kernel.cpp"
    files = {**b.files, path: text or b.files[path]}
    report = verify_kernel(
        files,
        b.graph,
        count=1,
        opt="-O0",
        check="all",
        check_seed=seed,
        special=special and not text,
    )
    return [] if report.ok else [str(d) for d in report.diagnostics]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NORMS)
def test_rows(name: str, shape: tuple[int, int]) -> None:
    dtypes = ("float32", "float16", "bfloat16")
    which = (list(NORMS).index(name) + SHAPES.index(shape)) % len(dtypes)
    b = built(NORMS[name](*shape, dtypes[which]))
    assert "uint16_t rows" in text_of(b)
    for seed in SEEDS:
        assert said(b, seed=seed) == []


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "cross_entropy"])
def test_families(name: str) -> None:
    """What is one function for a tile, of rows that are kept and of rows that are streamed."""
    for k, cols in enumerate((250, 768, 2100)):
        b = built(FAMILIES[name](70, cols, ("float32", "float16", "bfloat16")[k]))
        assert said(b, seed=k, special=False) == []


@pytest.mark.parametrize("cols", [250, 1021, 2100])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights_that_rows_share(cols: int, dtype: str) -> None:
    b = built(weighed_layer_norm(13, cols, dtype, batches=5))
    assert "uint16_t rows" in text_of(b)
    for seed in SEEDS[:2]:
        assert said(b, seed=seed, special=False) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_row_that_is_widened_once(dtype: str) -> None:
    """The function loads it from its place for each row; what the plan puts there in the loop is in registers."""
    nodes = [node(f"wide_{x}", "Cast", x, dtype="float32") for x in ("x", "w")]
    nodes += [node("sum", "Add", "wide_x", "wide_w"), node("e", "Exp", "sum")]
    nodes.append(node("y", "Cast", "e", dtype=dtype))
    b = built(graph([1024, 256], dtype, nodes, ("y",), w=(dtype, [256])))
    assert "uint16_t rows" in text_of(b)
    assert "Broadcast" not in text_of(b)
    for seed in SEEDS:
        assert said(b, seed=seed) == []


@pytest.mark.parametrize("cols", [500, 4096])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_of_all_rows(cols: int, dtype: str) -> None:
    """Two rows, one of which may have lost its place to the other, or to what is streamed."""
    b = built(weighed_layer_norm(70, cols, dtype))
    assert "uint16_t rows" in text_of(b)
    for seed in SEEDS[:2]:
        assert said(b, seed=seed, special=False) == []


@pytest.mark.parametrize("cols", [1999, 2048, 8192])
def test_results_where_operands_were(cols: int) -> None:
    document = weighed_layer_norm(70, cols) if cols == 8192 else shifted_softmax(70, cols)
    b = built(document)
    assert "uint16_t rows" in text_of(b)
    for seed in SEEDS:
        assert said(b, seed=seed) == []


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", ["int32", "float16", "float32"])
def test_reductions(op: str, dtype: str) -> None:
    """Special values among the data: infinities, NaN, the least and the greatest numbers."""
    assert said(built(reduced(op, 41, 499, dtype))) == []


#: A dtype, that of the sum, the reduction, whether it keeps axes, rows and their elements.
ELEMENTS: tuple[tuple[str, str, str, bool, int, int], ...] = (
    ("int8", "", "ReduceSum", True, 127, 40),
    ("int8", "uint8", "ReduceMax", False, 113, 53),
    ("uint8", "int8", "ReduceMin", True, 131, 61),
    ("uint8", "int16", "ReduceSum", False, 127, 40),
    ("int8", "float16", "ReduceMax", True, 61, 127),
    ("int16", "float16", "ReduceMin", True, 31, 61),
    ("int16", "", "ReduceSum", True, 127, 40),
    ("uint16", "", "ReduceMax", False, 127, 61),
    ("float16", "", "ReduceSum", True, 131, 40),
    ("bfloat16", "", "ReduceMin", True, 127, 61),
)


@pytest.mark.parametrize(("dtype", "as_dtype", "kind", "keepdims", "rows", "cols"), ELEMENTS)
def test_elements_of_rows_where_the_accumulator_is(
    dtype: str, as_dtype: str, kind: str, keepdims: bool, rows: int, cols: int
) -> None:
    document = elements_of_rows(kind, dtype, rows, cols, as_dtype=as_dtype, keepdims=keepdims)
    assert said(built(document), special=False) == []


@pytest.mark.parametrize("cols", [1, 7, 65])
def test_short_rows(cols: int) -> None:
    for seed in SEEDS:
        assert said(built(softmax(300, cols)), seed=seed) == []


@pytest.mark.parametrize("number", range(12))
def test_random_graphs(number: int) -> None:
    rng = Random(f"rows in registers {number}")
    cols = rng.choice([128, 255, 499, 1024, 1999])
    b = built(random_rows(rng, rng.choice([1, 65, 130]), cols, rng.choice(["float32", "int32"])))
    assert said(b, seed=number % 4) == []


FAULTS = {
    "a mask of other lanes": ("part_lanes = 38;", "part_lanes = 40;"),
    "a mask of fewer lanes": ("part_lanes = 38;", "part_lanes = 37;"),
    "lanes of the row that are not stored": ("row_lanes = 40;", "row_lanes = 30;"),
    "another neutral element": ("Duplicate(zero_float32, 0.0f)", "Duplicate(zero_float32, 9.0f)"),
    "a join of other registers": (
        "x_local_reg2, x_local_reg3, all",
        "x_local_reg2, x_local_reg2, all",
    ),
    "another reduction": ("Reduce<Reg::ReduceType::SUM>", "Reduce<Reg::ReduceType::MAX>"),
    "rows that lie apart": ("x_local + r * 1000 + 64", "x_local + r * 998 + 64"),
    "a row less": ("r < rows", "r + 1 < rows"),
    "the wrong part of a row": ("r * 1000 + 128", "r * 1000 + 192"),
}


@pytest.fixture(scope="module")
def norm() -> BuildResult:
    return built(layer_norm(200, 998))


def test_a_norm_without_faults(norm: BuildResult) -> None:
    assert said(norm) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(norm: BuildResult, fault: str) -> None:
    text, (right, wrong) = text_of(norm), FAULTS[fault]
    assert right in text
    assert said(norm, text.replace(right, wrong)) != []


STREAMED_FAULTS = {
    "no barrier before what was stored is loaded": (
        "Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>();",
        "",
    ),
    "partial results that begin with another number": ("_reg2, 0.0f)", "_reg2, 1.0f)"),
    "a loop that ends early": ("i < 8;", "i < 7;"),
    "iterations that overlap": ("i * 256", "i * 192"),
}


def test_a_missing_barrier_before_results_in_place_is_found() -> None:
    """The last register of a row is loaded with what the next row stores over."""
    b = built(shifted_softmax(1000, 2100))
    barrier = "Reg::LocalMemBar<Reg::MemType::VEC_LOAD, Reg::MemType::VEC_STORE>();"
    assert barrier in text_of(b)
    assert said(b, text_of(b).replace(barrier, ""), seed=1) != []


@pytest.fixture(scope="module")
def streamed() -> BuildResult:
    return built(softmax(400, 2100))


@pytest.mark.parametrize("fault", STREAMED_FAULTS)
def test_a_fault_of_streamed_rows_is_found(streamed: BuildResult, fault: str) -> None:
    text, (right, wrong) = text_of(streamed), STREAMED_FAULTS[fault]
    assert right in text
    assert said(streamed, text.replace(right, wrong), seed=1) != []
