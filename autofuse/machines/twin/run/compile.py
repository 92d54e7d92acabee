"""Compiles generated files into a shared library for the CPU twin: one cached g++ call.

The kernel and its host functions are one translation unit. The parts common to all kernels, headers and the tile
search, are compiled once. A library is looked up by the digest of all its dependencies: files, flags, compiler and the
twin's headers and library.

All of this is in one file because compiler, headers, commands and cache together determine the digest of a library.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from autofuse.base import cache as cache_folder
from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run.compiler import (
    CompilerFailedError,
    Toolchain,
    although_emptied,
    key_of,
    made,
    run_compiler,
    toolchain,
    write_files,
)

__all__ = [
    "FLAGS",
    "QUICK",
    "Toolchain",
    "TwinFiles",
    "command",
    "compile_kernel",
    "compile_split",
    "level",
    "no_operator_package",
    "toolchain",
    "twin_files",
]

FLAGS = (
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-DAUTOFUSE_TWIN",
)
CHECKED = "-DAUTOFUSE_TWIN_CHECKED"
#: Optimisation of a kernel that runs often, and of one that is verified: verification spends most of its time in g++,
#: and kernels run as fast either way because the twin's library does their computations.
DEFAULT, QUICK = "-O1", "-O0"
#: Flags for g++ to check calls in register functions (``reg_types.h``), and the chips that have such functions.
_CALLS = ("-fgnu-tm", "-DAUTOFUSE_TWIN_CALLS", "-O0", "-w", "-S")
_ON_REGISTERS = "-D__NPU_ARCH__=3510"
UNIT = "unit.cpp"
OBJECT = "unit.o"
PRELUDE = "prelude.h"
#: The header of the tile search, the macro for only declaring it, and the unit that defines it.
_SOLVER, _APART = "autofuse_tiling.h", "AUTOFUSE_SOLVER_APART"
_SOLVER_UNIT = f'#define AUTOFUSE_SOLVER_HERE\n#include "{_SOLVER}"\n'
_SEARCH = (_SOLVER, "autofuse_math.h", "autofuse_status.h")
_CODE = (".cpp", ".h", ".inc")
_ARCH = re.compile(r"dav-([0-9]{4})")
#: Headers of the twin that every generated kernel and launcher includes.
_TWIN_HEADERS = ("kernel_operator.h", "autofuse_twin/launch.h")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,240}")
_OPT = re.compile(r"-O[0-3sg]|-Ofast")
#: Lines of a kernel file above which g++ runs without inlining and optimisations across calls.
_LONG_KERNEL = 1_500
#: A failing call unwinds a kernel, which neither catches nor cleans up, so only unwind tables are needed.
_ONLY_PASSES = ("-fno-exceptions", "-fasynchronous-unwind-tables")
#: Disables passes that are slow in a function of thousands of calls and gain nothing there.
_ONLY_CALLS = (
    "-fno-inline",
    "-fno-gcse",
    "-fno-tree-pre",
    "-fno-code-hoisting",
    "-fno-expensive-optimizations",
    "-fno-schedule-insns2",
    "-fno-tree-slp-vectorize",
)


@dataclass(frozen=True, slots=True)
class TwinFiles:
    """Files of the twin: header folders in search order, and the library."""

    include: tuple[Path, ...]
    library: Path
    digest: str


@lru_cache(maxsize=1)
def twin_files() -> TwinFiles:
    """Return the twin's headers and library: from the installed package, or from a checkout linked to it.

    Raises:
        AutofuseError: AF5001, they are missing.
    """
    bases = _package_folders()
    headers = next(
        (
            tuple(p for p in (d / "autofuse_twin", d) if p.is_dir())
            for d in bases
            if (d / "autofuse_twin" / "kernel_operator.h").is_file()
        ),
        None,
    )
    library = next(
        (d / "libautofuse_twin.so" for d in bases if (d / "libautofuse_twin.so").is_file()), None
    )
    if headers is None or library is None:
        missing = "headers" if headers is None else "library libautofuse_twin.so"
        raise AutofuseError.of(
            "AF5001",
            f"the {missing} of the CPU twin cannot be found",
            hint="reinstall autofuse; in a checkout: pip install -e .",
            notes=[f"searched: {d}" for d in bases],
        )
    h = hashlib.sha256()
    for f in (*sorted(headers[0].rglob("*.h")), library):
        h.update(f.name.encode() + b"\0" + hashlib.sha256(f.read_bytes()).digest())
    return TwinFiles(headers, library, h.hexdigest())


def _package_folders() -> list[Path]:
    """Return folders that may hold headers or the library, best first."""
    homes: list[Path] = []
    spec = importlib.util.find_spec("autofuse._twin")
    if spec is not None and spec.origin:
        homes.append(Path(spec.origin).resolve().parent)
    package = Path(__file__).resolve().parents[3]
    homes.append(package)
    out = [d for h in homes for d in (h / "include", h / "lib", h)]
    checkout = package.parent
    if (checkout / "runtime" / "include").is_dir():
        out.append(checkout / "runtime" / "include")
        out += sorted(p.parent for p in checkout.glob("build/**/libautofuse_twin.so"))
    return out


def compile_kernel(
    files: Mapping[str, str],
    name: str,
    *,
    cache: bool = True,
    opt: str | None = None,
    checked: bool = False,
) -> Path:
    """Compile generated files into a shared library for the twin.

    Args:
        files: path inside the output folder -> text; every ``.cpp`` under ``device/`` and ``host/``
            is compiled.
        name: name of the graph.
        cache: take the library from the cache if possible.
        opt: ``-O0`` to ``-O3``; None: ``level()``.  With ``AUTOFUSE_DEBUG=1`` it is ``-O0 -g``.
        checked: compile for checked mode: calls record their line, and scalar accesses are checked.

    Returns:
        The library, in a cache entry together with its sources.

    Raises:
        AutofuseError: AF5001 no compiler, AF5002 the code does not compile (its notes name the kept
            sources), AF5007 the files are an operator package.
        ValueError: a name that is not a legal path, or an unknown optimisation level.
    """
    opt = opt or level()
    _check(files, name, opt)
    no_operator_package(files, name)
    if not _sources(files):
        raise ValueError("there is no .cpp file under device/ or host/")
    twin, cxx = twin_files(), toolchain()
    texts = {**_code(files), UNIT: _unit(files)}
    library = f"{name}.so"
    flags = (*_flags(opt, checked), *_architecture(files, name))
    cmd = _in_time(command(library, cxx, twin, flags), texts, opt, cxx)
    key = key_of(texts, cmd, cxx, twin.digest)
    if not cache:
        path = cache_folder.root() / "kernels" / key
        with cache_folder.lock(key):
            shutil.rmtree(path, ignore_errors=True)

    def make() -> Path:
        if (known := cache_folder.lookup("kernels", key, library, _read_later(texts))) is not None:
            return known / library
        call, linked = _in_common(cmd, texts, cxx, twin)
        few, later = _few_libraries(cxx), _read_later(texts)
        looked = _looked(later, flags, cxx, twin)
        return made(texts, [*call, *linked], key, library, name, few, later, looked)

    return although_emptied(make)


def no_operator_package(files: Mapping[str, str], name: str) -> None:
    """Refuse the files of an operator package, whose kernel only CANN can launch.

    Args:
        files: path inside the output folder -> text.
        name: name of the graph, for the message.

    Raises:
        AutofuseError: AF5007, they were built with ``--entry op-package``.
    """
    if not _sources(files) and any(p.startswith("op_kernel/") for p in files):
        raise AutofuseError.of(
            "AF5007",
            f"{name} is an operator package, whose kernel is launched through aclnn rather than its own function",
            hint="build the graph with --entry launch for a kernel that runs here",
        )


def compile_split(
    files: Mapping[str, str],
    name: str,
    parts: Mapping[str, tuple[Mapping[str, str], str]],
    *,
    opt: str | None = None,
) -> Path:
    """Compile a graph that runs as several kernels into one shared library for the twin.

    The driver and every kernel are one translation unit each, compiled in parallel and cached separately.

    Args:
        files: path inside the output folder -> text; files under ``device/`` and ``host/`` are compiled.
        name: name of the graph.
        parts: for every kernel, by name, the files of its folder, and the text of its translation unit.
        opt: as for :func:`compile_kernel`.

    Returns:
        The library, as :func:`compile_kernel`.

    Raises:
        AutofuseError: AF5001 no compiler, AF5002 the code does not compile.
        ValueError: a name that is not a legal path, or an unknown optimisation level.
    """
    twin, cxx, opt = twin_files(), toolchain(), opt or level()
    flags = tuple(f for f in _flags(opt, checked=False) if f != "-shared")
    plain = [*command(OBJECT, cxx, twin, (*flags, "-c"), link=False)]
    units = {name: (files, _unit(files)), **parts}
    jobs: list[tuple[str, dict[str, str], list[str], str]] = []
    for unit, (own, text) in units.items():
        _check(own, unit, opt)
        texts = {**_code(own), UNIT: text}
        cmd = _in_time([plain[0], *_architecture(own, unit), *plain[1:]], texts, opt, cxx)
        jobs.append((unit, texts, cmd, key_of(texts, cmd, cxx, twin.digest)))

    library = f"{name}.so"
    link, libraries = [cxx.path, "-shared", "-o", library], _libraries(twin)
    # Use the units' keys, not the paths of their objects: the keys identify the contents.
    key = key_of({}, [*link, *libraries, *(j[-1] for j in jobs)], cxx, twin.digest)
    known = cache_folder.lookup("kernels", key, library)
    if known is not None:
        return known / library

    def compiled(job: tuple[str, dict[str, str], list[str], str]) -> tuple[str, list[str]]:
        unit, texts, cmd, key = job
        call, linked = _in_common(cmd, texts, cxx, twin)
        later = _read_later(texts)
        looked = _looked(later, cmd, cxx, twin)
        return str(made(texts, call, key, OBJECT, unit, later=later, looked=looked)), linked

    def make() -> Path:
        with ThreadPoolExecutor(max_workers=min(len(jobs), os.cpu_count() or 1)) as pool:
            units_made = list(pool.map(compiled, jobs))
        objects = dict.fromkeys(path for own, linked in units_made for path in (own, *linked))
        return made({}, [*link, *objects, *libraries], key, library, name, _few_libraries(cxx))

    return although_emptied(make)


def _looked(
    kernels: Sequence[str], flags: Sequence[str], cxx: Toolchain, twin: TwinFiles
) -> tuple[str, ...]:
    """Return a compiler call that refuses register functions with calls that the chip lacks there."""
    if _ON_REGISTERS not in flags or not cxx.is_gcc or not kernels:
        return ()
    includes = [f"-I{p}" for p in (Path(), Path("include"), *twin.include)]
    own = ("-std=c++17", "-DAUTOFUSE_TWIN", _ON_REGISTERS)
    return (cxx.path, *own, *_CALLS, *includes, *kernels, "-o", "calls.s")


def _read_later(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sources that locate calls, see ``KernelText``."""
    return tuple(p for p in sorted(texts) if p.startswith("device/") and p.endswith(".cpp"))


