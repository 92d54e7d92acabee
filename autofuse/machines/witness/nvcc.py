"""Compiles the device code of an Ascend C kernel into a binary for a card: one cached nvcc call.

Only the kernel is compiled here; the CPU twin's library has its host functions.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from autofuse.base import cache, knobs, programs
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.visible import visible
from autofuse.machines.twin.run.compiler import (
    CompilerFailedError,
    Toolchain,
    kept_sources,
    key_of,
    run_compiler,
    write_files,
)

__all__ = [
    "CAPABILITY",
    "ENTRY",
    "THREADS",
    "Headers",
    "command",
    "compile_for_card",
    "find_nvcc",
    "headers",
    "source_digest",
    "unit",
]

#: The launched function, and the threads of its blocks (``core.h``: pipe V, MTE2, MTE3).
ENTRY, THREADS = "autofuse_cuda_entry", 16 * 32
#: Default capability: Hopper, the first whose blocks may have enough shared memory.
CAPABILITY = 90
#: Default folder of a toolkit that is not in PATH.
_USUAL = "/usr/local/cuda/bin/nvcc"
#: Multiplications and additions are not fused, as on the twin, so results can be compared bit by bit.
_FLAGS = (
    "-std=c++17",
    "-cubin",
    "-fmad=false",
    "--expt-relaxed-constexpr",
    "-w",
    "-Xcicc=-O1",
    "-Xptxas=-O1",
)
_UNIT, _RESULT = "unit.cu", "kernel.cubin"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,240}")
_ERROR = re.compile(r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): error: ?(?P<text>.*)$", re.M)
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Headers:
    """Header folders in search order, and a digest of their contents."""

    include: tuple[Path, ...]
    digest: str


@lru_cache(maxsize=1)
def headers() -> Headers:
    """Return the headers for a card, and the twin's headers that they share.

    Raises:
        AutofuseError: AF5001, they are missing.
    """
    package = Path(__file__).resolve().parents[2]
    runtime = package.parent / "runtime"
    candidates = [(runtime / "cuda", runtime / "include")]
    spec = importlib.util.find_spec("autofuse._twin")
    homes = [package, *([Path(spec.origin).resolve().parent] if spec and spec.origin else [])]
    candidates += [(h / "include", h / "include") for h in homes]
    for own, shared in candidates:
        if (own / "autofuse_cuda" / "kernel_operator.h").is_file() and (
            shared / "autofuse_twin" / "enums.h"
        ).is_file():
            h = hashlib.sha256()
            for f in (
                *sorted((own / "autofuse_cuda").rglob("*.h")),
                *sorted((shared / "autofuse_twin").rglob("*.h")),
            ):
                h.update(f.name.encode() + b"\0" + hashlib.sha256(f.read_bytes()).digest())
            return Headers((own / "autofuse_cuda", own, shared), h.hexdigest())
    raise AutofuseError.of(
        "AF5001",
        "the headers for kernels on a card cannot be found",
        hint="reinstall autofuse",
        notes=[f"searched: {own}" for own, _ in candidates],
    )


def _installed() -> str | None:
    """Return the compiler of NVIDIA's Python packages, from the newest toolkit."""
    spec = importlib.util.find_spec("nvidia")
    homes = [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]
    found = sorted(p for h in homes for p in h.glob("cu[0-9]*/bin/nvcc"))
    return programs.program(str(found[-1])) if found else None


@lru_cache(maxsize=4)
def _nvcc_at(name: str) -> Toolchain:
    path = programs.program(name)
    if path is None and name == knobs.NVCC.default:
        path = programs.program(_USUAL) or _installed()
    hint = (
        f"pip install 'ascend-autofuse[witness]', or the CUDA toolkit, 12.4 or later; {knobs.NVCC.name} names its "
        "compiler"
    )
    if path is None:
        raise AutofuseError.of(
            "AF5001", f"kernels for a card need nvcc; there is no {visible(name)!r}", hint=hint
        )
    try:
        got = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=True,
            cwd=Path(path).parent,
            env=programs.environment(LC_ALL="C"),
        )
    except (OSError, subprocess.SubprocessError) as e:
        raise AutofuseError.of(
            "AF5001", f"{path} --version fails: {visible(str(e))}", hint=hint
        ) from e
    said = [line for line in got.stdout.splitlines() if "release" in line]
    return Toolchain(path, said[0] if said else "unknown")


