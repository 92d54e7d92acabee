"""Formulas of ops, shared by all backends that emit loops.

A formula is a Python expression in the operands ``a``, ``b`` and ``c``, or a function of such statements.  Besides
operators it has *words*, which each language spells (:mod:`autofuse.codegen.nests.language`):

==========================  ===============================================================================
``where(c, a, b)``          ``a`` where ``c`` holds, else ``b``
``at_least(x, n)``          the larger of a value and a number; NaN stays.  ``at_most``: the smaller one
``bits(x)``, ``number(i)``  the bits of a float32 as an integer of 32 bits, and back
``copysign(size, x)``       ``size``, which is not negative, with the sign of ``x``
``wide(x)``, ``narrow(x)``  a float32 as a float64, and back
``polynomial(x, NAME)``     polynomial of ``COEFFICIENTS``; only as the right side of an assignment
``one(x)``                  1 in the type of an integer
``BITS``, ``TOP``           width of an integer in bits, and one less
==========================  ===============================================================================

Other words are function names, ``exp`` or ``sqrt``.  A language without such a function uses the one of ``FUNCTIONS``.
Integers wrap, ``//`` and ``%`` round to zero.  16-bit floats are held in float32
(:mod:`autofuse.codegen.nests.legalize`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofuse.codegen.nests.polynomials import LOG1P
from autofuse.implgraph.ops.definition import Expansion
from autofuse.implgraph.ops.formulas.coefficients import ERF, EXP, NORMAL_TAIL, TANH
from autofuse.implgraph.ops.formulas.vector_math import Vec, formula
from autofuse.implgraph.ops.rows.activations import SELU_ALPHA, SELU_GAMMA

__all__ = ["COEFFICIENTS", "EXPANSIONS", "FORMULAS", "FUNCTIONS", "Formulas"]

#: Op -> kinds of the last operand's element type -> formula.
Formulas = Mapping[str, Mapping[str, str]]

FORMULAS: Formulas = {
    # Arithmetic.
    "Add": {"fiu": "a + b"},
    "Sub": {"fiu": "a - b"},
    "Mul": {"fiu": "a * b"},
    "Div": {"f": "a / b"},
    "Neg": {"f": "-a", "iu": "0 - a"},
    "Abs": {"f": "absolute(a)", "i": "where(a < 0, 0 - a, a)", "u": "a"},
    "Square": {"fiu": "a * a"},
    "Sign": {
        "f": "where(a > 0.0, 1.0, where(a < 0.0, -1.0, a))",
        "i": "where(a > 0, 1, where(a < 0, -1, a))",
        "u": "where(a > 0, 1, a)",
    },
    "Relu": {"f": "at_least(a, 0.0)", "i": "where(a > 0, a, 0)", "u": "a"},
    "LeakyRelus": {"f": "where(a >= 0.0, a, a * b)"},
    "Maximum": {"f": "maximum(a, b)", "iu": "where(a > b, a, b)"},
    "Minimum": {"f": "minimum(a, b)", "iu": "where(a < b, a, b)"},
    # The product is exact in float64, even without a fused operation.
    "Fma": {"f": "narrow(wide(a) * wide(b) + wide(c))", "iu": "a * b + c"},
    "Pow": {"f": "power(a, b)", "iu": "power_int(a, b)"},
    "TruncDiv": {"i": "trunc_div(a, b)", "u": "unsigned_div(a, b)"},
    "FloorDiv": {"i": "floor_div(a, b)", "u": "unsigned_div(a, b)"},
    "Fmod": {"i": "trunc_mod(a, b)", "u": "unsigned_mod(a, b)"},
    "Remainder": {"i": "floor_mod(a, b)", "u": "unsigned_mod(a, b)"},
    # Float functions.
    "Exp": {"f": "exp(a)"},
    "Expm1": {"f": "expm1(a)"},
    "Exp2": {"f": "exp2(a)"},
    "Softplus": {"f": "softplus(a)"},
    "LogSigmoid": {"f": "-softplus(-a)"},
    "Gelu": {"f": "gelu(a)"},
    "Ln": {"f": "ln(a)"},
    "Log2": {"f": "log2(a)"},
    "Log10": {"f": "log10(a)"},
    "Sqrt": {"f": "sqrt(a)"},
    "Rsqrt": {"f": "1.0 / sqrt(a)"},
    "Sin": {"f": "sin(a)"},
    "Cos": {"f": "cos(a)"},
    "Erf": {"f": "erf(a)"},
    "Tanh": {"f": "tanh(a)"},
    "Floor": {"f": "floor(a)"},
    "Ceil": {"f": "ceil(a)"},
    "Trunc": {"f": "trunc(a)"},
    "Round": {"f": "round_even(a)"},
    "RoundAway": {"f": "round_away(a)"},
    # Truth values.
    "Equal": {"fiub": "a == b"},
    "NotEqual": {"fiub": "a != b"},
    "Less": {"fiub": "a < b"},
    "LessEqual": {"fiub": "a <= b"},
    "Greater": {"fiub": "a > b"},
    "GreaterEqual": {"fiub": "a >= b"},
    "Select": {"fiub": "where(a, b, c)"},
    # Bits.
    "BitwiseAnd": {"iub": "a & b"},
    "BitwiseOr": {"iub": "a | b"},
    "BitwiseXor": {"iub": "a ^ b"},
    "BitwiseNot": {"iu": "~a", "b": "a == 0"},
    "Shl": {"iu": "a << b"},
    "Shr": {"iu": "a >> b"},
    "LShift": {"iu": "shift_left(a, b)"},
    "RShift": {"i": "shift_right(a, b)", "u": "unsigned_shift_right(a, b)"},
    "BitCast": {"fiub": "bit_cast(a)"},
}

#: Functions of floats, and of integers of one type ``T``.
FUNCTIONS: Mapping[str, str] = {
    "expm1": '''
def expm1(x):
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with both terms halved to avoid 2^128; preserves the sign of zero."""
    a = at_least(x, -30.0)
    scaled = a * 1.4426950408889634
    shifted = at_most(scaled, 128.0) + 12583038.0
    turns = shifted - 12583038.0
    r = (a - turns * 0.693359375) + turns * 2.1219444005469058e-4
    tail = polynomial(r, EXP)
    half = number(bits(shifted) << 23)
    value = (r + r * r * tail) * half + (half - 0.5)
    return where(x == 0.0, x, value + value)
