"""What a graph means, by the references of its rows, and how far a correct kernel may be from that.

Every op is computed in float64 (or exact integers) from operands that are already rounded, and its
result is rounded to the declared dtype: the arithmetic of a machine whose every op is correctly
rounded.  A real machine is allowed an error per op (``OpDef.ulp``), may fuse ops, and may sum in
another order; :func:`evaluate` carries a bound of the error that this can make through the graph.

The bound is a running error analysis.  Beside every tensor goes an array of absolute error bounds.
One op adds, for each operand, how much its result changes when the operand moves by its bound (the
reference is evaluated once more), and then its own rounding error:

    error(y) = sum_i |f(.., x_i - e_i, ..) - f(..)|  +  max(ulp, 1/2) ulp(y)

An op with ``ulp <= 1/2`` is correctly rounded on every machine, so where its result is exact it
adds nothing, unless errors of its operands move the result so far that it is rounded; copies,
comparisons and sums of small integers therefore must agree exactly.
Reductions and what is composed of them have bounds of their own: :mod:`autofuse.twin.oracle.reductions`.  Random
perturbation (Monte Carlo arithmetic) was not taken: two independent errors of opposite sign cancel
in a sample of a few runs, and an element where that happens gets a bound of zero.

A kernel may make a reduction that needs an earlier one with what that has come to so far, and correct it as that
goes on (``implgraph/division/online_reductions.py``).  So what lies between two reductions counts as rounded even where
it is exact, and so does the sum that it ends in: the mean of a part of a row may have more digits than that of the row.

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
from autofuse.twin.oracle.in_rows import in_rows
from autofuse.twin.oracle.reductions import composed, moved, reduced
from autofuse.twin.oracle.rounding import (
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

__all__ = ["SAFETY", "Reference", "evaluate", "largest", "round_to", "shape_of", "ulp_of"]

#: Ops that put elements elsewhere, and index tensors.
_MOVES = ("transpose", "slice", "concat", "pad", "gather", "iota")

#: The tolerance is this many times the error bound: the bound is of first order, and sums ignore
#: rounding of the sum.
SAFETY = 2.0

#: Of float32 and of bfloat16, which is computed in that; so is float16, whose subnormal numbers are larger.
SMALLEST_NORMAL = 2.0**-126
#: A result of an approximation may be so many times as large as one of its steps: exp(-x*x/2) in x Ndtr(x) is.
_STEPS = 32.0


@dataclass(frozen=True, slots=True)
class Reference:
    """The expected value of one output.

    Attributes:
        value: in the declared dtype.
        tolerance: allowed absolute difference per element, inf where ill-conditioned; None: must be
            equal.
        ill_conditioned: number of elements with infinite tolerance.
    """

    value: Array
    tolerance: Array | None
    ill_conditioned: int = 0


def shape_of(shape: Sequence[Expr], symbols: Mapping[str, int]) -> tuple[int, ...]:
    """A symbolic shape as numbers."""
    return tuple(s.evaluate(symbols) for s in shape)


def evaluate(
    graph: FusionGraph,
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int],
    *,
    flushes: bool = False,
) -> dict[str, Reference]:
    """Expected values of every output.

    Args:
        graph: what to compute.
        inputs: array of the logical shape for every input of the graph.
        symbols: a value for every symbol.
        flushes: approximations may take a subnormal float32 operand for a zero (``Architecture.flushes``).

    Returns:
        A reference per output name (``GraphOutput.name``).
    """
    # Inputs are widened where they are used: a large one is no larger by then than a few of its rows.
    values = {name: Value(np.asarray(inputs[name])) for name in graph.inputs}
    last = _last_uses(graph)
    between = _between_reductions(graph)
    with np.errstate(all="ignore"):
        for i, node in enumerate(graph.nodes):
            result = _apply(node, graph, values, symbols, between, flushes)
            if node.outputs[0] in between:
                result = _rounded(result, graph.tensors[node.outputs[0]].dtype)
            for name in node.outputs:
                values[name] = result
            for operand in (*node.inputs, *node.outputs):
                if isinstance(operand, str) and last.get(operand, -1) <= i:
                    values.pop(operand, None)
        return {
            o.name: _finish(values[o.tensor], graph.tensors[o.tensor].dtype) for o in graph.outputs
        }


def _between_reductions(graph: FusionGraph) -> frozenset[str]:
    """Tensors that are made of the result of a reduction, and that another reduction needs."""

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
    """The value with at least the error of one rounding, also where it is exact."""
    if dtype.kind != "f":
        return x
    own = own_error(np.full(x.data.shape, np.nan), x.data, 0.5, dtype)
    if own is None:  # no elements
        return x
    return Value(x.data, own if x.error is None else own + x.error)


def _last_uses(graph: FusionGraph) -> dict[str, int]:
    last = {o: i for i, n in enumerate(graph.nodes) for o in n.inputs if isinstance(o, str)}
    last.update({o.tensor: len(graph.nodes) for o in graph.outputs})
    return last


def _finish(v: Value, dtype: DType) -> Reference:
    value = v.data.astype(numpy_dtype(dtype), order="C")
    if v.error is None:
        return Reference(value, None)
    if dtype.kind == "b":
        tolerance = np.where(v.error, np.inf, 0.0)
    else:
        tolerance = np.asarray(v.error * SAFETY)
        if dtype.kind in "iu":  # a flip is a step of at least 1
            tolerance[tolerance > 0] = np.inf
        tolerance[np.isnan(tolerance)] = np.inf
    return Reference(value, tolerance, int(np.count_nonzero(np.isinf(tolerance))))


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
    attrs = _numbers(node.attrs, symbols)
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
    # A sum of many operands is made left to right, rounding each time.
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


def _numbers(attrs: Mapping[str, Any], symbols: Mapping[str, int]) -> dict[str, Any]:
    """Attributes with the values of the symbols."""
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
    """A constant in its neighbour's dtype; computing in a wider type may keep more digits."""
    wide = widen(np.asarray(c.value))
    if dtype.kind == "f":
        wide = wide.astype(np.float64)
        data = round_to(wide, dtype)
        error = np.asarray(np.abs(data - wide))
        return Value(data, error if error > 0 else None)
    return Value(widen(wide.astype(numpy_dtype(dtype))))


