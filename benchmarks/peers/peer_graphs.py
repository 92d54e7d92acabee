"""Graphs that ``peers.py`` passes to every generator, and their text as linalg on tensors.

A graph is written once, as a graph document.  autofuse reads it directly, ``peer_inductor.py`` calls one torch function
per node, and :func:`linalg` writes one named linalg operation per node (several for Softmax and ReduceMean).
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
#: HFusion's unary operations, the only form in which it accepts them from linalg.
_UNARY_HFUSION = {
    "Erf": "erf",
    "Reciprocal": "rec",
    "Relu": "relu",
    "Rsqrt": "rsqrt",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
}
_BINARY = {
    "Add": "add",
    "Div": "div",
    "Maximum": "max_signed",
    "Minimum": "min_signed",
    "Mul": "mul",
    "Sub": "sub",
}
_COMPARE = {
    "Equal": "veq",
    "Greater": "vgt",
    "GreaterEqual": "vge",
    "Less": "vlt",
    "LessEqual": "vle",
    "NotEqual": "vne",
}
#: The combining function, and its initial value.
_REDUCE = {
    "ReduceMax": ("maximumf", -math.inf),
    "ReduceMin": ("minimumf", math.inf),
    "ReduceSum": ("addf", 0.0),
}
_TYPES = {"bfloat16": "bf16", "bool": "i1", "float16": "f16", "float32": "f32", "int32": "i32"}
#: Infinities in MLIR syntax.
_INFINITE = {
    ("f32", 1): "0x7F800000",
    ("f32", -1): "0xFF800000",
    ("f16", 1): "0x7C00",
    ("f16", -1): "0xFC00",
    ("bf16", 1): "0x7F80",
    ("bf16", -1): "0xFF80",
}


def cases() -> tuple[Case, ...]:
    """Return the graphs, all of float32."""
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
    """Return the graph document of a case."""
    return graph(case) | {"name": "peer"}


def linalg(doc: Mapping[str, Any], kind: str = "DEVICE") -> str:
    """Return a graph document as an MLIR module: one function on tensors with named linalg operations.

    Args:
        doc: the document; it has one output.
        kind: kind of the function for the compiler: ``DEVICE``, or ``HOST``, which it splits into kernels.

    Raises:
        ValueError: the graph uses a construct that no graph here uses.
    """
    return _Linalg(doc).text(kind)


class _Value:
    """A tensor of the function.

    ``shape`` is its shape in the graph, ``without`` a dimension of size 1 that exists only there.
    """

    def __init__(
        self, name: str, shape: Sequence[int], element: str = "f32", *, without: int | None = None
    ) -> None:
        self.name, self.shape, self.element, self.without = name, tuple(shape), element, without

    @property
    def held(self) -> tuple[int, ...]:
        """Shape in the function."""
        return tuple(e for k, e in enumerate(self.shape) if k != self.without)

    @property
    def type(self) -> str:
        return f"tensor<{'x'.join(map(str, self.held))}x{self.element}>"

    def of(self, element: str) -> _Value:
        """Return an unnamed tensor of this shape with another element type."""
        return _Value("", self.shape, element, without=self.without)


class _Linalg:
    def __init__(self, doc: Mapping[str, Any]) -> None:
        self._doc = doc
        self._lines: list[str] = []
        self._count = 0
        self._values: dict[str, _Value] = {}
        for x in doc["inputs"]:
            if x["dtype"] not in _TYPES:
                raise ValueError(f"{x['dtype']} tensors are not written")
            shape = x["shape"]
            column = len(shape) - 1 if len(shape) > 1 and shape[-1] == 1 else None
            name = f"%{x['name']}"
            self._values[x["name"]] = _Value(name, shape, _TYPES[x["dtype"]], without=column)

    def text(self, kind: str) -> str:
        inputs = ", ".join(f"{v.name}: {v.type}" for v in self._values.values())
        for node in self._doc["nodes"]:
            self._values[node["outputs"][0]] = self._node(node)
        (output,) = self._doc["outputs"]
        result = self._values[output]
        entry = f"{{hacc.entry, hacc.function_kind = #hacc.function_kind<{kind}>}}"
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
            operands, like = self._operands(node["inputs"])
            return self._elementwise("binary", _BINARY[op], operands, like)
        if op in _COMPARE:
            operands, like = self._operands(node["inputs"])
            fun = f"{{compare_fn = #hfusion.compare_fn<{_COMPARE[op]}>}}"
            return self._named(f"hfusion.compare {fun}", operands, like.of("i1"))
        if op == "Select":
            condition, *rest = node["inputs"]
            operands, like = self._operands(rest)
            return self._named("hfusion.select", [self._values[condition], *operands], like)
        x = self._values[node["inputs"][0]]
        if op == "Cast":
            fun = "{round_mode = #hfusion.round_mode<rint>}"
            return self._named(f"hfusion.cast {fun}", [x], x.of(_TYPES[attrs["dtype"]]))
        if op in _REDUCE and len(attrs["axes"]) == 1 and attrs.get("keepdims"):
            return self._reduce(*_REDUCE[op], x, attrs["axes"][0])
        if op == "ReduceMean" and list(attrs["axes"]) == [-1] and attrs.get("keepdims"):
            total = self._reduce("addf", 0.0, x, -1)
            size = self._constant(1.0 / x.shape[-1], x.element)
            return self._elementwise("binary", "mul", [total, size], total)
        if op == "Softmax" and attrs["axis"] == -1:
            largest = self._spread(self._reduce("maximumf", -math.inf, x, -1), x)
            shifted = self._elementwise("binary", "sub", [x, largest], x)
            powers = self._elementwise("unary", "exp", [shifted], x)
            total = self._spread(self._reduce("addf", 0.0, powers, -1), x)
            return self._elementwise("binary", "div", [powers, total], x)
        raise ValueError(f"{op} with {attrs} is not written")

    def _operands(self, given: Sequence[Any]) -> tuple[list[_Value | str], _Value]:
        """Return operands of one shape, or numbers, and a tensor of that shape."""
        tensors = [self._values[v] for v in given if not isinstance(v, Mapping)]
        like = max(tensors, key=lambda v: math.prod(v.shape))
        return [
            self._constant(v["const"], like.element)
            if isinstance(v, Mapping)
            else self._spread(self._values[v], like)
            for v in given
        ], like

    def _elementwise(
        self,
        kind: str,
        name: str,
        operands: Sequence[_Value | str],
        like: _Value,
        *,
        dialect: str = "linalg",
    ) -> _Value:
        call = f"{dialect}.elemwise_{kind} {{fun = #{dialect}.{kind}_fn<{name}>}}"
        return self._named(call, operands, like)

    def _named(self, call: str, operands: Sequence[_Value | str], like: _Value) -> _Value:
        """Emit an operation whose result is like another tensor."""
        element = next(v.element for v in reversed(operands) if isinstance(v, _Value))
        names = ", ".join(v if isinstance(v, str) else v.name for v in operands)
        types = ", ".join(element if isinstance(v, str) else v.type for v in operands)
        out = self._emit(f"tensor.empty() : {like.type}")
        found = like.of(like.element)
        found.name = self._emit(
            f"{call} ins({names} : {types}) outs({out} : {like.type}) -> {like.type}"
        )
        return found

    def _reduce(self, name: str, start: float, x: _Value, axis: int) -> _Value:
        """Emit a reduction of a dimension to size 1."""
        axis %= len(x.shape)
        if x.without is not None:
            raise ValueError(f"{x.shape} is reduced twice")
        shape = [1 if k == axis else e for k, e in enumerate(x.shape)]
        out = _Value("", shape, x.element, without=axis)
        empty = self._emit(f"tensor.empty() : {out.type}")
        first = self._constant(start, x.element)
        fill = f"linalg.fill ins({first} : {x.element}) outs({empty} : {out.type}) -> {out.type}"
        out.name = self._emit(
            f"linalg.reduce {{arith.{name}}} ins({x.name} : {x.type}) outs({self._emit(fill)} : {out.type})"
            f" dimensions = [{axis}]"
        )
        return out

    def _spread(self, x: _Value, like: _Value) -> _Value:
        """Emit a broadcast of a tensor to the shape of another one."""
        if x.held == like.held:
            return x
        rank = len(like.held)
        missing = [x.without] if x.without is not None else list(range(rank - len(x.held)))
        if tuple(e for k, e in enumerate(like.held) if k not in missing) != x.held:
            raise ValueError(f"{x.shape} is not broadcast to {like.shape}")
        found = like.of(x.element)
        empty = self._emit(f"tensor.empty() : {found.type}")
        found.name = self._emit(
            f"linalg.broadcast ins({x.name} : {x.type}) outs({empty} : {found.type}) dimensions = {missing}"
        )
        return found

    def _constant(self, value: float, element: str) -> str:
        if math.isinf(value):
            text = _INFINITE[element, int(math.copysign(1, value))]
        else:
            text = str(int(value)) if element.startswith("i") else f"{value:.9e}"
        return self._emit(f"arith.constant {text} : {element}")

    def _emit(self, text: str) -> str:
        name = f"%v{self._count}"
        self._count += 1
        self._lines.append(f"{name} = {text}")
        return name
