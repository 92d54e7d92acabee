"""Files on disk: written all or none, and never over files that autofuse did not write.

A folder of generated files holds ``manifest.json`` with the digest of each (:mod:`autofuse.base.manifest`). A later
write replaces files whose digest still agrees, removes those that are no longer generated, and refuses to touch
anything else unless told to. A file that the user edited and adopted is left alone; its generated text goes beside it.
While files move into place the manifest lists old and new digests, so that a folder whose writer was killed is neither
used nor taken for edited.

A *reproducer* is a folder in the cache that suffices to investigate an internal error.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import json
import os
import platform
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from autofuse import __version__
from autofuse.base import cache, reading
from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.manifest import (
    MANIFEST,
    Manifest,
    check_inside,
    digest,
    is_inside,
    read_manifest,
    underneath,
)

__all__ = [
    "MANIFEST",
    "STAGE",
    "Written",
    "change_manifest",
    "digest",
    "manifest_text",
    "read_files",
    "save_reproducer",
    "traceback_text",
    "write_files",
]

#: Part of the name of a staging folder, whose files move into place together.
STAGE = ".autofuse-"

#: Suffixes of binary files.
_LIBRARY = ".so"
_KEPT_REPRODUCERS = 20
#: A staging folder that is not in use and older than this was left by a killed process.
_STALE_S = 60.0
_THERE = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
_DEPENDENCIES = ("jinja2", "ml_dtypes", "networkx", "numpy", "pydantic", "rich", "sympy", "typer")


@dataclass(frozen=True, slots=True)
class Written:
    """Result of one write; every path is relative to ``folder``.

    Attributes:
        folder: the folder written to.
        created: files that did not exist.
        updated: files whose content changed.
        unchanged: files that already had the content.
        removed: files of an earlier write that are not part of this one.
        kept: edited and adopted files, left unchanged; their generated text is in ``generated/``.
        stale: kept files whose generated text changed since the edit, or is no longer generated.
    """

    folder: Path
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


@dataclass(slots=True)
class _Plan:
    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)


def write_files(
    files: Mapping[str, str | bytes], folder: str | Path, *, force: bool = False
) -> Written:
    """Write ``files`` (relative POSIX path -> text, or bytes) and a manifest into ``folder``.

    Args:
        files: the files to write.
        folder: the output folder; created if missing.
        force: replace files that were edited, or that autofuse did not write; not those that were adopted.

    Raises:
        AutofuseError: AF5005; the folder is then as it was before the call.
    """
    root = Path(folder)
    _check_paths(files)
    texts = {name: files[name] for name in sorted(files)}
    try:
        return _write(texts, root, force)
    except OSError as e:
        raise _unwritable(root, e.strerror or str(e)) from e


def _write(texts: dict[str, str | bytes], root: Path, force: bool) -> Written:
    """Write a new folder in one step; update an existing one under its lock."""
    parents = _make_parents(root.absolute().parent)
    try:
        with _stage(root) as stage:
            while True:
                if not root.exists() and not root.is_symlink():
                    _write_all({**texts, MANIFEST: manifest_text(texts)}, stage / "new")
                    try:
                        (stage / "new").rename(root)
                    except OSError as e:
                        if e.errno not in _THERE:
                            raise
                        # Another process was faster.
                        shutil.rmtree(stage / "new")
                        continue
                    return Written(root, tuple(texts))
                if not root.is_dir():
                    raise _unwritable(root, "a file of that name exists")
                with _locked(root) as held:
                    if held:
                        return _update(texts, root, stage, force)
    except BaseException:
        _remove_empty(parents[::-1])
        raise


def _update(texts: dict[str, str | bytes], root: Path, stage: Path, force: bool) -> Written:
    """Update an existing folder; the caller holds its lock."""
    old = read_manifest(root)
    edits = {n: e for n, e in old.edits.items() if (root / n).is_file()}
    check_inside(root, (*texts, *edits), "AF5005")
    stale = tuple(n for n, e in edits.items() if n not in texts or digest(texts[n]) != e.generated)
    edits = {n: e for n, e in edits.items() if n in texts}
    texts = {underneath(n) if n in edits else n: text for n, text in texts.items()}
    new = Manifest({n: {digest(text)} for n, text in texts.items()}, edits)
    plan = _compare(texts, root, old.files)
    # An edit that is no longer adopted belongs to the user: neither replace nor remove it.
    plan.removed = [n for n in plan.removed if n not in old.edits]
    if not force:
        _refuse_foreign(plan, root)
    names = [n for n in texts if n not in plan.unchanged]
    manifest = new.text()
    _write_all({n: texts[n] for n in names} | {MANIFEST: manifest}, stage / "new")
    if names or plan.removed:
        # Until the last file is in place the manifest lists old and new digests, so that after a kill the next
        # reader takes a half-written folder neither for complete nor for edited by hand.
        _write_all({MANIFEST: _becoming_text(texts, old)}, stage / "first")
    if names or plan.removed or _digest_of(root / MANIFEST) != digest(manifest):
        _merge(names, stage, root, plan.removed)
    return Written(
        root,
        tuple(plan.created),
        tuple(plan.updated),
        tuple(plan.unchanged),
        tuple(plan.removed),
        tuple(edits),
        stale,
    )


def change_manifest(
    folder: Path, change: Callable[[Manifest], tuple[Manifest, Mapping[str, str]]]
) -> None:
    """Change the manifest of a folder, and files with it, under its lock.

    Args:
        folder: a folder with a manifest.
        change: maps the manifest to a new one and the texts of files to write before it; called once.

    Raises:
        AutofuseError: AF1001, the folder has no complete manifest, or a file in it leads out of the folder; AF5005, it
            cannot be written; any error of ``change``.
    """
    if not (folder / MANIFEST).is_file():
        raise _no_kernel(folder)
    try:
        with _locked(folder) as held:
            old = read_manifest(folder)
            if not held or not old.files or old.becoming:
                raise _no_kernel(folder)
            new, texts = change(old)
            check_inside(folder, texts, "AF5005")
            for name, text in texts.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                cache.write_atomic(folder / name, text)
            cache.write_atomic(folder / MANIFEST, new.text())
            for name in set(old.files) - set(new.files) - set(new.edits):
                if _digest_of(folder / name) in old.files[name]:
                    (folder / name).unlink()
                    _remove_empty([p for p in (folder / name).parents if folder in p.parents])
    except OSError as e:
        raise _unwritable(folder, e.strerror or str(e)) from e


def _no_kernel(folder: Path) -> AutofuseError:
    return AutofuseError.of(
        "AF1001",
        f"{folder} does not hold a complete build",
        where=Where(path=str(folder)),
        hint=f"autofuse build GRAPH -o {folder}",
    )


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder; the lock ends with the process.

    Yields:
        False if the folder was replaced while waiting for the lock.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            now = folder.stat()
        except FileNotFoundError:
            yield False
            return
        yield (now.st_dev, now.st_ino) == (os.fstat(fd).st_dev, os.fstat(fd).st_ino)
    finally:
        os.close(fd)


@contextmanager
def _stage(root: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``root``, locked while in use; remove leftovers of killed processes."""
    parent, prefix = root.absolute().parent, f".{root.name}{STAGE}"
    for left in parent.glob(f"{glob.escape(prefix)}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_S:
                fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left, ignore_errors=True)
                finally:
                    os.close(fd)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as name, _locked(Path(name)):
        yield Path(name)


