"""Writer of the folder: compiler, runtime, profiler, ``npu-smi``, and the files that name release and chips."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autofuse.machines.npu.cann import FAKE, VARIABLES
from autofuse.machines.twin.run.compile import TwinFiles, twin_files
from autofuse.machines.twin.run.compiler import Toolchain, key_of, made, toolchain
from autofuse.targets import TargetSpec, load_target
from fake_cann.figures import changed, perturbed, read_figures, text_of
from fake_cann.operators import add_operators

__all__ = ["FAILURES", "Options", "make"]

HERE = Path(__file__).resolve().parent
LIBRARY = "libascendcl.so"
#: Failures to simulate; those of a kernel take a part of its name.
FAILURES = ("timeout", "wrong", "lost", "oom", "old", "two-chips")
_OF_KERNELS = ("timeout", "wrong", "lost")
RELEASE, OLD_RELEASE = "8.5.0", "8.0.RC3"
_MEMORY, _LITTLE_MEMORY = 64 << 30, 64 << 10
_SECOND = "ascend310p"
#: The order of types and of round modes in the twin (``autofuse_twin/types.h``).
_TYPES = (
    *("uint8", "int8", "uint16", "int16", "float16", "bfloat16"),
    *("uint32", "int32", "float32", "uint64", "int64", "float64"),
)
_MODES = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD", "HYBRID")


@dataclass(frozen=True)
class Options:
    """Properties of a fake.

    Attributes:
        target: the chip that it approximates.
        chips: number of chips.
        seed: seed of the hidden figures and of the noise.
        figures: explicit figures; None for hidden ones.
        noise: relative noise of a time.
        fail: kinds of FAILURES, with ``:PART`` for the kernels whose name has that part.
    """

    target: str = "ascend910b2"
    chips: int = 1
    seed: int = 1
    figures: str | None = None
    noise: float = 0.05
    fail: tuple[str, ...] = ()


def make(folder: Path, options: Options | None = None) -> Path:
    """Write a fake CANN.

    Args:
        folder: created if missing; refused if it contains anything but a fake.
        options: properties of the fake.

    Returns:
        The folder, the value for ASCEND_HOME_PATH.

    Raises:
        ValueError: an option is invalid, or the folder is not empty.
        AutofuseError: there is no such target, no compiler, or no twin.
    """
    options = options or Options()
    failures = [_failure(text) for text in options.fail]
    kinds = {kind for kind, _ in failures}
    folder = folder.absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / FAKE).is_file():
        raise ValueError(f"{folder} holds something else")
    targets = [load_target(options.target)] * max(1, options.chips)
    if "two-chips" in kinds:
        targets = [targets[0], load_target(_SECOND)]
    for name in ("bin", "lib64", "figures", "include"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    release = OLD_RELEASE if "old" in kinds else RELEASE
    twin, cxx = twin_files(), toolchain()
    about = {
        "note": "the fake CANN of autofuse: no time of it is a measurement of a chip",
        "release": release,
        # Compiled kernels depend on this besides their text.
        "digest": _digest(twin),
        "socket": _socket(folder),
        "cxx": cxx.path,
        "twin_include": [str(p) for p in twin.include],
        "twin_library": str(twin.library),
        "fail_old": "old" in kinds,
        "chips": [
            {"soc": t.soc, "clock_mhz": t.clock_mhz, "driver": "25.2.0.fake"} for t in targets
        ],
    }
    _write(folder / FAKE, json.dumps(about, indent=1) + "\n")
    _figures(folder, targets, options)
    _configuration(folder, targets, options, failures, str(about["socket"]))
    _write(
        folder / f"{_machine()}/ascend_toolkit_install.info",
        f"package_name=Ascend-cann-toolkit\nversion={release}\n",
    )
    for header in sorted((HERE / "include").rglob("*.h")):
        _write(folder / header.relative_to(HERE), header.read_text(encoding="utf-8"))
    for file in sorted((HERE / "cmake").iterdir()):
        _write(folder / "lib/cmake/ASC" / file.name, file.read_text(encoding="utf-8"))
    for name, script in (("bisheng", "bisheng"), ("msprof", "msprof"), ("npu-smi", "npu_smi")):
        _program(folder / "bin" / name, HERE / f"{script}.py", folder)
    _library(folder, cxx, twin)
    add_operators(folder, cxx.path, [str(p) for p in twin.include])
    _write(folder / "set_env.sh", _environment(folder))
    return folder


def _failure(text: str) -> tuple[str, str]:
    kind, _, part = text.partition(":")
    if kind not in FAILURES or (part and kind not in _OF_KERNELS) or not part.isprintable():
        raise ValueError(f"--fail takes {', '.join(FAILURES)}, not {text!r}")
    return kind, part or "*"


def _digest(twin: TwinFiles) -> str:
    found = hashlib.sha256(twin.digest.encode())
    for path in (HERE / "bisheng.py", *sorted((HERE / "include").rglob("*.h"))):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _socket(folder: Path) -> str:
    """Return the socket of the pricing process; rewriting a folder does not change it."""
    try:
        known = json.loads((folder / FAKE).read_text(encoding="utf-8"))["socket"]
        return str(known)
    except (OSError, ValueError, KeyError):
        return f"autofuse-fake-cann-{secrets.token_hex(8)}"


def _figures(folder: Path, targets: Sequence[TargetSpec], options: Options) -> None:
    for target in targets:
        if options.figures is None:
            figures = perturbed(target, options.seed)
        else:
            figures = read_figures(options.figures)
            changed(target, figures)
        _write(folder / "figures" / f"{target.name}.toml", text_of(figures))


def _configuration(
    folder: Path,
    targets: Sequence[TargetSpec],
    options: Options,
    failures: Sequence[tuple[str, str]],
    socket: str,
) -> None:
    if not 0.0 <= options.noise < 0.5:
        raise ValueError(f"the noise is a share below 0.5, not {options.noise}")
    memory = _LITTLE_MEMORY if any(kind == "oom" for kind, _ in failures) else _MEMORY
    lines = [
        *(line for t in targets for line in _chip(t, memory)),
        *(f"fail {kind} {part}" for kind, part in failures if kind in _OF_KERNELS),
        f"noise {options.noise!r}",
        f"seed {options.seed}",
        f"socket {socket}",
        f"python {sys.executable}",
        f"script {HERE / 'pricing.py'}",
        f"root {folder}",
    ]
    _write(folder / "lib64" / "ascendcl.conf", "\n".join(lines) + "\n")


def _chip(target: TargetSpec, memory: int) -> tuple[str, ...]:
    """Return a chip, the round modes of its casts as bits by the twin's type numbers, and quirks of its calls."""
    modes = [[0] * len(_TYPES) for _ in _TYPES]
    for source, result, mode in target.arch.modes:
        row = modes[_TYPES.index("uint8" if source == "bool" else source)]
        row[_TYPES.index("uint8" if result == "bool" else result)] |= 1 << _MODES.index(mode)
    numbers = " ".join(str(bits) for row in modes for bits in row)
    return (
        f"chip {target.soc} {target.aiv_cores} {target.l2_bytes} {memory} {target.ub_usable}",
        f"modes {target.arch.name} {numbers}",
        f"lacks {' '.join(sorted(target.arch.lacks))}",
        f"flushes {' '.join(sorted(target.arch.flushes))}",
    )


