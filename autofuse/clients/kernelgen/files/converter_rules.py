"""Requirements on the four files by KernelGen's converter to FlagGems, which reads them by text patterns.

The converter tells the files apart by content, takes one function of the baseline and of both tests, and replaces
KernelGen's names with those of pytest and FlagGems.  It silently keeps text that matches no pattern.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping

from autofuse.clients.kernelgen.files.finding import Finding
from autofuse.clients.kernelgen.files.syntax import Module, dotted

__all__ = ["converter_findings", "recognised"]

_BUILTINS = frozenset(dir(builtins))


def recognised(files: Mapping[str, str]) -> dict[str, str]:
    """Return the file the converter picks for each part: ``kernel``, ``baseline``, ``accuracy``, ``performance``."""
    found: dict[str, str] = {}
    for name, text in files.items():
        if "triton.jit" in text:
            found["kernel"] = name
        elif "def " in text and "torch.Tensor" in text and "@" not in text:
            found["baseline"] = name
        elif "@label" in text or "@parametrize" in text:
            word = "accuracy" if "accuracy" in name.lower() else "performance"
            found[word] = name
    return found


def converter_findings(
    files: Mapping[str, str], parts: Mapping[str, Module], operator: str
) -> Iterator[Finding]:
    """Yield findings on files that the converter would refuse, or convert to code that does not run.

    Args:
        files: all files of the folder.
        parts: kernel, baseline, accuracy and performance.
        operator: name passed to the converter.
    """
    extra = [n for n in files if n.endswith(".py") and n not in {m.name for m in parts.values()}]
    for name in extra:
        yield Finding("file", name, 0, "the converter takes only folders with four Python files")
    yield from _baseline(parts["baseline"])
    taken = recognised({m.name: m.text for m in parts.values()})
    for part in ("accuracy", "performance"):
        yield from _test(parts[part], part, operator)
    for part, m in parts.items():
        if taken.get(part) != m.name and not (part == "baseline" and "@" in m.text):
            rule = {"kernel": "kernel", "baseline": "annotations"}.get(part, "label")
            yield Finding(
                rule, m.name, 0, f"the converter does not recognise this file as the {part}"
            )


def _baseline(m: Module) -> Iterator[Finding]:
    for number, line in enumerate(m.text.splitlines(), 1):
        if "@" in line:
            yield Finding("at-sign", m.name, number, f"there is an @: {line.strip()[:60]}")
    every = [n for n in ast.walk(m.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for f in sorted(every, key=lambda n: n.lineno)[1:]:
        yield Finding("one-function", m.name, f.lineno, f"{f.name} is a second function")
    if m.plain:
        yield from _unknown(m, m.plain[0], {"torch"})


def _unknown(m: Module, f: ast.FunctionDef, known: set[str]) -> Iterator[Finding]:
    """Yield findings on names in a function that are undefined where the converter puts it."""
    bound = {n.id for n in ast.walk(f) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in ast.walk(f) if isinstance(n, ast.arg)}
    for n in ast.walk(f):
        if isinstance(n, ast.Import | ast.ImportFrom):
            bound |= {(a.asname or a.name).partition(".")[0] for a in n.names}
    seen: set[str] = set()
    for n in ast.walk(f):
        if isinstance(n, ast.Name) and n.id not in bound | known | seen | _BUILTINS | {f.name}:
            seen.add(n.id)
            yield Finding("only-torch", m.name, n.lineno, f"{n.id} is defined outside {f.name}")


# tests ----------------------------------------------------------------------------------------
def _test(m: Module, part: str, operator: str) -> Iterator[Finding]:
    for f in m.functions[1:]:
        yield Finding("one-function", m.name, f.lineno, f"{f.name} is a second function")
    if not m.functions:
        yield Finding("test-name", m.name, 0, "there is no function")
        return
    f = m.functions[0]
    label = operator if part == "accuracy" else f"{operator}_benchmark"
    name = f"test_{operator}" if part == "accuracy" else label
    if f.name != name:
        yield Finding("test-name", m.name, f.lineno, f"the test is called {f.name}, not {name}")
    yield from _decorators(m, f, label)
    yield from _calls(m, operator)
    yield from _lines(m, part)
    imported = {
        a.asname or a.name
        for n in m.tree.body
        if isinstance(n, ast.Import | ast.ImportFrom)
        for a in n.names
    }
    known = {"torch", "bench", "device", "triton", "label", "parametrize"}
    if part == "accuracy":
        known |= {x for x in imported if x in ("assert_close", "to_reference")}
        names = (n for n in m.tree.body if isinstance(n, ast.Assign))
        known |= {t.id for n in names for t in n.targets if isinstance(t, ast.Name)}
    yield from _unknown(m, f, known)


def _decorators(m: Module, f: ast.FunctionDef, label: str) -> Iterator[Finding]:
    labels = 0
    for d in f.decorator_list:
        text = ast.get_source_segment(m.text, d) or ""
        if re.match(r'label\(["\']\w+["\']\)$', text):
            labels += 1
            if text[7:-2] != label:
                what = f"the label is {text[7:-2]}, not {label}"
                yield Finding("label", m.name, d.lineno, what)
        elif not re.match(r'parametrize\("\w+(, *\w+)*", *\[', text):
            yield Finding("label", m.name, d.lineno, f"the decorator {text[:60]} is not plain")
    if labels != 1:
        yield Finding("label", m.name, f.lineno, f"{f.name} has {labels} labels")


def _calls(m: Module, operator: str) -> Iterator[Finding]:
    found = set()
    for c in m.calls():
        word = dotted(c.func)
        if word.startswith("bench."):
            found.add(word)
            if word not in (f"bench.{operator}", f"bench.triton.{operator}"):
                yield Finding("calls", m.name, c.lineno, f"{word} is called")
    for word in (f"bench.{operator}", f"bench.triton.{operator}"):
        if word not in found:
            yield Finding("calls", m.name, 0, f"{word} is not called")


def _lines(m: Module, part: str) -> Iterator[Finding]:
    """Yield findings on text that the converter replaces line by line."""
    lines = m.text.splitlines()
    for c in m.calls():
        word, line = dotted(c.func).rpartition(".")[2], lines[c.lineno - 1]
        if word == "assert_close" and not _is_plain_comparison(c, line):
            what = "assert_close(a, b, dtype, ...) is not plain, and is left unchanged"
            yield Finding("one-line", m.name, c.lineno, what)
        if word == "to_reference" and part == "accuracy":
            plain = re.search(r"to_reference\([^,]+,\s*True\)", line)
            if not plain or ast.unparse(c.args[0]) != "input":
                what = f"{ast.unparse(c)} becomes input.cpu(), or is left unchanged"
                yield Finding("reference", m.name, c.lineno, what)
        for k in c.keywords:
            if (
                k.arg == "device"
                and not re.search(r"=\s*device\b", line)
                and c.lineno == c.end_lineno
            ):
                what = f"device={ast.unparse(k.value)} is left unchanged"
                yield Finding("device", m.name, c.lineno, what)


def _is_plain_comparison(c: ast.Call, line: str) -> bool:
    """Return True for a one-line call with two comma-free operands and ``dtype``, then only the closing parenthesis."""
    if c.lineno != c.end_lineno or len(c.args) < 3:
        return False
    found = re.search(r"assert_close\(([^,]+),\s*([^,]+),\s*dtype\b([^()]*)\)", line)
    return found is not None
