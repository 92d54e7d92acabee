"""Programs that autofuse starts: nothing of the current folder is executed because of where a command runs.

To the system, the compiler and the linker an empty entry in a list of folders is the current folder, and a relative one
lies below it.  Such entries come about by accident (``PATH=$MORE:$PATH`` with nothing in ``MORE``), and beside a graph
that someone has downloaded there may be anything.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

__all__ = ["environment", "folders", "program"]

#: The variables that are lists of folders where programs, libraries, headers and modules are looked for.
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
    """The folders of a list such as PATH that mean the same wherever a program runs."""
    return [folder for folder in text.split(os.pathsep) if Path(folder).is_absolute()]


def program(name: str) -> str | None:
    """The absolute path of a program; None if it is not there.

    Args:
        name: looked for in the absolute folders of PATH; with a slash in it, a path.
    """
    if os.sep in name:
        found = shutil.which(name)
        return found and str(Path(found).absolute())
    return shutil.which(name, path=os.pathsep.join(_path(os.environ)))


def environment(**more: str) -> dict[str, str]:
    """The variables for a program that is started, in whose lists of folders no entry means the current folder.

    Args:
        more: variables besides.
    """
    given: Mapping[str, str] = os.environ
    lists = {name: folders(given[name]) for name in _LISTS if name in given}
    lists["PATH"] = _path(given)
    kept = {name: os.pathsep.join(found) for name, found in lists.items() if found}
    # A list without entries is left out: to some programs an empty one is the current folder again.
    return {**{k: v for k, v in given.items() if k not in lists}, **kept, **more}


def _path(given: Mapping[str, str]) -> list[str]:
    """The folders of PATH, or those of the system."""
    return folders(given.get("PATH", "")) or folders(os.defpath)
