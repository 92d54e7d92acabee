"""JSON Schema of the graph file, for editors, and the starter file of ``autofuse new``."""

from __future__ import annotations

import json
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.graph.model import SCHEMA, GraphModel
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.names import identifier, legal_name
from autofuse.implgraph.ops import registry

__all__ = ["SCHEMA_FILE", "drop_titles", "graph_schema", "starter"]

#: Name of the schema file beside a starter file, which refers to it.
SCHEMA_FILE = "graph.schema.json"
_ID = "https://autofuse.dev/schema/graph-1.json"
_COMMENT = {"description": "A note for readers; ignored."}


def graph_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of schema ``autofuse.graph/1``.

    Fields come from the models that check a file, ops and attributes from the registry.
    """
    schema = GraphModel.model_json_schema(by_alias=True)
    drop_titles(schema)
    definitions: dict[str, Any] = schema["$defs"]
    for part in (schema, *definitions.values()):
        part["properties"]["$comment"] = _COMMENT
    # These two have members with free names, so the rule for their values must not apply.
    schema["properties"]["symbols"] |= {
        "propertyNames": {"pattern": r"^([A-Za-z_][A-Za-z0-9_]*|\$comment)$"},
        "properties": {"$comment": _COMMENT},
    }
    definitions["NodeModel"]["properties"]["attrs"]["properties"] = {"$comment": _COMMENT}
    definitions["NodeModel"]["properties"]["op"] = _op_names()
    definitions["NodeModel"]["allOf"] = _attr_rules()
    definitions["InputModel"]["anyOf"] = [
        {"required": ["shape"]},
        {"required": ["scalar"], "properties": {"scalar": {"const": True}}},
    ]
    definitions["OutputModel"]["anyOf"] = [{"required": ["tensor"]}, {"required": ["name"]}]
    dtypes = _dtype_names()
    for name in ("InputModel", "ConstModel", "ResultModel"):
        member = definitions[name]["properties"]["dtype"]
        definitions[name]["properties"]["dtype"] = {"description": member["description"], **dtypes}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": f"graph file ({SCHEMA})",
    }
    return head | schema


def drop_titles(value: Any) -> None:
    """Remove the titles in which pydantic repeats the name of a field; a field itself may be called ``title``."""
    if isinstance(value, dict):
        if isinstance(value.get("title"), str):
            del value["title"]
        for v in value.values():
            drop_titles(v)
    elif isinstance(value, list):
        for v in value:
            drop_titles(v)


def _op_names() -> dict[str, Any]:
    names: list[str] = []
    docs: list[str] = []
    for row in registry.all_ops(user=True):
        names += [row.name, *row.aliases]
        docs += [row.doc, *(f"same as {row.name}" for _ in row.aliases)]
    return {"description": "The op.", "enum": names, "enumDescriptions": docs}


def _dtype_names() -> dict[str, Any]:
    rows = [d for d in BY_NAME.values() if d.kind != "m"]
    return {"enum": [d.name for d in rows] + [a for d in rows for a in d.aliases]}


def _attr_rules() -> list[dict[str, Any]]:
    """Return a rule per op: its attributes with their types, and no others."""
    size = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "minLength": 1}]}
    types: dict[str, dict[str, Any]] = {
        "int": {"type": "integer"},
        "float": {"type": "number"},
        "bool": {"type": "boolean"},
        "str": {"type": "string"},
        "dtype": _dtype_names(),
        "shape": {"type": "array", "items": size},
        "ints": {"type": "array", "items": {"type": "integer"}},
    }
    out: list[dict[str, Any]] = []
    for row in registry.all_ops(user=True):
        if not row.attrs:
            continue
        rule: dict[str, Any] = {
            "properties": {
                "attrs": {
                    "properties": {
                        a.name: {"description": a.doc, **types[a.kind]} for a in row.attrs
                    },
                    "required": [a.name for a in row.attrs if a.default is None],
                }
            }
        }
        if rule["properties"]["attrs"]["required"]:
            rule["required"] = ["attrs"]
        condition = {"properties": {"op": {"enum": [row.name, *row.aliases]}}, "required": ["op"]}
        out.append({"if": condition, "then": rule})
    return out


def starter(name: str) -> str:
    """Return the text of a small valid graph file with comments.

    Args:
        name: name of the graph.

    Raises:
        AutofuseError: AF1105 if the name is not legal.
    """
    if not legal_name(name):
        raise AutofuseError.of(
            "AF1105",
            f"{name!r} is not a legal name of a graph",
            hint=f"use printable characters without a space at either end, such as {identifier(name)!r}",
        )
    return _STARTER.replace("@NAME@", json.dumps(name)).replace("@SCHEMA_FILE@", SCHEMA_FILE)


_STARTER = """\
{
  "$schema": "@SCHEMA_FILE@",
  "schema": "autofuse.graph/1",
  "$comment": [
    "relu(x + bias) * scale, on any number of rows.",
    "A $comment is allowed in every object and ignored.",
    "'autofuse schema' prints the JSON Schema; editors use it if saved as @SCHEMA_FILE@."
  ],
  "name": @NAME@,
  "symbols": {
    "$comment": "Sizes known only at run time; hint is a typical value.",
    "rows": {"min": 1, "max": 1048576, "hint": 4096}
  },
  "inputs": [
    {"name": "x", "dtype": "float16", "shape": ["rows", 1024]},
    {"name": "bias", "dtype": "float16", "shape": [1024], "$comment": "Broadcasts as in NumPy."},
    {"name": "scale", "dtype": "float16", "scalar": true, "$comment": "Given at run time."}
  ],
  "nodes": [
    {"name": "add_bias", "op": "Add", "inputs": ["x", "bias"], "outputs": ["biased"]},
    {"name": "clip", "op": "Maximum", "inputs": ["biased", {"const": 0.0}], "outputs": ["relu"]},
    {"name": "rescale", "op": "Mul", "inputs": ["relu", "scale"], "outputs": ["y"]}
  ],
  "outputs": ["y"]
}
"""
