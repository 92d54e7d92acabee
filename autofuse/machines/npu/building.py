"""Compiles generated files into a shared library for a chip: host code with the C++ compiler, the kernel with bisheng.

A library is cached under the digest of all its dependencies: files, commands, both compilers.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from posixpath import normpath

from autofuse.base import cache, programs
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.visible import visible
from autofuse.codegen.backends.ascendc.host.driver import part_folder, part_unit
from autofuse.machines.npu.cann import Cann
from autofuse.machines.twin.run.compiler import (
    CompilerFailedError,
    kept_sources,
    key_of,
    run_compiler,
    toolchain,
    write_files,
)

__all__ = ["bisheng_version", "compile_for_chip"]

#: Translation units of a kernel: its code for the host, and its launcher with the kernel.
_HOST, _DEVICE = "host_unit", "device_unit"
_HOST_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-ffp-contract=off", "-w")
_DEVICE_FLAGS = ("-std=c++17", "-O2", "-fPIC")
_FOLDERS = ("-I.", "-Iinclude", "-Idevice", "-Ihost")
_LAUNCH = re.compile(r"host/(?P<name>[A-Za-z_][A-Za-z0-9_]*)_launch\.cpp")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,240}")
_ARCH = re.compile(r"dav-[0-9a-z]{1,16}")
_CODE = (".cpp", ".h", ".inc")
_ERROR = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: ", re.M
)
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class _Step:
    """A command, its working directory, and the file that it must produce there."""

    folder: str
    words: tuple[str, ...]
    result: str


def compile_for_chip(
    files: Mapping[str, str], name: str, npu_arch: str, cann: Cann, parts: Sequence[str] = ()
) -> Path:
    """Compile generated files into a shared library for a chip.

    Args:
        files: path inside the output folder -> text; the launcher ``host/<name>_launch.cpp`` includes the kernel; the
            other ``.cpp`` files under ``host/`` are host code only.
        name: name of the graph.
        npu_arch: architecture of the cores, such as ``dav-2201``.
        cann: the installation with the compiler.
        parts: names of the kernels of a graph that runs as several, each with its files under ``parts/<name>``.

    Returns:
        The library, in a cache entry together with its sources.

    Raises:
        AutofuseError: AF5001 no C++ compiler; AF5013 a compiler refuses the files, or takes too long; AF5009 the cache
            folder cannot be used.
        ValueError: an illegal path, an unknown architecture, or no launcher.
    """
    texts = {p: t for p, t in files.items() if _is_code(p)}
    if not _ARCH.fullmatch(npu_arch):
        raise ValueError(f"{npu_arch!r} is not an architecture")
    cxx, library = toolchain(), f"{name}.so"
    device = (str(cann.bisheng), *_DEVICE_FLAGS, f"--npu-arch={npu_arch}")
    steps: list[_Step] = []
    objects: list[str] = []
    for folder, part in (("", name), *((part_folder(p), p) for p in parts)):
        prefix = f"{folder}/" if folder else ""
        launcher = f"host/{part}_launch.cpp"
        if not _LAUNCH.fullmatch(launcher) or (prefix + launcher not in texts and not parts):
            raise ValueError(f"there is no {launcher!r}")
        own = [p.removeprefix(prefix) for p in sorted(texts) if p.startswith(f"{prefix}host/")]
        host = [p for p in own if p.endswith(".cpp") and p != launcher]
        # Symbols with one name in all kernels are renamed in each part.
        unit = partial(part_unit, part) if folder else _unit
        texts[f"{prefix}{_HOST}.cpp"] = unit(host)
        call = (cxx.path, *_HOST_FLAGS, *_FOLDERS, "-c", "-o", f"{_HOST}.o", f"{_HOST}.cpp")
        steps.append(_Step(folder, call, f"{_HOST}.o"))
        objects.append(f"{prefix}{_HOST}.o")
        if prefix + launcher in texts:
            texts[f"{prefix}{_DEVICE}.cpp"] = unit([launcher])
            flags = ("-DAUTOFUSE_KERNEL_IN_LAUNCH", *_FOLDERS, "-c", "-o", f"{_DEVICE}.o")
            steps.append(
                _Step(folder, (*device, *flags, "-x", "asc", f"{_DEVICE}.cpp"), f"{_DEVICE}.o")
            )
            objects.append(f"{prefix}{_DEVICE}.o")
    steps.append(_Step("", (*device, "-shared", "-o", library, *objects), library))
    words = tuple(w for s in steps for w in (s.folder, *s.words))
    digest = f"{bisheng_version(cann.bisheng)}\n{cann.root}\n{cann.release}"
    key = key_of(texts, words, cxx, digest)

    def make(folder: Path) -> None:
        write_files(texts, folder)
        for s in steps:
            run_compiler(list(s.words), folder / s.folder, name, s.result)

    try:
        return cache.entry("kernels", key, library, make) / library
    except CompilerFailedError as e:
        raise _refused(e, texts, key, name) from None
    except AutofuseError as e:
        first = e.diagnostics[0]
        if first.code not in ("AF5001", "AF5002"):
            raise
        raise AutofuseError.of("AF5013", first.message, hint=first.hint, notes=first.notes) from e


def _unit(sources: Sequence[str]) -> str:
    return "".join(f'#include "{p}"\n' for p in sources)


@lru_cache(maxsize=4)
def bisheng_version(path: Path) -> str:
    """Return the first line of the compiler's version text.

    Raises:
        AutofuseError: AF5011, it cannot be executed.
    """
    try:
        done = subprocess.run(
            [str(path), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=True,
            cwd=path.parent,
            env=programs.environment(LC_ALL="C"),
        )
    except (OSError, subprocess.SubprocessError) as e:
        raise AutofuseError.of(
            "AF5011",
            f"bisheng --version fails: {visible(str(e))}",
            where=Where(path=str(path)),
            hint="source set_env.sh of CANN, or reinstall its toolkit",
        ) from e
    return (done.stdout.strip().splitlines() or ["unknown"])[0]


def _is_code(path: str) -> bool:
    """Return True if a compiler may read the file."""
    if PurePosixPath(path).suffix not in _CODE:
        return False
    if not all(_PART.fullmatch(p) for p in path.split("/")):
        raise ValueError(f"{path!r} is not a path inside the output folder")
    return True


def _refused(
    failed: CompilerFailedError, texts: Mapping[str, str], key: str, name: str
) -> AutofuseError:
    """Return AF5013 with the first errors, and a folder where the command can be repeated."""
    kept = kept_sources(failed, texts, key)
    lines = [visible(x) for x in failed.text.splitlines() if x.strip()]
    first = _ERROR.search(failed.text)
    start = next((i for i, x in enumerate(lines) if "error" in x), 0)
    where = (
        Where(
            path=visible(normpath(first["file"])),
            line=int(first["line"]),
            column=int(first["column"] or 1),
        )
        if first
        else Where()
    )
    program = Path(failed.cmd[0]).name
    hint = "generated code should always compile: please report this, with the folder above"
    return AutofuseError.of(
        "AF5013",
        f"{program} rejects {name} (exit status {failed.status})",
        where=where,
        hint=hint,
        notes=[*lines[start : start + _SHOWN], f"sources and compiler.log: {kept}"],
    )
