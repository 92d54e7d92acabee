"""What a folder needs for operator packages: the interfaces of op_host, the functions of CMake, aclnn."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["add_operators"]

HERE = Path(__file__).resolve().parent
#: Where CANN has its CMake functions.
_MODULES = "compiler/tikcpp/ascendc_kernel_cmake"


def add_operators(folder: Path, cxx: str, include: Sequence[str]) -> None:
    """Add them to a fake that has its headers and ``libascendcl.so``.

    Args:
        folder: of the fake.
        cxx: the compiler.
        include: folders with the headers of the twin.

    Raises:
        ValueError: the library does not compile.
    """
    modules = folder / _MODULES
    modules.mkdir(parents=True, exist_ok=True)
    for file in (*sorted((HERE / "cmake").iterdir()), HERE / "src" / "op_build.cpp"):
        shutil.copyfile(file, modules / file.name)
    library, source = folder / "lib64" / "libnnopbase.so", HERE / "src" / "nnopbase.cpp"
    headers = sorted((HERE / "include").rglob("*.h"))
    if library.is_file() and all(
        p.stat().st_mtime < library.stat().st_mtime for p in (source, *headers)
    ):
        return  # nothing in it depends on what the fake is like
    command = [cxx, "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{HERE / 'include'}", *(f"-isystem{p}" for p in include)]
    command += ["-o", str(library), str(source)]
    command += ["-Wl,-soname,libnnopbase.so", str(folder / "lib64" / "libascendcl.so"), "-ldl"]
    command += [f"-Wl,-rpath,{folder / 'lib64'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"the fake of aclnn does not compile:\n{done.stderr}")
