"""Output of ``bench`` and ``import-msprof``: measured times beside those of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from autofuse.base.wording import counted, form
from autofuse.report.text.tables import table

__all__ = ["print_bench", "print_import", "times_text"]

#: Note on times of a device that stands in for a chip.
FAKE = "fake device: these times test autofuse and are not measurements of a chip"


#: Note on times of a card that runs a chip's kernel.
STANDS_IN = (
    "GPU us: times of an NVIDIA card that runs the kernel of an Ascend chip; they say nothing about the speed of "
    "a chip"
)


def times_text(us: float | None) -> str:
    """Format microseconds for a table: four digits."""
    return "-" if us is None else f"{us:.4g}"


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{k}={v}" for k, v in sizes.items()) or "fixed"


def print_bench(screen: Console, found: Mapping[str, Any]) -> None:
    """Print the rows of ``bench``."""
    status = "fake us" if found["fake"] else "GPU us" if found["stands_in"] else "measured us"
    out = table(
        "graph", "sizes", status, "least", "spread", "model us", "model/measured", "state",
        right=(status, "least", "spread", "model us", "model/measured"),
    )  # fmt: skip
    for r in found["rows"]:
        ratio = r["modelled_over_measured"]
        state = r["state"]
        out.add_row(
            r["name"] + (" (edited)" if r["edited"] else ""),
            _sizes_text(r["sizes"]),
            times_text(r["measured_us"]),
            times_text(r["least_us"]),
            times_text(r["spread_us"]),
            times_text(r["modelled_us"]),
            "-" if ratio is None else f"{ratio:.2f}",
            "fake" if state == "measured" and r["record"]["device"]["fake"] else state,
        )
    for r in found["not_built"]:
        out.add_row(r["graph"], "", "-", "-", "-", "-", "-", "not built")
    screen.print(out)
    for chip in found["chips"]:
        screen.print(f"device: {_chip_text(chip)}")
    if found["chips"]:
        l2 = "cleared before each call" if found["l2"] == "clear" else "warm from the previous call"
        screen.print(
            f"{'fake' if found['fake'] else 'measured'}: median of {counted(found['repeats'], 'sample')}, after "
            f"{counted(found['warm_up'], 'call')}; L2 {l2}; spread: interquartile range",
            style="dim",
        )
        screen.print("model: time predicted by the cost model, not measured", style="dim")
    counters = [r for r in found["rows"] if r["record"] and r["record"]["counters"]]
    if counters:
        _print_counters(screen, counters)
    if found["fake"]:
        screen.print(FAKE, style="bold")
    if found["stands_in"]:
        screen.print(STANDS_IN, style="bold")
    if found["out"]:
        screen.print(f"added to {found['out']}", soft_wrap=True)


def _print_counters(screen: Console, rows: list[Mapping[str, Any]]) -> None:
    names = list(dict.fromkeys(n for r in rows for n in r["record"]["counters"]))
    shown = [n for n in names if n.endswith("_ratio")] or names
    out = table("counter", *(f"{r['name']} {_sizes_text(r['sizes'])}" for r in rows[:4]))
    for name in shown[:24]:
        cells = (r["record"]["counters"].get(name) for r in rows[:4])
        out.add_row(name, *("-" if c is None else f"{c:.4g}" for c in cells))
    screen.print(out)


def _chip_text(chip: Mapping[str, Any]) -> str:
    words = [chip["chip"] + (", a fake" if chip["fake"] else "")]
    if chip["driver"]:
        words.append(f"driver {chip['driver']}")
    if chip["cann"]:
        words.append(f"CANN {chip['cann']}")
    words += [f"{k} {v:g} MHz" for k, v in chip["clocks_mhz"].items()]
    words += [f"{k} {v}" for k, v in chip["versions"].items()]
    return ", ".join(words)


def print_import(screen: Console, found: Mapping[str, Any]) -> None:
    """Print the rows of ``import-msprof``."""
    out = table(
        "kernel", "sizes", "calls", "measured us", "model us", "graph",
        right=("calls", "measured us", "model us"),
    )  # fmt: skip
    for r in found["rows"]:
        out.add_row(
            r["name"],
            _sizes_text(r["sizes"]) if r["graph"] else "not known",
            str(r["samples"]),
            times_text(r["measured_us"]),
            times_text(r["modelled_us"]),
            r["graph"] or "not given",
        )
    screen.print(out)
    screen.print(
        f"{counted(found['taken'], 'row')} of {found['total']} "
        f"{form(found['taken'], 'is', 'are')} of autofuse kernels; "
        f"{counted(found['left'], 'row')} of others {form(found['left'], 'was', 'were')} skipped",
    )
    if found["fake"]:
        screen.print(FAKE, style="bold")
    if found["out"]:
        screen.print(f"added to {found['out']}", soft_wrap=True)