def read_files(folder: str | Path) -> dict[str, str]:
    """Return the current files of an earlier write, except libraries: path -> text; empty without a manifest.

    Raises:
        AutofuseError: AF1001, one of them is missing.
    """
    root = Path(folder)
    try:
        if root.is_dir():
            with _locked(root):
                manifest = read_manifest(root)
                if manifest.becoming:
                    raise ValueError("writing the folder was interrupted")
                names = [n for n in manifest.names if not n.endswith(_LIBRARY)]
                check_inside(root, names)
                return {name: reading.text(root / name) for name in names}
        return {}
    except (OSError, ValueError) as e:
        raise AutofuseError.of(
            "AF1001",
            f"a generated file cannot be read: {e}",
            where=Where(path=str(root)),
            hint="build it again",
        ) from e


def _check_paths(files: Mapping[str, str | bytes]) -> None:
    for name in files:
        if not is_inside(name):
            raise ValueError(f"{name!r} is not a path inside the output folder")


def manifest_text(texts: Mapping[str, str | bytes]) -> str:
    """Return the text of the manifest of a folder with these files."""
    return Manifest({name: {digest(text)} for name, text in texts.items()}).text()


def _becoming_text(texts: Mapping[str, str | bytes], old: Manifest) -> str:
    """Return the manifest of a folder during a write: every digest that a generated file may have."""
    digests = {name: set(found) for name, found in old.files.items()}
    for name, text in texts.items():
        digests.setdefault(name, set()).add(digest(text))
    return Manifest(digests, old.edits, becoming=True).text()


