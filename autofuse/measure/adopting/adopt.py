"""A folder of generated files some of which are edited: which edits are kept, and on what they are based.

An adopted edit is an entry of the folder's manifest.  Builds leave the file alone, and keep the generated text under
``generated/`` beside it, so that both can be compared (:func:`differences`) and the generated one be taken
(:func:`drop`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autofuse import api
from autofuse.base import reading
from autofuse.base.artifacts import change_manifest
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.edits import edited_files, is_code
from autofuse.base.manifest import (
    MANIFEST,
    Edit,
    Manifest,
    check_inside,
    digest,
    read_manifest,
    underneath,
)
from autofuse.results import read_folder

__all__ = ["accept", "adopt", "differences", "drop"]

#: Lines of a difference at most.
MAX_LINES = 2_000


def adopt(folder: Path, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Record edits of generated files, so that builds into the folder keep them.

    Args:
        folder: that a build wrote.
        names: files in it, as the manifest names them; none: all that were edited.

    Returns:
        The files that are recorded now and were not before.  Each is compared with what is generated for it now.

    Raises:
        AutofuseError: AF1001, it is no such folder, or a link leads out of it; AF5007, a file cannot be adopted;
            AF5005, the folder cannot be written.
    """
    _check_whole(folder)
    found = {f.name: f for f in edited_files(folder)}
    chosen = [_known(folder, n) for n in names] or [
        n for n, f in found.items() if not f.adopted and is_code(n)
    ]
    for name in chosen:
        if not is_code(name):
            text = f"{name} says what the folder is made of, and is written by every build"
            raise AutofuseError.of("AF5007", text, hint="change the graph, and build it again")
        if name not in found:
            raise AutofuseError.of("AF5007", f"{name} is as it was generated: nothing to adopt")
    fresh = tuple(n for n in chosen if not found[n].adopted)
    if not fresh:
        return ()
    generated = _generated(folder, fresh)

    def change(old: Manifest) -> tuple[Manifest, Mapping[str, str]]:
        files, edits = dict(old.files), dict(old.edits)
        texts = {underneath(n): text for n, text in generated.items()}
        for name in fresh:
            (was,) = files.pop(name)
            edits[name] = Edit(was, digest(reading.content(folder / name)))
        files |= {n: {digest(text)} for n, text in texts.items()}
        return replace(old, files=files, edits=edits), texts

    change_manifest(folder, _readable(folder, change))
    return fresh


