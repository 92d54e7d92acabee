"""The CANN release that a kernel needs: that of the functions which its device code calls.

A header is compiled whole, so what it calls counts wherever it is included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from autofuse.codegen.render import render
from autofuse.implgraph.ir.frozen import frozen
from autofuse.targets import Architecture

__all__ = ["Releases", "all_releases", "cann_check", "cann_json", "releases_of"]

#: Function of the vendor's interface -> the first release of CANN that has it.
Releases: TypeAlias = "Mapping[str, str]"

_COMMENT = re.compile(r"//[^\n]*")
_INCLUDE = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)


@frozen
class _CheckView:
    release: str
    calls: str


def releases_of(kernel: str, files: Mapping[str, str], arch: Architecture) -> dict[str, str]:
    """What a kernel calls and is known to have come with some release, sorted.

    Args:
        kernel: the text of the kernel file.
        files: what it may include, in ``include/``.
        arch: of its chip.
    """
    texts, todo, seen = [kernel], [kernel], set[str]()
    while todo:
        for name in _INCLUDE.findall(todo.pop()):
            text = files.get(f"include/{name}")
            if text is not None and name not in seen:
                seen.add(name)
                texts.append(text)
                todo.append(text)
    code = _COMMENT.sub("", "\n".join(texts))
    return {
        call: since
        for call, since in sorted(arch.since)
        if call in code and re.search(rf"\b{call}\s*(?:<[\w:, ]*>)?\s*\(", code)
    }


def all_releases(parts: Iterable[Releases]) -> dict[str, str]:
    """Those of several kernels."""
    return dict(sorted({call: since for p in parts for call, since in p.items()}.items()))


def _least(needs: Releases) -> str:
    """The first release that has them all; empty for none."""
    return max(needs.values(), key=lambda r: [int(n) for n in r.split(".")], default="")


def cann_json(needs: Releases) -> dict[str, object]:
    """For metadata: the least release, None where it is not known, and what needs it."""
    return {"release": _least(needs) or None, "calls": dict(needs)}


def cann_check(needs: Releases) -> str:
    """Lines of CMake that stop where the CANN that is installed is older."""
    if not needs:
        return ""
    return render("cann_check.cmake.jinja", _CheckView(_least(needs), ", ".join(needs))).rstrip()
