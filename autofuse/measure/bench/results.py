"""Files of measured times (``autofuse.results/1``): their models, their reader, and their JSON Schema.

Files are untrusted. Names stay texts, numbers have ranges, and nothing from a file becomes a path, code or a command.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.reading import named, unreadable
from autofuse.base.wording import counted
from autofuse.frontends.graph.schema import drop_titles
from autofuse.frontends.json_positions import MAX_BYTES, Findings, load
from autofuse.frontends.kinds import of_another_kind
from autofuse.frontends.pydantic_errors import validated

__all__ = [
    "MAX_TIMES",
    "SCHEMA",
    "Compared",
    "DeviceFacts",
    "KernelFacts",
    "Measurement",
    "Part",
    "parse_results",
    "read_results",
    "results_schema",
    "results_text",
]

SCHEMA = "autofuse.results/1"
_ID = "https://autofuse.dev/schema/results-1.json"
#: Most times of one measurement, and most files of a folder.
MAX_TIMES, _MAX_FILES = 10_000, 1000
#: Largest ratio of a time to the median of all. A larger one is a broken clock, not an outlier.
_MOST_SPREAD = 1e6

_Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=512)]
_Version: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+()-]{0,79}$")]
_Word: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_ .()%/+-]{0,63}$")]
_Digest: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
#: Microseconds: from one clock cycle to a quarter of an hour.
_Us: TypeAlias = Annotated[float, Field(ge=1e-3, le=1e9)]
_MHz: TypeAlias = Annotated[float, Field(ge=1, le=100_000)]
_Size: TypeAlias = Annotated[int, Field(ge=0, le=1 << 48)]
_Count: TypeAlias = Annotated[int, Field(ge=0, le=1 << 31)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DeviceFacts(_Model):
    """Device that ran the kernel, without host, user, path or serial number."""

    kind: Literal["npu", "cuda", "cpu"] = Field(description="An Ascend chip, a card, or a CPU.")
    chip: _Version = Field(description="Name of the chip or card, as its driver reports it.")
    fake: bool = Field(
        description="True if the device only stands in for a chip: the times are no measurement."
    )
    driver: _Version | None = Field(default=None, description="Version of the driver.")
    cann: _Version | None = Field(default=None, description="Release of CANN.")
    clocks_mhz: dict[_Word, _MHz] = Field(
        default_factory=dict, description="Clocks by name, in MHz.", max_length=32
    )
    versions: dict[_Word, _Version] = Field(
        default_factory=dict, description="Versions of other software used.", max_length=32
    )


class KernelFacts(_Model):
    """Kernel that ran."""

    name: _Name = Field(description="Name of the graph.")
    target: _Name | None = Field(description="Target it was generated for; null: unknown.")
    graph_sha256: _Digest | None = Field(description="Digest of the graph; null: unknown.")
    kernel_sha256: _Digest | None = Field(
        description="Digest of the kernel text that ran; null: unknown."
    )
    edited: bool = Field(default=False, description="True if the user edited the kernel.")


class Part(_Model):
    """Template and tile chosen for one group of a kernel, or for one kernel of a module."""

    name: _Name = Field(description="Name of the device function.")
    template: _Name = Field(description="Family of the template, or form of the kernel.")
    tile: dict[_Word, _Size] = Field(
        default_factory=dict, description="Chosen sizes, by name.", max_length=64
    )


class Compared(_Model):
    """Comparison of the run's outputs with NumPy."""

    outputs: _Count = Field(description="Number of outputs compared.")
    elements: _Size = Field(description="Number of elements in all outputs.")
    max_ulp: float = Field(
        description="Largest difference in units of the last place.", ge=0, le=1e300
    )
    inconclusive: bool = Field(
        default=False,
        description="Too many elements lack a meaningful reference: the comparison is inconclusive.",
    )


