"""``<g>.json``: complete, deterministic, and what the host files say."""

import hashlib
import json
from dataclasses import replace

from autofuse.codegen.backends.ascendc.host.metadata import metadata_text
from autofuse.codegen.backends.ascendc.provenance import banner, graph_digest
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.fusion import GraphOutput, Symbol
from autofuse.targets import load_target

TARGET = load_target("ascend910b1")


def test_dynamic_graph(two_templates) -> None:
    text = metadata_text(two_templates.graph, two_templates.results, TARGET, "kernel")
    found = json.loads(text)
    assert text.endswith("}\n")
    assert found["kernelName"] == "abs_two"
    assert found["dynamic"] is True
    assert found["sha256"] == hashlib.sha256(b"kernel").hexdigest()
    assert found["graphSha256"] == graph_digest(two_templates.graph)
    assert found["inputs"][0]["shape"] == ["s0", "s1"]
    assert found["inputs"][0]["parameter"] == "x"
    assert found["outputs"][0]["inout"] is None
    assert found["symbols"][0] == {"name": "s0", "min": 0, "max": 1 << 40, "hint": None}
    assert [f["name"] for f in found["tilingData"]] == [
        "tiling_key",
        "block_dim",
        "s0",
        "s1",
        "z0z1t_size",
        "z0z1Tb_size",
        "z0t_size",
        "z0Tb_size",
    ]
    assert [k["functions"] for k in found["tilingKeys"]] == [
        ["abs_two_0_general_0_nil_2_nil"],
        ["abs_two_0_row_0_nil_0_nil_unaligned"],
    ]
    row = found["templates"][1]
    assert row["conditions"] == ["s1 is a multiple of 8"]
    assert row["tileMax"] == 4095
    assert row["ubBytes"] == "(128 * z0t_size * Ceiling(((4 * s1) / (32))))"
    assert found["rejected"][0]["reason"] == "needs 2 axes"
    assert found["functions"]["AutofuseTiling"].startswith("int64_t (int64_t s0, int64_t s1, Auto")
    assert found["functions"]["AutofuseLaunch"].count("void*") == 4


def test_keys_run_over_the_choices_of_all_groups(two_groups) -> None:
    found = json.loads(metadata_text(two_groups.graph, two_groups.results, TARGET, ""))
    assert found["dynamic"] is False
    assert [k["key"] for k in found["tilingKeys"]] == [0, 1, 2, 3]
    assert all(len(k["functions"]) == 2 for k in found["tilingKeys"])


def test_in_out_and_strided_parameters(abs_case) -> None:
    graph = abs_case.graph
    x = replace(graph.tensors["x"], strides=(const(400), const(2)), offset=sym("s0"))
    graph = replace(
        graph, tensors={**graph.tensors, "x": x}, outputs=(GraphOutput("y", "y", inout="x"),)
    )
    found = json.loads(metadata_text(graph, abs_case.results, TARGET, ""))
    assert found["inputs"][0]["strides"] == [400, 2]
    assert found["inputs"][0]["offset"] == "s0"
    assert found["outputs"][0]["inout"] == "x"


def test_text_is_a_function_of_the_input(abs_case) -> None:
    texts = {metadata_text(abs_case.graph, abs_case.results, TARGET, "k") for _ in range(3)}
    assert len(texts) == 1


def test_digest_is_about_meaning(abs_case) -> None:
    graph = abs_case.graph
    node = replace(graph.nodes[0], origin="/nodes/0")
    assert graph_digest(replace(graph, nodes=(node,))) == graph_digest(graph)
    other = replace(graph, symbols=(Symbol("s0", 1, 7),))
    assert graph_digest(other) != graph_digest(graph)
    assert "abs_test" in banner(graph, "ascend910b1", "#")
    assert banner(graph, "ascend910b1").count("\n") == 1
