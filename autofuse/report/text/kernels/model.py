"""Output of ``autofuse build`` and ``autofuse run`` for an ONNX model of several regions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from autofuse.base.wording import counted
from autofuse.report.text.console import printable
from autofuse.report.text.tables import bytes_text, number, print_checked, table

__all__ = ["print_model_build", "print_model_run"]

Row = Mapping[str, Any]

#: The reference that regions are compared with first.
_FIRST = "onnx.reference"
#: Most ops named per region.
_NAMED = 6
#: States from worst to best; a line for several regions shows the worst.
_STATES = ("failed", "differs", "not compared", "by reference", "ok")


def print_model_build(screen: Console, found: Row, *, verbose: bool) -> None:
    """Print regions by kernel, fallbacks by reason, files (each folder if ``verbose``), and the next command."""
    counts = found["counts"]
    took = sum(found["seconds"].values())
    screen.print(
        f"model {printable(found['name'])} for {found['target']}: {_counts(counts)}, {took:.2f} s",
        style="bold",
    )
    print_checked(screen, found)
    right = ("regions", "moved", "unfused")
    out = table("regions", "nodes", "kernel", *right[1:], right=right)
    for rows in _groups(found["regions"]):
        moved = [r["bytes"]["modelled"] for r in rows]
        out.add_row(
            str(len(rows)),
            _ops([n["op"] for n in rows[0]["nodes"]]),
            rows[0]["kernel"] or "a view",
            _sum(moved),
            _sum([r["bytes"]["unfused"] for r in rows]),
        )
    screen.print(out)
    screen.print(
        "moved: predicted by the kernel's model; unfused: every node reads its operands and writes its "
        "results once (model); symbols have typical sizes",
        style="dim",
    )
    _print_fallbacks(screen, found["fallbacks"])
    written = found["written"]
    changes = ", ".join(f"{len(written[k])} {k}" for k in written if written[k])
    screen.print(f"files in {found['folder']}: {changes}", soft_wrap=True)
    if verbose:
        screen.print(f"  {found['file']}", style="dim", soft_wrap=True)
    for k in found["kernels"] if verbose else ():
        screen.print(f"  {k['folder']}", style="dim", soft_wrap=True)
    compiled = found["compiled"]
    if compiled is not None and compiled["done"]:
        screen.print(f"compiled with {compiled['compiler']}")
    elif compiled is not None:
        screen.print(compiled["why"])
    screen.print(f"next: {found['next']}", soft_wrap=True)


def print_model_run(screen: Console, found: Row) -> None:
    """Print regions by kernel with bytes and errors, fallbacks by reason, and outputs."""
    sizes = ", ".join(f"{k}={v}" for k, v in found["symbols"].items()) or "fixed sizes"
    screen.print(
        f"{printable(found['name'])} on {found['runs_on']}: {printable(sizes)}; {_counts(found['counts'])}",
        style="bold",
    )
    if found["chosen"]:
        words = " ".join(f"--shape {shlex.quote(f'{k}={v}')}" for k, v in found["chosen"].items())
        screen.print(f"these sizes were chosen; override with: {printable(words)}", style="dim")
    right = ("regions", "moved", "unfused", "max rel")
    out = table("regions", "nodes", "kernel", *right[1:], "", right=right)
    for rows in _groups(found["regions"]):
        worst = [o["max_rel"] for r in rows for o in r["outputs"]]
        state = next(s for s in _STATES if any(r["state"] == s for r in rows))
        judges = {r["reference"] for r in rows if r.get("reference", _FIRST) != _FIRST}
        out.add_row(
            str(len(rows)),
            _ops(rows[0]["ops"]),
            rows[0]["kernel"] or "a view",
            _sum([r["bytes_moved"] for r in rows]),
            _sum([r["bytes_unfused"] for r in rows]),
            number(max(worst)) if worst else "-",
            Text.assemble(_state(state), *(f" by {j}" for j in sorted(judges))),
        )
    screen.print(out)
    screen.print(
        "moved: counted by the twin only; unfused: every node reads its operands and writes its "
        "results once (model); max rel: relative to the largest element of onnx.reference",
        style="dim",
    )
    _print_fallbacks(screen, found["fallbacks"])
    out = table("output", "dtype", "shape", "max abs", "max rel", "wrong", "", right=right)
    for o in found["outputs"]:
        shape = f"[{', '.join(map(str, o['shape']))}]"
        numbers = [number(float(o[k])) for k in ("max_abs", "max_rel")]
        state = "ok" if o["ok"] else "ill-conditioned" if o["ill_conditioned"] else "differs"
        if not o["compared"]:
            state = "not compared"
        out.add_row(
            printable(o["output"]), o["dtype"], shape, *numbers, str(o["wrong"]), _state(state)
        )
    screen.print(out)
    took = found["seconds"]
    screen.print(f"built in {took['build']:.1f} s, run and compared in {took['run']:.1f} s")
    for name in found["saved"]:
        screen.print(f"wrote {name}", soft_wrap=True)


def _print_fallbacks(screen: Console, rows: Sequence[Row]) -> None:
    if not rows:
        return
    groups: dict[tuple[str, ...], int] = {}
    for r in rows:
        by, state = r.get("reference", _FIRST), r.get("state", "not compared")
        beside = {"ok": " = onnxruntime", "differs": ", FAIL: differs from onnxruntime"}.get(
            state, ""
        )
        key = (r["op"], f"{by}{beside}", r["code"], r["reason"])
        groups[key] = groups.get(key, 0) + 1
    out = table("nodes", "left out", "run by", "code", "why", right=("nodes",))
    for (op, by, code, reason), n in sorted(groups.items(), key=lambda g: (-g[1], g[0])):
        out.add_row(str(n), printable(op), by, code, printable(reason))
    screen.print(out)


def _counts(c: Mapping[str, int]) -> str:
    views = f" and {c['inViews']} in views" if c["inViews"] else ""
    kernels = counted(c["kernels"], "kernel")
    parts = [f"{c['inKernels']} in {kernels}{views}", f"{c['fallbacks']} left out"]
    parts += [f"{c[k]} {k}" for k in ("known", "renamed", "unused") if c[k]]
    return f"{counted(c['nodes'], 'node')}, " + ", ".join(parts)


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Group regions with equal kernel and nodes, in the order of their first."""
    out: dict[tuple[str, str], list[Row]] = {}
    for r in rows:
        ops = r["ops"] if "ops" in r else [n["op"] for n in r["nodes"]]
        out.setdefault((r["kernel"] or "", " ".join(ops)), []).append(r)
    return list(out.values())


def _ops(ops: Sequence[str]) -> str:
    named = " ".join(ops[:_NAMED])
    return printable(named + (f" and {len(ops) - _NAMED} more" if len(ops) > _NAMED else ""))


def _sum(counts: Sequence[int | None]) -> str:
    known = [c for c in counts if c is not None]
    return bytes_text(sum(known)) if len(known) == len(counts) else "-"


def _state(state: str) -> Text:
    if state == "ok":
        return Text("ok", style="green")
    bad = state in ("failed", "differs")
    return Text("FAIL" if bad else state, style="bold red" if bad else "yellow")