def level(default: str = DEFAULT) -> str:
    """Return the knob's optimisation level, or else ``default``."""
    asked = knobs.OPT.get()
    return f"-O{asked}" if asked else default


def _in_time(cmd: list[str], texts: Mapping[str, str], opt: str, cxx: Toolchain) -> list[str]:
    """Return the compiler call without slow g++ passes that gain nothing.

    A failing call leaves a kernel by an exception that only the twin's library catches, and the library forgets the
    kernel's objects; without code to destroy them a call no longer ends a basic block.

    A kernel is scalars and calls into the twin's library, which points-to analysis does not speed up. Points-to
    analysis and the passes after inlining take superlinear time in the length of a function, and a long kernel is one
    function; there calls are not inlined, which costs nanoseconds each. Between opaque calls there is also little to
    schedule, vectorise or hoist.
    """
    if knobs.DEBUG.get() or not cxx.is_gcc:
        return cmd
    flags = list(_ONLY_PASSES)
    if opt != QUICK:
        lines = sum(t.count("\n") for p, t in texts.items() if p.startswith("device/"))
        flags += ["-fno-tree-pta", *(_ONLY_CALLS if lines > _LONG_KERNEL else ())]
    return [cmd[0], *flags, *cmd[1:]]


def _in_common(
    cmd: list[str], texts: Mapping[str, str], cxx: Toolchain, twin: TwinFiles
) -> tuple[list[str], list[str]]:
    """Return the compiler call, using precompiled common parts if possible, and the objects to link.

    Headers and the tile search dominate the compile time of a small kernel, and many kernels are compiled in sequence.
    The resulting library is equivalent, so its key does not depend on this.
    """
    # The user's flags may include a file, which would be read twice.
    if knobs.DEBUG.get() or knobs.CXXFLAGS.get() or not cxx.is_gcc:
        return cmd, []
    headers = {p: t for p, t in texts.items() if p.startswith("include/") and p.endswith(".h")}
    try:
        linked = _shared_search(headers, cxx, twin)
        prelude = _prelude(cmd, headers, cxx, twin, apart=bool(linked))
    except CompilerFailedError:
        # Some headers need earlier includes of a kernel; compiling the kernel itself reports any error.
        return cmd, []
    return [cmd[0], "-include", str(prelude), *cmd[1:]], linked