''',
    "softplus": '''
def softplus(x):
    """ln(1 + e^x)."""
    e = exp(-absolute(x))
    tail = polynomial(e, LOG1P)
    return at_least(x, 0.0) + (e + e * e * tail)
''',
    "tanh": '''
def tanh(x):
    """Hyperbolic tangent: a polynomial up to 0.6, the exponential beyond."""
    size = absolute(x)
    square = x * x
    tail = polynomial(square, TANH)
    far = 1.0 - 2.0 / (exp(2.0 * size) + 1.0)
    return where(size < 0.6, x + x * square * tail, copysign(far, x))
''',
    "normal_tail": '''
def normal_tail(a):
    """e^(a^2/2) times the normal distribution function at -a, for a >= 0."""
    above = polynomial(a, NORMAL_ABOVE)
    below = polynomial(a, NORMAL_BELOW)
    return above / below
''',
    "erf": '''
def erf(x):
    """Error function: a polynomial up to 1, the tail of the normal distribution beyond."""
    size = absolute(x)
    square = x * x
    tail = polynomial(square, ERF)
    a = at_most(size, 5.0)
    far = 1.0 - 2.0 * exp(-a * a) * normal_tail(a * 1.4142135623730951)
    return where(size < 1.0, x + x * tail, where(x != x, x, copysign(far, x)))
''',
    "gelu": '''
def gelu(x):
    """x times the normal distribution function at x, accurate even where the latter is small."""
    size = absolute(x)
    a = at_most(size, 15.0)
    near = (a + 49152.0) - 49152.0
    large = near * near * -0.5
    scaled = large * 1.4426950408889634
    shifted = at_least(scaled, -126.0) + 12583039.0
    turns = shifted - 12583039.0
    rest = (large - turns * 0.693359375) + turns * 2.1219444005469058e-4
    less = rest - (a - near) * (a + near) * 0.5
    decay = exp2(less * 1.4426950408889634) * number(bits(shifted) << 23)
    return at_least(x, 0.0) - normal_tail(a) * (a * decay)
