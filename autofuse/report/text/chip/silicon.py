"""Text output of the kit for a chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autofuse.base.wording import counted, form
from autofuse.report.text.tables import table

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_contents", "print_units"]

#: Most rows of a table; the file has all of them.
_ROWS = 24


def print_contents(screen: Console, found: Mapping[str, Any]) -> None:
    """Print the contents of a bundle, as returned by ``autofuse.measure.silicon.gathered.contents``."""
    clock = f", {found['clock_mhz']} MHz" if found["clock_mhz"] else ""
    driver = f", driver {found['driver']}" if found["driver"] else ""
    fake = "a fake " if found["fake"] else ""
    screen.print(f"{fake}{found['soc']}{clock}, CANN {found['cann']}{driver}")
    screen.print(f"kernels for {found['target']}, autofuse {found['autofuse']}")
    if found["fake"]:
        screen.print("times of a fake chip are not measurements")
    for part in ("calibration", "conformance"):
        counts = ", ".join(f"{n} {state}" for state, n in sorted(found[part].items()))
        screen.print(f"{part}: {counts or 'nothing'}")
    _print_times(screen, found["timed"], fake=found["fake"])
    _print_others(screen, found["not_as_numpy"])
    screen.print(
        "The file contains the lines above, all times, and "
        f"{counted(found['elements_listed'], 'element')} that "
        f"{form(found['elements_listed'], 'differs', 'differ')} from NumPy. "
        "It does not contain host, user, paths, serial numbers, or messages of compilers or drivers."
    )


def _print_times(screen: Console, rows: Sequence[Mapping[str, Any]], *, fake: bool) -> None:
    timed = [r for r in rows if r["median_us"] is not None and r["model_us"]]
    if not timed:
        return
    timed = sorted(timed, key=lambda r: -abs(r["median_us"] / r["model_us"] - 1))
    measured = "fake us" if fake else "measured us"
    numbers = (measured, "model us", "difference")
    out = table("calibration kernel", *numbers, right=numbers)
    for r in timed[:_ROWS]:
        off = r["median_us"] / r["model_us"] - 1
        out.add_row(r["case"], f"{r['median_us']:.2f}", f"{r['model_us']:.2f}", f"{off:+.1%}")
    screen.print(out)
    if len(timed) > _ROWS:
        screen.print(f"and {counted(len(timed) - _ROWS, 'kernel')} closer to the model")


def _print_others(screen: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    out = table("differs from NumPy", "state", "wrong", "of", right=("wrong", "of"))
    for r in rows[:_ROWS]:
        out.add_row(r["case"], r["state"], str(r["wrong"]), str(r["elements"]))
    screen.print(out)
    if len(rows) > _ROWS:
        screen.print(f"and {len(rows) - _ROWS} more")


def print_units(screen: Console, units: Sequence[Mapping[str, Any]]) -> None:
    """Print the units that the kit would run."""
    out = table("what", "part", "risk", "figures of the model", right=("risk",))
    for u in units:
        out.add_row(u["name"], u["part"], str(u["risk"]), " ".join(u["figures"]))
    screen.print(out)
    screen.print(
        f"{len(units)} in this order; units of the same calibration kernel share a process"
    )
