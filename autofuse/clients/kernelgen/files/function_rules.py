"""Rules that check whether kernels and baseline share an interface and use the same inputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autofuse.base.wording import counted
from autofuse.clients.kernelgen.files.finding import Finding
from autofuse.clients.kernelgen.files.syntax import Module, dotted, elements, flows, launches

__all__ = ["function_findings"]

_DECORATORS = ("triton.jit", "triton.autotune", "triton.heuristics")


def function_findings(kernel: Module, baseline: Module) -> Iterator[Finding]:
    """Yield findings on the two files that define the operator."""
    yield from _kernels(kernel)
    yield from _names_twice(kernel)
    base = baseline.plain[0] if baseline.plain else None
    if base is None:
        yield Finding("name", baseline.name, 0, "there is no function")
    if kernel.wrapper is None or base is None:
        return
    yield from _interface(kernel, baseline, kernel.wrapper, base)
    yield from _inputs(kernel, baseline, kernel.wrapper, base)


def _kernels(m: Module) -> Iterator[Finding]:
    if not m.kernels:
        yield Finding("kernel", m.name, 0, "there is no kernel")
    if not m.plain:
        yield Finding("kernel", m.name, 0, "there is no function that launches a kernel")
    for f in m.functions:
        for d in f.decorator_list:
            inner = d.func if isinstance(d, ast.Call) else d
            if dotted(inner) not in _DECORATORS:
                what = f"{f.name} has the decorator {ast.unparse(d)}"
                yield Finding("decorators", m.name, d.lineno, what)
    for f in m.plain:
        for c in ast.walk(f):
            if isinstance(c, ast.Call) and dotted(c.func) in {k.name for k in m.kernels} - {f.name}:
                yield Finding(
                    "launch", m.name, c.lineno, f"{f.name} calls {dotted(c.func)} without a grid"
                )


def _names_twice(m: Module) -> Iterator[Finding]:
    seen: dict[str, ast.FunctionDef] = {}
    for f in m.functions:
        if f.name in seen:
            what = f"{f.name} is also the name of the function in line {seen[f.name].lineno}"
            if any(dotted(c.func.value) == f.name for c in launches(f)):  # type: ignore[attr-defined]
                what += ", and so it calls itself instead of the kernel"
            yield Finding("one-name", m.name, f.lineno, what)
        seen[f.name] = f


# the interface --------------------------------------------------------------------------------
def _interface(
    kernel: Module, baseline: Module, f: ast.FunctionDef, base: ast.FunctionDef
) -> Iterator[Finding]:
    if f.name != base.name:
        what = f"the function is {base.name}, but that of {kernel.name} is {f.name}"
        yield Finding("name", baseline.name, base.lineno, what)
    if _parameters(f.args) != _parameters(base.args):
        what = f"the parameters are ({_plain(base.args)}), but those of {kernel.name} are ({_plain(f.args)})"
        yield Finding("parameters", baseline.name, base.lineno, what)
    for m, g in ((kernel, f), (baseline, base)):
        for a in (*g.args.posonlyargs, *g.args.args):
            if a.annotation is None:
                what = f"the parameter {a.arg} of {g.name} has no annotation"
                yield Finding("annotations", m.name, a.lineno, what)
        if g.returns is None:
            yield Finding("returns", m.name, g.lineno, f"{g.name} has no return annotation")
    if _parameters(f.args) == _parameters(base.args) and _said(f.args) != _said(base.args):
        what = f"the annotations differ from those of {kernel.name}"
        yield Finding("annotations", baseline.name, base.lineno, what)
    if f.returns is not None and base.returns is not None:
        ours, theirs = ast.unparse(base.returns), ast.unparse(f.returns)
        if ours != theirs:
            what = f"{base.name} returns {ours}, but {kernel.name} returns {theirs}"
            yield Finding("returns", baseline.name, base.lineno, what)
    counts = _counts(f), _counts(base)
    if all(len(c) == 1 for c in counts) and counts[0] != counts[1]:
        what = f"it has {counted(min(counts[1]), 'result')}, but {kernel.name} has {min(counts[0])}"
        yield Finding("returns", baseline.name, base.lineno, what)


def _parameters(a: ast.arguments) -> tuple[object, ...]:
    def names(args: list[ast.arg]) -> tuple[str, ...]:
        return tuple(x.arg for x in args)

    def values(defaults: list[ast.expr] | list[ast.expr | None]) -> tuple[str, ...]:
        return tuple("" if d is None else ast.unparse(d) for d in defaults)

    return (
        names(a.posonlyargs + a.args),
        names(a.kwonlyargs),
        values(a.defaults),
        values(a.kw_defaults),
        a.vararg is None,
        a.kwarg is None,
    )


def _plain(a: ast.arguments) -> str:
    return ", ".join(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs))


def _said(a: ast.arguments) -> tuple[str, ...]:
    every = (*a.posonlyargs, *a.args, *a.kwonlyargs)
    return tuple("" if x.annotation is None else ast.unparse(x.annotation) for x in every)


def _counts(f: ast.FunctionDef) -> set[int]:
    """Return the numbers of values in the function's return statements."""
    found = set()
    for n in ast.walk(f):
        if isinstance(n, ast.Return) and n.value is not None:
            found.add(len(n.value.elts) if isinstance(n.value, ast.Tuple) else 1)
    return found