def _move(x: Value, shape: tuple[int, ...], how: str) -> Value:
    def move(a: Array) -> Array:
        return np.broadcast_to(a, shape) if how == "broadcast" else a.reshape(shape)

    return Value(move(x.data), None if x.error is None else move(x.error))


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
    """The value, with a bound that reaches zero where it is smaller: a subnormal float32 number."""
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
    error = _propagated(f, operands, exact, both=row.ulp == 0 or dtype.kind != "f")
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
    """The operand with every element moved by its bound: towards zero (-1) or away from it (+1)."""
    assert x.error is not None
    if x.data.dtype == np.bool_:
        return np.asarray(x.data ^ x.error)
    if x.data.dtype.kind in "iu":
        step = np.nan_to_num(x.error, posinf=0).astype(x.data.dtype)
        return np.asarray(x.data + step if sign > 0 else x.data - step)
    step = np.copysign(x.error, x.data)
    return np.asarray(x.data + step if sign > 0 else x.data - step)


def _propagated(f: Any, operands: Sequence[Value], exact: Array, *, both: bool) -> Array | None:
    """Sum over the operands of the change of the result when one operand moves by its bound."""
    total: Array | None = None
    xs = [o.data for o in operands]
    for i, o in enumerate(operands):
        if o.error is None:
            continue
        change: Array | None = None
        for sign in (-1, 1) if both and o.data.dtype != np.bool_ else (-1,):
            other = f([*xs[:i], _moved(o, sign), *xs[i + 1 :]])
            # NumPy makes numbers of arrays without dimensions, into which nothing can be written.
            c = np.asarray(difference(other, exact))
            change = c if change is None else np.asarray(np.maximum(change, c))
        assert change is not None
        # What is NaN and might as well be a number (0 times infinity, where the 0 is rounded) stays that.
        if o.data.dtype.kind == "f" and np.isinf(o.error).any():
            change[np.broadcast_to(np.isinf(o.error) & np.isnan(o.data), change.shape)] = np.inf
        total = change if total is None else _add(total, change)
    return total


def _flips(f: Any, operands: Sequence[Value], data: Array) -> Array | None:
    """Elements of a bool result that a change of the operands within their bounds can flip."""
    inexact = [o for o in operands if o.error is not None]
    if not inexact:
        return None
    xs = [o.data for o in operands]
    out = np.zeros(data.shape, np.bool_)
    if len(operands) == 2 and all(o.data.dtype.kind == "f" for o in operands):
        # Two numbers are ordered alike everywhere in their intervals, or the intervals touch.
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
