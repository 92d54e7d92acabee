"""Users' target files (``autofuse.target/1``): a built-in chip with other values of some figures.

Such a file comes from ``autofuse calibrate``, from a colleague or from an editor, so it is untrusted. It holds only
numbers, and the identifiers ``name`` and ``soc``, which reach generated text.
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
#: Most bytes of a file, and most diagnostics listed.
_MAX_BYTES, _MOST = 1 << 18, 50
#: Largest factor between a value and the base's, in either direction.
_FACTOR = 1000.0
#: A figure in cycles may be up to this, whatever the base has.
_MOST_CYCLES = 1e6
#: The same factor for bytes of UB: no chip has several times as many.
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
    """Return True if the name is the path of a target file, which ends in ``.toml``."""
    return name.endswith(".toml")


def read_target(path: str | Path) -> TargetSpec:
    """Return the chip that a file describes.

    Its ``base`` is a built-in chip; ``figures``, ``model`` and ``vector`` replace figures of the base, each with value,
    status and source. ``[chip]`` may name another ``soc``. The table ``calibration`` is informative only.

    Args:
        path: path of the file.

    Returns:
        The chip, with the file's ``name`` and the base chip in ``base``.

    Raises:
        AutofuseError: AF1001, AF1003, it cannot be read; AF1405 with all errors in it, each with its line; AF5006,
            there is no such base.
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
        reason = "it nests too deeply" if isinstance(e, RecursionError) else str(e)[:200]
        where = Where(str(path), line=line, column=column)
        raise AutofuseError.of("AF1405", f"this is not valid TOML: {reason}", where=where) from None
    return _Reader(str(path), text, doc).target()


class _Reader:
    """Reads a target file and collects its errors."""

    def __init__(self, path: str, text: str, doc: Mapping[str, Any]) -> None:
        self.path, self.doc = path, doc
        self.lines = _lines(text)
        self.found: list[Diagnostic] = []

    def wrong(self, message: str, *key: str, hint: str = "") -> None:
        """Note an error of a key, with the line of the key or of its closest table."""
        at = next((self.lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in self.lines), 0)
        where = Where(self.path, ".".join(key), at, 1 if at else 0)
        self.found.append(Diagnostic("AF1405", message, where, hint))

    def finish(self) -> None:
        """Raise the findings."""
        if self.found:
            raise AutofuseError(tuple(self.found[:_MOST]))

    def target(self) -> TargetSpec:
        """Return the chip of the file."""
        base = self._base()
        for key in self.doc:
            if key not in _TOP:
                self.wrong(f"there is no key {_said(key)}", key, hint=f"keys: {', '.join(_TOP)}")
        name = self._name()
        soc = self._soc(base)
        # Limits, calls and casts come from the architecture.
        known = {f.name: f for f in base.figures() if f not in base.arch.figures}
        rows = dict(self._figures(known))
        self.finish()
        chip = base.with_figures(rows.values())
        if chip.ub_usable < chip.arch.vector_bytes:
            text = f"{chip.ub_usable} bytes of UB remain for kernels"
            self.wrong(text, "figures", "ub_bytes", hint="ub_bytes less what is reserved")
        if chip.aiv_cores > chip.arch.cores_max:
            text = f"{counted(chip.aiv_cores, 'core')}, more than one launch can use"
            self.wrong(text, "figures", "aiv_cores", hint=f"at most {chip.arch.cores_max}")
        self.finish()
        return replace(chip, name=name, soc=soc, base=base.name)

    def _base(self) -> TargetSpec:
        """Return the base chip; without it nothing else in the file can be checked."""
        if self.doc.get("schema") != SCHEMA:
            hint = f'a target file begins with schema = "{SCHEMA}"'
            self.wrong("this is not a target file", "schema", hint=hint)
            self.finish()
        base = self.doc.get("base")
        if not isinstance(base, str):
            hint = 'base = "NAME": the chip that supplies all other figures'
            self.wrong("base must be the name of a chip", "base", hint=hint)
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
            text = "name must be letters, digits, '_' and '.', a letter first, 64 at most"
            self.wrong(text, "name", hint='name = "my_910b2": generated files name it')
            return ""
        if name in (*target_names(), *gpu_names(), *cpu_names()) or name.startswith("dav-"):
            text = f"{name} is the name of a built-in target"
            self.wrong(text, "name", hint=f"choose another: my_{name}")
        fake = self.doc.get("fake", False)
        if not isinstance(fake, bool):
            self.wrong("fake must be true or false", "fake")
        elif fake and "fake" not in name:
            text = f"the figures come from a fake CANN, but the name {name} does not say so"
            self.wrong(text, "name", hint=f"include the word fake: {name[:59]}_fake")
        return name

    def _soc(self, base: TargetSpec) -> str:
        chip = self.doc.get("chip", {})
        if not isinstance(chip, dict) or not set(chip) <= {"soc"}:
            self.wrong("the table chip takes only the key soc", "chip", hint="figures: [figures]")
            return ""
        soc = chip.get("soc", base.soc)
        if not isinstance(soc, str) or not _SOC.fullmatch(soc):
            text = "soc must be letters, digits and '_', a letter first, 40 at most"
            self.wrong(text, "chip", "soc", hint=f"CANN's name for the chip: {base.soc}")
            return ""
        return soc

    def _figures(self, known: Mapping[str, Figure]) -> Iterator[tuple[str, Figure]]:
        """Yield the figures of the file by name."""
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
                self.wrong(f"{table} must be a table", table)
                continue
            for name, row in rows.items():
                if table != "vector":
                    yield (table, name), row
                elif not isinstance(row, dict):
                    self.wrong("must be a table of head, rate16 and rate32", table, name)
                else:
                    for part, cell in row.items():
                        yield (table, name, part), cell

    def _figure(self, base: Figure, key: tuple[str, ...], row: Any) -> Figure | None:
        count = len(self.found)
        if not isinstance(row, dict) or not set(row) <= set(_ROW):
            hint = '{ value = 1.5, status = "measured", source = "where it comes from" }'
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
            text = f"the status of {base.name} must be one of {', '.join(STATUSES)}"
            self.wrong(text, *key, hint="how the value was obtained; assumed if unknown")
        source = row.get("source")
        if not isinstance(source, str) or not _PRINTED.fullmatch(source):
            text = f"the source of {base.name} must be one line of 6 to 400 characters"
            self.wrong(text, *key, hint="state who published or measured the value")
        if len(self.found) > count:
            return None
        assert isinstance(value, int | float)
        assert isinstance(status, str)
        assert isinstance(source, str)
        whole = base.name in _WHOLE
        return Figure(base.name, int(value) if whole else value, base.unit, status, source)

    def _value(self, base: Figure, key: tuple[str, ...], value: object) -> None:
        """Check that a value is a number of the right type and range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(f"the value of {base.name} must be a number", *key)
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
            self.wrong(f"the value of {base.name} must be an integer", *key)


def _said(value: object) -> str:
    """Return a value of a file as text for a message, shortened if long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]}...'"


#: A table header, and a key before its equals sign.
_HEADER = re.compile(r"\s*\[\[?([^\[\]#\"']{1,400})\]")
_ENTRY = re.compile(r"\s*([A-Za-z0-9_.\- ]{1,400}?)\s*=")


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line number of every key and table by path; unusual spellings are omitted."""
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
