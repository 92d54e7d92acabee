"""Options of autofuse.build."""

from __future__ import annotations

import json

import pytest
from twin_graphs import every_template

from autofuse.api import build
from autofuse.base.diagnostics import AutofuseError

GRAPH = json.dumps(
    {
        "schema": "autofuse.graph/1",
        "name": "chain",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 200]}],
        "nodes": [{"name": "a", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
)


def test_less_ub_means_smaller_tiles() -> None:
    limits = [
        build(GRAPH, ub_bytes=n).schedule[0].groups[0].impls[0].tiling.ub_limit
        for n in (4096, 65536)
    ]
    assert limits == [4096, 65536]


def test_a_ub_that_holds_no_tile_names_every_buffer() -> None:
    with pytest.raises(AutofuseError) as caught:
        build(GRAPH, ub_bytes=300)
    (d,) = caught.value.diagnostics
    assert d.code == "AF3003"
    assert "queue 0 (x) 1 x 256 bytes" in d.notes[0]
    assert "queue 1 (y) 1 x 256 bytes" in d.notes[0]
    assert "a tile of 32 would fit" in d.notes[0]


def test_one_buffer_each_where_two_do_not_fit() -> None:
    shared = json.loads(GRAPH)
    shared["inputs"].append({"name": "b", "dtype": "float32", "shape": [200]})
    shared["nodes"][0] |= {"op": "Add", "inputs": ["x", "b"]}
    # A row of 200 floats is 800 bytes: two buffers for results over loads, and two for the row that all share.
    with every_template():
        impls = build(shared, ub_bytes=3000).schedule[0].groups[0].impls
    queues = {i.template: {b.buf_num for b in i.buffers if b.kind == "queue"} for i in impls}
    assert queues == {"general": {2}, "row": {1}}


@pytest.mark.parametrize("nbytes", [0, -1, 188_161])
def test_ub_out_of_range(nbytes: int) -> None:
    with pytest.raises(AutofuseError, match="AF5007"):
        build(GRAPH, ub_bytes=nbytes)


def test_unknown_entry() -> None:
    with pytest.raises(AutofuseError, match="known entries: launch, op-package"):
        build(GRAPH, entry="direct")
