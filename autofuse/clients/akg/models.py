"""Schemas of the JSON next to a binary, from which a run time launches it: one model per kind of target.

There are two key sets: ``upstream``, which the master branch of AKG writes and reads, and ``document``, from a
description of AKG that other tools follow.  Neither can express several launches or scratch memory.  In both, the key
``autofuse`` holds these and the signature of every launch.  Unless a single launch on the tensors of the graph does
all the work, the top level omits the launch keys, so that a reader that knows only those stops there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

__all__ = ["DEFAULT_KEYS", "KEY_SETS", "SCHEMA", "json_text", "kernel_schema"]

SCHEMA = "autofuse.akg/1"

_Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z]\w*$")]
_Digest: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Count: TypeAlias = Annotated[int, Field(ge=0)]
_Positive: TypeAlias = Annotated[int, Field(ge=1)]
#: A size: a number, or Python integer arithmetic on symbols.
_Size: TypeAlias = _Count | Annotated[str, Field(pattern=r"^[\w+\-*/%(), ]+$")]
_Shape: TypeAlias = tuple[_Size, ...]
#: A number of blocks, or a pair (symbol, divisor) for the quotient rounded up.
_Grid: TypeAlias = _Size | tuple[_Name, _Positive]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Tensor(_Model):
    """An input or output; ``strides`` is null if contiguous, ``input`` is the input that an output overwrites."""

    name: str
    dtype: str
    shape: _Shape
    strides: _Shape | None
    input: _Count | None = None


class Symbol(_Model):
    """A size known at call time: dimension ``dim`` of input ``input``; both null if no shape determines it."""

    name: _Name
    called: str
    min: _Count
    max: _Count
    input: _Count | None
    dim: _Count | None


class Scratch(_Model):
    """Memory that the run time allocates for a call."""

    bytes: _Size


class Argument(_Model):
    """A parameter of a launch: the pointer to an input, an output or scratch, or the size of a symbol."""

    kind: Literal["input", "output", "scratch", "size"]
    index: _Count
    type: Literal["pointer", "int32", "int64"]


class Launch(_Model):
    """One launch; skip it if the grid contains a 0.

    ``gridDim`` counts blocks, and ``clusterDim`` the blocks per cluster; the launch must request
    ``dynamicSharedBytes``.
    """

    kernelName: _Name
    binFileName: _Name
    binFileSuffix: Literal[".ptx"]
    sha256: _Digest
    gridDim: tuple[_Size, _Size, _Size]
    blockDim: tuple[_Positive, _Positive, _Positive]
    clusterDim: tuple[_Positive, _Positive, _Positive]
    sharedBytes: _Count
    dynamicSharedBytes: _Count
    registers: _Count
    spillBytes: _Count
    arguments: tuple[Argument, ...]


class Signature(_Model):
    """Facts that neither key set can express."""

    schema_: Literal["autofuse.akg/1"] = Field(alias="schema")
    graph: str
    target: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    symbols: tuple[Symbol, ...]


class CpuSignature(Signature):
    """``given``: symbols that no shape determines; a call passes them in one more row after the tensors' rows."""

    given: tuple[_Name, ...]


class GpuSignature(Signature):
    compiler: str
    scratch: tuple[Scratch, ...]
    launches: tuple[Launch, ...]


class DynamicSupport(_Model):
    """Inputs to the tile choice in AKG's run time; constant, because these kernels leave it no choice."""

    OperatorType: Literal["Unknown"]
    DynAlgorithm: Literal[""]
    ReduceSizeStatic: Literal[1]
    ParallelSizeStatic: Literal[1]
    EnableAtomic: Literal[False]


class UpstreamGpu(_Model):
    """AKG's keys for PTX; the keys with shapes are present for graphs with symbols."""

    autofuse: GpuSignature
    is_dynamic: bool
    hostShapes: tuple[tuple[str, ...], ...] | None = None
    deviceShapes: tuple[tuple[str, ...], ...] | None = None
    runtimeVars: tuple[()] | None = None
    SupportInfo: DynamicSupport | None = None
    targetInfo: str | None = None


