"""Kernels for architecture 2002, which lacks Copy, shifts and many round modes, beside NumPy and with faults."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from twin_graphs import every_template, graph

from autofuse import api
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.verify.verify import VerifyReport, verify_kernel, verify_with
from autofuse.results import BuildResult
from autofuse.targets import load_target

pytestmark = [pytest.mark.twin, pytest.mark.slow]

CHIP = "ascend310p"
COPY = "include/autofuse_device.h"


def checked(built: BuildResult, files: dict[str, str] | None = None) -> VerifyReport:
    return verify_kernel(files or dict(built.files), built.graph, special=True)


def kernel(built: BuildResult) -> str:
    return built.files[f"device/{built.name}_kernel.cpp"]


def changed(built: BuildResult, old: str, new: str) -> dict[str, str]:
    """The files with a fault in the kernel."""
    path = f"device/{built.name}_kernel.cpp"
    assert old in kernel(built)
    return {**built.files, path: kernel(built).replace(old, new)}


def test_casts_and_whole_numbers_are_those_of_numpy() -> None:
    casts = {"f": "float16", "i": "float32", "h": "int32"}
    nodes = [
        {
            "name": f"c{x}",
            "op": "Cast",
            "inputs": [x],
            "outputs": [f"{x}_to"],
            "attrs": {"dtype": to},
        }
        for x, to in casts.items()
    ]
    whole = ("Floor", "Ceil", "Round", "Trunc")
    nodes += [
        {"name": f"{op}_{x}", "op": op, "inputs": [x], "outputs": [f"{x}_{op}"]}
        for op in whole
        for x in "fh"
    ]
    g = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "rounded",
            "inputs": [
                {"name": x, "shape": [1024], "dtype": d}
                for x, d in (("f", "float32"), ("h", "float16"), ("i", "int32"))
            ],
            "nodes": nodes,
            "outputs": [n["outputs"][0] for n in nodes],
        }
    )
    report = checked(api.build(g, target=CHIP, verify_ir=True))
    assert report.ok, "\n".join(map(str, report.diagnostics))


#: What casts to and from on this chip: of 64-bit integers and bfloat16 it has none.
NUMBERS = ("float16", "float32", "int8", "uint8", "bool", "int16", "uint16", "int32", "uint32")


def edges(dtype: str) -> np.ndarray[Any, Any]:
    """1024 numbers: those around every power of two and half, the ends of the range, and chance."""
    chance = np.random.default_rng(7)
    if dtype == "bool":
        return chance.integers(0, 2, 1024).astype(bool)
    powers = [
        s * (2.0**p + d) for p in range(33) for s in (1, -1) for d in (-1, -0.5, 0, 0.25, 0.5)
    ]
    if dtype.startswith("float"):
        near = [s * (i + f) for i in range(-1, 130) for s in (1, -1) for f in (0.4999, 0.5, 0.9999)]
        ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, 65504.0, 1e38]
        with np.errstate(over="ignore"):
            known = np.array([*powers, *ends, *near[: 1024 - 330 - 8]]).astype(dtype)
        return np.resize(known, 1024)
    info = np.iinfo(dtype)
    whole = [int(p) for p in powers if info.min <= p <= info.max] + [info.min, info.max]
    rest = chance.integers(info.min, info.max, 1024 - len(whole), endpoint=True)
    return np.concatenate([np.array(whole, np.int64), rest]).astype(dtype)


def converted(x: np.ndarray[Any, Any], to: str) -> np.ndarray[Any, Any]:
    """As on the chip: integers wrap, floats outside of an integer's range become its ends, NaN 0."""
    if to.startswith(("int", "uint")) and x.dtype.kind == "f":
        info, wide = (
            np.iinfo(to),
            np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30),
        )
        return np.clip(np.trunc(wide), info.min, info.max).astype(np.int64).astype(to)
    with np.errstate(over="ignore"):
        return x.astype(to)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("have", NUMBERS)
