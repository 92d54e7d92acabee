"""The fields of the definition of an operator (``clients.kernelgen``); the graph in it has a schema of its own."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from autofuse.frontends import pydantic_errors
from autofuse.frontends.graph.model import Dim
from autofuse.frontends.json_positions import Findings

__all__ = [
    "MAX_ROUNDS",
    "SCHEMA",
    "DefinitionModel",
    "FunctionModel",
    "ParameterModel",
    "validated",
]

SCHEMA = "autofuse.kernelgen.definition/1"
#: Rounds of tuning.
MAX_ROUNDS = 5


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ParameterModel(_Model):
    """An input or an output."""

    name: str = Field(description="Name of the tensor, as in the graph.")
    type: Literal["torch.Tensor"] = Field("torch.Tensor", description="Always torch.Tensor.")
    dtype: str = Field(description="Element type, as in the graph.")
    shape: list[Dim] = Field(description="Sizes, as in the graph.")
    description: str = Field("", description="What it is.")
    constraints: list[str] = Field(default_factory=list, description="What holds for it alone.")


class ArgumentModel(_Model):
    """A parameter of the function that the formula is of."""

    name: str = Field(description="Of the parameter.")
    kind: Literal["positional", "either", "keyword"] = Field(
        "either", description="Given by its position, by its name, or by either."
    )
    input: str = Field("", description="The input of the graph; empty for a value.")
    value: str = Field("", description="What the graph was made for, as Python.")
    default: str = Field("", description="Of the parameter, as Python; empty without one.")
    weight: str = Field("", description="The tensor of a module that the input is.")


class FunctionModel(_Model):
    """The function of Python that the formula is of."""

    name: str = Field(description="In its file.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="Of its file.")
    parameters: list[ArgumentModel] = Field(description="In its order, and weights behind them.")


class DefinitionModel(_Model):
    """The definition of an operator."""

    schema_: Literal["autofuse.kernelgen.definition/1"] = Field(
        alias="schema", description="Version of this format."
    )
    name: str = Field(description="Name of the operator, that of the graph.")
    type: str = Field(description="Kind of the operator, as its ops say.")
    device: str = Field(description="Name of the target.")
    description: str = Field("", description="What the operator does.")
    requirement: str = Field("", description="The request as it came.")
    inputs: list[ParameterModel] = Field(description="Inputs, in the order of the graph.")
    outputs: list[ParameterModel] = Field(description="Outputs, in the order of the graph.")
    constraints: list[str] = Field(default_factory=list, description="Conditions on the inputs.")
    optimization_strategies: list[str] = Field(
        default_factory=list, description="What tuning may try."
    )
    rounds: int = Field(MAX_ROUNDS, ge=1, le=MAX_ROUNDS, description="Rounds of tuning, at most.")
    target_speedup: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="To be exceeded, over the baseline."
    )
    memory_bytes: int | None = Field(
        None, ge=1, description="Memory of the device, for the test shapes; by default assumed."
    )
    graph: dict[str, Any] = Field(description="The formula, a graph file (autofuse.graph/1).")
    function: FunctionModel | None = Field(None, description="The function that it is of.")
    analysis: dict[str, Any] | None = Field(None, description="Made of the graph; not read.")


def validated(value: dict[str, Any], findings: Findings) -> DefinitionModel:
    """A definition whose fields are in order.

    Args:
        value: the JSON of the file.
        findings: of its document.

    Raises:
        AutofuseError: AF1101 to AF1104, all fields that are not.
    """
    return pydantic_errors.validated(DefinitionModel, value, findings)
