"""The launcher in generated files, with what it needs of Triton and of tensors played by records of calls."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from autofuse.codegen.backends.triton.text.launching import LAUNCHER


class Compiled:
    """A compiled kernel: what it was launched with."""

    function, packed_metadata = "function", "metadata"

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def run(self, *args: Any) -> None:
        self.launches.append(args)


class Kernel:
    """A kernel: what was compiled for it, one entry per launch by way of Triton."""

    def __init__(self, *, interpreted: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.compiled: list[Compiled] = []
        self.interpreted = interpreted

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*args: Any, **options: Any) -> Compiled | None:
            self.calls.append((grid, args, options))
            self.compiled.append(Compiled())
            return None if self.interpreted else self.compiled[-1]

        return launch


def tensor(address: int, device: int = 0) -> Any:
    return SimpleNamespace(data_ptr=lambda: address, device=SimpleNamespace(index=device))


def launcher(kernel: Kernel, current: Sequence[int] = (0,)) -> Any:
    """``current[0]`` is the card on which Triton compiles."""
    active = SimpleNamespace(
        get_current_stream=lambda device: f"stream of {device}",
        get_current_device=lambda: current[0],
    )
    triton = SimpleNamespace(runtime=SimpleNamespace(driver=SimpleNamespace(active=active)))
    space: dict[str, Any] = {"triton": triton}
    exec(LAUNCHER, space)
    return space["Launcher"](kernel)


def test_the_second_launch_goes_to_the_driver() -> None:
    kernel = Kernel()
    launch = launcher(kernel)
    x, y = tensor(256), tensor(512)
    for _ in range(3):
        launch((4, 1, 1), (x, y), 1000, 7, BLOCK=256, num_warps=4, num_ctas=2)
    options = {"num_warps": 4, "num_ctas": 2, "enable_fp_fusion": True}
    assert kernel.calls == [((4, 1, 1), (x, y, 1000, 7), {"BLOCK": 256, **options})]
    start = (4, 1, 1, "stream of 0", "function", "metadata", None, None, None)
    assert kernel.compiled[0].launches == [(*start, 256, 512, 1000, 7, 256)] * 2


def test_whatever_else_is_compiled_is_launched_by_way_of_triton_first() -> None:
    x, y = tensor(256), tensor(512)
    usual: dict[str, Any] = {"grid": (4, 1, 1), "tensors": (x, y), "sizes": (1000, 7)}
    usual |= {"BLOCK": 256, "num_warps": 4}
    others: list[dict[str, Any]] = [
        {"grid": (5, 1, 1)},
        {"sizes": (1001, 7)},
        {"sizes": (1000, 16)},
        {"BLOCK": 128},
        {"num_warps": 8},
        {"tensors": (tensor(256, 1), tensor(512, 1))},
    ]
    kernel, current = Kernel(), [0]
    launch = launcher(kernel, current)
    for given in (usual, *({**usual, **other} for other in others)):
        current[0] = given["tensors"][0].device.index
        named = {k: v for k, v in given.items() if k not in ("grid", "tensors", "sizes")}
        for _ in range(2):
            launch(given["grid"], given["tensors"], *given["sizes"], **named)
    assert len(kernel.calls) == 1 + len(others)
    assert all(len(c.launches) == 1 for c in kernel.compiled)
    assert kernel.compiled[-1].launches[0][3] == "stream of 1"


def test_addresses() -> None:
    """Those that are no multiples of 16 are Triton's affair at every launch; others may be anywhere."""
    kernel = Kernel()
    launch = launcher(kernel)
    for address in (256, 264, 264, 1024, 4096):
        launch((4, 1, 1), (tensor(512), tensor(address)), 1000, num_warps=4)
    assert [args[1].data_ptr() for _, args, _ in kernel.calls] == [256, 264, 264]
    assert [launched[-3:] for launched in kernel.compiled[0].launches] == [
        (512, 1024, 1000),
        (512, 4096, 1000),
    ]
    odd = Kernel()
    launch = launcher(odd)
    for address in (264, 256, 256):
        launch((4, 1, 1), (tensor(address),), 1000, num_warps=4)
    assert len(odd.calls) == 2


def test_nothing_is_kept_in_the_interpreter() -> None:
    kernel = Kernel(interpreted=True)
    launch = launcher(kernel)
    for _ in range(3):
        launch((1, 1, 1), (tensor(256),), 10, num_warps=1)
    assert len(kernel.calls) == 3


def test_what_is_kept_is_bounded() -> None:
    kernel = Kernel()
    launch = launcher(kernel)
    for n in range(3000):
        launch((1, 1, 1), (tensor(256),), n, num_warps=1)
    assert len(launch.ready) <= 1024


def test_tensors_on_another_card_than_the_current_one() -> None:
    """Triton would compile for the current card, and launch there."""
    kernel = Kernel()
    launch = launcher(kernel)
    for address in (256, 264):
        with pytest.raises(ValueError, match=r"tensors are on cuda:1, .*current device is cuda:0"):
            launch((4, 1, 1), (tensor(address, 1),), 10, num_warps=4)
    assert not kernel.calls
    launch((4, 1, 1), (tensor(256, 0),), 10, num_warps=4)
    assert len(kernel.calls) == 1
