"""Text output of ``autofuse certify``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from autofuse.base.wording import counted
from autofuse.report.text.console import printable
from autofuse.report.text.tables import number, table

__all__ = ["CHOICES", "changes_text", "print_certificate", "proved_text", "same_bits"]

#: Repeated runs of equal inputs.
CHOICES = ("again", "in another order of the pipes", "on fewer cores", "by other templates")


def same_bits(kernel: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the choices that must not change a bit of a kernel: all if it is invariant and not edited."""
    return CHOICES if kernel["invariant"] and kernel["as_generated"] else CHOICES[:2]


def print_certificate(screen: Console, result: Mapping[str, Any]) -> None:
    """Print proofs, runs, accuracy, bits and bytes, as a line or a table each, and the files."""
    found = result["certificate"]
    kernel = found["kernel"]
    kind = "invariant kernel" if kernel["invariant"] else "kernel"
    screen.print(printable(f"{kind} {found['name']} for {kernel['target']}"), style="bold")
    if kernel["edited"]:
        screen.print(printable(f"edited: {', '.join(kernel['edited'])}"), soft_wrap=True)
    screen.print(f"proved: {proved_text(found)}", soft_wrap=True)
    runs = [r for r in found["checked"]["runs"] if r["status"] != "not applicable"]
    passed = sum(r["status"] == "passed" for r in runs)
    shapes = len(found["checked"]["shapes"])
    screen.print(
        f"checked on the twin: {passed} of {counted(len(runs), 'run')} passed, {counted(shapes, 'shape')}"
    )
    out = table(
        "grid",
        "output",
        "dtype",
        "elements",
        "max ulp",
        "wrong",
        right=("elements", "max ulp", "wrong"),
    )
    for r in found["accuracy"]["grids"]:
        if "refused" in r:
            out.add_row(r["grid"], printable(r["refused"]), "", "", "", "")
            continue
        cells = (number(r[k]) for k in ("elements", "max_ulp", "wrong"))
        out.add_row(r["grid"], printable(r["output"]), r["dtype"], *cells)
    screen.print(out)
    ratios = [r["ratio"] for r in found["traffic"]["shapes"] if r["ratio"] is not None]
    if ratios:
        screen.print(
            f"bytes over compulsory bytes: {max(ratios):.3g} at most (counted on the twin)"
        )
    screen.print(printable(f"bits of a row: {changes_text(found)}"), soft_wrap=True)
    screen.print(found["on_chip"], soft_wrap=True)
    for name in result["written"]:
        screen.print(printable(f"wrote {name}"), soft_wrap=True)


def proved_text(found: Mapping[str, Any]) -> str:
    """Return the number of checks that hold, in words."""
    rows = found["proved"]["checks"]
    held = sum(r["proved"] for r in rows)
    return f"{held} of {counted(len(rows), 'check')}, over {counted(found['proved']['functions'], 'function')}"


def changes_text(found: Mapping[str, Any]) -> str:
    """Return which sizes and choices may change the bits of a row, in words."""
    change = found["bits"]["may_change"]
    if change["sizes"] is None:
        return "not known"
    what = [f"with the sizes {', '.join(change['sizes'])}"] if change["sizes"] else []
    what += [f"with {', '.join(change['choices'])}"] if change["choices"] else []
    return f"may change {', and '.join(what)}" if what else "independent of the sizes"
