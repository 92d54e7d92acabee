"""Version of the C interface of generated libraries (docs/c_abi.md); every loader checks it first."""

from __future__ import annotations

import ctypes

from autofuse.base.diagnostics import AutofuseError, Where

__all__ = ["ABI_VERSION", "SYMBOL", "check_abi", "check_library"]

#: Version of this package; equals ``autofuse::kAbiVersion`` in ``autofuse_status.h``.
ABI_VERSION = 1
#: The function of a library that returns its version: ``uint32_t ()``.
SYMBOL = "AutofuseAbiVersion"


def check_abi(found: int | None, path: str) -> None:
    """Refuse a library with another interface.

    Args:
        found: the library's version; None if it has no such function.
        path: path of the library, for the message.

    Raises:
        AutofuseError: AF5007, ``found`` is not :data:`ABI_VERSION`.
    """
    if found == ABI_VERSION:
        return
    has = f"version {found} of the C interface" if found is not None else "no AutofuseAbiVersion"
    older = found is None or found < ABI_VERSION
    raise AutofuseError.of(
        "AF5007",
        f"the library has {has}, this autofuse needs version {ABI_VERSION}",
        where=Where(path=path),
        hint="rebuild the kernel with this autofuse"
        if older
        else "a newer autofuse made the library: install that version, or rebuild the kernel",
    )


def check_library(library: ctypes.CDLL, path: str) -> None:
    """Refuse a library opened by ctypes if it has another interface.

    Args:
        library: the library.
        path: path of the library, for the message.

    Raises:
        AutofuseError: AF5007, as for :func:`check_abi`.
    """
    try:
        version = getattr(library, SYMBOL)
    except AttributeError:
        check_abi(None, path)
        return
    version.restype, version.argtypes = ctypes.c_uint32, []
    check_abi(int(version()), path)
