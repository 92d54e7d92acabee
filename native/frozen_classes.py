"""The classes that ``implgraph.ir.frozen`` makes as Python runs, written out for mypyc.

mypyc leaves a class with a decorator that it does not know an ordinary one, whose attributes are looked up by name.  It
knows ``dataclass``, and makes a native class of it, but one whose ``__init__`` is interpreted.  So a module is compiled
from a copy in which every class with ``@frozen`` is a dataclass with ``__init__`` and ``_changed`` (for ``replace``)
written out.  They take the lines of its fields and the blank ones about them, so that tracebacks name the lines of the
module itself.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

__all__ = ["with_native_classes"]

_FROM = "autofuse.implgraph.ir.frozen"
_IMPORTS = (
    "from dataclasses import dataclass as _dataclass",
    "from typing import Any as _Any",
    f"from {_FROM} import make_native as _make_native, refuse as _refuse",
)


def with_native_classes(text: str) -> str:
    """The text of a module with its frozen classes written out; as many lines, but for one at the end.

    Raises:
        ValueError: a class has no fields, or other things among them, or no lines for the methods, or fields are more
            than a type and a default.
    """
    module = ast.parse(text)
    classes = [n for n in module.body if isinstance(n, ast.ClassDef) and _decorator(n)]
    if not classes:
        return text
    lines = text.split("\n")
    made = []
    for c in classes:
        fields = [n for n in c.body if isinstance(n, ast.AnnAssign)]
        _put(lines, c, fields)
        made.append(f"_make_native({c.name}, {{{', '.join(map(_annotation, fields))}}})")
    lines[_import_line(module)] += "; " + "; ".join(_IMPORTS)
    return "\n".join(lines) + "; ".join(made) + "\n"


def _decorator(c: ast.ClassDef) -> ast.expr | None:
    found = (d for d in c.decorator_list if isinstance(d, ast.Name) and d.id == "frozen")
    return next(found, None)


def _import_line(module: ast.Module) -> int:
    """The index of the line that ends the import of ``frozen``."""
    for n in module.body:
        if isinstance(n, ast.ImportFrom) and n.module == _FROM:
            return (n.end_lineno or n.lineno) - 1
    raise ValueError(f"frozen is not imported from {_FROM}")


def _put(lines: list[str], c: ast.ClassDef, fields: Sequence[ast.AnnAssign]) -> None:
    """Write a class out, in place of its fields and the blank lines about them."""
    decorator = _decorator(c)
    assert decorator is not None
    lines[decorator.lineno - 1] = "@_dataclass(frozen=True, init=False)"
    at = next((i for i, n in enumerate(c.body) if isinstance(n, ast.AnnAssign)), 0)
    if not fields or c.body[at : at + len(fields)] != fields:
        raise ValueError(f"{c.name} has no fields, or other things among them")
    start = (c.body[at - 1].end_lineno or 0) if at else fields[0].lineno - 1
    end = fields[-1].end_lineno or 0
    while end < len(lines) and not lines[end].strip():
        end += 1
    text = [
        "; ".join(map(ast.unparse, fields)),
        f"def __init__(self, {', '.join(map(_parameter, fields))}) -> None: {_filling(fields)}",
        f"def _changed(self, changes: dict[str, _Any]) -> {c.name}: {_changing(c.name, fields)}",
    ]
    if end - start < len(text):
        raise ValueError(f"{c.name} has no lines for its methods")
    text += [""] * (end - start - len(text))
    lines[start:end] = [f"    {t}" if t else t for t in text]


def _name(field: ast.AnnAssign) -> str:
    assert isinstance(field.target, ast.Name)
    return field.target.id


def _factory(field: ast.AnnAssign) -> str | None:
    """What makes the default of a field that has one of its own in every object."""
    if isinstance(field.value, ast.Call) and ast.unparse(field.value.func) == "field":
        found = [k.value for k in field.value.keywords if k.arg == "default_factory"]
        if not found:
            raise ValueError(f"{_name(field)} is a field() without default_factory")
        return ast.unparse(found[0])
    return None


def _parameter(field: ast.AnnAssign) -> str:
    typed = f"{_name(field)}: {ast.unparse(field.annotation)}"
    if field.value is None:
        return typed
    return f"{typed} | None = None" if _factory(field) else f"{typed} = {ast.unparse(field.value)}"


def _filling(fields: Sequence[ast.AnnAssign]) -> str:
    out = []
    for f in fields:
        name, factory = _name(f), _factory(f)
        value = f"{factory}() if {name} is None else {name}" if factory else name
        out.append(f"self.{name} = {value}")
    return "; ".join(out)


def _changing(kind: str, fields: Sequence[ast.AnnAssign]) -> str:
    names = [_name(f) for f in fields]
    values = ", ".join(f"changes.get({n!r}, self.{n})" for n in names)
    known = f"all(n in {{{', '.join(map(repr, names))}}} for n in changes)"
    return f"return {kind}({values}) if {known} else _refuse({kind}, changes)"


def _annotation(field: ast.AnnAssign) -> str:
    return f"{_name(field)!r}: {ast.unparse(field.annotation)!r}"
