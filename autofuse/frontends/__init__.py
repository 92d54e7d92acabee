"""Readers of graph files: from text to a checked FusionGraph, or to all errors with their places."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from autofuse.base.artifacts import MANIFEST
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import TooLargeError, named, unreadable
from autofuse.frontends.json_positions import Document, load, quote
from autofuse.frontends.onnx import MAX_FILE, looks_like_onnx, read_onnx
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["MAX_FILE", "detect_format", "parse_graph", "read", "read_graph"]

#: Called with the JSON of a graph file before it is read as a graph.
Watch: TypeAlias = Callable[[Document], object]

_NATIVE = frozenset({"schema", "$schema", "nodes", "inputs", "outputs", "symbols"})
_AKG = frozenset({"op_desc", "input_desc", "output_desc"})


def _unwatched(_: Document) -> None: ...


def read_graph(path: str | os.PathLike[str], watch: Watch = _unwatched) -> FusionGraph:
    """Read a graph file of any format, detected by content.

    Raises:
        AutofuseError: AF1001 if the file cannot be read, AF1003 if it is too large, or all errors of the file at once.
    """
    if Path(path).is_dir():
        raise _folder(Path(path))
    try:
        data = named(Path(path), MAX_FILE)
    except TooLargeError as e:
        hint = "a graph describes one fused kernel; split the graph"
        raise AutofuseError.of("AF1003", str(e), where=Where(str(path)), hint=hint) from None
    except (OSError, ValueError) as e:
        raise unreadable(path, "a graph file", e) from None
    if looks_like_onnx(data, str(path)):
        return read_onnx(data, str(path), folder=Path(path).parent)
    return parse_graph(data, path=str(path), watch=watch)


def _folder(path: Path) -> AutofuseError:
    """Return the error for a folder in place of a graph file."""
    where = Where(str(path))
    if not (path / MANIFEST).is_file():
        hint = "give one graph file; autofuse build and autofuse verify take folders of graph files"
        return AutofuseError.of(
            "AF1001", "this is a folder, not a graph file", where=where, hint=hint
        )
    text = "this folder holds a generated kernel, not a graph file"
    hint = f"give the graph it was built from; 'autofuse run {path}' runs it, and times it with --html FILE"
    return AutofuseError.of("AF1001", text, where=where, hint=hint)


def read(graph: object, watch: Watch = _unwatched) -> FusionGraph:
    """Return the graph of anything that :func:`autofuse.read` takes.

    Raises:
        AutofuseError: as there.
    """
    if isinstance(graph, FusionGraph):
        return graph
    if isinstance(graph, Mapping):
        try:
            text = json.dumps(dict(graph))
        except (TypeError, ValueError, RecursionError) as e:
            raise AutofuseError.of(
                "AF1103",
                f"the graph cannot be written as JSON: {e}",
                hint="use Python lists, dicts, strings, numbers and booleans; no arrays",
            ) from None
        return parse_graph(text, watch=watch)
    if isinstance(graph, str) and graph.lstrip()[:1] in ("{", "["):
        return parse_graph(graph, watch=watch)
    if isinstance(graph, str | os.PathLike):
        return read_graph(graph, watch)
    raise AutofuseError.of(
        "AF1103",
        f"a graph cannot be read from an object of type {type(graph).__name__}",
        hint="give a path, the text of a graph file, a dict with its content, or a result of autofuse.read",
    )


def parse_graph(text: str | bytes, *, path: str = "", watch: Watch = _unwatched) -> FusionGraph:
    """Read a graph from the text of a file, or the bytes of an ONNX model; ``path`` is its name in messages.

    Raises:
        AutofuseError: with all errors of the text at once.
    """
    if isinstance(text, bytes) and looks_like_onnx(text, path):
        return read_onnx(text, path)
    document = load(text, path)
    watch(document)
    # Imported late: the readers load pydantic, which an error about bad JSON does not need.
    if _format_of(document) == "akg":
        from autofuse.frontends.akg.reader import read_akg

        return read_akg(document)
    from autofuse.frontends.graph.reader import read_native

    return read_native(document)


def detect_format(data: str | bytes) -> str:
    """Return ``native`` (schema autofuse.graph/1), ``akg`` (MindSpore GraphKernel) or ``onnx``.

    Raises:
        AutofuseError: AF1002 if it is not JSON, AF1004 if it is neither.
    """
    if isinstance(data, bytes) and looks_like_onnx(data):
        return "onnx"
    return _format_of(load(data))


def _format_of(document: Document) -> str:
    value: Any = document.value
    hint = 'a graph file has "schema": "autofuse.graph/1"; AKG files have "op_desc"'
    if not isinstance(value, dict):
        found = "a list" if isinstance(value, list) else "a single value"
        text = f"a graph file is a JSON object, this is {found}"
        raise AutofuseError.of("AF1004", text, where=document.where(""), hint=hint)
    keys = set(value)
    if "schema" in keys or not keys & _AKG:
        if keys & _NATIVE:
            return "native"
        listed = ", ".join(quote(k, 30) for k in list(value)[:8]) or "none"
        text = f"the format is not known; the keys at the top are: {listed}"
        raise AutofuseError.of("AF1004", text, where=document.where(""), hint=hint)
    return "akg"
