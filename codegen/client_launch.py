"""A launcher with the parameters of a caller whose buffers are not one to one with those of the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from autofuse.codegen.expr_cpp import check_identifier
from autofuse.codegen.render import render

__all__ = ["with_client_launch"]


@dataclass(frozen=True, slots=True)
class _View:
    launcher: str
    parameters: tuple[str, ...]
    pointers: str


def with_client_launch(
    files: Mapping[str, str], launcher: str, parameters: Sequence[str], pointers: Sequence[str]
) -> dict[str, str]:
    """The files of a kernel with another ``AutofuseLaunch`` over the generated one.

    Args:
        files: path inside the output folder -> text.
        launcher: the path of the file with the generated ``AutofuseLaunch``.
        parameters: names of the caller's pointers, in order.
        pointers: for every pointer of the kernel, the parameter to pass.

    Returns:
        The files; the generated launcher is a file that the new one includes.
    """
    place = PurePosixPath(launcher)
    inner = place.with_name(f"{place.stem}_kernel.inc")
    unknown = set(pointers) - set(parameters)
    if unknown:
        raise ValueError(f"{sorted(unknown)} are no parameters")
    view = _View(inner.name, tuple(check_identifier(p) for p in parameters), ", ".join(pointers))
    return {
        **files,
        str(inner): files[launcher],
        launcher: render("client_launch.cpp.jinja", view),
    }
