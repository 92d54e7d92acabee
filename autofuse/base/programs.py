"""Programs that autofuse starts never pick up code from the current folder.

For the system, the compiler and the linker an empty entry in a search path is the current folder, and a relative one
lies below it. Such entries arise by accident (``PATH=$MORE:$PATH`` with an empty ``MORE``), and the folder of a
downloaded graph may contain anything.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

__all__ = ["environment", "folders", "program"]

#: Search-path variables for programs, libraries, headers and modules.
_LISTS = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH",
    "PKG_CONFIG_PATH",
    "CMAKE_PREFIX_PATH",
    "CMAKE_PROGRAM_PATH",
    "CMAKE_LIBRARY_PATH",
    "CMAKE_INCLUDE_PATH",
    "PYTHONPATH",
)


def folders(text: str) -> list[str]:
    """Return the absolute folders of a list such as PATH."""
    return [folder for folder in text.split(os.pathsep) if Path(folder).is_absolute()]


def program(name: str) -> str | None:
    """Return the absolute path of a program; None if it is missing.

    Args:
        name: searched in the absolute folders of PATH; with a slash, a path.
    """
    if os.sep in name:
        found = shutil.which(name)
        return found and str(Path(found).absolute())
    return shutil.which(name, path=os.pathsep.join(_path(os.environ)))


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a child process, without search-path entries that mean the current folder.

    Args:
        more: further variables.
    """
    given: Mapping[str, str] = os.environ
    lists = {name: folders(given[name]) for name in _LISTS if name in given}
    lists["PATH"] = _path(given)
    kept = {name: os.pathsep.join(found) for name, found in lists.items() if found}
    # Omit a list without entries: some programs take an empty one for the current folder.
    return {**{k: v for k, v in given.items() if k not in lists}, **kept, **more}


def _path(given: Mapping[str, str]) -> list[str]:
    """Return PATH, or the system's default."""
    return folders(given.get("PATH", "")) or folders(os.defpath)
