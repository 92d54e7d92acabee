"""Element types that CANN names but autofuse does not support in kernels."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FOREIGN_TYPES", "ForeignType"]


@dataclass(frozen=True, slots=True)
class ForeignType:
    """An unsupported element type: it can be set, but scheduling the graph refuses it.

    Attributes:
        name: CANN's name.
    """

    name: str

    def __str__(self) -> str:
        return self.name


#: Their names.
FOREIGN_TYPES = frozenset(
    (
        "complex32",
        "complex64",
        "complex128",
        "double",
        "dual",
        "dual_sub_int8",
        "dual_sub_uint8",
        "float4_e1m2",
        "float4_e2m1",
        "float6_e2m3",
        "float6_e3m2",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e8m0",
        "hifloat8",
        "int2",
        "int4",
        "qint8",
        "qint16",
        "qint32",
        "quint8",
        "quint16",
        "resource",
        "string",
        "string_ref",
        "uint1",
        "uint2",
        "undefined",
        "variant",
    )
)
