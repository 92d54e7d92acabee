"""Operators that a line of English may name but that are no ops of the registry, each as a composition of ops.

16-bit floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

__all__ = ["COMPOSITIONS", "Composition", "Nodes"]

#: An operand of a node: the name of a tensor, or ``{"const": value}``.
Operand: TypeAlias = "str | dict[str, Any]"


class Nodes(Protocol):
    """A graph file under construction."""

    def node(
        self, op: str, inputs: Sequence[Operand], attrs: Mapping[str, Any] | None = None
    ) -> str:
        """Add a node and return its result."""

    def dtype_of(self, tensor: str) -> str:
        """Return the name of the element type of an input or a result."""


Build: TypeAlias = "Callable[[Nodes, Sequence[str], list[int], Mapping[str, float]], str]"


@dataclass(frozen=True, slots=True)
class Composition:
    """A row of the table.

    Attributes:
        build: adds the nodes for operands, axes and numbers; returns the result.
        operands: names of the required operands.
        weights: names of the further operands: by default of the first operand's element type, with the sizes of the
            axes.
        has_axes: True if it operates along axes.
        numbers: parameters with their defaults; None if there is no common default.
        choices: usual values of a number without a default.
        aliases: other phrases for it.
        doc: what it computes.
    """

    build: Build
    doc: str
    operands: tuple[str, ...] = ("x",)
    weights: tuple[str, ...] = ()
    has_axes: bool = True
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


def _const(value: float) -> dict[str, Any]:
    return {"const": value}


def _wide(g: Nodes, x: str) -> str:
    return g.node("Cast", [x], {"dtype": "float32"}) if g.dtype_of(x) in _HALVES else x


def _narrow(g: Nodes, y: str, like: str) -> str:
    return g.node("Cast", [y], {"dtype": g.dtype_of(like)}) if g.dtype_of(like) in _HALVES else y


_HALVES = ("float16", "bfloat16")


def _mean(g: Nodes, x: str, axes: list[int]) -> str:
    return g.node("ReduceMean", [x], {"axes": axes, "keepdims": True})


def _layer_norm(g: Nodes, xs: Sequence[str], axes: list[int], numbers: Mapping[str, float]) -> str:
    x = _wide(g, xs[0])
    centred = g.node("Sub", [x, _mean(g, x, axes)])
    variance = _mean(g, g.node("Square", [centred]), axes)
    factor = g.node("Rsqrt", [g.node("Add", [variance, _const(numbers["eps"])])])
    y = g.node("Mul", [centred, factor])
    for op, weight in zip(("Mul", "Add"), xs[1:], strict=False):
        y = g.node(op, [y, _wide(g, weight)])
    return _narrow(g, y, xs[0])


def _rms_norm(g: Nodes, xs: Sequence[str], axes: list[int], numbers: Mapping[str, float]) -> str:
    x = _wide(g, xs[0])
    square = _mean(g, g.node("Square", [x]), axes)
    y = g.node("Mul", [x, g.node("Rsqrt", [g.node("Add", [square, _const(numbers["eps"])])])])
    for weight in xs[1:]:
        y = g.node("Mul", [y, _wide(g, weight)])
    return _narrow(g, y, xs[0])


def _l2_norm(g: Nodes, xs: Sequence[str], axes: list[int], numbers: Mapping[str, float]) -> str:
    x = _wide(g, xs[0])
    square = g.node("ReduceSum", [g.node("Square", [x])], {"axes": axes, "keepdims": True})
    length = g.node("Maximum", [g.node("Sqrt", [square]), _const(numbers["eps"])])
    return _narrow(g, g.node("Div", [x, length]), xs[0])


def _log_sum_exp(g: Nodes, xs: Sequence[str], axes: list[int], numbers: Mapping[str, float]) -> str:
    x = _wide(g, xs[0])
    # Subtract the maximum to avoid overflow.
    most = g.node("ReduceMax", [x], {"axes": axes, "keepdims": True})
    powers = g.node("Exp", [g.node("Sub", [x, most])])
    total = g.node("Ln", [g.node("ReduceSum", [powers], {"axes": axes})])
    return _narrow(g, g.node("Add", [total, g.node("ReduceMax", [x], {"axes": axes})]), xs[0])


def _gated(op: str) -> Build:
    def build(g: Nodes, xs: Sequence[str], axes: list[int], numbers: Mapping[str, float]) -> str:
        gate, up = (_wide(g, x) for x in xs)
        return _narrow(g, g.node("Mul", [g.node(op, [gate]), up]), xs[0])

    return build


#: Compositions by the phrase that names them.
COMPOSITIONS: Mapping[str, Composition] = {
    "layer norm": Composition(
        _layer_norm,
        "(x - mean) / sqrt(variance + eps) along axes, times gamma, plus beta",
        weights=("gamma", "beta"),
        numbers={"eps": 1e-5},
        aliases=("layer normalization", "layer normalisation"),
    ),
    "rms norm": Composition(
        _rms_norm,
        "x / sqrt(mean of squares + eps) along axes, times gamma",
        weights=("gamma",),
        numbers={"eps": None},
        choices={"eps": "with eps = 1e-6, with eps = 1e-5"},
        aliases=("root mean square norm", "rms normalization", "rms normalisation"),
    ),
    "l2 norm": Composition(
        _l2_norm,
        "x / max(sqrt(sum of squares), eps) along axes",
        numbers={"eps": 1e-12},
        aliases=("l2 normalize", "l2 normalise", "l2 normalization"),
    ),
    "log sum exp": Composition(
        _log_sum_exp, "the logarithm of the sum of e**x along axes; NaN of infinities"
    ),
    "swiglu": Composition(
        _gated("Silu"), "Silu(gate) * up", operands=("gate", "up"), has_axes=False
    ),
    "geglu": Composition(
        _gated("Gelu"), "Gelu(gate) * up", operands=("gate", "up"), has_axes=False
    ),
}