def accept(folder: Path, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Take edits for edits of what is generated now: what :func:`differences` shows is as their user wants it.

    Args:
        folder: as for :func:`adopt`.
        names: adopted files; none: all under which the generated text changed.

    Returns:
        The files.

    Raises:
        AutofuseError: as :func:`adopt`; AF5007, a file is not adopted.
    """
    chosen = tuple(_known(folder, n) for n in names) or tuple(
        f.name for f in edited_files(folder) if f.stale
    )

    def change(old: Manifest) -> tuple[Manifest, Mapping[str, str]]:
        edits = dict(old.edits)
        for name in chosen:
            edit = _adopted(edits, name)
            (now,) = old.files.get(underneath(name), {edit.generated})
            edits[name] = Edit(now, digest(reading.content(folder / name)))
        return replace(old, edits=edits), {}

    change_manifest(folder, _readable(folder, change))
    return chosen


def drop(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Give edits up, adopted or not: the generated text takes their place.

    Args:
        folder: as for :func:`adopt`.
        names: files that were edited.

    Returns:
        The files.

    Raises:
        AutofuseError: as :func:`adopt`; AF5007, the generated text is not known: a build has to make it first.
    """
    _check_whole(folder)
    chosen = tuple(_known(folder, n) for n in names)
    texts = _generated(folder, chosen)
    for name in chosen:
        if name not in texts:
            text = f"what is generated for {name} is not known here"
            hint = f"autofuse build GRAPH -o {folder} --force writes it, over edits that are not adopted"
            raise AutofuseError.of("AF5007", text, hint=hint)

    def change(old: Manifest) -> tuple[Manifest, Mapping[str, str]]:
        gone = {underneath(n) for n in chosen}
        files = {n: d for n, d in old.files.items() if n not in gone}
        files |= {n: {digest(texts[n])} for n in chosen}
        edits = {n: e for n, e in old.edits.items() if n not in chosen}
        return replace(old, files=dict(sorted(files.items())), edits=edits), texts

    change_manifest(folder, change)
    return chosen


def differences(folder: Path, names: Sequence[str] = ()) -> dict[str, str | None]:
    """Return the edits, as unified diffs against the text generated now.

    Args:
        folder: as for :func:`adopt`.
        names: files; empty: all edited ones.

    Returns:
        File -> the diff, at most :data:`MAX_LINES` lines of it; None if the generated text is unknown.

    Raises:
        AutofuseError: as :func:`adopt`.
    """
    chosen = [_known(folder, n) for n in names] or [f.name for f in edited_files(folder)]
    texts = _generated(folder, chosen)
    out: dict[str, str | None] = {}
    for name in chosen:
        if name not in texts:
            out[name] = None
            continue
        lines = list(
            difflib.unified_diff(
                texts[name].splitlines(),
                _text(folder, name).splitlines(),
                f"generated/{name}",
                name,
                lineterm="",
            )
        )
        more = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
        out[name] = "\n".join([*lines[:MAX_LINES], *more])
    return out


def _readable(
    folder: Path, change: Callable[[Manifest], tuple[Manifest, Mapping[str, str]]]
) -> Callable[[Manifest], tuple[Manifest, Mapping[str, str]]]:
    """The change, with AF1001 for a file that cannot be read."""

    def safe(old: Manifest) -> tuple[Manifest, Mapping[str, str]]:
        try:
            return change(old)
        except (OSError, ValueError) as e:
            raise _unreadable(folder, e) from e

    return safe


def _unreadable(folder: Path, why: Exception) -> AutofuseError:
    text = f"a file of the folder cannot be read: {why}"
    return AutofuseError.of("AF1001", text, where=Where(path=str(folder)))


def _text(folder: Path, name: str) -> str:
    try:
        return reading.text(folder / name)
    except (OSError, ValueError) as e:
        raise _unreadable(folder, e) from e


def _adopted(edits: Mapping[str, Edit], name: str) -> Edit:
    if name not in edits:
        text = f"{name} is not adopted"
        raise AutofuseError.of("AF5007", text, hint="autofuse adopt DIR records edits")
    return edits[name]


def _check_whole(folder: Path) -> None:
    """Raises AF1001 for what is no folder of generated files, or the part of one: its whole knows the files too."""
    if not read_manifest(folder).files:
        raise AutofuseError.of(
            "AF1001",
            "this folder has nothing that autofuse built"
            if folder.is_dir()
            else "this is a file, not a folder that autofuse built"
            if folder.exists()
            else "there is no such folder",
            where=Where(path=str(folder)),
            hint=f"autofuse build GRAPH -o {'DIR' if folder.is_file() else folder}",
        )
    whole = folder.resolve().parent.parent
    inner = f"{folder.resolve().parent.name}/{folder.resolve().name}/{MANIFEST}"
    if inner in read_manifest(whole).files:
        text = f"{folder} is one kernel of several"
        raise AutofuseError.of("AF5007", text, hint=f"autofuse adopt {whole}")


def _known(folder: Path, word: str) -> str:
    """The file that a user means: as the manifest names it, or by its path from here.

    Raises:
        AutofuseError: AF5007, the folder has no such file.
    """
    names = read_manifest(folder).names
    inside = word
    if word not in names:
        with suppress(ValueError, OSError, RuntimeError):
            inside = Path(word).resolve().relative_to(folder.resolve()).as_posix()
    if inside not in names:
        text = f"{word} is no generated file of {folder}"
        shown = ", ".join([n for n in names if is_code(n)][:12])
        raise AutofuseError.of("AF5007", text, hint=f"its files are: {shown}" if shown else "")
    return inside


def _generated(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """The text that is generated for files: as a build left it, or else made again; not all may be known."""
    found = read_manifest(folder)
    check_inside(folder, [underneath(n) for n in names])
    out: dict[str, str] = {}
    for name in names:
        kept = found.files.get(underneath(name))
        with suppress(OSError, ValueError):
            text = reading.text(folder / underneath(name))
            if kept is not None and digest(text) in kept:
                out[name] = text
    missing = {
        n: {found.edits[n].generated} if n in found.edits else found.files[n]
        for n in names
        if n not in out
    }
    return out | (_made_again(folder, missing) if missing else {})


def _made_again(folder: Path, wanted: Mapping[str, set[str]]) -> dict[str, str]:
    """Texts of files by digest, from a build of the folder's own graph with the options that it shows."""
    try:
        built = api.built_again(*read_folder(folder))
    except AutofuseError:
        return {}
    return {
        n: text
        for n, known in wanted.items()
        if (text := built.files.get(n)) is not None and digest(text) in known
    }
