"""Binding of a card's driver, ``libcuda.so.1``, by ctypes: memory and launches. It needs nothing else of CUDA.

A failing kernel breaks the context of its process, so run untrusted kernels in a worker.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_void_p,
)
from functools import lru_cache
from typing import Any

from autofuse.base.diagnostics import AutofuseError

__all__ = ["Card", "Function", "open_card"]

_LIBRARY = "libcuda.so.1"
_PRESENT = {
    "cuInit": (c_uint,),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuStreamQuery": (c_void_p,),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuLaunchCooperativeKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}
#: Attributes of devices and functions.
_L2, _MAJOR, _MINOR, _SHARED_MOST = 38, 75, 76, 97
_OWN_SHARED, _DYNAMIC_SHARED = 1, 8
_NOT_READY = 600
#: Result of a launch whose blocks do not fit on the card at once.
_TOO_MANY_BLOCKS = 720
_POLL = (0.0, 0.0001, 0.001, 0.01)
#: Timed launches queued at once, and memory fills before them, during which the host runs ahead.
_BATCH, _AHEAD = 16, 8
#: Bytes to fill: at least, and as a multiple of the size of L2.
_LEAST_FILLED, _L2_TIMES = 256 << 20, 2


class Function:
    """A kernel loaded on a card.

    Attributes:
        room: bytes of shared memory that a block may have besides its static ones.
    """

    def __init__(self, card: Card, image: bytes, name: str) -> None:
        self._card, self._module, self._function = card, c_void_p(), c_void_p()
        card.call("cuModuleLoadData", byref(self._module), image)
        card.call("cuModuleGetFunction", byref(self._function), self._module, name.encode())
        own = c_int()
        card.call("cuFuncGetAttribute", byref(own), _OWN_SHARED, self._function)
        self.room = card.shared_bytes - own.value
        self._allowed = 0

    def launch(self, blocks: int, threads: int, shared: int, arguments: list[bytes]) -> None:
        """Queue the kernel: all blocks run concurrently, and may wait for each other.

        Args:
            blocks: number of blocks.
            threads: threads per block.
            shared: bytes of shared memory of a block, at most ``room``.
            arguments: the bytes of each.

        Raises:
            AutofuseError: AF5003, it cannot be launched.
        """
        if shared > self._allowed:
            self._card.call("cuFuncSetAttribute", self._function, _DYNAMIC_SHARED, shared)
            self._allowed = shared
        held = [ctypes.create_string_buffer(a, len(a)) for a in arguments]
        places = (c_void_p * len(held))(*(ctypes.addressof(h) for h in held))
        sizes = (blocks, 1, 1, threads, 1, 1, shared)
        self._card.call("cuLaunchCooperativeKernel", self._function, *sizes, None, places)


class Card:
    """A card, for this thread.

    Args:
        index: from 0.

    Raises:
        AutofuseError: AF5001, there is no driver, or no such card; AF5003, it does not answer.

    Attributes:
        name: name of the card.
        capability: such as ``90`` for 9.0.
        shared_bytes: most bytes of shared memory of a block.
        driver: its version of CUDA.
        lost: reason why this process can no longer use it; empty while it can.
    """

    def __init__(self, index: int) -> None:
        try:
            self._library = ctypes.CDLL(_LIBRARY)
            for name, arguments in _PRESENT.items():
                function = getattr(self._library, name)
                function.argtypes, function.restype = arguments, c_int
        except (OSError, AttributeError) as e:
            raise AutofuseError.of(
                "AF5001",
                f"there is no card here: {_LIBRARY}, the driver, cannot be loaded",
                hint="without --device the kernel runs on the CPU twin",
            ) from e
        self._start(index)
        self.index, self.lost = index, ""
        device, text = c_int(), ctypes.create_string_buffer(128)
        self.call("cuDeviceGet", byref(device), index)
        self.call("cuDeviceGetName", text, len(text), device)
        self.name = text.value.decode("ascii", errors="replace")
        self._device = device
        self.shared_bytes = self._attribute(_SHARED_MOST)
        self.capability = 10 * self._attribute(_MAJOR) + self._attribute(_MINOR)
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        self.driver = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
        self._context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self._context), device)
        self.use()

    def _start(self, index: int) -> None:
        count = c_int()
        code = self._library.cuInit(0) or self._library.cuDeviceGetCount(byref(count))
        if code or index >= count.value:
            found = (
                f"the driver says {self._error(code)[0]}" if code else f"there are {count.value}"
            )
            raise AutofuseError.of(
                "AF5001",
                f"there is no card {index}: {found}",
                hint="`nvidia-smi` lists the cards; without --device the kernel runs on the CPU twin",
            )

    def use(self) -> None:
        """Bind this thread to the card.

        Raises:
            AutofuseError: AF5003, a kernel failed on it in this process.
        """
        if self.lost:
            text = f"this process cannot use {self.name} any more: {self.lost}"
            raise AutofuseError.of("AF5003", text, hint="run the kernel in another process")
        self.call("cuCtxSetCurrent", self._context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises:
            AutofuseError: AF5003, it did not return 0.
        """
        code = getattr(self._library, name)(*arguments)
        if code:
            raise self._failed(name, code)

    def _failed(self, call: str, code: int) -> AutofuseError:
        name, text = self._error(code)
        hint = ""
        if code == _TOO_MANY_BLOCKS:
            hint = "all cores of the kernel must run at once, but the card has fewer"
        return AutofuseError.of("AF5003", f"{call} failed: {name}: {text}", hint=hint)

    def _error(self, code: int) -> tuple[str, str]:
        name, text = c_char_p(), c_char_p()
        self._library.cuGetErrorName(code, byref(name))
        self._library.cuGetErrorString(code, byref(text))
        said = [(t.value or b"?").decode("ascii", errors="replace") for t in (name, text)]
        return said[0], said[1]

    def _attribute(self, number: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), number, self._device)
        return value.value

    def function(self, image: bytes, name: str) -> Function:
        """Return a kernel of a compiled module.

        Raises:
            AutofuseError: AF5003, it does not suit this card.
        """
        return Function(self, image, name)

    def malloc(self, size: int) -> int:
        """Allocate memory on the card and return its address.

        Raises:
            AutofuseError: AF5003, there is not enough memory.
        """
        at = c_uint64()
        self.call("cuMemAlloc_v2", byref(at), max(size, 1))
        return at.value

    def free(self, at: int) -> None:
        """Free memory."""
        self.call("cuMemFree_v2", at)

    def to_card(self, at: int, address: int, size: int) -> None:
        """Copy from an address of the host."""
        if size:
            self.call("cuMemcpyHtoD_v2", at, address, size)

    def to_host(self, address: int, at: int, size: int) -> None:
        """Copy to an address of the host, after all earlier launches complete."""
        if size:
            self.call("cuMemcpyDtoH_v2", address, at, size)

    def wait(self, seconds: float) -> None:
        """Wait until all launches are complete.

        Raises:
            AutofuseError: AF5003, a kernel failed, or takes longer; then only ending the process stops the kernel.
        """
        end = time.monotonic() + seconds
        tries = 0
        while code := self._library.cuStreamQuery(None):
            if code != _NOT_READY:
                self.lost = "a kernel failed on it"
                raise self._failed("the kernel", code)
            if time.monotonic() > end:
                self.lost = "a kernel did not finish on it"
                text = f"the kernel does not finish within {seconds:g} s on the card"
                raise AutofuseError.of("AF5003", text)
            time.sleep(_POLL[min(tries // 100, len(_POLL) - 1)])
            tries += 1

    def time(
        self,
        launch: Callable[[], object],
        *,
        warm_up: int = 10,
        repeats: int = 50,
        clear: bool = False,
        seconds: float = 60.0,
    ) -> list[float]:
        """Time launches by events around each, queued while the card is busy, which excludes host time.

        Args:
            launch: queues a kernel, as :meth:`Function.launch` does.
            warm_up: launches before the first timed one.
            repeats: timed launches.
            clear: fill a buffer larger than L2 before each of them, outside the timed span; else L2 is as the previous
                launch left it.
            seconds: time limit of a batch of launches, as for :meth:`wait`.

        Returns:
            Microseconds of each timed launch, in order.

        Raises:
            AutofuseError: AF5003, a kernel failed, or does not end.
        """
        size = max(_LEAST_FILLED, _L2_TIMES * self._attribute(_L2))
        other = self.malloc(size)
        events = [(self._event(), self._event()) for _ in range(min(_BATCH, repeats))]
        times: list[float] = []
        try:
            for _ in range(warm_up):
                launch()
            self.wait(seconds)
            while len(times) < repeats:
                batch = events[: repeats - len(times)]
                for _ in range(_AHEAD):
                    self.call("cuMemsetD8Async", other, 0, size, None)
                if not clear:
                    launch()
                for start, end in batch:
                    if clear:
                        self.call("cuMemsetD8Async", other, 0, size, None)
                    self.call("cuEventRecord", start, None)
                    launch()
                    self.call("cuEventRecord", end, None)
                self.wait(seconds)
                times += [self._elapsed_us(start, end) for start, end in batch]
        finally:
            if not self.lost:
                for event in (e for pair in events for e in pair):
                    self.call("cuEventDestroy_v2", event)
                self.free(other)
        return times

    def _event(self) -> c_void_p:
        event = c_void_p()
        self.call("cuEventCreate", byref(event), 0)
        return event

    def _elapsed_us(self, start: c_void_p, end: c_void_p) -> float:
        ms = c_float()
        self.call("cuEventElapsedTime", byref(ms), start, end)
        return 1e3 * ms.value


@lru_cache(maxsize=8)
def open_card(index: int) -> Card:
    """Return the card of this process; see :class:`Card`."""
    return Card(index)
