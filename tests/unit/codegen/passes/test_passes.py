"""Passes over KernelIR: syncs, barriers, names, unused definitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autofuse.codegen.ir.calls import Call, LocalArg
from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    Barrier,
    CopyIn,
    DeQue,
    DmaBlock,
    EnQue,
    For,
    GetBuf,
    InitBuffer,
    KernelFn,
    Let,
    Parameters,
    QueueDecl,
    ReturnIfEmpty,
    ScalarRead,
    Stmt,
    Sync,
)
from autofuse.codegen.passes import PIPELINE, run_passes
from autofuse.codegen.passes.barriers import InsertBarriers
from autofuse.codegen.passes.syncs import InsertSyncs
from autofuse.codegen.passes.unused import RemoveUnused
from autofuse.implgraph.expr.expression import ONE, ZERO, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.graph import Position

F32 = BY_NAME["float32"]
TWICE = const(2)


def call(dst: str, *src: str) -> Call:
    args = tuple(LocalArg(x) for x in (dst, *src))
    return Call("Op", args, (dst,), src)


def fn(*body: Stmt) -> KernelFn:
    return KernelFn("f", Parameters(("p",), ()), body)


def text(body: tuple[Stmt, ...]) -> str:
    """Calls by destination, barriers as |, loops in brackets."""
    out = ""
    for s in body:
        if isinstance(s, Call):
            out += s.writes[0]
        elif isinstance(s, Barrier):
            out += "|"
        elif isinstance(s, For):
            out += f"[{text(s.body)}]"
    return out


def barriers(*body: Stmt) -> str:
    return text(InsertBarriers()(fn(*body)).body)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("a", "x"), ("b", "x")], "ab"),
        ([("a", "x"), ("b", "a")], "a|b"),
        ([("a", "x"), ("a", "y")], "a|a"),
        ([("a", "x"), ("x", "y")], "a|x"),
        ([("a", "x"), ("b", "y"), ("c", "a", "b"), ("d", "b")], "ab|cd"),
        ([("a", "a"), ("a", "a")], "a|a"),
    ],
)
def test_calls_that_touch_the_same_bytes_are_kept_apart(calls, expected):
    assert barriers(*(call(*c) for c in calls)) == expected


def test_names_of_one_buffer_are_the_same_bytes():
    bufs = [GetBuf("a", "buf0", F32), GetBuf("b", "buf0", F32), GetBuf("c", "buf1", F32)]
    assert barriers(*bufs, call("a", "x"), call("b", "y"), call("c", "x")) == "a|bc"


def test_barrier_for_what_stands_before_a_loop_runs_once():
    loop = For("i", TWICE, (Alloc("b", "que0", F32), call("b", "a")))
    assert barriers(call("a", "x"), loop) == "a|[b]"


def test_barrier_in_a_loop_serves_for_what_stands_before_it():
    loop = For("i", TWICE, (call("b", "a"),))
    assert barriers(call("a", "x"), loop) == "a[|b]"


def test_loop_that_touches_nothing_from_before_needs_no_barrier_before_it():
    loop = For("i", TWICE, (Alloc("b", "que0", F32), call("b", "y")))
    assert barriers(call("a", "x"), loop) == "a[b]"


def test_end_of_an_iteration_meets_its_start():
    loop = For("i", TWICE, (call("a", "x"), call("c", "y")))
    assert barriers(loop) == "[|ac]"


def test_barrier_that_moves_what_the_end_leaves_pending():
    # c conflicts with a only; in the next iteration b conflicts with c, and then a with b.
    body = (call("a", "b"), call("b", "q"), call("q", "a"))
    found = barriers(For("i", TWICE, body))
    unrolled = 3 * found[1:-1]
    last: dict[str, int] = {}
    segment = 0
    reads = {"a": "b", "b": "q", "q": "a"}
    for c in unrolled:
        if c == "|":
            segment += 1
            continue
        assert last.get(reads[c], -1) != segment, "read after write"
        last[c] = segment
    assert len(unrolled) - segment == 9


def test_what_follows_a_loop_is_kept_apart_from_it():
    assert barriers(For("i", TWICE, (call("a", "x"),)), call("b", "a")) == "[|a]|b"


def test_what_precedes_a_loop_is_kept_apart_from_what_follows_it():
    """The loop may run not once."""
    loop = For("i", TWICE, (Alloc("c", "que0", F32), call("c", "y")))
    assert barriers(call("a", "x"), loop, call("b", "a")) == "a[c]|b"


def test_scalar_unit_that_waited_for_the_vector_pipe_orders_all_calls():
    assert barriers(call("a", "x"), Sync("V", "S"), call("b", "a")) == "ab"
    assert barriers(call("a", "x"), Sync("MTE2", "S"), call("b", "a")) == "a|b"


def test_barrier_inside_a_call_serves_for_its_result():
    def spread(dst: str, src: str) -> Call:
        return Call("Broadcast", (), (dst, "tmp"), (src,), "Inner")

    assert barriers(call("a", "x"), call("b", "a"), spread("x", "y")) == "a|bx"
    assert barriers(call("a", "x"), spread("b", "a")) == "a|b"
    assert barriers(spread("b", "y"), call("y", "x"), call("c", "b")) == "by|c"
    assert barriers(spread("b", "y"), spread("c", "y")) == "b|c"


def test_a_fresh_queue_buffer_has_no_past():
    body = (Alloc("a", "que0", F32), call("a", "x"))
    assert barriers(For("i", TWICE, body)) == "[a]"


@pytest.mark.parametrize(
    ("buffers", "tensors", "expected"),
    [(2, "a", "[a|b]"), (1, "a", "[|a|b]"), (2, "ac", "[|ca|b]"), (3, "ac", "[ca|b]")],
)
def test_a_buffer_that_comes_around_waits_for_calls_that_read_what_was_stored(
    buffers, tensors, expected
):
    """``b`` reads ``a`` when that was enqueued for its store: the queue's event does not know of it."""
    result = (Alloc("a", "que0", F32), call("a", "x"), EnQue("a", "que0", F32))
    other = (Alloc("c", "que0", F32), call("c", "y"), EnQue("c", "que0", F32))
    queue = (
        QueueDecl("que0", Position.VECOUT, buffers),
        InitBuffer("tpipe", "que0", buffers, const(256)),
    )
    body = (*(other if "c" in tensors else ()), *result, call("b", "a"))
    assert barriers(*queue, For("i", TWICE, body)) == expected


