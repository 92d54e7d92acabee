"""Messages have the names of the user: of symbols, nodes, tensors and graphs that mean something else in C++."""

import pickle
import re
from typing import Any

import pytest

import autofuse
from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import Wording, counted
from autofuse.implgraph.expr.expression import sym
from autofuse.implgraph.ops.requirements import requirements
from autofuse.report import explanation
from autofuse.report.text.ir.graph import fusion_text
from autofuse.targets import load_target

#: Identifiers of what follows, and names of nodes that lowering makes.
GENERATED = re.compile(r"\bv_(z0|int|gamma|float)\b|my_graph_v1|\bx_y\b|\b(gather|load)_\d")
X = {"name": "class", "dtype": "float32", "shape": ["z0", "int"]}


def graph(
    nodes: list[dict[str, Any]], *inputs: dict[str, Any], outputs: list[Any] | None = None
) -> dict[str, Any]:
    """A graph whose names are no identifiers in C++."""
    named = [{"name": "float" if i == 0 else f"x y {i}", **n} for i, n in enumerate(nodes)]
    return {
        "schema": "autofuse.graph/1",
        "name": "my graph/v1",
        "symbols": {n: {"min": 0, "max": 9999, "hint": 9} for n in ("z0", "int", "gamma")},
        "inputs": [X, *inputs],
        "nodes": named,
        "outputs": outputs or [named[-1]["outputs"][0]],
    }


def node(op: str, *inputs: str, to: Any = "long", **attrs: Any) -> dict[str, Any]:
    return {"op": op, "inputs": [*inputs], "outputs": [to], "attrs": attrs}


def tensor(name: str, *shape: str | int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": [*shape], **more}


READING = [
    (
        graph([node("Add", "class", "b")], tensor("b", "gamma", 1)),
        "shapes [z0, int] and [gamma, 1] do not broadcast: z0 against gamma in dimension 0",
    ),
    (
        graph([node("Reshape", "class", shape=["z0", "gamma"])]),
        "Reshape from [z0, int] ((int * z0) elements) to [z0, gamma] ((gamma * z0) elements)",
    ),
    (
        graph([node("Broadcast", "class", shape=["gamma", "int"])]),
        "shapes [z0, int] and [gamma, int] do not broadcast: z0 against gamma in dimension 0",
    ),
    (
        graph([node("Concat", "class", "b", axis=1)], tensor("b", "gamma", "int")),
        "[z0, int] and [gamma, int] differ in more than dimension 1",
    ),
    (
        graph([node("Slice", "class", starts=["z0 + 1", 0], shape=["1", "int"])]),
        "takes elements (1 + z0) to (1 + z0) of dimension 0, which has z0",
    ),
    (
        graph([node("Relu", "class", to={"name": "r", "shape": ["int", "z0"]})], outputs=["r"]),
        "'r' is declared as [int, z0], but Relu gives [z0, int]",
    ),
    (
        graph(
            [node("Relu", "class")],
            tensor("b", "gamma", "int"),
            outputs=[{"tensor": "long", "inout": "b"}],
        ),
        "the output is float32 [z0, int], but the input 'b' is float32 [gamma, int]",
    ),
    (
        graph([node("Relu", "class")], tensor("b", "gamma", scalar=True)),
        "the input 'b' is a scalar, but has shape [gamma]",
    ),
    (
        graph([node("Relu", "class")], tensor("b", "gamma - 5")),
        "is (-5 + gamma), which can be negative",
    ),
    (
        graph([node("Relu", "class")], tensor("b", "gamma*gamma*gamma*gamma")),
        "the input 'b' [",
    ),
]


@pytest.mark.parametrize(("given", "text"), READING, ids=[t[:40] for _, t in READING])
def test_what_a_reader_refuses(given: dict[str, Any], text: str) -> None:
    with pytest.raises(AutofuseError) as error:
        api.read(given)
    said = str(error.value)
    assert text in said
    assert not GENERATED.search(said)


TOO_LARGE = "give gamma a smaller max"


def test_a_hint_has_the_names_too() -> None:
    with pytest.raises(AutofuseError) as error:
        api.read(READING[-1][0])
    assert error.value.diagnostics[0].hint == TOO_LARGE


BUILDING = [
    (
        graph([node("Relu", "class")]),
        "ascend310p",
        "AF3002",
        ["class (rows of (int * z0) float32) and long (rows of (int * z0) float32)"],
    ),
    (
        graph([node("ReduceProd", "b", axes=[1])], tensor("b", "z0", "int", dtype="int64")),
        "ascend910b1",
        "AF3001",
        ["there is no way for a product of int numbers of int64", "node float"],
    ),
    (
        graph([node("Relu", "a"), node("Add", "long", "b", to="c")], X | {"name": "a"})
        | {"outputs": ["c"]},
        "ascend910b1",
        "AF1107",
        ["the tensor 'b' is not defined"],
    ),
]


@pytest.mark.parametrize(("given", "target", "code", "texts"), BUILDING)
def test_what_a_stage_refuses(
    given: dict[str, Any], target: str, code: str, texts: list[str]
) -> None:
    with pytest.raises(AutofuseError) as error:
        autofuse.build(given, target=target)
    said = str(error.value)
    assert error.value.diagnostics[0].code == code
    assert all(t in said for t in texts), said
    assert not GENERATED.search(said)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (
            [node("ArgMax", "class", axis=1)],
            "float is an ArgMax along a dimension of int, which must not be 0",
        ),
        (
            [node("Gather", "class", "i", axis=0)],
            "float is a Gather along a dimension of z0, which must not be 0",
        ),
        (
            [node("Slice", "class", starts=["gamma", 0], shape=["1", "int"])],
            "float is a Slice that takes elements gamma to gamma of dimension 0, which has z0",
        ),
    ],
)
def test_what_a_call_must_keep_to(nodes: list[dict[str, Any]], text: str) -> None:
    given = graph(nodes, tensor("i", 3, dtype="int32"))
    assert text in [r.text for r in requirements(api.read(given))]


