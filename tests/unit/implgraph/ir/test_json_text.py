"""``json_text`` writes what ``json.dumps`` writes, and the digest in a banner is that of its own graph."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse import api
from autofuse.codegen.backends.ascendc.provenance import graph_digest
from autofuse.implgraph.ir.serialise import json_text

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4)
)


@given(VALUES, st.integers(0, 4))
def test_it_is_the_text_of_json_dumps(value: object, indent: int) -> None:
    assert json_text(value, indent) == json.dumps(value, indent=indent)


@pytest.mark.parametrize("order", [(4, 5, 4), (5, 5, 4)])
def test_every_graph_has_a_digest_of_its_own(order: tuple[int, ...]) -> None:
    def graph(size: int) -> dict[str, object]:
        return {
            "schema": "autofuse.graph/1",
            "name": "g",
            "inputs": [{"name": "x", "dtype": "float32", "shape": [size]}],
            "nodes": [{"name": "a", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
            "outputs": ["y"],
        }

    digests = [graph_digest(api.read(graph(size))) for size in order]
    for i, a in enumerate(order):
        for k, b in enumerate(order):
            assert (digests[i] == digests[k]) is (a == b)
