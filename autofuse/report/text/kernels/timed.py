"""Text output of ``autofuse run --trace``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from autofuse.base.wording import counted
from autofuse.report.text.console import printable
from autofuse.report.text.tables import bytes_text, table

__all__ = ["print_timed"]

_RIGHT = ("busy us", "cycles", "use", "bytes", "commands")
_SHOWN = 5


def print_timed(screen: Console, found: Mapping[str, Any]) -> None:
    """Print the pipes of the slowest core, and the breakdown of its time."""
    screen.print(
        f"modelled time on {found['target']}: {found['total_us']:.2f} us, including "
        f"{found['start_us']:.2f} us start",
        style="bold",
    )
    screen.print(found["note"], style="yellow")
    core = next(c for c in found["cores"] if c["core"] == found["slowest"])
    if found["active_cores"]:
        sampled = ", ".join(map(str, found["sampled"]))
        screen.print(
            f"core {core['core']}, the slowest of {len(found['sampled'])} recorded ({sampled}) of "
            f"{found['active_cores']}"
        )
    else:
        screen.print("no core has any work")
    out = table("pipe", *_RIGHT, "waits for, us", right=_RIGHT)
    for name, p in core["pipes"].items():
        stalls = ", ".join(f"{k} {v:.2f}" for k, v in p["stalls_us"].items())
        out.add_row(
            name,
            f"{p['us']:.2f}",
            f"{p['cycles']:.0f}",
            f"{100 * p['utilisation']:.0f} %",
            bytes_text(p["bytes"]),
            str(p["commands"]),
            stalls or "-",
        )
    screen.print(out)
    screen.print(f"critical path, us (model): {_path(found)}")
    l2, banks = found["l2"], found["conflicts"]
    screen.print(
        f"L2 hits: {100 * l2['hit_rate']:.1f} % of the loads; bank conflicts: "
        f"{banks['calls'] - banks['without']} of {counted(banks['calls'], 'vector call')} with operands in UB"
    )
    if found["cut"]:
        screen.print(
            f"core {', '.join(map(str, found['cut']))} executed more than was recorded: its numbers are "
            "extrapolated from its first instructions by the bytes moved",
            style="yellow",
        )
    if found["unpriced"]:
        names = ", ".join(found["unpriced"])
        screen.print(f"counted as unary, since the vector table has no row for them: {names}")


def _path(found: Mapping[str, Any]) -> str:
    """Return the largest parts of the critical path: nodes on their pipes over all groups, and waits."""
    spent: Counter[str] = Counter()
    for p in found["critical_path"]["parts"]:
        spent[f"{printable(found['nodes'][p['node']]['node'])} on {p['pipe']}"] += p["us"]
    for cause, us in found["critical_path"]["waits_us"].items():
        spent[f"waiting for {cause}"] += us
    parts = [f"{what} {us:.2f}" for what, us in spent.most_common()]
    more = f", {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more or "-"
