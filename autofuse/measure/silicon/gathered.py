"""From what the kit found to a bundle, and what is in one in a few words."""

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
    """The bundle of a run.

    Args:
        units: what was to be run, in order.
        journal: what was found.
        chip: as ``Chip.to_json`` has it; of that, what a bundle has no field for is left out.
        target: that kernels were generated for.
        complete: whether this is all of the kit.
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
    """A name or a version as a bundle may have it."""
    return _ODD.sub("", text).lstrip("._-")[:32]


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Times to a nanosecond: events are no finer."""
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
