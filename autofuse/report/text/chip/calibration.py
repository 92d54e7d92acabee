"""Output of ``autofuse calibrate``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from autofuse.base.wording import counted
from autofuse.report.text.console import printable
from autofuse.report.text.tables import number, table

__all__ = ["print_calibration"]

Row = Mapping[str, Any]

#: Most outliers named.
_NAMED = 8


def print_calibration(screen: Console, found: Row) -> None:
    """Print fitted figures, unfitted ones with the reason, errors by kind of kernel, and the next step."""
    screen.print(
        f"{counted(found['kernels'], 'kernel')}, {counted(len(found['fitted']), 'figure')} of {found['base']} fitted, "
        f"{len(found['unchanged'])} unchanged",
        style="bold",
    )
    if found["fake"]:
        text = "fake: these times come from a simulated chip and are not measurements"
        screen.print(text, style="yellow")
    for note in found["notes"]:
        screen.print(f"note: {printable(note)}", style="yellow")
    _print_figures(screen, found)
    _print_kinds(screen, found)
    for reason, count in sorted(found["left_out"].items()):
        screen.print(f"left out: {counted(count, 'kernel')}, {reason}", style="dim")
    if found["file"] is not None:
        screen.print(f"wrote {printable(found['file'])}", soft_wrap=True)
        word = shlex.quote(found["file"])
        screen.print(f"next: autofuse explain GRAPH -t {word}", style="dim", soft_wrap=True)


def _print_figures(screen: Console, found: Row) -> None:
    right = ("was", "fitted", "+-", "change", "kernels")
    out = table("figure", *right, right=right)
    for e in found["fitted"]:
        out.add_row(
            e["name"],
            number(float(e["was"])),
            f"{e['value']:.4g}",
            _percent(e["error"]),
            f"{100 * e['change']:+.1f} %",
            str(e["kernels"]),
        )
    screen.print(out)
    some = [e for e in found["unchanged"] if e["kernels"]]
    if some:
        out = table("unchanged", "value", "status", "why", right=("value",))
        for e in some:
            out.add_row(e["name"], number(float(e["value"])), e["status"], e["why"])
        screen.print(out)
    none = [e["name"] for e in found["unchanged"] if not e["kernels"]]
    if none:
        screen.print(f"unchanged, since no kernel depends on them: {', '.join(none)}")


def _print_kinds(screen: Console, found: Row) -> None:
    right = ("kernels", "before", "after", "held out", "bias")
    out = table("|model / measured - 1|", *right, "", right=right)
    for k in found["kinds"]:
        out.add_row(
            printable(k["name"]),
            str(k["kernels"]),
            *(_percent(k[n]) for n in ("before", "after", "held_out")),
            f"{100 * k['bias']:+.1f} %",
            "*" if k["lacking"] else "",
        )
    all_of = [_percent(found["error_median"][n]) for n in ("before", "after", "held_out")]
    out.add_row("all (medians)", str(found["kernels"]), *all_of, "", "")
    screen.print(out)
    if any(k["lacking"] for k in found["kinds"]):
        text = "* the fit does not explain these times: the model lacks a cost, or a figure is unchanged"
        screen.print(text)
    outliers = found["outliers"]
    if outliers:
        named = ", ".join(f"{o['name']} {100 * o['error']:+.0f} %" for o in outliers[:_NAMED])
        more = f", and {len(outliers) - _NAMED} more" if len(outliers) > _NAMED else ""
        screen.print(f"outliers (model / measured - 1): {printable(named)}{more}")


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"
