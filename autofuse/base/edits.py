"""Generated files that the user edited: find them, and attribute compile errors to them.

Code that compiles the files of a folder does so inside :func:`blamed`, with any compiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autofuse.base import reading
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.manifest import check_inside, digest, read_manifest, underneath

__all__ = ["Edited", "blamed", "edited_files", "is_code", "stale_findings"]

#: Suffixes of generated code: an error in such a file belongs to its last author.
_CODE = (".cpp", ".h", ".py", ".txt", ".cmake", ".json")
#: Codes of errors that the compilers of the twin and of a chip find.
_REFUSED = frozenset(("AF5002", "AF5013"))
_MESSAGE = re.compile(r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<col>\d+):)? ?(?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Edited:
    """A file that differs from its generated text.

    Attributes:
        name: path inside the folder.
        adopted: the edit is recorded, so that a build keeps it.
        stale: the generated text has changed since the edit.
    """

    name: str
    adopted: bool
    stale: bool = False


def edited_files(folder: Path) -> tuple[Edited, ...]:
    """Return the edited files of a folder by name; none if there is no manifest.

    Raises:
        AutofuseError: AF1001, a symbolic link leads out of the folder.
    """
    found = read_manifest(folder)
    check_inside(folder, found.names)
    out = []
    for name in found.names:
        edit = found.edits.get(name)
        now = found.files.get(underneath(name)) if edit else found.files[name]
        generated = now if now is not None else {edit.generated} if edit else set()
        stale = edit is not None and edit.generated not in generated
        if stale or _digest(folder / name) not in generated:
            out.append(Edited(name, edit is not None, stale))
    return tuple(out)


def _digest(path: Path) -> str:
    """Return the digest of a file; empty if it cannot be read."""
    try:
        return digest(reading.content(path))
    except (OSError, ValueError):
        return ""


def is_code(name: str) -> bool:
    """Return True if a file is generated code or part of its build, not a description of the graph."""
    return name.endswith(_CODE[:-1]) or name == "CMakePresets.json"


def stale_findings(folder: Path, names: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return AF5016 for kept files whose generated text has changed."""
    return tuple(
        Diagnostic(
            "AF5016",
            f"{name} keeps your edit, but its generated text changed"
            if (folder / underneath(name)).is_file()
            else f"{name} keeps your edit, but the file is no longer generated",
            Where(path=str(folder / name)),
            f"autofuse adopt {folder} --diff shows both; --accept {name} keeps yours, --drop {name} takes the "
            "generated text"
            if (folder / underneath(name)).is_file()
            else "remove it if you do not need it",
            severity="warning",
        )
        for name in names
    )


@contextmanager
def blamed(folder: Path | None) -> Iterator[None]:
    """Turn AF5002 and AF5013, code that does not compile, into AF5015 if the user edited the faulty file.

    Args:
        folder: the folder of the code; None: it was just generated, so nobody edited it.
    """
    try:
        yield
    except AutofuseError as e:
        if folder is None or not any(d.code in _REFUSED for d in e.diagnostics):
            raise
        edited = [f.name for f in edited_files(folder) if is_code(f.name)]
        if not edited:
            raise
        raise AutofuseError(_blamed(d, folder, edited) for d in e.diagnostics) from e


def _blamed(d: Diagnostic, folder: Path, edited: Sequence[str]) -> Diagnostic:
    """Return a compiler's finding as one about an edited file if it points into one, else unchanged."""
    if d.code not in _REFUSED:
        return d
    first = f"{d.where.path}:{d.where.line}:{d.where.column or 1}: error" if d.where.line else ""
    for line in (first, *d.notes):
        m = _MESSAGE.match(line)
        name = _named(m["file"], edited) if m else None
        if m is not None and name is not None:
            return Diagnostic(
                "AF5015",
                f"{name}, which you edited, does not compile: line {int(m['line'])}",
                Where(path=str(folder / name), line=int(m["line"]), column=int(m["col"] or 1)),
                f"correct the line; autofuse adopt {folder} --drop {name} restores the generated text",
                d.notes,
            )
    return d


def _named(path: str, edited: Sequence[str]) -> str | None:
    """Return the edited file that a compiler's path names: absolute, or inside the folder of one kernel."""
    own = Path(path).parts
    for name in edited:
        parts = Path(name).parts
        few = min(len(own), len(parts))
        if own[-few:] == parts[-few:]:
            return name
    return None
