"""Kinds of JSON files that autofuse writes or reads, so that errors can name the kind of a wrong file."""

from __future__ import annotations

from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.json_positions import Document

__all__ = ["kind_of", "of_another_kind"]

#: Schema -> its kind of file, and the verb that takes it.
_KINDS = {
    "autofuse.graph/1": ("a graph file", "use it with autofuse build"),
    "autofuse.bundle/1": ("a bundle of autofuse silicon", "use it with autofuse calibrate"),
    "autofuse.certificate/1": (
        "a certificate",
        "autofuse certify wrote it together with an HTML page",
    ),
    "autofuse.cli/1": (
        "the output of a command with --json",
        "its member 'result' holds the results",
    ),
    "autofuse.ir.fusion/1": (
        "the graph of a generated folder",
        "give the folder, or the graph file",
    ),
    "autofuse.kernel/1": ("the metadata of a kernel", "give the folder that contains it"),
    "autofuse.kernelgen/1": ("the state of kernelgen", "give the folder that contains it"),
    "autofuse.kernelgen.definition/1": (
        "a definition of kernelgen",
        "give the folder that contains it",
    ),
    "autofuse.manifest/1": (
        "the manifest of a generated folder",
        "give the folder that contains it",
    ),
    "autofuse.model/1": ("the manifest of a model", "give the model"),
    "autofuse.patterns/1": (
        "a file of patterns",
        "use it with autofuse kernelgen tune --patterns",
    ),
    "autofuse.results/1": ("a file of results", "give it to autofuse calibrate after a bundle"),
    "autofuse.split/1": ("the metadata of several kernels", "give the folder that contains it"),
    "autofuse.timed/1": ("a report of timed mode", "autofuse run --html writes it as a page"),
    "autofuse.tuning/1": ("a tuning file", "use it with --tuning"),
}
_NO_SCHEMA = {
    "op_desc": ("an info file of MindSpore AKG", "use it with autofuse build"),
    "traceEvents": ("a trace for a viewer", "open it in https://ui.perfetto.dev"),
    "$defs": ("a JSON Schema", "editors use it"),
}


def kind_of(value: Any) -> tuple[str, str]:
    """Return the kind of a JSON file, with article, and the verb that takes it; both empty if unknown."""
    if not isinstance(value, dict):
        return ("a list" if isinstance(value, list) else "a single value"), ""
    schema = value.get("schema")
    if isinstance(schema, str):
        return _KINDS.get(schema, ("", ""))
    return next((_NO_SCHEMA[key] for key in _NO_SCHEMA if key in value), ("", ""))


def of_another_kind(document: Document, wanted: str, hint: str) -> AutofuseError:
    """Return AF1004 for a file of the wrong kind.

    Args:
        document: the file.
        wanted: the expected kind, with article.
        hint: used if the kind of the file is unknown.
    """
    found, taken = kind_of(document.value)
    text = f"this is {found}, not {wanted}" if found else f"this is not {wanted}"
    where = document.where("/schema")
    return AutofuseError.of("AF1004", text, where=where, hint=taken or hint)
