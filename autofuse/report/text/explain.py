"""What ``autofuse explain`` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from autofuse.report.text.console import printable
from autofuse.report.text.tables import bytes_text, table

__all__ = ["print_explanation"]

_US = ("us", "start", "MTE2", "vector", "MTE3", "scalar", "GM")


def print_explanation(screen: Console, found: Mapping[str, Any]) -> None:
    """Templates per group with modelled times, what was rejected, and UB of those that were taken."""
    sizes = ", ".join(f"{k}={v}" for k, v in found["sizes"].items())
    at = f" at {sizes}" if sizes else ""
    total = "no template is legal" if found["total_us"] is None else f"{found['total_us']:.2f} us"
    screen.print(f"kernel {found['name']} for {found['target']}{at}: {total} (model)", style="bold")
    screen.print(found["note"], style="yellow", soft_wrap=True)
    if found["key"] is not None:
        screen.print(f"the host function takes tiling key {found['key']} of {found['keys']}")
    several = len(found["results"]) > 1
    for r in found["results"]:
        if several:
            us = "not legal" if r["total_us"] is None else f"{r['total_us']:.2f} us (model)"
            screen.print(
                f"form {r['result']}: {us}, {'taken' if r['chosen'] else 'not taken'}", style="bold"
            )
            if r["lost"]:
                screen.print(f"not taken: form {r['result']}: {r['lost']}", style="dim")
        for g in r["groups"]:
            _print_group(screen, g, found["inputs"] if r["chosen"] else None)


def _print_group(screen: Console, group: Mapping[str, Any], inputs: Sequence[str] | None) -> None:
    """A group of a form; ``inputs``: names of the graph's, None where the form is not taken."""
    barrier = ", after a barrier of all cores" if group["barrier"] else ""
    screen.print(f"group {group['group']}{barrier}; microseconds of the model")
    out = table("", "template", "tile", "cores x tiles", *_US, "limit", right=_US)
    for t in group["templates"]:
        if t["legal"]:
            us = t["us"]
            times = (
                us["total"],
                us["start"],
                *(us[k] for k in ("mte2", "vector", "mte3", "scalar", "gm")),
            )
            cells = (
                "*" if t["chosen"] else "",
                t["template"],
                f"{t['tile_axis']} x {t['tile']}",
                f"{t['cores']} x {t['tiles_per_core']}",
                *(f"{x:.2f}" for x in times),
                t["limit"],
            )
            out.add_row(*cells)
        else:
            out.add_row("", t["template"], f"{t['tile_axis']} x -", *("-",) * 8, "-")
    screen.print(out)
    for t in group["templates"]:
        if t["lost"]:
            screen.print(printable(f"not taken: {t['template']}: {t['lost']}"), style="dim")
    for r in group["rejected"]:
        screen.print(printable(f"rejected: {r['template']}: {r['reason']}"), style="dim")
    for t in group["templates"]:
        if t["chosen"] and inputs is not None:
            _print_taken(screen, t, inputs)


def _print_taken(screen: Console, t: Mapping[str, Any], names: Sequence[str]) -> None:
    """Bound, bank conflicts and UB of the template that is taken."""
    share = t["bound_us"] / t["us"]["total"]
    screen.print(
        f"taken: {t['function']}: {t['bound_us']:.2f} us if everything overlapped ({100 * share:.0f} % of the "
        f"modelled time); {t['us']['exposed']:.2f} us not hidden",
        soft_wrap=True,
    )
    if t["two_operand_calls"]:
        screen.print(
            f"{t['without_conflict']} of {t['two_operand_calls']} calls with two tensors are free of bank conflicts"
        )
    for c in t["bank_conflicts"]:
        what = "the operands" if c["between"] == "sources" else "an operand and the result"
        screen.print(
            printable(f"bank conflict: {c['node']} ({c['op']}), between {what}: {c['reason']}"),
            style="dim",
        )
    l2 = t["l2"]
    if l2["touched_bytes"] > l2["size_bytes"]:
        inputs = ", ".join(names[i] for i in l2["bypassed_inputs"])
        which = f"loads of {inputs} bypass it" if inputs else "no load bypasses it"
        screen.print(
            f"L2: {bytes_text(l2['size_bytes'])}, the kernel touches {bytes_text(l2['touched_bytes'])}: {which}"
        )
    if t["staggered_inputs"]:
        inputs = ", ".join(names[i] for i in t["staggered_inputs"])
        screen.print(
            f"all cores read {inputs}: each starts at another step of the loop, so at other addresses"
        )
    screen.print(f"UB: {bytes_text(t['ub_bytes'])} of {bytes_text(t['ub_limit'])}")
    out = table("from", "to", "buffer", "bytes", "tensors", right=("from", "to", "bytes"))
    shown = {load: f"{load} ({names[i]})" for load, i in t["loads"].items()}
    for b in t["ub"]:
        size = b["bytes"] * b["count"]
        kind = "TQue" if b["kind"] == "queue" else "TBuf"
        out.add_row(
            f"{b['offset']:#07x}",
            f"{b['offset'] + size:#07x}",
            f"{kind} {b['id']} {b['position']}",
            f"{b['count']} x {b['bytes']}",
            printable(
                ", ".join(shown.get(x, x) for x in b["tensors"])
                or ("pad" if b["pad"] else "scratch")
            ),
        )
    screen.print(out)
