"""The first half of a graph file: names, expressions, symbols and inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from autofuse.frontends.builder import GraphBuilder, is_moderate
from autofuse.frontends.graph.model import InputModel, SymbolModel
from autofuse.frontends.json_positions import Findings, escape, quote
from autofuse.frontends.layout import Layout, checked_layout
from autofuse.frontends.pydantic_errors import did_you_mean
from autofuse.implgraph.expr.expression import Expr, ExprError, const, sym
from autofuse.implgraph.expr.parser import Reader
from autofuse.implgraph.ir.dtypes import BY_NAME, FOREIGN, DType, dtype
from autofuse.implgraph.ir.fusion import Symbol, Tensor
from autofuse.implgraph.ir.names import (
    MAX_NAME,
    identifier,
    legal_name,
    symbol_identifier,
    tensor_name,
)

__all__ = ["Definitions", "Shape", "is_symbol", "valid"]

Shape: TypeAlias = tuple[Expr, ...]
#: Most characters of all distinct expressions of a file.
MAX_TEXT = 1 << 16
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def valid(model: type[BaseModel], raw: Any) -> Any:
    """Return the element as a model, or None if its fields have errors (already noted).

    Unknown fields of an element are dropped, so that its other fields are checked too.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as e:
        errors = e.errors(include_url=False, include_context=False)
        if any(x["type"] != "extra_forbidden" or len(x["loc"]) != 1 for x in errors):
            return None
        extra = {x["loc"][0] for x in errors}
        return model.model_validate({k: v for k, v in raw.items() if k not in extra})


def is_symbol(text: str) -> bool:
    """Return True if ``text`` is a legal name of a symbol."""
    return len(text) <= MAX_NAME and _SYMBOL.match(text) is not None


