"""Graphs that do not fit the chip: what is said, and that what just fits still works."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.cost.ub_map import ub_map
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import choose
from autofuse.targets import TargetSpec, load_target


def pyramid(alive: int, size: int | str = 4096) -> dict[str, Any]:
    """``alive`` results one after the other, then their sum from the last: all alive at once."""
    names = [f"t{k}" for k in range(alive)]
    nodes = [
        {"name": f"e{k}", "op": "Exp", "inputs": [x], "outputs": [y]}
        for k, (x, y) in enumerate(zip(["x", *names], names, strict=False))
    ]
    total = names[-1]
    for k in reversed(range(alive - 1)):
        row = {"name": f"a{k}", "op": "Add", "inputs": [total, f"t{k}"], "outputs": [f"s{k}"]}
        nodes.append(row)
        total = f"s{k}"
    return {
        "schema": "autofuse.graph/1",
        "name": "pyramid",
        "symbols": {size: {"min": 1, "max": 1 << 20}} if isinstance(size, str) else {},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [size]}],
        "nodes": nodes,
        "outputs": [total],
    }


def with_ub(usable: int) -> TargetSpec:
    """The default chip with less UB."""
    chip = load_target(api.DEFAULT_TARGET)
    return replace(chip, name="small_ub", ub_bytes=chip.ub_bytes - chip.ub_usable + usable)


def refused(graph: api.GraphLike, target: str | TargetSpec) -> Diagnostic:
    with pytest.raises(AutofuseError) as e:
        api.build(graph, target=target)
    (found,) = e.value.diagnostics
    return found


def test_ub_overflow_names_buffers_bytes_limit_and_the_tile_that_fits() -> None:
    found = refused(pyramid(8), with_ub(2048))
    assert found.code == "AF3003"
    assert "pyramid" in found.message
    assert "small_ub" in found.message
    assert found.hint
    (note,) = found.notes
    needed = int(re.search(r"needs (\d+) bytes of UB, but 2048 are usable", note)[1])  # type: ignore[index]
    buffers = re.findall(r"(queue|TBuf) \d+ \(([^)]+)\) (\d) x (\d+) bytes", note)
    assert sum(int(n) * int(size) for _, _, n, size in buffers) == needed > 2048
    named = {x for _, names, _, _ in buffers for x in names.split(", ")}
    assert {"x", *(f"t{k}" for k in range(8))} <= named
    # Ten buffers of float32 in blocks of 32 bytes.
    assert f"a tile of {2048 // len(buffers) // 32 * 8} would fit" in note


def test_not_even_one_element_fits() -> None:
    assert "not even a tile of 1 fits" in refused(pyramid(8), with_ub(256)).notes[0]


@pytest.mark.parametrize(
    ("alive", "target"),
    [
        pytest.param(3, with_ub(1024), id="AF3003"),
        pytest.param(70, api.DEFAULT_TARGET, id="AF3004"),
    ],
)
def test_the_text(alive: int, target: str | TargetSpec, snapshot: SnapshotAssertion) -> None:
    assert str(refused(pyramid(alive), target)) == snapshot


@pytest.mark.twin
def test_what_just_fits_is_correct() -> None:
    """One byte less and it is refused; single buffers, tiles of one granule."""
    needed = int(re.search(r"needs (\d+) bytes", refused(pyramid(8), with_ub(2048)).notes[0])[1])  # type: ignore[index]
    assert refused(pyramid(8), with_ub(needed - 1)).code == "AF3003"
    built = api.build(pyramid(8), target=with_ub(needed), verify_ir=True)
    assert {b.buf_num for b in built.schedule[0].groups[0].impls[0].buffers} == {1}
    assert api.verify(built).ok


@pytest.mark.twin
def test_a_size_that_does_not_fit_at_run_time_is_an_error_of_the_tiling_function() -> None:
    built = api.build(pyramid(8, "n"), target=with_ub(2048), verify_ir=True)
    assert api.verify(built, shapes=[{"n": 1}, {"n": 40}]).ok
    report = api.verify(built, shapes=[{"n": 4096}])
    assert not report.ok
    (found,) = [d for d in report.diagnostics if d.code == "AF5003"]
    assert "even the smallest tile does not fit 2048 bytes of UB" in str(found)


def test_more_buffers_than_a_pipe_has(autofuse: Callable, tmp_path: Path) -> None:
    path, out = tmp_path / "pyramid.json", tmp_path / "out"
    path.write_text(json.dumps(pyramid(70)), encoding="utf-8")
    done = autofuse("build", path, "-o", out, "--json")
    assert done.code == 1
    (found,) = done.json()["diagnostics"]
    assert found["code"] == "AF3004"
    (note,) = found["notes"]
    assert "72 buffers are needed; a TPipe has 64" in note
    named = {x for names in re.findall(r"\(([^)]+)\) x 1", note) for x in names.split(", ")}
    assert {"x", *(f"t{k}" for k in range(70))} <= named
    assert not out.exists()


@pytest.mark.twin
def test_all_buffers_of_a_pipe_in_use_are_correct() -> None:
    built = api.build(pyramid(62), verify_ir=True)
    (impl,) = built.schedule[0].groups[0].impls
    assert sum(b.buf_num for b in impl.buffers) == 64
    assert api.verify(built).ok


def test_a_chip_without_unaligned_copies(autofuse: Callable, tmp_path: Path) -> None:
    graph = {
        "schema": "autofuse.graph/1",
        "name": "odd_rows",
        "inputs": [
            {"name": "x", "dtype": "float16", "shape": [50, 33]},
            {"name": "bias", "dtype": "float16", "shape": [33]},
        ],
        "nodes": [{"name": "add_0", "op": "Add", "inputs": ["x", "bias"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    path, out = tmp_path / "odd_rows.json", tmp_path / "out"
    path.write_text(json.dumps(graph), encoding="utf-8")
    done = autofuse("build", path, "-o", out, "-t", "ascend310p", "--json")
    assert done.code == 1
    (found,) = done.json()["diagnostics"]
    assert found["code"] == "AF3002"
    # All tensors of the user at once, with their rows and what to write instead.
    for tensor in ("x", "bias", "y"):
        assert f"{tensor} (rows of 33 float16)" in found["message"]
    assert "16*n for float16" in found["hint"]
    assert not out.exists()


@pytest.mark.twin
def test_the_twin_has_the_ub_of_the_chip(repo: Path, tmp_path: Path) -> None:
    """What fits a chip with more UB runs, whether it was built, read from a folder, timed or verified."""
    demo = repo / "examples" / "demo.json"
    built = api.build(demo, target="ascend310p")
    sizes = {"tokens": 1024}
    needed = [
        sum(
            b.nbytes * b.count
            for b in ub_map(impl, sizes, choice.fields[impl.tiling.opened.symbol])
        )
        for choice in [choose(built.schedule, Costs(built.target), sizes)]
        if choice is not None
        for impl in tiling_keys(built.schedule)[choice.key]
    ]
    assert max(needed) > load_target(api.DEFAULT_TARGET).ub_usable
    inputs = random_inputs(built.graph, sizes, 1)
    built.write(tmp_path / "out")
    for source in (built, tmp_path / "out"):
        assert api.load(source)(**inputs).shape == (1024, 1024)
        assert api.timed(source, inputs).run.block_dim == 8
    assert api.verify(built, shapes=[sizes]).ok
    # A chip with less is told from it.
    kernel = api.load(built)
    kernel.chip = built.target.with_ub(max(needed) - 1)
    with pytest.raises(AutofuseError, match="ub-capacity"):
        kernel(**inputs)