def test_every_cast_is_that_of_numpy(have: str) -> None:
    targets = [t for t in NUMBERS if t != have]
    nodes: list[Any] = [(f"to_{t}", "Cast", ["x"], {"dtype": t}) for t in targets]
    built = api.build(
        graph({"x": (have, [1024])}, nodes, [f"to_{t}" for t in targets]),
        target=CHIP,
        verify_ir=True,
    )
    x = edges(have)
    found = api.load(built, check="all")(x)
    for t, y in zip(targets, found, strict=True):
        expected = converted(x, t)
        wrong = ~((y == expected) | (np.isnan(y.astype(float)) & np.isnan(expected.astype(float))))
        assert not wrong.any(), (have, t, x[wrong][:5], y[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
@pytest.mark.parametrize("rows", [7, 600])
def test_rows_are_copied_without_copy(dtype: str, rows: int) -> None:
    """A row again and again, with bits of every kind: a float plus 0 would lose the sign of -0."""
    nodes: list[Any] = [("y", "Broadcast", ["x"], {"shape": [rows, 1024]})]
    with every_template():
        built = api.build(graph({"x": (dtype, [1, 1024])}, nodes), target=CHIP)
    assert "BroadcastOuter" in kernel(built)
    assert "AscendC::Copy(" not in built.files[COPY]
    report = checked(built)
    assert report.ok, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [[1024, 16], [64, 320], [16, 4096]])
@pytest.mark.parametrize("op", ["Greater", "Sub"])
def test_numbers_of_rows_are_spread_without_copy(dtype: str, shape: list[int], op: str) -> None:
    keep = {"axes": [1], "keepdims": True}
    nodes: list[Any] = [("m", "ReduceMax", ["x"], keep), ("d", op, ["x", "m"])]
    nodes.append(("y", "Select", ["d", "x", "m"]) if op == "Greater" else ("y", "Exp", ["d"]))
    built = api.build(graph({"x": (dtype, shape)}, nodes), target=CHIP)
    assert ("BroadcastInner" if op == "Greater" else "WithRows") in kernel(built)
    report = checked(built)
    assert report.ok, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize("dtype", ["float16", "int64"])
def test_runs_from_their_end(dtype: str) -> None:
    """The tables of offsets are made without shifts."""
    attrs = {"starts": [8191], "shape": [2688], "steps": [-1]}
    nodes: list[Any] = [("y", "Slice", ["x"], attrs)]
    with every_template():
        built = api.build(graph({"x": (dtype, [8192])}, nodes), target=CHIP)
    assert ("PairOffsets" if dtype == "int64" else "PickOffsets") in kernel(built)
    report = checked(built)
    assert report.ok, "\n".join(map(str, report.diagnostics))


def test_tables_of_offsets_for_all_chips() -> None:
    """Functions that plans for this chip do not reach, by its casts and without its missing calls."""
    chip, old = load_target("ascend910b1"), load_target(CHIP).arch
    lacks = old.lacks - {"DataCopyPad", "Copy", "KERNEL_TYPE_AIV_ONLY"}
    chip = replace(chip, arch=replace(chip.arch, name="2002", modes=old.modes, lacks=lacks))
    every_third = {"starts": [1], "shape": [2688], "steps": [3]}
    rows = graph({"x": ("float32", [3, 4096])}, [("y", "Transpose", ["x"], {"perm": [1, 0]})])
    pairs = graph({"x": ("int64", [8192])}, [("y", "Slice", ["x"], every_third)])
    for made, function in ((rows, "LaceOffsets"), (pairs, "PairOffsets")):
        with every_template():
            built = api.build(made, target="ascend910b1")
        assert function in kernel(built)
        path = compile_kernel(built.files, built.name, checked=True)
        report = verify_with(TwinKernel(path, built.graph, check="all", chip=chip))
        assert report.ok, "\n".join(map(str, report.diagnostics))


BROADCAST = graph({"x": ("float32", [1, 1024])}, [("y", "Broadcast", ["x"], {"shape": [64, 1024]})])
CAST = graph({"x": ("int32", [1024])}, [("y", "Cast", ["x"], {"dtype": "float32"})])
CALL = "using namespace AscendC;"
SHIFTED = """
#define Cast(dst, src, mode, count) \\
  ShiftRight(src, src, 1, static_cast<int32_t>(count)); \\
  AscendC::Cast(dst, src, mode, count)"""


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "RoundMode::CAST_NONE",
            "RoundMode::CAST_RINT",
            "int32_t -> float does not support CAST_RINT on architecture 2002",
        ),
        (CALL, CALL + SHIFTED, "architecture 2002 has no ShiftRight"),
    ],
)
def test_the_twin_reports_what_the_architecture_lacks(old: str, new: str, text: str) -> None:
    built = api.build(CAST, target=CHIP)
    found = checked(built, changed(built, old, new)).diagnostics
    assert any(text in d.message for d in found), "\n".join(map(str, found))


def test_the_twin_reports_copies() -> None:
    """A kernel with the header of another architecture."""
    built = api.build(BROADCAST, target=CHIP)
    other = api.build(BROADCAST, target="ascend910b1")
    found = checked(built, {**built.files, COPY: other.files[COPY]}).diagnostics
    assert any("architecture 2002 has no Copy" in d.message for d in found)
    assert checked(other).ok
