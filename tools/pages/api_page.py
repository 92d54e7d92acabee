"""``docs/api_reference.md``: every public name with its signature and its docstring.

``python tools/pages/api_page.py`` prints the page.  It lists exactly the names in ``__all__`` of the public modules,
with their docstrings.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

__all__ = ["PUBLIC_MODULES", "api_page", "public_names"]

#: The modules whose ``__all__`` is public, and the extra that each requires.
PUBLIC_MODULES = {"autofuse": "", "autofuse.models": "onnx", "autofuse.onnx_backend": "onnx"}
#: Members for autofuse's own tools; their results are internal.
_INTERNAL = {"TwinKernel.record"}
_SECTIONS = ("Args", "Attributes", "Returns", "Raises")

_HEAD = """# Reference of the Python interface

Made by `python tools/pages/api_page.py` from signatures and docstrings; do not edit.
[api.md](api.md) has examples, and what is promised.
"""


def public_names(module: str) -> list[str]:
    """Return the names that a public module exports, without its version."""
    return [n for n in importlib.import_module(module).__all__ if not n.startswith("__")]


def api_page() -> str:
    """Return the page."""
    out = [_HEAD]
    for module, extra in PUBLIC_MODULES.items():
        held = importlib.import_module(module)
        needs = f" (needs `ascend-autofuse[{extra}]`)" if extra else ""
        out.append(f"## `{module}`{needs}\n")
        values = [(n, getattr(held, n)) for n in public_names(module)]
        for name, value in values:
            if _is_function(value):
                out += _function(name, value)
        for name, value in values:
            if isinstance(value, type):
                out += _class(name, value)
        rest = [(n, v) for n, v in values if not (_is_function(v) or isinstance(v, type))]
        if rest:
            out.append("### Constants and types\n")
            out += [f"- `{n}` = `{v}`" for n, v in rest]
            out.append("")
    return "\n".join(out).rstrip() + "\n"


def _is_function(value: Any) -> bool:
    """Return True for a function, or one wrapped in a cache."""
    return inspect.isfunction(inspect.unwrap(value))


def _function(name: str, value: Any, level: str = "###") -> list[str]:
    return [f"{level} `{name}`\n", f"```text\n{_signature(name, value)}\n```\n", *_text(value)]


def _signature(name: str, value: Any) -> str:
    """Return the signature on one line if it is short, else with a parameter per line."""
    found = inspect.signature(value)
    kept = [p for p in found.parameters.values() if p.name not in ("self", "cls")]
    signature = found.replace(parameters=kept)
    # The future import makes annotations strings, which would be printed in quotes.
    line = name.rpartition(".")[2] + re.sub(r"(?<=: |> )'([^']*)'", r"\1", str(signature))
    if len(line) <= 100:
        return line
    parts = [re.sub(r"(?<=: )'([^']*)'", r"\1", str(p)) for p in kept]
    star = next((i for i, p in enumerate(kept) if p.kind is p.KEYWORD_ONLY), len(parts))
    if star < len(parts) and not any(p.kind is p.VAR_POSITIONAL for p in kept):
        parts.insert(star, "*")
    inside = "".join(f"    {p},\n" for p in parts)
    return f"{name.rpartition('.')[2]}(\n{inside}){line.rpartition(')')[2]}"


def _class(name: str, value: type) -> list[str]:
    out = [f"### `{name}`\n", *_text(value)]
    if is_dataclass(value):
        public = [f for f in fields(value) if not f.name.startswith("_")]
        members = "".join(
            f"{f.name}: {f.type}" + (f" = {f.default!r}" if f.default is not MISSING else "") + "\n"
            for f in public
        )
        out.append(f"```text\n{members}```\n")
    for member, held in vars(value).items():
        if (member.startswith("_") and member != "__call__") or f"{name}.{member}" in _INTERNAL:
            continue
        if isinstance(held, property):
            out.append(f"**`{name}.{member}`**: {_inline(inspect.getdoc(held) or '')}\n")
        elif inspect.isfunction(held) or isinstance(held, classmethod | staticmethod):
            shown = name if member == "__call__" else f"{name}.{member}"
            out += _function(shown, getattr(value, member), "####")
    return out


def _text(value: Any) -> list[str]:
    """Return a docstring in Markdown: prose, and lists for its sections."""
    section = ""
    out: list[str] = []
    for line in _logical(inspect.getdoc(value) or ""):
        if line.rstrip(":") in _SECTIONS and line.endswith(":"):
            section = line.rstrip(":")
            if out and out[-1]:
                out.append("")
            out.append(f"{section}:\n")
        elif section and line.startswith("    "):
            name, colon, words = line.strip().partition(": ")
            named = colon and section != "Returns" and re.fullmatch(r"[*\w, ]+", name)
            out.append(f"- `{name}`: {_inline(words)}" if named else f"- {_inline(line.strip())}")
        else:
            if not line and out and not out[-1]:
                continue
            if section and line:
                section = ""
                out.append("")
            out.append(_inline(line))
    return [*out, ""] if out and out[-1] else out


def _logical(doc: str) -> Iterator[str]:
    """Yield the logical lines of a docstring: section items and paragraphs joined from their lines."""
    held, section = "", ""
    for line in doc.splitlines():
        if line.endswith(":") and line.rstrip(":") in _SECTIONS:
            section = line
        deep = len(line) - len(line.lstrip())
        prose = section == "Returns:" and deep > 0 and held != section
        continues = held and line and (deep >= 8 or prose or (deep == 0 and held[0] != " "))
        if continues and line.rstrip(":") not in _SECTIONS and held.rstrip(":") not in _SECTIONS:
            held += " " + line.strip()
            continue
        if held:
            yield held
        if not line:
            yield ""
        held = line
    if held:
        yield held


def _inline(text: str) -> str:
    """Return the inline markup of a docstring as Markdown."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    text = re.sub(r":\w+:`([^`<]*) <[^`]*>`", r"`\1`", text)
    return re.sub(r"\s+", " ", text.replace("``", "`")).strip()


if __name__ == "__main__":
    sys.stdout.write(api_page())
