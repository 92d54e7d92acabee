"""Generated Triton text, executed with NumPy: masks, tails and joins, of every form, beside results in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from triton_graphs import ALONG, DOWN, Node, graph
from triton_in_numpy import run

from autofuse import api
from autofuse.codegen.backends.triton import blocks
from autofuse.codegen.backends.triton.blocks import power
from autofuse.codegen.backends.triton.kernels import Blocks

F32 = "float32"
Rules = dict[str, Callable[..., Any]]
#: Rows and columns: tails in every dimension of a block, whole blocks, and one more than these.
SIZES = ((5, 37), (1, 1), (4, 64), (9, 33), (3, 31), (2, 65))


def _fixed(rows: int, cols: int, **more: int) -> Callable[..., Blocks]:
    return lambda *given: Blocks(rows, cols, **more)


def _held(rows: int, parts: int = 1) -> Rules:
    def rule(count: int, cols: int, *given: Any) -> Blocks | None:
        return Blocks(rows, power(cols) // parts, parts) if power(cols) >= parts else None

    return {"rows_in_registers": rule, "looped": _fixed(rows, 8)}


def _looped(rows: int, cols: int, **more: int) -> Rules:
    return {"rows_in_registers": lambda *given: None, "looped": _fixed(rows, cols, **more)}


#: Forms of kernels with reductions, and words of their text.
FORMS: dict[str, tuple[Rules, str]] = {
    "as the rules choose": ({}, ""),
    "four rows": (_held(4), "ROWS=4, COLS=64"),
    "two rows in four parts": (_held(2, 4), "PARTS=4, ROWS=2, COLS=16"),
    "loop": (_looped(1, 8), "ROWS=1, COLS=8"),
    "loop of four rows": (_looped(4, 16), "ROWS=4, COLS=16"),
    "chunks": (_looped(2, 8, chunks=2), "(triton.cdiv(5, 2), 2, 1)"),
}


def _set(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rule in rules.items():
        assert hasattr(blocks, name)
        monkeypatch.setattr(blocks, name, rule)


def text_of(document: dict[str, Any]) -> str:
    return api.build(document, target="nvidia-h100").files[f"{document['name']}_triton.py"]


def computed(document: dict[str, Any], *inputs: Any) -> list[Any]:
    return run(text_of(document), document["name"], *inputs)


def close(got: Sequence[Any], *want: Any) -> None:
    """Within rounding of float32; NaN and infinities where they belong."""
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.astype(np.float64), w, rtol=2e-5, atol=2e-5)


def sums(rows: int, cols: int) -> dict[str, Any]:
    """Reductions along rows, none of which 0 leaves as it is, beside a result for every element."""
    nodes: list[Node] = [
        ("Exp", ["x0"], {}),
        ("ReduceSum", ["t0"], ALONG),
        ("ReduceMax", ["x0"], ALONG),
        ("ReduceMin", ["x0"], ALONG),
        ("Div", ["t0", "t1"], {}),
    ]
    return graph("sums", [(F32, [rows, cols])], nodes, ["t1", "t2", "t3", "t4"])


def sums_in_float64(x: Any) -> list[Any]:
    e = np.exp(x.astype(np.float64))
    total = e.sum(1, keepdims=True)
    return [total, x.max(1, keepdims=True), x.min(1, keepdims=True), e / total]


@pytest.mark.parametrize("form", FORMS)
def test_rows_end_where_they_end(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies behind a row, the next one or nothing, is neither summed up nor an extreme, whatever its sign."""
    rules, words = FORMS[form]
    _set(rules, monkeypatch)
    assert words in text_of(sums(5, 37))
    rng = np.random.default_rng(5)
    for rows, cols in SIZES:
        for shift in (-6.0, 6.0):
            x = (rng.standard_normal((rows, cols)) + shift).astype(np.float32)
            close(computed(sums(rows, cols), x), *sums_in_float64(x))


