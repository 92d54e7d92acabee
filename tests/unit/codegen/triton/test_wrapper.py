"""The function of a generated file: what it takes, found out with tensors that have no memory, and no launch."""

from __future__ import annotations

from typing import Any

import pytest
from extras import required
from triton_graphs import graph

from autofuse import api
from autofuse.machines.gpu.importing import imported

pytestmark = [required("torch", "triton"), pytest.mark.triton]

import torch

ADD = graph(
    "scaled",
    [("float32", ["rows", 5]), ("float16", ["rows", 5]), ("float32", [])],
    [("Cast", ["x1"], {"dtype": "float32"}), ("Add", ["x0", "t0"], {}), ("Mul", ["t1", "x2"], {})],
    ["t2"],
)
ADD["inputs"][2] = {"name": "x2", "dtype": "float32", "scalar": True}


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the function launches, which does not run."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(module().Launcher, "__call__", lambda _, *args, **named: found.append(args))
    return found


def module() -> Any:
    return imported(api.build(ADD, target="nvidia-h100").files["scaled_triton.py"], "scaled.py")


def inputs(*devices: str) -> list[Any]:
    of = [((7, 5), torch.float32), ((7, 5), torch.float16), ((), torch.float32)]
    return [
        torch.empty(s, dtype=d, device=where) for (s, d), where in zip(of, devices, strict=True)
    ]


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_tensors_of_one_device(device: str, launches: list[tuple[Any, ...]]) -> None:
    made = module().scaled(*inputs(device, device, device))
    assert (made.device.type, tuple(made.shape)) == (device, (7, 5))
    ((_, tensors, *_),) = launches
    assert {t.device.type for t in tensors} == {device}


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (
            ("meta", "cpu", "meta"),
            r"x1 is torch.float16\(7, 5\) on cpu, not float16\(7, 5\) on meta",
        ),
        (
            ("cpu", "meta", "cpu"),
            r"x1 is torch.float16\(7, 5\) on meta, not float16\(7, 5\) on cpu",
        ),
        (
            ("meta", "meta", "cpu"),
            r"x2 is torch.float32\(\) on cpu, not one element of float32 on meta",
        ),
    ],
)
def test_tensors_of_several_devices(
    devices: tuple[str, ...], message: str, launches: list[tuple[Any, ...]]
) -> None:
    with pytest.raises(ValueError, match=message):
        module().scaled(*inputs(*devices))
    assert not launches


def test_other_dtypes_and_shapes(launches: list[tuple[Any, ...]]) -> None:
    x, y, factor = inputs("cpu", "cpu", "cpu")
    for given, message in (
        ((x.half(), y, factor), r"x0 is torch.float16\(7, 5\), not float32\(7, 5\)"),
        ((x, y[1:], factor), r"x1 is torch.float16\(6, 5\) on cpu, not float16\(7, 5\) on cpu"),
        ((x, y, factor.expand(2)), r"x2 is torch.float32\(2,\) on cpu, not one element"),
        ((x.T.contiguous().T, y, factor), r"x0 has strides \(1, 7\)"),
    ):
        with pytest.raises(ValueError, match=message):
            module().scaled(*given)
    assert not launches
