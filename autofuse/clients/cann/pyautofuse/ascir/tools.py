"""``ascir.utils``: graphs as text, the chip to generate for, and times."""

from __future__ import annotations

import json
import sys
from typing import NoReturn, TextIO

from autofuse.clients.cann.pyautofuse.durations import duration_record, report_durations
from autofuse.clients.cann.pyautofuse.errors import ClientAttributeError, ClientTypeError
from autofuse.clients.cann.pyautofuse.graph_text import graph_text
from autofuse.clients.cann.pyautofuse.graphs import FusedGraph, HintGraph, ShapeInfo
from autofuse.clients.cann.pyautofuse.nodes import Operator
from autofuse.clients.cann.pyautofuse.platform import set_platform

__all__ = [
    "debug_str",
    "deserialize",
    "dump",
    "duration_record",
    "report_durations",
    "set_platform",
]


def debug_str(graph: HintGraph | FusedGraph) -> str:
    """Return the graph as text: sizes, axes, and every node with its attributes.

    Raises:
        ClientTypeError: AF1103, the argument is not a graph.
    """
    if not isinstance(graph, HintGraph | FusedGraph):
        kind = graph.type if isinstance(graph, Operator) else type(graph).__name__
        raise ClientTypeError.of(
            "AF1103", f"{graph!r} is not a graph", hint="a HintGraph or a FusedGraph"
        ).worded(f"Argument must be a HintGraph or FusedGraph object, got {kind}")
    return graph_text(graph)


def dump(graph: HintGraph | FusedGraph, file: TextIO | None = None) -> None:
    """Write :func:`debug_str` to ``file``, by default standard error.

    Raises:
        ClientTypeError: AF1103, the argument is not a graph.
    """
    (file or sys.stderr).write(debug_str(graph))


def deserialize(kind: str, text: str) -> ShapeInfo:
    """Parse a text of kind ``symbol_source_info``: a JSON object that maps names of sizes to texts.

    Raises:
        ClientTypeError: AF1002, the text is not such an object; AF1301, another kind: a graph serialized by CANN.
    """
    if kind != "symbol_source_info":
        raise ClientTypeError.of(
            "AF1301",
            f"ascir.utils.deserialize({kind!r}, ...) is not supported",
            hint="build the graph with ascir.HintGraph",
        )
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError) as e:
        raise ClientTypeError.of("AF1002", f"symbol_source_info: {e}") from None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise ClientTypeError.of("AF1002", "symbol_source_info is not a JSON object of strings")
    return ShapeInfo(found)


def __getattr__(name: str) -> NoReturn:
    """Refuse any other function.

    Raises:
        ClientAttributeError: AF1301, there is no such function.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    raise ClientAttributeError.of(
        "AF1301", f"ascir.utils.{name} is not supported", hint=f"supported: {', '.join(__all__)}"
    )
