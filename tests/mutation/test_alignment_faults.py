"""Rows in UB at addresses that are no whole blocks: the static verifier refutes what a fault of the scheduler makes."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
from twin_graphs import every_template, graph

from autofuse.api import build
from autofuse.codegen.verification import verify_schedule
from autofuse.schedule.placement.placement import alignment
from autofuse.schedule.templates import narrow

F, H = "float32", "float16"
#: Modules of autofuse.schedule that ask how rows are padded.
ASK = ("realise", "templates.row", "placement.placement", "placement.reduction", "placement.scan")
N = {"n": {"min": 1, "max": 5000}}


def unaligned(document: dict[str, Any]) -> set[str]:
    """What is refuted because it is no multiple of a block: the words before the colon, without numbers."""
    built = build(document, verify_ir=False)
    found = verify_schedule(built.graph, built.schedule, built.target)
    wrong = [d.message for d in found if d.severity == "error" and "multiple of 32" in d.message]
    return {re.sub(r"\d+", "", m.partition(":")[0]) for m in wrong}


@pytest.fixture
def halved(monkeypatch):
    """Rows are padded to 16 bytes."""

    def half(g: Any, last: int) -> int:
        return max(alignment(g, last) // 2, 1)

    def apply() -> None:
        for name in ASK:
            module = importlib.import_module(f"autofuse.schedule.{name}")
            monkeypatch.setattr(module, "alignment", half)

    return apply


def gather(dtype: str, columns: int, rows: Any = 4096) -> dict[str, Any]:
    shapes = {"w": (dtype, [1000, columns]), "i": ("int64", [rows])}
    symbols = N if rows == "n" else {}
    return graph(shapes, [("y", "Gather", ["w", "i"], {"axis": 0})], **symbols)


GRAPHS = {
    "copies by an index": (gather(H, 100), "UB address of a copy"),
    "copies of bytes by an index": (gather("int8", 33), "UB address of a copy"),
    "copies by so many indices": (gather(F, 9, "n"), "UB address of a copy"),
    "sums": (
        graph({"x": (F, [3000, 9])}, [("y", "ReduceSum", ["x"], {"axes": [1]})]),
        "rows of Reduce",
    ),
    "sums of so many rows": (
        graph({"x": (F, ["n", 9])}, [("y", "ReduceSum", ["x"], {"axes": [1]})], **N),
        "rows of Reduce",
    ),
    "running sums": (
        graph({"x": (F, [3000, 9])}, [("y", "CumSum", ["x"], {"axis": 1})]),
        "rows of Scan",
    ),
    "a turn": (
        graph({"x": (H, [3000, 33])}, [("y", "Transpose", ["x"], {"perm": [1, 0]})]),
        "rows of TransposeRows",
    ),
    "short rows": (
        graph({"x": (H, ["n", 3])}, [("y", "ReduceSum", ["x"], {"axes": [1]})], **N),
        "rows of Unlace",
    ),
    "columns": (
        graph(
            {n: (F, ["n", 1]) for n in "ab"},
            [("t", "Exp", ["a"]), ("y", "Concat", ["t", "b"], {"axis": 1})],
            **N,
        ),
        "columns of StackRows",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
@every_template()
def test_rows_that_are_padded_to_half_a_block(name, halved):
    document, refuted = GRAPHS[name]
    assert not unaligned(document)
    halved()
    assert refuted in unaligned(document)


@pytest.mark.parametrize("dtype", [F, H])
@pytest.mark.parametrize("shape", [[4, 16, 2], [2, 3, 40, 2], ["n", 16, 2]], ids=str)
def test_short_columns_side_by_side(dtype, shape, monkeypatch):
    """Sums of what is put side by side: their columns are short ones, which lie at no whole blocks."""
    last = len(shape) - 1
    nodes = [
        ("u", "Concat", ["a", "b"], {"axis": last}),
        ("y", "ReduceSum", ["u"], {"axes": [last - 1]}),
    ]
    symbols = N if "n" in shape else {}
    document = graph({n: (dtype, shape) for n in "ab"}, nodes, **symbols)
    assert not unaligned(document)
    monkeypatch.setattr(narrow, "_has_long_columns", lambda g: True)
    assert "columns of StackRows" in unaligned(document)
