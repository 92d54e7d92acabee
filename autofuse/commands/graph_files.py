"""Graph files by name and in folders, for the verbs that take many."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

from autofuse.base.artifacts import MANIFEST, STAGE
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.manifest import read_manifest
from autofuse.base.reading import unreadable
from autofuse.frontends import read_graph

__all__ = ["UNSUPPORTED", "graph_files", "is_built"]

#: Codes for ops that autofuse lacks or does not compile yet: the graph is unsupported, not wrong.
UNSUPPORTED = frozenset({"AF1201", "AF2103"})
_LIKE_SCHEMAS = ".schema.json"


def is_built(path: Path) -> bool:
    """Return True if a path is a folder that a build wrote, with the graph of its kernel."""
    if not (path / MANIFEST).is_file():
        return False
    return any("/" not in n and n.endswith(".graph.json") for n in read_manifest(path).names)


def graph_files(words: Sequence[Path], *, built: bool = False) -> Iterator[Path]:
    """Yield files as given, and in folders every .json that may be a graph, every .info and every .onnx.

    With ``built``, a folder that a build wrote is taken as it is too.

    Raises:
        AutofuseError: AF1001, an argument names nothing, or a folder without graphs.
    """
    seen: set[Path] = set()
    for word in words:
        whole = not word.is_dir() or (built and is_built(word))
        found = [word] if whole else _graphs_in(word)
        if not found and (word / MANIFEST).is_file():
            read_graph(word)  # raises an error with a hint on generated folders
        if not found:
            text = "this folder contains no graph file (*.json, *.info, *.onnx)"
            raise AutofuseError.of("AF1001", text, where=Where(path=str(word)))
        if not found[0].exists():
            raise unreadable(word, "a graph file", FileNotFoundError(errno.ENOENT, ""))
        for p in found:
            if p not in seen:
                seen.add(p)
                yield p


def _graphs_in(folder: Path) -> list[Path]:
    # A pipe or a device with such a name is not a graph, and may never end.
    found = (
        p
        for p in folder.rglob("*")
        if p.suffix in (".json", ".info", ".onnx") and (p.is_file() or not p.exists())
    )
    return [p for p in sorted(found) if _may_be_graph(p, folder)]


def _may_be_graph(path: Path, root: Path) -> bool:
    """Return True unless the file is a schema, or in a folder of generated files, finished or not."""
    inside = [p for p in path.parents if p == root or root in p.parents]
    return not path.name.endswith(_LIKE_SCHEMAS) and not any(
        (p / MANIFEST).is_file() or STAGE in p.name for p in inside
    )
