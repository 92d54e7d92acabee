"""The source document's example, ``abs_test``: its ImplGraph, its function, its dispatch, its runs."""

import functools
import re

import numpy as np
import pytest
from source_document import ABS_NODE, DOCUMENT

from autofuse import api
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ir.printer import print_graph

GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "abs_test",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [200, 200]}],
    "nodes": [{"name": "abs_0", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}

GENERAL = "abs_test_0_general_0_nil_2_nil"

NODES = {"gather_0": "Load (1)", "abs_0": "Abs (2)", "store": "Store (3)"}


@functools.cache
def built() -> api.BuildResult:
    return api.build(GRAPH, verify_ir=True)


def impls() -> dict[str, ImplGraph]:
    return {i.name: i for r in built().schedule for g in r.groups for i in g.impls}


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def section(text: str, title: str) -> list[str]:
    """The lines of one section, without indentation."""
    lines = text.splitlines()
    start = lines.index(f"{title}:") + 1
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith(" ")), len(lines))
    return lines_of("\n".join(lines[start:end]))


def node(text: str, name: str) -> tuple[str, list[str]]:
    """What stands after the name of a node, and the lines below it."""
    lines = section(text, "Nodes")
    start = next(i for i, line in enumerate(lines) if line.startswith(f"abs_test/{name}: "))
    rest = lines[start + 1 :]
    end = next((i for i, line in enumerate(rest) if line.startswith("abs_test/")), len(rest))
    return lines[start].partition(": ")[2], rest[:end]


def function(name: str) -> str:
    """The definition of a function in the kernel file."""
    source = built().files["device/abs_test_kernel.cpp"]
    found = re.search(rf"^[^\n/]* {name}\(.*?^}}$", source, re.M | re.S)
    assert found is not None
    return found[0]


def test_sizes_and_axes_are_those_of_the_document() -> None:
    assert DOCUMENT in print_graph(impls()[GENERAL])


def test_the_nodes_are_those_of_the_document() -> None:
    text = print_graph(impls()[GENERAL])
    for name, rest in NODES.items():
        assert node(text, name)[0] == rest


def test_the_abs_node_is_that_of_the_document() -> None:
    # Beyond the document: where in the input the node comes from.
    assert f'{ABS_NODE}    .origin = "/nodes/0"\n' in print_graph(impls()[GENERAL])


def test_the_entry_function_dispatches_on_the_tiling_key() -> None:
    entry = " ".join(function("abs_test").split())
    assert re.match(
        r'extern "C" __global__ __aicore__ void abs_test\( ?GM_ADDR x, '
        r"GM_ADDR y, \[\[maybe_unused\]\] GM_ADDR workspace, AutofuseTilingData \w+\) {",
        entry,
    )
    calls = re.findall(r"if \(t\.tiling_key == (\d+)\) { (\w+)\(([^)]*)\); }", entry)
    arguments = "x, y, t"
    assert calls == [("0", GENERAL, arguments)]
    keys = [(k["key"], k["functions"]) for k in built().metadata["tilingKeys"]]
    assert keys == [(0, [GENERAL])]


def test_the_inner_loop_does_what_the_document_shows() -> None:
    """One loop over the tiles of a core, with one Abs of the whole tile in it."""
    text, loop = function(GENERAL), "z0z1Tb"
    loops = re.findall(r"for \((\w+) (\w+) = 0; (\w+) < (\w+); (\w+)\+\+\)", text)
    assert [row[1:] for row in loops] == [(loop, loop, f"{loop}_loop_size", loop)]
    body = text[text.index("for (") :]
    calls = re.findall(r"\bAbs\((\w+)\[0\], (\w+)\[0\], ([^;]*)\);", body)
    assert len(calls) == text.count("Abs(") == 1
    assert calls[0][2] == "z0z1t_actual_size"
    assert body.index("DataCopyPad") < body.index("Abs(") < body.rindex("DataCopyPad")


@pytest.mark.twin
def test_it_is_verified_on_the_twin() -> None:
    report = api.verify(built())
    assert report.ok
    assert [(c.key, c.status) for c in report.cases] == [(0, "passed")]
    assert report.max_ulp == 0
    assert all(o.elements == 40000 and not o.unwritten for c in report.cases for o in c.outputs)


@pytest.mark.twin
def test_it_runs_on_given_data() -> None:
    x = np.random.default_rng(7).standard_normal((200, 200), dtype=np.float32)
    x[0, :4] = [-0.0, -np.inf, np.nan, -1e-40]
    kernel = api.load(built())
    run = kernel.run({"x": x}, key=0)
    assert run.block_dim > 1
    np.testing.assert_array_equal(run.outputs["y"], np.abs(x))
