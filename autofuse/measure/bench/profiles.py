"""Reads operator tables of Ascend profilers: ``op_summary_*.csv`` of msprof and ``kernel_details.csv`` of torch_npu.

The columns depend on the release and the collected data: required ones are found by name, others are counters if they
look like one.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.reading import TooLargeError, named, unreadable
from autofuse.base.visible import visible
from autofuse.base.wording import counted

__all__ = ["FAKE_COLUMN", "Profile", "ProfileRow", "read_profile"]

#: A column that only the fake CANN of the tests writes.
FAKE_COLUMN = "autofuse fake"
_MAX_BYTES = 128 << 20
_MAX_ROWS, _MAX_COLUMNS, _MAX_FINDINGS = 2_000_000, 512, 20
#: Columns by contents; the first name is msprof's, the second torch_npu's.
_NAME = ("Op Name", "Name")
_TYPE = ("OP Type", "Type")
_DURATION = ("Task Duration(us)", "Duration(us)")
_CORES = ("Block Dim", "Block Num")
_SHAPES = ("Input Shapes",)
_COUNTER = re.compile(r"(?:aic|aiv|cube|mix)_[a-z0-9_]{1,50}(?:\((?:us|%|KB|GB/s)\))?")
#: Placeholders for a number that was not collected.
_NOTHING = frozenset(("", "N/A", "NA", "nan", "null"))
_DIMENSION = re.compile(r"[0-9]{1,15}")
_MOST_US, _MOST_CORES, _MOST_COUNT = 1e9, 1 << 20, 1e18
_HINT = (
    "give op_summary_*.csv from msprof --export=on, or kernel_details.csv from torch_npu's profiler"
)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One run of an operator.

    Attributes:
        line: line in the file.
        name: name of the operator, or of its kernel.
        kind: its type; empty if the table has none.
        us: microseconds on the device.
        cores: blocks that ran; 0 if unknown.
        shapes: shapes of its inputs; None if the profiler does not report them.
        counters: numbers of the units, by column.
    """

    line: int
    name: str
    kind: str
    us: float
    cores: int
    shapes: tuple[tuple[int, ...], ...] | None
    counters: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Profile:
    """An operator table.

    Attributes:
        rows: rows that ran, in the order of the file.
        total: rows of the file.
        fake: True if the table comes from a stand-in for a chip.
    """

    rows: tuple[ProfileRow, ...]
    total: int
    fake: bool


def read_profile(path: Path) -> Profile:
    """Read the operators of a table.

    Raises:
        AutofuseError: AF1001, AF1003, it cannot be read, or is too large; AF1004, it is not an operator table; AF1403,
            impossible numbers.
    """
    try:
        data = named(path, _MAX_BYTES)
        text = data.decode("utf-8-sig")
    except TooLargeError as e:
        raise _refused("AF1003", str(e), path, "export one iteration or one device") from None
    except UnicodeDecodeError as e:
        why = f"the table is not UTF-8 text: byte {data[e.start]:#04x}"
        raise _refused("AF1004", why, path) from None
    except (OSError, ValueError) as e:
        raise unreadable(path, "an operator table", e) from None
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        head = [c.strip() for c in next(reader, [])]
        columns = _columns(head, path)
        findings: list[Diagnostic] = []
        rows: list[ProfileRow] = []
        total = 0
        for cells in reader:
            if not any(c.strip() for c in cells):
                continue
            total += 1
            if total > _MAX_ROWS:
                raise _refused("AF1003", f"the table has more than {_MAX_ROWS} rows", path)
            row = columns.row(cells, reader.line_num, path, findings)
            if row is not None:
                rows.append(row)
            if len(findings) >= _MAX_FINDINGS:
                break
    except csv.Error as e:
        why = f"line {reader.line_num} is not a table row: {visible(str(e))}"
        raise _refused("AF1004", why, path, line=reader.line_num) from None
    if findings:
        raise AutofuseError(findings)
    return Profile(tuple(rows), total, FAKE_COLUMN in head)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Positions of the needed columns in a line; -1 if missing."""

    name: int
    kind: int
    duration: int
    cores: int
    shapes: int
    counters: tuple[tuple[int, str], ...]

    def row(
        self, cells: Sequence[str], line: int, path: Path, findings: list[Diagnostic]
    ) -> ProfileRow | None:
        """Return the row of a line; None for an operator without a time."""

        def cell(i: int) -> str:
            return cells[i].strip() if 0 <= i < len(cells) else ""

        def number(i: int, name: str, most: float) -> float | None:
            text = cell(i)
            if text in _NOTHING:
                return None
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            if 0 <= value <= most:
                return value
            why = f"{name} of {_shown(cell(self.name))} is {_shown(text)}"
            findings.append(Diagnostic("AF1403", why, Where(str(path), line=line, column=1)))
            return None

        us = number(self.duration, "the duration", _MOST_US)
        if not us:
            return None
        cores = number(self.cores, "the number of blocks", _MOST_CORES)
        counters = {}
        for i, name in self.counters:
            value = number(i, name, _MOST_COUNT)
            if value is not None:
                counters[name] = value
        return ProfileRow(
            line,
            cell(self.name),
            cell(self.kind),
            us,
            int(cores or 0),
            _shapes(cell(self.shapes)),
            counters,
        )


def _columns(head: Sequence[str], path: Path) -> _Columns:
    if len(head) > _MAX_COLUMNS:
        raise _refused("AF1004", f"the table has {counted(len(head), 'column')}", path)

    def of(names: Sequence[str]) -> int:
        return next((head.index(n) for n in names if n in head), -1)

    name, duration = of(_NAME), of(_DURATION)
    missing = [
        " or ".join(repr(n) for n in names)
        for i, names in ((name, _NAME), (duration, _DURATION))
        if i < 0
    ]
    if missing:
        why = f"this is not an operator table: it has no column {' and no column '.join(missing)}"
        raise _refused("AF1004", why, path)
    counters = tuple((i, c) for i, c in enumerate(head) if _COUNTER.fullmatch(c))
    return _Columns(name, of(_TYPE), duration, of(_CORES), of(_SHAPES), counters)


def _shapes(text: str) -> tuple[tuple[int, ...], ...] | None:
    """Parse shapes as the profilers write them: ``"64,1024;1024"``; a scalar is empty between two semicolons."""
    text = text.strip("\"' ")
    if text in _NOTHING:
        return None
    found: list[tuple[int, ...]] = []
    for part in text.split(";"):
        words = [w.strip() for w in part.strip("\"' ").split(",")]
        if words == [""]:
            found.append(())
        elif all(map(_DIMENSION.fullmatch, words)):
            found.append(tuple(int(w) for w in words))
        else:
            return None
    return tuple(found)


def _shown(text: str) -> str:
    return visible(repr(text[:60]))


def _refused(code: str, why: str, path: Path, hint: str = _HINT, *, line: int = 0) -> AutofuseError:
    where = Where(str(path), line=line, column=1 if line else 0)
    return AutofuseError.of(code, why, where=where, hint=hint)
