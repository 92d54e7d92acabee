"""Lines of English: what they mean, compared with NumPy, and what they leave open."""

import re
from pathlib import Path

import draws
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.english.compositions import COMPOSITIONS
from autofuse.clients.kernelgen.english.lines import Sentence, read_line
from autofuse.clients.kernelgen.english.vocabulary import title
from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.registry import all_ops
from autofuse.machines.twin.oracle.oracle import evaluate

ROWS = all_ops(user=True)
#: Values of attributes that ops need, on operands of [b, 64].
ATTRS = {
    "axis": "axis = 1",
    "dtype": "dtype = int32",
    "high": "high = [0, 2]",
    "low": "low = [1, 0]",
    "n": "n = 3",
    "perm": "perm = [1, 0]",
    "shape": "shape = [b, 64]",
    "starts": "starts = [0, 0]",
}


def asked(line: str) -> list[tuple[str, str]]:
    """The questions that a line leaves open, with their choices."""
    with pytest.raises(AutofuseError) as caught:
        read_line(line)
    assert {d.code for d in caught.value.diagnostics} == {"AF1401"}
    assert all(d.hint and d.where.line == 1 for d in caught.value.diagnostics)
    return [(d.message, d.hint) for d in caught.value.diagnostics]


def ops(sentence: Sentence) -> list[str]:
    return [n.op for n in sentence.graph.nodes]


def numbers(
    line: str, seed: int | None = None, **sizes: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What a line computes of fresh random data by the registry's references, and the data in float64."""
    graph = read_line(line).graph
    rng = np.random.default_rng(seed)
    data = {}
    for name in graph.inputs:
        t = graph.tensors[name]
        shape = [e.evaluate(sizes) for e in t.shape]
        data[name] = rng.standard_normal(shape).astype(np.float32).astype(t.dtype.name)
    (found,) = evaluate(graph, data, sizes).values()
    return found.value.astype(np.float64), {n: a.astype(np.float64) for n, a in data.items()}


def test_the_line_of_the_documentation() -> None:
    found = read_line("softmax over the last axis of x float16 [b, 4096], then multiply by mask")
    assert ops(found) == ["Softmax", "Mul"]
    graph = found.graph
    assert graph.name == "softmax_mul"
    assert graph.inputs == ("x", "mask")
    assert graph.nodes[0].attrs["axis"] == -1
    for name in graph.inputs:
        assert (graph.tensors[name].dtype.name, graph.in_words(graph.tensors[name].shape[0])) == (
            "float16",
            "b",
        )
    # Nothing is assumed without being said.
    assert found.notes == (
        "mask is float16 [b, 4096], the default for operands without a type or shape",
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_every_op_is_understood_by_every_name(row: OpDef) -> None:
    """A line with the op and all that it needs is that op; without, it is that op or a question."""
    count = row.arity[0]
    shape = "[b, 64]"
    for name in (row.name, *row.aliases, title(row.name)):
        made = 0
        for dtype in ("float32", "int32"):
            first = "bool" if row.name == "Select" else dtype
            second = (
                "bool"
                if row.name == "MaskedFill"
                else "int32"
                if row.name.startswith("Gather")
                else dtype
            )
            types = [first, second, dtype][:count]
            operands = " and ".join(f"{'xyz'[k]} {t} {shape}" for k, t in enumerate(types))
            of = f" of {operands}" if operands else ""
            needed = [a.name for a in row.attrs if a.default is None]
            over = (
                " over the last axis"
                if row.attr_names() & {"axes", "axis"} and "axis" not in needed
                else ""
            )
            said = f" with {', '.join(ATTRS[n] for n in needed)}" if needed else ""
            try:
                found = read_line(f"{name}{over}{of}{said}")
            except AutofuseError as e:
                # Not of this dtype; of the other one then.
                assert {d.code for d in e.diagnostics} == {"AF1203"}, (name, e)  # noqa: PT017
                continue
            assert ops(found) == [row.name]
            made += 1
        assert made, name
        try:
            assert ops(read_line(f"{name}{of}")) == [row.name]
        except AutofuseError as e:
            assert {d.code for d in e.diagnostics} <= {"AF1401", "AF1203"}  # noqa: PT017


@pytest.mark.parametrize(
    ("line", "by_numpy"),
    [
        ("add x float32 [n] and y", lambda x, y: x + y),
        ("subtract m float32 [n] from x float32 [n]", lambda m, x: x - m),
        ("subtract x float32 [n] from 1", lambda x: 1 - x),
        ("divide x float32 [n] by y", lambda x, y: x / y),
        (
            "relu of x float32 [n], then subtract it from 3, then square",
            lambda x: (3 - np.maximum(x, 0)) ** 2,
        ),
        ("clip x float32 [n] between -0.5 and 0.5", lambda x: np.clip(x, -0.5, 0.5)),
        ("add bias float32 [7] to x float32 [n, 7]", lambda bias, x: x + bias),
        ("sum of x float32 [n, 5] and y", lambda x, y: x + y),
        ("sum over n of x float32 [n, 5]", lambda x: x.sum(0)),
        (
            "mean over the last two axes of x float32 [2, n, 5], keeping dims",
            lambda x: x.mean((1, 2), keepdims=True),
        ),
        ("max over all axes of x float32 [n, 5]", lambda x: x.max()),
        ("maximum of x float32 [n] and 0.25", lambda x: np.maximum(x, 0.25)),
        ("running sum along axis 1 of x float32 [3, n]", lambda x: x.cumsum(1)),
        ("transpose x float32 [n, 5] with perm = [1, 0]", lambda x: x.T),
        ("reshape x float32 [n, 6] to [n, 2, 3]", lambda x: x.reshape(-1, 2, 3)),
        ("square root of x float32 [n], then reciprocal", lambda x: 1 / np.sqrt(x)),
        ("swiglu of gate float32 [n, 5] and up", lambda gate, up: gate / (1 + np.exp(-gate)) * up),
        (
            "log sum exp over the last axis of x float32 [n, 9]",
            lambda x: np.log(np.exp(x).sum(-1)),
        ),
        (
            "l2 normalize over the last axis of x float32 [n, 9]",
            lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)),
        ),
    ],
)
def test_what_a_line_computes(line: str, by_numpy) -> None:  # type: ignore[no-untyped-def]
    seed = draws.seed()
    for n in (1, 13):
        with np.errstate(invalid="ignore"):
            found, data = numbers(line, seed, n=n)
            want = by_numpy(**data)
        np.testing.assert_allclose(
            found, want, rtol=1e-5, atol=1e-6, err_msg=f"{line}, seed {seed}"
        )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("eps", ["", ", eps = 0.01"])