''',
    "round_even": '''
def round_even(x):
    """Round to the nearest integral value, ties to even."""
    size = absolute(x)
    whole = (size + 8388608.0) - 8388608.0
    return where(size < 8388608.0, copysign(whole, x), x)
''',
    "round_away": '''
def round_away(x):
    """Round to the nearest integral value, ties away from zero."""
    whole = trunc(x)
    return where(absolute(x - whole) >= 0.5, whole + copysign(1.0, x), whole)
''',
    "power_int": '''
def power_int(x: T, y: T):
    """x^y, which wraps around; truncated to an integer for negative y."""
    total = one(x)
    factor = x
    rest = y
    for _ in range(BITS):
        total = where((rest & 1) != 0, total * factor, total)
        factor = factor * factor
        rest = rest >> 1
    unit = where(x == 1, 1, where(x + 1 == 0, 1 - 2 * (y & 1), 0))
    return where(y < 0, unit, total)
''',
    "trunc_div": '''
def trunc_div(a: T, b: T):
    """a / b rounded towards zero; 0 if b is 0; -a, which wraps around, if b is -1."""
    quotient = a // where((b == 0) | (b == -1), 1, b)
    return where(b == 0, 0, where(b == -1, 0 - a, quotient))
''',
    "trunc_mod": '''
def trunc_mod(a: T, b: T):
    """Return the remainder of trunc_div, with the sign of a; 0 if b is 0."""
    return a % where((b == 0) | (b == -1), 1, b)
''',
    "floor_div": '''
def floor_div(a: T, b: T):
    """a / b rounded down; 0 if b is 0."""
    rest = trunc_mod(a, b)
    quotient = trunc_div(a, b)
    return where((rest != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)
''',
    "floor_mod": '''
def floor_mod(a: T, b: T):
    """Return the remainder of floor_div, with the sign of b; 0 if b is 0."""
    rest = trunc_mod(a, b)
    return where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
''',
    "unsigned_div": '''
def unsigned_div(a: T, b: T):
    """a / b rounded down; 0 if b is 0."""
    return where(b == 0, 0, a // where(b == 0, 1, b))
''',
    "unsigned_mod": '''
def unsigned_mod(a: T, b: T):
    """Return the remainder of unsigned_div; 0 if b is 0."""
    return a % where(b == 0, 1, b)
''',
    "shift_left": '''
def shift_left(x: T, count: T):
    """x << count; 0 if count is negative or at least the width of x."""
    inside = (count >= 0) & (count < BITS)
    return where(inside, x << where(inside, count, 0), 0)
''',
    "shift_right": '''
def shift_right(x: T, count: T):
    """x >> count with sign extension; only the sign is left if count is negative or at least the width of x."""
    return x >> where((count >= 0) & (count < BITS), count, TOP)
''',
    "unsigned_shift_right": '''
def unsigned_shift_right(x: T, count: T):
    """x >> count; 0 if count is at least the width of x."""
    inside = count < BITS
    return where(inside, x >> where(inside, count, 0), 0)
''',
}

#: Lowest power first.
COEFFICIENTS: Mapping[str, Sequence[float]] = {
    "ERF": ERF,
    "EXP": EXP,
    "LOG1P": LOG1P,
    "NORMAL_ABOVE": NORMAL_TAIL[0],
    "NORMAL_BELOW": (*NORMAL_TAIL[1], 1.0),
    "TANH": TANH,
}


# ops that expand to several nodes -------------------------------------------------------------


def _elu(x: Vec, alpha: float = 1.0) -> Vec:
    below = x.call("Expm1")
    return (x > 0.0).choose(x, below if alpha == 1.0 else below * alpha)


def _selu(x: Vec, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> Vec:
    return (x > 0.0).choose(x * gamma, x.call("Expm1") * (alpha * gamma))


def _celu(x: Vec, alpha: float = 1.0) -> Vec:
    return (x > 0.0).choose(x, (x * (1.0 / alpha)).call("Expm1") * alpha)


#: Op -> the nodes that replace it, instead of its row's expansion.
EXPANSIONS: Mapping[str, Expansion] = {
    "Elu": formula(_elu),
    "Selu": formula(_selu),
    "Celu": formula(_celu),
}
