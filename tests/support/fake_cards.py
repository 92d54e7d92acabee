"""A card that is none: its memory is memory of the host, and the CPU twin runs what is launched."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from autofuse.machines.twin.run.compile import QUICK, compile_kernel
from autofuse.machines.twin.run.native import KernelLibrary, Region, Tiling
from autofuse.machines.witness import kernel

__all__ = ["FakeCard", "fake_card"]


def fake_card(monkeypatch: Any, **properties: Any) -> FakeCard:
    """Make it the card that is found; what nvcc would give is the path of the library for the twin."""
    card = FakeCard(**properties)

    def compiled(files: Mapping[str, str], name: str, capability: int) -> bytes:
        assert capability == card.capability
        return str(compile_kernel(files, name, opt=QUICK)).encode()

    monkeypatch.setattr(kernel, "open_card", lambda index: card)
    monkeypatch.setattr(kernel, "compile_for_card", compiled)
    return card


class FakeCard:
    """What :class:`autofuse.machines.witness.driver.Card` has.

    Attributes:
        memory: address -> what is there; what is given back is not.
        launches: the number of blocks of each.
        spoil: called with the pointers of a launch behind it.
    """

    def __init__(self, capability: int = 90, room: int = 230_000) -> None:
        self.name, self.driver, self.lost = "a fake card", "CUDA 13.0", ""
        self.capability, self.room = capability, room
        self.memory: dict[int, Any] = {}
        self.launches: list[int] = []
        self.spoil: Callable[[list[int]], object] = lambda pointers: None

    def use(self) -> None:
        """Nothing."""

    def function(self, image: bytes, name: str) -> FakeFunction:
        """The library whose path the binary is."""
        assert name == kernel.ENTRY
        return FakeFunction(self, KernelLibrary(Path(image.decode())))

    def malloc(self, size: int) -> int:
        """Memory that begins where 64 bytes do."""
        held = ctypes.create_string_buffer(size + 64)
        at = -(-ctypes.addressof(held) // 64) * 64
        self.memory[at] = (held, size)
        return at

    def free(self, at: int) -> None:
        """Give memory back."""
        del self.memory[at]

    def to_card(self, at: int, address: int, size: int) -> None:
        """Copy."""
        ctypes.memmove(at, address, size)

    def to_host(self, address: int, at: int, size: int) -> None:
        """Copy."""
        ctypes.memmove(address, at, size)

    def wait(self, seconds: float) -> None:
        """What was launched is complete."""
        assert seconds > 0

    def time(
        self,
        launch: Callable[[], object],
        *,
        warm_up: int,
        repeats: int,
        clear: bool,
        seconds: float,
    ) -> list[float]:
        """Launch, and take two microseconds each time."""
        del clear, seconds
        for _ in range(warm_up + repeats):
            launch()
        return [2.0] * repeats


class FakeFunction:
    """What :class:`autofuse.machines.witness.driver.Function` has."""

    def __init__(self, card: FakeCard, library: KernelLibrary) -> None:
        self._card, self._library, self.room = card, library, card.room

    def launch(self, blocks: int, threads: int, shared: int, arguments: list[bytes]) -> None:
        """The twin runs the kernel: what is behind the pointers is the structure of the tiling."""
        assert (threads, len(arguments)) == (kernel.THREADS, 2)
        assert shared == int.from_bytes(arguments[1], "little")
        size = self._library._data_size
        count = len(arguments[0]) // 8 - -(-size // 8)
        pointers = [int.from_bytes(arguments[0][8 * k :][:8], "little") for k in range(count)]
        tiling = Tiling(arguments[0][8 * count :][:size], 0, blocks)
        known = {at: n for at, (_, n) in self._card.memory.items()}
        # Memory that the card did not give out reaches up to the next that is passed, at most.
        room = {a: b - a for a, b in pairwise(sorted(set(pointers)))}
        sizes = [known.get(at, min(room.get(at, 1 << 20), 1 << 20)) for at in pointers]
        regions = [Region(at, n, "memory", True) for at, n in zip(pointers, sizes, strict=True)]
        found = self._library.launch(tiling, pointers, regions, ub_bytes=shared)
        assert not found, found
        self._card.launches.append(blocks)
        self._card.spoil(pointers)
