"""Loads generated kernels and runs them on the CPU twin of the Ascend C API."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt

DEFAULT_UB_SIZE: int
GM_WRITABLE: int
GM_ONCE: int
GM_COMPLETE: int
GM_SCRATCH: int
EVENT_BYTES: int

class Access(TypedDict):
    """A call of the kernel: its line (0: unknown) and how often the core had executed it."""

    api: str
    core: int
    line: int
    count: int
    nested: bool

class Finding(TypedDict):
    """One failed check; core is the lowest core that reported it, cores is how many did."""

    code: str
    core: int
    cores: int
    api: str
    message: str
    line: int
    count: int
    nested: bool
    place: str
    begin: int
    end: int
    other: Access | None

class Architecture:
    """The calls of an architecture: (source, destination, round mode) of Cast, and the calls that it lacks.

    To those of ``flushes`` subnormal numbers are zeros; with ``zero_counts`` a call of nothing is a finding.
    ``control`` is the control register when a kernel begins; 0: nothing is known of it.
    """

    def __init__(
        self,
        name: str,
        modes: Sequence[tuple[str, str, str]],
        lacks: Sequence[str],
        flushes: Sequence[str] = ...,
        zero_counts: bool = False,
        control: int = 0,
    ) -> None: ...
    @staticmethod
    def default_modes(source: str, destination: str) -> list[str]: ...

class Kernel:
    """A generated kernel library, loaded with its symbols kept local."""

    def __init__(self, path: str) -> None: ...
    @property
    def path(self) -> str: ...
    def close(self) -> None: ...
    def has(self, symbol: str) -> bool: ...
    def call_int(self, symbol: str, int_args: Sequence[int] = ...) -> int: ...
    def tiling(
        self,
        symbols: Sequence[int],
        tiling_bytes: int,
        limit: tuple[int, int] | None = None,
        key: int = -1,
    ) -> tuple[int, bytes, int, int]: ...
    def tiling_error_text(self, rc: int) -> str: ...
    def launch(
        self,
        block_dim: int,
        pointers: Sequence[int],
        tiling_data: bytes,
        *,
        regions: Sequence[tuple[int, int, str, int]] = ...,
        ub_size: int = 0,
        threads: int = 0,
        check: str = "fast",
        seed: int = 0,
        record: Sequence[int] = ...,
        record_limit: int = ...,
        architecture: Architecture | None = None,
    ) -> list[Finding]: ...
    def run(
        self,
        symbols: Sequence[int],
        pointers: Sequence[int],
        threads: int = 0,
        sizes: Sequence[int] = ...,
        inputs: int = 0,
    ) -> tuple[int, str]: ...

def version() -> str: ...
def moved_bytes() -> tuple[int, int]: ...
def core_bytes() -> list[tuple[int, int]]: ...
def records() -> list[tuple[int, bool, bytes, list[tuple[int, int, int, int, int]], list[str]]]: ...
def float_to_half(values: npt.ArrayLike) -> npt.NDArray[np.uint16]: ...
def half_to_float(bits: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
def float_to_bf16(values: npt.ArrayLike) -> npt.NDArray[np.uint16]: ...
def bf16_to_float(bits: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
