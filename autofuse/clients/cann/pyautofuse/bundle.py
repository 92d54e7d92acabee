"""The files of a kernel as three C++ texts, and back.

Clients keep ``tiling_def``, ``host_impl`` and ``device_impl`` as texts: they use them as cache keys and paste them into
other programs, some of which interpret backslashes and triple quotes.  So the texts contain none: continued lines are
joined, and a file that is not C++, or still contains one, is written as comments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from autofuse import __version__
from autofuse.base.diagnostics import AutofuseError

__all__ = ["Bundle", "pack", "unpack"]

TILING_DATA = "autofuse_tiling_data.h"
_CODE = frozenset({".cpp", ".h", ".inc"})
_BUILD = frozenset({"CMakeLists.txt", "CMakePresets.json"})
_FILE = "// autofuse file: "
_LINES = "// autofuse lines: "
_LINE = "//|"
_GRAPH = "// autofuse kernel: "
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,240}")
_MARK = re.compile(rf"^(?:{re.escape(_FILE)}|{re.escape(_LINES)}).*$", re.M)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files of a kernel as three texts.

    Attributes:
        tiling_def: ``struct AutofuseTilingData``; a self-contained header.
        host_impl: tiling function and shape inference.
        device_impl: the kernel and its launcher.
    """

    tiling_def: str
    host_impl: str
    device_impl: str


def pack(files: Mapping[str, str], name: str) -> Bundle:
    """Pack the files of the kernel ``name``, laid out in folders as by ``autofuse build``.

    Files that only describe the kernel (JSON) are omitted.
    """
    host, device = [f"{_GRAPH}{name} {__version__}\n"], [f"{_GRAPH}{name} {__version__}\n"]
    for path in sorted(files):
        if path == TILING_DATA or not _kept(path):
            continue
        where = device if _is_device(path) else host
        where.append(_packed(path, files[path]))
    return Bundle(_joined(files[TILING_DATA]), "".join(host), "".join(device))


def unpack(tiling_def: str, *texts: str) -> tuple[dict[str, str], str]:
    """Return the files and the name of the kernel from the texts of :func:`pack`.

    Args:
        tiling_def: as in :class:`Bundle`.
        texts: any of the other texts.

    Raises:
        AutofuseError: AF1002, a text does not come from :func:`pack`; AF5007, the texts belong to different kernels or
            come from another version of autofuse.
    """
    files = {TILING_DATA: tiling_def}
    heads = {t.lstrip().split("\n", 1)[0] for t in texts}
    for t in texts:
        if not t.lstrip().startswith(_GRAPH):
            raise AutofuseError.of(
                "AF1002",
                "autofuse did not write this text: its first line does not name a kernel",
                hint="pass the result of Autofuser.codegen",
            )
        files |= _unpacked(t)
    for path in files:
        if not all(_PART.fullmatch(p) for p in path.split("/")):
            text = f"{path!r} is not a path inside a folder"
            raise AutofuseError.of("AF1002", text, hint="pass the result of Autofuser.codegen")
    if len(heads) != 1:
        raise AutofuseError.of("AF5007", f"the texts belong to different kernels: {sorted(heads)}")
    name, _, version = heads.pop().removeprefix(_GRAPH).strip().partition(" ")
    if version != __version__:
        text = f"autofuse {version} wrote the texts, but this is {__version__}"
        raise AutofuseError.of("AF5007", text, hint="regenerate them")
    return files, name


def _kept(path: str) -> bool:
    p = PurePosixPath(path)
    return p.suffix in _CODE or str(p) in _BUILD


def _is_device(path: str) -> bool:
    """Return True for kernels, their launchers and the headers generated for them."""
    p = PurePosixPath(path)
    own = PurePosixPath(*p.parts[2:]) if p.parts[0] == "parts" else p
    return own.parts[0] == "device" or "_launch" in own.stem or "_driver" in own.stem


def _packed(path: str, text: str) -> str:
    plain = _joined(text)
    awkward = "\\" in plain or "'''" in plain or _MARK.search(plain) is not None
    if PurePosixPath(path).suffix in _CODE and not awkward:
        return f"{_FILE}{path}\n{plain}" + ("" if plain.endswith("\n") else "\n")
    lines = "".join(f"{_LINE}{_escaped(x)}\n" for x in text.split("\n")[:-1])
    return f"{_LINES}{path}\n{lines}"


def _joined(text: str) -> str:
    """Join lines continued with a backslash."""
    return re.sub(r"[ \t]*\\\n[ \t]*", " ", text)


def _escaped(line: str) -> str:
    return line.replace("%", "%25").replace("\\", "%5C").replace("'", "%27")


def _restored(line: str) -> str:
    return line.replace("%27", "'").replace("%5C", "\\").replace("%25", "%")


def _unpacked(text: str) -> dict[str, str]:
    marks = list(_MARK.finditer(text))
    ends = [*(m.start() for m in marks[1:]), len(text)]
    files: dict[str, str] = {}
    for m, end in zip(marks, ends, strict=False):
        body = text[m.end() + 1 : end]
        if m[0].startswith(_FILE):
            files[m[0].removeprefix(_FILE).strip()] = body
        else:
            kept = [x.removeprefix(_LINE) for x in body.split("\n") if x.startswith(_LINE)]
            path = m[0].removeprefix(_LINES).strip()
            files[path] = "".join(f"{_restored(x)}\n" for x in kept)
    return files
