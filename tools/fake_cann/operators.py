"""Files for operator packages in a fake folder: op_host interfaces, CMake functions, aclnn."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["add_operators"]

HERE = Path(__file__).resolve().parent
#: Folder of the fake's CMake modules, and the path where operator projects look for them.
_MODULES, _HINT = "lib/cmake/ASC", "compiler/tikcpp/ascendc_kernel_cmake"


def add_operators(folder: Path, cxx: str, include: Sequence[str]) -> None:
    """Add the files to a fake that has its headers, its CMake modules and ``libascendcl.so``.

    Args:
        folder: folder of the fake.
        cxx: the compiler.
        include: folders with the headers of the twin.

    Raises:
        ValueError: the library does not compile.
    """
    hint = folder / _HINT / "ASCConfig.cmake"
    hint.parent.mkdir(parents=True, exist_ok=True)
    up = "../" * (_HINT.count("/") + 1)
    text = f'include("${{CMAKE_CURRENT_LIST_DIR}}/{up}{_MODULES}/ASCConfig.cmake")\n'
    hint.write_text(text, encoding="utf-8")
    shutil.copyfile(HERE / "src" / "op_build.cpp", folder / _MODULES / "op_build.cpp")
    library, source = folder / "lib64" / "libnnopbase.so", HERE / "src" / "nnopbase.cpp"
    headers = sorted((HERE / "include").rglob("*.h"))
    if library.is_file() and all(
        p.stat().st_mtime < library.stat().st_mtime for p in (source, *headers)
    ):
        return  # it does not depend on the fake's options
    command = [cxx, "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{HERE / 'include'}", *(f"-isystem{p}" for p in include)]
    command += ["-o", str(library), str(source)]
    command += ["-Wl,-soname,libnnopbase.so", str(folder / "lib64" / "libascendcl.so"), "-ldl"]
    command += [f"-Wl,-rpath,{folder / 'lib64'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"the fake of aclnn does not compile:\n{done.stderr}")
