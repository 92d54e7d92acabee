"""Reads tuning files (``autofuse.tuning/1``), and prints their JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from autofuse.base.diagnostics import Where
from autofuse.base.reading import named, unreadable
from autofuse.codegen.backends.ascendc.tuning import Tiling, Tilings
from autofuse.codegen.backends.triton.tuning import KEYS, KernelTuning, Tuning
from autofuse.codegen.backends.tuning_file import SCHEMA, Times
from autofuse.frontends.graph.schema import drop_titles
from autofuse.frontends.json_positions import Document, Findings, load, quote
from autofuse.frontends.kinds import of_another_kind
from autofuse.frontends.pydantic_errors import validated
from autofuse.schedule.search.given import GivenTile

__all__ = ["read_tuning", "tuning_schema"]

#: Most bytes of a file: a graph has few kernels.
_MAX_BYTES = 1 << 20
_ID = "https://autofuse.dev/schema/tuning-1.json"
_Size: TypeAlias = Annotated[int | None, Field(ge=1, le=1 << 16)]
_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=512)]
#: Most rows of a table, which the host function scans linearly; no tile is longer than UB has bytes.
_MOST_ROWS, _MOST_TILE = 256, 1 << 20
_Extent: TypeAlias = Annotated[int, Field(ge=0, le=1 << 62)]
_Range: TypeAlias = Annotated[list[_Extent], Field(min_length=2, max_length=2)]
_Us: TypeAlias = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Sizes: TypeAlias = dict[_Name, _Extent]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class KernelModel(_Model):
    """Sizes of the blocks of a kernel; those that are left out are as the rules choose them."""

    name: _Name = Field(description="Name of its function, as autofuse explain lists it.")
    rows: _Size = Field(None, description="Elements along the rows of a program, a power of 2.")
    cols: _Size = Field(None, description="Columns of a block, a power of 2.")
    parts: _Size = Field(None, description="Blocks of a cluster that share a row, a power of 2.")
    warps: _Size = Field(None, description="Warps of a block, a power of 2.")
    programs: _Size = Field(None, description="Programs that cover all rows, for sums beside rows.")
    chunks: _Size = Field(None, description="Parts of the columns, one program each.")
    stages: _Size = Field(None, description="Loop iterations whose loads are in flight at once.")


class TimesModel(_Model):
    """Evidence for a tuning: a time with it, and one with the compiler's choice."""

    sizes: _Sizes = Field(description="Sizes of the graph's symbols.", max_length=64)
    us: _Us = Field(description="Time with the tuning, in microseconds.")
    default_us: _Us = Field(description="Time with the compiler's choice, in microseconds.")
    noise: float = Field(
        description="Relative difference between two runs of one kernel.", ge=0, le=10
    )
    status: Literal["measured", "modelled"] = Field(description="Source of the times.")
    on: str = Field(description="The device or the model.", max_length=200)
    fake: bool = Field(False, description="True if the device is a stand-in for tests.")


class _Headed(_Model):
    """Fields common to all tuning files."""

    schema_: Literal["autofuse.tuning/1"] = Field(
        alias="schema", description="Version of this format."
    )
    editor_schema: str | None = Field(
        None, alias="$schema", description="Location of this schema, for editors."
    )
    graph: _Name = Field(description="Name of the graph.")
    digest: str = Field(description="Digest of the graph.", pattern="^[0-9a-f]{64}$")
    target: _Name = Field(description="Name of the card.")
    times: list[TimesModel] = Field(
        [],
        description="Evidence for the tuning; has no effect on generated files.",
        max_length=4096,
    )


class TuningModel(_Headed):
    """Blocks of the kernels of one graph, for one card."""

    kernels: list[KernelModel] = Field(
        description="One entry per kernel, in any order.", max_length=4096
    )


class GroupModel(_Model):
    """The choice for one group of nodes."""

    template: _Name = Field(description="Name of its function, as autofuse explain lists it.")
    tile: int = Field(description="Length of a tile.", ge=1, le=_MOST_TILE)
    cores: int = Field(description="Number of cores that share the tiles.", ge=1, le=1 << 12)