def test_templates_that_are_not_taken_and_their_conditions() -> None:
    given = graph(
        [
            node("ReduceSum", "class", axes=[1], keepdims=True, to="s"),
            node("Div", "class", "s", to="gamma"),
        ]
    )
    built = autofuse.build(given)
    summary = built.summary()
    told = [r["reason"] for r in summary["rejected"]]
    told += [t for row in summary["templates"] for t in (*row["conditions"], *row["formulas"])]
    chip = load_target("ascend910b1")
    sizes = explanation.sizes_of(built.graph.symbols, {})
    found = explanation.explain(built.graph.label, built.schedule, chip, sizes, built.graph)
    groups = [g for r in found["results"] for g in r["groups"]]
    told += [f"{r['reason']} {r['details']}" for g in groups for r in g["rejected"]]
    assert any("int" in t for t in told)
    assert [t for t in told if GENERATED.search(t)] == []


def test_the_text_of_a_graph() -> None:
    text = fusion_text(api.read(graph([node("Reshape", "class", shape=["int", "z0"])])))
    assert "graph my graph/v1\nsymbol z0: 0..9999, hint 9\nsymbol int: 0..9999, hint 9\n" in text
    assert "long: float32[int, z0] = Reshape(class, shape=[int, z0])" in text


def test_host_code_reports_and_logs_the_names() -> None:
    files = autofuse.build(graph([node("ReduceMax", "class", axes=[1])])).files
    text = files["host/my_graph_v1_tiling.cpp"]
    assert '"z0 is not in [0, 9999]"' in text
    assert '{"z0", v_z0}, {"int", v_int}' in text
    assert not [x for x in re.findall(r'"((?:[^"\\]|\\.)*)"', text) if re.search(r"\bv_\w", x)]


def test_a_wording_is_its_text_and_can_be_said_in_other_names() -> None:
    inner = Wording("rows of {}", counted(sym("v_n"), "element"))
    text = Wording("{}: {} ({})", "x{0}", inner, 3)
    assert text == "x{0}: rows of v_n elements (3)"

    def name(part: object) -> str:
        if isinstance(part, Wording):
            return part.named(name)
        return "n{}" if part == sym("v_n") else str(part)

    assert text.named(name) == "x{0}: rows of n{} elements (3)"
    assert type(pickle.loads(pickle.dumps(text))) is str


def test_buffers_that_do_not_fit_are_named_by_the_tensors_of_the_user() -> None:
    nodes, last = [], "row 0"
    rows = [{"name": f"row {i}", "dtype": "float32", "shape": [4096]} for i in range(80)]
    for op in ("Add", "Mul"):
        for i in range(1, 80):
            names = {"inputs": [last, f"row {i}"], "outputs": [f"{op} {i}"]}
            nodes.append({"name": f"{op}{i}", "op": op, **names})
            last = f"{op} {i}"
    heavy = {"schema": "autofuse.graph/1", "name": "heavy", "inputs": rows, "nodes": nodes}
    with pytest.raises(AutofuseError, match="AF3004") as caught:
        autofuse.build({**heavy, "outputs": [last]})
    (note,) = caught.value.diagnostics[0].notes
    assert "queue 1 (row 1)" in note
    assert "queue 8 (Mul 79)" in note