def find_nvcc() -> Toolchain:
    """Return the compiler that the knob names, or nvcc from PATH, the default folder, or a package.

    Raises:
        AutofuseError: AF5001, it is missing, or cannot be executed.
    """
    return _nvcc_at(knobs.NVCC.get())


def unit(name: str) -> str:
    """Return the translation unit: the unchanged kernel, followed by the launched function.

    Args:
        name: name of the kernel's function.

    Raises:
        ValueError: it is not a legal name.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of a kernel")
    return (
        f'#include "device/{name}_kernel.cpp"\n#include "autofuse_cuda/entry.h"\n'
        f"AUTOFUSE_CUDA_ENTRY({name})\n"
    )


def command(nvcc: str, include: Sequence[Path | str], capability: int) -> list[str]:
    """Return the nvcc call, to be executed in the folder of the sources."""
    folders = [f"-I{p}" for p in (".", "include", *include)]
    return [nvcc, *_FLAGS, f"-arch=sm_{capability}", *folders, "-o", _RESULT, _UNIT]


def compile_for_card(files: Mapping[str, str], name: str, capability: int = CAPABILITY) -> bytes:
    """Compile the device code of generated files.

    Args:
        files: path inside the output folder -> text.
        name: name of the graph.
        capability: capability of the card, such as ``90``.

    Returns:
        The binary.

    Raises:
        AutofuseError: AF5001 no nvcc, AF5002 the code does not compile.
    """
    nvcc, own, texts = find_nvcc(), headers(), _sources(files, name)
    cmd = command(nvcc.path, own.include, capability)
    key = key_of(texts, cmd, nvcc, own.digest)

    def make(folder: Path) -> None:
        write_files(texts, folder)
        run_compiler(cmd, folder, name, _RESULT)

    try:
        return (cache.entry("kernels", key, _RESULT, make) / _RESULT).read_bytes()
    except CompilerFailedError as e:
        raise _refused(e, texts, key, name) from None


def source_digest(files: Mapping[str, str], name: str, capability: int = CAPABILITY) -> str:
    """Return a digest of all that determines the binary for one compiler: sources, headers, options.

    Args:
        files: as for :func:`compile_for_card`.
        name: as there.
        capability: as there.
    """
    h = hashlib.sha256(shlex.join([*_FLAGS, str(capability), headers().digest]).encode())
    for path, text in sorted(_sources(files, name).items()):
        h.update(path.encode() + b"\0" + hashlib.sha256(text.encode()).digest())
    return h.hexdigest()


def _sources(files: Mapping[str, str], name: str) -> dict[str, str]:
    return {p: t for p, t in files.items() if _is_device_code(p)} | {_UNIT: unit(name)}


def _is_device_code(path: str) -> bool:
    """Return True if nvcc reads a file: the kernel and headers, but not those of parts."""
    if PurePosixPath(path).suffix not in (".cpp", ".h", ".inc"):
        return False
    parts = path.split("/")
    if not all(_PART.fullmatch(p) for p in parts):
        raise ValueError(f"{path!r} is not a path inside the output folder")
    return len(parts) == 1 or parts[0] in ("device", "include")


def _refused(
    failed: CompilerFailedError, texts: Mapping[str, str], key: str, name: str
) -> AutofuseError:
    """Return AF5002 with the first errors, and a folder where the command can be repeated."""
    kept = kept_sources(failed, texts, key)
    errors = [
        f"{m['file']}:{m['line']}: {visible(m['text'])}" for m in _ERROR.finditer(failed.text)
    ]
    shown = errors[:_SHOWN] or [visible(x) for x in failed.text.strip().splitlines()[-_SHOWN:]]
    return AutofuseError.of(
        "AF5002",
        f"nvcc rejects the code generated for {name} (exit status {failed.status})",
        hint="a call missing from the headers for a card is a bug in autofuse: please report it, with the folder above",
        notes=[*shown, f"sources and compiler.log: {kept}"],
    )
