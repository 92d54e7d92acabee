"""Binding of CANN's runtime, ``libascendcl.so``, by ctypes: memory, streams and events of a chip.

Functions, arguments and codes follow the public interface of AscendCL. Every call is checked; a failure raises
:class:`~autofuse.machines.npu.codes.AclError`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import POINTER, byref, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.visible import visible
from autofuse.machines.npu.codes import ALREADY_INITIALISED, AclError

__all__ = ["Acl", "Device", "open_acl"]

_TO_DEVICE, _TO_HOST = 1, 2
_HUGE_FIRST = 0
_ERROR = c_int32
#: Function -> its arguments; every function returns an ``aclError``.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "aclInit": (c_char_p,),
    "aclrtGetDeviceCount": (POINTER(c_uint32),),
    "aclrtSetDevice": (c_int32,),
    "aclrtGetMemInfo": (c_int32, POINTER(c_size_t), POINTER(c_size_t)),
    "aclrtMalloc": (POINTER(c_void_p), c_size_t, c_int32),
    "aclrtFree": (c_void_p,),
    "aclrtMemcpy": (c_void_p, c_size_t, c_void_p, c_size_t, c_int32),
    "aclrtMemsetAsync": (c_void_p, c_size_t, c_int32, c_size_t, c_void_p),
    "aclrtCreateStream": (POINTER(c_void_p),),
    "aclrtDestroyStream": (c_void_p,),
    "aclrtSynchronizeStreamWithTimeout": (c_void_p, c_int32),
    "aclrtCreateEvent": (POINTER(c_void_p),),
    "aclrtDestroyEvent": (c_void_p,),
    "aclrtRecordEvent": (c_void_p, c_void_p),
    "aclrtEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
}
#: Functions that some releases lack; without them a fact is unknown.
_OPTIONAL: dict[str, tuple[Any, ...]] = {
    "aclrtGetDeviceInfo": (c_uint32, c_int32, POINTER(c_int64)),
}
#: ``aclrtMemAttr``: HBM; ``aclrtDevAttr``.
_HBM = 1
_VECTOR_CORES, _MEMORY, _L2 = 201, 301, 302
#: A symbol that only the library of the fake CANN has.
_FAKE = "autofuse_fake_cann"


class Acl:
    """The loaded and initialised library, one per process.

    Args:
        path: the path of ``libascendcl.so``.

    Raises:
        AutofuseError: AF5011, it cannot be loaded, or lacks a function; AF5012, it does not start.
    """

    def __init__(self, path: Path) -> None:
        try:
            # A kernel's own library finds the runtime among the loaded libraries.
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            for name, arguments in _FUNCTIONS.items():
                self._declare(name, arguments)
            for name, text in (("aclrtGetSocName", c_char_p), ("aclGetRecentErrMsg", c_char_p)):
                getattr(self._library, name).restype = text
        except (OSError, AttributeError) as e:
            raise AutofuseError.of(
                "AF5011",
                f"the runtime of CANN cannot be loaded: {visible(str(e))}",
                where=Where(path=str(path)),
                hint="source set_env.sh of CANN and of its driver to set the library paths",
            ) from e
        for name, arguments in _OPTIONAL.items():
            if hasattr(self._library, name):
                self._declare(name, arguments)
        self.path = path
        #: True for the fake CANN of the tests, whose times are not measurements.
        self.is_fake = hasattr(self._library, _FAKE)
        try:
            self.call("aclInit", None)
        except AclError as e:
            if e.code != ALREADY_INITIALISED:  # by PyTorch in the same process
                raise

    def _declare(self, name: str, arguments: tuple[Any, ...]) -> None:
        function = getattr(self._library, name)
        function.argtypes, function.restype = arguments, _ERROR

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns an ``aclError``.

        Raises:
            AclError: it did not return 0.
        """
        code = getattr(self._library, name)(*arguments)
        if code:
            said = self._library.aclGetRecentErrMsg() or b""
            raise AclError.make(name, code, visible(said.decode("utf-8", errors="replace"), "\n"))

    def device_count(self) -> int:
        """Return the number of chips.

        Raises:
            AclError: the driver does not answer.
        """
        count = c_uint32()
        self.call("aclrtGetDeviceCount", byref(count))
        return count.value

    def soc_name(self) -> str:
        """Return the name of the chip that this thread uses, such as ``Ascend910B2``."""
        name = self._library.aclrtGetSocName() or b""
        return visible(name.decode("ascii", errors="replace"))[:64]

    def device_info(self, device: int, attribute: int) -> int | None:
        """Return an attribute of a chip; None if this release does not report it."""
        if not hasattr(self._library, "aclrtGetDeviceInfo"):
            return None
        value = c_int64()
        code = self._library.aclrtGetDeviceInfo(device, attribute, byref(value))
        return None if code else value.value

    def cores(self, device: int) -> int | None:
        """Return the vector cores of a chip; None if this release does not report them."""
        return self.device_info(device, _VECTOR_CORES)

    def l2_bytes(self, device: int) -> int | None:
        """Return the bytes of its L2; None if this release does not report them."""
        return self.device_info(device, _L2)

    @contextmanager
    def device(self, index: int) -> Iterator[Device]:
        """Yield a chip for this thread, with its own stream; release all its resources at the end.

        Args:
            index: index of the chip, from 0.

        Raises:
            AclError: there is no such chip, or it cannot be used.
        """
        self.call("aclrtSetDevice", index)
        device = Device(self, index)
        try:
            yield device
        finally:
            device.close()


