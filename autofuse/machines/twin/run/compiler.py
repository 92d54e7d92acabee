"""The user's C++ compiler: detection, calls with cached results, and the meaning of their failures."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autofuse.base import cache as cache_folder
from autofuse.base import knobs, programs
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import counted

__all__ = [
    "CompilerFailedError",
    "Toolchain",
    "although_emptied",
    "kept_sources",
    "key_of",
    "made",
    "run_compiler",
    "toolchain",
    "write_files",
]

_SHOWN_ERRORS = 5
#: Most attempts to compile a kernel while other processes empty the cache.
_TRIES = 3
_GPP_HINT = "install a C++ compiler, such as g++ (apt-get install g++, dnf install gcc-c++)"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler: its path and its version text."""

    path: str
    version: str

    @property
    def is_gcc(self) -> bool:
        """True for GCC, under any name."""
        return re.match(r"\S*(g\+\+|gcc|c\+\+)\S* \(", self.version) is not None


@lru_cache(maxsize=4)
def _compiler_at(name: str) -> Toolchain:
    path = programs.program(name)
    if path is None:
        raise AutofuseError.of(
            "AF5001",
            f"there is no C++ compiler called {name!r}",
            hint=f"{_GPP_HINT}, or name one with {knobs.CXX.name}",
        )
    try:
        got = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            cwd=Path(path).parent,
            env=_environment(),
        )
    except (OSError, subprocess.SubprocessError) as e:
        raise AutofuseError.of(
            "AF5001",
            f"{path} --version fails: {e}",
            hint=f"{_GPP_HINT}, or name one with {knobs.CXX.name}",
        ) from e
    return Toolchain(path, got.stdout.strip().splitlines()[0] if got.stdout.strip() else "unknown")


def toolchain() -> Toolchain:
    """Return the compiler named by the knobs.

    Raises:
        AutofuseError: AF5001, it is missing, or cannot be executed.
    """
    return _compiler_at(knobs.CXX.get())


def _environment(folder: Path | None = None) -> dict[str, str]:
    """Return an environment with English compiler messages, so that positions can be parsed.

    The compiler's temporary files go into ``folder``, and are removed with it if the compiler is killed.
    """
    own = {} if folder is None else {"TMPDIR": str(folder)}
    return programs.environment(**own, LC_ALL="C")


class _EmptiedError(Exception):
    """Another process removed cache entries that a compiler call reads."""


def although_emptied(make: Callable[[], Path]) -> Path:
    """Return what ``make`` returns, calling it again if cache entries were removed before it read them."""
    for _ in range(_TRIES):
        with suppress(_EmptiedError):
            return make()
    raise cache_folder.unusable("other processes keep emptying it")


def made(
    texts: Mapping[str, str],
    cmd: Sequence[str],
    key: str,
    result: str,
    name: str,
    few_libraries: Sequence[str] = (),
    later: Sequence[str] = (),
    looked: Sequence[str] = (),
) -> Path:
    """Return the file that a compiler call produces from sources, from the cache if possible.

    ``few_libraries``: flags that link fewer libraries than usual, tried first. ``later``: sources that are read after
    the call. ``looked``: an optional preceding call that only scans the sources; its last argument is its output file.
    """

    def make(folder: Path) -> None:
        write_files(texts, folder)
        if looked:
            run_compiler(list(looked), folder, name, looked[-1])
        if few_libraries:
            try:
                return run_compiler([*cmd, *few_libraries], folder, name, result)
            except CompilerFailedError as e:
                if "undefined reference" not in e.text:
                    raise
        return run_compiler(list(cmd), folder, name, result)

    try:
        return cache_folder.entry("kernels", key, result, make, tuple(later)) / result
    except CompilerFailedError as e:
        entries = f"{cache_folder.root()}{os.sep}"
        if any(word.startswith(entries) and not Path(word).exists() for word in cmd):
            raise _EmptiedError from None
        raise _failure(e, texts, key, name) from None


def key_of(files: Mapping[str, str], cmd: Sequence[str], cxx: Toolchain, digest: str) -> str:
    """Return the digest of all dependencies of a library; ``digest`` covers those not in the other arguments."""
    h = hashlib.sha256()
    for part in (
        cxx.version,
        digest,
        *cmd,
        *(x for p in sorted(files) for x in (p, files[p])),
    ):
        raw = part.encode()
        h.update(len(raw).to_bytes(8, "little") + raw)
    return h.hexdigest()


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write texts into a folder, by path."""
    for p, text in files.items():
        path = folder / p
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class CompilerFailedError(Exception):
    """The compiler's exit status is not 0."""

    def __init__(self, cmd: Sequence[str], text: str, status: int) -> None:
        super().__init__(text)
        self.cmd = cmd
        self.text = text
        self.status = status