def _shared_search(headers: Mapping[str, str], cxx: Toolchain, twin: TwinFiles) -> list[str]:
    """Return an object with the tile search; none if no header has it.

    It is not optimised: a search takes microseconds either way. RTTI is disabled, since it would need the C++ library.
    """
    if f"include/{_SOLVER}" not in headers:
        return []
    # Headers of device functions differ between kernels.
    needed = {p: t for p, t in headers.items() if p.removeprefix("include/") in _SEARCH}
    files = {**needed, UNIT: _SOLVER_UNIT}
    flags = [f for f in FLAGS if f != "-shared"]
    cmd = command(OBJECT, cxx, twin, (*flags, QUICK, "-fno-rtti", "-w", "-c"), link=False)
    return [str(_entry_in_common(files, cmd, OBJECT, cxx, twin))]


def _prelude(
    cmd: Sequence[str], headers: Mapping[str, str], cxx: Toolchain, twin: TwinFiles, *, apart: bool
) -> Path:
    """Return a header that includes the common headers, with its precompiled form for a call beside it.

    Args:
        cmd: the call.
        headers: texts by path.
        cxx: the compiler.
        twin: the twin with its headers.
        apart: the tile search is a separate object.
    """
    names = (*_TWIN_HEADERS, *(p.removeprefix("include/") for p in sorted(headers)))
    lines = [f"#define {_APART}"] if apart else []
    lines += [f'#include "{name}"' for name in names]
    files = {**headers, PRELUDE: "\n".join([*lines, ""])}
    compiled = f"{PRELUDE}.gch"
    # Warnings about headers alone, such as unused functions, are irrelevant.
    flags = [word for word in cmd[: cmd.index("-o")] if word not in ("-shared", "-c")]
    make = [*flags, "-w", "-x", "c++-header", "-o", compiled, PRELUDE]
    return _entry_in_common(files, make, compiled, cxx, twin).with_name(PRELUDE)


