"""The text of kernels in clusters: how their blocks are divided, and what is read before they meet."""

from __future__ import annotations

import re
from typing import Any

import pytest

from autofuse import api

MEETS = "    meet_cluster(PARTS)\n"


def kernel(shape: tuple[int, int], axis: int) -> str:
    """Exponentials less their sums with a momentum, which is overwritten: a value per row."""
    kept = [1 if k == axis else n for k, n in enumerate(shape)]
    nodes: list[dict[str, Any]] = [
        {"name": "e", "op": "Exp", "inputs": ["x"], "outputs": ["y"]},
        {"name": "c", "op": "ReduceSum", "inputs": ["y"], "outputs": ["s"]},
        {"name": "a", "op": "Add", "inputs": ["s", "m"], "outputs": ["n"]},
        {"name": "d", "op": "Sub", "inputs": ["y", "n"], "outputs": ["z"]},
    ]
    nodes[1]["attrs"] = {"axes": [axis], "keepdims": True}
    document = {
        "schema": "autofuse.graph/1",
        "name": "momentum",
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": list(shape)},
            {"name": "m", "dtype": "float32", "shape": kept},
        ],
        "nodes": nodes,
        "outputs": ["z", {"name": "m_out", "tensor": "n", "inout": "m"}],
    }
    text = api.build(document, target="nvidia-h100").files["momentum_triton.py"]
    return text[text.index("@Launcher") : text.index("def momentum(")]


FORMS = {"rows of a run": ((8192, 1000), 0), "one long row": ((300, 200_000), 1)}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_overwritten_is_read_before_the_blocks_meet(form: str) -> None:
    """Each of them reads the value of a row, and the first one that is ready overwrites it."""
    text = kernel(*FORMS[form])
    assert text.count("tl.load(m_ptr") == text.count("tl.store(m_ptr") == text.count(MEETS) == 1
    assert text.index("tl.load(m_ptr") < text.index(MEETS) < text.index("tl.store(m_ptr")


def test_rows_have_an_index_in_every_part() -> None:
    text = kernel(*FORMS["rows of a run"])
    (row,) = re.findall(r"    row = .*", text)
    assert (
        "tl.arange(0, PARTS)[:, None, None] * ROWS + tl.arange(0, ROWS)[None, :, None]) % ROWS"
        in row
    )
    assert "[1, ROWS, 1]" not in text
    assert "[PARTS, ROWS, 1]" in text