def run_compiler(cmd: list[str], folder: Path, name: str, result: str) -> None:
    """Run the compiler in a folder; it must produce ``result``.

    Raises:
        CompilerFailedError: its exit status is not 0.
        AutofuseError: AF5002, it takes too long; AF5001, it wrote no file.
    """
    limit = knobs.COMPILE_TIMEOUT.get()
    with subprocess.Popen(
        cmd,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(folder),
        start_new_session=True,
    ) as p:
        try:
            text, _ = p.communicate(timeout=limit)
        except BaseException as e:
            # g++ is a driver, so its children must end too.
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            if isinstance(e, subprocess.TimeoutExpired):
                raise AutofuseError.of(
                    "AF5002",
                    f"compiling {name} took more than {limit} s",
                    hint=f"raise {knobs.COMPILE_TIMEOUT.name}",
                ) from None
            raise
    if p.returncode != 0:
        raise CompilerFailedError(cmd, text, p.returncode)
    if not (folder / result).is_file():
        raise AutofuseError.of(
            "AF5001",
            f"{cmd[0]} reported success for {name}, but wrote no file",
            hint=f"{_GPP_HINT}, or name one with {knobs.CXX.name}",
            notes=text.strip().splitlines()[-_SHOWN_ERRORS:],
        )


#: Compiler messages that mean exhausted resources rather than wrong code.
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system")
_NO_MEMORY = re.compile(
    r"^.*(?:Killed signal terminated|out of memory|virtual memory exhausted|bad_alloc|Cannot allocate memory).*$",
    re.M,
)
_MESSAGE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<col>\d+):)? (?:fatal )?error: (?P<text>.*)$",
    re.M,
)


#: Message on the use of a header's template that does not compile.
_CALLED = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):\d+:   required from", re.M)


def kept_sources(failed: CompilerFailedError, files: Mapping[str, str], key: str) -> Path:
    """Return a folder where a failed command can be repeated: its sources, and the compiler's output.

    Args:
        failed: the command.
        files: its sources: path -> text.
        key: of the entry in the cache.
    """

    def keep(folder: Path) -> None:
        write_files(files, folder)
        log = f"$ {shlex.join(failed.cmd)}\n{failed.text}"
        (folder / "compiler.log").write_text(log, encoding="utf-8")

    return cache_folder.entry("failed", key, "compiler.log", keep)


def _failure(
    failed: CompilerFailedError, files: Mapping[str, str], key: str, name: str
) -> AutofuseError:
    """Return AF5002 with the first errors and a folder to repeat the command, or the error for exhausted resources."""
    text = failed.text
    if m := _NO_ROOM.search(text):
        return cache_folder.unusable(m[0])
    if m := _NO_MEMORY.search(text):
        return AutofuseError.of(
            "AF5002",
            f"not enough memory to compile {name}, or the compiler was killed",
            hint="compile fewer kernels at a time",
            notes=[m[0]],
        )
    kept = kept_sources(failed, files, key)
    errors = list(_MESSAGE.finditer(text))
    notes = []
    for m in errors[:_SHOWN_ERRORS]:
        notes.append(f"{m['file']}:{m['line']}: {m['text']}")
        lines = files.get(m["file"], "").splitlines()
        if 0 < int(m["line"]) <= len(lines):
            notes.append(f"    {lines[int(m['line']) - 1].strip()}")
    if len(errors) > _SHOWN_ERRORS:
        notes.append(f"and {len(errors) - _SHOWN_ERRORS} more errors")
    if not errors:
        notes += text.strip().splitlines()[-_SHOWN_ERRORS:]
    for m in list(_CALLED.finditer(text))[:_SHOWN_ERRORS]:
        if m["file"].startswith(("device/", "host/")):
            notes.append(f"{m['file']}:{m['line']}: called from here")
    notes.append(f"sources and compiler.log: {kept}")
    first = errors[0] if errors else None
    count = f"{counted(len(errors), 'error')}" if errors else f"exit status {failed.status}"
    hint = "generated code should always compile: please report this, with the folder above"
    if knobs.CXXFLAGS.get():
        hint = (
            f"{knobs.CXXFLAGS.name} is set; if compiling fails without it too, please report this"
        )
    return AutofuseError.of(
        "AF5002",
        f"the code generated for {name} does not compile: {count}",
        where=Where(path=first["file"], line=int(first["line"]), column=int(first["col"] or 1))
        if first
        else None,
        hint=hint,
        notes=notes,
    )
