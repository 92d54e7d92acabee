"""JSON form of FusionGraph, HintGraph and ImplGraph, without loss.

The dataclasses are the schema: an object has one key per field, in the order of definition, and all of them are
written.  Expressions are strings as ``str(Expr)`` prints them, dtypes are names, enums are values, tuples are lists.  A
value without a JSON type is an object with one key: ``{"expr": "s0*4"}`` inside lists of attributes (where a plain
string is a string), ``{"float": "nan"}`` for NaN and infinities.  An attribute in ``SIZE_ATTRS`` that is a string is an
expression.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, TypeVar, Union

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.implgraph.expr.expression import Expr, ExprError
from autofuse.implgraph.expr.parser import ir_reader
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Symbol
from autofuse.implgraph.ir.graph import SIZE_ATTRS, HintGraph, ImplGraph, Node

__all__ = ["SCHEMAS", "field_names", "from_json", "from_json_as", "json_text", "to_json"]

#: The value of the key ``schema``, by type of graph.
SCHEMAS: dict[str, type[FusionGraph] | type[HintGraph] | type[ImplGraph]] = {
    "autofuse.ir.fusion/1": FusionGraph,
    "autofuse.ir.hint/1": HintGraph,
    "autofuse.ir.impl/1": ImplGraph,
}
_G = TypeVar("_G", FusionGraph, HintGraph, ImplGraph)
_JSON_TYPES = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}


def to_json(g: FusionGraph | HintGraph | ImplGraph) -> dict[str, object]:
    """Return a JSON-ready dict with stable key order; :func:`from_json` inverts it."""
    schema = next(name for name, kind in SCHEMAS.items() if kind is type(g))
    return {"schema": schema, **_fields(g)}


def json_text(value: object, indent: int) -> str:
    """Return the text of ``json.dumps(value, indent=indent)``, whose encoder is slow when indenting.

    Args:
        value: dicts with string keys, lists, strings, numbers, booleans, None.
        indent: spaces per level.
    """
    return _indented(value, "\n", " " * indent)


def _indented(value: object, line: str, step: str) -> str:
    """Return the text of a value; ``line`` starts a new line at its level."""
    if isinstance(value, dict):
        if not value:
            return "{}"
        inside, text = line + step, _SCALAR_TEXTS.get
        items = [
            f"{quoted(k)}: {simple(v) if (simple := text(type(v))) else _indented(v, inside, step)}"
            for k, v in value.items()
        ]
        return f"{{{inside}{(',' + inside).join(items)}{line}}}"
    if isinstance(value, list):
        if not value:
            return "[]"
        inside, text = line + step, _SCALAR_TEXTS.get
        items = [
            simple(v) if (simple := text(type(v))) else _indented(v, inside, step) for v in value
        ]
        return f"[{inside}{(',' + inside).join(items)}{line}]"
    return json.dumps(value)


#: Encoders of strings, integers, booleans and None, by type.
_SCALAR_TEXTS: dict[type, Callable[[Any], str]] = {
    str: quoted,
    int: int.__repr__,
    bool: {False: "false", True: "true"}.__getitem__,
    type(None): lambda _: "null",
}


def _fields(value: Any) -> dict[str, object]:
    sparse = _SPARSE.get(type(value), frozenset())
    found = ((name, getattr(value, name)) for name in field_names(type(value)))
    return {n: _encode(v) for n, v in found if n not in sparse or v}


def field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a dataclass that are part of its value, in definition order; nothing for other types."""
    found = _FIELDS.get(kind)
    if found is None:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        found = _FIELDS[kind] = tuple(f.name for f in fields if f.compare)
    return found


_FIELDS: dict[type, tuple[str, ...]] = {}
#: Fields omitted when empty.
_SPARSE: dict[type, frozenset[str]] = {
    kind: frozenset({"called"}) for kind in (Symbol, FusionNode, FusionGraph)
} | {Node: frozenset({"joins", "over"})}


def _encode(value: Any) -> object:
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is Expr:
        return str(value)
    if kind is tuple:
        return [_encode(v) for v in value]
    if kind is DType:
        return value.name
    if kind is Constant:
        return _constant(value)
    if field_names(kind):
        return _fields(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        # Attributes of nodes, or the tensors of a FusionGraph.
        return {
            k: _encode(v) if type(v) is Expr or field_names(type(v)) else _attr(v)
            for k, v in value.items()
        }
    return value


def _constant(c: Constant) -> dict[str, object]:
    out = {"value": _attr(c.value), "dtype": _encode(c.dtype)}
    return out if c.expr is None else out | {"expr": str(c.expr)}


def _attr(value: Any) -> object:
    if isinstance(value, Expr):
        return {"expr": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, tuple):
        return [_attr(v) for v in value]
    return value


# reading --------------------------------------------------------------------------------------


def from_json(data: object) -> FusionGraph | HintGraph | ImplGraph:
    """Return the graph that :func:`to_json` wrote; the key ``schema`` gives its kind.

    Raises:
        AutofuseError: AF1004, AF1101 to AF1104 or AF1108 with a JSON pointer; findings in different
            items of a list are collected.
    """
    if not isinstance(data, dict):
        raise AutofuseError.of("AF1103", f"a graph is an object, not {_name(data)}")
    schema = data.get("schema")
    kind = SCHEMAS.get(schema) if isinstance(schema, str) else None
    if kind is None:
        raise AutofuseError.of(
            "AF1004",
            f"the schema is {schema!r}, not one of {', '.join(SCHEMAS)}",
            where=Where(pointer="/schema"),
        )
    reader = _Reader()
    body = {k: v for k, v in data.items() if k != "schema"}
    graph = reader.guard(kind, body, "")
    if reader.errors:
        raise AutofuseError(reader.errors)
    assert isinstance(graph, kind)
    return graph


def from_json_as(kind: type[_G], data: object) -> _G:
    """Like :func:`from_json`, for a graph of one kind.

    Raises:
        AutofuseError: AF1104, also when the data is a graph of another kind.
    """
    g = from_json(data)
    if not isinstance(g, kind):
        raise AutofuseError.of(
            "AF1104",
            f"the data is a {type(g).__name__}, not {kind.__name__}",
            where=Where(pointer="/schema"),
        )
    return g


def _name(value: object) -> str:
    if value is None:
        return "null"
    return _JSON_TYPES.get(type(value), "a number")


class _BadValueError(Exception):
    """One finding; carries its diagnostic."""

    def __init__(self, code: str, message: str, pointer: str) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, Where(pointer=pointer or "/"))


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


