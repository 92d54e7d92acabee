"""Turns the kit's results into a bundle, and summarises a bundle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from autofuse import __version__
from autofuse.measure.calibration.bundle import SCHEMA, Bundle
from autofuse.measure.silicon.journal import Journal
from autofuse.measure.silicon.units import Unit
from autofuse.targets import TargetSpec

__all__ = ["bundle_of", "contents"]

_ODD = re.compile(r"[^0-9A-Za-z._-]")


def bundle_of(
    units: Sequence[Unit],
    journal: Journal,
    chip: Mapping[str, Any],
    target: TargetSpec,
    *,
    complete: bool,
) -> Bundle:
    """Return the bundle of a run.

    Args:
        units: the planned units, in order.
        journal: the results.
        chip: as from ``Chip.to_json``; entries without a field in a bundle are dropped.
        target: the target of the kernels.
        complete: True if the whole kit ran.
    """
    rows: dict[str, list[dict[str, Any]]] = {"calibration": [], "conformance": []}
    for unit in units:
        rows[unit.part] += [_rounded(r) for r in journal.rows.get(unit.name, [])]
    driver, clock = _plain(chip["driver"]), chip["clock_mhz"]
    return Bundle.model_validate(
        {
            "schema": SCHEMA,
            "autofuse": __version__,
            "fake": bool(chip["is_fake"]),
            "target": target.name,
            "chip": {
                "soc": _plain(chip["soc"]) or "unknown",
                **({"clock_mhz": clock} if clock else {}),
                **({"driver": driver} if driver else {}),
            },
            "cann": _plain(chip["cann"]) or "unknown",
            "complete": complete,
            **rows,
        }
    )


def _plain(text: str) -> str:
    """Return a name or a version in the alphabet of a bundle."""
    return _ODD.sub("", text).lstrip("._-")[:32]


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Round times to a nanosecond, the resolution of events."""
    out = dict(row)
    if "times_us" in row:
        out["times_us"] = [max(round(t, 3), 0.001) for t in row["times_us"]]
    if row.get("model_us") is not None:
        out["model_us"] = round(row["model_us"], 3)
    return out


def contents(bundle: Bundle) -> dict[str, Any]:
    """Return the contents of a bundle, ready for JSON, for deciding whether to write or send it."""
    timed = [
        {
            "case": r.case,
            "state": r.state,
            "repeats": len(r.times_us),
            "median_us": median(r.times_us) if r.times_us else None,
            "model_us": r.model_us,
        }
        for r in bundle.calibration
    ]
    return {
        "target": bundle.target,
        "fake": bundle.fake,
        "soc": bundle.chip.soc,
        "clock_mhz": bundle.chip.clock_mhz,
        "driver": bundle.chip.driver,
        "cann": bundle.cann,
        "autofuse": bundle.autofuse,
        "complete": bundle.complete,
        "calibration": dict(Counter(r.state for r in bundle.calibration)),
        "conformance": dict(Counter(r.state for r in bundle.conformance)),
        "elements_listed": sum(len(r.differences) for r in bundle.conformance),
        "timed": timed,
        "not_as_numpy": [
            {"case": r.case, "state": r.state, "wrong": r.wrong, "elements": r.elements}
            for r in bundle.conformance
            if r.state not in ("equal", "within")
        ],
    }
