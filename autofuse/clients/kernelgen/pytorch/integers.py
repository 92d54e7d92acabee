"""Rows of conversions, bit operations, shifts, and divisions with rules for signs and zero."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.clients.kernelgen.pytorch.operation import CARRIED, Operation, Row
from autofuse.codegen.backends.triton.signature import torch_dtype

__all__ = ["ROWS"]

_ROUNDED = {
    "RINT": "torch.round({0})",
    "FLOOR": "torch.floor({0})",
    "CEIL": "torch.ceil({0})",
    "TRUNC": "torch.trunc({0})",
}
#: One more than the largest signed 64-bit integer; float64 values just below it are 1024 apart.
_TOP = 1 << 63


def _rounded(x: str, mode: str) -> str:
    """Return floats rounded to integers; unchanged without a mode, because a conversion truncates."""
    if mode == "ROUND":
        whole = f"torch.trunc({x})"
        away = f"{whole} + torch.sign({x})"
        return f"torch.where(torch.abs({x} - {whole}) >= 0.5, {away}, {whole})"
    return _ROUNDED[mode].format(x) if mode else x


def _saturated(op: Operation, mode: str) -> str:
    """Return floats converted to the result's integer type: saturated to its range, 0 for NaN."""
    d = op.dtype
    # float32 represents the limits of integers of up to 16 bits exactly, float64 those of 32 bits.
    x = op.let(_rounded(f"{op[0]}.{'float' if d.bits <= 16 else 'double'}()", mode))
    x = op.let(f"torch.nan_to_num({x}, nan=0.0)")
    low = -(1 << (d.bits - 1)) if d.kind == "i" else 0
    high = low + (1 << d.bits) - 1
    if d.bits < 64:
        made = f"torch.clamp({x}, {low}, {high})"
        made = f"{made}.to(torch.int64)" if d.name in CARRIED else made
        return f"{made}.to({op.dtype_text})"
    below = f"torch.clamp({x}, {float(low)!r}, {float(_TOP - 1024)!r}).to(torch.int64)"
    if d.kind == "i":
        return f"torch.where({x} >= {float(_TOP)!r}, {high}, {below})"
    above = f"torch.clamp({x}, {float(_TOP)!r}, {float(2 * _TOP - 2048)!r}) - {float(_TOP)!r}"
    above = f"({above}).to(torch.int64) + ({-_TOP})"
    above = f"torch.where({x} >= {float(2 * _TOP)!r}, -1, {above})"
    return f"torch.where({x} >= {float(_TOP)!r}, {above}, {below}).to(torch.uint64)"


def _cast(op: Operation, mode: str) -> str:
    have, to = op.dtypes[0], op.dtype
    if to.kind == "b":
        return f"({op[0]} != 0)"
    if have.kind == "f" and to.kind in "iu":
        return _saturated(op, mode)
    if have.kind == "f" and mode:
        return f"{_rounded(op[0] if have.bits == 32 else f'{op[0]}.float()', mode)}.to({op.dtype_text})"
    return f"{op[0]}.to({op.dtype_text})"


def _bits(op: Operation) -> str:
    # A reference in a wider dtype must still reinterpret the bits of the original one.
    return f"{op[0]}.to({torch_dtype(op.dtypes[0])}).contiguous().view({op.dtype_text})"


# divisions ------------------------------------------------------------------------------------
def _divisor(op: Operation) -> str:
    """Return the divisor, with 1 in place of 0 and of -1, which overflows with the smallest integer."""
    zero = f"({op[1]} == 0)"
    if op.dtypes[1].kind == "i":
        zero = f"(({op[1]} == 0) | ({op[1]} == -1))"
    return op.let(f"torch.where({zero}, 1, {op.tensor(1)})")


def _is_harmless(op: Operation) -> bool:
    return op.dtypes[0].kind == "f" or (op.is_constant(1) and op.value(1) not in (0, -1))


def _quotient(mode: str) -> Row:
    def form(op: Operation) -> str:
        if _is_harmless(op):
            return f'torch.div({op.tensor(0)}, {op[1]}, rounding_mode="{mode}")'
        found = f'torch.div({op.tensor(0)}, {_divisor(op)}, rounding_mode="{mode}")'
        if op.dtypes[1].kind == "i":
            found = f"torch.where({op[1]} == -1, -{op[0]}, {found})"
        return f"torch.where({op.tensor(1)} == 0, 0, {found})"

    return Row(form, wide=True, divides=True)


def _rest(op: Operation, word: str) -> str:
    if _is_harmless(op):
        return f"torch.{word}({op.tensor(0)}, {op[1]})"
    whole = f"({op.tensor(1)} == 0)"
    if op.dtypes[1].kind == "i":
        whole = f"({whole} | ({op[1]} == -1))"
    return f"torch.where({whole}, 0, torch.{word}({op.tensor(0)}, {_divisor(op)}))"


def _modulo(op: Operation) -> str:
    return _rest(op, "fmod" if op.attrs.get("fmod", False) else "remainder")


def _power(op: Operation) -> str:
    # PyTorch refuses integers with a negative number as exponent, but accepts a tensor.
    exponent = op[1] if op.dtypes[1].kind == "f" else op.tensor(1)
    return f"torch.pow({op.tensor(0)}, {exponent})"


def _shift(op: Operation, left: bool) -> str:
    return f"torch.bitwise_{'left' if left else 'right'}_shift({op.tensor(0)}, {op.tensor(1)})"


def _either_shift(op: Operation) -> str:
    return _shift(op, op.attrs.get("direction", "LEFT") == "LEFT")


def _conversion(mode: str) -> Row:
    return Row(lambda op: _cast(op, mode), tensors=(0,), moves=True)


ROWS: Mapping[str, Row] = {
    "Cast": Row(lambda op: _cast(op, op.attrs.get("round", "")), tensors=(0,), moves=True),
    "BitCast": Row(_bits, tensors=(0,), moves=True),
    "RoundToInt": _conversion("RINT"),
    "TruncToInt": _conversion("TRUNC"),
    "FloorToInt": _conversion("FLOOR"),
    "CeilToInt": _conversion("CEIL"),
    "BitwiseAnd": Row("{0} & {1}"),
    "BitwiseOr": Row("{0} | {1}"),
    "BitwiseXor": Row("{0} ^ {1}"),
    "BitwiseNot": Row("~{0}"),
    "LShift": Row(lambda op: _shift(op, True)),
    "RShift": Row(lambda op: _shift(op, False), divides=True),
    "BitShift": Row(_either_shift, divides=True),
    "FloorDiv": _quotient("floor"),
    "TruncDiv": _quotient("trunc"),
    "Remainder": Row(lambda op: _rest(op, "remainder"), divides=True),
    "Fmod": Row(lambda op: _rest(op, "fmod"), divides=True),
    "Mod": Row(_modulo, divides=True),
    "TrueDiv": Row("{0} / {1}", tensors=(0,), divides=True),
    "Pow": Row(_power, divides=True),
}
