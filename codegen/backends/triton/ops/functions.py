"""Device functions that generated files define where they use them.

Triton has no word for these that means on every card and in the interpreter what the registry says.  Each is the text
of a ``@triton.jit`` function; a function stands behind those that it calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autofuse.codegen.nests.polynomials import LOG1P
from autofuse.implgraph.ops.formulas.coefficients import EXP, NORMAL_TAIL, TANH

__all__ = ["DEVICE_FUNCTIONS", "with_called"]


def _horner(name: str, x: str, coefficients: Sequence[float]) -> str:
    """Statements of a function's body that make ``name`` a polynomial in ``x``; the highest coefficient last."""
    *rest, top = coefficients
    steps = (f"{name} = {name} * {x} {'-' if c < 0 else '+'} {abs(c)!r}" for c in reversed(rest))
    return "\n    ".join((f"{name} = {top!r}", *steps))


_EXP = '''\
@triton.jit
def _exp(x):
    """e**x of float32 to 2 units of the last place, for every x; tl.exp loses up to 7 bits of large ones."""
    shifted = tl.minimum(tl.maximum(x * 1.4426950408889634, -126.0), 127.0) + 12583039.0
    turns = shifted - 12583039.0
    rest = (x - turns * 0.693359375) + turns * 2.1219444005469058e-4
    power = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    return tl.exp2(rest * 1.4426950408889634) * power
'''

_EXPM1 = '''\
@triton.jit
def _expm1(x):
    """e**x - 1 of float32: 2**k (e**r - 1) + (2**k - 1), both halved so that 2**128 is not needed."""
    a = tl.maximum(x, -30.0, propagate_nan=tl.PropagateNan.ALL)
    shifted = tl.minimum(a * 1.4426950408889634, 128.0) + 12583038.0
    turns = shifted - 12583038.0
    r = (a - turns * 0.693359375) + turns * 2.1219444005469058e-4
    {EXP}
    half = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    value = (r + r * r * tail) * half + (half - 0.5)
    return value + value
'''.replace("{EXP}", _horner("tail", "r", EXP))

_SOFTPLUS = '''\
@triton.jit
def _softplus(x):
    """ln(1 + e**x) of float32."""
    e = _exp(tl.abs(x) * -1.0)
    {LOG1P}
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) + (e + e * e * tail)
'''.replace("{LOG1P}", _horner("tail", "e", LOG1P))

_GELU = '''\
@triton.jit
def _gelu(x):
    """x times the normal distribution function at x, float32; accurate also where that is small."""
    a = tl.minimum(tl.abs(x), 15.0, propagate_nan=tl.PropagateNan.ALL)
    {ABOVE}
    {BELOW}
    # e**(-a*a/2): the square of a with 8 bits behind the point is exact.
    near = (a + 49152.0) - 49152.0
    large = near * near * -0.5
    shifted = tl.maximum(large * 1.4426950408889634, -126.0) + 12583039.0
    turns = shifted - 12583039.0
    rest = (large - turns * 0.693359375) + turns * 2.1219444005469058e-4
    rest = rest - (a - near) * (a + near) * 0.5
    power = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    decay = tl.exp2(rest * 1.4426950408889634) * power
    positive = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    return positive - above * (a * decay) / below
'''.replace("{ABOVE}", _horner("above", "a", NORMAL_TAIL[0])).replace(
    "{BELOW}", _horner("below", "a", (*NORMAL_TAIL[1], 1.0))
)

_TANH = '''\
@triton.jit
def _tanh(x):
    """Hyperbolic tangent of float32: a polynomial up to 0.6, beyond that of the exponential."""
    square = x * x
    {TANH}
    size = tl.abs(x)
    far = 1.0 - 2.0 / (tl.exp(2.0 * size) + 1.0)
    return tl.where(size < 0.6, x + x * square * tail, tl.where(x < 0.0, -far, far))
'''.replace("{TANH}", _horner("tail", "square", TANH))

