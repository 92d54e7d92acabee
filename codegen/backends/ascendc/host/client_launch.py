"""A launcher with the parameters of a caller whose buffers are not one to one with those of the kernel."""

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
    """The files of a kernel with another ``AutofuseLaunch`` over the generated one.

    Args:
        files: path inside the output folder -> text.
        launcher: the path of the file with the generated ``AutofuseLaunch``.
        parameters: names of the caller's pointers, in order.
        pointers: for every pointer of the kernel, the parameter to pass.
        apart: pairs of parameters that must not be the same buffer; the launcher refuses them.

    Returns:
        The files; the generated launcher is a file that the new one includes.
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
