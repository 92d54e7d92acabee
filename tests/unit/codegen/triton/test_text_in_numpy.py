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


@pytest.mark.parametrize("sizes", [(7, 183), ("rows", "cols")], ids=["fixed", "symbols"])
def test_what_is_contiguous_has_one_index(sizes: tuple[Any, Any]) -> None:
    """Of a tensor that is as the result, the index of an element is its place, whatever the sizes are."""
    document = graph(
        "scaled", [(F32, [*sizes]), (F32, [sizes[1]])], [("Div", ["x0", "x1"], {})], ["t0"]
    )
    text = text_of(document)
    assert "tl.load(x0_ptr + item," in text
    assert "tl.store(t0_ptr + item," in text
    assert "i0 =" not in text
    rng = np.random.default_rng(10)
    x, y = (rng.uniform(1, 2, s).astype(np.float32) for s in ((7, 183), (183,)))
    close(computed(document, x, y), x.astype(np.float64) / y)


def test_what_is_contiguous_in_part_has_the_indices_of_its_axes() -> None:
    """Tensors that are broadcast, cut or turned, beside one that is as the result, and one from its end."""
    nodes: list[Node] = [
        ("Slice", ["x1"], {"starts": [0, 1, 0], "shape": [3, 5, 7], "steps": [1, 1, 1]}),
        ("Slice", ["x0"], {"starts": [2, 4, 6], "shape": [3, 5, 7], "steps": [-1, -1, -1]}),
        ("Transpose", ["x4"], {"perm": [1, 0, 2]}),
        ("Add", ["x0", "t0"], {}),
        ("Add", ["t3", "t1"], {}),
        ("Add", ["t4", "t2"], {}),
        ("Mul", ["t5", "x2"], {}),
        ("Mul", ["t6", "x3"], {}),
        ("Mul", ["t7", "x5"], {}),
    ]
    shapes = ((3, 5, 7), (3, 6, 7), (3, 1, 7), (5, 1), (5, 3, 7), (1,))
    document = graph("parts", [(F32, s) for s in shapes], nodes, ["t8"])
    text = text_of(document)
    for words in ("x0_ptr + item,", "x0_ptr + item * (-1) + 104,", "t8_ptr + item,", "(x5_ptr)"):
        assert words in text
    rng = np.random.default_rng(11)
    a, b, c, d, e, f = inputs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    want = (a + b[:, 1:] + a[::-1, ::-1, ::-1] + e.transpose(1, 0, 2)) * c * d * f
    close(computed(document, *inputs), want)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outer", [False, True])
def test_rows_and_columns_of_several_axes(
    outer: bool, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One index over the rows and one over the columns of what is contiguous, beside scales of one axis of each."""
    _set(FORMS[form][0], monkeypatch)
    axes = (0, 1) if outer else (2, 3)
    nodes: list[Node] = [
        ("Mul", ["x0", "x1"], {}),
        ("Mul", ["t0", "x2"], {}),
        ("Exp", ["t1"], {}),
        ("ReduceSum", ["t2"], {"axes": axes, "keepdims": True}),
        ("Div", ["t2", "t3"], {}),
    ]
    shapes = ((3, 5, 4, 7), (5, 1, 7), (3, 1, 4, 1))
    document = graph("several", [(F32, s) for s in shapes], nodes, ["t3", "t4"])
    place = "x0_ptr + row + col * 28," if outer else "x0_ptr + row * 28 + col,"
    assert place in text_of(document)
    rng = np.random.default_rng(12)
    x, y, z = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    e = np.exp(x.astype(np.float64) * y * z)
    total = e.sum(axes, keepdims=True)
    close(computed(document, x, y, z), total, e / total)


@pytest.mark.parametrize(
    ("shape", "grid"),
    [((5, 2, 3, 7), False), ((2, 1, 3, 71), False), ((2, 3, 5, 64), True), ((1, 2, 65, 4), True)],
)
def test_columns_between_rows(shape: tuple[int, ...], grid: bool) -> None:
    """Rows before and behind short columns have one index if blocks of the latter would be empty in part."""
    rng = np.random.default_rng(13)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in (shape, (shape[1], 1, 1)))
    attrs = {"axis": 2, "exclusive": False, "reverse": False}
    z = x.astype(np.float64) * y
    e = np.exp(z)
    for (op, more), want in (
        (("Softmax", {"axis": 2}), e / e.sum(2, keepdims=True)),
        (("CumSum", attrs), np.cumsum(z, 2)),
    ):
        nodes: list[Node] = [("Mul", ["x0", "x1"], {}), (op, ["t0"], more)]
        document = graph("between", [(F32, x.shape), (F32, y.shape)], nodes, ["t1"])
        assert ("outer = " in text_of(document)) == grid
        close(computed(document, x, y), want)


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
