"""The version of the C interface of generated libraries (docs/c_abi.md), which every loader asks for first."""

from __future__ import annotations

import ctypes

from autofuse.base.diagnostics import AutofuseError, Where

__all__ = ["ABI_VERSION", "SYMBOL", "check_abi", "check_library"]

#: That of this package; ``autofuse::kAbiVersion`` in ``autofuse_status.h`` is the same.
ABI_VERSION = 1
#: The function of a library that tells its version: ``uint32_t ()``.
SYMBOL = "AutofuseAbiVersion"


def check_abi(found: int | None, path: str) -> None:
    """Refuse a library with another interface.

    Args:
        found: what the library says; None where it has no such function.
        path: of the library, for the message.

    Raises:
        AutofuseError: AF5007, it is not :data:`ABI_VERSION`.
    """
    if found == ABI_VERSION:
        return
    has = f"version {found} of the C interface" if found is not None else "no AutofuseAbiVersion"
    older = found is None or found < ABI_VERSION
    raise AutofuseError.of(
        "AF5007",
        f"the library has {has}, and this autofuse calls version {ABI_VERSION}",
        where=Where(path=path),
        hint="build the kernel again with this autofuse"
        if older
        else "a newer autofuse made the library: install that one, or build the kernel again",
    )


def check_library(library: ctypes.CDLL, path: str) -> None:
    """Refuse a library that ctypes opened, if it has another interface.

    Args:
        library: the library.
        path: of the library, for the message.

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