def _compare(texts: Mapping[str, str | bytes], root: Path, old: Mapping[str, set[str]]) -> _Plan:
    plan = _Plan()
    for name, text in texts.items():
        present = _digest_of(root / name)
        if present is None:
            plan.created.append(name)
        elif present == digest(text):
            plan.unchanged.append(name)
        else:
            plan.updated.append(name)
            if name not in old:
                plan.foreign.append(name)
            elif present not in old[name]:
                plan.edited.append(name)
    if (root / MANIFEST).exists() and not old:
        plan.foreign.append(MANIFEST)
    plan.removed = [n for n, d in old.items() if n not in texts and _digest_of(root / n) in d]
    return plan


def _digest_of(path: Path) -> str | None:
    """Return the digest of a file, ``""`` for anything else that exists, None for nothing."""
    if path.is_file():
        # Too large to be a generated file, so it is left alone.
        with suppress(ValueError):
            return digest(reading.content(path))
    return "" if path.exists() or path.is_symlink() else None


def _refuse_foreign(plan: _Plan, root: Path) -> None:
    def finding(name: str, why: str, more: str = "") -> Diagnostic:
        return Diagnostic(
            "AF5005",
            f"{name} {why}; it was not overwritten",
            Where(path=str(root / name)),
            "choose another folder with -o, or overwrite it with --force" + more,
        )

    findings = [finding(n, "was not written by autofuse") for n in plan.foreign]
    adopt = f"; autofuse adopt {root} keeps it as it is"
    findings += [finding(n, "was edited after it was generated", adopt) for n in plan.edited]
    if findings:
        raise AutofuseError(findings)


def _write_all(texts: Mapping[str, str | bytes], folder: Path) -> None:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)


def _merge(names: list[str], stage: Path, root: Path, removed: list[str]) -> None:
    """Move the staged files into place, the manifest last; undo everything if a move fails."""
    new, kept = stage / "new", stage / "old"
    done: list[tuple[Path, Path | None]] = []  # (path in the folder, path of its old content)
    made: list[Path] = []
    before = root / MANIFEST
    try:
        if (stage / "first" / MANIFEST).exists():
            if before.exists() or before.is_symlink():
                kept.mkdir()
                # Copy rather than move, so that the folder is never without a manifest.
                os.link(before, kept / MANIFEST, follow_symlinks=False)
            done.append((before, kept / MANIFEST if (kept / MANIFEST).is_file() else None))
            (stage / "first" / MANIFEST).replace(before)
        for name in [*names, *removed]:
            path, aside = root / name, kept / name
            made += _make_parents(path.parent)
            old: Path | None = None
            if path.exists() or path.is_symlink():
                aside.parent.mkdir(parents=True, exist_ok=True)
                path.rename(aside)
                old = aside
            done.append((path, old))
            if name not in removed:
                (new / name).rename(path)
        (new / MANIFEST).replace(before)
    except BaseException:
        for path, old in reversed(done):
            path.unlink(missing_ok=True)
            if old is not None:
                old.rename(path)
        _remove_empty(made[::-1])
        raise
    for name in removed:
        _remove_empty([p for p in (root / name).parents if p != root and root in p.parents])


def _make_parents(folder: Path) -> list[Path]:
    """Create a folder with its parents; return the new ones, outermost first."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()][::-1]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _unwritable(root: Path, why: str) -> AutofuseError:
    return AutofuseError.of(
        "AF5005",
        f"cannot write into {root}: {why}",
        where=Where(path=str(root)),
        hint="choose another folder with -o",
    )


def save_reproducer(error: BaseException, source: str, options: Mapping[str, object]) -> Path:
    """Write a reproducer of ``error``; equal failures share a folder.

    Raises:
        AutofuseError: AF5009, there is no cache folder for it.
        OSError: it cannot be written.
    """
    report = {
        "autofuse": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "dependencies": {name: _version_of(name) for name in _DEPENDENCIES},
        "options": {k: v if isinstance(v, bool | int) else str(v) for k, v in options.items()},
        "error": f"{type(error).__name__}: {error}",
    }
    files = {
        "input.json": source,
        "report.json": json.dumps(report, indent=2) + "\n",
        "traceback.txt": traceback_text(error),
    }
    home = cache.root() / "reproducers"
    folder = home / digest("\0".join(files.values()))[:12]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        cache.write_atomic(folder / name, text)
    _forget_old(home)
    return folder


def traceback_text(error: BaseException) -> str:
    """Return the traceback as Python prints it."""
    return "".join(traceback.format_exception(error))


def _version_of(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _forget_old(home: Path) -> None:
    found = sorted(home.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for folder in found[_KEPT_REPRODUCERS:]:
        shutil.rmtree(folder, ignore_errors=True)
