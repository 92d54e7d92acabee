"""Definitions: their JSON, what is read of it, and every way in which it can be wrong."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import draws
import graph_strategies
import pytest
from extras import needs

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.clients.kernelgen.defining.definition import Definition, define, read_definition
from autofuse.clients.kernelgen.defining.parameters import KINDS, kind_of
from autofuse.clients.kernelgen.defining.sources import describe
from autofuse.targets import find_target, gpu_names, load_gpu, target_names

H100 = load_gpu("nvidia-h100")


def again(d: Definition) -> Definition:
    return Definition.from_json(json.dumps(d.to_json(), indent=1))


@needs("torch")
def wrong(data: Any) -> tuple[Diagnostic, ...]:
    """What is wrong with the text of a definition."""
    with pytest.raises(AutofuseError) as caught:
        Definition.from_json(
            data if isinstance(data, str) else json.dumps(data, indent=1), path="d.json"
        )
    return caught.value.diagnostics


def test_a_definition_is_read_as_it_was_written(softmax: Definition) -> None:
    assert again(softmax) == softmax
    assert Definition.from_json(softmax.to_json()) == softmax


@pytest.mark.parametrize("name", [*target_names(), *gpu_names()])
def test_for_every_target(name: str, graph_of: Callable[..., dict[str, Any]]) -> None:
    d = define(
        api.read(graph_of()), find_target(name), requirement="x", rounds=2, target_speedup=1.5
    )
    assert again(d) == d
    assert (d.device, d.rounds, d.target_speedup, d.kind) == (name, 2, 1.5, "Pointwise")
    assert ("x.is_cuda and y.is_cuda" in d.constraints) == (name.startswith("nvidia"))


def test_of_examples(repo: Path) -> None:
    files = sorted((repo / "examples").rglob("*.json"))
    read = 0
    for path in files:
        try:
            graph = api.read(path)
        except AutofuseError:
            continue  # no graph
        d = define(graph, H100, requirement=path.name)
        assert again(d) == d, path
        read += 1
    assert read > 10


def test_of_random_graphs() -> None:
    seed = draws.seed()
    rng = random.Random(seed)
    made = 0
    for _ in range(15):
        graph = graph_strategies.random_graph(
            rng, options=graph_strategies.Options(moves=True, inout=False)
        )
        try:
            d = define(graph, H100, requirement="random")
        except AutofuseError as e:
            assert {x.code[:3] for x in e.diagnostics} <= {"AF2", "AF3"}, seed  # noqa: PT017
            continue
        # Constants may be NaN, which nothing is equal to.
        assert json.dumps(again(d).to_json()) == json.dumps(d.to_json()), seed
        made += 1
    assert made > 5, seed


@pytest.mark.corpus
def test_of_the_corpus(shared_dir: Path) -> None:
    files = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))
    made = 0
    for k in draws.some("definitions", 30, len(files)):
        try:
            graph = api.read(files[k])
        except AutofuseError:
            continue  # work of the cube unit
        d = define(graph, H100, requirement=files[k].name)
        assert again(d) == d, files[k]
        made += 1
    assert made


def test_the_json_has_what_the_flow_asks_for(softmax: Definition) -> None:
    """A program that knows the keys of the write-up only finds them, with their meaning."""
    data = softmax.to_json()
    assert data["name"] == "softmax_mul"
    assert data["type"] == "Normalization"
    assert [(i["name"], i["type"], i["shape"]) for i in data["inputs"]] == [
        ("x", "torch.Tensor", ["b", 4096]),
        ("mask", "torch.Tensor", ["b", 4096]),
    ]
    assert [(o["name"], o["type"], o["shape"]) for o in data["outputs"]] == [
        ("out", "torch.Tensor", ["b", 4096])
    ]
    assert "x.is_cuda and mask.is_cuda" in data["constraints"]
    assert "mask.shape[0] == x.shape[0]" in data["constraints"]
    assert "x.shape[1] == 4096" in data["constraints"]
    assert "block_size_optimization" in data["optimization_strategies"]
    assert json.loads(json.dumps(data, allow_nan=False)) == data


@needs("torch")
def test_constraints_hold_for_tensors_of_pytorch(graph_of: Callable[..., dict[str, Any]]) -> None:
    """They are expressions: what fits the graph makes all of them true, anything else one of them false."""
    import torch

    d = define(api.read(graph_of()), H100, requirement="x")

    def hold(x: Any, y: Any) -> bool:
        names = {"x": x, "y": y, "torch": torch}
        return all(eval(c, {}, names) for c in d.constraints if "is_cuda" not in c)

    x, y = torch.zeros(5, 8), torch.zeros(8)
    assert hold(x, y)
    assert not hold(x.half(), y)
    assert not hold(x.t(), y)
    assert not hold(torch.zeros(8, 5).t(), y)
    assert not hold(x, torch.zeros(9))


def test_sizes_that_follow_from_others_are_constraints_too() -> None:
    """A part of b columns of 2 b + 1, and rows that are no fewer than a."""
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "part",
            "symbols": {"n": {"max": 1 << 20}, "a": {"max": 1 << 20}, "b": {"max": 1 << 10}},
            "inputs": [
                {"name": "x", "dtype": "float32", "shape": ["n", "2*b + 1"]},
                {"name": "y", "dtype": "float32", "shape": ["a", "b"]},
            ],
            "nodes": [
                {
                    "name": "part",
                    "op": "Slice",
                    "inputs": ["x"],
                    "outputs": ["t"],
                    "attrs": {"starts": [0, 0], "shape": ["a", "b"]},
                },
                {"name": "sum", "op": "Add", "inputs": ["t", "y"], "outputs": ["z"]},
            ],
            "outputs": ["z"],
        }
    )
    found = define(graph, H100, requirement="x").constraints

    class Shaped:
        def __init__(self, *shape: int) -> None:
            self.shape = shape

    def hold(x: Shaped, y: Shaped) -> bool:
        sizes = [c for c in found if "shape" in c]
        return all(eval(c, {}, {"x": x, "y": y}) for c in sizes)

    assert hold(Shaped(5, 7), Shaped(5, 3))
    assert hold(Shaped(6, 7), Shaped(5, 3))
    assert not hold(Shaped(4, 7), Shaped(5, 3))
    assert not hold(Shaped(6, 8), Shaped(5, 3))


def test_names_that_mean_something_in_python() -> None:
    d = describe("add lambda float32 [def] and class", target="nvidia-h100")
    for c in d.constraints:
        compile(c, "constraint", "eval")


def test_a_definition_without_a_formula_says_what_to_add() -> None:
    """The JSON of the write-up itself, which does not say what is computed."""
    data = {
        "name": "Broadcast",
        "type": "Pointwise",
        "inputs": [{"name": "x", "type": "torch.Tensor", "shape": "variable"}],
        "outputs": [{"name": "out", "type": "torch.Tensor", "shape": "same_as_x"}],
        "constraints": [],
        "optimization_strategies": [],
    }
    (d,) = wrong(data)
    assert d.code == "AF1101"
    assert "no formula" in d.message
    assert '"graph"' in d.hint
    assert "autofuse kernelgen describe" in d.hint
    assert (d.where.path, d.where.line) == ("d.json", 1)


def put(data: dict[str, Any], pointer: str, value: Any) -> None:
    *way, last = pointer.strip("/").split("/")
    at: Any = data
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[int(last) if isinstance(at, list) else last] = value


@pytest.mark.parametrize(
    ("pointer", "value", "code"),
    [
        ("/schema", "autofuse.graph/1", "AF1104"),
        ("/name", "other", "AF1207"),
        ("/name", 3, "AF1103"),
        ("/type", "Scan", "AF1207"),
        ("/device", "gtx", "AF5006"),
        ("/rounds", 0, "AF1104"),
        ("/rounds", 6, "AF1104"),
        ("/rounds", 2.5, "AF1103"),
        ("/target_speedup", 0, "AF1104"),
        ("/target_speedup", "fast", "AF1103"),
        ("/memory_bytes", 0, "AF1104"),
        ("/inputs", [], "AF1207"),
        ("/inputs/0/name", "z", "AF1207"),
        ("/inputs/0/dtype", "float32", "AF1207"),
        ("/inputs/0/shape", ["b", 4095], "AF1207"),
        ("/inputs/0/type", "numpy.ndarray", "AF1104"),
        ("/inputs/0/size", 3, "AF1102"),
        ("/outputs/0/shape", [], "AF1207"),
        ("/optimization_strategies/0", "block_sise_optimization", "AF1104"),
        ("/extra", 1, "AF1102"),
        ("/graph", [], "AF1103"),
        ("/graph/nodes/0/op", "Sofmax", "AF1201"),
        ("/graph/inputs/0/dtype", "float8", "AF1104"),
        ("/graph/nodes/1/inputs/1", "nothing", "AF1107"),
    ],
)
def test_each_field_that_is_wrong_is_named(
    softmax: Definition, pointer: str, value: Any, code: str
) -> None:
    data = softmax.to_json()
    put(data, pointer, value)
    found = wrong(data)
    assert code in {d.code for d in found}
    near = [d for d in found if d.code == code]
    assert any(d.where.pointer.startswith(pointer) for d in near), near
    lines = json.dumps(data, indent=1).splitlines()
    key = pointer.rpartition("/")[2]
    at = next(d for d in near if d.where.pointer.startswith(pointer)).where
    assert at.path == "d.json"
    # The line of the value itself, or of the object whose key is not known.
    assert 1 <= at.line <= len(lines)
    assert key.isdecimal() or key in lines[at.line - 1], lines[at.line - 1]


def test_all_mistakes_come_at_once(softmax: Definition) -> None:
    data = softmax.to_json()
    put(data, "/name", "other")
    put(data, "/type", "Scan")
    put(data, "/optimization_strategies/0", "luck")
    assert [d.where.pointer for d in wrong(data)] == [
        "/name",
        "/type",
        "/optimization_strategies/0",
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "AF1002"), ("{", "AF1002"), ("[]", "AF1004"), ('{"a": 1, "a": 2}', "AF1106")],
)
def test_what_is_no_object(text: str, code: str) -> None:
    assert [d.code for d in wrong(text)] == [code]


def test_words_of_a_person_stay(softmax: Definition) -> None:
    data = softmax.to_json()
    data["description"] = "by hand\n| x"
    data["inputs"][0]["description"] = "scores"
    data["constraints"] = ["x.shape[0] > 3"]
    data["optimization_strategies"] = ["data_reuse_optimization"]
    data["analysis"] = {"made": "up"}
    d = Definition.from_json(data)
    assert d.description == "by hand\n| x"
    assert d.inputs[0].description == "scores"
    assert (d.constraints, d.strategies) == (("x.shape[0] > 3",), ("data_reuse_optimization",))
    assert d.analysis == softmax.analysis
    assert again(d) == d


def test_options_that_are_out_of_range(graph_of: Callable[..., dict[str, Any]]) -> None:
    graph = api.read(graph_of())
    for options in ({"rounds": 0}, {"rounds": 6}, {"target_speedup": 0.0}, {"memory_bytes": 0}):
        with pytest.raises(AutofuseError, match="AF5007"):
            define(graph, H100, requirement="x", **options)  # type: ignore[arg-type]
    for speedup in (float("nan"), float("inf"), -1.0):
        with pytest.raises(AutofuseError, match="AF5007"):
            define(graph, H100, requirement="x", target_speedup=speedup)


def test_a_file_that_cannot_be_read(tmp_path: Path, softmax: Definition) -> None:
    with pytest.raises(AutofuseError, match="AF1001"):
        read_definition(tmp_path / "none.json")
    with pytest.raises(AutofuseError, match="AF1001"):
        read_definition(tmp_path)
    path = tmp_path / "definition.json"
    path.write_text(json.dumps(softmax.to_json()), encoding="utf-8")
    assert read_definition(path) == softmax


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("relu of x float32 [n]", "Pointwise"),
        ("add b float32 [4] to x float32 [n, 4]", "Pointwise"),
        ("sum over the last axis of x float32 [n, 4]", "Reduction"),
        ("sum over the last axis of x float32 [n, 4], then sqrt", "Reduction"),
        ("log sum exp over the last axis of x float32 [n, 4]", "Reduction"),
        ("softmax over the last axis of x float32 [n, 4]", "Normalization"),
        ("layer norm over the last axis of x float32 [n, 4]", "Normalization"),
        ("running sum along axis 0 of x float32 [n]", "Scan"),
        ("transpose x float32 [n, 4] with perm = [1, 0]", "Movement"),
        ("gather along axis 0 of x float32 [n, 4] and i int32 [m]", "Indexing"),
    ],
)
def test_the_kind_follows_from_the_ops(line: str, kind: str) -> None:
    graph = describe(line, target="nvidia-h100").graph
    assert kind_of(graph) == kind
    assert kind in KINDS
