"""The model of kernel time counts what kernels move, and follows the figures of the card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autofuse import api
from autofuse.codegen.backends.triton.cost import KernelTime, Work, modelled, time_of, works
from autofuse.codegen.backends.triton.kernels import Program
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.summary import plan_summary
from autofuse.report.explanation import sizes_of
from autofuse.targets import load_gpu

GPU = load_gpu("nvidia-h100")
GALLERY = sorted((Path(__file__).parents[4] / "examples" / "gallery").glob("*.json"))
F32 = 4


def graph(
    op: str, *shapes: list[Any], symbols: tuple[str, ...] = (), **attrs: Any
) -> dict[str, Any]:
    """One op of float32."""
    names = [f"x{i}" for i in range(len(shapes))]
    return {
        "schema": "autofuse.graph/1",
        "name": "one",
        "symbols": {s: {"max": 1 << 26} for s in symbols},
        "inputs": [
            {"name": n, "dtype": "float32", "shape": s} for n, s in zip(names, shapes, strict=True)
        ],
        "nodes": [{"name": "n", "op": op, "inputs": names, "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }


def planned(source: Any) -> Program:
    built = api.build(source, target=GPU)
    return plan(built.graph, built.hint, GPU)


def only(source: Any, **sizes: int) -> Work:
    """The work of the one kernel that runs."""
    (found,) = works(planned(source), GPU, sizes)
    return found


def moved(w: Work) -> int:
    return sum(count for count, _ in w.runs)


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_every_kernel_that_is_launched_has_a_time(path: Path) -> None:
    program = planned(path)
    sizes = sizes_of(program.graph.symbols, {})
    rows = [r for r in plan_summary(program, sizes) if r["launched"]]
    times = modelled(program, GPU, sizes)
    assert [t.name for t in times] == [r["name"] for r in rows]
    for t, r in zip(times, rows, strict=True):
        assert t.bytes == r["input_bytes"] + r["output_bytes"] + r["scratch_bytes"]
        assert t.us > GPU.launch_us
        # Nothing is faster than L2.
        assert t.us > t.bytes / GPU.l2_gbs / 1e3


def test_nothing_is_launched_for_nothing() -> None:
    assert modelled(planned(graph("Relu", ["n", 64], symbols=("n",))), GPU, {"n": 0}) == ()


def time(source: Any, **changes: Any) -> KernelTime:
    """Of the first kernel, on a card with other figures."""
    gpu = replace(GPU, **changes)
    return time_of(next(iter(works(planned(source), GPU, {}))), gpu)


LARGE = graph("Relu", [8192, 8192])
#: One row over the blocks of a cluster each, with room for one cluster at a time.
CLUSTERS = graph("Softmax", [1024, 262144], axis=1)


def test_bottlenecks() -> None:
    large = time(LARGE)
    assert large.bottleneck == "bandwidth"
    assert large.us == pytest.approx(2 * 8192 * 8192 * F32 / GPU.copy_gbs / 1e3, rel=0.01)
    assert time(LARGE, copy_gbs=GPU.copy_gbs / 2).us == pytest.approx(2 * large.us, rel=0.01)
    assert time(graph("Relu", [1024, 1024])).bottleneck == "L2"
    assert time(graph("Relu", [64])).bottleneck == "launch"
    assert time(LARGE, clock_mhz=10).bottleneck == "instructions"
    assert time(CLUSTERS, meet_us=500.0).bottleneck == "clusters"
    assert time(graph("ReduceSum", [8, 4096], axes=[1]), alone_gbs=0.1).bottleneck == "parallelism"
    whole_rows = graph("Softmax", [8192, 32768], axis=1)
    assert time(whole_rows, alone_gbs=0.1).bottleneck == "registers"


def test_more_room_is_never_slower() -> None:
    assert time(CLUSTERS, registers=4 * GPU.registers).us < time(CLUSTERS).us
    assert time(CLUSTERS, meet_us=2 * GPU.meet_us).us > time(CLUSTERS).us
    norm = graph("Softmax", [4096, 4096], axis=1)
    assert time(norm, thread_registers=200).us >= time(norm).us


def test_rows_that_l2_loses_are_read_again() -> None:
    """Both are loops of two passes: the rows under way have 2 GiB, and 16 MiB."""
    assert moved(only(graph("Softmax", [512, 1 << 20], axis=1))) == 3 * 512 * (1 << 20) * F32
    few = graph("Softmax", [64, "n"], symbols=("n",), axis=1)
    assert moved(only(few, n=65536)) == 2 * 64 * 65536 * F32


def test_what_is_broadcast_is_read_again_where_l2_has_lost_it() -> None:
    for cols, times in ((1 << 23, 4), (1 << 12, 1)):
        w = only(graph("Add", [4, cols], [cols]))
        assert moved(w) == (2 * 4 + times) * cols * F32


def test_runs_of_neighbours() -> None:
    """The sum goes down columns: a block has as many neighbours as it has rows."""
    program = planned(graph("ReduceSum", [1024, 65536], axes=[0]))
    first = next(iter(works(program, GPU, {})))
    blocks = program.kernels[0].blocks
    assert blocks is not None
    assert first.runs[0] == (1024 * 65536 * F32, blocks.rows * F32)
    short = replace(first, runs=((1 << 28, 8),))
    long = replace(first, runs=((1 << 28, 1 << 20),))
    # Of a sector of 32 bytes 8 are used.
    assert time_of(short, GPU).us > 4 * (time_of(long, GPU).us - GPU.launch_us)


def test_values_loaded_behind_a_reduction() -> None:
    norm = next(p for p in GALLERY if p.stem == "rms_norm_residual")
    program = planned(norm)
    (found,) = works(program, GPU, sizes_of(program.graph.symbols, {}))
    assert found.late > 0
    assert only(graph("Softmax", [4096, 4096], axis=1)).late == 0
