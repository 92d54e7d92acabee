"""``schema`` and ``new``: help with writing a graph."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import unwritten
from autofuse.clients.akg.models import kernel_schema
from autofuse.commands import writing
from autofuse.commands.outcome import Outcome
from autofuse.frontends.graph.schema import SCHEMA_FILE, graph_schema, starter
from autofuse.frontends.tuning import tuning_schema
from autofuse.measure.bench.results import results_schema
from autofuse.measure.calibration.bundle import bundle_schema

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["new", "schema"]


def schema(
    *,
    tuning: bool = False,
    results: bool = False,
    bundle: bool = False,
    certificate: bool = False,
    kernel_json: str | None = None,
) -> Outcome:
    """Return the JSON Schema of graph files, or of the requested kind of file.

    Raises:
        AutofuseError: AF5007, several kinds are requested.
    """
    asked: dict[str, Callable[[], dict[str, Any]]] = {}
    if tuning:
        asked["--tuning"] = tuning_schema
    if results:
        asked["--results"] = results_schema
    if bundle:
        asked["--bundle"] = bundle_schema
    if certificate:
        from autofuse.measure.certificate.schema import certificate_schema

        asked["--certificate"] = certificate_schema
    if kernel_json is not None:
        asked["--kernel-json"] = lambda: kernel_schema(kernel_json)
    if len(asked) > 1:
        text = "schema prints one schema at a time"
        raise AutofuseError.of("AF5007", text, hint=f"leave out {' or '.join(asked)}")
    found = next(iter(asked.values()), graph_schema)()

    def show(screen: Console) -> None:
        sys.stdout.write(_text(found))

    return Outcome({"json_schema": found}, show)


def new(name: str, folder: Path) -> Outcome:
    """Write ``NAME.json`` with its schema beside it.

    ``name`` may also include ``.json``.

    Raises:
        AutofuseError: AF1105 if the name is not legal, AF5005 if ``NAME.json`` exists.
    """
    file = "/" in name and name.endswith(".json")
    name = name.removesuffix(".json")
    if file or name.startswith((".", "/")):
        hint = f"autofuse new {Path(name).name or 'NAME'} -o {Path(name).parent}"
        raise AutofuseError.of("AF1105", f"{name!r} is a path, not the name of a graph", hint=hint)
    text = starter(name)
    path = folder / f"{writing.file_names([name])[name]}.json"
    schema_path = folder / SCHEMA_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise FileExistsError
        # The schema's name is reserved: always write this version's.
        _place(schema_path, _text(graph_schema()))
        _place(path, text)
    except FileExistsError as e:
        if not folder.is_dir():
            raise AutofuseError.of(
                "AF5005", f"cannot write {path}: {unwritten(path, e)}", where=Where(path=str(path))
            ) from e
        raise AutofuseError.of(
            "AF5005",
            f"{path} exists; it was not overwritten",
            where=Where(path=str(path)),
            hint="choose another name, or another folder with -o",
        ) from None
    except OSError as e:
        raise AutofuseError.of(
            "AF5005", f"cannot write {path}: {unwritten(path, e)}", where=Where(path=str(path))
        ) from e

    def show(screen: Console) -> None:
        screen.print(f"wrote {path} and {schema_path}", soft_wrap=True)
        screen.print(f"next: autofuse verify {path}", soft_wrap=True)

    return Outcome({"graph": str(path), "schema": str(schema_path)}, show)


def _place(path: Path, text: str) -> None:
    """Write a file atomically: under another name, then rename it."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
        # A temporary file is readable only by its owner.
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def _text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
