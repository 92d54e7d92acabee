"""Reference results of a graph, from the references of its ops, and the error allowed to a correct kernel.

Every op is computed in float64 (or exact integers) from operands that are already rounded, and its
result is rounded to the declared dtype: the arithmetic of a machine on which every op is correctly
rounded.  A real machine is allowed an error per op (``OpDef.ulp``), may fuse ops, and may sum in
another order; :func:`evaluate` propagates a bound of this error through the graph.

The bound is a running error analysis.  Every tensor carries an array of absolute error bounds.
An op adds, for each operand, the change of its result when the operand moves by its bound (the
reference is evaluated once more), and then its own rounding error:

    error(y) = sum_i |f(.., x_i - e_i, ..) - f(..)|  +  max(ulp, 1/2) ulp(y)

An op with ``ulp <= 1/2`` is correctly rounded on every machine, so where its result is exact it
adds nothing, unless errors of its operands move the result so far that it is rounded; copies,
comparisons and sums of small integers therefore must agree exactly.
Reductions and ops composed of them have bounds of their own: :mod:`autofuse.machines.twin.oracle.reductions`.
Random perturbation (Monte Carlo arithmetic) is not used: two independent errors of opposite sign cancel
in a sample of a few runs, and an element where that happens gets a bound of zero.

A kernel may compute a reduction from the running value of an earlier one, and correct it as that one proceeds
(``implgraph/division/online_reductions.py``). So values between two reductions count as rounded even where they are
exact, and so does their sum: the mean of part of a row may have more digits than the row's mean. A power is relative to
the largest element so far, and at most 1: a sum of such powers times huge numbers may overflow before the largest
element makes it small.

Where a small change of an operand flips a discontinuous result (comparison, floor, conversion to an
integer) or makes a finite result infinite or NaN, the element is *ill-conditioned*: its tolerance
is infinite, and it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Operand
from autofuse.implgraph.ops.definition import ANY, OpDef
from autofuse.implgraph.ops.infer import operand_dtypes
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import reduced_axes
from autofuse.implgraph.ops.rules import with_source
from autofuse.machines.twin.oracle.in_rows import in_rows
from autofuse.machines.twin.oracle.reductions import composed, moved, reduced
from autofuse.machines.twin.oracle.rounding import (
    Array,
    Value,
    difference,
    largest,
    own_error,
    round_result,
    round_to,
    ulp_of,
    widen,
    widened,
)
from autofuse.machines.twin.oracle.signs import are_told, from_operands, sure

__all__ = [
    "SAFETY",
    "Reference",
    "evaluate",
    "largest",
    "numbers",
    "round_to",
    "shape_of",
    "ulp_of",
]

#: Ops that move elements, and ops that index tensors.
_MOVES = ("transpose", "slice", "concat", "pad", "gather", "iota")
#: Ops whose results are elements of their operands.
_KEPT = ("broadcast", "view", *_MOVES)

#: Ratio of tolerance to error bound: the bound is first-order, and bounds of sums ignore the sum's rounding.
SAFETY = 2.0

#: Weights of powers up to this cannot overflow in a sum on the way, for rows of up to 1,024 elements.
HEAVIEST = 2.0**117

#: Of float32; bfloat16 and float16, whose subnormal numbers are larger, are computed in float32.
SMALLEST_NORMAL = 2.0**-126
#: Bound on the ratio of an approximation's result to one of its steps: x Sigmoid(x) is 88 times a sigmoid.
_STEPS = 128.0


@dataclass(frozen=True, slots=True)
class Reference:
    """The expected value of one output.

    Attributes:
        value: the result in the declared dtype.
        tolerance: allowed absolute difference per element, inf where ill-conditioned; None: must be equal.
        ill_conditioned: number of elements with infinite tolerance.
        sign: 1 or -1 for elements whose sign is certain however large their tolerance, else 0; None: no tolerance
            reaches across 0.
    """

    value: Array
    tolerance: Array | None
    ill_conditioned: int = 0
    sign: Array | None = None

    def allowed(self, got: Array, at: Any = slice(None)) -> Array:
        """Return the tolerance of the flat elements ``at`` of a result: none reaches across 0 to a wrong sign."""
        value = self.value.reshape(-1)[at]
        if self.tolerance is None:
            return np.zeros(value.shape)
        tolerance = self.tolerance.reshape(-1)[at]
        if self.sign is None:
            return np.asarray(tolerance)
        turned = self.sign.reshape(-1)[at] * np.sign(got.reshape(-1)[at]) < 0
        return np.asarray(np.where(turned, np.minimum(tolerance, np.abs(value)), tolerance))


def _truths(array: Array) -> Array:
    """Normalise bools to the bytes 0 and 1, since NumPy leaves other bytes undefined."""
    return array.view(np.uint8) != 0 if array.dtype == np.bool_ else array


def shape_of(shape: Sequence[Expr], symbols: Mapping[str, int]) -> tuple[int, ...]:
    """Return a symbolic shape as numbers."""
    return tuple(s.evaluate(symbols) for s in shape)


def evaluate(
    graph: FusionGraph,
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int],
    *,
    flushes: bool = False,
) -> dict[str, Reference]:
    """Return the expected values of every output.

    Args:
        graph: the graph to evaluate.
        inputs: array of the logical shape for every input of the graph.
        symbols: a value for every symbol.
        flushes: approximations may take a subnormal float32 operand for a zero (``Architecture.flushes``).

    Returns:
        A reference per output name (``GraphOutput.name``).
    """
    # Inputs are widened on use, so that a large one is only widened a few rows at a time.
    values = {name: Value(_truths(np.asarray(inputs[name]))) for name in graph.inputs}
    signs: dict[str, Array | None] = {}
    last = _last_uses(graph)
    between = _between_reductions(graph)
    ends = {o.tensor for o in graph.outputs}
    with np.errstate(all="ignore"):
        for i, node in enumerate(graph.nodes):
            result = _apply(node, graph, values, symbols, between, flushes)
            if ends.isdisjoint(node.outputs):
                result = _or_infinite(result, node, graph, values)
            if node.outputs[0] in between:
                result = _rounded(result, graph.tensors[node.outputs[0]].dtype)
                result = _or_too_heavy(result, node, values, between)
            sign = _sign(node, graph, values, signs, result)
            for name in node.outputs:
                values[name], signs[name] = result, sign
            for operand in (*node.inputs, *node.outputs):
                if isinstance(operand, str) and last.get(operand, -1) <= i:
                    values.pop(operand, None)
                    signs.pop(operand, None)
        return {
            o.name: _finish(values[o.tensor], graph.tensors[o.tensor].dtype, signs.get(o.tensor))
            for o in graph.outputs
        }


def _between_reductions(graph: FusionGraph) -> frozenset[str]:
    """Return the tensors that depend on one reduction and that another reduction needs."""

    def reduces(n: FusionNode) -> bool:
        kind = lookup(n.op).compute_type
        return kind == "reduce" or n.op == "ReduceMean"

    late: set[str] = set()
    for n in graph.nodes:
        if reduces(n) or not late.isdisjoint(x for x in n.inputs if isinstance(x, str)):
            late.update(n.outputs)
    wanted: set[str] = set()
    for n in reversed(graph.nodes):
        if reduces(n) or not wanted.isdisjoint(n.outputs):
            wanted.update(x for x in n.inputs if isinstance(x, str))
    return frozenset(late & wanted)


def _rounded(x: Value, dtype: DType) -> Value:
    """Return the value with at least the error of one rounding, also where it is exact."""
    if dtype.kind != "f":
        return x
    own = own_error(np.full(x.data.shape, np.nan), x.data, 0.5, dtype)
    if own is None:  # no elements
        return x
    return Value(x.data, own if x.error is None else own + x.error)


def _or_too_heavy(
    x: Value, node: FusionNode, values: Mapping[str, Value], between: frozenset[str]
) -> Value:
    """Make the bound infinite where a product between two reductions has a factor that is huge itself."""
    if node.op != "Mul" or x.data.dtype.kind != "f":
        return x
    for o in node.inputs:
        if isinstance(o, str) and o not in between:
            heavy = np.abs(widen(values[o].data)) > HEAVIEST
            heavy = np.broadcast_to(heavy & np.isfinite(values[o].data), x.data.shape)
            if heavy.any():
                x = Value(x.data, np.where(heavy, np.inf, 0.0 if x.error is None else x.error))
    return x


def _or_infinite(
    x: Value, node: FusionNode, graph: FusionGraph, values: Mapping[str, Value]
) -> Value:
    """Make the bound infinite where an intermediate value may overflow in one kernel and not in another.

    With its error it may reach an infinity, and one of 16 bits that overflows may be kept in float32.
    """
    dtype = graph.tensors[node.outputs[0]].dtype
    if dtype.kind != "f":
        return x
    over = np.zeros(x.data.shape, np.bool_)
    if x.error is not None:
        over |= np.isfinite(x.data) & (np.abs(x.data) + SAFETY * x.error > largest(dtype))
    infinite = np.isinf(x.data)
    if dtype.itemsize == 2 and lookup(node.op).compute_type not in _KEPT and infinite.any():
        for o in node.inputs:
            if isinstance(o, str) and graph.tensors[o].dtype.kind == "f":
                finite = np.isfinite(values[o].data)
                fits = finite.ndim <= over.ndim and lookup(node.op).compute_type == "elewise"
                infinite &= finite if fits else finite.all()
        over |= infinite
    if not over.any():
        return x
    return Value(x.data, np.where(over, np.inf, 0.0 if x.error is None else x.error))


def _last_uses(graph: FusionGraph) -> dict[str, int]:
    last = {o: i for i, n in enumerate(graph.nodes) for o in n.inputs if isinstance(o, str)}
    last.update({o.tensor: len(graph.nodes) for o in graph.outputs})
    return last


def _sign(
    node: FusionNode,
    graph: FusionGraph,
    values: Mapping[str, Value],
    signs: Mapping[str, Array | None],
    result: Value,
) -> Array | None:
    """Return the certain signs of a float result with a bound as wide as itself; None if they are unknown."""
    if result.error is None or result.data.dtype.kind != "f":
        return None
    if not (SAFETY * result.error >= np.abs(result.data)).any():
        return None
    row = lookup(node.op)
    known = [signs.get(x) if isinstance(x, str) else None for x in node.inputs]
    if row.compute_type in ("broadcast", "view"):
        (first,) = known
        return None if first is None else _moved_to(first, result.data.shape, row.compute_type)
    if row.compute_type != "elewise":
        return None
    operands = [widened(o) for o in _operands(node.inputs, graph, values)]
    found = from_operands(
        row, [sure(o, k, SAFETY) for o, k in zip(operands, known, strict=True)], operands
    )
    # An operand near the edge of the domain may be on its other side, where the result is a number of any sign.
    return None if found is None else np.where(np.isnan(result.data), 0, found)


def _finish(v: Value, dtype: DType, sign: Array | None) -> Reference:
    value = v.data.astype(numpy_dtype(dtype), order="C")
    if v.error is None:
        return Reference(value, None)
    if dtype.kind == "b":
        tolerance = np.where(v.error, np.inf, 0.0)
    else:
        tolerance = np.asarray(v.error * SAFETY)
        if dtype.kind in "iu":  # a flip changes the result by at least 1
            tolerance[tolerance > 0] = np.inf
        tolerance[np.isnan(tolerance)] = np.inf
    return Reference(value, tolerance, int(np.count_nonzero(np.isinf(tolerance))), sign)


# one op ---------------------------------------------------------------------------------------


def _apply(
    node: FusionNode,
    graph: FusionGraph,
    values: Mapping[str, Value],
    symbols: Mapping[str, int],
    between: frozenset[str],
    flushes: bool,
) -> Value:
    row = lookup(node.op)
    assert row.reference is not None, row.name  # every op of a graph has one
    tensor = graph.tensors[node.outputs[0]]
    shape = shape_of(tensor.shape, symbols)
    operands = _operands(node.inputs, graph, values)
    if row.compute_type in ("broadcast", "view"):
        return _move(operands[0], shape, row.compute_type)
    attrs = numbers(node.attrs, symbols)
    if row.compute_type in _MOVES:
        return moved(row, attrs, [widened(o) for o in operands], tensor.dtype)
    if row.compute_type in ("reduce", "scan", "composite"):
        running = node.inputs[0] in between

        def along(xs: Sequence[Value]) -> Value:
            if row.compute_type == "composite":
                return composed(row, attrs, xs[0], tensor.dtype)
            return reduced(row, attrs, xs[0], tensor.dtype, running=running)

        rank = operands[0].data.ndim
        axes = attrs.get("axes", ()) if "axis" not in attrs else (attrs["axis"],)
        if 0 in reduced_axes(axes, rank):
            return along([widened(operands[0])])
        return in_rows(along, operands, rank)
    # A sum of many operands is evaluated left to right, rounding each time.
    if row.arity[1] == ANY and len(operands) > 2:
        total = operands[0]
        for x in operands[1:]:
            total = _computed(row, node.attrs, (total, x), tensor.dtype, flushes)
        result = total
    else:
        first = node.inputs[0]
        kind = graph.tensors[first].dtype.name if isinstance(first, str) else ""
        given = with_source(node.attrs, row.attr_names(), kind)
        result = _computed(row, given, operands, tensor.dtype, flushes)
    if result.data.shape != shape:
        result = _move(result, shape, "broadcast")
    return result


def numbers(attrs: Mapping[str, Any], symbols: Mapping[str, int]) -> dict[str, Any]:
    """Return the attributes with the values of the symbols."""
    return {
        k: tuple(x.evaluate(symbols) if isinstance(x, Expr) else x for x in v)
        if isinstance(v, tuple)
        else v
        for k, v in attrs.items()
    }


def _operands(
    names: Sequence[Operand], graph: FusionGraph, values: Mapping[str, Value]
) -> list[Value]:
    dtypes = operand_dtypes([o if isinstance(o, Constant) else graph.tensors[o] for o in names])
    return [
        _constant(o, d) if isinstance(o, Constant) else values[o]
        for o, d in zip(names, dtypes, strict=True)
    ]


def _constant(c: Constant, dtype: DType) -> Value:
    """Return a constant in its neighbour's dtype; computing in a wider type may keep more digits."""
    wide = widen(np.asarray(c.value))
    if dtype.kind == "f":
        wide = wide.astype(np.float64)
        data = round_to(wide, dtype)
        error = np.asarray(np.abs(data - wide))
        return Value(data, error if error > 0 else None)
    return Value(widen(wide.astype(numpy_dtype(dtype))))


