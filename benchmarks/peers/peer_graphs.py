"""Graphs that ``peers.py`` gives to every generator, and their text as linalg on tensors.

A graph is written once, as a graph document.  autofuse reads it as it is, ``peer_inductor.py`` calls one torch function
per node, and :func:`linalg` writes one named linalg operation per node (Softmax and ReduceMean take several).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from traffic import Case, graph, step

ROWS, COLUMNS = 2048, 1024

_UNARY = {
    "Abs": "abs",
    "Exp": "exp",
    "Ln": "log",
    "Neg": "negf",
}
#: HFusion's operations of the same form: it takes these from linalg in no other way.
_UNARY_HFUSION = {"Rsqrt": "rsqrt", "Sqrt": "sqrt"}
_BINARY = {"Add": "add", "Div": "div", "Mul": "mul", "Sub": "sub"}


def cases() -> tuple[Case, ...]:
    """The graphs, all of float32."""
    x: dict[str, tuple[int, ...]] = {"x": (ROWS, COLUMNS)}
    sizes = f"{ROWS} x {COLUMNS}"
    chain = [
        step("Abs", "x"),
        step("Add", 0, 1.0),
        step("Ln", 1),
        step("Mul", 2, 0.5),
        step("Exp", 3),
        step("Sqrt", 4),
        step("Sub", 5, "x"),
        step("Neg", 6),
    ]
    norm = [
        step("ReduceMean", "x", axes=[-1], keepdims=True),
        step("Sub", "x", 0),
        step("Mul", 1, 1),
        step("ReduceMean", 2, axes=[-1], keepdims=True),
        step("Add", 3, 1e-5),
        step("Rsqrt", 4),
        step("Mul", 1, 5),
        step("Mul", 6, "scale"),
        step("Add", 7, "shift"),
    ]
    affine: dict[str, tuple[int, ...]] = {"scale": (COLUMNS,), "shift": (COLUMNS,)}
    row: dict[str, tuple[int, ...]] = {"r": (COLUMNS,)}
    softmax = [step("Softmax", "x", axis=-1)]
    return (
        Case("abs", sizes, x, [step("Abs", "x")]),
        Case("chain of 8", sizes, x, chain),
        Case("layer norm", sizes, x | affine, norm),
        Case("softmax", sizes, x, softmax),
        Case("abs", "200 x 200", {"x": (200, 200)}, [step("Abs", "x")]),
        Case("softmax", "96 x 4096", {"x": (96, 4096)}, softmax),
        Case("broadcast add", sizes, x | row, [step("Add", "x", "r")]),
    )


def document(case: Case) -> dict[str, Any]:
    """The graph document of a case."""
    return graph(case) | {"name": "peer"}


def linalg(doc: Mapping[str, Any]) -> str:
    """A graph document as an MLIR module: one function on tensors, of named linalg operations.

    Raises:
        ValueError: the graph has something that none of the graphs here has.
    """
    return _Linalg(doc).text()


class _Value:
    """A tensor of the function: its name and its shape in the graph; ``column``: without the last dimension, of one."""

    def __init__(self, name: str, shape: Sequence[int], *, column: bool = False) -> None:
        self.name, self.shape, self.column = name, tuple(shape), column

    @property
    def held(self) -> tuple[int, ...]:
        """The shape in the function."""
        return self.shape[:-1] if self.column else self.shape

    @property
    def type(self) -> str:
        return _type(self.held)


class _Linalg:
    def __init__(self, doc: Mapping[str, Any]) -> None:
        self._doc = doc
        self._lines: list[str] = []
        self._count = 0
        self._values: dict[str, _Value] = {}
        for x in doc["inputs"]:
            if x["dtype"] != "float32":
                raise ValueError(f"{x['dtype']} tensors are not written")
            self._values[x["name"]] = _Value(f"%{x['name']}", x["shape"])

    def text(self) -> str:
        inputs = ", ".join(f"{v.name}: {v.type}" for v in self._values.values())
        for node in self._doc["nodes"]:
            self._values[node["outputs"][0]] = self._node(node)
        (output,) = self._doc["outputs"]
        result = self._values[output]
        entry = "{hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>}"
        head = f"func.func @{self._doc['name']}({inputs}) -> {result.type} attributes {entry} {{"
        body = [*self._lines, f"return {result.name} : {result.type}"]
        return "\n".join((head, *(f"  {line}" for line in body), "}", ""))

    def _node(self, node: Mapping[str, Any]) -> _Value:
        op, attrs = node["op"], node.get("attrs", {})
        if op in _UNARY or op in _UNARY_HFUSION:
            x = self._values[node["inputs"][0]]
            if op in _UNARY:
                return self._elementwise("unary", _UNARY[op], [x], x)
            return self._elementwise("unary", _UNARY_HFUSION[op], [x], x, dialect="hfusion")
        if op in _BINARY:
            return self._binary(_BINARY[op], *node["inputs"])
        x = self._values[node["inputs"][0]]
        if op == "ReduceMean" and list(attrs["axes"]) == [-1] and attrs["keepdims"]:
            total = self._reduce("addf", 0.0, x)
            size = self._constant(1.0 / x.shape[-1])
            return self._elementwise("binary", "mul", [total, size], total)
        if op == "Softmax" and attrs["axis"] == -1:
            largest = self._spread(self._reduce("maximumf", -math.inf, x), x)
            shifted = self._elementwise("binary", "sub", [x, largest], x)
            powers = self._elementwise("unary", "exp", [shifted], x)
            total = self._spread(self._reduce("addf", 0.0, powers), x)
            return self._elementwise("binary", "div", [powers, total], x)
        raise ValueError(f"{op} with {attrs} is not written")

    def _binary(self, name: str, a: Any, b: Any) -> _Value:
        operands = [
            self._constant(v["const"]) if isinstance(v, Mapping) else self._values[v]
            for v in (a, b)
        ]
        tensors = [v for v in operands if isinstance(v, _Value)]
        like = max(tensors, key=lambda v: math.prod(v.shape))
        spread = [self._spread(v, like) if isinstance(v, _Value) else v for v in operands]
        return self._elementwise("binary", name, spread, like)

    def _elementwise(
        self,
        kind: str,
        name: str,
        operands: Sequence[_Value | str],
        like: _Value,
        *,
        dialect: str = "linalg",
    ) -> _Value:
        names = ", ".join(v if isinstance(v, str) else v.name for v in operands)
        types = ", ".join("f32" if isinstance(v, str) else v.type for v in operands)
        out = self._emit(f"tensor.empty() : {like.type}")
        call = f"{dialect}.elemwise_{kind} {{fun = #{dialect}.{kind}_fn<{name}>}}"
        found = self._emit(
            f"{call} ins({names} : {types}) outs({out} : {like.type}) -> {like.type}"
        )
        return _Value(found, like.shape, column=like.column)

    def _reduce(self, name: str, start: float, x: _Value) -> _Value:
        """The last dimension reduced to one."""
        out = _Value("", (*x.shape[:-1], 1), column=True)
        empty = self._emit(f"tensor.empty() : {out.type}")
        first = self._constant(start)
        fill = f"linalg.fill ins({first} : f32) outs({empty} : {out.type}) -> {out.type}"
        out.name = self._emit(
            f"linalg.reduce {{arith.{name}}} ins({x.name} : {x.type}) outs({self._emit(fill)} : {out.type})"
            f" dimensions = [{len(x.held) - 1}]"
        )
        return out

    def _spread(self, x: _Value, like: _Value) -> _Value:
        """A tensor broadcast to the shape of another one."""
        if x.held == like.held:
            return x
        rank = len(like.held)
        missing = [rank - 1] if x.column else list(range(rank - len(x.held)))
        if tuple(e for k, e in enumerate(like.held) if k not in missing) != x.held:
            raise ValueError(f"{x.shape} is not broadcast to {like.shape}")
        empty = self._emit(f"tensor.empty() : {like.type}")
        found = self._emit(
            f"linalg.broadcast ins({x.name} : {x.type}) outs({empty} : {like.type}) dimensions = {missing}"
        )
        return _Value(found, like.shape)

    def _constant(self, value: float) -> str:
        text = "0xFF800000" if value == -math.inf else f"{value:.9e}"
        return self._emit(f"arith.constant {text} : f32")

    def _emit(self, text: str) -> str:
        name = f"%v{self._count}"
        self._count += 1
        self._lines.append(f"{name} = {text}")
        return name


def _type(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"
