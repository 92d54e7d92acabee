"""Symbols become local variables of the kernel and must not be named like one."""

import json

import pytest

from autofuse.frontends import parse_graph
from autofuse.implgraph.ir.names import symbol_identifier


@pytest.mark.parametrize(
    "name", ["x_local", "n_axis_size", "x_queue", "x_bytes", "z0t_actual_size", "a_gm"]
)
def test_a_name_like_a_local_gets_another_ending(name: str) -> None:
    assert symbol_identifier(name, set()).endswith("_v")


@pytest.mark.parametrize("name", ["offset0", "block2", "row_size", "row1", "bank_gap"])
def test_a_name_like_a_buffer_gets_another_beginning(name: str) -> None:
    assert symbol_identifier(name, set()) == f"v_{name}"


def test_two_symbols_stay_two() -> None:
    taken: set[str] = set()
    names = {symbol_identifier("a_gm", taken), symbol_identifier("a_gm_v", taken)}
    assert len(names) == 2


def test_a_graph_may_end_like_a_local() -> None:
    graph = parse_graph(
        json.dumps(
            {
                "schema": "autofuse.graph/1",
                "name": "runtime_scalar",
                "symbols": {"x_local": {"min": 1, "max": 64}},
                "inputs": [{"name": "x", "dtype": "float32", "shape": ["x_local"]}],
                "nodes": [{"name": "x", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
                "outputs": ["y"],
            }
        )
    )
    assert graph.name == "runtime_scalar"
    assert [s.name for s in graph.symbols] == ["x_local_v"]