def test_layer_norm_is_that_of_the_formula(dtype: str, eps: str) -> None:
    seed = draws.seed()
    line = f"layer norm over the last axis of x {dtype} [n, 37] with gamma and beta{eps}"
    found, d = numbers(line, seed, n=5)
    centred = d["x"] - d["x"].mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + (0.01 if eps else 1e-5))
    want = centred / spread * d["gamma"] + d["beta"]
    tolerance = 1e-5 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance, err_msg=f"seed {seed}")


def test_rms_norm_asks_for_what_everybody_means_differently() -> None:
    line = "rms norm over the last axis of x float32 [n, 37] with weight"
    ((text, choices),) = asked(line)
    assert text == "what is eps of rms norm?"
    assert "1e-6" in choices
    assert "1e-5" in choices
    found, d = numbers(f"{line}, eps = 1e-6", n=5)
    want = d["x"] / np.sqrt((d["x"] ** 2).mean(-1, keepdims=True) + 1e-6) * d["weight"]
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("line", "texts", "choice"),
    [
        (
            "softmax of x",
            ["which element type does x have?", "which shape does x have?"],
            "float16",
        ),
        ("relu of x float32", ["which shape does x have?"], "[b, 1024]"),
        ("relu of x [n]", ["which element type does x have?"], "x float32 [n]"),
        (
            "softmax of x float32 [b, 8]",
            ["along which axis is softmax computed?"],
            "over axis 1 (of 8)",
        ),
        ("sum of x float32 [b, 8]", ["along which axis is sum computed?"], "over all axes"),
        (
            "softmax over all axes of x float32 [b, 8]",
            ["softmax takes one axis"],
            "over the last axis",
        ),
        (
            "sum over axis 2 of x float32 [b, 8]",
            ["which axis of [b, 8] do you mean?"],
            "over axis 0 (of b)",
        ),
        (
            "mean over rows of x float32 [b, 8]",
            ["which axis of [b, 8] do you mean?"],
            "over axis 0 (of b)",
        ),
        (
            "norm of x float32 [n]",
            ["which operator do you mean by 'norm'?"],
            "layer norm, rms norm, l2 norm",
        ),
        (
            "shift of x int32 [n] and y",
            ["which operator do you mean by 'shift'?"],
            "l shift, r shift",
        ),
        ("softmx of x float32 [n]", ["which operator is 'softmx'?"], "softmax"),
        ("frobnicate x float32 [n]", ["which operator is 'frobnicate'?"], "autofuse ops"),
        ("transpose x float32 [a, b]", ["what is perm of transpose?"], "perm = [1, 0]"),
        ("relu of x float8 [n]", ["which element type is 'float8'?"], "float16"),
        (
            "relu of x float32 [n], then softmax of y",
            ["not use the result of the previous step"],
            "'it'",
        ),
        (
            "relu of x float32 [n] over the last axis",
            ["relu takes no axis"],
            "leave out the axis",
        ),
        (
            "relu of x float32 [n] with slope = 2",
            ["what is 'slope' of relu?"],
            "its attributes: none",
        ),
        (
            "leaky relu of x float32 [n] with alpha = 2",
            ["what is 'alpha' of leaky relu?"],
            "negative_slope",
        ),
        ("relu of x float32 [n", ["where does the shape end?"], "]"),
        ("relu of x float32 [-1]", ["which size is '-1'?"], "from 0"),
        ("subtract x float32 [n]", ["sub takes 2 operands"], "a - b"),
        ("swiglu of x float32 [n]", ["swiglu takes gate, up"], "Silu(gate) * up"),
        (
            "select c bool [n], a and b",
            [
                "which element type and shape does a have?",
                "which element type and shape does b have?",
            ],
            "a float32 [n]",
        ),
        ("relu of it", ["which result do you mean?"], "name a tensor"),
        ("layer norm over the last axis of 3", ["which tensor does layer norm take?"], "number"),
        ("relu of x float32 [n], then", ["step 2 is empty"], "softmax"),
        ("", ["the line is empty"], "softmax"),
        ("relu of x float32 [n]; rm -rf /", ["what does ';' mean here?"], "characters"),
        ("relu of x float32 [n] $(id)", ["what does '$' mean here?"], "characters"),
        ("relu of x float32 [n] zzz = 3 = 4", ["what does '=' mean here?"], "OPERAND"),
        ("x" * 3000, ["the line has 3000 characters"], "graph files"),
    ],
)
def test_what_is_left_open_is_asked(line: str, texts: list[str], choice: str) -> None:
    found = asked(line)
    assert [any(t in text for text, _ in found) for t in texts] == [True] * len(texts), found
    assert any(choice in hint for _, hint in found)


