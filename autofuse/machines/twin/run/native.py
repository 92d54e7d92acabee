"""The C functions of a compiled kernel (``docs/c_abi.md``).

The twin keeps memory regions and findings per calling thread, and a call releases Python's global lock, so several
threads may run kernels concurrently.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autofuse.base import abi, knobs
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.targets import Architecture

__all__ = ["CHECKS", "Access", "Finding", "KernelLibrary", "Region", "StatusError", "Tiling"]

#: Checks of a launch: only the cheap ones, or also races and uninitialised data.
CHECKS = ("fast", "all")

_MAX_RANK = 16
#: Kinds of return codes for a template that does not apply to these sizes (``autofuse_status.h``).
_NOT_APPLICABLE = frozenset({3, 5, 6, 7})
_STATUS_STEP = 100


class _Shape(ctypes.Structure):
    """``AutofuseShape``."""

    _fields_ = (("rank", ctypes.c_uint32), ("dims", ctypes.c_int64 * _MAX_RANK))


@dataclass(frozen=True, slots=True)
class Region:
    """GM memory that the kernel may touch.

    Attributes:
        address: address of its first byte.
        bytes: its size.
        name: for messages.
        writable: False for inputs.
        once: no byte may be written twice.
        complete: every byte must be written.
        scratch: it is uninitialised before the launch.
    """

    address: int
    bytes: int
    name: str
    writable: bool
    once: bool = False
    complete: bool = False
    scratch: bool = False

    @property
    def use(self) -> int:
        """The flags as bits (``AUTOFUSE_TWIN_GM_*`` in ``launch.h``)."""
        return self.writable | self.once << 1 | self.complete << 2 | self.scratch << 3


@dataclass(frozen=True, slots=True)
class Access:
    """A call of the kernel.

    Attributes:
        api: the function.
        core: the core that executed it.
        line: line of the kernel file; 0 for unknown.
        count: how often the core had reached the line.
        nested: the call is inside a shared header, and ``line`` is the last one before it.
    """

    api: str
    core: int
    line: int
    count: int
    nested: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: ``core`` is the first core that broke it, ``cores`` their number.

    ``line``, ``count`` and ``nested`` are those of :class:`Access`; ``place``, ``begin`` and ``end`` name a tensor and
    bytes of it; ``other`` is the access that this one conflicts with.
    """

    code: str
    core: int
    cores: int
    api: str
    message: str
    line: int = 0
    count: int = 0
    nested: bool = False
    place: str = ""
    begin: int = 0
    end: int = 0
    other: Access | None = None

    def __str__(self) -> str:
        where = (
            f"core {self.core}"
            if self.cores == 1
            else f"core {self.core} and {self.cores - 1} more"
        )
        if self.core < 0:
            return f"{self.code}: {self.message}"
        return f"{self.code}: {self.api} on {where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Tiling:
    """Result of the tiling function; ``workspace`` in bytes."""

    data: bytes
    workspace: int
    block_dim: int

    @property
    def key(self) -> int:
        """The tiling key: the first member of ``AutofuseTilingData``."""
        return int.from_bytes(self.data[:4], "little")


class StatusError(AutofuseError):
    """AF5003: a host function did not return 0."""

    def __init__(self, function: str, rc: int, text: str) -> None:
        super().__init__((Diagnostic("AF5003", f"{function} returned {rc}: {text}"),))
        self.rc = rc
        self.text = text

    @property
    def not_applicable(self) -> bool:
        """True if the template does not support these sizes, which is not an error."""
        return self.rc % _STATUS_STEP in _NOT_APPLICABLE


@lru_cache(maxsize=16)
def _calls(arch: Architecture) -> Any:
    """Return the calls of an architecture in the twin's format."""
    twin = importlib.import_module("autofuse._twin")
    flushes, zero_counts = sorted(arch.flushes), not arch.zero_is_nothing
    return twin.Architecture(
        arch.name,
        sorted(arch.modes),
        sorted(arch.lacks),
        flushes,
        zero_counts,
        arch.control_register,
    )