def _move(x: Value, shape: tuple[int, ...], how: str) -> Value:
    error = None if x.error is None else _moved_to(x.error, shape, how)
    return Value(_moved_to(x.data, shape, how), error)


def _moved_to(a: Array, shape: tuple[int, ...], how: str) -> Array:
    return np.broadcast_to(a, shape) if how == "broadcast" else a.reshape(shape)


def _computed(
    row: OpDef, attrs: Mapping[str, Any], operands: Sequence[Value], dtype: DType, flushes: bool
) -> Value:
    rank = max((o.data.ndim for o in operands), default=0)
    flushes = flushes and dtype.kind == "f" and row.ulp > 0.5

    def compute(xs: Sequence[Value]) -> Value:
        if not flushes:
            return _compute(row, attrs, xs, dtype)
        made = _compute(row, attrs, [_or_zero(x) for x in xs], dtype)
        return _or_zero(made, _STEPS * SMALLEST_NORMAL)

    return in_rows(compute, operands, rank)


def _or_zero(x: Value, least: float = SMALLEST_NORMAL) -> Value:
    """Return the value with a bound that reaches zero where it is a subnormal float32 number."""
    if x.data.dtype.kind != "f":
        return x
    size = np.abs(x.data)
    tiny = (size > 0) & (size < least)
    if not tiny.any():
        return x
    error = np.zeros(x.data.shape) if x.error is None else x.error
    return Value(x.data, np.where(tiny, np.maximum(error, size), error))


