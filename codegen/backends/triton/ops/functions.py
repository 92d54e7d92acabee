"""Device functions of generated files, besides those of ``autofuse.codegen.nests.formulas``.

Triton has no builtin for these that matches the registry's semantics on every card and in the interpreter.  Each is the
text of a ``@triton.jit`` function.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FUNCTIONS"]


_EXP = '''\
@triton.jit
def _exp(x):
    """e**x of float32, within 2 units of the last place for every x; tl.exp loses up to 7 bits for large x."""
    shifted = tl.minimum(tl.maximum(x * 1.4426950408889634, -126.0), 127.0) + 12583039.0
    turns = shifted - 12583039.0
    rest = (x - turns * 0.693359375) + turns * 2.1219444005469058e-4
    power = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    return tl.exp2(rest * 1.4426950408889634) * power
'''

_POWER = '''\
@triton.jit
def _power(x, y):
    """x**y of float32, computed in float64: the product in the exponent needs the bits."""
    wide = tl.exp(y.to(tl.float64) * tl.log(tl.abs(x).to(tl.float64)))
    size = wide.to(tl.float32)
    whole = tl.floor(y)
    half = whole * 0.5
    odd = (whole == y) & (half != tl.floor(half))
    size = tl.where(odd & (x.to(tl.int32, bitcast=True) < 0), size * -1.0, size)
    size = tl.where((x < 0.0) & (x > float("-inf")) & (whole != y), float("nan"), size)
    # Results that are 1 even if the exponent above is 0 * infinity or NaN.
    one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (tl.abs(y) == float("inf")))
    return tl.where(one, 1.0, size)
'''

_TO_INT = '''\
@triton.jit
def _to_int(x, DTYPE: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr):
    """x rounded towards zero to DTYPE, whose range is LOW to HIGH; saturates, and converts NaN to 0."""
    known = tl.where(x == x, x, 0.0)
    inside = known < HIGH + 1.0
    return tl.where(inside, tl.maximum(tl.where(inside, known, 0.0), LOW + 0.0).to(DTYPE), HIGH)
'''

_COMBINATIONS = {
    "_max": '''\
@triton.jit
def _max(a, b):
    """The larger value; propagates NaN."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "_min": '''\
@triton.jit
def _min(a, b):
    """The smaller value; propagates NaN."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "_product": '''\
@triton.jit
def _product(a, b):
    """The product of two partial products."""
    return a * b
''',
    "_sum_before": '''\
@triton.jit
def _sum_before(before_a, total_a, before_b, total_b):
    """Combine two adjacent runs: the sum of all but the last element, and the sum of all."""
    return total_a + before_b, total_a + total_b
''',
    "_sums_along": '''\
@triton.jit
def _sums_along(x, AXIS: tl.constexpr, EXCLUSIVE: tl.constexpr, REVERSE: tl.constexpr):
    """Running sums up to each element, or excluding it."""
    if EXCLUSIVE:
        return tl.associative_scan((tl.zeros_like(x), x), AXIS, _sum_before, reverse=REVERSE)[0]
    else:
        return tl.cumsum(x, AXIS, reverse=REVERSE)
''',
    "_running_sum": '''\
@triton.jit
def _running_sum(x, EXCLUSIVE: tl.constexpr, REVERSE: tl.constexpr):
    """Running sums of rows up to each element, or excluding it; long rows in runs of 128, to round less."""
    if x.shape[1] <= 1024:
        return _sums_along(x, 1, EXCLUSIVE, REVERSE)
    else:
        runs = tl.reshape(x, [x.shape[0], x.shape[1] // 128, 128])
        before = _sums_along(tl.sum(runs, 2), 1, True, REVERSE)
        return tl.reshape(_sums_along(runs, 2, EXCLUSIVE, REVERSE) + before[:, :, None], x.shape)
''',
}

#: Name -> text.
FUNCTIONS: Mapping[str, str] = {"_exp": _EXP, "_power": _POWER, "_to_int": _TO_INT, **_COMBINATIONS}
