"""A file as a syntax tree: its functions, and the data flow between names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Module", "dotted", "flows", "number_of"]

#: Attributes of a tensor that do not depend on its elements.
_SHAPES = frozenset(
    (
        *("shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_npu", "is_cpu", "numel"),
        *("dim", "size", "stride", "is_contiguous", "is_floating_point", "is_complex", "itemsize"),
        *("element_size", "data_ptr", "storage_offset", "requires_grad", "nelement"),
    )
)
#: Functions that make a tensor like another one without reading its elements.
_LIKE = frozenset(("empty_like", "zeros_like", "ones_like", "full_like", "isinstance", "len"))


def dotted(node: ast.AST) -> str:
    """Return a dotted name, such as ``triton.jit``; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def number_of(node: ast.AST) -> int | None:
    """Return the value of an integer, or a product or power of integers, up to 2^63; None for anything else."""
    found: int | None = None
    if isinstance(node, ast.Constant) and type(node.value) is int:
        found = node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Pow):
        a, b = number_of(node.left), number_of(node.right)
        if a is not None and b is not None:
            found = a * b if isinstance(node.op, ast.Mult) else a ** min(b, 64) if b >= 0 else None
    return None if found is None else min(found, 1 << 63)


def elements(node: ast.AST) -> Iterator[str]:
    """Yield the names whose elements an expression reads."""
    left = [node]
    while left:
        n = left.pop()
        if isinstance(n, ast.Attribute) and n.attr in _SHAPES:
            continue
        if isinstance(n, ast.Call) and dotted(n.func).rpartition(".")[2] in _LIKE:
            continue
        if isinstance(n, ast.Name):
            yield n.id
        left += ast.iter_child_nodes(n)


def flows(body: list[ast.stmt], start: str) -> set[str]:
    """Return the names whose values derive from ``start`` through assignments, in-place methods and loops."""
    found = {start}
    while True:
        before = len(found)
        for node in (n for s in body for n in ast.walk(s)):
            value, targets = _assigned(node)
            if value is not None and found & set(elements(value)):
                found.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        if len(found) == before:
            return found


def _assigned(node: ast.AST) -> tuple[ast.AST | None, list[ast.expr]]:
    if isinstance(node, ast.Assign):
        return node.value, node.targets
    if isinstance(node, ast.AugAssign | ast.NamedExpr) or (
        isinstance(node, ast.AnnAssign) and node.value is not None
    ):
        return node.value, [node.target]
    if isinstance(node, ast.For | ast.comprehension):
        return node.iter, [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        # x.copy_(y) changes x.
        in_place = node.func.attr.endswith("_") and not node.func.attr.startswith("_")
        return (ast.Tuple(node.args, ast.Load()), [node.func.value]) if in_place else (None, [])
    return None, []


@dataclass(frozen=True)
class Module:
    """One file.

    Attributes:
        name: name of the file.
        text: its text.
        tree: its syntax tree.
    """

    name: str
    text: str
    tree: ast.Module

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """The functions at module level."""
        return [n for n in self.tree.body if isinstance(n, ast.FunctionDef)]

    @cached_property
    def kernels(self) -> list[ast.FunctionDef]:
        """The Triton kernels: functions with a decorator that is, or ends in, ``jit``."""
        return [f for f in self.functions if any(map(_is_jit, f.decorator_list))]

    @cached_property
    def plain(self) -> list[ast.FunctionDef]:
        """The functions without decorators."""
        return [f for f in self.functions if not f.decorator_list]

    def calls(self) -> Iterator[ast.Call]:
        """Yield every call, in source order."""
        found = (n for n in ast.walk(self.tree) if isinstance(n, ast.Call))
        return iter(sorted(found, key=lambda n: (n.lineno, n.col_offset)))

    @cached_property
    def wrapper(self) -> ast.FunctionDef | None:
        """The function that launches kernels; without a launch, the last undecorated one."""
        names = {k.name for k in self.kernels}
        for f in reversed(self.plain):
            if any(c for c in launches(f) if dotted(c.func.value) in names):  # type: ignore[attr-defined]
                return f
        return self.plain[-1] if self.plain else None


def launches(function: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls of the form ``name[...](...)``."""
    return [
        n
        for n in ast.walk(function)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript) and dotted(n.func.value)
    ]


def _is_jit(decorator: ast.expr) -> bool:
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    return dotted(inner).rpartition(".")[2] == "jit"
