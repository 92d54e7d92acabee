"""Writes the text of a target file (``autofuse.target/1``) with fitted figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from autofuse.measure.calibration.fitting import Estimate
from autofuse.targets import Figure
from autofuse.targets.own import SCHEMA

__all__ = ["target_text"]


def target_text(
    name: str,
    base: str,
    estimates: Sequence[Estimate],
    figures: Sequence[Figure],
    about: Mapping[str, str | int | float | bool],
    *,
    fake: bool,
) -> str:
    """Return the text of the file; equal arguments give equal bytes.

    Args:
        name: name of the target.
        base: its base chip.
        estimates: the results of the fit; unfitted figures become comments with the reason.
        figures: the figures to write, fitted or given otherwise, with status and source.
        about: contents of the table ``calibration``.
        fake: the times come from a fake CANN.
    """
    lines = [
        "# A target file of autofuse: figures of the cost model, fitted by autofuse calibrate.",
        *(
            ["# FAKE: no chip was measured. The times are those of a simulated one."]
            if fake
            else []
        ),
        f"schema = {json.dumps(SCHEMA)}",
        f"name = {json.dumps(name)}",
        f"base = {json.dumps(base)}",
        *(["fake = true"] if fake else []),
        "",
        "[calibration]",
        *(f"{k} = {json.dumps(v)}" for k, v in about.items()),
        *_tables(figures),
    ]
    left = [e for e in estimates if e.why is not None]
    if left:
        lines += ["", f"# Unchanged, as in {base}:"]
        lines += [f"#   {e.figure.name} = {e.figure.value}: {e.why}" for e in left]
    return "\n".join(lines) + "\n"


def _tables(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the figures by table, in order."""
    tables: dict[str, list[str]] = {}
    for f in figures:
        parts = f.name.split(".")
        table = ".".join(parts[:-1]) or "figures"
        unit = f"unit = {json.dumps(f.unit)}, " if f.unit else ""
        said = f"status = {json.dumps(f.status)}, source = {json.dumps(f.source)}"
        row = f"{parts[-1]} = {{ value = {f.value!r}, {unit}{said} }}"
        tables.setdefault(table, []).append(row)
    for table, rows in sorted(tables.items()):
        yield from ("", f"[{table}]", *rows)
