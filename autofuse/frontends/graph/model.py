"""The fields of a graph file (``autofuse.graph/1``): checks and JSON Schema derive from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from autofuse.frontends.builder import MAX_SIZE

__all__ = [
    "NOT_FINITE",
    "SCHEMA",
    "AttrModel",
    "ConstModel",
    "Dim",
    "GraphModel",
    "InputModel",
    "NodeModel",
    "OutputModel",
    "ResultModel",
    "SymbolModel",
]

SCHEMA = "autofuse.graph/1"
#: Texts for floats that JSON cannot represent.
NOT_FINITE = ("inf", "-inf", "nan")

_NAME_SCHEMA: dict[str, Any] = {"pattern": r"^\S(.*\S)?$", "maxLength": 256}


def _wanted(what: str, hint: str = "") -> PydanticCustomError:
    """Return the error for a wrong type; ``what`` follows "expected"."""
    return PydanticCustomError("wanted", "expected {what}", {"what": what, "hint": hint})


def _dim(v: Any) -> int | str:
    if isinstance(v, bool) or not isinstance(v, (int, str)):
        raise _wanted(
            "an integer or an expression",
            'a size is a number or a string such as "s0" or "ceil(s0/2)"',
        )
    return v


def _value(v: Any) -> int | float | bool | str:
    if isinstance(v, (int, float)) or v in NOT_FINITE:
        return v  # type: ignore[no-any-return]
    raise _wanted('a number, true, false, "inf", "-inf" or "nan"')


def _attr(v: Any) -> Any:
    if isinstance(v, (int, float, str)):
        return v
    if isinstance(v, list) and all(isinstance(x, (int, float, str)) for x in v):
        return v
    raise _wanted("a number, a string, true, false, or a list of these")


Name: TypeAlias = Annotated[str, Field(json_schema_extra=_NAME_SCHEMA)]
Dim: TypeAlias = Annotated[
    int | str,
    PlainValidator(_dim),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MAX_SIZE},
                {
                    "type": "string",
                    "minLength": 1,
                    "description": "A symbol or an expression: s0, s0*4, ceil(s0/2).",
                },
            ]
        }
    ),
]
ConstValue: TypeAlias = Annotated[
    int | float | bool | str,
    PlainValidator(_value),
    WithJsonSchema({"anyOf": [{"type": ["number", "boolean"]}, {"enum": list(NOT_FINITE)}]}),
]
_SCALAR = {"type": ["number", "string", "boolean"]}
AttrModel: TypeAlias = Annotated[
    Any,
    PlainValidator(_attr),
    WithJsonSchema({"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}),
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SymbolModel(_Model):
    """A size that is known at run time only."""

    min: int = Field(1, ge=0, le=MAX_SIZE, description="Smallest value.")
    max: int = Field(MAX_SIZE, ge=0, le=MAX_SIZE, description="Largest value.")
    hint: int | None = Field(
        None, ge=0, le=MAX_SIZE, description="A typical value, between min and max."
    )


class InputModel(_Model):
    """A tensor, or a run-time scalar, that the kernel reads."""

    name: Name = Field(description="Name of the tensor.")
    dtype: str = Field(description="Element type, such as float16.")
    shape: list[Dim] | None = Field(
        None, description="Sizes, outermost first; [] for a 0-d tensor."
    )
    strides: list[Dim] | None = Field(
        None, description="Strides in elements, one per dimension; contiguous by default."
    )
    offset: Dim | None = Field(None, description="Offset of the first element, in elements.")
    scalar: bool = Field(
        False, description="A single value, given at run time and passed by pointer."
    )


class ConstModel(_Model):
    """A constant operand."""

    const: ConstValue = Field(description="The value.")
    dtype: str | None = Field(None, description="Element type; the other operand's by default.")


class ResultModel(_Model):
    """The result of a node, with what it is expected to be."""

    name: Name = Field(description="Name of the tensor.")
    dtype: str | None = Field(
        None, description="Expected element type; an error if the op's result differs."
    )
    shape: list[Dim] | None = Field(
        None, description="Expected shape; an error if the op's result differs."
    )


class OutputModel(_Model):
    """An output of the kernel."""

    tensor: Name | None = Field(
        None, description="Tensor to write; the one called 'name' by default."
    )
    name: Name | None = Field(
        None, description="Name of the parameter; the tensor's name by default."
    )
    inout: Name | None = Field(None, description="Input whose memory this output overwrites.")


def _kind(v: Any) -> str | None:
    """Return the union member that a value is meant to be."""
    return (
        "<name>" if isinstance(v, str) else "<object>" if isinstance(v, (dict, BaseModel)) else None
    )


def _either(what: str) -> Discriminator:
    return Discriminator(
        _kind,
        custom_error_type="wanted",
        custom_error_message="expected {what}",
        custom_error_context={"what": what},
    )


Operand: TypeAlias = Annotated[
    Annotated[Name, Tag("<name>")] | Annotated[ConstModel, Tag("<object>")],
    _either('the name of a tensor or {"const": value}'),
]
Result: TypeAlias = Annotated[
    Annotated[Name, Tag("<name>")] | Annotated[ResultModel, Tag("<object>")],
    _either('a name or {"name", "dtype", "shape"}'),
]
Output: TypeAlias = Annotated[
    Annotated[Name, Tag("<name>")] | Annotated[OutputModel, Tag("<object>")],
    _either('the name of a tensor or {"tensor", "name", "inout"}'),
]


class NodeModel(_Model):
    """One op."""

    name: Name = Field(description="Name of the node, in messages and comments.")
    op: str = Field(description="The op.")
    inputs: list[Operand] = Field(description="Operands, in order.")
    outputs: list[Result] = Field(description="Results.")
    attrs: dict[str, AttrModel] = Field(default_factory=dict, description="Attributes of the op.")


class GraphModel(_Model):
    """A group of tensor ops that becomes one kernel."""

    schema_: Literal["autofuse.graph/1"] = Field(
        alias="schema", description="Version of this format."
    )
    editor_schema: str | None = Field(
        None, alias="$schema", description="Location of this schema, for editors."
    )
    name: Name = Field(description="Name of the graph and of the kernel.")
    symbols: dict[str, SymbolModel] = Field(
        default_factory=dict, description="Sizes known only at run time."
    )
    inputs: list[InputModel] = Field(description="Tensors that the kernel reads.")
    nodes: list[NodeModel] = Field(description="Ops, in any order.")
    outputs: list[Output] = Field(min_length=1, description="Tensors that the kernel writes.")
