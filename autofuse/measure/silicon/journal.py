"""Journal of a kit run, in a file beside the bundle: an interrupted run resumes from it.

Each unit is recorded before it runs, so that a unit that crashes the machine is known after the restart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import content

__all__ = ["Journal"]

SCHEMA = "autofuse.measure.silicon-journal/1"
_MAX_BYTES = 64 << 20


class Journal:
    """A file of lines, each one JSON object.

    Args:
        path: the file.
        head: identifies the run, so that the file of another run is not resumed.

    Attributes:
        rows: name of a unit -> its rows.
        hung: units that started but never reported a result.
    """

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self.path = path
        self.head = {"schema": SCHEMA, **head}
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.hung: list[str] = []
        self._file: IO[str] | None = None

    def start(self, *, resume: bool) -> None:
        """Start a run, or resume it.

        Raises:
            AutofuseError: AF5007, there is a run to resume and ``resume`` is not set; AF1001, AF1403, the file cannot
                be read, or belongs to another run; AF5005, it cannot be written.
        """
        if self.path.exists():
            if not resume:
                text = f"{self.path.name} holds the results of an unfinished run"
                hint = "continue it with --resume, or remove the file to start over"
                raise AutofuseError.of("AF5007", text, where=Where(str(self.path)), hint=hint)
            self._read()
        try:
            known = self.path.exists()
            self._file = self.path.open("a", encoding="utf-8")
            if not known:
                self._write(self.head)
        except OSError as e:
            text = f"the journal of the run cannot be written: {e.strerror or e}"
            raise AutofuseError.of("AF5005", text, where=Where(str(self.path))) from None

    def begin(self, unit: str) -> None:
        """Record that a unit is about to run."""
        self._write({"begin": unit})

    def end(self, unit: str, rows: list[dict[str, Any]]) -> None:
        """Record the result of a unit."""
        self.rows[unit] = rows
        self._write({"end": unit, "rows": rows})

    def leave(self, unit: str) -> None:
        """Record that the user interrupted a unit, so that it runs again."""
        self._write({"leave": unit})

    def close(self, *, remove: bool = False) -> None:
        """Close the file; ``remove``: delete it, since the bundle has its contents."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if remove:
            self.path.unlink(missing_ok=True)

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _read(self) -> None:
        where = Where(str(self.path))
        try:
            lines = content(self.path, _MAX_BYTES).decode("utf-8").splitlines()
            # The last line may be incomplete if the machine went down while writing it.
            found = [json.loads(x) for x in lines[:-1]]
            found += _whole(lines[-1]) if lines else []
        except (OSError, ValueError, RecursionError) as e:
            text = f"the journal of the run cannot be read: {type(e).__name__}"
            raise AutofuseError.of("AF1001", text, where=where) from None
        if not found or found[0] != self.head:
            text = "the journal belongs to another run, with a different chip, release, version or options"
            hint = "give the options of that run, or another --out"
            raise AutofuseError.of("AF1403", text, where=where, hint=hint)
        open_units: dict[str, None] = {}
        try:
            for line in found[1:]:
                if "begin" in line:
                    open_units[str(line["begin"])] = None
                elif "leave" in line:
                    open_units.pop(str(line["leave"]), None)
                else:
                    open_units.pop(str(line["end"]), None)
                    self.rows[str(line["end"])] = [dict(r) for r in line["rows"]]
        except (KeyError, TypeError, ValueError):
            raise AutofuseError.of(
                "AF1403", "the journal has an invalid line", where=where
            ) from None
        self.hung = [u for u in open_units if u not in self.rows]


def _whole(line: str) -> list[Any]:
    try:
        return [json.loads(line)]
    except ValueError:
        return []