class Definitions:
    """Definitions of a file, by the names in it; only the builder has identifiers."""

    def __init__(self, data: Mapping[str, Any], findings: Findings) -> None:
        self.data = data
        self.findings = findings
        name = data.get("name")
        self.builder = GraphBuilder(findings, name if isinstance(name, str) else "")
        if isinstance(name, str):
            self.check_name(name, "/name", "graph")
        # Symbol of the file -> identifier; None if its definition has an error.
        self.symbols: dict[str, str | None] = {}
        self.any_symbol = False
        self.reader = Reader(
            max_text=MAX_TEXT, known=lambda n: self.any_symbol or n in self.symbols
        )
        # Tensor of the file -> tensor; None: defined, but it has or depends on an error.
        self.tensors: dict[str, Tensor | None] = {}
        self.defined_at: dict[str, str] = {}
        # Some definitions cannot be read, so an undefined tensor may not be a second mistake.
        self.partial = any(not isinstance(data.get(k), list) for k in ("inputs", "nodes"))

    def elements(self, key: str) -> list[Any]:
        """Return the top-level list ``key``; empty if it is missing or not a list."""
        value = self.data.get(key)
        return value if isinstance(value, list) else []

    # names and expressions --------------------------------------------------------------------

    def check_name(self, name: str, pointer: str, what: str) -> bool:
        """Return True if the name is legal; else note AF1105."""
        if legal_name(name):
            return True
        if len(name) > MAX_NAME:
            text = (
                f"the name of a {what} has {len(name)} characters; at most {MAX_NAME} are allowed"
            )
        else:
            text = f"{quote(name)} is not a legal name of a {what}"
        hint = f"use printable characters without a space at either end, such as {quote(identifier(name))}"
        self.findings.add("AF1105", text, pointer, hint=hint)
        return False

    def define(self, name: str, pointer: str) -> bool:
        """Record the definition of a tensor; return False if its name is illegal or taken."""
        if name in self.defined_at:
            text = f"the tensor {quote(name)} is defined twice"
            self.findings.add(
                "AF1106", text, pointer, hint=f"the first definition is at {self.defined_at[name]}"
            )
            return False
        self.defined_at[name] = pointer
        self.tensors[name] = None
        return self.check_name(name, pointer, "tensor")

    def expression(self, raw: int | str, pointer: str) -> Expr | None:
        """Parse a size; return None, with AF1108 or AF1109, if it is wrong."""
        if isinstance(raw, int):
            if raw < 0:
                self.findings.add("AF1109", f"the size {raw} is negative", pointer)
                return None
            return const(raw)
        try:
            e = self.reader.read(raw)
            if not is_moderate(e):
                raise ExprError("the numbers are too large")
        except ValueError as error:
            hint = ""
            unknown = re.match(r"unknown symbol '(\w+)'", str(error))
            if unknown and not self.findings.is_long:
                hint = did_you_mean(unknown.group(1), self.symbols) or 'define it in "symbols"'
            shift = max(getattr(error, "position", 0), 0) + 1
            self.findings.add("AF1108", f"{quote(raw)}: {error}", pointer, hint=hint, shift=shift)
            return None
        if any(self.symbols.get(n) is None for n in e.symbols()):
            return None
        return e.substitute(
            {n: sym(new) for n in e.symbols() if (new := self.symbols[n]) is not None and new != n}
        )

    def expressions(self, raw: Sequence[int | str], pointer: str) -> Shape | None:
        """Parse sizes; return None if one of them is wrong."""
        out = [self.expression(r, f"{pointer}/{i}") for i, r in enumerate(raw)]
        good = tuple(e for e in out if e is not None)
        return good if len(good) == len(out) else None

    def dtype(self, name: str, pointer: str) -> DType | None:
        """Return an element type; None, with AF1104, if it is unknown, with AF1203 if kernels do not support it."""
        try:
            d = dtype(name)
        except KeyError:
            d = None
        if d is None or d.kind == "m":
            known = [n for n in BY_NAME if n != "mask"]
            if name in FOREIGN:
                text, hint = (
                    f"no kernel holds elements of type {name}",
                    f"known: {', '.join(known)}",
                )
                self.findings.add("AF1203", text, pointer, hint=hint)
                return None
            hint = did_you_mean(name, known) or f"known: {', '.join(known)}"
            self.findings.add("AF1104", f"the dtype {quote(name)} is not known", pointer, hint=hint)
            return None
        return d

    # definitions ------------------------------------------------------------------------------

    def read_symbols(self) -> None:
        """Read the section ``symbols``."""
        raw = self.data.get("symbols", {})
        self.any_symbol = not isinstance(raw, dict)
        for name, fields in raw.items() if isinstance(raw, dict) else ():
            pointer = f"/symbols/{escape(name)}"
            self.symbols[name] = None
            model: SymbolModel | None = valid(SymbolModel, fields)
            if not is_symbol(name):
                hint = f"use letters, digits and _, not starting with a digit, such as {quote(identifier(name))}"
                self.findings.add(
                    "AF1105",
                    f"{quote(name)} is not a legal name of a symbol",
                    pointer,
                    hint=hint,
                    at_key=True,
                )
                continue
            if model is None:
                continue
            if model.min > model.max:
                text = f"the symbol {quote(name)} has min {model.min} > max {model.max}"
                self.findings.add("AF1104", text, f"{pointer}/min")
                continue
            if model.hint is not None and not model.min <= model.hint <= model.max:
                text = f"the hint {model.hint} is not between min {model.min} and max {model.max}"
                self.findings.add("AF1104", text, f"{pointer}/hint")
            word = symbol_identifier(name, self.builder.taken)
            self.symbols[name] = word
            called = "" if word == name else name
            self.builder.symbols[word] = Symbol(word, model.min, model.max, model.hint, called)

    def read_inputs(self) -> None:
        """Read the section ``inputs``."""
        for i, raw in enumerate(self.elements("inputs")):
            pointer = f"/inputs/{i}"
            model: InputModel | None = valid(InputModel, raw)
            if model is None:
                self.hide(raw.get("name") if isinstance(raw, dict) else None, f"{pointer}/name")
            elif self.define(model.name, f"{pointer}/name"):
                self.tensors[model.name] = self.input_tensor(model, pointer)

    def hide(self, name: Any, pointer: str) -> None:
        """Define a tensor about which nothing else is known."""
        if not isinstance(name, str):
            self.partial = True
        else:
            self.defined_at.setdefault(name, pointer)
            self.tensors.setdefault(name, None)

    def input_tensor(self, model: InputModel, pointer: str) -> Tensor | None:
        """Register one input in the builder; return None, with findings, if it is wrong."""
        d = self.dtype(model.dtype, f"{pointer}/dtype")
        raw = model.shape
        if raw is None:
            if not model.scalar:
                text = f"the input {quote(model.name)} has no shape"
                self.findings.add("AF1101", text, pointer, hint='"shape": [...], or "scalar": true')
                return None
            raw = []
        shape = self.expressions(raw, f"{pointer}/shape")
        if shape is None or d is None:
            return None
        what = f"the input {quote(model.name)}"
        if not self.builder.check_shape(shape, f"{pointer}/shape", what):
            return None
        if model.scalar and any(s != 1 for s in shape):
            text = f"{what} is a scalar, but has shape {self.builder.in_words(shape)}"
            self.findings.add(
                "AF1104", text, f"{pointer}/shape", hint="a scalar has shape [] or [1]"
            )
            return None
        layout = self.layout(model, shape, pointer, what)
        if layout is None:
            return None
        name = tensor_name(model.name, self.builder.tensor_names)
        tensor = Tensor(
            name, d, shape, layout.strides, layout.offset, scalar=model.scalar, origin=pointer
        )
        self.builder.add_tensor(tensor)
        return tensor

    def layout(self, model: InputModel, shape: Shape, pointer: str, what: str) -> Layout | None:
        """Return strides and offset; None if they are wrong."""
        strides: Shape | None = None
        if model.strides is not None:
            strides = self.expressions(model.strides, f"{pointer}/strides")
            if strides is None:
                return None
        offset = None
        if model.offset is not None:
            offset = self.expression(model.offset, f"{pointer}/offset")
            if offset is None:
                return None
        if model.scalar and (strides is not None or offset is not None):
            text = f"{what} is a scalar, and takes no strides or offset"
            self.findings.add("AF1111", text, pointer)
            return None
        return checked_layout(self.builder, shape, strides, offset, pointer, what)
