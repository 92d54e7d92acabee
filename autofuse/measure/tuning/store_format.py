"""Reads the store of ``autofuse tune --store``: a line of JSON per measured candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import named, unreadable

__all__ = ["RecordModel", "read_records"]

#: Most bytes of a file, about a million candidates.
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
    """Return the records of a file; none if it does not exist yet.

    An incomplete last line, as an interrupted run leaves it, is skipped.

    Raises:
        AutofuseError: AF1001, AF1003, it cannot be read; AF1004, a line is not such a record.
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
            text = "this line is not a record of a candidate"
            hint = "give --store a file of its own, which autofuse tune creates"
            where = Where(str(path), line=number)
            raise AutofuseError.of("AF1004", text, where=where, hint=hint)
        found.append(r)
    return tuple(found)