class TilingModel(_Model):
    """A choice for all groups, at one shape or a range of shapes."""

    sizes: dict[_Name, _Extent | _Range] = Field(
        {},
        description="Sizes of symbols: a size, or minimum and maximum; any size if left out.",
        max_length=64,
    )
    groups: list[GroupModel] = Field(
        description="In the order of the kernel.", min_length=1, max_length=256
    )


class TilingsModel(_Headed):
    """Tilings of the kernel of one graph, for one Ascend chip."""

    tilings: list[TilingModel] = Field(
        description="If several match a shape, the first applies.", max_length=_MOST_ROWS
    )


def read_tuning(path: Path) -> Tuning | Tilings:
    """Return the tuning of a file: tilings for an Ascend chip, or blocks for a card.

    Raises:
        AutofuseError: AF1001, AF1002, AF1003, it cannot be read; AF110x, all errors in its fields.
    """
    try:
        data = named(path, _MAX_BYTES)
    except (OSError, ValueError) as e:
        raise unreadable(path, "a tuning file", e) from None
    document = load(data, str(path))
    value: Any = document.value
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        hint = f'a tuning file is an object with "schema": "{SCHEMA}"'
        raise of_another_kind(document, "a tuning file", hint)
    return _tilings(document) if "tilings" in value else _blocks(document)


def _tilings(document: Document) -> Tilings:
    value: Any = document.value
    findings = Findings(document)
    validated(TilingsModel, value, findings)
    findings.raise_if_any()
    head, places = _head(document, [f"/tilings/{i}" for i in range(len(value["tilings"]))])
    rows = []
    for i, row in enumerate(value["tilings"]):
        ends = {
            n: (s, s) if isinstance(s, int) else (s[0], s[1])
            for n, s in row.get("sizes", {}).items()
        }
        groups = tuple(GivenTile(g["template"], g["tile"], g["cores"]) for g in row["groups"])
        rows.append(Tiling(ends, groups, document.where(f"/tilings/{i}")))
    return Tilings(*head, tuple(rows), places, _times(value.get("times", [])))


def _blocks(document: Document) -> Tuning:
    value: Any = document.value
    findings = Findings(document)
    validated(TuningModel, value, findings)
    names: set[str] = set()
    for i, kernel in enumerate(value["kernels"]):
        if kernel["name"] in names:
            text = f"the kernel {quote(kernel['name'])} occurs twice"
            findings.add("AF1106", text, f"/kernels/{i}/name")
        names.add(kernel["name"])
    findings.raise_if_any()
    keys = [f"/kernels/{i}/{k}" for i, o in enumerate(value["kernels"]) for k in o]
    head, places = _head(document, keys)
    kernels = tuple(
        KernelTuning(
            o["name"],
            {k: o[k] for k in KEYS if o.get(k) is not None},
            {k: document.where(f"/kernels/{i}/{k}") for k in o},
        )
        for i, o in enumerate(value["kernels"])
    )
    return Tuning(*head, kernels, places, _times(value.get("times", [])))


def _head(
    document: Document, others: Sequence[str]
) -> tuple[tuple[str, str, str], dict[str, Where]]:
    """Return graph, digest and target with their places; ``others``: further values to locate in the file."""
    value: Any = document.value
    keys = ("graph", "digest", "target")
    document.locate([*(f"/{k}" for k in keys), *others])
    head = value["graph"], value["digest"], value["target"]
    return head, {k: document.where(f"/{k}") for k in keys}


def _times(rows: list[dict[str, Any]]) -> tuple[Times, ...]:
    return tuple(Times(**{**row, "fake": row.get("fake", False)}) for row in rows)


def tuning_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of schema ``autofuse.tuning/1``."""
    schema = TypeAdapter(TuningModel | TilingsModel).json_schema(by_alias=True)
    drop_titles(schema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": f"tuning file ({SCHEMA})",
    }
    return head | schema
