"""Reads tuning files (``autofuse.tuning/1``), and prints their JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import named
from autofuse.codegen.backends.triton.tuning import KEYS, KernelTuning, Tuning
from autofuse.codegen.backends.tuning_file import SCHEMA, Times
from autofuse.frontends.graph.schema import drop_titles
from autofuse.frontends.json_positions import Findings, load, quote
from autofuse.frontends.pydantic_errors import validated

__all__ = ["read_tuning", "tuning_schema"]

#: Bytes of a file: a graph has a few kernels.
_MAX_BYTES = 1 << 20
_ID = "https://autofuse.dev/schema/tuning-1.json"
_Size: TypeAlias = Annotated[int | None, Field(ge=1, le=1 << 16)]
_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=512)]
_Us: TypeAlias = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Sizes: TypeAlias = dict[_Name, Annotated[int, Field(ge=0, le=1 << 62)]]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class KernelModel(_Model):
    """Sizes of the blocks of a kernel; those that are left out are as the rules choose them."""

    name: _Name = Field(description="Name of its function, as autofuse explain lists it.")
    rows: _Size = Field(None, description="Elements along the rows of a program, a power of 2.")
    cols: _Size = Field(None, description="Columns that a block holds at once, a power of 2.")
    parts: _Size = Field(None, description="Blocks of a cluster that share a row, a power of 2.")
    warps: _Size = Field(None, description="Warps of a block, a power of 2.")
    programs: _Size = Field(None, description="Programs that go over all rows, beside sums.")
    chunks: _Size = Field(None, description="Parts of the columns, a program each.")
    stages: _Size = Field(None, description="Turns of a loop whose loads are under way at once.")


class TimesModel(_Model):
    """What speaks for a tuning: a time with it, and one of what the compiler chooses."""

    sizes: _Sizes = Field(description="Of the symbols of the graph.", max_length=64)
    us: _Us = Field(description="The time with the tuning, in microseconds.")
    default_us: _Us = Field(description="The time of what the compiler chooses.")
    noise: float = Field(
        description="Share of a time by which two runs of one kernel may differ.", ge=0, le=10
    )
    status: Literal["measured", "modelled"] = Field(description="Where the times are from.")
    on: str = Field(description="The device or the model.", max_length=200)
    fake: bool = Field(False, description="The device is a stand-in for tests.")


class TuningModel(_Model):
    """Blocks of the kernels of one graph, for one card."""

    schema_: Literal["autofuse.tuning/1"] = Field(
        alias="schema", description="Version of this format."
    )
    editor_schema: str | None = Field(
        None, alias="$schema", description="Where editors find this schema."
    )
    graph: _Name = Field(description="Name of the graph.")
    digest: str = Field(description="Digest of the graph.", pattern="^[0-9a-f]{64}$")
    target: _Name = Field(description="Name of the card.")
    kernels: list[KernelModel] = Field(description="A kernel each, in any order.", max_length=4096)
    times: list[TimesModel] = Field(
        [],
        description="What speaks for it; nothing of it reaches generated files.",
        max_length=4096,
    )


def read_tuning(path: Path) -> Tuning:
    """The tuning of a file.

    Raises:
        AutofuseError: AF1001, AF1002, AF1003, it cannot be read; AF110x, all that is wrong with its fields.
    """
    try:
        data = named(path, _MAX_BYTES)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        text = f"the tuning file cannot be read: {reason}"
        raise AutofuseError.of("AF1001", text, where=Where(str(path))) from None
    document = load(data, str(path))
    value: Any = document.value
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        hint = f'a tuning file is an object with "schema": "{SCHEMA}"'
        where = document.where("/schema")
        raise AutofuseError.of("AF1004", "this is no tuning file", where=where, hint=hint)
    findings = Findings(document)
    validated(TuningModel, value, findings)
    names: set[str] = set()
    for i, kernel in enumerate(value["kernels"]):
        if kernel["name"] in names:
            text = f"the kernel {quote(kernel['name'])} is there twice"
            findings.add("AF1106", text, f"/kernels/{i}/name")
        names.add(kernel["name"])
    findings.raise_if_any()
    own = [f"/{k}" for k in ("graph", "digest", "target")]
    document.locate(
        [*own, *(f"/kernels/{i}/{k}" for i, o in enumerate(value["kernels"]) for k in o)]
    )
    kernels = tuple(
        KernelTuning(
            o["name"],
            {k: o[k] for k in KEYS if o.get(k) is not None},
            {k: document.where(f"/kernels/{i}/{k}") for k in o},
        )
        for i, o in enumerate(value["kernels"])
    )
    places = {p[1:]: document.where(p) for p in own}
    head = value["graph"], value["digest"], value["target"]
    return Tuning(*head, kernels, places, _times(value.get("times", [])))


def _times(rows: list[dict[str, Any]]) -> tuple[Times, ...]:
    return tuple(Times(**{**row, "fake": row.get("fake", False)}) for row in rows)


def tuning_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of schema ``autofuse.tuning/1``."""
    schema = TuningModel.model_json_schema(by_alias=True)
    drop_titles(schema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": f"tuning file ({SCHEMA})",
    }
    return head | schema
