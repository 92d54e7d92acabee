"""Vector calls timed by calibration kernels: one or two per row of a target's vector table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofuse.schedule.cost.banks import bank_conflict
from autofuse.schedule.cost.cost import Conflict
from autofuse.targets import Architecture

__all__ = ["CALLS", "INSTRUCTIONS", "Instruction"]

#: Calls per loop iteration, each with its own result.
CALLS = 8
#: Bytes of a tensor's stride, and of one half of the banks.
_STEP, _HALF = 512, 256
_CPP = {"float32": "float", "float16": "half", "uint8": "uint8_t"}
_BYTES = {"float32": 4, "float16": 2, "uint8": 1}
#: Value of all operand elements.
A, B = 1.5, 0.5


@dataclass(frozen=True, slots=True)
class Instruction:
    """A vector call.

    Attributes:
        name: part of the name of its kernel.
        kind: row of the target's vector table.
        text: the call; ``{c}`` is its result, ``a`` and ``b`` are the operands, ``count`` the elements.
        operand, result: dtypes.
        reads: the operands among ``a`` and ``b``, in call order; if empty, banks do not matter.
        want: the value of every result element, within the relative tolerance ``slack``.
        shrink: operand elements per result element; 1 if the two have equal length.
        prepare: statements before the loop.
        more: bytes of UB after the results.
        most: most elements of one call.
        waits: calls share a buffer, so each waits for the one before.
    """

    name: str
    kind: str
    text: str
    operand: str
    result: str
    reads: str
    want: float
    slack: float = 0.0
    shrink: int = 1
    prepare: tuple[str, ...] = ()
    more: int = 32
    most: int = 2048
    waits: bool = False

    @property
    def bits(self) -> int:
        """Bits of an operand element."""
        return 8 * _BYTES[self.operand]

    @property
    def block(self) -> int:
        """Result elements in one 32-byte block."""
        return 32 // _BYTES[self.result]

    @property
    def least(self) -> int:
        """Least elements of a call: a block of results, and whole repeats of the operand."""
        return max(128, self.block * self.shrink)

    def cpp(self, dtype: str) -> str:
        """Return the C++ type of a dtype."""
        return _CPP[dtype]

    def bytes_of(self, dtype: str) -> int:
        """Return the bytes of an element."""
        return _BYTES[dtype]

    def calls(self) -> tuple[str, ...]:
        """Return the text of the calls of one loop iteration."""
        return tuple(self.text.replace("{c}", f"c{k}") for k in range(CALLS))

    def conflicts(
        self, count: int, shift_b: int, shift_c: int, arch: Architecture
    ) -> Sequence[Conflict]:
        """Return the bank conflict in UB of each call of an iteration, from the kernel's addresses."""
        if not self.reads or self.kind == "gather":
            return (Conflict.NONE,) * CALLS
        width = _rounded(_BYTES[self.operand] * count)
        step = _rounded(_BYTES[self.result] * count // self.shrink)
        places = {"a": 0, "b": width + _HALF + 32 * shift_b}
        alike = self.shrink == 1 and self.operand == self.result
        first = 2 * width + 2 * _STEP + 32 * shift_c
        return tuple(
            bank_conflict(
                [places[x] for x in self.reads], first + k * step if alike else None, arch
            )
            for k in range(CALLS)
        )


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _STEP) * _STEP


def _floats(
    name: str, kind: str, text: str, reads: str, want: float, slack: float = 0.0
) -> tuple[Instruction, ...]:
    """Return a call on 32-bit and on 16-bit floats."""
    return tuple(
        Instruction(f"{name}_{_BYTES[d] * 8}", kind, text, d, d, reads, want, slack)
        for d in _FLOATS
    )


def _advanced(name: str, kind: str, text: str, reads: str, want: float) -> tuple[Instruction, ...]:
    """Return a library function, which needs its own buffer."""
    lines = ("LocalTensor<uint8_t> tmp = ub[more_at];",)
    return tuple(
        Instruction(
            f"{name}_{_BYTES[d] * 8}",
            kind,
            text,
            d,
            d,
            reads,
            want,
            0.02,
            prepare=lines,
            more=32 << 10,
            most=512,
            waits=True,
        )
        for d in _FLOATS
    )


