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
adds nothing; copies, comparisons and sums of small integers therefore must agree exactly.  Random
perturbation (Monte Carlo arithmetic) was not taken: two independent errors of opposite sign cancel
in a sample of a few runs, and an element where that happens gets a bound of zero.

Where a small change of an operand flips a discontinuous result (comparison, floor, conversion to an
integer) or makes a finite result infinite or NaN, the element is *ill-conditioned*: its tolerance
is infinite, and it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from autofuse.implgraph.dtypes import DType, numpy_dtype
from autofuse.implgraph.expr import Expr
from autofuse.implgraph.fusion import Constant, FusionGraph, FusionNode, Operand
from autofuse.implgraph.infer import operand_dtypes
from autofuse.implgraph.ops import ANY, OpDef, lookup

__all__ = ["SAFETY", "Reference", "evaluate", "largest", "round_to", "shape_of", "ulp_of"]

Array: TypeAlias = npt.NDArray[Any]

#: The tolerance is this many times the error bound: the bound is of first order, and sums ignore
#: rounding of the sum.
SAFETY = 2.0


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


@dataclass(slots=True)
class _Value:
    """A tensor under evaluation: ``data`` in float64, int64, uint64 or bool, and its ``error``.

    For bool, ``error`` is a mask of elements that may flip.
    """

    data: Array
    error: Array | None = None


def shape_of(shape: Sequence[Expr], symbols: Mapping[str, int]) -> tuple[int, ...]:
    """A symbolic shape as numbers."""
    return tuple(s.evaluate(symbols) for s in shape)


def evaluate(
    graph: FusionGraph, inputs: Mapping[str, Array], symbols: Mapping[str, int]
) -> dict[str, Reference]:
    """Expected values of every output.

    Args:
        graph: what to compute.
        inputs: array of the logical shape for every input of the graph.
        symbols: a value for every symbol.

    Returns:
        A reference per output name (``GraphOutput.name``).
    """
    values = {name: _Value(_widen(np.asarray(inputs[name]))) for name in graph.inputs}
    last = _last_uses(graph)
    with np.errstate(all="ignore"):
        for i, node in enumerate(graph.nodes):
            result = _apply(node, graph, values, symbols)
            for name in node.outputs:
                values[name] = result
            for operand in (*node.inputs, *node.outputs):
                if isinstance(operand, str) and last.get(operand, -1) <= i:
                    values.pop(operand, None)
        return {
            o.name: _finish(values[o.tensor], graph.tensors[o.tensor].dtype) for o in graph.outputs
        }


def _last_uses(graph: FusionGraph) -> dict[str, int]:
    last = {o: i for i, n in enumerate(graph.nodes) for o in n.inputs if isinstance(o, str)}
    last.update({o.tensor: len(graph.nodes) for o in graph.outputs})
    return last


def _finish(v: _Value, dtype: DType) -> Reference:
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
    node: FusionNode, graph: FusionGraph, values: Mapping[str, _Value], symbols: Mapping[str, int]
) -> _Value:
    row = lookup(node.op)
    if row.reference is None:
        raise NotImplementedError(f"{row.name} has no reference")
    tensor = graph.tensors[node.outputs[0]]
    shape = shape_of(tensor.shape, symbols)
    operands = _operands(node.inputs, graph, values)
    if row.compute_type in ("broadcast", "view"):
        return _move(operands[0], shape, row.compute_type)
    # A sum of many operands is made left to right, rounding each time.
    if row.arity[1] == ANY and len(operands) > 2:
        total = operands[0]
        for x in operands[1:]:
            total = _compute(row, node.attrs, (total, x), tensor.dtype)
        result = total
    else:
        result = _compute(row, node.attrs, operands, tensor.dtype)
    if result.data.shape != shape:
        result = _move(result, shape, "broadcast")
    return result


def _operands(
    names: Sequence[Operand], graph: FusionGraph, values: Mapping[str, _Value]
) -> list[_Value]:
    dtypes = operand_dtypes([o if isinstance(o, Constant) else graph.tensors[o] for o in names])
    return [
        _constant(o, d) if isinstance(o, Constant) else values[o]
        for o, d in zip(names, dtypes, strict=True)
    ]


def _constant(c: Constant, dtype: DType) -> _Value:
    """A constant in its neighbour's dtype; computing in a wider type may keep more digits."""
    wide = _widen(np.asarray(c.value))
    if dtype.kind == "f":
        wide = wide.astype(np.float64)
        data = round_to(wide, dtype)
        error = np.asarray(np.abs(data - wide))
        return _Value(data, error if error > 0 else None)
    return _Value(_widen(wide.astype(numpy_dtype(dtype))))


def _move(x: _Value, shape: tuple[int, ...], how: str) -> _Value:
    def move(a: Array) -> Array:
        return np.broadcast_to(a, shape) if how == "broadcast" else a.reshape(shape)

    return _Value(move(x.data), None if x.error is None else move(x.error))


def _compute(
    row: OpDef, attrs: Mapping[str, Any], operands: Sequence[_Value], dtype: DType
) -> _Value:
    assert row.reference is not None
    plain = [o.data for o in operands]

    def f(xs: Sequence[Array]) -> Array:
        assert row.reference is not None
        return row.reference(xs, attrs)

    exact = f(plain)
    data = _round(exact, dtype)
    if dtype.kind == "b":
        return _Value(data, _flips(f, operands, data))
    error = _propagated(f, operands, exact, both=row.ulp == 0 or dtype.kind != "f")
    if dtype.kind == "f" and row.ulp > 0:
        own = _own_error(exact, data, row.ulp, dtype)
        error = own if error is None else _add(error, own)
    return _Value(data, error)