@pytest.mark.parametrize("form", ["as the rules choose", "loop", "four rows"])
def test_columns_and_running_sums_end_where_they_end(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same along the outer dimension, and of sums that run from either end."""
    _set(FORMS[form][0], monkeypatch)
    rng = np.random.default_rng(6)
    for rows, cols in SIZES[:4]:
        x = (rng.standard_normal((rows, cols)) + 2).astype(np.float32)
        e = np.exp(x.astype(np.float64))
        nodes: list[Node] = [("Exp", ["x0"], {}), ("ReduceSum", ["t0"], DOWN)]
        close(computed(graph("down", [(F32, [rows, cols])], nodes, ["t1"]), x), e.sum(0))
        for exclusive in (False, True):
            for reverse in (False, True):
                attrs = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
                scan: list[Node] = [("Exp", ["x0"], {}), ("CumSum", ["t0"], attrs)]
                line = e[:, ::-1] if reverse else e
                want = np.cumsum(line, 1) - (line if exclusive else 0)
                got = computed(graph("scan", [(F32, [rows, cols])], scan, ["t1"]), x)
                close(got, want[:, ::-1] if reverse else want)


def test_sums_beside_rows_end_where_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over rows that few programs make in a loop, also more programs than there are blocks of rows."""
    rng = np.random.default_rng(7)
    nodes: list[Node] = [
        ("Exp", ["x0"], {}),
        ("ReduceSum", ["t0"], ALONG),
        ("Div", ["t0", "t1"], {}),
        ("ReduceSum", ["t0"], DOWN),
    ]
    for per_block, programs in ((2, 1), (1, 3), (4, 16)):
        rules: Rules = {
            "beside_sums": lambda count, cols, *given, n=per_block, p=programs: Blocks(
                n, power(cols), programs=p
            ),
            "has_room_for_sums": lambda *given: True,
        }
        _set(rules, monkeypatch)
        for rows, cols in SIZES:
            x = rng.standard_normal((rows, cols)).astype(np.float32)
            e = np.exp(x.astype(np.float64))
            document = graph("beside", [(F32, [rows, cols])], nodes, ["t2", "t3"])
            close(computed(document, x), e / e.sum(1, keepdims=True), e.sum(0))


@pytest.mark.parametrize(
    "rules",
    [{}, {"items": _fixed(4, 1), "tiles": _fixed(2, 4)}, {"items": _fixed(256, 1)}],
    ids=["as the rules choose", "short runs", "long runs"],
)
def test_elements_end_where_they_end(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines and tiles without a reduction store every element once, and nothing beside them."""
    _set(rules, monkeypatch)
    rng = np.random.default_rng(8)
    for rows, cols in SIZES:
        x, w = (rng.standard_normal(s).astype(np.float32) for s in ((rows, cols), (cols, rows)))
        nodes: list[Node] = [("Transpose", ["x0"], {"perm": [1, 0]}), ("Add", ["t0", "x1"], {})]
        inputs = [(F32, [rows, cols]), (F32, [cols, rows])]
        close(computed(graph("turned", inputs, nodes, ["t1"]), x, w), x.T + w)
        pad = {"low": [1, 2], "high": [0, 3], "value": 3.0}
        nodes = [("Pad", ["x0"], pad), ("Neg", ["t0"], {})]
        want = -np.pad(x, ((1, 0), (2, 3)), constant_values=3)
        close(computed(graph("framed", [(F32, [rows, cols])], nodes, ["t1"]), x), want)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_a_gather_takes_the_nearest_place(kind: str) -> None:
    """An index outside of the table does not leave it: NumPy's clip says where it goes."""
    index = np.array([0, 9, -1, -10, 10, -11, 100, -100, 2**31 - 1, -(2**31)], kind)
    x = np.arange(60, dtype=np.float32).reshape(10, 6)
    at = np.clip(np.where(index < 0, index.astype(np.int64) + 10, index), 0, 9)
    nodes: list[Node] = [("Gather", ["x0", "x1"], {"axis": 0})]
    document = graph("picked", [(F32, [10, 6]), (kind, [index.size])], nodes, ["t0"])
    close(computed(document, x, index), x[at])


def softmax_parts(rows: int, cols: int) -> dict[str, Any]:
    """The sum of exponentials below the largest, which a loop and a cluster make with the largest, and quotients."""
    nodes: list[Node] = [
        ("ReduceMax", ["x0"], ALONG),
        ("Sub", ["x0", "t0"], {}),
        ("Exp", ["t1"], {}),
        ("ReduceSum", ["t2"], ALONG),
        ("Div", ["t2", "t3"], {}),
    ]
    return graph("soft", [(F32, [rows, cols])], nodes, ["t3", "t4"])


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_infinities_are_as_in_numpy(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of nothing but -inf gives NaN, as inf and NaN in a row do; one with a number among -inf does not."""
    _set(FORMS[form][0], monkeypatch)
    cols = 37
    x = np.random.default_rng(9).standard_normal((11, cols)).astype(np.float32)
    x[0] = -np.inf
    x[1, :30], x[2, 5:], x[3, ::2] = -np.inf, -np.inf, -np.inf
    x[4] = -np.inf
    x[4, -1] = 3
    x[5, 7], x[6, 7], x[7] = np.inf, np.nan, np.inf
    x[8, :-1], x[8, -1] = -np.inf, np.nan
    x[9] = -np.inf
    x[9, 0] = -np.float32(3e38)
    with np.errstate(invalid="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    total = e.sum(1, keepdims=True)
    assert np.isnan(total[[0, 5, 6, 7, 8]]).all()
    assert np.isfinite(total[[1, 2, 3, 4, 9, 10]]).all()
    close(computed(softmax_parts(11, cols), x), total, e / total)
    for op in ("Softmax", "LogSoftmax"):
        document = graph("whole", [(F32, [11, cols])], [(op, ["x0"], {"axis": 1})], ["t0"])
        with np.errstate(all="ignore"):
            want = e / total if op == "Softmax" else x - x.max(1, keepdims=True) - np.log(total)
        close(computed(document, x), want)


def test_a_long_row_of_infinities_is_as_in_numpy() -> None:
    """The blocks that the rules choose for rows of 100,000 elements."""
    x = np.full((3, 100_000), -np.inf, np.float32)
    x[0] = 1
    x[2, 77_777] = 5
    close(computed(softmax_parts(3, 100_000), x)[:1], np.array([[1e5], [np.nan], [1.0]]))


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Trunc", "FloorToInt", "CeilToInt"])
def test_whole_numbers_of_subnormal_ones(op: str) -> None:
    """A card's floor takes these for zeros: the one below zero is -1, and the one above it 1."""
    least = np.float32(2.0**-149)
    some = [0.0, -0.0, least, 5 * least, 2.0**-127, 0.5, 1.0, 1.5, 2.0**31 - 128, np.inf]
    x = np.array([*some, *(-v for v in some)], F32)
    if op.endswith("Int"):
        x = x[np.abs(x) < 100]
    document = graph("whole", [(F32, [len(x)])], [(op, ["x0"], {})], ["t0"])
    (have,) = run(text_of(document), "whole", x)
    whole = {"Floor": np.floor, "Ceil": np.ceil, "Trunc": np.trunc}[op.removesuffix("ToInt")](x)
    np.testing.assert_array_equal(have, whole.astype(have.dtype))
    if op == "Ceil":
        assert np.array_equal(np.signbit(have), np.signbit(whole))
