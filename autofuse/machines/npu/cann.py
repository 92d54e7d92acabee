"""The installed CANN: compiler, runtime, profiler and release."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autofuse.base import reading
from autofuse.base.diagnostics import AutofuseError, Where

__all__ = [
    "FAKE",
    "VARIABLES",
    "Cann",
    "bisheng",
    "bisheng_in",
    "find_cann",
    "needs_release",
    "release_key",
]

#: Variables with the path of CANN, as its set_env.sh sets them, best first.
VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
#: A file that marks the folder of the fake CANN of the tests.
FAKE = "fake_cann.json"
#: Default folders of the installers: for all users, and for one.
_SYSTEM = ("/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest")
_HOME = ("Ascend/cann", "Ascend/ascend-toolkit/latest")
_MACHINE = f"{platform.machine()}-linux"
_PROGRAMS = (
    "bin",
    "compiler/ccec_compiler/bin",
    "tools/bisheng_compiler/bin",
    "tools/profiler/bin",
    f"{_MACHINE}/bin",
)
_LIBRARIES = ("lib64", f"{_MACHINE}/lib64", "runtime/lib64", "fwkacllib/lib64")
_VERSIONS = (
    f"{_MACHINE}/ascend_toolkit_install.info",
    "ascend_toolkit_install.info",
    "compiler/version.info",
    "runtime/version.info",
    "opp/version.info",
)
_RELEASE = re.compile(r"^[ \t]*version(?:_dir)?[ \t]*=[ \t]*([0-9][0-9A-Za-z.]{0,40})", re.M | re.I)
#: Number of release components that are compared.
_PARTS = 8
_INSTALL = (
    "install the CANN toolkit and source its set_env.sh, or set ASCEND_HOME_PATH to its folder"
)


@dataclass(frozen=True, slots=True)
class Cann:
    """An installation of CANN.

    Attributes:
        root: its folder.
        release: such as ``8.5.0``; empty if no file names it.
        bisheng: the compiler.
        library: ``libascendcl.so``, the runtime.
        msprof: the profiler; None where it is not installed.
        is_fake: True for the fake CANN of the tests, whose times are not measurements.
    """

    root: Path
    release: str
    bisheng: Path
    library: Path
    msprof: Path | None
    is_fake: bool


def find_cann(release: str | None = None, calls: Sequence[str] = ()) -> Cann:
    """Return the CANN that the environment names, or that is in a default folder.

    Args:
        release: the oldest sufficient one, from a kernel's metadata; None for any.
        calls: the calls that need it, for the message.

    Raises:
        AutofuseError: AF5011, there is none, a part of it is missing, or it is older.
    """
    where = _root()
    bisheng, library = bisheng_in(where), _first(where, _LIBRARIES, "libascendcl.so", 0)
    for found, name in ((bisheng, "the compiler bisheng"), (library, "the library libascendcl.so")):
        if found is None:
            raise AutofuseError.of(
                "AF5011",
                f"CANN in {where} lacks {name}",
                where=Where(path=str(where)),
                hint=f"the toolkit contains it, the driver package alone does not: {_INSTALL}",
            )
    assert bisheng is not None
    assert library is not None
    msprof = _first(where, _PROGRAMS, "msprof", os.X_OK)
    cann = Cann(where, _release(where), bisheng, library, msprof, (where / FAKE).is_file())
    needs_release(cann, release, calls)
    return cann


def needs_release(cann: Cann, release: str | None, calls: Sequence[str] = ()) -> None:
    """Raise AF5011 if CANN is known to be older than ``release``; ``calls`` are the calls that need it."""
    if not release or not cann.release or release_key(cann.release) >= release_key(release):
        return
    what = f": it calls {', '.join(calls)}" if calls else ""
    raise AutofuseError.of(
        "AF5011",
        f"CANN {cann.release} is too old: the kernel needs {release} or later{what}",
        where=Where(path=str(cann.root)),
        hint="install a later CANN toolkit and source its set_env.sh",
    )


def release_key(release: str) -> tuple[int, ...]:
    """Return a comparable key of a release: ``8.5.0`` is (8, 5, 0, ...), ``8.2.RC1`` is (8, 2, -1, 1, ...)."""
    out: list[int] = []
    for part in release.split("."):
        m = re.fullmatch(r"(?:(rc|alpha|beta|t)?0*)(\d*)\w*", part, re.I)
        if m is None:
            break
        if m[1]:  # sorts before the release of that number
            out.append(-1)
        out.append(int(m[2] or 0))
    return (*out, *(0,) * (_PARTS - len(out)))


def bisheng() -> Path | None:
    """Return the compiler of the CANN in ASCEND_HOME_PATH, if any."""
    home = os.environ.get("ASCEND_HOME_PATH")
    return bisheng_in(Path(home)) if home else None


def bisheng_in(root: Path) -> Path | None:
    """Return the compiler in a folder of CANN."""
    return _first(root, _PROGRAMS, "bisheng", os.X_OK)


def _root() -> Path:
    """Return the folder of CANN."""
    for name in VARIABLES:
        if text := os.environ.get(name, ""):
            path = Path(text)
            if not path.is_absolute() or not path.is_dir():
                why = (
                    "there is no such folder"
                    if path.is_absolute()
                    else "it is not an absolute path"
                )
                raise AutofuseError.of("AF5011", f"{name} is {text!r}, but {why}", hint=_INSTALL)
            return path
    for path in _usual():
        if bisheng_in(path) is not None:
            return path
    raise AutofuseError.of(
        "AF5011",
        f"there is no CANN here: {' and '.join(VARIABLES)} are not set",
        hint=_INSTALL,
        notes=[f"searched: {p}" for p in _usual()],
    )


def _usual() -> Iterator[Path]:
    yield from map(Path, _SYSTEM)
    home = Path(os.environ.get("HOME", ""))
    if home.is_absolute():
        yield from (home / p for p in _HOME)


def _first(root: Path, folders: Sequence[str], name: str, mode: int) -> Path | None:
    paths = (root / folder / name for folder in folders)
    return next((p for p in paths if p.is_file() and os.access(p, mode or os.R_OK)), None)


def _release(root: Path) -> str:
    for name in _VERSIONS:
        try:
            text = reading.content(root / name).decode("utf-8", errors="replace")
        except (OSError, ValueError):
            continue
        if m := _RELEASE.search(text):
            return m[1]
    return ""