_ROUND = '''\
@triton.jit
def _round(x):
    """The nearest integral float32, the even one of two."""
    size = tl.abs(x)
    whole = (size + 8388608.0) - 8388608.0
    return tl.where(size < 8388608.0, tl.where(x < 0.0, whole * -1.0, whole), x)
'''

_TRUNC = '''\
@triton.jit
def _trunc(x):
    """The integral part of a float32."""
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))
'''

_ROUND_AWAY = '''\
@triton.jit
def _round_away(x):
    """The nearest integral float32, of two the one away from zero."""
    whole = _trunc(x)
    away = tl.where(x < 0.0, whole - 1.0, whole + 1.0)
    return tl.where(tl.abs(x - whole) >= 0.5, away, whole)
'''

_POWER = '''\
@triton.jit
def _power(x, y):
    """x**y of float32; the product in the exponent needs more bits than float32 has."""
    wide = tl.exp(y.to(tl.float64) * tl.log(tl.abs(x).to(tl.float64)))
    size = wide.to(tl.float32)
    whole = tl.floor(y)
    half = whole * 0.5
    odd = (whole == y) & (half != tl.floor(half))
    size = tl.where(odd & (x.to(tl.int32, bitcast=True) < 0), size * -1.0, size)
    size = tl.where((x < 0.0) & (x > float("-inf")) & (whole != y), float("nan"), size)
    # Where the exponent above is 0 times infinity, or NaN does not matter.
    one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (tl.abs(y) == float("inf")))
    return tl.where(one, 1.0, size)
'''

_POWER_INT = '''\
@triton.jit
def _power_int(x, y, BITS: tl.constexpr):
    """x**y of integers, which wraps; of a negative y the integral part."""
    total = tl.full(x.shape, 1, x.dtype)
    factor = x
    rest = y
    for _ in tl.static_range(BITS):
        total = tl.where((rest & 1) != 0, total * factor, total)
        factor = factor * factor
        rest = rest >> 1
    unit = tl.where(x == 1, 1, tl.where(x + 1 == 0, 1 - 2 * (y & 1), 0))
    return tl.where(y < 0, unit, total)
'''

_QUOTIENTS = {
    "_trunc_div": '''\
@triton.jit
def _trunc_div(a, b):
    """a / b of signed integers, rounded to zero; 0 where b is 0, and -a, which wraps, where b is -1."""
    quotient = a // tl.where((b == 0) | (b == -1), 1, b)
    return tl.where(b == 0, 0, tl.where(b == -1, 0 - a, quotient))
''',
    "_trunc_mod": '''\
@triton.jit
def _trunc_mod(a, b):
    """What _trunc_div leaves, with the sign of a; 0 where b is 0."""
    return a % tl.where((b == 0) | (b == -1), 1, b)
''',
    "_floor_div": '''\
@triton.jit
def _floor_div(a, b):
    """a / b of signed integers, rounded down; 0 where b is 0."""
    rest = _trunc_mod(a, b)
    return tl.where((rest != 0) & ((a < 0) != (b < 0)), _trunc_div(a, b) - 1, _trunc_div(a, b))
''',
    "_floor_mod": '''\
@triton.jit
def _floor_mod(a, b):
    """What _floor_div leaves, with the sign of b; 0 where b is 0."""
    rest = _trunc_mod(a, b)
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
''',
    "_unsigned_div": '''\
@triton.jit
def _unsigned_div(a, b):
    """a / b of unsigned integers, rounded down; 0 where b is 0."""
    return tl.where(b == 0, 0, a // tl.where(b == 0, 1, b))
''',
    "_unsigned_mod": '''\
@triton.jit
def _unsigned_mod(a, b):
    """What _unsigned_div leaves; 0 where b is 0."""
    return a % tl.where(b == 0, 1, b)
''',
}