def _library(folder: Path, cxx: Toolchain, twin: TwinFiles) -> None:
    """Write the runtime, from the cache if it was compiled before."""
    texts = {
        p.relative_to(HERE).as_posix(): p.read_text(encoding="utf-8")
        for part in ("include", "src")
        for p in sorted((HERE / part).rglob("*.*"))
    }
    command = [cxx.path, "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    command += ["-Iinclude", *(f"-isystem{p}" for p in twin.include), "-o", LIBRARY]
    command += [p for p in texts if p.endswith(".cpp")]
    command += [f"-Wl,-soname,{LIBRARY}", "-Wl,-z,defs", str(twin.library)]
    command += [f"-Wl,-rpath,{twin.library.parent}", "-ldl", "-lpthread"]
    made_ = made(texts, command, key_of(texts, command, cxx, twin.digest), LIBRARY, "ascendcl")
    to = folder / "lib64" / LIBRARY
    # Use a new inode: a process may have the old one mapped.
    shutil.copyfile(made_, to.with_suffix(".new"))
    to.with_suffix(".new").replace(to)


def _environment(folder: Path) -> str:
    """Return a shell script that sets those variables of CANN's set_env.sh that are read here."""
    lists = {"PATH": "bin", "LD_LIBRARY_PATH": "lib64"}
    lines = [f"export {name}={_quoted(str(folder))}" for name in VARIABLES]
    lines.append(f"export ASCEND_OPP_PATH={_quoted(str(folder / 'opp'))}")
    for name, part in lists.items():
        lines.append(f'export {name}={_quoted(str(folder / part))}"${{{name}:+:${name}}}"')
    prefix = "CMAKE_PREFIX_PATH"
    lines.append(f'export {prefix}={_quoted(str(folder))}"${{{prefix}:+:${prefix}}}"')
    return "\n".join(lines) + "\n"


def _program(path: Path, script: Path, root: Path) -> None:
    words = " ".join(_quoted(str(w)) for w in (sys.executable, script, root))
    _write(path, f'#!/bin/sh\nexec {words.replace(" ", " -I ", 1)} "$@"\n')
    path.chmod(0o755)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _machine() -> str:
    import platform

    return f"{platform.machine()}-linux"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
