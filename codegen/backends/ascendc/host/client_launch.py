"""A launcher for callers whose buffers do not map one to one to the kernel's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier
from autofuse.codegen.render import render

__all__ = ["with_client_launch"]


@dataclass(frozen=True, slots=True)
class _Pair:
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class _View:
    launcher: str
    parameters: tuple[str, ...]
    pointers: str
    apart: tuple[_Pair, ...]


def with_client_launch(
    files: Mapping[str, str],
    launcher: str,
    parameters: Sequence[str],
    pointers: Sequence[str],
    apart: Sequence[tuple[str, str]] = (),
) -> dict[str, str]:
    """Wrap the generated ``AutofuseLaunch`` of a kernel in one with other parameters.

    Args:
        files: path inside the output folder -> text.
        launcher: path of the file with the generated ``AutofuseLaunch``.
        parameters: names of the caller's pointers, in order.
        pointers: the parameter to pass for every pointer of the kernel.
        apart: pairs of parameters that must be distinct buffers; the launcher rejects aliases.

    Returns:
        The files; the new launcher includes the generated one.
    """
    place = PurePosixPath(launcher)
    inner = place.with_name(f"{place.stem}_kernel.inc")
    unknown = set(pointers) - set(parameters)
    if unknown:
        raise ValueError(f"{sorted(unknown)} are no parameters")
    names = tuple(check_identifier(p) for p in parameters)
    pairs = tuple(_Pair(a, b) for a, b in apart)
    view = _View(inner.name, names, ", ".join(pointers), pairs)
    return {
        **files,
        str(inner): files[launcher],
        launcher: render("client_launch.cpp.jinja", view),
    }