_SHIFTS = {
    "_shift_left": '''\
@triton.jit
def _shift_left(x, count, BITS: tl.constexpr):
    """x << count; 0 for a count from BITS on, and for a negative one."""
    inside = (count >= 0) & (count < BITS)
    return tl.where(inside, x << tl.where(inside, count, 0), 0)
''',
    "_shift_right": '''\
@triton.jit
def _shift_right(x, count, BITS: tl.constexpr):
    """x >> count with the sign of x; a count from BITS on and a negative one leave the sign alone."""
    return x >> tl.where((count >= 0) & (count < BITS), count, BITS - 1)
''',
    "_unsigned_shift_right": '''\
@triton.jit
def _unsigned_shift_right(x, count, BITS: tl.constexpr):
    """x >> count of unsigned integers; 0 for a count from BITS on."""
    return tl.where(count < BITS, x >> tl.where(count < BITS, count, 0), 0)
''',
}

_TO_INT = '''\
@triton.jit
def _to_int(x, DTYPE: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr):
    """x rounded to zero as an integer of DTYPE, which holds LOW to HIGH; the nearest out of range, 0 of NaN."""
    known = tl.where(x == x, x, 0.0)
    inside = known < HIGH + 1.0
    return tl.where(inside, tl.maximum(tl.where(inside, known, 0.0), LOW + 0.0).to(DTYPE), HIGH)
'''

_COMBINATIONS = {
    "_max": '''\
@triton.jit
def _max(a, b):
    """The larger; NaN wins."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "_min": '''\
@triton.jit
def _min(a, b):
    """The smaller; NaN wins."""
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
    """Of two runs of neighbours: the sum of all but the last element, and of all."""
    return total_a + before_b, total_a + total_b
''',
    "_sums_along": '''\
@triton.jit
def _sums_along(x, AXIS: tl.constexpr, EXCLUSIVE: tl.constexpr, REVERSE: tl.constexpr):
    """The sums up to each element, or before it, one after another."""
    if EXCLUSIVE:
        return tl.associative_scan((tl.zeros_like(x), x), AXIS, _sum_before, reverse=REVERSE)[0]
    else:
        return tl.cumsum(x, AXIS, reverse=REVERSE)
''',
    "_running_sum": '''\
@triton.jit
def _running_sum(x, EXCLUSIVE: tl.constexpr, REVERSE: tl.constexpr):
    """The sums of rows up to each element, or before it; of long rows in runs of 128, as every sum rounds."""
    if x.shape[1] <= 1024:
        return _sums_along(x, 1, EXCLUSIVE, REVERSE)
    else:
        runs = tl.reshape(x, [x.shape[0], x.shape[1] // 128, 128])
        before = _sums_along(tl.sum(runs, 2), 1, True, REVERSE)
        return tl.reshape(_sums_along(runs, 2, EXCLUSIVE, REVERSE) + before[:, :, None], x.shape)
''',
}

#: Name -> text; a function stands behind those that it calls.
DEVICE_FUNCTIONS: Mapping[str, str] = {
    "_exp": _EXP,
    "_expm1": _EXPM1,
    "_softplus": _SOFTPLUS,
    "_gelu": _GELU,
    "_tanh": _TANH,
    "_round": _ROUND,
    "_trunc": _TRUNC,
    "_round_away": _ROUND_AWAY,
    "_power": _POWER,
    "_power_int": _POWER_INT,
    **_QUOTIENTS,
    **_SHIFTS,
    "_to_int": _TO_INT,
    **_COMBINATIONS,
}

_CALLS: Mapping[str, tuple[str, ...]] = {
    "_softplus": ("_exp",),
    "_round_away": ("_trunc",),
    "_floor_div": ("_trunc_div", "_trunc_mod"),
    "_floor_mod": ("_trunc_mod",),
    "_running_sum": ("_sum_before", "_sums_along"),
}


def with_called(names: Iterable[str]) -> tuple[str, ...]:
    """The functions and those that they call, in the order in which a file defines them."""
    wanted = set(names)
    for name in tuple(wanted):
        wanted.update(_CALLS.get(name, ()))
    return tuple(name for name in DEVICE_FUNCTIONS if name in wanted)
