"""The parameters of a Python function that a graph was recorded from, and their mapping to the graph's inputs."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias

from autofuse.codegen.backends.triton.python_text import Names
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["Argument", "Call", "Kind", "is_literal", "literal"]

Kind: TypeAlias = Literal["positional", "either", "keyword"]
#: Kind of a parameter -> its rank; a separator stands between parameters of different rank.
_ORDER: Mapping[Kind, int] = {"positional": 0, "either": 1, "keyword": 2}
_DTYPE = re.compile(r"torch\.(bool|(float|bfloat|u?int|complex)[0-9]+)")
#: Builtins that the text of functions refers to; a parameter of this name would shadow them.
_CALLED = frozenset(
    ("ValueError", "float", "hasattr", "int", "isinstance", "len", "max", "min", "tuple")
)
_IMPORTS = {
    "tl": "import triton.language as tl",
    "torch": "import torch",
    "triton": "import triton",
}


def literal(value: object) -> str | None:
    """Return a value as Python text; None unless it is a number, a string, a dtype, or a tuple of these."""
    if value is None or type(value) in (bool, int):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if type(value) is str:
        return ascii(value)
    if type(value) in (tuple, list):
        parts = [literal(v) for v in value]  # type: ignore[attr-defined]
        known = [p for p in parts if p is not None]
        if len(known) < len(parts):
            return None
        inside = ", ".join(known)
        if type(value) is list:
            return f"[{inside}]"
        return f"({inside},)" if len(known) == 1 else f"({inside})"
    text = str(value)
    return text if type(value).__name__ == "dtype" and _DTYPE.fullmatch(text) else None


def is_literal(text: str) -> bool:
    """Return True if :func:`literal` can return the text."""
    try:
        return literal(_parsed(text)) == text
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


@dataclass(frozen=True, slots=True)
class _Dtype:
    text: str

    def __str__(self) -> str:
        return self.text


_Dtype.__name__ = "dtype"


def _parsed(text: str) -> object:
    """Parse a text of :func:`literal`."""
    return _value(ast.parse(text, mode="eval").body)


def _value(node: ast.expr) -> object:
    """Evaluate a text of :func:`literal`; raise ValueError for any other."""
    if isinstance(node, ast.Tuple | ast.List):
        values = [_value(n) for n in node.elts]
        return tuple(values) if isinstance(node, ast.Tuple) else values
    if isinstance(node, ast.Attribute | ast.Call):
        text = ast.unparse(node)
        if _DTYPE.fullmatch(text):
            return _Dtype(text)
        if text in ("float('inf')", "float('-inf')", "float('nan')"):
            return float(text[7:-2])
        raise ValueError(text)
    return ast.literal_eval(node)


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a function.

    Attributes:
        name: parameter name.
        kind: passed by position, by name, or either.
        input: the graph input that it is; empty for a value that the graph is specialised for.
        value: that value, as Python text.
        default: default value, as Python text; empty without one.
        weight: for a module, the tensor name of this input; empty for a parameter of its function.
    """

    name: str
    kind: Kind = "either"
    input: str = ""
    value: str = ""
    default: str = ""
    weight: str = ""

    @property
    def annotation(self) -> str:
        """Return the type annotation of the parameter."""
        if self.input:
            return "torch.Tensor"
        if self.value.startswith("torch."):
            return "torch.dtype"
        kind = type(_parsed(self.value))
        return "None" if kind is type(None) else kind.__name__


