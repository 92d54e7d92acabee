"""Conversions of 16 bits: all values, by each of the ways that a processor may have, in runs and their tails."""

from __future__ import annotations

import platform
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from triton_checks import found_wrong

from autofuse import api
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = pytest.mark.twin

X86 = platform.machine() in ("x86_64", "AMD64")
#: Flags that leave out instructions: the next ones are taken.
WAYS = {
    "all": "",
    "no AVX-512": "-mno-avx512f",
    "no F16C": "-mno-avx512f -mno-f16c",
}
DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def cast(have: str, to: str) -> Any:
    """A kernel that casts a line of numbers."""
    document = {
        "schema": "autofuse.graph/1",
        "name": f"from_{have}",
        "symbols": {"n": {"min": 0, "max": 1 << 20}},
        "inputs": [{"name": "x", "dtype": have, "shape": ["n"]}],
        "nodes": [
            {"name": "c", "op": "Cast", "inputs": ["x"], "outputs": ["y"], "attrs": {"dtype": to}}
        ],
        "outputs": ["y"],
    }
    return api.load(api.build(document, target="cpu"))


def bits(x: np.ndarray) -> np.ndarray:
    """The bits, those of any NaN as of one."""
    kind = {2: np.uint16, 4: np.uint32}[x.dtype.itemsize]
    return np.where(np.isnan(x.astype(np.float32)), kind(1), x.view(kind))


@pytest.mark.skipif(not X86, reason="the flags are those of x86")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DTYPES)
def test_every_value(monkeypatch: pytest.MonkeyPatch, name: str, way: str) -> None:
    monkeypatch.setenv("AUTOFUSE_CXXFLAGS", WAYS[way])
    monkeypatch.setenv("AUTOFUSE_OPT", "2")
    half = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[name])
    widened = cast(name, "float32")(half)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(bits(widened), bits(half.astype(np.float32)))
    # Every value, its neighbours in float32, and the middles between two of them.
    exact = widened[np.isfinite(widened)]
    middle = (np.sort(exact)[1:].astype(np.float64) + np.sort(exact)[:-1]) / 2
    some = [exact, middle.astype(np.float32), np.float32([np.inf, -np.inf, np.nan, 3e38, 1e-45])]
    given = np.concatenate(
        [np.nextafter(x, np.float32(s)) for x in some for s in (-9e9, 9e9)] + some
    )
    narrowed = cast("float32", name)(given)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(bits(narrowed), bits(given.astype(DTYPES[name])))


@pytest.mark.parametrize("n", [0, 1, 7, 8, 15, 16, 17, 255, 256, 257, 511, 513])
def test_runs_and_tails(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float16)
    np.testing.assert_array_equal(cast("float16", "float32")(x), x.astype(np.float32))


def test_gathered_rows_beside_others(loops: WorkerPool) -> None:
    """A place along a dimension is known inside the loop only: such a row is not widened in one go before it."""
    document = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {"n": {"min": 1, "max": 4096}},
        "inputs": [
            {"name": "x", "dtype": "float16", "shape": [37, 1, "n"]},
            {"name": "i", "dtype": "int32", "shape": [1]},
            {"name": "w", "dtype": "float16", "shape": [1, "n"]},
        ],
        "nodes": [
            {
                "name": "a",
                "op": "Gather",
                "inputs": ["x", "i"],
                "outputs": ["t"],
                "attrs": {"axis": 0},
            },
            {"name": "b", "op": "Add", "inputs": ["t", "w"], "outputs": ["y"]},
        ],
        "outputs": ["y"],
    }
    sizes = [{"n": n} for n in (1, 67, 512)]
    assert not found_wrong(loops, api.read(document), bindings=sizes, target="cpu")
