"""Reads what ``autofuse tune --store`` keeps: a line of JSON for each candidate that was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import named, unreadable

__all__ = ["RecordModel", "read_records"]

#: Bytes of a file, a million candidates or so.
_MAX_BYTES = 1 << 28
_Us: TypeAlias = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class RecordModel(BaseModel):
    """A line: a candidate at one shape."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_: Literal["autofuse.tuning-store/1"] = Field(alias="schema")
    context: str = Field(pattern="^[0-9a-f]{64}$")
    sizes: dict[Annotated[str, Field(max_length=512)], Annotated[int, Field(ge=0, le=1 << 62)]] = (
        Field(max_length=64)
    )
    key: str = Field(max_length=1 << 20)
    us: _Us
    default_us: _Us
    ratio: _Us
    why: str = Field(max_length=1 << 16)


def read_records(path: Path) -> tuple[RecordModel, ...]:
    """The records of a file; none of one that is not there yet.

    A line without an end, as a run that was cut off leaves, is passed over.

    Raises:
        AutofuseError: AF1001, AF1003, it cannot be read; AF1004, a line is no such record.
    """
    if not path.exists():
        return ()
    try:
        data = named(path, _MAX_BYTES)
    except (OSError, ValueError) as e:
        raise unreadable(path, "a store of times", e) from None
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line or not line.endswith(b"}"):
            continue
        try:
            r = RecordModel.model_validate_json(line)
        except (ValidationError, ValueError):
            r = None
        if r is None or (not r.why and r.ratio <= 0):
            text = "this line is no record of a candidate"
            hint = "give --store a file of its own; autofuse tune makes it"
            where = Where(str(path), line=number)
            raise AutofuseError.of("AF1004", text, where=where, hint=hint)
        found.append(r)
    return tuple(found)
