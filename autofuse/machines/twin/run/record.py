"""Recordings of some cores of a launch on the twin."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.machines.twin.run.native import Region

__all__ = [
    "DIMS",
    "EVENT",
    "ISSUE",
    "Buffer",
    "CoreRecord",
    "Recording",
    "core_bytes",
    "read_records",
]

#: ``autofuse_twin_event`` of ``runtime/include/autofuse_twin/launch.h``.
EVENT = np.dtype(
    [
        ("kind", "u1"),
        ("pipe", "u1"),
        ("cause", "u1"),
        ("nested", "u1"),
        ("spans", "u1"),
        ("writes", "u1"),
        ("gm_use", "u1"),
        ("zero", "u1"),
        ("line", "<u4"),
        ("api", "<u4"),
        ("flag", "<u4"),
        ("bytes", "<u4"),
        ("count", "<u8"),
        ("lo", "<u4", (4,)),
        ("hi", "<u4", (4,)),
        ("gm_at", "<u8"),
        ("gm_bytes", "<u8"),
        ("gm_pitch", "<u8"),
        ("gm_rows", "<u4"),
        ("region", "<u4"),
    ]
)
#: The kind of an instruction; bits of ``gm_use``. DIMS is a multi-dimensional copy: ``count`` elements of ``bytes``
#: bytes arrive in UB; it reads ``gm_rows`` times ``gm_bytes`` bytes of GM, fewer if a loop repeats them.
ISSUE, WRITE, ATOMIC, BYPASS, DIMS = 0, 1, 2, 4, 8

_POSITIONS = {9: "VECIN", 10: "VECOUT", 11: "VECCALC"}

Events: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes [lo, hi) of UB: a block of a queue, or a TBuf."""

    lo: int
    hi: int
    name: str


@dataclass(frozen=True, slots=True)
class CoreRecord:
    """One core.

    Attributes:
        core: its number.
        cut: it did more than was recorded.
        events: an array of :data:`EVENT`, in program order.
        apis: names of functions, indexed by ``api`` of an event.
        buffers: the kernel's buffers in UB.
    """

    core: int
    cut: bool
    events: Events
    apis: tuple[str, ...]
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """Some cores of a launch.

    Attributes:
        block_dim: cores of the launch.
        records: of the recorded cores, ascending.
        moved: bytes that each core moved from and to GM.
        regions: memory passed to the kernel; ``region`` of an event counts from 1.
    """

    block_dim: int
    records: tuple[CoreRecord, ...]
    moved: tuple[tuple[int, int], ...]
    regions: tuple[Region, ...]


def read_records() -> tuple[CoreRecord, ...]:
    """Return the records of this thread's last launch."""
    native: Any = importlib.import_module("autofuse._twin")
    if EVENT.itemsize != native.EVENT_BYTES:
        raise ImportError("autofuse._twin has a different version: reinstall autofuse")
    return tuple(
        CoreRecord(
            core,
            cut,
            np.frombuffer(events, dtype=EVENT),
            tuple(apis),
            tuple(_buffer(*b) for b in buffers),
        )
        for core, cut, events, buffers, apis in native.records()
    )


def core_bytes() -> tuple[tuple[int, int], ...]:
    """Return the bytes that each core of this thread's last launch moved from and to GM."""
    native: Any = importlib.import_module("autofuse._twin")
    return tuple((int(a), int(b)) for a, b in native.core_bytes())


def _buffer(lo: int, hi: int, queue: int, index: int, position: int) -> Buffer:
    kind = f"queue {queue} block {index}" if queue >= 0 else f"TBuf {index}"
    return Buffer(lo, hi, f"{_POSITIONS.get(position, 'UB')} {kind}")