@lru_cache(maxsize=1)
def _only_acl() -> dict[str, Acl]:
    """Return the runtime of this process, by the name ``acl``, once it is loaded."""
    return {}


def open_acl(path: Path) -> Acl:
    """Return the runtime, loaded once per process.

    Raises:
        AutofuseError: as :class:`Acl`; AF5011, this process has loaded the runtime of another CANN.
    """
    loaded = _only_acl()
    if "acl" not in loaded:
        loaded["acl"] = Acl(path)
    found = loaded["acl"]
    if found.path != path:
        raise AutofuseError.of(
            "AF5011",
            f"this process uses the CANN of {found.path}",
            where=Where(path=str(path)),
            hint="kernels use the runtime loaded first: use a separate process for another CANN",
        )
    return found


class Device:
    """A chip in use: memory, a stream, events.  Made by :meth:`Acl.device`.

    Attributes:
        acl: the runtime.
        index: index of the chip.
        stream: handle of the stream, for launches.
    """

    def __init__(self, acl: Acl, index: int) -> None:
        self.acl, self.index = acl, index
        self._stuck = False
        self._memory: list[int] = []
        self._events: list[c_void_p] = []
        handle = c_void_p()
        acl.call("aclrtCreateStream", byref(handle))
        self.stream = handle.value or 0

    def malloc(self, size: int) -> int:
        """Allocate memory of the chip, aligned to 512 bytes.

        Args:
            size: bytes; 0 also gives a valid address.

        Raises:
            AclError: there is not enough (``Kind.MEMORY``).
        """
        address = c_void_p()
        self.acl.call("aclrtMalloc", byref(address), max(size, 1), _HUGE_FIRST)
        self._memory.append(address.value or 0)
        return self._memory[-1]

    def free(self, address: int) -> None:
        """Free memory before the end."""
        self._memory.remove(address)
        self.acl.call("aclrtFree", address)

    def to_chip(self, to: int, source: int, size: int) -> None:
        """Copy ``size`` bytes from an address of the host to one of the chip."""
        if size:
            self.acl.call("aclrtMemcpy", to, size, source, size, _TO_DEVICE)

    def to_host(self, to: int, source: int, size: int) -> None:
        """Copy ``size`` bytes from an address of the chip to one of the host."""
        if size:
            self.acl.call("aclrtMemcpy", to, size, source, size, _TO_HOST)

    def fill(self, address: int, size: int, byte: int) -> None:
        """Fill memory of the chip, on the stream."""
        if size:
            self.acl.call("aclrtMemsetAsync", address, size, byte, size, self.stream)

    def wait(self, seconds: float) -> None:
        """Wait until the stream is empty.

        Args:
            seconds: at most.

        Raises:
            AclError: it takes longer (``Kind.TIMEOUT``), or the work on the stream failed.
        """
        ms = max(1, round(1e3 * seconds))
        try:
            self.acl.call("aclrtSynchronizeStreamWithTimeout", self.stream, ms)
        except AclError:
            self._stuck = True
            raise

    def event(self) -> c_void_p:
        """Return an event, to be recorded on the stream."""
        handle = c_void_p()
        self.acl.call("aclrtCreateEvent", byref(handle))
        self._events.append(handle)
        return handle

    def record(self, event: c_void_p) -> None:
        """Record the event on the stream."""
        self.acl.call("aclrtRecordEvent", event, self.stream)

    def elapsed_us(self, start: c_void_p, end: c_void_p) -> float:
        """Return the microseconds between two events that the stream has passed."""
        ms = c_float()
        self.acl.call("aclrtEventElapsedTime", byref(ms), start, end)
        return 1e3 * ms.value

    def memory(self) -> tuple[int, int]:
        """Return the free and the total bytes of the chip's memory."""
        free, total = c_size_t(), c_size_t()
        self.acl.call("aclrtGetMemInfo", _HBM, byref(free), byref(total))
        return free.value, total.value

    def close(self) -> None:
        """Release all resources; skip a chip that is lost or hangs, since the call would wait for it."""
        if self._stuck:
            return
        for call, handles in (
            ("aclrtDestroyEvent", self._events),
            ("aclrtFree", self._memory),
            ("aclrtDestroyStream", [self.stream]),
        ):
            for handle in handles:
                with suppress(AclError):
                    self.acl.call(call, handle)
