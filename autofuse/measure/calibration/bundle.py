"""Bundles (``autofuse.bundle/1``): results of ``autofuse silicon`` on a chip, to be sent and read elsewhere.

A bundle has only numbers, and names from fixed alphabets: no path, host, user, serial number, and no text of a compiler
or driver. It is untrusted input, so a reader checks every size and every range.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import named, unreadable
from autofuse.base.wording import counted, form
from autofuse.frontends.graph.schema import drop_titles
from autofuse.frontends.json_positions import Findings, load, quote
from autofuse.frontends.kinds import of_another_kind
from autofuse.frontends.pydantic_errors import validated

__all__ = [
    "MAX_DIFFERENCES",
    "MAX_TIMES",
    "SCHEMA",
    "Bundle",
    "CalibrationRow",
    "Chip",
    "ConformanceRow",
    "Difference",
    "bundle_bytes",
    "bundle_schema",
    "parse_bundle",
    "read_bundle",
    "write_bundle",
]

SCHEMA = "autofuse.bundle/1"
_ID = "https://autofuse.dev/schema/bundle-1.json"
#: Most bytes of a bundle on disk, and of its text.
_MAX_FILE, _MAX_TEXT = 16 << 20, 16 << 20
#: Most times of one kernel, and most differing elements of one output, in a bundle.
MAX_TIMES, MAX_DIFFERENCES = 256, 16
_GZIP = b"\x1f\x8b"

_Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,119}$")]
_Release: TypeAlias = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,31}$")]
_Code: TypeAlias = Annotated[str, Field(pattern=r"^AF[0-9]{4}$")]
_Value: TypeAlias = Annotated[str, Field(pattern=r"^[-+0-9a-z.]{1,40}$")]
_Count: TypeAlias = Annotated[int, Field(ge=0, le=1 << 40)]
_Microseconds: TypeAlias = Annotated[float, Field(gt=0, le=1e8)]

#: Of a kernel that has no result: its process did not answer in time, it returned an error or does not compile, the
#: chip was lost while it ran, or the user or an earlier failure left it out.
_Unfinished: TypeAlias = Literal["timeout", "failed", "lost", "skipped"]


class _Model(BaseModel):
    # Strict: 1.0 is not an integer, "1" is not a number; a JSON integer is a number.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Chip(_Model):
    """The chip, by what its runtime says of all chips of its kind."""

    soc: _Release = Field(description="Name of the chip, as the runtime reports it.")
    clock_mhz: int | None = Field(
        None, description="Clock of the cores, if the runtime reports it.", ge=1, le=100_000
    )
    driver: _Release | None = Field(None, description="Version of the driver, if known.")


class CalibrationRow(_Model):
    """One calibration kernel at one set of parameters."""

    case: _Name = Field(description="Name of the case; unique.")
    program: _Name = Field(description="Calibration kernel.")
    parameters: dict[_Name, _Count] = Field(
        description="Sizes of the kernel, by name.", max_length=16
    )
    l2: Literal["warm", "clear"] = Field(description="L2 before each run.")
    state: Literal["measured", "wrong"] | _Unfinished = Field(
        description="measured; wrong: the result differs from NumPy; or why there is no time."
    )
    code: _Code | None = Field(None, description="Code of the error, if any.")
    times_us: list[_Microseconds] = Field(
        default_factory=list,
        description="Time of every repeat, in microseconds.",
        max_length=MAX_TIMES,
    )
    model_us: _Microseconds | None = Field(
        None, description="Time predicted by the model with the kit's target file."
    )


class Difference(_Model):
    """An element that the chip has otherwise than NumPy."""

    at: list[_Count] = Field(description="Index in the output.", max_length=16)
    inputs: list[_Value] = Field(
        description="Elements of the inputs at that index, for inputs that have it.", max_length=16
    )
    got: _Value = Field(description="Value from the chip.")
    want: _Value = Field(description="Value from NumPy.")


class ConformanceRow(_Model):
    """One kernel compared with NumPy, at one set of sizes."""

    case: _Name = Field(description="Name of the case; unique.")
    kind: Literal["op", "template", "corner"] = Field(description="Subject of the case.")
    subject: _Name = Field(description="Op, template family, or assumption.")
    dtype: _Name = Field(description="Element type of the inputs.")
    state: Literal["equal", "within", "differs"] | _Unfinished = Field(
        description="bit-identical, within the allowed error, beyond it, or why there is no result."
    )
    code: _Code | None = Field(None, description="Code of the error, if any.")
    elements: _Count = Field(0, description="Number of elements compared.")
    differing: _Count = Field(0, description="Number of elements whose bits differ from NumPy's.")
    wrong: _Count = Field(0, description="Number of elements beyond the allowed error.")
    differences: list[Difference] = Field(
        default_factory=list,
        description="The first differing elements.",
        max_length=MAX_DIFFERENCES,
    )


class Bundle(_Model):
    """Results of one run of the kit on one chip."""

    schema_: Literal["autofuse.bundle/1"] = Field(
        alias="schema", description="Version of this format."
    )
    editor_schema: str | None = Field(
        None, alias="$schema", description="Location of this schema, for editors.", max_length=512
    )
    autofuse: _Release = Field(description="Version of autofuse that wrote it.")
    fake: bool = Field(description="True for a simulated chip, whose times are no measurements.")
    target: _Name = Field(description="Target that the kernels were generated for.")
    chip: Chip = Field(description="Chip that ran the kernels.")
    cann: _Release = Field(description="Release of CANN.")
    complete: bool = Field(description="True if every case was tried.")
    calibration: list[CalibrationRow] = Field(
        default_factory=list, description="Calibration kernels.", max_length=4096
    )
    conformance: list[ConformanceRow] = Field(
        default_factory=list, description="Kernels compared with NumPy.", max_length=16_384
    )


def read_bundle(path: Path) -> Bundle:
    """Read the bundle of a file, plain or compressed with gzip.

    Raises:
        AutofuseError: AF1001 it cannot be read; AF1002 it is not JSON; AF1003 it is too large or too deep; AF1004 it is
            not a bundle; AF110x for all invalid fields; AF1403 its fields contradict each other.
    """
    try:
        data = named(path, _MAX_FILE)
    except (OSError, ValueError) as e:
        raise unreadable(path, "a bundle", e) from None
    return parse_bundle(data, str(path))


def parse_bundle(data: bytes, path: str = "") -> Bundle:
    """Parse the bytes of a bundle; raises as :func:`read_bundle`.

    Args:
        data: JSON, or JSON compressed with gzip.
        path: name of the file for messages.
    """
    document = load(_unpacked(data, path) if data.startswith(_GZIP) else data, path)
    value: Any = document.value
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        hint = f'a bundle is an object with "schema": "{SCHEMA}"; autofuse silicon writes it'
        raise of_another_kind(document, "a bundle", hint)
    findings = Findings(document)
    bundle = validated(Bundle, value, findings)
    for pointer, text in (*_implausible_times(bundle), *_implausible_counts(bundle)):
        findings.add("AF1403", text, pointer)
    findings.raise_if_any()
    return bundle


def _unpacked(data: bytes, path: str) -> bytes:
    """Decompress a bundle up to the largest size allowed."""
    where, unpacker = Where(path), zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(data, _MAX_TEXT + 1)
    except zlib.error:
        raise AutofuseError.of("AF1001", "the bundle is not a gzip file", where=where) from None
    if len(text) > _MAX_TEXT:
        reason = f"the bundle has more than {_MAX_TEXT} bytes when it is unpacked"
        raise AutofuseError.of("AF1003", reason, where=where)
    if not unpacker.eof or unpacker.unused_data:
        reason = "the bundle cannot be unpacked: it ends too early, or something follows it"
        raise AutofuseError.of("AF1001", reason, where=where)
    return text


def _implausible_times(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Yield pointer and text of impossible rows among the calibration kernels."""
    yield from _twice("calibration", (r.case for r in bundle.calibration))
    for i, row in enumerate(bundle.calibration):
        at = f"/calibration/{i}"
        if (row.state == "measured") != bool(row.times_us):
            text = f"{row.case} is {quote(row.state)} and has {counted(len(row.times_us), 'time')}"
            yield f"{at}/times_us", text
        if row.state in ("failed", "timeout", "lost") and row.code is None:
            yield f"{at}/state", f"{row.case} is {quote(row.state)} without the code of an error"


