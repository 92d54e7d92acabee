"""``state.json`` of an output folder, and the other files of the stages.

The state is written in full after every stage and every round, so that a killed run can resume.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from autofuse import __version__
from autofuse.base import artifacts, cache, reading
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.clients.kernelgen.state_format import STAGES, State, read_state

__all__ = ["STATE", "load", "remove", "save", "save_as", "unchanged", "write"]

STATE = "state.json"


def load(folder: Path) -> State | None:
    """Return the state of a folder; None if it has none.

    Raises:
        AutofuseError: AF1xxx, it cannot be read; AF5010, it comes from another version of autofuse.
    """
    path = folder / STATE
    if not path.exists():
        return None
    found = read_state(path)
    if found.version != __version__:
        text = f"autofuse {found.version} wrote the folder, but this is {__version__}"
        raise AutofuseError.of("AF5010", text, where=Where(path=str(path)), hint=_ANEW)
    return found


_ANEW = "autofuse kernelgen run SOURCE -o FOLDER --force rebuilds it"


def save(folder: Path, state: State) -> None:
    """Write the state of a folder atomically.

    Raises:
        AutofuseError: AF5005, it cannot be written.
    """
    save_as(folder / STATE, state)


def save_as(path: Path, state: State) -> None:
    """Write a state to a file of any name, as :func:`save` does."""
    text = json.dumps(state.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        cache.write_atomic(path, text + "\n")
    except OSError as e:
        text = f"{path} cannot be written: {e.strerror or e}"
        raise AutofuseError.of("AF5005", text) from e


def write(folder: Path, state: State, files: Mapping[str, str], *, force: bool) -> State:
    """Write the files of a stage; nothing is removed (:func:`remove`).

    Args:
        folder: created if missing.
        state: state of the folder before the stage.
        files: name -> text.
        force: replace files that were edited, or that no stage wrote.

    Returns:
        The state as saved, with the files marked as coming: the stage has not finished.

    Raises:
        AutofuseError: AF5005, the folder cannot be written, or contains a file that no stage wrote.
    """
    now = {n: _digest_of(folder / n) for n in files}
    wanted = {n: artifacts.digest(text) for n, text in files.items()}
    foreign = [
        n for n in files if now[n] is not None and now[n] not in (wanted[n], *state.digests(n))
    ]
    if foreign and not force:
        text = f"{folder / foreign[0]} was edited, or was not written by kernelgen"
        hint = "--force replaces it, -o writes somewhere else"
        raise AutofuseError.of("AF5005", text, hint=hint, notes=foreign[1:])
    # The digest of the previous write stays valid until the first file is replaced.
    coming = {n: (*state.digests(n)[-1:], digest) for n, digest in wanted.items()}
    state = state.but(coming={**state.coming, **coming})
    save(folder, state)
    try:
        for name, text in files.items():
            if now[name] != wanted[name]:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                cache.write_atomic(folder / name, text)
    except OSError as e:
        text = f"{folder} cannot be written: {e.strerror or e}"
        raise AutofuseError.of("AF5005", text) from e
    return state


def remove(folder: Path, state: State, names: Iterable[str]) -> None:
    """Remove files that stages wrote and that are unchanged."""
    for name in names:
        if _digest_of(folder / name) in state.digests(name):
            with suppress(OSError):
                (folder / name).unlink()
                for parent in (folder / name).relative_to(folder).parents[:-1]:
                    (folder / parent).rmdir()  # stops at a folder that is not empty


def unchanged(folder: Path, state: State, stages: Iterable[str] = STAGES) -> None:
    """Check that the files of some stages are unchanged.

    Raises:
        AutofuseError: AF5010, a file was edited, or is missing.
    """
    own = {n for s in stages if s in state.stages for n in state.stages[s].files}
    wrong = []
    for name in sorted(own):
        found = _digest_of(folder / name)
        if found is None:
            wrong.append(f"{name} is gone")
        elif found not in state.digests(name):
            wrong.append(f"{name} was edited")
    if wrong:
        raise AutofuseError.of(
            "AF5010",
            f"{folder} changed since the stages wrote it: {wrong[0]}",
            hint="rerun the stage that wrote it with --force",
            notes=wrong[1:],
        )


def _digest_of(path: Path) -> str | None:
    """Return the digest of a file; None if it does not exist, an empty string if it is not a readable file."""
    try:
        return reading.sha256(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return ""