# the computation ------------------------------------------------------------------------------
def _inputs(
    kernel: Module, baseline: Module, f: ast.FunctionDef, base: ast.FunctionDef
) -> Iterator[Finding]:
    """Yield findings on inputs whose elements only one of the two uses."""
    both = [a.arg for a in f.args.args if a.arg in {b.arg for b in base.args.args}]
    for name in both:
        in_kernel, in_base = _loads(kernel, f, name), _results(base, name)
        if in_base and not in_kernel:
            what = f"no kernel loads {name}, which the baseline uses for its result"
            yield Finding("same-function", kernel.name, f.lineno, what)
        if in_kernel and not in_base:
            what = f"the result does not depend on {name}, which a kernel loads"
            yield Finding("same-function", baseline.name, base.lineno, what)


def _results(f: ast.FunctionDef, name: str) -> bool:
    """Return True if a function's result depends on the elements that a parameter has at the call."""
    made = flows(f.body, name)
    overwritten = {
        dotted(n.func.value): set(elements(ast.Tuple(n.args, ast.Load())))
        for n in ast.walk(f)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "copy_"
    }
    returned = (n.value for n in ast.walk(f) if isinstance(n, ast.Return) and n.value)
    used = {x for v in returned for x in elements(v)}
    return any(overwritten.get(x, {x}) & made for x in used)


def _loads(m: Module, f: ast.FunctionDef, name: str) -> bool:
    """Return True if a kernel loads the parameter it is passed, or the function's result uses it in another way."""
    kernels = {k.name: k for k in m.kernels}
    made = flows(f.body, name)
    launched = launches(f)
    for call in launched:
        k = kernels.get(dotted(call.func.value))  # type: ignore[attr-defined]
        if k is None:
            continue
        names = [a.arg for a in (*k.args.posonlyargs, *k.args.args)]
        given = list(zip(names, call.args, strict=False))
        given += [(w.arg, w.value) for w in call.keywords if w.arg in names]
        for parameter, value in given:
            if made & set(elements(value)) and _reads(k, parameter):
                return True
    # Passing an input as an output is not a use; computation outside the kernels is.
    outside = [s for s in f.body if not any(c in launched for c in ast.walk(s))]
    used = flows(outside, name) - {name}
    returned = [
        n.value for s in outside for n in ast.walk(s) if isinstance(n, ast.Return) and n.value
    ]
    passed = {x for c in launched for v in c.args for x in elements(v)}
    return (
        any((used | {name}) & set(elements(r)) for r in returned) and not (used | {name}) & passed
    )


def _reads(k: ast.FunctionDef, parameter: str) -> bool:
    """Return True if a kernel loads from a pointer, uses it in an atomic, or passes it to another function."""
    made = flows(k.body, parameter)
    for n in ast.walk(k):
        if not isinstance(n, ast.Call):
            continue
        word = dotted(n.func)
        given = {x for v in (*n.args, *(w.value for w in n.keywords)) for x in elements(v)}
        if made & given and (word.endswith(".load") or ".atomic_" in word):
            return True
        if made & given and word and "." not in word and word not in ("range", "min", "max"):
            return True
    return False
