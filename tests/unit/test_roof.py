"""The roof of a kernel, and the causes for which it takes longer."""

from __future__ import annotations

from typing import Any

import draws
import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.report.build_summary import typical_sizes
from autofuse.report.losses import kernel_roof
from autofuse.report.roof import needed_elements, roof
from autofuse.schedule.search.costs import Costs
from autofuse.targets import load_target

CHIP = load_target("ascend910b1")
F, H = "float32", "float16"


def roof_of(document: dict[str, Any], **sizes: int) -> Any:
    g = api.build(document).graph
    return roof(g, {**typical_sizes(g.symbols), **sizes}, CHIP)


def found_in(document: dict[str, Any]) -> dict[str, Any]:
    built = api.build(document)
    found = kernel_roof(
        built.schedule, Costs(CHIP), typical_sizes(built.graph.symbols), built.graph
    )
    assert found is not None
    return found


def test_bytes_and_instructions_of_an_elementwise_graph() -> None:
    inputs = {"x": (H, [1000, 64]), "y": (H, [64])}
    nodes = [("a", "Add", ["x", "y"]), ("z", "Exp", ["a"])]
    found = roof_of(graph(inputs, nodes, ["z"]))
    assert (found.read_bytes, found.written_bytes) == (2 * 64 * 1001, 2 * 64_000)
    assert found.memory_us == pytest.approx(2 * 64 * 2001 / 1800e3)
    cycles = 64_000 / 128 + 64_000 / 32  # Add and Exp of halves, at the vendor's peak rates
    assert found.vector_us == pytest.approx(cycles / 48 / 1850)
    assert found.total_us == found.start_us + max(found.memory_us, found.vector_us)


def test_symbols_are_sizes_of_the_call() -> None:
    document = graph({"x": (F, ["n", 8])}, [("y", "Neg", ["x"])], n={"min": 0, "max": 9000})
    assert roof_of(document, n=5).read_bytes == 4 * 40
    assert roof_of(document, n=0).written_bytes == 0
    assert roof_of(document).written_bytes == 4 * 8 * 1024


@pytest.mark.parametrize(
    ("nodes", "needed"),
    [
        ([("y", "Slice", ["x"], {"starts": [0, 2], "shape": [10, 3]})], 30),
        (
            [
                ("a", "Slice", ["x"], {"starts": [0, 0], "shape": [10, 15]}),
                ("b", "Slice", ["x"], {"starts": [0, 5], "shape": [10, 15]}),
                ("y", "Add", ["a", "b"]),
            ],
            200,
        ),
        (
            [
                ("e", "Exp", ["x"]),
                ("t", "Transpose", ["e"], {"perm": [1, 0]}),
                ("y", "Slice", ["t"], {"starts": [3, 0], "shape": [4, 10]}),
            ],
            40,
        ),
        ([("y", "Gather", ["x", "i"], {"axis": 0})], 60),
        ([("s", "ReduceSum", ["x"], {"axes": [1]}), ("y", "Neg", ["s"])], 200),
    ],
    ids=["slice", "slices that overlap", "slice of a result", "rows", "sum"],
)
def test_only_what_results_need_is_read(nodes: list[Any], needed: int) -> None:
    document = graph({"x": (F, [10, 20]), "i": ("int32", [3])}, nodes)
    g = api.build(document).graph
    assert needed_elements(g, {})["x"] == needed


def test_single_elements_are_gathered_by_instructions() -> None:
    inputs = {"x": (F, [1000, 200]), "i": ("int32", [100])}
    columns = roof_of(graph(inputs, [("y", "Gather", ["x", "i"], {"axis": 1})]))
    rows = roof_of(graph(inputs, [("y", "Gather", ["x", "i"], {"axis": 0})]))
    assert columns.vector_us == pytest.approx(100_000 / 5 / 48 / 1850)
    assert rows.vector_us == 0


GRAPHS = {
    "softmax": ({"x": (H, [3000, 700])}, [("y", "Softmax", ["x"], {"axis": -1})]),
    "sum of all": ({"x": (F, [3000, 700])}, [("y", "ReduceSum", ["x"], {"axes": [0, 1]})]),
    "transposition": ({"x": (H, [900, 700])}, [("y", "Transpose", ["x"], {"perm": [1, 0]})]),
    "few rows": ({"x": (F, [3, 70_000])}, [("y", "Softmax", ["x"], {"axis": -1})]),
    "gathered": (
        {"x": (F, [500, 64]), "i": ("int32", [500, 9])},
        [("y", "GatherElements", ["x", "i"], {"axis": 1})],
    ),
    "joined": (
        {"x": (F, [400, 64])},
        [
            ("a", "ReduceMax", ["x"], {"axes": [1], "keepdims": True}),
            ("b", "ReduceMin", ["x"], {"axes": [1], "keepdims": True}),
            ("y", "Concat", ["a", "x", "b"], {"axis": 1}),
        ],
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_causes_add_up_to_the_difference(name: str) -> None:
    found = found_in(graph(*GRAPHS[name]))
    assert found["times"] == pytest.approx(found["kernel_us"] / found["total_us"])
    lost = sum(x["us"] for x in found["lost"])
    assert lost == pytest.approx(found["kernel_us"] - found["total_us"], abs=0.03)


def test_a_tensor_between_groups_is_named() -> None:
    size = draws.python_rng().randrange(500, 900)
    inputs = {"x": (F, [400, size]), "i": ("int32", [300])}
    nodes = [("e", "Exp", ["x"]), ("y", "Gather", ["e", "i"], {"axis": 0})]
    causes = {x["cause"]: x["text"] for x in found_in(graph(inputs, nodes))["lost"]}
    assert "e goes to GM for group 1" in causes["GM"]
    assert causes["barriers"] == "group 1 waits for e"


def test_rows_of_which_elements_are_taken_are_named() -> None:
    inputs = {"x": (H, [2048, 1000]), "i": ("int32", [2048, 40])}
    document = graph(inputs, [("y", "GatherElements", ["x", "i"], {"axis": 1})])
    causes = {x["cause"]: x["text"] for x in found_in(document)["lost"]}
    assert causes["GM"] == "x is loaded in whole rows"


def test_idle_cores_are_named() -> None:
    document = graph({"x": (F, [2, 8, 9000])}, [("y", "CumSum", ["x"], {"axis": 2})])
    texts = " ".join(x["text"] for x in found_in(document)["lost"])
    assert "of 48 cores group" in texts
