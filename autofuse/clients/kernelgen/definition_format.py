"""The fields of the definition of an operator (``clients.kernelgen``); its graph has a separate schema."""

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

    name: str = Field(description="Name of the tensor in the graph.")
    type: Literal["torch.Tensor"] = Field("torch.Tensor", description="Always torch.Tensor.")
    dtype: str = Field(description="Element type, as in the graph.")
    shape: list[Dim] = Field(description="Sizes, as in the graph.")
    description: str = Field("", description="Description of the parameter.")
    constraints: list[str] = Field(
        default_factory=list, description="Conditions on this parameter alone."
    )


class ArgumentModel(_Model):
    """A parameter of the function from which the formula was captured."""

    name: str = Field(description="Name of the parameter.")
    kind: Literal["positional", "either", "keyword"] = Field(
        "either", description="Passed by position, by name, or either."
    )
    input: str = Field("", description="The input of the graph; empty for a value.")
    value: str = Field("", description="Value assumed by the graph, as Python.")
    default: str = Field("", description="Default of the parameter, as Python; empty for none.")
    weight: str = Field("", description="Tensor of the module that the input holds.")


class FunctionModel(_Model):
    """The Python function from which the formula was captured."""

    name: str = Field(description="Name in its file.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="Name of its file.")
    parameters: list[ArgumentModel] = Field(
        description="Parameters in order, followed by the weights."
    )


class DefinitionModel(_Model):
    """The definition of an operator."""

    schema_: Literal["autofuse.kernelgen.definition/1"] = Field(
        alias="schema", description="Version of this format."
    )
    name: str = Field(description="Name of the operator and of the graph.")
    type: str = Field(description="Kind of the operator, from its ops.")
    device: str = Field(description="Name of the target.")
    description: str = Field("", description="Description of the operator.")
    requirement: str = Field("", description="The original request.")
    inputs: list[ParameterModel] = Field(description="Inputs, in the order of the graph.")
    outputs: list[ParameterModel] = Field(description="Outputs, in the order of the graph.")
    constraints: list[str] = Field(default_factory=list, description="Conditions on the inputs.")
    optimization_strategies: list[str] = Field(
        default_factory=list, description="Strategies that tuning may try."
    )
    rounds: int = Field(MAX_ROUNDS, ge=1, le=MAX_ROUNDS, description="Maximum rounds of tuning.")
    target_speedup: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="Target speedup over the baseline, to be exceeded.",
    )
    memory_bytes: int | None = Field(
        None,
        ge=1,
        description="Memory of the device, which limits the test shapes; assumed if left out.",
    )
    graph: dict[str, Any] = Field(description="The formula, a graph file (autofuse.graph/1).")
    function: FunctionModel | None = Field(None, description="Function that it describes.")
    analysis: dict[str, Any] | None = Field(
        None, description="Derived from the graph; ignored on input."
    )


def validated(value: dict[str, Any], findings: Findings) -> DefinitionModel:
    """Return a definition with valid fields.

    Args:
        value: the JSON of the file.
        findings: findings of its document.

    Raises:
        AutofuseError: AF1101 to AF1104, all invalid fields.
    """
    return pydantic_errors.validated(DefinitionModel, value, findings)
