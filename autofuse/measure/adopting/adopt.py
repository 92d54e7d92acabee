"""Records which edits of a generated folder are kept, and the generated text that they are based on.

An adopted edit is an entry in the folder's manifest. Builds leave the file alone, and keep the generated text under
``generated/`` beside it, so that the two can be compared (:func:`differences`) and the edit dropped (:func:`drop`).
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

#: Most lines of a difference.
MAX_LINES = 2_000


def adopt(folder: Path, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Record edits of generated files, so that builds into the folder keep them.

    Args:
        folder: a folder that a build wrote.
        names: files in it, as in the manifest; empty: all edited ones.

    Returns:
        The newly recorded files. Each is compared with its current generated text.

    Raises:
        AutofuseError: AF1001, it is not such a folder, or a link leads out of it; AF5007, a file cannot be adopted;
            AF5005, the folder cannot be written.
    """
    _check_whole(folder)
    found = {f.name: f for f in edited_files(folder)}
    chosen = [_known(folder, n) for n in names] or [
        n for n, f in found.items() if not f.adopted and is_code(n)
    ]
    for name in chosen:
        if not is_code(name):
            text = f"{name} describes the folder and is rewritten by every build"
            raise AutofuseError.of("AF5007", text, hint="change the graph and rebuild")
        if name not in found:
            raise AutofuseError.of("AF5007", f"{name} has not been edited: nothing to adopt")
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
    """Accept the current generated text as the base of edits: the result of :func:`differences` is intended.

    Args:
        folder: as for :func:`adopt`.
        names: adopted files; empty: all whose generated text changed.

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
    """Drop edits, adopted or not: restore the generated text.

    Args:
        folder: as for :func:`adopt`.
        names: edited files.

    Returns:
        The files.

    Raises:
        AutofuseError: as :func:`adopt`; AF5007, the generated text is unknown: a build must generate it first.
    """
    _check_whole(folder)
    chosen = tuple(_known(folder, n) for n in names)
    texts = _generated(folder, chosen)
    for name in chosen:
        if name not in texts:
            text = f"the generated text of {name} is not available"
            hint = f"autofuse build GRAPH -o {folder} --force writes it, and overwrites edits that are not adopted"
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
    """Return the change, with AF1001 for a file that cannot be read."""

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
        raise AutofuseError.of("AF5007", text, hint="record edits with autofuse adopt DIR")
    return edits[name]


def _check_whole(folder: Path) -> None:
    """Raise AF1001 if it is not a generated folder, or only a part of one, since the whole lists the files too."""
    if not read_manifest(folder).files:
        raise AutofuseError.of(
            "AF1001",
            "this folder contains no autofuse build"
            if folder.is_dir()
            else "this is a file, not an autofuse build folder"
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
    """Return the file that the user names: as in the manifest, or by a path from the current folder.

    Raises:
        AutofuseError: AF5007, the folder has no such file.
    """
    names = read_manifest(folder).names
    inside = word
    if word not in names:
        with suppress(ValueError, OSError, RuntimeError):
            inside = Path(word).resolve().relative_to(folder.resolve()).as_posix()
    if inside not in names:
        text = f"{word} is not a generated file of {folder}"
        shown = ", ".join([n for n in names if is_code(n)][:12])
        raise AutofuseError.of("AF5007", text, hint=f"its files are: {shown}" if shown else "")
    return inside


def _generated(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the generated text of files: as left by a build, else generated again; some may be unknown."""
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
    """Build the folder's own graph with its recorded options, and return the texts of files by digest."""
    try:
        built = api.built_again(*read_folder(folder))
    except AutofuseError:
        return {}
    return {
        n: text
        for n, known in wanted.items()
        if (text := built.files.get(n)) is not None and digest(text) in known
    }
