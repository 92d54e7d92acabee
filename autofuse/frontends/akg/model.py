"""The fields of an AKG file that are read; all others are ignored."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

__all__ = ["TYPE_IDS", "Attr", "Desc", "Info", "Op"]

# MindSpore's numbers of element types, as they appear in the operand of a Cast.
TYPE_IDS = {
    30: "bool", 31: "int32", 32: "int8", 33: "int16", 34: "int32", 35: "int64", 36: "uint32",
    37: "uint8", 38: "uint16", 39: "uint32", 40: "uint64", 41: "float32", 42: "float16",
    43: "float32", 45: "bfloat16",
}  # fmt: skip


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Desc(_Model):
    """A tensor as it is described at one place."""

    tensor_name: str
    data_type: str
    shape: list[int]
    symbolic_shape: list[str] | None = None
    value: Any = None

    @property
    def inline(self) -> bool:
        """True for a constant operand."""
        return "value" in self.model_fields_set


class Attr(_Model):
    """An attribute of an op."""

    name: str
    value: Any = None


class Op(_Model):
    """One op."""

    name: str
    attr: list[Attr] | None = None
    input_desc: list[list[Desc]] | None = None
    output_desc: list[Desc]

    @field_validator("attr", mode="before")
    @classmethod
    def _none(cls, given: Any) -> Any:
        """Take an empty object for no attributes."""
        return None if given == {} else given

    def attrs(self) -> dict[str, Any]:
        """Attribute values by name."""
        return {a.name: a.value for a in self.attr or ()}


class Info(_Model):
    """The file."""

    op: str
    input_desc: list[list[Desc]] | None = None
    output_desc: list[Desc]
    op_desc: list[Op]
    symbol_calc_expr: dict[str, str] | None = None
