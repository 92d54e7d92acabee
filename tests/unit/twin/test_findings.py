"""Findings of checked mode: from a line of the kernel to a node of the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.findings import KernelText, diagnostics_of
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.run.native import Access, Finding
from autofuse.machines.twin.verify.verify import verify_kernel

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

TEXT = """\
using namespace AscendC;
inline __aicore__ void first(
    GM_ADDR x) {
  // from: load: Load (/inputs/0)
  DataCopyPad(a, b, c);
  for (;;) {
    PipeBarrier<PIPE_V>();
    // from: wide: Broadcast (/nodes/1)
    autofuse::BroadcastInner(
        a,
        b);
    // from: sum: Add (/nodes/0)
    Add(
        a,
        b, n);
  }
}

inline __aicore__ void second(GM_ADDR x) {
  TPipe pipe;
  // from: plain: Abs
  Abs(a, b, n);
}
"""


def test_a_line_is_explained() -> None:
    text = KernelText(TEXT)
    assert text.spot(0) is None
    assert text.spot(99) is None
    load = text.spot(5)
    assert load is not None
    assert (load.function, load.node, load.op, load.pointer) == (
        "first",
        "load",
        "Load",
        "/inputs/0",
    )
    total = text.spot(13)
    assert total is not None
    assert total.statement == "Add(a, b, n);"
    plain = text.spot(22)
    assert plain is not None
    assert (plain.function, plain.node, plain.pointer) == ("second", "plain", "")
    pipe = text.spot(20)
    assert pipe is not None
    assert (pipe.function, pipe.node) == ("second", "")


@pytest.mark.parametrize("call", ["", "<autofuse::MaxOf>", "<float, 8>"])
@pytest.mark.parametrize("line", [7, 13])
def test_a_call_in_a_shared_header_is_that_of_the_kernel(line: int, call: str) -> None:
    """Line 7 stands before the call; after line 13 it comes in the next iteration."""
    text = TEXT.replace("BroadcastInner", f"BroadcastInner{call}")
    spot = KernelText(text).spot(line, nested=True)
    assert spot is not None
    assert (spot.line, spot.node) == (9, "wide")


def test_a_finding_names_both_accesses(abs_graph) -> None:
    other = Access("DataCopyPad", 2, 5, 1, False)
    found = [
        Finding("race", 3, 2, "Add", "m", 13, 4, False, "VECIN queue 0 block 1", 0, 64, other),
        Finding("gm-unwritten", -1, 1, "kernel", "not written", place="y", end=4),
    ]
    (d,) = diagnostics_of(abs_graph, KernelText(TEXT), found, {"s0": 5}, 1)
    assert d.code == "AF5004"
    assert d.where.pointer == "/nodes/0"
    assert "core 3, time 4 of this line: Add(a, b, n);" in d.notes[0]
    assert d.notes[1].startswith("conflicts with first line 5, node load (Load), core 2")
    assert "VECIN queue 0 block 1, bytes [0, 64)" in d.notes[2]
    assert "s0=5, tiling key 1" in d.notes[3]
    (alone,) = diagnostics_of(abs_graph, KernelText(TEXT), found[1:], {}, None)
    assert alone.code == "AF6002"


def test_many_findings_are_counted(abs_graph) -> None:
    found = [Finding("race", 0, 1, "Add", str(i)) for i in range(11)]
    shown = diagnostics_of(abs_graph, KernelText(""), found, {}, None)
    assert len(shown) == 8
    assert "and 3 more findings" in shown[-1].notes


# whole kernels --------------------------------------------------------------------------------


def _found(old: str, new: str, count: int = 1) -> tuple[Diagnostic, ...]:
    """What ``verify`` says when the generated kernel of an example is changed."""
    built = api.build(EXAMPLES / "where_mask.json")
    device = "device/where_mask_kernel.cpp"
    assert old in built.files[device]
    files = {**built.files, device: built.files[device].replace(old, new, count)}
    return verify_kernel(files, built.graph, bindings=[{"batch": 3, "seq": 100}]).diagnostics


@pytest.mark.twin
def test_a_missing_barrier_is_traced_to_the_node() -> None:
    comment = "// from: large: CompareScalar (/nodes/1)\n    PipeBarrier<PIPE_V>();"
    found = _found(comment, comment.partition("\n")[0])
    d = next(d for d in found if "CompareScalar" in d.message)
    assert d.code == "AF5004"
    assert (d.where.node, d.where.pointer) == ("large", "/nodes/1")
    assert "race: CompareScalar" in d.message
    assert "Muls(scale_local[0], scores_local[0], 0.125f" in d.notes[1]


@pytest.mark.twin
def test_a_stored_tail_is_traced_to_the_output() -> None:
    found = _found(
        "DataCopyPad(scores_local[0], scores_gm[offset0], block0",
        "DataCopyPad(scores_local[0], scores_gm[offset0], DataCopyExtParams{1, 4, 0, 0, 0}",
    )
    d = next(d for d in found if "uninit-store" in d.message)
    assert d.where.pointer == "/outputs/0"
    assert "are stored to GM" in d.message


@pytest.mark.twin
def test_fast_mode_does_not_look() -> None:
    built = api.build(EXAMPLES / "where_mask.json")
    device = "device/where_mask_kernel.cpp"
    files = {**built.files, device: built.files[device].replace("    PipeBarrier<PIPE_V>();\n", "")}
    options = {"bindings": [{"batch": 3, "seq": 100}]}
    assert verify_kernel(files, built.graph, check="fast", **options).ok
    assert not verify_kernel(files, built.graph, **options).ok


@pytest.mark.twin
def test_orders_do_not_change_a_sound_kernel(abs_files, abs_graph) -> None:
    library = compile_kernel(abs_files(), "absk", checked=True)
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    for seed in range(6):
        kernel = TwinKernel(library, abs_graph, check="all", check_seed=seed)
        assert np.array_equal(kernel(x), np.abs(x))


@pytest.mark.twin
def test_a_loaded_kernel_is_checked_on_request(abs_files, abs_graph) -> None:
    broken = abs_files(("qout.EnQue(b);", ""), ("b = qout.DeQue<float>();", ""))
    library = compile_kernel(broken, "absk", checked=True)
    x = np.ones(256, np.float32)
    assert np.array_equal(TwinKernel(library, abs_graph)(x), x)
    with pytest.raises(AutofuseError, match="race"):
        TwinKernel(library, abs_graph, check="all")(x)
    with pytest.raises(ValueError, match="fast, all"):
        TwinKernel(library, abs_graph, check="some")
