"""Text output of ``autofuse run`` and ``autofuse verify``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rich.console import Console
from rich.text import Text

from autofuse.base.wording import counted, form
from autofuse.report.text.console import printable
from autofuse.report.text.kernels.timed import print_timed
from autofuse.report.text.tables import number, table

__all__ = ["print_run", "print_verify"]

_STYLES = {"passed": "green", "failed": "bold red", "not supported yet": "yellow"}
_ERRORS = ("max abs", "max rel", "max ulp", "wrong")

Row = Mapping[str, Any]


def print_run(screen: Console, found: Row) -> None:
    """Print one run: sizes, tiling key and cores if there are any, errors."""
    sizes = ", ".join(f"{k}={v}" for k, v in found["symbols"].items()) or "fixed sizes"
    where = ""
    if found["keys"]:
        where = (
            f", tiling key {found['key']} of {found['keys']}, {counted(found['block_dim'], 'core')}"
        )
    if found["parts"] > 1:
        where = f", {counted(found['parts'], 'kernel')}{where}"
    screen.print(f"{found['name']} on {found['runs_on']}: {sizes}{where}", style="bold")
    places = _places(found["outputs"])
    out = table("output", "dtype", "shape", *_ERRORS, *places, "", right=_ERRORS)
    for r in found["outputs"]:
        shape = f"[{', '.join(map(str, r['shape']))}]"
        out.add_row(r["output"], r["dtype"], shape, *_errors(r, places), _mark(r["ok"]))
    screen.print(out)
    if found.get("timed"):
        print_timed(screen, found["timed"])
    for name in found["saved"]:
        screen.print(f"wrote {name}", soft_wrap=True)


def print_verify(screen: Console, found: Row) -> None:
    """Print a table of errors for one graph or a few, a summary for many."""
    rows = found["graphs"]
    if len(rows) <= 5:
        for r in rows:
            _print_graph(screen, r)
    else:
        _print_failures(screen, rows)
    counts = found["counts"]
    line = Text()
    for state, n in counts.items():
        if n or state == "passed":
            line.append(f"{', ' if line else ''}{n} {state}", style=_STYLES[state] if n else "")
    screen.print(line)
    shrunk = [r for r in rows if r["shrunk"]]
    if shrunk and len(rows) > 5:
        screen.print(
            f"{len(shrunk)} of them, with tensors above {found['max_elements']} elements, "
            f"{form(len(shrunk), 'was', 'were')} shrunk first",
            style="dim",
        )
    same = sum(r["same_as"] is not None for r in rows)
    if same:
        screen.print(
            f"{same} of them {form(same, 'is', 'are')} equal to another one except for names: built, and "
            "verified with it",
            style="dim",
        )
    doubtful = sum(any(d["code"] == "AF6003" for d in r["diagnostics"]) for r in rows)
    if doubtful:
        screen.print(
            f"{doubtful} {form(doubtful, 'says', 'are')} inconclusive: the reference is ill-conditioned (AF6003)"
        )


def _print_graph(screen: Console, r: Row) -> None:
    name = printable(PurePath(r["graph"]).name)
    head = Text(f"{name}: ", style="bold")
    head.append(r["state"], style=_STYLES[r["state"]])
    if r["cases"]:
        keys = f" over {counted(r['keys'], 'tiling key')}" if r["keys"] else ""
        if r["parts"] > 1:
            keys += f" of {counted(r['parts'], 'kernel')}"
        head.append(f", {counted(r['cases'], 'run')}{keys}, {r['seconds']:.1f} s", style="")
    screen.print(head)
    if any(r["shapes"]):
        sizes = (" ".join(f"{k}={n}" for k, n in s.items()) for s in r["shapes"])
        screen.print(printable(f"ran with {', '.join(sizes)}"))
    if r["same_as"] is not None:
        screen.print(f"equal to {printable(r['same_as'])} except for names, and verified with it")
    if r["shrunk"]:
        screen.print(
            f"shrunk: its largest tensor has {counted(r['shrunk']['from'], 'element')}, this run used "
            f"{r['shrunk']['to']} (the pattern of broadcasts and the alignment of rows are kept)"
        )
    if r["outputs"]:
        places = _places(r["outputs"])
        out = table("output", "elements", "runs", *_ERRORS, *places, "", right=_ERRORS)
        for o in r["outputs"]:
            ok = not (o["wrong"] or o["unwritten"])
            elements, cases = str(o["elements"]), str(o["cases"])
            out.add_row(o["output"], elements, cases, *_errors(o, places), _mark(ok))
        screen.print(out)


def _print_failures(screen: Console, rows: Sequence[Row]) -> None:
    failed = [r for r in rows if r["state"] == "failed"]
    if failed:
        out = table("failed", "codes", "first finding")
        for r in failed:
            first = next((d["message"] for d in r["diagnostics"]), "")
            out.add_row(printable(r["graph"]), " ".join(r["codes"]), printable(first))
        screen.print(out)


def _places(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the column for the first wrong element, if there is one."""
    return ("first wrong",) if any(r["first"] is not None for r in rows) else ()


def _errors(o: Row, places: Sequence[str]) -> list[str]:
    first = f"[{', '.join(map(str, o['first']))}]" if o["first"] is not None else "-"
    values = [number(float(o[k])) for k in ("max_abs", "max_rel", "max_ulp")]
    return [*values, str(o["wrong"] + o["unwritten"]), *(first for _ in places)]


def _mark(ok: bool) -> Text:
    return Text("ok", style="green") if ok else Text("FAIL", style="bold red")