@frozen
class Call:
    """The parameters of a function, in order.

    Attributes:
        arguments: all inputs of the graph, and the values that the function was recorded with.
        exact: the function distinguishes an integer from a float of the same value.
    """

    arguments: tuple[Argument, ...]
    exact: bool = False

    @classmethod
    def of(cls, arguments: Sequence[Argument], graph: FusionGraph) -> Call:
        """Return the call of a graph's function; with integer inputs, the type of a number affects the result."""
        exact = any(graph.tensors[t].dtype.kind != "f" for t in graph.inputs)
        return cls(tuple(arguments), exact)

    @property
    def is_possible(self) -> bool:
        """Return True if Python accepts the parameters in this order."""
        kinds = [_ORDER[a.kind] for a in self.arguments]
        given = [bool(a.default) for a in self.arguments if a.kind != "keyword"]
        return kinds == sorted(kinds) and given == sorted(given)

    def parameters(self, more: Sequence[str], *, annotated: bool) -> str:
        """Return the parameter list of ``def``.

        Args:
            more: keyword-only parameters, placed last.
            annotated: include type annotations.
        """
        out: list[str] = []
        before = 0
        for a in self.arguments:
            now = _ORDER[a.kind]
            out += ["/"] if before == 0 and now > 0 and out else []
            out += ["*"] if before < 2 <= now else []
            before = now
            text = f"{a.name}: {a.annotation}" if annotated else a.name
            equals = " = " if annotated else "="
            out.append(f"{text}{equals}{a.default}" if a.default else text)
        out += ["/"] if before == 0 and out else []
        out += ["*"] if more and before < 2 else []
        return ", ".join([*out, *more])

    def opening(self, inputs: Mapping[str, str], functions: Sequence[str] = ()) -> Iterator[str]:
        """Yield the first lines of the function: they bind inputs to their names in the text, and check values.

        Args:
            inputs: input of the graph -> its name in the text.
            functions: module functions that the text calls.
        """
        names = Names(inputs.values())
        own = {
            a.name: inputs[a.input] if a.input else self._own(a, names, functions)
            for a in self.arguments
        }
        moved = {n: w for n, w in own.items() if n != w}
        if moved:
            yield f"{', '.join(moved.values())} = {', '.join(moved)}"
        for name in moved:
            if name in _IMPORTS:
                yield _IMPORTS[name]
            elif name in _CALLED:
                yield f"from builtins import {name}"
            elif name in functions:
                yield f'{name} = globals()["{name}"]'
        for a in self.arguments:
            if not a.input:
                yield f"if {self._differs(a, own[a.name])}:"
                what = f"{a.name}={a.value}"
                text = f"generated for {what}: describe the function again for another value"
                yield f"    raise ValueError({text!a})"

    @staticmethod
    def _own(a: Argument, names: Names, functions: Sequence[str]) -> str:
        hides = a.name in _CALLED or a.name in _IMPORTS or a.name in functions
        return names.take(a.name) if hides else a.name

    def _differs(self, a: Argument, name: str) -> str:
        """Return a Python condition that is true if a value differs from the graph's."""
        value = _parsed(a.value)
        if value is None or isinstance(value, bool):
            return f"{name} is not {a.value}"
        if not isinstance(value, int | float):
            return f"{name} != {a.value}"
        kinds = type(value).__name__ if self.exact else "(int, float)"
        same = (
            f"{name} != {name}"
            if isinstance(value, float) and math.isnan(value)
            else f"{name} == {a.value}"
        )
        return f"not isinstance({name}, {kinds}) or not {same}"

    def bound(self, inputs: Mapping[str, Any], torch: object) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and keyword arguments of a call, with the values that the graph is specialised for.

        Args:
            inputs: tensors, by their names in the graph.
            torch: the module ``torch``, for its dtypes.
        """

        def value_of(a: Argument) -> Any:
            if a.input:
                return inputs[a.input]
            value = _parsed(a.value)
            return (
                getattr(torch, value.text.partition(".")[2]) if isinstance(value, _Dtype) else value
            )

        by_name = {a.name: value_of(a) for a in self.arguments if a.kind == "keyword"}
        return [value_of(a) for a in self.arguments if a.kind != "keyword"], by_name

    def text(self, every: str, some: Callable[[str], str], one: Callable[[int], str]) -> str:
        """Return the arguments of a call as Python text.

        Args:
            every: all inputs of the graph, starred.
            some: the inputs of a slice such as ``1:3``, starred.
            one: an input by index.
        """
        count = sum(bool(a.input) for a in self.arguments)
        out: list[str] = []
        k = 0
        for starred, run in groupby(
            self.arguments, lambda a: bool(a.input) and a.kind != "keyword"
        ):
            if starred:
                first, k = k, k + len(list(run))
                whole = k - first == count
                out.append(every if whole else some(f"{first or ''}:{k if k < count else ''}"))
                continue
            for a in run:
                text = one(k) if a.input else a.value
                k += bool(a.input)
                out.append(f"{a.name}={text}" if a.kind == "keyword" else text)
        return ", ".join(out)
