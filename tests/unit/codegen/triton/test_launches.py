"""Launches as data: what a kernel writes, and kernels without clusters."""

from __future__ import annotations

from typing import Any

import pytest

from autofuse import api
from autofuse.codegen.backends.triton.launches import for_every_size, launches, taking_all
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.text.wrapper import file_text, kernels_text
from autofuse.codegen.nests.memory import Role
from autofuse.compiler import Stages, lower_to_plan
from autofuse.targets import load_gpu

H100 = load_gpu("nvidia-h100")


NODES: dict[str, list[tuple[str, str, list[str]]]] = {
    "softmax": [
        ("m", "ReduceMax", ["x"]),
        ("d", "Sub", ["x", "m"]),
        ("e", "Exp", ["d"]),
        ("s", "ReduceSum", ["e"]),
        ("y", "Div", ["e", "s"]),
    ],
    "sum": [("e", "Exp", ["x"]), ("y", "ReduceSum", ["e"])],
}


def program(what: str, shape: list[Any], *, clusters: bool = True) -> Any:
    nodes = [
        {
            "name": name,
            "op": op,
            "inputs": inputs,
            "outputs": [name],
            "attrs": {"axes": [-1], "keepdims": True} if "Reduce" in op else {},
        }
        for name, op, inputs in NODES[what]
    ]
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "rows",
            "symbols": {"n": {}} if "n" in shape else {},
            "inputs": [{"name": "x", "shape": shape, "dtype": "float32"}],
            "nodes": nodes,
            "outputs": ["y"],
        }
    )
    hint = lower_to_plan(graph, Stages(), masks=True)
    return plan(graph, hint, H100, clusters=clusters)


@pytest.mark.parametrize("cols", [9000, 40_000, 200_000])
def test_without_clusters_every_block_is_alone(cols: int) -> None:
    """Rows that a block holds stay in registers, longer ones are read in a loop."""
    with_them, alone = (
        list(launches(program("softmax", [64, cols], clusters=c))) for c in (True, False)
    )
    assert max(k.parts for k in with_them) > 1
    assert {k.parts for k in alone} == {1}
    assert not any(k.meeting for k in alone)
    assert (len(alone) == 1) == (cols <= 32768)


def test_what_a_kernel_writes() -> None:
    """Results and partial results; each is written before it is read."""
    made = program("sum", [1 << 22], clusters=False)
    found = list(launches(made))
    assert len(found) > 1
    seen = set(made.inputs)
    for k in found:
        assert k.written
        assert {m for m in k.memory if m not in k.written} <= seen
        seen |= set(k.written)
    assert {m.role for m in found[0].written} == {Role.SCRATCH}
    assert [m.role for m in found[-1].written] == [Role.OUTPUT]


def test_kernels_for_every_size_are_those_without_a_limit() -> None:
    made = program("softmax", [64, "n"])
    assert [bool(k.most_cols) for k in made.kernels] == [True, False]
    (kept,) = for_every_size(made).kernels
    assert kept == made.kernels[1]
    (all_,) = launches(taking_all(for_every_size(made)))
    assert [m.role for m in all_.memory] == [Role.INPUT, Role.OUTPUT]
    assert all_.name == "rows_kernel"


def test_the_text_of_the_kernels_alone() -> None:
    """It has the functions of the whole module in the same order, and nothing that calls them."""
    made = program("softmax", [64, 1000])
    alone, whole = kernels_text(made), file_text(made)
    assert "Launcher" not in alone
    assert "torch.empty" not in alone
    names = [line for line in alone.splitlines() if line.startswith("def ")]
    assert names == [line for line in whole.splitlines() if line in names]
    assert alone.partition("@triton.jit")[2].strip() in whole.replace("@Launcher\n", "")