class _Reader:
    """Decodes by the declared types of fields, which bound the depth of recursion."""

    def __init__(self) -> None:
        self.errors: list[Diagnostic] = []
        self.expressions = ir_reader()

    def guard(self, kind: Any, value: object, at: str) -> Any:
        """Decode an item; record its finding, so that sibling items are read too."""
        try:
            return self.decode(kind, value, at)
        except _BadValueError as err:
            self.errors.append(err.diagnostic)
            return None

    def decode(self, kind: Any, value: object, at: str) -> Any:
        origin = typing.get_origin(kind)
        if origin in (Union, types.UnionType):
            return self.union(typing.get_args(kind), value, at)
        if origin is tuple:
            item = typing.get_args(kind)[0]
            items = self.expect(list, value, at)
            return tuple(self.guard(item, v, f"{at}/{i}") for i, v in enumerate(items))
        if origin is Mapping:
            item = typing.get_args(kind)[1]
            table = self.expect(dict, value, at)
            sizes = SIZE_ATTRS if Expr in typing.get_args(item) else ()
            return {
                k: self.guard(
                    Expr if k in sizes and isinstance(v, str) else item, v, f"{at}/{_escape(k)}"
                )
                for k, v in table.items()
            }
        if kind is Expr:
            return self.expression(value, at)
        if kind is DType:
            name = self.expect(str, value, at)
            if name not in BY_NAME:
                known = ", ".join(BY_NAME)
                raise _BadValueError("AF1104", f"unknown dtype {name!r}; known: {known}", at)
            return BY_NAME[name]
        if issubclass(kind, Enum):
            return self.enum(kind, value, at)
        if dataclasses.is_dataclass(kind):
            return self.record(kind, value, at)
        return self.expect(kind, value, at)

    @staticmethod
    def expect(kind: type, value: Any, at: str) -> Any:
        if kind is float and isinstance(value, dict) and list(value) == ["float"]:
            if value["float"] in ("nan", "inf", "-inf"):
                return float(value["float"])
            raise _BadValueError("AF1104", "expected nan, inf or -inf", f"{at}/float")
        # In Python bool is an int; in a graph it is not.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            words = _JSON_TYPES | {int: "an integer", float: "a float"}
            raise _BadValueError("AF1103", f"expected {words[kind]}, found {_name(value)}", at)
        return value

    def expression(self, value: Any, at: str) -> Expr:
        text = self.expect(str, value, at)
        try:
            return self.expressions.read(text)
        except ExprError as err:
            message = f"{err} (column {max(err.position, 0) + 1} of {text[:80]!r})"
            raise _BadValueError("AF1108", message, at) from None

    @staticmethod
    def enum(kind: type[Enum], value: object, at: str) -> Enum:
        try:
            return kind(value)
        except ValueError:
            names = ", ".join(str(m.value) for m in kind)
            message = f"expected one of {names}, found {value!r:.80}"
            raise _BadValueError("AF1104", message, at) from None

    def union(self, kinds: tuple[Any, ...], value: Any, at: str) -> Any:
        """Return the union member that fits the JSON value; members differ in their JSON type."""
        if value is None and type(None) in kinds:
            return None
        members = [k for k in kinds if k is not type(None)]
        if len(members) == 1:
            return self.decode(members[0], value, at)
        if isinstance(value, dict) and list(value) == ["expr"] and Expr in members:
            return self.expression(value["expr"], f"{at}/expr")
        if isinstance(value, dict) and list(value) == ["float"] and float in members:
            return self.expect(float, value, at)
        for k in members:
            is_list = typing.get_origin(k) is tuple and isinstance(value, list)
            is_object = dataclasses.is_dataclass(k) and isinstance(value, dict)
            if is_list or is_object:
                return self.decode(k, value, at)
            if k in (int, float, str, bool) and type(value) is k:
                return value
        raise _BadValueError("AF1103", f"{_name(value)} is not expected here", at)

    def record(self, kind: Any, value: object, at: str) -> Any:
        table = self.expect(dict, value, at)
        fields = {f.name: f for f in dataclasses.fields(kind) if f.compare}
        for k in table:
            if k not in fields:
                known = ", ".join(fields)
                message = f"unknown field {k!r:.80}; known: {known}"
                raise _BadValueError("AF1102", message, f"{at}/{_escape(k)}")
        made: dict[str, Any] = {}
        for name, f in fields.items():
            if name in table:
                made[name] = self.guard(_hints(kind)[name], table[name], f"{at}/{name}")
            elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                raise _BadValueError("AF1101", f"the field {name!r} is missing", at)
        # After a finding the graph is discarded, so field values may have wrong types.
        return None if self.errors else kind(**made)


def _escape(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
