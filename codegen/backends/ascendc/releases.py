"""The CANN release that a kernel needs, which follows from the vendor functions that its device code calls.

A header is compiled whole, so all its calls count if it is included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from autofuse.codegen.render import render
from autofuse.implgraph.ir.frozen import frozen
from autofuse.targets import Architecture

__all__ = ["Releases", "all_releases", "cann_check", "cann_json", "included", "releases_of"]

#: Function of the vendor's interface -> the first release of CANN that has it.
Releases: TypeAlias = "Mapping[str, str]"

_COMMENT = re.compile(r"//[^\n]*")
_INCLUDE = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)


@frozen
class _CheckView:
    release: str
    calls: str


def releases_of(kernel: str, files: Mapping[str, str], arch: Architecture) -> dict[str, str]:
    """Return the kernel's calls with a known first release, and that release, sorted.

    Args:
        kernel: text of the kernel file.
        files: files in ``include/`` that it may include.
        arch: architecture of its chip.
    """
    texts, todo, seen = [kernel], [kernel], set[str]()
    while todo:
        for name in included(todo.pop()):
            text = files.get(f"include/{name}")
            if text is not None and name not in seen:
                seen.add(name)
                texts.append(text)
                todo.append(text)
    names = frozenset(call for call, _ in arch.since)
    called = frozenset().union(*(_called(text, names) for text in texts))
    return {call: since for call, since in sorted(arch.since) if call in called}


@lru_cache(maxsize=256)
def included(text: str) -> tuple[str, ...]:
    """Return the headers that a text includes by name; cached, since many kernels share them."""
    return tuple(_INCLUDE.findall(text))


@lru_cache(maxsize=256)
def _called(text: str, names: frozenset[str]) -> frozenset[str]:
    """Return the functions among ``names`` that a text calls; cached, since many kernels share headers."""
    code = _COMMENT.sub("", text)
    return frozenset(
        call
        for call in names
        if call in code and re.search(rf"\b{call}\s*(?:<[\w:, ]*>)?\s*\(", code)
    )


def all_releases(parts: Iterable[Releases]) -> dict[str, str]:
    """Merge the calls of several kernels."""
    return dict(sorted({call: since for p in parts for call, since in p.items()}.items()))


def _least(needs: Releases) -> str:
    """Return the first release that has them all; empty for none."""
    return max(needs.values(), key=lambda r: [int(n) for n in r.split(".")], default="")


def cann_json(needs: Releases) -> dict[str, object]:
    """Return the metadata: the minimum release (None if unknown) and the calls that need it."""
    return {"release": _least(needs) or None, "calls": dict(needs)}


def cann_check(needs: Releases) -> str:
    """Return CMake lines that fail if the installed CANN is older."""
    if not needs:
        return ""
    return render("cann_check.cmake.jinja", _CheckView(_least(needs), ", ".join(needs))).rstrip()