def _implausible_counts(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Yield pointer and text of impossible rows among the compared kernels."""
    yield from _twice("conformance", (r.case for r in bundle.conformance))
    for i, row in enumerate(bundle.conformance):
        at = f"/conformance/{i}"
        ran = row.state in ("equal", "within", "differs")
        if not row.wrong <= row.differing <= row.elements:
            counts = f"{row.wrong} of {row.differing} of {row.elements}"
            yield f"{at}/wrong", f"{row.case} has {counted(counts, 'wrong element')}"
        if ran != bool(row.elements):
            text = f"{row.case} is {quote(row.state)} and has {counted(row.elements, 'element')}"
            yield f"{at}/elements", text
        if (row.state == "differs") != bool(row.wrong):
            yield (
                f"{at}/state",
                f"{row.case} is {quote(row.state)} with {counted(row.wrong, 'wrong element')}",
            )
        if row.state == "equal" and row.differing:
            text = (
                f"{row.case} is equal, and {counted(row.differing, 'element')} "
                f"{form(row.differing, 'differs', 'differ')}"
            )
            yield f"{at}/differing", text
        if len(row.differences) > row.differing:
            text = f"{row.case} lists more differences than it counts"
            yield f"{at}/differences", text


def _twice(field: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            yield f"/{field}/{i}/case", f"the case {quote(name)} occurs twice"
        seen.add(name)


def bundle_bytes(bundle: Bundle, *, packed: bool) -> bytes:
    """Return the bytes of a file: JSON, one row per line, or that compressed. Equal bundles give equal bytes."""
    value = bundle.model_dump(mode="json", by_alias=True, exclude_none=True)
    rows = {k: value.pop(k) for k in ("calibration", "conformance")}
    head = json.dumps(value, indent=1)[:-2]
    lists = (
        f'"{k}": [' + ",".join(f"\n  {json.dumps(r)}" for r in found) + "\n ]"
        for k, found in rows.items()
    )
    text = ",\n ".join((head, *lists)) + "\n}\n"
    data = text.encode()
    # Without file name and time.
    return gzip.compress(data, mtime=0) if packed else data


def write_bundle(bundle: Bundle, path: Path) -> None:
    """Write a file, compressed if its name ends with ``.gz``.

    Raises:
        AutofuseError: AF5005, it cannot be written.
    """
    data = bundle_bytes(bundle, packed=path.suffix == ".gz")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as e:
        beside.unlink(missing_ok=True)
        text = f"the bundle cannot be written: {e.strerror or e}"
        raise AutofuseError.of("AF5005", text, where=Where(str(path))) from None


def bundle_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of schema ``autofuse.bundle/1``."""
    schema = Bundle.model_json_schema(by_alias=True)
    drop_titles(schema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": f"bundle ({SCHEMA})",
    }
    return head | schema
