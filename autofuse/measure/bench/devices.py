"""Devices named on the command line, each for one measurement at a time."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autofuse.base import cache
from autofuse.base.diagnostics import AutofuseError

__all__ = ["BenchDevice", "alone", "parse_devices"]

#: Most devices of a host.
_MOST = 64
_WORDS = re.compile(r"(npu|cuda)(?::((?:0|[1-9][0-9]?)(?:,(?:0|[1-9][0-9]?))*))?")


@dataclass(frozen=True, slots=True)
class BenchDevice:
    """A device of this host, or of the host of a worker.

    Attributes:
        kind: ``npu`` or ``cuda``.
        index: its number there.
    """

    kind: str
    index: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


def parse_devices(text: str) -> tuple[BenchDevice, ...]:
    """Return the devices that a text such as ``npu:0,1`` or ``cuda:0`` names; without a number the first one.

    Raises:
        AutofuseError: AF5007, it names none, or one of them twice.
    """
    m = _WORDS.fullmatch(text)
    hint = "npu:0, npu:0,1 or cuda:0"
    if m is None:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        text = f"kernels are measured on npu:N or cuda:N, not on {shown!r}"
        raise AutofuseError.of("AF5007", text, hint=hint)
    numbers = [int(n) for n in (m[2] or "0").split(",")]
    if len(set(numbers)) != len(numbers) or len(numbers) > _MOST:
        raise AutofuseError.of("AF5007", f"{text} names a device twice", hint=hint)
    return tuple(BenchDevice(m[1], n) for n in numbers)


@contextmanager
def alone(device: str) -> Iterator[None]:
    """Lock a device of this host, since concurrent measurements would be invalid.

    Other programs are not excluded. The lock ends with the process.

    Args:
        device: such as ``npu:0``.

    Raises:
        AutofuseError: AF5009, the cache folder cannot be used.
    """
    folder = cache.root() / "devices"
    name = device.replace(":", "-")
    try:
        folder.mkdir(exist_ok=True)
        fd = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise cache.unusable(e.strerror or str(e)) from e
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
