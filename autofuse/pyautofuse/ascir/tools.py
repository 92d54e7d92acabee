"""``ascir.utils``: graphs as text, and the chip to generate for."""

from __future__ import annotations

import sys
from typing import NoReturn, TextIO

from autofuse.base.diagnostics import AutofuseError
from autofuse.pyautofuse.graph_text import graph_text
from autofuse.pyautofuse.graphs import FusedGraph, HintGraph
from autofuse.pyautofuse.platform import set_platform

__all__ = ["debug_str", "deserialize", "dump", "set_platform"]


def debug_str(graph: HintGraph | FusedGraph) -> str:
    """The graph as text: sizes, axes, and every node with what is set on it."""
    return graph_text(graph)


def dump(graph: HintGraph | FusedGraph, file: TextIO | None = None) -> None:
    """Write :func:`debug_str` to ``file``, standard error if there is none."""
    (file or sys.stderr).write(debug_str(graph))


def deserialize(kind: str, text: str) -> NoReturn:
    """A graph from CANN's own serial form: refused.

    Raises:
        AutofuseError: AF1301, always.
    """
    raise AutofuseError.of(
        "AF1301",
        f"ascir.utils.deserialize({kind!r}, ...) is not supported",
        hint="build the graph with ascir.HintGraph",
    )


def __getattr__(name: str) -> NoReturn:
    """Any other function.

    Raises:
        AutofuseError: AF1301, there is none.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    raise AutofuseError.of(
        "AF1301", f"ascir.utils.{name} is not supported", hint=f"supported: {', '.join(__all__)}"
    )
