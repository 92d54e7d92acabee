"""CANN's interface to compile the output of an Autofuser: three C++ texts into a shared library.

Without CANN, or if the client passes ``cpu`` as the chip, the library runs on the CPU twin: ``AutofuseLaunch`` takes
host pointers, and the generated Ascend C computes on them.  If ASCEND_HOME_PATH contains bisheng, the library is for
the chip.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from autofuse.base.cache import write_atomic
from autofuse.base.cann import PRESET, PRESET_COMMANDS, first_failure
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.clients.cann.pyautofuse.bundle import unpack
from autofuse.codegen.backends.ascendc.host.driver import part_folder, part_unit
from autofuse.machines.npu.cann import bisheng
from autofuse.machines.twin.run.compile import compile_kernel, compile_split

__all__ = ["host_compile", "jit_compile", "kernel_compile", "pgo_get_top_result"]

#: Options of CANN's compiler that have no effect here: they name folders and checks of its own build.
_KNOWN = ("graph_name", "output_path", "force_unknown", "config_file", "soc_version")


def jit_compile(tiling_def: str, host_tiling: str, op_kernel: str, argv: Sequence[str]) -> None:
    """Compile a kernel with its host functions into one library.

    Args:
        tiling_def: ``struct AutofuseTilingData``.
        host_tiling: the host code.
        op_kernel: the device code; all three as returned by ``Autofuser.codegen``.
        argv: ``--output_file=PATH`` (or ``--output_path=FOLDER``, for ``kernel.so`` in it), ``--soc_version=cpu`` for
            the twin even if CANN is installed; ``--graph_name``, ``--force_unknown`` and ``--config_file=None`` as
            for CANN's compiler.

    Raises:
        AutofuseError: AF5001 no compiler, AF5002 the code does not compile, AF5005 the library cannot be written,
            AF5007 an argument is wrong.
    """
    _compile(tiling_def, (host_tiling, op_kernel), argv, "kernel.so")


def host_compile(tiling_def_code: str, tiling_impl_code: str, argv: Sequence[str]) -> None:
    """Compile only the host functions: ``AutofuseTiling``, ``InferShape`` and related ones; see :func:`jit_compile`.

    Args:
        tiling_def_code: as ``tiling_def`` there.
        tiling_impl_code: as ``host_tiling`` there.
        argv: as there.
    """
    _compile(tiling_def_code, (tiling_impl_code,), argv, "host.so")


def kernel_compile(
    tiling_def_code: str,
    kernel_impl_code: str,
    argv: Sequence[str],
    *,
    tiling_repr: str | None = None,
) -> None:
    """Compile only the kernel and its launcher ``AutofuseLaunch``; see :func:`jit_compile`.

    Args:
        tiling_def_code: as ``tiling_def`` there.
        kernel_impl_code: as ``op_kernel`` there.
        argv: as there.
        tiling_repr: tiling data as constants of the kernel; not supported.
    """
    if tiling_repr is not None:
        raise AutofuseError.of(
            "AF1301",
            "kernel_compile(tiling_repr=...) is not supported",
            hint="pass tiling data to AutofuseLaunch",
        )
    _compile(tiling_def_code, (kernel_impl_code,), argv, "kernel.so")


def pgo_get_top_result(*args: object, **kwargs: object) -> NoReturn:
    """Refuse to return the best of the tilings measured on the chip.

    Raises:
        AutofuseError: AF1301, always.
    """
    raise AutofuseError.of("AF1301", "pgo_get_top_result is not supported: nothing is measured")


def _compile(tiling_def: str, texts: Sequence[str], argv: Sequence[str], default: str) -> None:
    if not all(isinstance(t, str) for t in (tiling_def, *texts)):
        raise AutofuseError.of(
            "AF5007", "the code is not text", hint="pass the result of Autofuser.codegen"
        )
    wanted = _arguments(argv)
    files, name = unpack(tiling_def, *texts)
    target = Path(wanted.output_file or Path(wanted.output_path or ".") / default)
    with tempfile.TemporaryDirectory(prefix="autofuse-") as scratch:
        if wanted.soc_version == "cpu" or bisheng() is None:
            library = _on_twin(files, name)
        else:
            library = _on_chip(files, name, Path(scratch))
        _place(library, target)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="jit_compile", add_help=False, allow_abbrev=False)
    parser.add_argument("--output_file")
    for name in _KNOWN:
        parser.add_argument(f"--{name}")
    parser.add_argument("--compile_options")
    if isinstance(argv, str) or not isinstance(argv, Sequence):
        text = f"jit_compile: argv is {argv!r}, not a list of strings"
        raise AutofuseError.of("AF5007", text, hint='["--output_file=PATH", "--soc_version=cpu"]')
    found = parser.parse_args([str(a) for a in argv])
    if found.compile_options:
        text = f"--compile_options={found.compile_options} is not supported"
        raise AutofuseError.of("AF5007", text, hint="set flags for the twin in AUTOFUSE_CXXFLAGS")
    if found.config_file not in (None, "", "None"):
        text = f"--config_file={found.config_file} is not supported"
        raise AutofuseError.of("AF5007", text, hint="leave it out, or pass None")
    return found


class _Parser(argparse.ArgumentParser):
    """Argument parser that reports errors as diagnostics."""

    def error(self, message: str) -> NoReturn:
        """Raise AF5007."""
        raise AutofuseError.of(
            "AF5007", f"jit_compile: {message}", hint="--output_file=PATH --soc_version=cpu"
        )


def _on_twin(files: Mapping[str, str], name: str) -> Path:
    parts = sorted({p.split("/")[1] for p in files if p.startswith("parts/")})
    if not parts:
        return compile_kernel(files, name)
    units: dict[str, tuple[Mapping[str, str], str]] = {}
    for part in parts:
        prefix = f"{part_folder(part)}/"
        own = {p.removeprefix(prefix): t for p, t in files.items() if p.startswith(prefix)}
        shared = {p: t for p, t in files.items() if p.startswith("include/")}
        sources = sorted(
            (p for p in own if p.endswith(".cpp")), key=lambda p: (not p.startswith("device/"), p)
        )
        units[part] = ({**shared, **own}, part_unit(part, sources))
    return compile_split(files, name, units)


def _on_chip(files: Mapping[str, str], name: str, folder: Path) -> Path:
    """Configure and build the CMake project of the files with its preset for the chip."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    failure = first_failure(PRESET_COMMANDS, folder)
    if failure is not None:
        raise AutofuseError.of(
            "AF5002",
            f"compiling {name} with CANN: `{failure.command}` failed: {failure.why}",
            hint="--soc_version=cpu compiles for the CPU twin",
            notes=failure.lines,
        )
    return folder / "build" / PRESET / f"lib{name}.so"


def _place(library: Path, target: Path) -> None:
    """Copy the library to the client's path atomically."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, library.read_bytes())
        target.chmod(0o755)
    except (OSError, ValueError) as e:
        raise AutofuseError.of(
            "AF5005",
            f"the library cannot be written: {getattr(e, 'strerror', None) or e}",
            where=Where(path=str(target)),
            hint="--output_file=PATH",
        ) from None