def test_nested_loops():
    inner = For("j", TWICE, (call("a", "x"),))
    assert barriers(For("i", TWICE, (inner, call("b", "a")))).count("|") >= 2


def test_unused_sizes_go_and_chains_of_them_too():
    body = (
        Let("a", const(4)),
        Let("b", sym("a") + 1),
        Let("c", const(5)),
        Let("n", sym("c")),
        ReturnIfEmpty("n"),
    )
    assert [s.name for s in RemoveUnused()(fn(*body)).body if isinstance(s, Let)] == ["c", "n"]


def test_sizes_used_in_a_loop_stay():
    copy = CopyIn("x", ZERO, "gm", sym("a") * sym("i"), F32, DmaBlock(ONE, ONE, ZERO, ZERO))
    body = (
        Let("a", const(4)),
        Let("n", const(2)),
        For("i", sym("n"), (Let("unused", sym("a")), copy)),
    )
    out = RemoveUnused()(fn(*body)).body
    assert [s.name for s in out if isinstance(s, Let)] == ["a", "n"]
    assert [type(s) for s in out[-1].body] == [CopyIn]


def test_passes_are_named_and_change_nothing_the_second_time():
    assert len({p.name for p in PIPELINE}) == len(PIPELINE)
    loop = For("i", TWICE, (call("a", "x"), call("b", "a")))
    once = run_passes(fn(Let("n", const(1)), loop))
    assert RemoveUnused()(once) == once


# syncs ----------------------------------------------------------------------------------------
BLOCK = DmaBlock(ONE, ONE, ZERO, ZERO)


def load(x: str) -> CopyIn:
    return CopyIn(x, ZERO, "gm", ZERO, F32, BLOCK)


def read(x: str) -> ScalarRead:
    return ScalarRead(f"{x}_scalar", x, F32)


def syncs(*body: Stmt) -> str:
    """Loads as <, calls by destination, scalar reads as !, syncs by their event."""

    def text(body: tuple[Stmt, ...]) -> Iterator[str]:
        for s in body:
            if isinstance(s, For):
                yield f"[{' '.join(text(s.body))}]"
            elif isinstance(s, Sync):
                yield s.event
            elif isinstance(s, Call):
                yield s.writes[0]
            elif isinstance(s, CopyIn | ScalarRead):
                yield f"{s.local}{'<' if isinstance(s, CopyIn) else '!'}"

    return " ".join(text(InsertSyncs()(fn(*body)).body))


def test_one_sync_serves_all_loads_before_it():
    body = (load("a"), load("b"), call("c", "a"), call("d", "b"))
    assert syncs(*body) == "a< b< MTE2_V c d"


def test_scalar_is_read_behind_the_pipe_that_made_it():
    assert syncs(load("a"), read("a")) == "a< MTE2_S a!"
    assert syncs(call("c", "x"), read("c")) == "c V_S c!"


def test_no_sync_for_a_pipe_without_a_use():
    assert syncs(load("a"), read("a"), For("i", TWICE, (call("c", "x"),))) == "a< MTE2_S a! [c]"


def test_scalar_unit_has_seen_what_the_vector_pipe_had_waited_for():
    body = (load("a"), load("b"), call("c", "a"), read("c"), read("b"))
    assert syncs(*body) == "a< b< MTE2_V c V_S c! b!"


def test_second_sync_only_for_what_was_made_since_the_first():
    body = (call("a", "x"), call("b", "x"), read("b"), read("a"), call("c", "x"), read("a"))
    assert syncs(*body) == "a b V_S b! a! c a!"
    assert syncs(call("a", "x"), read("a"), call("a", "x"), read("a")) == "a V_S a! a V_S a!"


def test_sync_for_what_precedes_a_loop_stands_before_it():
    loop = For("i", TWICE, (call("c", "a"),))
    assert syncs(load("a"), loop) == "a< MTE2_V [c]"


def test_value_of_every_iteration_is_awaited_in_it():
    loop = For("i", TWICE, (call("c", "x"), read("c"), call("d", "x")))
    assert syncs(loop) == "[c V_S c! d]"


def test_queue_hands_a_load_to_the_vector_pipe():
    body = (load("a"), DeQue("a", "que0", F32), call("c", "a"))
    assert syncs(For("i", TWICE, body)) == "[a< c]"
