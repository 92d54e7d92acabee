"""Replaces the primitives that an activation was decomposed into by the activation.

PyTorch and ONNX write Gelu with Erf, Mish with Log1p and Tanh, and so on.  The registered op takes fewer calls: it
knows the range of intermediate values, and for 16-bit results it needs only 16-bit accuracy.  :data:`FORMS` is the
table of patterns; a form computes the exact value of its op, so results are closer to it than those of the primitives,
and where the primitives multiply 0 by infinity, as in Gelu of minus infinity, the op gives the limit.

A form is replaced if its expensive parts (:data:`DEAR`) have no other users.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Operand
from autofuse.implgraph.rewrites.short_results import Step, cast_ends

__all__ = ["FORMS", "Form", "recognise"]


@dataclass(frozen=True, slots=True)
class Op:
    """One node with its operands."""

    name: str
    operands: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """Any of several spellings."""

    spellings: tuple[Pattern, ...]


#: A string matches the argument of the activation, a number matches to within a rounding.
Pattern: TypeAlias = "Op | OneOf | str | float"
X = "x"


@dataclass(frozen=True, slots=True)
class Form:
    """Primitives that an op is decomposed into.

    Attributes:
        op: the registered op, with one operand.
        pattern: the tree of primitives.
        narrow: replace only where the result is rounded to 16 bits; in float32 the op takes at least as many calls.
    """

    op: str
    pattern: Pattern
    narrow: bool


def op(name: str, *operands: Pattern) -> Op:
    """Return a node pattern."""
    return Op(name, operands)


def product(*factors: Pattern) -> Pattern:
    """Return a pattern of two or three factors, multiplied in any order."""
    if len(factors) == 2:
        return Op("Mul", factors)
    a, b, c = factors
    return OneOf(
        tuple(op("Mul", op("Mul", p, q), r) for p, q, r in ((a, b, c), (a, c, b), (b, c, a)))
    )


_SQUARE = OneOf((op("Mul", X, X), op("Square", X), op("Pow", X, 2.0)))
_CUBE = OneOf((op("Mul", _SQUARE, X), op("Pow", X, 3.0)))
_HALF_ROOT = OneOf((op("Mul", X, math.sqrt(0.5)), op("Div", X, math.sqrt(2.0))))
#: 1 + erf(x/sqrt 2), twice the normal distribution function.
_TWICE = op("Add", op("Erf", _HALF_ROOT), 1.0)
_DENSITY = op("Exp", OneOf((product(_SQUARE, -0.5), product(X, X, -0.5))))
_TANH = op(
    "Tanh",
    product(math.sqrt(2.0 / math.pi), op("Add", X, product(0.044715, _CUBE))),
)
_LOG1P_EXP = op("Log1p", op("Exp", op("Neg", op("Abs", X))))
_SOFTPLUS = OneOf(
    (
        op("Softplus", X),
        # Beyond 20 both equal x in float32.
        op("Select", op("Greater", X, 20.0), X, op("Log1p", op("Exp", X))),
    )
)

FORMS: tuple[Form, ...] = (
    Form("Gelu", product(X, 0.5, _TWICE), True),
    Form(
        "GeluSlope",
        op("Add", product(_TWICE, 0.5), product(X, _DENSITY, 1.0 / math.sqrt(2.0 * math.pi))),
        True,
    ),
    Form("GeluTanh", product(X, 0.5, op("Add", _TANH, 1.0)), True),
    Form("Mish", op("Mul", X, op("Tanh", _SOFTPLUS)), False),
    Form("TanhSoftplus", op("Tanh", _SOFTPLUS), False),
    Form("Softplus", _SOFTPLUS, False),
    Form("Softplus", op("Add", op("Maximum", X, 0.0), _LOG1P_EXP), False),
    Form("LogSigmoid", op("Sub", op("Minimum", X, 0.0), _LOG1P_EXP), False),
)

#: Ops too expensive to compute in addition to the activation that contains them.
DEAR = frozenset({"Erf", "Log1p", "Tanh"})
_COMMUTATIVE = frozenset({"Add", "Maximum", "Minimum", "Mul"})
#: Significand bits by dtype.
_DIGITS = {"float32": 24, "float16": 11, "bfloat16": 8}


@dataclass(frozen=True, slots=True)
class _Match:
    """A form at a node: its argument, and the expensive nodes below."""

    form: Form
    x: str
    dear: frozenset[str]


@dataclass(frozen=True, slots=True)
class _State:
    """A partial match."""

    x: str | None = None
    dear: frozenset[str] = frozenset()


def recognise(graph: FusionGraph) -> FusionGraph:
    """Return the graph with recognised activations; ``graph`` itself without any."""
    if not any(n.op in DEAR for n in graph.nodes):
        return graph
    found = _Finder(graph).matches()
    while found:
        nodes = _rewritten(graph, found)
        alive = {n.outputs[0] for n in nodes}
        spoiled = [name for name, m in found.items() if not m.dear.isdisjoint(alive)]
        if not spoiled:
            return replace(graph, nodes=nodes)
        for name in spoiled:
            del found[name]
    return graph


def _rewritten(graph: FusionGraph, found: Mapping[str, _Match]) -> tuple[FusionNode, ...]:
    """Return the nodes with the matches replaced, without those that became dead."""
    needed = {o.tensor for o in graph.outputs}
    # Nodes that were dead before are left alone.
    needed.update(_unused(graph))
    out: list[FusionNode] = []
    for n in reversed(graph.nodes):
        if needed.isdisjoint(n.outputs):
            continue
        m = found.get(n.outputs[0])
        if m is not None:
            n = replace(n, op=m.form.op, inputs=(m.x,), attrs={})
        needed.update(i for i in n.inputs if isinstance(i, str))
        out.append(n)
    return tuple(reversed(out))


def _unused(graph: FusionGraph) -> set[str]:
    used = {i for n in graph.nodes for i in n.inputs if isinstance(i, str)}
    return {o for n in graph.nodes for o in n.outputs} - used


class _Finder:
    """Looks for the forms in one graph."""

    def __init__(self, graph: FusionGraph) -> None:
        self.graph = graph
        self.makers = {o: n for n in graph.nodes for o in n.outputs}

    def matches(self) -> dict[str, _Match]:
        """Return the first matching form at every result that has one."""
        ends = cast_ends(
            [
                Step(
                    n.outputs[0],
                    n.op,
                    [i for i in n.inputs if isinstance(i, str)],
                    self.graph.tensors[n.outputs[0]].dtype,
                    bool(n.attrs.get("round")),
                )
                for n in self.graph.nodes
            ],
            {o.tensor for o in self.graph.outputs},
        )
        taken: set[str] = set()
        out: dict[str, _Match] = {}
        for n in self.graph.nodes:
            name = n.outputs[0]
            dtype = self.graph.tensors[name].dtype
            if dtype.name not in _DIGITS or n.op == "Cast":
                continue
            reached = ends.get(name, frozenset())
            narrow = dtype.itemsize == 2 or (bool(reached) and taken.isdisjoint(reached))
            for form in FORMS:
                if form.narrow and not narrow:
                    continue
                m = self._match(form, name)
                if m is not None:
                    out[name] = m
                    if form.narrow:
                        taken |= reached
                    break
        return out

    def _match(self, form: Form, name: str) -> _Match | None:
        y = self.graph.tensors[name]
        for state in self._at(form.pattern, name, y.dtype, _State()):
            x = self.graph.tensors[state.x] if state.x is not None else None
            if x is not None and (x.dtype, x.shape) == (y.dtype, y.shape) and x.name != name:
                return _Match(form, x.name, state.dear - {name})
        return None

    def _at(self, pattern: Pattern, at: Operand, dtype: DType, state: _State) -> Iterator[_State]:
        """Yield the matches of a pattern at an operand; a number without dtype has this one."""
        if isinstance(pattern, OneOf):
            for p in pattern.spellings:
                yield from self._at(p, at, dtype, state)
        elif isinstance(pattern, float):
            if isinstance(at, Constant) and _is_number(at, pattern, at.dtype or dtype):
                yield state
        elif isinstance(pattern, str):
            at = self._uncast(at, dtype, widened=True)
            if isinstance(at, str) and state.x in (None, at):
                yield replace(state, x=at)
        elif isinstance(at := self._uncast(at, dtype), str) and at in self.makers:
            n = self.makers[at]
            if n.op != pattern.name or len(n.inputs) != len(pattern.operands):
                return
            if n.op in DEAR:
                state = replace(state, dear=state.dear | {at})
            yield from self._all(pattern.operands, n.inputs, dtype, state)
            if n.op in _COMMUTATIVE:
                yield from self._all(pattern.operands, n.inputs[::-1], dtype, state)

    def _uncast(self, at: Operand, dtype: DType, *, widened: bool = False) -> Operand:
        """Return the source of an operand's casts, if a 16-bit result has float32 steps; ``widened``: to float32."""
        tensors = self.graph.tensors
        while dtype.itemsize == 2 and isinstance(at, str) and at in self.makers:
            n = self.makers[at]
            if n.op != "Cast" or n.attrs.get("round") or not isinstance(n.inputs[0], str):
                break
            to, have = tensors[at].dtype, tensors[n.inputs[0]].dtype
            if (have, to.name) != (dtype, "float32") and (
                widened or (have.name, to) != ("float32", dtype)
            ):
                break
            at = n.inputs[0]
        return at

    def _all(
        self, patterns: Sequence[Pattern], at: Sequence[Operand], dtype: DType, state: _State
    ) -> Iterator[_State]:
        if not patterns:
            yield state
            return
        for first in self._at(patterns[0], at[0], dtype, state):
            yield from self._all(patterns[1:], at[1:], dtype, first)


def _is_number(c: Constant, value: float, dtype: DType) -> bool:
    """Return True if a constant equals a number to within a rounding of its element type."""
    if c.expr is not None or isinstance(c.value, bool) or dtype.name not in _DIGITS:
        return False
    return abs(c.value - value) <= abs(value) * 2.0 ** -_DIGITS[dtype.name]