def test_all_questions_of_a_step_come_at_once() -> None:
    assert len(asked("slice of x")) == 2
    assert len(asked("slice of x float32 [n]")) == 2
    assert len(asked("gather of x and y")) == 2


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("add x float32 [n] and y int32 [n]", "AF1203"),
        ("add x float32 [n] and y float32 [m]", "AF1204"),
        ("relu of x float32 [99999999999]", "AF1109"),
        ("bitwise not of x float32 [n]", "AF1203"),
        ("reshape x float32 [n] to [3]", "AF1204"),
    ],
)
def test_what_an_op_does_not_take_is_an_error(line: str, code: str) -> None:
    with pytest.raises(AutofuseError) as caught:
        read_line(line)
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_the_page_shows_what_is_understood_and_asked(repo: Path) -> None:
    page = (repo / "docs" / "kernelgen.md").read_text(encoding="utf-8")
    _, _, part = page.partition("### One line of English")
    lines, questions = re.findall(
        r"^```text\n(.*?)^```$", part.partition("### Limits")[0], re.M | re.S
    )
    for line in lines.splitlines():
        assert read_line(line).graph.nodes
    with pytest.raises(AutofuseError) as caught:
        read_line("softmax of x")
    assert str(caught.value) == questions.rstrip()


def test_no_tensor_is_too_large_whatever_the_sizes_are() -> None:
    for rank in range(1, 9):
        dims = ", ".join("abcdefgh"[:rank])
        graph = read_line(f"relu of x float32 [{dims}]").graph
        most = 1
        for s in graph.symbols:
            most *= s.max
        assert 1 << 30 < most < 1 << 48
    assert read_line("relu of x float32 [b, 1000000]").graph.symbols[0].max * 1_000_000 < 1 << 48


def test_names_of_tensors_are_never_those_of_steps() -> None:
    graph = read_line("relu of relu_out float32 [n], then add relu").graph
    assert graph.inputs == ("relu_out", "relu")
    assert graph.nodes[1].inputs == (graph.nodes[0].outputs[0], "relu")
    assert len(graph.tensors) == 4


def test_names_of_files_and_of_languages_are_only_names() -> None:
    graph = read_line("add lambda float32 [def] and class").graph
    assert graph.inputs == ("lambda", "class")
    assert graph.symbols[0].name.isidentifier()


WORDS = st.sampled_from(
    [
        *("softmax", "relu", "add", "then", "of", "x", "y", "float32", "half", "[", "]", "b", "4"),
        *(
            "over",
            "the",
            "last",
            "axis",
            "axes",
            ",",
            "=",
            "with",
            "and",
            "eps",
            "it",
            "1e-5",
            "-",
            ".",
        ),
        *(
            "layer norm",
            "max",
            "inf",
            "to",
            "from",
            "by",
            "perm",
            "all",
            "two",
            "keep",
            "dims",
            "[b, 4]",
        ),
        *COMPOSITIONS,
        *(r.name for r in ROWS[:40]),
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=14))
def test_any_words_are_a_formula_or_an_error_of_ours(words: list[str]) -> None:
    line = " ".join(words)
    try:
        found = read_line(line)
    except AutofuseError as e:
        assert all(d.code.startswith("AF1") for d in e.diagnostics), line  # noqa: PT017
    else:
        assert found.graph.nodes, line


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_formula_or_an_error_of_ours(line: str) -> None:
    with pytest.raises(AutofuseError):
        read_line(f"{line} frobnicate")
