"""Kinds of JSON files that autofuse writes or reads, so that a file of the wrong kind is called what it is."""

from __future__ import annotations

from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.json_positions import Document

__all__ = ["kind_of", "of_another_kind"]

#: Schema -> what a file of it is, and what takes it.
_KINDS = {
    "autofuse.graph/1": ("a graph file", "autofuse build takes it"),
    "autofuse.bundle/1": ("a bundle of autofuse silicon", "autofuse calibrate takes it"),
    "autofuse.certificate/1": ("a certificate", "autofuse certify wrote it, beside a page to read"),
    "autofuse.cli/1": (
        "what a command printed with --json",
        "its member result has what was found",
    ),
    "autofuse.ir.fusion/1": (
        "the graph of a generated folder",
        "give the folder, or the graph file",
    ),
    "autofuse.kernel/1": ("the metadata of a kernel", "give the folder that it is in"),
    "autofuse.kernelgen/1": ("the state of kernelgen", "give the folder that it is in"),
    "autofuse.kernelgen.definition/1": (
        "a definition of kernelgen",
        "give the folder that it is in",
    ),
    "autofuse.manifest/1": ("the manifest of a generated folder", "give the folder that it is in"),
    "autofuse.model/1": ("the manifest of a model", "give the model"),
    "autofuse.patterns/1": (
        "a file of patterns",
        "autofuse kernelgen tune takes it with --patterns",
    ),
    "autofuse.results/1": ("a file of results", "autofuse calibrate takes it behind a bundle"),
    "autofuse.split/1": ("the metadata of several kernels", "give the folder that it is in"),
    "autofuse.timed/1": ("a report of timed mode", "autofuse run --html writes it as a page"),
    "autofuse.tuning/1": ("a tuning file", "--tuning takes it"),
}
_NO_SCHEMA = {
    "op_desc": ("an info file of MindSpore AKG", "autofuse build takes it"),
    "traceEvents": ("a trace for a viewer", "https://ui.perfetto.dev shows it"),
    "$defs": ("a JSON Schema", "editors take it"),
}


def kind_of(value: Any) -> tuple[str, str]:
    """The kind of a JSON file, with its article, and the verb that takes such a file; both empty if unknown."""
    if not isinstance(value, dict):
        return ("a list" if isinstance(value, list) else "a single value"), ""
    schema = value.get("schema")
    if isinstance(schema, str):
        return _KINDS.get(schema, ("", ""))
    return next((_NO_SCHEMA[key] for key in _NO_SCHEMA if key in value), ("", ""))


def of_another_kind(document: Document, wanted: str, hint: str) -> AutofuseError:
    """AF1004 for a file that is not of the kind that is read here.

    Args:
        document: the file.
        wanted: its kind, with the article.
        hint: what such a file is, for one of which is not known what it is.
    """
    found, taken = kind_of(document.value)
    text = f"this is {found}, not {wanted}" if found else f"this is not {wanted}"
    where = document.where("/schema")
    return AutofuseError.of("AF1004", text, where=where, hint=taken or hint)
