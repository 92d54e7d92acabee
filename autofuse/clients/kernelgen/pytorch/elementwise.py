"""Rows of element-wise ops: arithmetic, functions, comparisons, activations, classification."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autofuse.clients.kernelgen.pytorch.operation import Operation, Row, number

__all__ = ["ROWS"]

_F = "torch.nn.functional"


def _sign(op: Operation) -> str:
    if op.dtypes[0].kind == "f":
        return f"torch.where(torch.isnan({op[0]}), {op[0]}, torch.sign({op[0]}))"
    return f"({op[0]} != 0).to(torch.int64)" if op.carried else f"torch.sign({op[0]})"


def _unsigned(form: str, unsigned: str) -> Row:
    """Return a row with one form for signed and one for unsigned numbers."""
    return Row(lambda op: (unsigned if op.dtypes[0].kind == "u" else form).format(op[0]))


def _reciprocal(op: Operation) -> str:
    if op.dtypes[0].kind == "f":
        return f"torch.reciprocal({op.tensor(0)})"
    size = op[0] if op.dtypes[0].kind == "u" else f"torch.abs({op[0]})"
    return f"torch.where({size} == 1, {op[0]}, 0)"


def _extremum(word: str, bound: str) -> Row:
    """Return the row of the maximum or minimum of two operands; NaN propagates."""

    def form(op: Operation) -> str:
        if op.is_constant(1):
            return f"torch.clamp({op[0]}, {bound}={op[1]})"
        if op.is_constant(0):
            return f"torch.clamp({op[1]}, {bound}={op[0]})"
        return f"torch.{word}({op[0]}, {op[1]})"

    return Row(form, ordered=True)


def _clip(op: Operation) -> str:
    if op.is_constant(1) == op.is_constant(2):
        return f"torch.clamp({op[0]}, {op[1]}, {op[2]})"
    low = f"torch.clamp({op[0]}, min={op[1]})"
    if not op.is_constant(1):
        low = f"torch.maximum({op.tensor(0)}, {op[1]})"
    if op.is_constant(2):
        return f"torch.clamp({low}, max={op[2]})"
    return f"torch.minimum({low}, {op[2]})"


def _axpy(op: Operation) -> str:
    alpha = float(op.attrs.get("alpha", 1.0))
    factor = number(alpha if op.dtypes[0].kind == "f" else int(alpha))
    return f"torch.add({op.tensor(0)}, {op.tensor(1)}, alpha={factor})"


def _gelu_slope(op: Operation) -> str:
    x = op[0]
    half = f"0.5 * torch.erfc({x} * {number(-math.sqrt(0.5))})"
    return f"{half} + {x} * torch.exp(-0.5 * {x} * {x}) * {number(1 / math.sqrt(2 * math.pi))}"


def _alpha(op: Operation, name: str, default: float) -> str:
    return number(float(op.attrs.get(name, default)))


def _silu(op: Operation) -> str:
    alpha = float(op.attrs.get("alpha", 1.0))
    if alpha == 1.0:
        return f"{_F}.silu({op[0]})"
    return f"{op[0]} * torch.sigmoid({op[0]} * {number(alpha)})"


#: Alpha and scale of Selu, as in the functions of that name.
_SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def _selu(op: Operation) -> str:
    alpha, gamma = _alpha(op, "alpha", _SELU[0]), _alpha(op, "gamma", _SELU[1])
    return f"{gamma} * {_F}.elu({op[0]}, {alpha})"


def _hard_sigmoid(op: Operation) -> str:
    alpha, beta = _alpha(op, "alpha", 0.2), _alpha(op, "beta", 0.5)
    return f"torch.clamp({op[0]} * {alpha} + {beta}, 0.0, 1.0)"


def _thresholded(op: Operation) -> str:
    return f"torch.where({op[0]} > {_alpha(op, 'alpha', 1.0)}, {op[0]}, 0.0)"


def _shrink(op: Operation) -> str:
    x, edge, bias = op[0], float(op.attrs.get("lambd", 0.5)), _alpha(op, "bias", 0.0)
    below = f"torch.where({x} < {number(-edge)}, {x} + {bias}, 0.0)"
    return f"torch.where({x} > {number(edge)}, {x} - {bias}, {below})"


def _is_inf(op: Operation) -> str:
    below, above = op.attrs.get("detect_negative", True), op.attrs.get("detect_positive", True)
    if below and above:
        return f"torch.isinf({op[0]})"
    if below or above:
        return f"torch.is{'pos' if above else 'neg'}inf({op[0]})"
    return f"torch.zeros_like({op[0]}, dtype=torch.bool)"


def _fma(op: Operation) -> str:
    if op.dtypes[0].kind == "f":
        return f"torch.addcmul({op.tensor(2)}, {op.tensor(0)}, {op.tensor(1)})"
    return f"{op[0]} * {op[1]} + {op[2]}"


def _compare(sign: str, *, ordered: bool = True) -> Row:
    return Row(f"({{0}} {sign} {{1}})", ordered=ordered)


def _one(name: str, *, wide: bool = False) -> Row:
    """Return the row of a function of one tensor."""
    return Row(f"{name}({{0}})", wide=wide, tensors=(0,))


def _two(name: str, *, wide: bool = False) -> Row:
    """Return the row of a function of two tensors."""
    return Row(f"{name}({{0}}, {{1}})", wide=wide, tensors=(0, 1))


ROWS: Mapping[str, Row] = {
    # arithmetic
    "Abs": _unsigned("torch.abs({0})", "{0}"),
    "Sign": Row(_sign),
    "Neg": Row("-{0}"),
    "Square": Row("{0} * {0}"),
    "Reciprocal": Row(_reciprocal),
    "Sqrt": _one("torch.sqrt"),
    "Rsqrt": _one("torch.rsqrt"),
    "Add": Row("{0} + {1}"),
    "Sub": Row("{0} - {1}"),
    "Mul": Row("{0} * {1}"),
    # PyTorch divides a number by a tensor as reciprocal and product, which rounds twice.
    "Div": Row("{0} / {1}", tensors=(0,)),
    "AddN": Row(lambda op: " + ".join(op[i] for i in range(len(op.operands)))),
    "Axpy": Row(_axpy, tensors=(0, 1)),
    "Fma": Row(_fma, wide=True),
    "Maximum": _extremum("maximum", "min"),
    "Minimum": _extremum("minimum", "max"),
    "ClipByValue": Row(_clip, tensors=(0,), ordered=True),
    "Hypot": _two("torch.hypot", wide=True),
    "CopySign": _two("torch.copysign"),
    # rounding
    "Floor": _one("torch.floor"),
    "Ceil": _one("torch.ceil"),
    "Round": _one("torch.round"),
    "Trunc": _one("torch.trunc"),
    "Frac": _one("torch.frac"),
    # functions
    "Exp": _one("torch.exp"),
    "Exp2": _one("torch.exp2"),
    "Expm1": _one("torch.expm1"),
    "Ln": _one("torch.log"),
    "Log2": _one("torch.log2"),
    "Log10": _one("torch.log10"),
    "Log1p": _one("torch.log1p"),
    "Sin": _one("torch.sin"),
    "Cos": _one("torch.cos"),
    "Tan": _one("torch.tan"),
    "Asin": _one("torch.asin"),
    "Acos": _one("torch.acos"),
    "Atan": _one("torch.atan"),
    "Atan2": _two("torch.atan2"),
    "Sinh": _one("torch.sinh"),
    "Cosh": _one("torch.cosh"),
    "Tanh": _one("torch.tanh"),
    "Asinh": _one("torch.asinh"),
    "Acosh": _one("torch.acosh"),
    "Atanh": _one("torch.atanh"),
    "Erf": _one("torch.erf"),
    "Erfc": _one("torch.erfc", wide=True),
    # comparisons and logic
    "Equal": _compare("==", ordered=False),
    "NotEqual": _compare("!=", ordered=False),
    "Less": _compare("<"),
    "LessEqual": _compare("<="),
    "Greater": _compare(">"),
    "GreaterEqual": _compare(">="),
    "LogicalAnd": _two("torch.logical_and"),
    "LogicalOr": _two("torch.logical_or"),
    "LogicalXor": _two("torch.logical_xor"),
    "LogicalNot": _one("torch.logical_not"),
    "Select": Row("torch.where({0}, {1}, {2})", tensors=(0, 1), moves=True),
    "MaskedFill": Row("torch.where({1}, {2}, {0})", tensors=(0, 1), moves=True),
    "IsNan": _one("torch.isnan"),
    "IsFinite": _one("torch.isfinite"),
    "IsInf": Row(_is_inf, tensors=(0,)),
    "SignBit": _one("torch.signbit"),
    # activations
    "Relu": Row(lambda op: op[0] if op.carried else f"torch.relu({op[0]})"),
    "Sigmoid": _one("torch.sigmoid"),
    "Gelu": Row(f"{_F}.gelu({{0}})", tensors=(0,)),
    "GeluTanh": Row(f'{_F}.gelu({{0}}, approximate="tanh")', tensors=(0,)),
    "GeluSlope": Row(_gelu_slope, wide=True, tensors=(0,)),
    "Silu": Row(_silu, wide=True, tensors=(0,)),
    "Softplus": _one(f"{_F}.softplus"),
    "LogSigmoid": _one(f"{_F}.logsigmoid"),
    "TanhSoftplus": Row(f"torch.tanh({_F}.softplus({{0}}))", wide=True, tensors=(0,)),
    "Mish": _one(f"{_F}.mish"),
    "Elu": Row(lambda op: f"{_F}.elu({op[0]}, {_alpha(op, 'alpha', 1.0)})", tensors=(0,)),
    "Celu": Row(
        lambda op: f"{_F}.celu({op[0]}, {_alpha(op, 'alpha', 1.0)})", wide=True, tensors=(0,)
    ),
    "Selu": Row(_selu, wide=True, tensors=(0,)),
    "HardSigmoid": Row(_hard_sigmoid, wide=True, tensors=(0,)),
    "HardSwish": _one(f"{_F}.hardswish"),
    "Softsign": _one(f"{_F}.softsign", wide=True),
    "ThresholdedRelu": Row(_thresholded, tensors=(0,)),
    "Shrink": Row(_shrink, tensors=(0,)),
    "LeakyRelu": Row(
        lambda op: f"{_F}.leaky_relu({op[0]}, {_alpha(op, 'negative_slope', 0.01)})", tensors=(0,)
    ),
    "PRelu": Row("torch.where({0} < 0, {0} * {1}, {0})", tensors=(0,)),
}