def _with_mask(dtype: str) -> Instruction:
    lines = (
        "LocalTensor<uint8_t> mask = ub[more_at];",
        "PipeBarrier<PIPE_V>();",
        "Compare(mask, a, b, CMPMODE::GT, count);",
    )
    text = "Select({c}, mask, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);"
    name = f"select_{_BYTES[dtype] * 8}"
    return Instruction(
        name,
        "select",
        text,
        dtype,
        dtype,
        "ab",
        A,
        prepare=lines,
        more=512,
    )


def _gathered(dtype: str) -> Instruction:
    nbytes = _BYTES[dtype]
    lines = (
        "LocalTensor<int32_t> places = ub[more_at].ReinterpretCast<int32_t>();",
        "CreateVecIndex(places, 0, count);",
        "PipeBarrier<PIPE_V>();",
        f"Muls(places, places, {nbytes}, static_cast<int32_t>(count));",
    )
    text = "Gather({c}, a, places.ReinterpretCast<uint32_t>(), 0, count);"
    return Instruction(
        f"gather_{8 * nbytes}", "gather", text, dtype, dtype, "a", A, prepare=lines, more=8192
    )


def _reduced(name: str, kind: str, text: str, results: int, dtype: str) -> Instruction:
    """Return a reduction of every 256 bytes to ``results`` elements."""
    lanes = 256 // _BYTES[dtype]
    shrink = lanes // results
    whole = text.replace("{lanes}", str(lanes))
    return Instruction(
        f"{name}_{_BYTES[dtype] * 8}",
        kind,
        whole,
        dtype,
        dtype,
        "a",
        A * shrink,
        shrink=shrink,
        most=8192,
    )


_FLOATS = ("float32", "float16")
_REPEATS = "static_cast<int32_t>(count / {lanes})"

INSTRUCTIONS: tuple[Instruction, ...] = (
    *_floats("unary", "unary", "Abs({c}, a, static_cast<int32_t>(count));", "a", A),
    *_floats("binary", "binary", "Add({c}, a, b, static_cast<int32_t>(count));", "ab", A + B),
    *_floats("square", "binary", "Mul({c}, a, a, static_cast<int32_t>(count));", "aa", A * A),
    *_floats("exp", "exp", "Exp({c}, a, static_cast<int32_t>(count));", "a", 4.4816890703, 0.01),
    *_floats("div", "div", "Div({c}, a, b, static_cast<int32_t>(count));", "ab", A / B, 0.01),
    *_floats(
        "duplicate", "duplicate", "Duplicate({c}, a_value, static_cast<int32_t>(count));", "", A
    ),
    Instruction(
        "cast_32",
        "cast",
        "Cast({c}, a, RoundMode::CAST_RINT, count);",
        "float32",
        "float16",
        "a",
        A,
    ),
    Instruction(
        "cast_16",
        "cast",
        "Cast({c}, a, RoundMode::CAST_NONE, count);",
        "float16",
        "float32",
        "a",
        A,
        most=1024,
    ),
    *(
        Instruction(
            f"compare_{_BYTES[d] * 8}",
            "compare",
            "Compare({c}, a, b, CMPMODE::GT, count);",
            d,
            "uint8",
            "ab",
            255,
            shrink=8,
        )
        for d in _FLOATS
    ),
    *(_with_mask(d) for d in _FLOATS),
    *(
        Instruction(
            f"broadcast_{_BYTES[d] * 8}",
            "broadcast",
            f"Brcb({{c}}, a, static_cast<uint8_t>(count / {256 // _BYTES[d]}), {{1, 8}});",
            d,
            d,
            "",
            A,
        )
        for d in _FLOATS
    ),
    *_advanced("tanh", "tanh", "Tanh({c}, a, tmp, count);", "a", 0.9051482536),
    *_advanced("erf", "erf", "Erf({c}, a, tmp, count);", "a", 0.9661051465),
    *_advanced("pow", "pow", "Power({c}, a, b, tmp, count);", "ab", 1.2247448714),
    *(
        _reduced(
            "reduce", "reduce", f"WholeReduceSum({{c}}, a, {{lanes}}, {_REPEATS}, 1, 1, 8);", 1, d
        )
        for d in _FLOATS
    ),
    *(
        _reduced(
            "block_reduce",
            "block_reduce",
            f"BlockReduceSum({{c}}, a, {_REPEATS}, {{lanes}}, 1, 1, 8);",
            8,
            d,
        )
        for d in _FLOATS
    ),
    *(_gathered(d) for d in _FLOATS),
)