class KernelLibrary:
    """One loaded shared library.

    Args:
        path: the result of ``compile_kernel``.

    Attributes:
        key_count: number of tiling keys.
        row_count: number of rows of a tuning file, selected by the keys after these.

    Raises:
        AutofuseError: AF5003, it cannot be loaded, or a function is missing; AF5007, it has another interface.
    """

    def __init__(self, path: Path) -> None:
        try:
            # The extension module has no stub in the source tree.
            self._kernel: Any = importlib.import_module("autofuse._twin").Kernel(str(path))
            known = self._kernel.has(abi.SYMBOL)
            version = int(self._kernel.call_int(abi.SYMBOL)) & 0xFFFFFFFF if known else None
            abi.check_abi(version, str(path))
            self._data_size = int(self._kernel.call_int("GetTilingDataSize"))
            self.key_count = int(self._kernel.call_int("GetTilingKeyCount")) & 0xFFFFFFFF
            tuned = bool(self._kernel.has("GetTunedRowCount"))
            self.row_count = int(self._kernel.call_int("GetTunedRowCount")) if tuned else 0
        except ImportError as e:
            raise AutofuseError.of(
                "AF5001", f"the CPU twin is not installed: {e}", hint="reinstall autofuse"
            ) from e
        except (RuntimeError, KeyError) as e:
            raise AutofuseError.of(
                "AF5003", f"the library cannot be loaded: {e}", where=Where(path=str(path))
            ) from e
        self._infers_shapes = bool(self._kernel.has("InferShape"))

    def tiling(self, symbols: Sequence[int], key: int | None = None, cores: int = 0) -> Tiling:
        """Return template and tile sizes for given sizes.

        Args:
            symbols: values in the order of the graph.
            key: the tiling key to take; None: the function chooses.
            cores: limit on the number of cores; 0 for those of the target.

        Raises:
            StatusError: the function refused.
        """
        limit = (cores, 0) if cores else None
        wanted = -1 if key is None else key
        try:
            rc, data, workspace, block_dim = self._kernel.tiling(
                list(symbols), self._data_size, limit, wanted
            )
        except (KeyError, ValueError) as e:
            raise AutofuseError.of("AF5003", f"the tiling function cannot be called: {e}") from e
        self._check("AutofuseTiling" if key is None else "AutofuseTilingForKey", rc)
        return Tiling(data, workspace, block_dim)

    def infer_shape(
        self, inputs: Sequence[Sequence[int]], outputs: int
    ) -> list[tuple[int, ...]] | None:
        """Return the output shapes from the generated ``InferShape``, or None without one or beyond its rank.

        Raises:
            StatusError: the function refused.
        """
        if not self._infers_shapes or any(len(s) > _MAX_RANK for s in inputs):
            return None
        given = (_Shape * max(len(inputs), 1))()
        for shape, dims in zip(given, inputs, strict=False):
            shape.rank = len(dims)
            shape.dims[: len(dims)] = list(dims)
        made = (_Shape * max(outputs, 1))()
        # Through the loaded library itself, since ctypes never closes a library.
        places = [len(inputs), ctypes.addressof(given), outputs, ctypes.addressof(made)]
        rc = self._kernel.call_int("InferShape", places)
        self._check("InferShape", rc)
        return [tuple(int(d) for d in s.dims[: s.rank]) for s in made[:outputs]]

    def launch(
        self,
        tiling: Tiling,
        pointers: Sequence[int],
        regions: Sequence[Region],
        *,
        check: str = "fast",
        seed: int = 0,
        ub_bytes: int = 0,
        arch: Architecture | None = None,
        record: Sequence[int] = (),
        record_limit: int = 0,
    ) -> list[Finding]:
        """Run the kernel.

        Args:
            tiling: from :meth:`tiling`.
            pointers: addresses of inputs, outputs and workspace.
            regions: memory that these point to; every access is checked against them.
            check: one of ``CHECKS``; ``all`` needs a kernel that was compiled for it.
            seed: 0 for instructions in program order; else the seed of an unfavourable order that a chip may choose.
            ub_bytes: bytes of UB that the kernel may use; 0 for Atlas A2.
            arch: the architecture whose calls the kernel may make; None for Atlas A2.
            record: run only these cores, in checked mode; ``machines.twin.run.record`` reads their records.
            record_limit: most events recorded per core.

        Returns:
            The findings of the twin.
        """
        found = self._kernel.launch(
            tiling.block_dim,
            list(pointers),
            tiling.data,
            regions=[(r.address, r.bytes, r.name, r.use) for r in regions],
            threads=knobs.THREADS.get(),
            check=check,
            seed=seed,
            ub_size=ub_bytes,
            architecture=None if arch is None else _calls(arch),
            record=list(record),
            record_limit=record_limit,
        )
        return [Finding(**{**f, "other": f["other"] and Access(**f["other"])}) for f in found]

    def launch_on(self, stream: int, tiling: Tiling, pointers: Sequence[int]) -> None:
        """Queue the kernel on a stream of a chip; the library must have been compiled for that.

        Args:
            stream: its handle.
            tiling: from :meth:`tiling`.
            pointers: addresses in the memory of the chip.

        Raises:
            StatusError: the launcher refused.
        """
        given = (ctypes.c_void_p * (len(pointers) + 1))(*pointers)
        # In units of 8 bytes, so that any member is aligned.
        data = (ctypes.c_uint64 * (len(tiling.data) // 8 + 1))()
        ctypes.memmove(data, tiling.data, len(tiling.data))
        places = [tiling.block_dim, stream, ctypes.addressof(given), ctypes.addressof(data)]
        self._check("AutofuseLaunchArray", self._kernel.call_int("AutofuseLaunchArray", places))

    def _check(self, function: str, rc: int) -> None:
        if rc:
            raise StatusError(function, rc, self._kernel.tiling_error_text(rc) or "unknown error")
