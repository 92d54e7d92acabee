"""The checks of queues count, with sequences of statements that are counted here as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from register_functions import made

from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    CopyIn,
    DeQue,
    DmaBlock,
    EnQue,
    Free,
    InitBuffer,
    QueueDecl,
    Stmt,
)
from autofuse.codegen.proofs.item import Item
from autofuse.codegen.proofs.model import Kernel
from autofuse.codegen.verification.order import queue_protocol
from autofuse.implgraph.expr.expression import ONE, ZERO, const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import Position

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
F32 = BY_NAME["float32"]
ROW = DmaBlock(ONE, const(32), ZERO, ZERO)


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """A kernel whose statements tests put in the place of its own."""
    fn, impl, built = made(EXAMPLES / "abs_test.json", "ascend910b1")
    return Kernel(fn, impl, built.graph, built.target)


def said(kernel: Kernel, steps: list[Stmt], *, depth: int, buffers: int) -> list[str]:
    """What the check says of statements about one queue of loads, in order."""
    declared = [QueueDecl("que", Position.VECIN, depth), InitBuffer("tpipe", "que", buffers, ONE)]
    kernel.items = [Item(s, inside=False) for s in (*declared, *steps)]
    return [f.message for f in queue_protocol(kernel)]


def loaded(x: str) -> list[Stmt]:
    """A tensor gets a buffer, is loaded, and waits in the queue."""
    load = CopyIn(x, ZERO, "gm", ZERO, F32, ROW)
    return [Alloc(x, "que", F32), load, EnQue(x, "que", F32)]


def used(x: str) -> list[Stmt]:
    """The tensor that has waited longest is taken from the queue, and gives its buffer back."""
    return [DeQue(x, "que", F32), Free(x, "que")]


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 8])
def test_as_many_tensors_wait_as_the_queue_is_deep_and_not_one_more(
    kernel: Kernel, depth: int
) -> None:
    """A queue takes ``depth`` tensors before one is taken from it; with another one there is a finding."""

    def waiting(count: int) -> list[str]:
        names = [f"x{k}" for k in range(count)]
        steps = [s for x in names for s in loaded(x)] + [s for x in names for s in used(x)]
        return said(kernel, steps, depth=depth, buffers=count)

    assert waiting(depth) == []
    assert waiting(depth + 1) == [f"{depth + 1} tensors wait in que of depth {depth}"]


@pytest.mark.parametrize("buffers", [0, 1, 2, 4])
def test_as_many_tensors_are_alive_as_there_are_buffers_and_not_one_more(
    kernel: Kernel, buffers: int
) -> None:
    """Tensors that were taken from the queue keep their buffers until they are freed."""

    def alive(count: int) -> list[str]:
        names = [f"x{k}" for k in range(count)]
        steps = [s for x in names for s in (*loaded(x), DeQue(x, "que", F32))]
        return said(kernel, [*steps, *(Free(x, "que") for x in names)], depth=1, buffers=buffers)

    assert alive(buffers) == []
    text = f"que has {buffers} buffers, none of them is free for x{buffers}"
    assert alive(buffers + 1) == [text]


@given(
    turns=st.lists(st.sampled_from(["load", "take", "free"]), max_size=30),
    depth=st.integers(1, 4),
    buffers=st.integers(1, 6),
)
def test_findings_are_those_of_a_count(
    kernel: Kernel, turns: list[str], depth: int, buffers: int
) -> None:
    """Whatever the order in which tensors come and go, there is a finding for each number that is too large."""
    steps: list[Stmt] = []
    waiting: list[str] = []
    taken: list[str] = []
    expected: set[str] = set()
    last = ["take"] * len(turns) + ["free"] * len(turns)
    for number, turn in enumerate([*turns, *last]):
        if turn == "load":
            x = f"x{number}"
            if len(waiting) + len(taken) >= buffers:
                expected.add(f"que has {buffers} buffers, none of them is free for {x}")
            waiting.append(x)
            if len(waiting) > depth:
                expected.add(f"{len(waiting)} tensors wait in que of depth {depth}")
            steps += loaded(x)
        elif turn == "take" and waiting:
            taken.append(waiting.pop(0))
            steps.append(DeQue(taken[-1], "que", F32))
        elif turn == "free" and taken:
            steps.append(Free(taken.pop(0), "que"))
    found = said(kernel, steps, depth=depth, buffers=buffers)
    assert set(found) == expected


def test_a_queue_gives_tensors_back_in_the_order_in_which_they_came(kernel: Kernel) -> None:
    """A DeQue that names another tensor than the first one that waits is found."""
    steps = [*loaded("a"), *loaded("b"), *used("b"), *used("a")]
    assert "DeQue of que gives another tensor than b" in said(kernel, steps, depth=2, buffers=2)
    steps = [*loaded("a"), *loaded("b"), *used("a"), *used("b")]
    assert said(kernel, steps, depth=2, buffers=2) == []
