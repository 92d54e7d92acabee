"""Generated files that their user edited: which they are, and whose a compile error is.

Who compiles what is in a folder does it inside :func:`blamed`, whatever the compiler is.
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

#: What generated code is made of: an error in such a file is that of whoever wrote it last.
_CODE = (".cpp", ".h", ".py", ".txt", ".cmake", ".json")
#: What the compilers of the twin and of a chip say of code that they refuse.
_REFUSED = frozenset(("AF5002", "AF5013"))
_MESSAGE = re.compile(r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<col>\d+):)? ?(?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Edited:
    """A file of a folder that is not as autofuse generated it.

    Attributes:
        name: path inside the folder.
        adopted: the edit is recorded, so that a build keeps it.
        stale: something else is generated now than what was edited.
    """

    name: str
    adopted: bool
    stale: bool = False


def edited_files(folder: Path) -> tuple[Edited, ...]:
    """The files of a folder whose text is not the generated one, by name; none where there is no manifest.

    Raises:
        AutofuseError: AF1001, a file leads out of the folder by a symbolic link.
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
    """The digest of a file; empty where it cannot be read."""
    try:
        return digest(reading.content(path))
    except (OSError, ValueError):
        return ""


def is_code(name: str) -> bool:
    """Return True if a file is generated code or part of its build, not a description of the graph."""
    return name.endswith(_CODE[:-1]) or name == "CMakePresets.json"


def stale_findings(folder: Path, names: Iterable[str]) -> tuple[Diagnostic, ...]:
    """AF5016 for files that were kept although something else is generated for them now."""
    return tuple(
        Diagnostic(
            "AF5016",
            f"{name} was kept as you edited it, but what is generated for it changed"
            if (folder / underneath(name)).is_file()
            else f"{name} was kept as you edited it, but it is not generated any more",
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
    """Make AF5002 and AF5013, code that does not compile, AF5015 where it was the user who edited what is wrong.

    Args:
        folder: where the code is; None: it was just generated, and nobody edited it.
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
                f"correct the line; autofuse adopt {folder} --drop {name} takes the generated text again",
                d.notes,
            )
    return d


def _named(path: str, edited: Sequence[str]) -> str | None:
    """The edited file that a compiler means by a path: an absolute one, or one inside the folder of one kernel."""
    own = Path(path).parts
    for name in edited:
        parts = Path(name).parts
        few = min(len(own), len(parts))
        if own[-few:] == parts[-few:]:
            return name
    return None
