"""Figures of the target files: each with its unit, its status and its source."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import resources
from typing import Any, TypeVar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "STATUSES",
    "Figure",
    "figure",
    "made",
    "parsed",
    "read_dtypes",
    "read_figures",
    "target_files",
]

_T = TypeVar("_T")

#: How a figure was obtained, best first.
STATUSES = ("measured", "vendor", "fitted", "modelled", "assumed")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its provenance; in ``calls`` and ``casts`` it is dtype names, in ``apis`` a release.

    Attributes:
        status: ``measured`` on silicon by the source, ``vendor`` statement, ``fitted`` by us to times measured on
            silicon (``benchmarks/model/validate_model.py``), ``modelled`` by the source, ``assumed`` by us.
    """

    name: str
    value: float | str
    unit: str
    status: str
    source: str


def read_figures(
    rows: Mapping[str, Mapping[str, Any]], prefix: str = "", units: Mapping[str, str] | None = None
) -> Iterator[Figure]:
    """Yield the figures of a table; units come from the rows, else from ``units``.

    Raises:
        ValueError: a figure has no status or no source.
    """
    for key, row in rows.items():
        yield figure(prefix + key, row["value"], row.get("unit", (units or {}).get(key, "")), row)


def read_dtypes(rows: Mapping[str, Mapping[str, Any]], prefix: str) -> Iterator[Figure]:
    """Yield the figures of a table of dtypes; ``none`` for a row without dtypes."""
    for key, row in rows.items():
        yield figure(prefix + key, " ".join(row["dtypes"]) or "none", "dtypes", row)


def figure(name: str, value: float | str, unit: str, row: Mapping[str, Any]) -> Figure:
    """Return a figure with the status and source of its row."""
    if row["status"] not in STATUSES or not row["source"]:
        raise ValueError(f"figure {name} needs a status in {STATUSES} and a source")
    return Figure(name, value, unit, row["status"], row["source"])


@lru_cache(maxsize=8)
def target_files(package: str) -> Mapping[str, str]:
    """Return the texts of the target files in a package's folder, by name."""
    return {
        f.name.removesuffix(".toml"): f.read_text(encoding="utf-8")
        for f in resources.files(package).iterdir()
        if f.name.endswith(".toml")
    }


def parsed(text: str) -> dict[str, Any]:
    """Return the tables of a target file."""
    return tomllib.loads(text)


def made(kind: type[_T], values: Mapping[str, Any], where: str) -> _T:
    """Return a dataclass made from values of the file ``where``.

    Raises:
        ValueError: a value is missing, or a field is unknown.
    """
    wanted = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    if wanted != values.keys():
        odd = ", ".join(sorted(wanted ^ values.keys()))
        raise ValueError(f"{where}: missing or unknown {odd}")
    return kind(**values)