class Measurement(_Model):
    """The times of one kernel with one set of sizes on one device."""

    origin: Literal["bench", "msprof", "silicon", "tune"] = Field(description="Who measured.")
    when: str | None = Field(
        default=None,
        description="Time of the measurement, in UTC.",
        pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z$",
    )
    generator: _Version = Field(description="The program, autofuse, and its version.")
    device: DeviceFacts = Field(description="Device that ran the kernel.")
    kernel: KernelFacts = Field(description="Kernel that ran.")
    sizes: dict[_Name, _Size] = Field(
        description="Sizes of the symbols of the graph.", max_length=256
    )
    key: Annotated[int, Field(ge=0, le=1 << 31)] | None = Field(
        default=None, description="Tiling key that ran; null: none, or unknown."
    )
    cores: Annotated[int, Field(ge=1, le=1 << 20)] | None = Field(
        default=None, description="Number of cores that ran; null: unknown."
    )
    parts: list[Part] = Field(
        default_factory=list, description="Choices, group by group.", max_length=4096
    )
    l2: Literal["warm", "clear", "unknown"] = Field(
        description="State of L2 before each call: warm from the previous call, cleared, or unknown."
    )
    method: Literal["events", "graph", "queue", "profiler"] = Field(
        description="Events around a call; replays of a graph; events in a full queue; a profiler."
    )
    warm_up: _Count = Field(default=0, description="Calls before the first timed one.")
    times_us: list[_Us] = Field(
        description="Time of one call in microseconds, for every sample.",
        min_length=1,
        max_length=MAX_TIMES,
    )
    modelled_us: _Us | None = Field(
        default=None,
        description="Time in microseconds predicted by the cost model; not a measurement.",
    )
    compared: Compared | None = Field(
        default=None, description="Comparison with NumPy; null: not compared."
    )
    counters: dict[_Word, Annotated[float, Field(ge=0, le=1e18)]] = Field(
        default_factory=dict, description="Counters of the profiler, by name.", max_length=256
    )

    @property
    def median_us(self) -> float:
        """The median of all samples."""
        return statistics.median(self.times_us)

    @property
    def spread_us(self) -> float:
        """The distance between the quartiles of the samples; 0 of fewer than four."""
        if len(self.times_us) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.times_us, n=4)
        return high - low


class _Results(_Model):
    schema_: Literal["autofuse.results/1"] = Field(
        alias="schema", description="Version of this format."
    )
    editor_schema: str | None = Field(
        default=None, alias="$schema", description="Location of this schema, for editors."
    )
    records: list[Measurement] = Field(
        description="One measurement per entry, in run order.", max_length=100_000
    )


def read_results(path: Path) -> tuple[Measurement, ...]:
    """Read the measurements of a file, or of all ``.json`` files of a folder, in the order of their names.

    Raises:
        AutofuseError: AF1001 to AF1004, a file cannot be read or is not a file of results; AF110x, AF1403, all invalid
            fields and all impossible numbers.
    """
    files = [path]
    try:
        if path.is_dir():
            files = sorted(p for p in path.glob("*.json") if p.is_file())
    except OSError as e:
        raise unreadable(path, "a file of results", e) from None
    if len(files) > _MAX_FILES:
        text = f"{path} has {counted(len(files), 'file')} of results, the limit is {_MAX_FILES}"
        hint = "name the files to read"
        raise AutofuseError.of("AF1003", text, where=Where(str(path)), hint=hint)
    return tuple(m for file in files for m in _read(file))


def _read(path: Path) -> tuple[Measurement, ...]:
    try:
        data = named(path, MAX_BYTES)
    except (OSError, ValueError) as e:
        raise unreadable(path, "a file of results", e) from None
    return parse_results(data, str(path))


def parse_results(data: str | bytes, path: str = "") -> tuple[Measurement, ...]:
    """Parse the measurements of the text of a file; ``path`` is its name in messages.

    Raises:
        AutofuseError: as :func:`read_results`.
    """
    document = load(data, path)
    value: Any = document.value
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        hint = f'a file of results is an object with "schema": "{SCHEMA}"'
        raise of_another_kind(document, "a file of results", hint)
    findings = Findings(document)
    records = validated(_Results, value, findings, out_of_range="AF1403").records
    for i, m in enumerate(records):
        for field, text in _implausible(m):
            findings.add("AF1403", text, f"/records/{i}/{field}")
    findings.raise_if_any()
    return tuple(records)


def _implausible(m: Measurement) -> Iterable[tuple[str, str]]:
    """Yield field and text of impossible values in a measurement."""
    most = max(m.times_us)
    if most > _MOST_SPREAD * m.median_us:
        yield (
            "times_us",
            f"{most:g} us next to a median of {m.median_us:g} us is not plausible for one kernel",
        )
    if m.device.kind == "cpu" and m.device.cann is not None:
        yield "device/cann", "a CPU has no CANN"
    if m.device.fake and m.device.kind != "npu":
        yield "device/fake", "only an Ascend chip can have a stand-in"
    if m.origin == "msprof" and m.method != "profiler":
        yield "method", f"msprof times are profiler times, not {m.method}"


def results_text(records: Sequence[Measurement]) -> str:
    """Return the text of a file of results, one record per line."""
    lines = (json.dumps(m.model_dump(exclude_defaults=True), ensure_ascii=True) for m in records)
    head = f'{{"schema": {json.dumps(SCHEMA)}, "records": ['
    body = ",\n".join(lines)
    return f"{head}\n{body}\n]}}\n" if records else f"{head}]}}\n"


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of schema ``autofuse.results/1``."""
    schema = _Results.model_json_schema(by_alias=True)
    drop_titles(schema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": f"file of results ({SCHEMA})",
    }
    return head | schema
