"""KernelIR as text and as JSON: one statement per line, fields by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from autofuse.codegen.ir.kernel_ir import KernelFn
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType

__all__ = ["kernel_json", "kernel_text"]


def kernel_text(function: KernelFn) -> str:
    """Return the statements of a function, loops indented."""
    head = [*(f"# {line}" for line in function.title), f"kernel {function.name}"]
    return "\n".join([*head, *_lines(function.body, "  ")]) + "\n"


def _lines(body: tuple[Any, ...], indent: str) -> Iterator[str]:
    for s in body:
        shown = [(f.name, getattr(s, f.name)) for f in fields(s)]
        words = [f"{n}={_value(v)}" for n, v in shown if n != "body" and v not in ("", (), None)]
        yield " ".join([f"{indent}{type(s).__name__}", *words])
        yield from _lines(getattr(s, "body", ()), indent + "  ")


def _value(v: object) -> str:
    if isinstance(v, tuple):
        return f"[{', '.join(map(_value, v))}]"
    if isinstance(v, Enum):
        return str(v.value)
    if is_dataclass(v) and not isinstance(v, DType | type):
        inner = [
            _value(getattr(v, f.name)) for f in fields(v) if getattr(v, f.name) not in ((), "")
        ]
        return f"{type(v).__name__}({', '.join(inner)})"
    return repr(v) if isinstance(v, str) and " " in v else str(v)


def kernel_json(value: object) -> Any:
    """Return a statement, an argument or a function as plain data; ``kind`` names the class."""
    if isinstance(value, DType | Expr):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        members = {f.name: kernel_json(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, **members}
    if isinstance(value, tuple):
        return [kernel_json(v) for v in value]
    return value
