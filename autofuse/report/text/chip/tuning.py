"""Text output of ``autofuse tune``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from autofuse.base.wording import counted
from autofuse.report.text.tables import table

__all__ = ["print_tuning"]

Row = Mapping[str, Any]


def print_tuning(screen: Console, found: Row) -> None:
    """Print the devices, a line per shape, and the outcome of candidates without times."""
    devices = ", ".join(d.get("device", "?") for d in found["devices"])
    screen.print(f"{found['name']} for {found['target']}, tuned on {devices}", style="bold")
    measured = found["status"] == "measured"
    if not measured:
        screen.print("all times are model predictions: nothing was measured", style="yellow")
    if any(d.get("fake") == "true" for d in found["devices"]):
        what = "the device is" if measured else "the figures come from"
        text = f"{what} a stand-in for tests: its times say nothing about a chip"
        screen.print(text, style="yellow")
    unit = "us" if measured else "us (model)"
    out = table(
        "shape", f"default {unit}", f"best {unit}", right=(f"default {unit}", f"best {unit}")
    )
    for c in found["contests"]:
        for sizes, us, default_us in zip(c["shapes"], c["us"], c["default_us"], strict=False):
            shape = ", ".join(f"{k}={v}" for k, v in sizes.items()) or "fixed"
            out.add_row(shape, f"{default_us:.2f}", f"{us:.2f}")
    if out.rows:
        screen.print(out)
    for c in found["contests"]:
        screen.print(_verdict(c), soft_wrap=True)
        for label, why in c["failed"].items():
            screen.print(f"no time: {label}: {why}", style="dim", soft_wrap=True)
        if not c["complete"]:
            screen.print("the time limit expired before all candidates were tried", style="yellow")
    screen.print(f"wrote {found['file']}", soft_wrap=True)


def _verdict(c: Row) -> str:
    tried = f"{counted(c['measured'], 'candidate')}"
    if c["best"] is None:
        return f"{tried}: none has a time; the default is kept"
    gain, noise = 100 * c["gain"], 100 * c["noise"]
    if c["winner"] is None:
        text = f"saves {gain:.1f} %, and the noise is {noise:.1f} %"
        return f"{tried}: the default is kept; the best ({c['best']}) {text}"
    return f"{tried}: {c['winner']} saves {gain:.1f} %; the noise is {noise:.1f} %"