def _entry_in_common(
    files: Mapping[str, str], cmd: list[str], result: str, cxx: Toolchain, twin: TwinFiles
) -> Path:
    """Return the result of a compiler call shared by many kernels, from the cache if possible."""

    def fill(folder: Path) -> None:
        write_files(files, folder)
        run_compiler(cmd, folder, result, result)

    return (
        cache_folder.entry("headers", key_of(files, cmd, cxx, twin.digest), result, fill) / result
    )


def _flags(opt: str, checked: bool) -> tuple[str, ...]:
    macros = (CHECKED,) if checked else ()
    return (
        *FLAGS,
        *macros,
        *(("-O0", "-g") if knobs.DEBUG.get() else (opt,)),
        *knobs.CXXFLAGS.get(),
    )


def _architecture(files: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the macro that a chip's compiler defines, with the architecture number in the kernel's metadata."""
    try:
        about = json.loads(files.get(f"{name}.json", "{}"))
    except ValueError:
        return ()
    found = _ARCH.fullmatch(str(about.get("npuArch"))) if isinstance(about, dict) else None
    return (f"-D__NPU_ARCH__={found[1]}",) if found else ()


def _code(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a kernel that a compiler may read; parts are kernels of their own."""
    return {
        p: text
        for p, text in files.items()
        if PurePosixPath(p).suffix in _CODE and not p.startswith("parts/")
    }


def command(
    result: str, cxx: Toolchain, twin: TwinFiles, flags: Sequence[str], *, link: bool = True
) -> list[str]:
    """Return the compiler call, to be executed in the folder of the sources."""
    includes = [
        f"-I{p}" for p in (Path(), Path("include"), Path("device"), Path("host"), *twin.include)
    ]
    libraries = _libraries(twin) if link else []
    return [cxx.path, *flags, *includes, "-o", result, UNIT, *libraries]


def _libraries(twin: TwinFiles) -> list[str]:
    lib = twin.library
    # defs: a missing function of the twin is an error here and not at load time.
    # Bsymbolic: a kernel called `div` calls itself, not the function of the C library.
    return ["-Wl,-z,defs", "-Wl,-Bsymbolic", str(lib), f"-Wl,-rpath,{lib.parent}"]


def _few_libraries(cxx: Toolchain) -> tuple[str, ...]:
    """Return flags that link without the C++ library: the twin has loaded everything that a kernel needs of it.

    Resolving its symbols takes the linker longer than everything else.
    """
    if knobs.DEBUG.get() or knobs.CXXFLAGS.get() or not cxx.is_gcc:
        return ()
    return ("-nodefaultlibs", "-lgcc", "-lc")


def _check(files: Mapping[str, str], name: str, opt: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of a kernel")
    if not _OPT.fullmatch(opt):
        raise ValueError(f"{opt!r} is not an optimisation level")
    for path in files:
        if not all(_PART.fullmatch(p) for p in path.split("/")) or path == UNIT:
            raise ValueError(f"{path!r} is not a path inside the output folder")


def _sources(files: Mapping[str, str]) -> list[str]:
    """Return the files to compile: the kernel first, then the host files by name."""
    found = [
        p
        for p in sorted(files)
        if p.endswith(".cpp") and PurePosixPath(p).parts[0] in ("device", "host")
    ]
    return sorted(found, key=lambda p: not p.startswith("device/"))


def _unit(files: Mapping[str, str]) -> str:
    return "".join(f'#include "{p}"\n' for p in _sources(files))