def _compute(
    row: OpDef, attrs: Mapping[str, Any], operands: Sequence[Value], dtype: DType
) -> Value:
    assert row.reference is not None
    plain = [o.data for o in operands]

    def f(xs: Sequence[Array]) -> Array:
        assert row.reference is not None
        return row.reference(xs, attrs)

    exact = f(plain)
    data = round_result(exact, dtype)
    if dtype.kind == "b":
        return Value(data, _flips(f, operands, data))
    both = row.ulp == 0 or dtype.kind != "f"
    error = _propagated(f, operands, exact, both=both, turns=not are_told(row))
    if dtype.kind == "f" and row.ulp > 0:
        own = own_error(exact, data, row.ulp, dtype, error)
        if row.absolute:
            own = _add(np.full(data.shape, row.absolute), own)
        error = own if error is None else _add(error, own)
    return Value(data, error)


def _add(a: Array, b: Array | None) -> Array:
    if b is None:
        return a
    if a.shape == b.shape and a.flags.writeable:
        a += b
        return a
    return np.asarray(a + b)


def _moved(x: Value, sign: int) -> Array:
    """Return the operand with every element moved by its bound: towards zero (-1) or away from it (+1)."""
    assert x.error is not None
    if x.data.dtype == np.bool_:
        return np.asarray(x.data ^ x.error)
    if x.data.dtype.kind in "iu":
        step = np.nan_to_num(x.error, posinf=0).astype(x.data.dtype)
        return np.asarray(x.data + step if sign > 0 else x.data - step)
    step = np.copysign(x.error, x.data)
    return np.asarray(x.data + step if sign > 0 else x.data - step)


