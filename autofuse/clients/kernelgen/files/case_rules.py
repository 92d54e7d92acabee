"""Rules that check whether the tests of an operator test what they claim."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from autofuse.clients.kernelgen.files.finding import Finding
from autofuse.clients.kernelgen.files.syntax import Module, dotted, flows, number_of

__all__ = ["accuracy_findings", "import_findings", "performance_findings"]

#: Bytes per element of the dtypes that tests name; others count as float32.
_BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "bool": 1}
_RANDOM = frozenset(("randn", "rand", "randint", "normal", "normal_", "uniform_", "randn_like"))
_RANDOM |= frozenset(("rand_like", "exponential_", "full", "ones", "zeros", "linspace", "arange"))
_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "perf_counter")
#: Tensors in memory besides the inputs: the results of kernel and baseline.
_RESULTS = 2


def accuracy_findings(m: Module, memory_bytes: int) -> Iterator[Finding]:
    """Yield findings on the data of an accuracy test."""
    yield from _memory(m, memory_bytes)
    yield from _distributions(m)


def performance_findings(m: Module, memory_bytes: int) -> Iterator[Finding]:
    """Yield findings on the shapes and the timing of a performance test."""
    yield from _memory(m, memory_bytes)
    yield from _times(m)
    for c in m.calls():
        if dotted(c.func).rpartition(".")[2] == "to_reference":
            what = "a tensor is converted for the reference, and timed"
            yield Finding("timed-input", m.name, c.lineno, what)
            return


def import_findings(m: Module, defined: dict[str, set[str]]) -> Iterator[Finding]:
    """Yield findings on imports of names that the other files do not define.

    Args:
        m: a test.
        defined: file without ``.py`` -> its functions, of the kernels and of the baseline.
    """
    for n in ast.walk(m.tree):
        if not isinstance(n, ast.ImportFrom) or n.module is None or n.level:
            continue
        like = n.module.endswith(("_triton", "_baseline"))
        if n.module in defined:
            for a in n.names:
                if a.name not in defined[n.module]:
                    yield Finding(
                        "import", m.name, n.lineno, f"{n.module} has no function {a.name}"
                    )
        elif like:
            yield Finding("import", m.name, n.lineno, f"there is no file {n.module}.py")


# memory ---------------------------------------------------------------------------------------
def _memory(m: Module, memory_bytes: int) -> Iterator[Finding]:
    tensors = sum(
        1
        for c in m.calls()
        if dotted(c.func).rpartition(".")[2] in _RANDOM and c.args and dotted(c.args[0]) == "shape"
    )
    width = max((w for w in map(_width, ast.walk(m.tree)) if w), default=4)
    sizes = any(isinstance(n, ast.Assign) and dotted(n.value) == "shape" for n in ast.walk(m.tree))
    for shape in _shapes(m) if tensors or not sizes else ():
        # If a case holds the sizes of several tensors, no product is known to be the size of one.
        size = math.prod(shape[1])
        needed = size * width * (max(tensors, 1) + _RESULTS)
        if needed > memory_bytes:
            text = ", ".join(map(str, shape[1]))
            what = (
                f"({text}) needs {needed / 2**30:.1f} GiB for inputs and results, but there are "
                f"{memory_bytes / 2**30:.1f} GiB"
            )
            yield Finding("memory", m.name, shape[0], what)


def _width(node: ast.AST) -> int:
    return _BYTES.get(node.attr, 0) if isinstance(node, ast.Attribute) else 0


def _shapes(m: Module) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the tuples of numbers in lists of tuples, with their lines."""
    for n in ast.walk(m.tree):
        if not isinstance(n, ast.List | ast.Tuple) or not n.elts:
            continue
        for e in n.elts:
            if isinstance(e, ast.Tuple) and e.elts:
                numbers = [number_of(x) for x in e.elts]
                if all(x is not None for x in numbers):
                    yield e.lineno, tuple(x for x in numbers if x is not None)


# data -----------------------------------------------------------------------------------------
def _distributions(m: Module) -> Iterator[Finding]:
    """Yield a finding if all floats are drawn by one function, without a varying factor or summand."""
    drawn = [c for c in m.calls() if dotted(c.func).rpartition(".")[2] in _RANDOM - {"randint"}]
    if not drawn or len({dotted(c.func).rpartition(".")[2] for c in drawn}) > 1:
        return
    names = {id(c) for c in drawn}
    for n in ast.walk(m.tree):
        if not isinstance(n, ast.BinOp) or not isinstance(n.op, ast.Mult | ast.Add):
            continue
        varies = isinstance(n.left, ast.Name) or isinstance(n.right, ast.Name)
        if varies and any(id(x) in names for x in ast.walk(n)):
            return
    what = f"all data come from {ast.unparse(drawn[0].func)}, with one size"
    yield Finding("data", m.name, drawn[0].lineno, what)


# times ----------------------------------------------------------------------------------------
def _times(m: Module) -> Iterator[Finding]:
    for c in m.calls():
        if dotted(c.func) == "time.time":
            yield Finding("clock", m.name, c.lineno, "times are differences of time.time()")
            break
    for scope in (*_functions(m), None):
        body = m.tree.body if scope is None else scope.body
        yield from _seconds(m, body)


def _functions(m: Module) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(m.tree) if isinstance(n, ast.FunctionDef)]


def _seconds(m: Module, body: list[ast.stmt]) -> Iterator[Finding]:
    """Yield findings on clock values printed as milliseconds without a factor of 1000."""
    nodes = [n for s in body for n in _own(s)]
    assigned = [n for n in nodes if isinstance(n, ast.Assign)]
    clocks = [n for n in assigned if any(_is_clock(x) for x in ast.walk(n.value))]
    seconds: set[str] = set()
    for n in clocks:
        for t in n.targets:
            if isinstance(t, ast.Name):
                seconds |= flows(list(body), t.id)
    scaled = {
        t.id
        for n in assigned
        if any(_is_thousand(x) for x in ast.walk(n.value))
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    for name in scaled:
        seconds -= flows(list(body), name)
    for text in nodes:
        if not isinstance(text, ast.JoinedStr):
            continue
        for value, after in zip(text.values, text.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not _says_ms(after):
                continue
            used = {x.id for x in ast.walk(value.value) if isinstance(x, ast.Name)}
            if used & seconds and not any(_is_thousand(x) for x in ast.walk(value.value)):
                what = f"{ast.unparse(value.value)} is in seconds, but printed as ms"
                yield Finding("milliseconds", m.name, text.lineno, what)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without those of nested functions."""
    left = [node]
    while left:
        n = left.pop()
        if not isinstance(n, ast.FunctionDef):
            yield n
            left += ast.iter_child_nodes(n)


def _is_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in _CLOCKS


def _is_thousand(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in (1000, 1e6, 1e-3, 1000000)


def _says_ms(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return node.value.lstrip().split(" ")[0].rstrip(".,;:)\n") in ("ms", "milliseconds", "msec")
