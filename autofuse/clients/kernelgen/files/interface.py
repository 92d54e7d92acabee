"""Check of the four files by their syntax trees, without importing or running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from autofuse.base.wording import counted
from autofuse.clients.kernelgen.defining.shapes import ASSUMED_MEMORY
from autofuse.clients.kernelgen.files.case_rules import (
    accuracy_findings,
    import_findings,
    performance_findings,
)
from autofuse.clients.kernelgen.files.converter_rules import converter_findings
from autofuse.clients.kernelgen.files.finding import Finding
from autofuse.clients.kernelgen.files.function_rules import function_findings
from autofuse.clients.kernelgen.files.syntax import Module

__all__ = ["findings"]

#: Part -> suffix of its file name.
_PARTS = {
    "kernel": "_triton.py",
    "baseline": "_baseline.py",
    "accuracy": "_accuracy.py",
    "performance": "_performance.py",
}


def findings(
    files: Mapping[str, str], *, memory_bytes: int = ASSUMED_MEMORY
) -> tuple[Finding, ...]:
    """Return all errors in the files of an operator, by file and line.

    Tests named ``test_`` plus the operator are in KernelGen's format, and are checked against the requirements of its
    converter; others are scripts.

    Args:
        files: name -> text: kernels, baseline, accuracy test, performance test.
        memory_bytes: memory of the device, which must hold the tensors of a test.
    """
    parts: dict[str, Module] = {}
    found: list[Finding] = []
    for part, end in _PARTS.items():
        names = [n for n in files if n.endswith(end)]
        if len(names) != 1:
            what = (
                f"there are {counted(len(names), 'file')} *{end}"
                if names
                else f"there is no file *{end}"
            )
            found.append(Finding("file", names[1] if names else f"*{end}", 0, what))
            continue
        try:
            parts[part] = Module(names[0], files[names[0]], ast.parse(files[names[0]]))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
            line = e.lineno or 0 if isinstance(e, SyntaxError) else 0
            reason = e.msg if isinstance(e, SyntaxError) else str(e) or type(e).__name__
            found.append(Finding("syntax", names[0], line, f"it is not valid Python: {reason}"))
    try:
        found += _of_parts(files, parts, memory_bytes)
    except RecursionError:
        longest = max(parts.values(), key=lambda m: len(m.text)).name
        found.append(Finding("syntax", longest, 0, "expressions are nested too deeply"))
    order = {m.name: i for i, m in enumerate(parts.values())}
    unique = dict.fromkeys(found)
    return tuple(sorted(unique, key=lambda f: (order.get(f.file, 9), f.line, f.rule, f.what)))


def _of_parts(
    files: Mapping[str, str], parts: Mapping[str, Module], memory_bytes: int
) -> Iterator[Finding]:
    defined = {
        parts[p].name.removesuffix(".py"): {f.name for f in parts[p].functions}
        for p in ("kernel", "baseline")
        if p in parts
    }
    if "kernel" in parts and "baseline" in parts:
        yield from function_findings(parts["kernel"], parts["baseline"])
    if "accuracy" in parts:
        yield from accuracy_findings(parts["accuracy"], memory_bytes)
        yield from import_findings(parts["accuracy"], defined)
    if "performance" in parts:
        yield from performance_findings(parts["performance"], memory_bytes)
        yield from import_findings(parts["performance"], defined)
    if len(parts) < len(_PARTS):
        return
    operator = parts["kernel"].name.removesuffix(_PARTS["kernel"])
    tests = {parts[p].name.removesuffix(_PARTS[p]) for p in ("accuracy", "performance")}
    if f"test_{operator}" in tests:
        wrapper = parts["kernel"].wrapper
        yield from converter_findings(files, parts, wrapper.name if wrapper else operator)