def _propagated(
    f: Any, operands: Sequence[Value], exact: Array, *, both: bool, turns: bool
) -> Array | None:
    """Sum, over the operands, the change of the result when one operand moves by its bound.

    Args:
        f: the op.
        operands: its operands.
        exact: its result.
        both: move them towards 0 and away from it.
        turns: the sign of the result may change between two operands of one sign; else a change is a jump, as for a
            negative base whose exponent may be even or odd.
    """
    total: Array | None = None
    xs = [o.data for o in operands]
    for i, o in enumerate(operands):
        if o.error is None:
            continue
        change: Array | None = None
        # An infinite bound includes both infinities, which differ where another operand is infinite.
        ways = both or bool(np.isinf(o.error).any())
        for sign in (-1, 1) if ways and o.data.dtype != np.bool_ else (-1,):
            other = f([*xs[:i], _moved(o, sign), *xs[i + 1 :]])
            # NumPy turns zero-dimensional arrays into scalars, which are not writable.
            c = np.asarray(difference(other, exact))
            if not turns and o.data.dtype.kind == "f":
                jumps = (np.sign(other) * np.sign(exact) < 0) & (np.abs(o.data) > o.error)
                c[jumps] = np.inf
            change = c if change is None else np.asarray(np.maximum(change, c))
        assert change is not None
        # A bound that reaches across 0 includes it, where 0 / 0 is NaN though 0 over each side of it is 0.
        if o.data.dtype.kind == "f" and (crosses := o.error > np.abs(o.data)).any():
            other = f([*xs[:i], np.where(crosses, np.copysign(0.0, o.data), o.data), *xs[i + 1 :]])
            change = np.asarray(np.maximum(change, difference(other, exact)))
        # A NaN that might be a number (0 times infinity, where the 0 is rounded) stays ill-conditioned.
        if o.data.dtype.kind == "f" and np.isinf(o.error).any():
            change[np.broadcast_to(np.isinf(o.error) & np.isnan(o.data), change.shape)] = np.inf
        total = change if total is None else _add(total, change)
    return total


def _flips(f: Any, operands: Sequence[Value], data: Array) -> Array | None:
    """Return a mask of bool results that a change of the operands within their bounds can flip."""
    inexact = [o for o in operands if o.error is not None]
    if not inexact:
        return None
    xs = [o.data for o in operands]
    out = np.zeros(data.shape, np.bool_)
    if len(operands) == 2 and all(o.data.dtype.kind == "f" for o in operands):
        # Two numbers have one order everywhere in their intervals unless the intervals touch.
        (a, b) = operands
        reach = np.asarray(sum(o.error for o in inexact if o.error is not None))
        touch = np.abs(a.data - b.data) <= reach
        out |= touch & (reach > 0)
        out |= np.isnan(reach) | np.isinf(reach)
        return out
    for sign in (-1, 1):
        moved = [_moved(o, sign) if o.error is not None else o.data for o in operands]
        for i, o in enumerate(operands):
            if o.error is not None:
                out |= f([*xs[:i], moved[i], *xs[i + 1 :]]) != data
        if len(inexact) > 1:
            out |= f(moved) != data
    return out
