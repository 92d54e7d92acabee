"""Target files of one's own (``autofuse.target/1``): a chip of ours with other values of some figures.

Such a file comes from ``autofuse calibrate``, from a colleague or from an editor: it is read as one that nobody
checked.  It gives numbers alone.  What reaches generated text is its ``name`` and the ``soc`` of its chip, identifiers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.reading import named, unreadable
from autofuse.base.wording import counted
from autofuse.targets.figures import STATUSES, Figure, parsed
from autofuse.targets.spec import TargetSpec, load_chip, target_names, unknown_target

__all__ = ["SCHEMA", "is_file", "read_target"]

SCHEMA = "autofuse.target/1"
#: Bytes of a file, and the most diagnostics that are listed.
_MAX_BYTES, _MOST = 1 << 18, 50
#: A value may be so many times that of the base, or a part of it as small.
_FACTOR = 1000.0
#: A figure of no cycles may become as large.
_MOST_CYCLES = 1e6
#: Buffers are laid out in UB as a whole: no chip has some times as much.
_UB_FACTOR = 4.0
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,63}", re.ASCII)
_SOC = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}", re.ASCII)
_PRINTED = re.compile(r"[^\x00-\x1f\x7f-\x9f]{6,400}")
_TABLES = ("figures", "model", "vector")
_TOP = ("schema", "name", "base", "fake", "chip", "calibration", *_TABLES)
_ROW = ("value", "unit", "status", "source")
#: Figures of a chip that are counts.
_WHOLE = frozenset(
    ("aiv_cores", "ub_bytes", "ub_reserved", "ub_reserved_select", "clock_mhz", "l2_bytes")
)


def is_file(name: str) -> bool:
    """Return True if a target is named by its file, which ends in ``.toml``."""
    return name.endswith(".toml")


def read_target(path: str | Path) -> TargetSpec:
    """The chip that a file describes.

    Its ``base`` is a chip of ours; ``figures``, ``model`` and ``vector`` replace figures of that, each with value,
    status and source.  ``[chip]`` may name another ``soc``.  What ``calibration`` says is for readers.

    Args:
        path: of the file.

    Returns:
        The chip, with the ``name`` of the file and the base in ``base``.

    Raises:
        AutofuseError: AF1001, AF1003, it cannot be read; AF1405 with all that is wrong in it, each with its line;
            AF5006, there is no such base.
    """
    where = Where(str(path))
    try:
        text = named(Path(path), _MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise AutofuseError.of("AF1405", "the target file is not UTF-8", where=where) from None
    except (OSError, ValueError) as e:
        hint = "targets that need no file: autofuse targets" if isinstance(e, OSError) else ""
        raise unreadable(path, "a target file", e, hint=hint) from None
    try:
        doc = parsed(text)
    except (ValueError, RecursionError) as e:
        found = re.search(r"at line (\d+), column (\d+)", str(e))
        line, column = (int(x) for x in found.groups()) if found else (0, 0)
        reason = "it nests too deep" if isinstance(e, RecursionError) else str(e)[:200]
        where = Where(str(path), line=line, column=column)
        raise AutofuseError.of("AF1405", f"this is no TOML: {reason}", where=where) from None
    return _Reader(str(path), text, doc).target()


class _Reader:
    """Collects all that is wrong."""

    def __init__(self, path: str, text: str, doc: Mapping[str, Any]) -> None:
        self.path, self.doc = path, doc
        self.lines = _lines(text)
        self.found: list[Diagnostic] = []

    def wrong(self, message: str, *key: str, hint: str = "") -> None:
        """Note what is wrong with a key; its line is that of the closest table that is found."""
        at = next((self.lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in self.lines), 0)
        where = Where(self.path, ".".join(key), at, 1 if at else 0)
        self.found.append(Diagnostic("AF1405", message, where, hint))

    def finish(self) -> None:
        """Raise what was found."""
        if self.found:
            raise AutofuseError(tuple(self.found[:_MOST]))

    def target(self) -> TargetSpec:
        """The chip of the file."""
        base = self._base()
        for key in self.doc:
            if key not in _TOP:
                self.wrong(f"there is no key {_said(key)}", key, hint=f"keys: {', '.join(_TOP)}")
        name = self._name()
        soc = self._soc(base)
        # Limits, calls and casts are those of the architecture.
        known = {f.name: f for f in base.figures() if f not in base.arch.figures}
        rows = dict(self._figures(known))
        self.finish()
        chip = base.with_figures(rows.values())
        if chip.ub_usable < chip.arch.vector_bytes:
            text = f"{chip.ub_usable} bytes of UB are left to kernels"
            self.wrong(text, "figures", "ub_bytes", hint="ub_bytes less what is reserved")
        if chip.aiv_cores > chip.arch.cores_max:
            text = f"{counted(chip.aiv_cores, 'core')}, more than one launch may have"
            self.wrong(text, "figures", "aiv_cores", hint=f"at most {chip.arch.cores_max}")
        self.finish()
        return replace(chip, name=name, soc=soc, base=base.name)

    def _base(self) -> TargetSpec:
        """The chip that the file builds on; nothing else of the file can be judged without it."""
        if self.doc.get("schema") != SCHEMA:
            hint = f'a target file begins with schema = "{SCHEMA}"'
            self.wrong("this is no target file", "schema", hint=hint)
            self.finish()
        base = self.doc.get("base")
        if not isinstance(base, str):
            hint = 'base = "NAME": the chip whose figures hold where the file has none'
            self.wrong("base has to be the name of a chip", "base", hint=hint)
            self.finish()
        if base not in target_names():
            given = unknown_target(str(base), target_names()).diagnostics[0]
            at = self.lines.get(("base",), 0)
            where = Where(self.path, "base", at, 1 if at else 0)
            raise AutofuseError((replace(given, where=where),))
        return load_chip(str(base))

    def _name(self) -> str:
        from autofuse.targets.cpu import cpu_names
        from autofuse.targets.gpu import gpu_names

        name = self.doc.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or is_file(name):
            text = "name has to be letters, digits, '_' and '.', a letter first, 64 at most"
            self.wrong(text, "name", hint='name = "my_910b2": generated files name it')
            return ""
        if name in (*target_names(), *gpu_names(), *cpu_names()) or name.startswith("dav-"):
            text = f"{name} is the name of a target of autofuse"
            self.wrong(text, "name", hint=f"another one: my_{name}")
        fake = self.doc.get("fake", False)
        if not isinstance(fake, bool):
            self.wrong("fake has to be true or false", "fake")
        elif fake and "fake" not in name:
            text = f"the figures are those of a fake CANN, and the name {name} does not say so"
            self.wrong(text, "name", hint=f"a name with the word fake: {name[:59]}_fake")
        return name

    def _soc(self, base: TargetSpec) -> str:
        chip = self.doc.get("chip", {})
        if not isinstance(chip, dict) or not set(chip) <= {"soc"}:
            self.wrong("the table chip has the key soc alone", "chip", hint="figures: [figures]")
            return ""
        soc = chip.get("soc", base.soc)
        if not isinstance(soc, str) or not _SOC.fullmatch(soc):
            text = "soc has to be letters, digits and '_', a letter first, 40 at most"
            self.wrong(text, "chip", "soc", hint=f"as CANN calls the chip: {base.soc}")
            return ""
        return soc

    def _figures(self, known: Mapping[str, Figure]) -> Iterator[tuple[str, Figure]]:
        """The figures of the file by name."""
        for key, row in self._rows():
            name = ".".join(key[1:] if key[0] == "figures" else key)
            base = known.get(name)
            if base is None or isinstance(base.value, str):
                text = f"the base has no figure {_said(name)}"
                self.wrong(text, *key, hint="all names: autofuse targets BASE")
                continue
            found = self._figure(base, key, row)
            if found is not None:
                yield name, found

    def _rows(self) -> Iterator[tuple[tuple[str, ...], Any]]:
        for table in _TABLES:
            rows = self.doc.get(table, {})
            if not isinstance(rows, dict):
                self.wrong(f"{table} has to be a table", table)
                continue
            for name, row in rows.items():
                if table != "vector":
                    yield (table, name), row
                elif not isinstance(row, dict):
                    self.wrong("has to be a table of head, rate16 and rate32", table, name)
                else:
                    for part, cell in row.items():
                        yield (table, name, part), cell

    def _figure(self, base: Figure, key: tuple[str, ...], row: Any) -> Figure | None:
        count = len(self.found)
        if not isinstance(row, dict) or not set(row) <= set(_ROW):
            hint = '{ value = 1.5, status = "measured", source = "where it is from" }'
            self.wrong(f"the figure {base.name} is a table of {', '.join(_ROW)}", *key, hint=hint)
            return None
        value = row.get("value")
        self._value(base, key, value)
        unit = row.get("unit", base.unit)
        if unit != base.unit:
            text = f"the unit of {base.name} is {base.unit or 'none'}, not {_said(unit)}"
            self.wrong(text, *key, hint="write the value in that unit")
        status = row.get("status")
        if status not in STATUSES:
            text = f"the status of {base.name} is one of {', '.join(STATUSES)}"
            self.wrong(text, *key, hint="how its value was obtained; assumed if nothing is known")
        source = row.get("source")
        if not isinstance(source, str) or not _PRINTED.fullmatch(source):
            text = f"the source of {base.name} has to be one line of 6 to 400 characters"
            self.wrong(text, *key, hint="who says so")
        if len(self.found) > count:
            return None
        assert isinstance(value, int | float)
        assert isinstance(status, str)
        assert isinstance(source, str)
        whole = base.name in _WHOLE
        return Figure(base.name, int(value) if whole else value, base.unit, status, source)

    def _value(self, base: Figure, key: tuple[str, ...], value: object) -> None:
        """A number of the right kind that a chip may have."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(f"the value of {base.name} has to be a number", *key)
            return
        was = float(base.value)
        factor = _UB_FACTOR if base.name.startswith("ub_") else _FACTOR
        least, most = was / factor, was * factor
        if base.unit == "cycles" or not was:
            least, most = 0.0, max(most, _MOST_CYCLES if base.unit == "cycles" else 0.0)
        if not least <= value <= most or not math.isfinite(value):
            text = f"the value of {base.name} is not plausible: {str(value)[:40]}"
            unit = f" {base.unit}" if base.unit else ""
            self.wrong(text, *key, hint=f"from {least:g} to {most:g}{unit}; the base has {was:g}")
        elif base.name in _WHOLE and value != int(value):
            self.wrong(f"the value of {base.name} has to be a whole number", *key)


def _said(value: object) -> str:
    """Return a value of a file as text for a message, shortened if long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]}...'"


#: A header, and a key with what is before its equals sign.
_HEADER = re.compile(r"\s*\[\[?([^\[\]#\"']{1,400})\]")
_ENTRY = re.compile(r"\s*([A-Za-z0-9_.\- ]{1,400}?)\s*=")


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line number of every key and table by its path; unusual spellings are left out."""
    out: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = tuple(p.strip() for p in header[1].split("."))
            out.setdefault(table, number)
        elif entry := _ENTRY.match(line):
            parts = tuple(p.strip() for p in entry[1].split("."))
            for n in range(1, len(parts) + 1):
                out.setdefault((*table, *parts[:n]), number)
    return out
