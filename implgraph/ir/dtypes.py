"""Data types of tensors, one row each; everything about a dtype derives from its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autofuse.implgraph.ir.frozen import frozen

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BY_NAME", "FOREIGN", "DType", "dtype", "is_float", "is_int", "numpy_dtype"]


@frozen
class DType:
    """One element type.

    Attributes:
        name: the name in graph.json and in the ImplGraph text.
        bits: size of one element in UB; 1 for ``mask``.
        kind: ``f`` float, ``i`` signed, ``u`` unsigned, ``b`` bool, ``m`` bit mask in UB.
        cpp: the type in generated C++ (Ascend C names).
        aliases: other spellings that the frontends accept.
    """

    name: str
    bits: int
    kind: str
    cpp: str
    aliases: tuple[str, ...] = ()

    @property
    def itemsize(self) -> int:
        """Bytes of one element; 1 for the bit mask, whose buffers are sized by ``bits``."""
        return self.bits // 8 or 1

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickle to the one object per row: dtypes are compared by ``is``, even in a graph from another process."""
        return dtype, (self.name,)


_ROWS = (
    DType("float32", 32, "f", "float", ("float", "fp32", "f32")),
    DType("float16", 16, "f", "half", ("half", "fp16", "f16")),
    DType("bfloat16", 16, "f", "bfloat16_t", ("bf16",)),
    DType("int8", 8, "i", "int8_t"),
    DType("int16", 16, "i", "int16_t"),
    DType("int32", 32, "i", "int32_t", ("int",)),
    DType("int64", 64, "i", "int64_t", ("long",)),
    DType("uint8", 8, "u", "uint8_t"),
    DType("uint16", 16, "u", "uint16_t"),
    DType("uint32", 32, "u", "uint32_t"),
    DType("uint64", 64, "u", "uint64_t"),
    # One byte in GM and UB, 0 or 1; in an input, every nonzero byte is true.  The chip has no bool arithmetic, so bool
    # is moved as uint8.
    DType("bool", 8, "b", "uint8_t", ("bool_",)),
    # Result of a compare in UB: bit i of the buffer belongs to element i.  Never in GM.
    DType("mask", 1, "m", "uint8_t"),
)

BY_NAME: dict[str, DType] = {d.name: d for d in _ROWS}
#: Element types that occur in files but in no kernel.
FOREIGN = frozenset(
    (
        *("complex", "complex32", "complex64", "complex128", "float64", "double", "string"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e8m0", "int4", "uint4"),
    )
)
_ALIASES: dict[str, DType] = {a: d for d in _ROWS for a in d.aliases}


def dtype(name: str) -> DType:
    """Return the DType called ``name`` (canonical name or alias); raise KeyError for an unknown name."""
    return BY_NAME.get(name) or _ALIASES[name]


def is_float(d: DType) -> bool:
    """Return True for floating-point types."""
    return d.kind == "f"


def is_int(d: DType) -> bool:
    """Return True for integers, signed or unsigned; not for bool."""
    return d.kind in "iu"


def numpy_dtype(d: DType) -> np.dtype:
    """Return the NumPy dtype; bfloat16 comes from ml_dtypes."""
    import numpy as np

    if d.name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    if d.name == "mask":
        return np.dtype(np.bool_)
    return np.dtype(d.name)
