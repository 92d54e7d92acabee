"""Names of a graph in the text of its Triton kernels: those that Python uses otherwise, and those that are odd."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from extras import needs
from triton_checks import TARGET, assert_right

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.frozen import replace
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = [pytest.mark.sampled(2), pytest.mark.triton]

#: Names that a file has another use for, by itself or as a name of Python.
_USED = """tl lambda torch triton None row ROWS x_ptr col COLS BLOCK PARTS WIDE item block start first part outer live
    row_live item_live col_live launch Launcher print max min device warps row_blocks unit_of UNIT meet_cluster
    meeting partial scratch self key t grid tensors inverse shift largest total mean n i0 i1 y_ptr int match case _
    __name__ num_warps num_ctas fusion IN_CLUSTERS"""
USED = _USED.split()
#: Names that would be more than a name, if they stood in the text as they are.
ODD = [
    "x):",
    "a: print(1)",
    'a"""; raise',
    "'''",
    '"',
    "\\",
    "{x}",
    "# x",
    "a;b",
    "1",
    "a b",
    "model.0/weight",
]
ODD += ["onnx::Add_1", "\u00e9", "\u5f35\u91cf", "\U0001d431", "None", "0x1"]
#: What a reader takes for no name.
UNSEEN = ["x\nimport os", 'a"""\nraise SystemExit', "a\r\nb", "\u2028raise", "", " "]


def document(names: Sequence[str], name: str = "g", symbol: str = "n") -> dict[str, Any]:
    """Every input less the sum of its rows; each name is that of an input, a node and an output, of others each."""
    nodes: list[dict[str, Any]] = []
    outputs = []
    for k, x in enumerate(names):
        attrs = {"axes": [1], "keepdims": True}
        total = {"name": x, "op": "ReduceSum", "inputs": [x], "outputs": [f"{x}_t"]}
        rest = {"name": f"{x}_{k}", "op": "Sub", "inputs": [x, f"{x}_t"], "outputs": [f"{x}_y"]}
        nodes += [{**total, "attrs": attrs}, rest]
        outputs.append({"name": names[k - 1] if len(names) > 1 else f"{x}_z", "tensor": f"{x}_y"})
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": {symbol: {"min": 0, "max": 64}},
        "inputs": [{"name": x, "dtype": "float32", "shape": [symbol, 5]} for x in names],
        "nodes": nodes,
        "outputs": outputs,
    }


def text_of(graph: api.GraphLike) -> str:
    (text,) = (t for f, t in api.build(graph, target=TARGET).files.items() if f.endswith(".py"))
    return text


def identifiers(text: str) -> set[str]:
    """Every name of a module; that there are only names of ASCII is seen as well."""
    tree = ast.parse(text)
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    found |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    found |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in found)
    return found


@pytest.mark.parametrize("part", range(4))
def test_names_that_mean_something_in_python(interpreter: WorkerPool, part: int) -> None:
    assert_right(interpreter, document(USED[part::4]))


@pytest.mark.parametrize("name", ["tl", "lambda", "torch", "None", "row", "ROWS", "launch", "max"])
def test_names_of_graphs_and_symbols(interpreter: WorkerPool, name: str) -> None:
    for made in (document(["x", "y"], name=name), document(["x", "y"], symbol=name)):
        assert_right(interpreter, made)
    assert_right(interpreter, document([name, "x"], name=name, symbol=name))


@pytest.mark.parametrize("name", ["x_ptr", "x_y", "g_rows", "COLS", "g"])
def test_symbols_like_what_is_made_of_other_names(interpreter: WorkerPool, name: str) -> None:
    assert_right(interpreter, document(["x", "y"], symbol=name))


@pytest.mark.parametrize("part", range(3))
def test_names_that_are_no_identifiers(interpreter: WorkerPool, part: int) -> None:
    assert_right(interpreter, document(ODD[part::3], name=ODD[part]))


@pytest.mark.parametrize("name", ODD)
def test_graphs_whose_names_are_no_identifiers(name: str) -> None:
    text = text_of(document(["x"], name=name))
    assert name not in identifiers(text) | {text.splitlines()[0]}


@needs("torch", "triton")
def test_a_call_takes_tensors_by_what_they_are_called() -> None:
    names = ["a b", "x):"]
    made = api.load(api.build(document(names), target=TARGET))
    x = [np.arange(10, dtype=np.float32).reshape(2, 5) * k for k in (1, 3)]
    outputs = made.run(dict(zip(names, x, strict=True))).outputs.values()
    for given, found in zip(x, outputs, strict=True):
        np.testing.assert_allclose(found, given - given.sum(1, keepdims=True))


@pytest.mark.parametrize("name", UNSEEN)
def test_names_that_cannot_be_seen(name: str) -> None:
    """A reader refuses them; of a graph that no reader made, they are nowhere in the text."""
    for made in (document([name]), document(["x"], name=name), document(["x"], symbol=name)):
        with pytest.raises(AutofuseError, match="AF1105"):
            api.build(made, target=TARGET)


@pytest.mark.parametrize("name", [n for n in UNSEEN if n.strip()])
def test_a_graph_that_no_reader_has_checked(name: str) -> None:
    text = text_of(replace(api.read(document(["x"])), name=name))
    assert name not in text
    identifiers(text)