def _add(a: Array, b: Array | None) -> Array:
    if b is None:
        return a
    if a.shape == b.shape and a.flags.writeable:
        a += b
        return a
    return np.asarray(a + b)


def _moved(x: _Value, sign: int) -> Array:
    """The operand with every element moved by its bound: towards zero (-1) or away from it (+1)."""
    assert x.error is not None
    if x.data.dtype == np.bool_:
        return np.asarray(x.data ^ x.error)
    if x.data.dtype.kind in "iu":
        step = np.nan_to_num(x.error, posinf=0).astype(x.data.dtype)
        return np.asarray(x.data + step if sign > 0 else x.data - step)
    step = np.copysign(x.error, x.data)
    return np.asarray(x.data + step if sign > 0 else x.data - step)


def _propagated(f: Any, operands: Sequence[_Value], exact: Array, *, both: bool) -> Array | None:
    """Sum over the operands of the change of the result when one operand moves by its bound."""
    total: Array | None = None
    xs = [o.data for o in operands]
    for i, o in enumerate(operands):
        if o.error is None:
            continue
        change: Array | None = None
        for sign in (-1, 1) if both and o.data.dtype != np.bool_ else (-1,):
            other = f([*xs[:i], _moved(o, sign), *xs[i + 1 :]])
            c = _difference(other, exact)
            change = c if change is None else np.maximum(change, c)
        assert change is not None
        total = change if total is None else _add(total, change)
    return total


def _difference(a: Array, b: Array) -> Array:
    """|a - b|; equal infinities and two NaN differ by 0, a NaN differs from a number by inf."""
    if a.dtype.kind in "iub":
        return np.abs(a.astype(np.float64) - b.astype(np.float64))
    d = np.asarray(a - b)
    d = np.asarray(np.abs(d))
    odd = np.isnan(d)
    if odd.any():
        d[odd] = np.where((np.isnan(a) & np.isnan(b)) | (a == b), 0.0, np.inf)[odd]
    return d


def _flips(f: Any, operands: Sequence[_Value], data: Array) -> Array | None:
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


# rounding -------------------------------------------------------------------------------------

# Digits of the significand, smallest normal number, largest number.
_FLOAT = {
    "float32": (24, 2.0**-126, (2 - 2.0**-23) * 2.0**127),
    "float16": (11, 2.0**-14, 65504.0),
    "bfloat16": (8, 2.0**-126, (2 - 2.0**-7) * 2.0**127),
}


def largest(dtype: DType) -> float:
    """The largest finite number of a float dtype."""
    return _FLOAT[dtype.name][2]


def ulp_of(value: Array, dtype: DType) -> Array:
    """Distance of neighbouring numbers of a float dtype at each value, or up to twice that."""
    digits, normal, _ = _FLOAT[dtype.name]
    return np.asarray(np.maximum(np.abs(value), normal) * 2.0 ** (1 - digits))


def _own_error(exact: Array, data: Array, ulp: float, dtype: DType) -> Array | None:
    """Error that the op itself may make: ``ulp`` units, or nothing where it must be exact."""
    digits, normal, _ = _FLOAT[dtype.name]
    size = np.abs(data)
    own = np.asarray(np.maximum(size, normal))
    own *= max(ulp, 0.5) * 2.0 ** (1 - digits)
    own[np.isinf(size)] = 0.0
    if ulp <= 0.5:
        # Correctly rounded: an exact result, an infinity from infinities and a NaN carry no error.
        same = exact == data
        if same.all():
            return None
        own[same] = 0.0
    else:
        # Approximations may give zero in place of a subnormal number.
        own[size < normal] += normal
    own[np.isnan(data)] = 0.0
    return own


def _widen(x: Array) -> Array:
    """float64, int64 (uint64 where it is needed) or bool with the same values."""
    if x.dtype == np.bool_ or x.dtype == np.uint64:
        return x
    if x.dtype.kind in "iu":
        return x.astype(np.int64)
    return x.astype(np.float64)


def round_to(x: Array, dtype: DType) -> Array:
    """A float64 array rounded to a float dtype, ties to even, as float64.

    bfloat16 is rounded through float32, as the chip does when it computes in float32 and casts.
    """
    if dtype.name == "bfloat16":
        return x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    return x.astype(numpy_dtype(dtype)).astype(np.float64)


def _round(x: Array, dtype: DType) -> Array:
    """The result of a reference in the declared dtype, widened again.

    A float becomes an integer as on the chip: out of range saturates, NaN becomes 0.  Integers
    wrap.
    """
    if dtype.kind == "f":
        return round_to(x.astype(np.float64, copy=False), dtype)
    if dtype.kind == "b":
        return np.asarray(x.astype(np.bool_, copy=False))
    if x.dtype.kind == "f":
        return _saturate(x, dtype)
    wide = np.uint64 if dtype.name == "uint64" else np.int64
    return np.asarray(x.astype(numpy_dtype(dtype)).astype(wide, copy=False))


def _saturate(x: Array, dtype: DType) -> Array:
    limits = np.iinfo(numpy_dtype(dtype))
    wide = np.uint64 if dtype.name == "uint64" else np.int64
    inside = np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    # The limits of 64-bit types are not float64 numbers; compare with the next power of two.
    high, low = float(limits.max), float(limits.min)
    top, bottom = x >= high, x <= low
    out = np.where(top | bottom, 0.0, inside).astype(wide)
    out[top] = limits.max
    out[bottom] = limits.min
    return np.asarray(out)
