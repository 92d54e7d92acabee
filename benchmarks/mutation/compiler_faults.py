"""Typical maintainer's mistakes as faults in Python files of the compiler: positions, and the changed text."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

__all__ = ["AREAS", "Fault", "drawn", "faults_of", "is_in_function"]

#: Area of the compiler -> its folders.
AREAS: Mapping[str, str] = {
    "implgraph": "implgraph",
    "schedule": "schedule",
    "codegen": "codegen",
    "torch": "autofuse/clients/torch",
    "frontends": "autofuse/frontends",
}
_COMPARED: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_COMPUTED: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: Statements that contain only text or types, and calls whose arguments are text.
_WORDS = (ast.Raise, ast.Assert, ast.AnnAssign, ast.Import, ast.ImportFrom)
_SPOKEN = {"Wording", "AutofuseError", "of", "refused", "TypeVar", "cast"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of a file.

    Attributes:
        path: path of the file, from the root of the repository.
        line: first changed line.
        start: first replaced byte.
        end: byte after the replaced text.
        now: replacement text.
        kind: kind of change.
    """

    path: str
    line: int
    start: int
    end: int
    now: str
    kind: str

    @property
    def name(self) -> str:
        """Name that is stable while the file does not change."""
        return f"{self.path}:{self.line}:{self.start}:{self.kind}"

    def applied(self, text: bytes) -> bytes:
        """Return the text of the file with the fault."""
        return text[: self.start] + self.now.encode() + text[self.end :]


class _Places:
    """Byte offsets of the nodes of a file."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def start(self, n: ast.expr | ast.stmt) -> int:
        return self.starts[n.lineno - 1] + n.col_offset

    def end(self, n: ast.expr | ast.stmt) -> int:
        assert n.end_lineno is not None
        assert n.end_col_offset is not None
        return self.starts[n.end_lineno - 1] + n.end_col_offset

    def of(self, n: ast.expr | ast.stmt) -> str:
        return self.text[self.start(n) : self.end(n)].decode()


def faults_of(path: str, text: bytes) -> Iterator[Fault]:
    """Yield every possible fault of a file, in line order."""
    places = _Places(text)
    found = [f for n in _looked_at(ast.parse(text)) for f in _changes(n, places, path)]
    yield from sorted(found, key=lambda f: (f.start, f.kind))


def is_in_function(root: Path, fault: Fault) -> bool:
    """Return True if the changed line is in the body of a function, False if it runs when its module is imported."""
    tree = ast.parse((root / fault.path).read_bytes())
    return any(
        isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and (n.body if isinstance(n, ast.Lambda) else n.body[0]).lineno <= fault.line
        and fault.line <= (n.end_lineno or 0)
        for n in ast.walk(tree)
    )


def _looked_at(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that compute, without annotations, field defaults, docstrings, messages and checks of ``zip``."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        n = waiting.pop()
        if isinstance(n, _WORDS) or (isinstance(n, ast.If) and _is_for_types(n)):
            continue
        if isinstance(n, ast.Call) and _called(n) in _SPOKEN:
            continue
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*n.body, *n.args.defaults, *(d for d in n.args.kw_defaults if d)]
            continue
        if isinstance(n, ast.ClassDef):
            waiting += n.body
            continue
        if isinstance(n, ast.JoinedStr) or (isinstance(n, ast.keyword) and n.arg == "strict"):
            continue
        yield n
        waiting += ast.iter_child_nodes(n)


def _is_for_types(n: ast.If) -> bool:
    return isinstance(n.test, ast.Name) and n.test.id == "TYPE_CHECKING"


def _called(n: ast.Call) -> str:
    f = n.func
    return f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else ""


def _changes(n: ast.AST, at: _Places, path: str) -> Iterator[Fault]:
    def between(a: ast.expr, b: ast.expr, was: str, now: str, kind: str) -> Iterator[Fault]:
        start, end = at.end(a), at.start(b)
        found = at.text[start:end].find(was.encode())
        if found >= 0:
            begin = start + found
            yield Fault(path, _line(at, begin), begin, begin + len(was), now, kind)

    def whole(x: ast.expr | ast.stmt, now: str, kind: str) -> Fault:
        return Fault(path, x.lineno, at.start(x), at.end(x), now, kind)

    if isinstance(n, ast.Compare):
        sides = [n.left, *n.comparators]
        for op, a, b in zip(n.ops, sides, sides[1:], strict=False):
            yield from between(a, b, *_COMPARED[type(op)], "comparison")
    elif isinstance(n, ast.BoolOp):
        was, now = ("and", "or") if isinstance(n.op, ast.And) else ("or", "and")
        for a, b in zip(n.values, n.values[1:], strict=False):
            yield from between(a, b, was, now, "junction")
    elif isinstance(n, ast.BinOp) and type(n.op) in _COMPUTED and not _is_text(n):
        yield from between(n.left, n.right, *_COMPUTED[type(n.op)], "operator")
    elif isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not):
        yield whole(n, f"({at.of(n.operand)})", "negation")
    elif isinstance(n, ast.Constant) and type(n.value) is int:
        yield whole(n, str(n.value + 1), "number")
    elif isinstance(n, ast.Constant) and type(n.value) is bool:
        yield whole(n, str(not n.value), "truth")
    elif isinstance(n, ast.If | ast.While | ast.IfExp):
        yield whole(n.test, f"(not ({at.of(n.test)}))", "condition")
    elif isinstance(n, ast.comprehension):
        for test in n.ifs:
            yield whole(test, f"(not ({at.of(test)}))", "filter")
    elif isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in _CALLED:
        yield whole(n.func, _CALLED[n.func.id], "call")
    elif isinstance(n, ast.Continue):
        yield whole(n, "break", "jump")
    elif isinstance(n, ast.AugAssign) or (
        isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)
    ):
        yield whole(n, "pass", "statement")


def _line(at: _Places, offset: int) -> int:
    return at.text.count(b"\n", 0, offset) + 1


def _is_text(n: ast.BinOp) -> bool:
    """Return True if an operand shows a text or list concatenation, where another operator is an unlikely mistake."""
    sides = (n.left, n.right)
    shown = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    return any(
        isinstance(x, shown) or (isinstance(x, ast.Constant) and isinstance(x.value, str))
        for x in sides
    )


def drawn(root: Path, count: int, seed: int) -> list[Fault]:
    """Return ``count`` faults, equally many per area and at most one per line, with areas interleaved."""
    rng = random.Random(seed)
    chosen: list[list[Fault]] = []
    for folder in AREAS.values():
        lines = _by_line(root, folder)
        some = rng.sample(sorted(lines), -(-count // len(AREAS)))
        chosen.append([rng.choice(lines[x]) for x in some])
    return [f for fs in zip(*chosen, strict=True) for f in fs][:count]


@lru_cache(maxsize=len(AREAS))
def _by_line(root: Path, folder: str) -> Mapping[tuple[str, int], Sequence[Fault]]:
    """Return every fault of a folder's files, by path and line."""
    lines: dict[tuple[str, int], list[Fault]] = {}
    for path in sorted((root / folder).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        for f in faults_of(name, path.read_bytes()):
            lines.setdefault((name, f.line), []).append(f)
    return lines