class UpstreamGpuLaunch(UpstreamGpu):
    kernelName: _Name
    sha256: _Digest
    grid_x: _Grid = Field(alias="blockIdx.x")
    grid_y: _Grid = Field(alias="blockIdx.y")
    grid_z: _Grid = Field(alias="blockIdx.z")
    threads_x: _Positive = Field(alias="threadIdx.x")
    threads_y: _Positive = Field(alias="threadIdx.y")
    threads_z: _Positive = Field(alias="threadIdx.z")


class UpstreamCpu(_Model):
    """AKG's keys for a shared library."""

    autofuse: CpuSignature
    kernelName: _Name
    sha256: _Digest
    threadNumber: Literal["null"]


class UpstreamAscend(_Model):
    """AKG's keys for a kernel of the vector cores; the digest is null if there is no binary."""

    autofuse: Signature
    magic: Literal["RT_DEV_BINARY_MAGIC_ELF_AIVEC"]
    coreType: Literal["VectorCore"]
    kernelName: _Name
    blockDim: _Positive
    binFileSuffix: Literal[".o", ".so"]
    binFileName: _Name
    sha256: _Digest | None


class TargetInfo(_Model):
    compute_capability: str | None
    arch: str


class Document(_Model):
    dynamic: bool
    targetInfo: TargetInfo
    inputShapes: tuple[_Shape, ...]
    outputShapes: tuple[_Shape, ...]
    inputTypes: tuple[str, ...]
    outputTypes: tuple[str, ...]


class DocumentCpu(Document):
    """The document's keys that apply to a shared library."""

    autofuse: CpuSignature
    kernelName: _Name
    sha256: _Digest


class DocumentGpu(Document):
    """The document's keys for PTX."""

    autofuse: GpuSignature


class DocumentGpuLaunch(DocumentGpu):
    kernelName: _Name
    sha256: _Digest
    blockDim: tuple[_Positive, _Positive, _Positive]
    gridDim: tuple[_Size, _Size, _Size]
    threadNumber: _Size


class DocumentAscend(Document):
    """The document's keys that apply to an Ascend chip, where a block is a core."""

    autofuse: Signature
    kernelName: _Name
    blockDim: tuple[_Positive, _Positive, _Positive]
    sha256: _Digest | None


#: Key set -> kind of target -> the models of the JSON, the one with the most keys first.
KEY_SETS: Mapping[str, Mapping[str, tuple[type[_Model], ...]]] = {
    "upstream": {
        "cpu": (UpstreamCpu,),
        "gpu": (UpstreamGpuLaunch, UpstreamGpu),
        "ascend": (UpstreamAscend,),
    },
    "document": {
        "cpu": (DocumentCpu,),
        "gpu": (DocumentGpuLaunch, DocumentGpu),
        "ascend": (DocumentAscend,),
    },
}
DEFAULT_KEYS = "upstream"


def kernel_schema(keys: str) -> dict[str, Any]:
    """Return the JSON Schema of the files of a key set, one of ``KEY_SETS``, for every kind of target."""
    models = (model for kinds in KEY_SETS[keys].values() for model in kinds)
    found = TypeAdapter(reduce(or_, models)).json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def json_text(found: Mapping[str, Any], keys: str, kind: str) -> str:
    """Return the text of a file, sorted by key.

    Args:
        found: the values, with tuples for lists; without the launch keys if the file omits them.
        keys: a key set, one of ``KEY_SETS``.
        kind: the kind of target.

    Raises:
        pydantic.ValidationError: the values do not match the schema, which is a bug in autofuse.
    """
    full, *others = KEY_SETS[keys][kind]
    model = others[0] if others and "kernelName" not in found else full
    checked = model.model_validate(found)
    whole = checked.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return json.dumps(whole, indent=4, sort_keys=True) + "\n"
