"""Names of a graph in the text of its C++ loops: those that C++ uses otherwise, and those that are odd."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from triton_checks import found_wrong

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.frozen import replace
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = pytest.mark.twin

#: Names that a file has another use for, by itself or as a name of C++ or its macros.
_USED = """std simd data shapes half bfloat16 lanes start j i0 i1 i2 exp max min float int class auto int64_t uint8_t
    NAN INFINITY NULL EOF M_PI errno unix linux true and xor new delete asm main printf autofuse x_value x_row
    total x_total at place tile0 end1 x_tile x_turned omp parallel largest smallest bit_cast assert INT64_MAX"""
USED = _USED.split()
#: Names that would be more than a name, if they stood in the text as they are.
ODD = [
    "x):",
    "x; }",
    "*/",
    "//",
    "\\",
    '"',
    'R"(',
    "#define x",
    "a b",
    "1",
    "../x",
    "model.0/weight",
    "\u00e9",
]
#: What a reader takes for no name.
UNSEEN = ["x\n#include <fstream>", "a\r\nb", "\u2028x", ""]


def document(names: Sequence[str], name: str = "g", symbol: str = "n") -> dict[str, Any]:
    """Every input less the sum of its rows; each name is that of an input and of a node."""
    nodes: list[dict[str, Any]] = []
    for k, x in enumerate(names):
        attrs = {"axes": [1], "keepdims": True}
        total = {"name": x, "op": "ReduceSum", "inputs": [x], "outputs": [f"{x}_t"]}
        rest = {"name": f"{x}_{k}", "op": "Sub", "inputs": [x, f"{x}_t"], "outputs": [f"{x}_y"]}
        nodes += [{**total, "attrs": attrs}, rest]
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": {symbol: {"min": 0, "max": 64}},
        "inputs": [{"name": x, "dtype": "float32", "shape": [symbol, 5]} for x in names],
        "nodes": nodes,
        "outputs": [{"name": f"{x}_z", "tensor": f"{x}_y"} for x in names],
    }


def text_of(graph: api.GraphLike) -> str:
    (text,) = (t for f, t in api.build(graph, target="cpu").files.items() if f.endswith(".cpp"))
    return text


@pytest.mark.parametrize("part", range(3))
def test_names_that_mean_something_in_cpp(loops: WorkerPool, part: int) -> None:
    assert not found_wrong(loops, document(USED[part::3]), count=2, target="cpu")


@pytest.mark.parametrize("name", ["std", "class", "main", "j", "i0", "NAN", "x_value", "g_0"])
def test_names_of_graphs_and_symbols(loops: WorkerPool, name: str) -> None:
    made = document([name, "x"], name=name, symbol=name)
    assert not found_wrong(loops, made, count=2, target="cpu")


def test_names_that_are_no_identifiers(loops: WorkerPool) -> None:
    assert not found_wrong(loops, document(ODD), count=2, target="cpu")


@pytest.mark.parametrize("name", ODD)
def test_graphs_whose_names_are_no_identifiers(name: str) -> None:
    files = api.build(document(["x"], name=name), target="cpu").files
    for path in files:
        assert re.fullmatch(r"[A-Za-z0-9_]+\.(cpp|graph\.json)", path)
    assert re.search(r'extern "C" void [A-Za-z0-9_]+_kernel\(', text_of(document(["x"], name=name)))


@pytest.mark.parametrize("name", UNSEEN)
def test_names_that_cannot_be_seen(name: str) -> None:
    for made in (document([name]), document(["x"], name=name), document(["x"], symbol=name)):
        with pytest.raises(AutofuseError, match="AF1105"):
            api.build(made, target="cpu")


def test_a_graph_that_no_reader_has_checked() -> None:
    graph = replace(api.read(document(["x"])), name="x\n#include <fstream>")
    with pytest.raises(Exception, match="not an identifier"):
        api.build(graph, target="cpu")
