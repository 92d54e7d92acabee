"""Text output of ``autofuse build`` and ``autofuse show``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from autofuse.base.wording import counted
from autofuse.report.losses import WARNED
from autofuse.report.text.console import printable
from autofuse.report.text.fitting import Fitted
from autofuse.report.text.tables import bytes_text, number, print_checked, print_reasons, table

__all__ = ["print_build", "print_builds", "print_files", "print_graph_summary", "print_split"]


def print_build(screen: Console, found: Mapping[str, Any], *, verbose: bool) -> None:
    """Print kernel, templates with tiling keys and UB, files (each by name if ``verbose``), and the next command.

    A module of Triton kernels has no templates.
    """
    keys = {r["key"] for r in found["templates"]}
    count = f"{counted(len(keys), 'tiling key')}, " if keys else ""
    took = sum(found["seconds"].values())
    screen.print(f"kernel {found['name']} for {found['target']}: {count}{took:.2f} s", style="bold")
    print_checked(screen, found)
    if keys:
        _print_templates(screen, found, verbose)
    print_files(screen, found, verbose)


def print_split(screen: Console, found: Mapping[str, Any], *, verbose: bool) -> None:
    """Print cuts, every kernel with its templates, tensors passed between kernels, files, and the next command."""
    parts = found["parts"]
    took = sum(found["seconds"].values())
    screen.print(
        f"{found['name']} for {found['target']}: {counted(len(parts), 'kernel')} and a driver, {took:.2f} s",
        style="bold",
    )
    print_checked(screen, found)
    cuts = [f"after node {n}" for n in found["cut_after"]]
    for k, part in enumerate(parts):
        makes = sum(p["maker"] == k for p in found["passed"])
        screen.print(
            printable(f"kernel {part['name']}, passes on {counted(makes, 'tensor')}")
            + (printable(f", cut {cuts[k]}") if k < len(cuts) else ""),
            style="bold",
        )
        _print_templates(screen, part, verbose)
    print_files(screen, found, verbose)


def print_builds(screen: Console, found: Mapping[str, Any]) -> None:
    """Print the failures of many graphs, then counts."""
    rows = found["graphs"]
    failed = [r for r in rows if r["state"] == "failed"]
    if failed:
        out = table("failed", "codes", "first finding")
        for r in failed:
            first = r["diagnostics"][0]["message"]
            out.add_row(printable(r["graph"]), " ".join(r["codes"]), printable(first))
        screen.print(out)
    counts = [f"{n} {state}" for state, n in found["counts"].items() if n or state == "built"]
    screen.print(", ".join(counts), style="bold")
    built = [r for r in rows if r["state"] == "built"]
    keys, parts = sum(r["keys"] for r in built), sum(r["parts"] for r in built)
    took = sum(r["seconds"] for r in built)
    compiled = sum(r["compiled"] for r in built)
    how = f"{compiled} compiled" if compiled else "generated, not compiled"
    count = f" with {counted(keys, 'tiling key')}" if keys else ""
    screen.print(
        f"{counted(parts, 'kernel')}{count} in {printable(found['folder'])}, {took:.2f} s: {how}",
        soft_wrap=True,
    )


def _print_templates(screen: Console, found: Mapping[str, Any], verbose: bool) -> None:
    screen.print(_template_table(found["templates"]))
    for r in found["templates"] if verbose else ():
        screen.print(f"key {r['key']} calls {r['function']}", style="dim", soft_wrap=True)
    print_reasons(screen, "rejected", [(r["title"], r["reason"]) for r in found["rejected"]])
    roof = found.get("roof")
    if roof is not None and roof["times"] > WARNED:
        worst = roof["lost"][0]
        screen.print(
            f"warning: {roof['kernel_us']:.1f} us, {roof['times']:.1f} times the roof of its graph (model), mostly by "
            f"{worst['cause']}: {worst['text']}; see docs/guides/fast_graphs.md",
            style="yellow",
        )


def print_files(screen: Console, found: Mapping[str, Any], verbose: bool) -> None:
    """Print the written files (by name if ``verbose``), the compilation, and the next command."""
    written = found["written"]
    changes = ", ".join(f"{len(written[k])} {k}" for k in written if written[k])
    screen.print(f"files in {found['folder']}: {changes}", soft_wrap=True)
    for name in sorted(found["files"], key=_reading_order) if verbose else ():
        screen.print(f"  {name}", style="dim", soft_wrap=True)
    compiled = found["compiled"]
    if compiled["done"]:
        screen.print(f"compiled with {compiled['compiler']} into {compiled['folder']}")
    else:
        screen.print(compiled["why"])
    screen.print(f"next: {found['next']}", soft_wrap=True)


def _reading_order(path: str) -> tuple[int, str]:
    """Sort files: the kernel first, then tiling and call, descriptions, and build files."""
    if path.startswith("device/"):
        return -1, path
    kinds = ("_tiling.cpp", "_tiling_data.h", "_launch.cpp", ".cpp", ".json")
    if path.startswith(("include/", "CMake")):
        return len(kinds) + path.startswith("include/"), path
    return next((k for k, end in enumerate(kinds) if path.endswith(end)), len(kinds)), path


def _template_table(rows: Sequence[Mapping[str, Any]]) -> Fitted:
    """Return a table with a line per tiling key and group."""
    groups = ("group",) if len({r["group"] for r in rows}) > 1 else ()
    limits = {r["ub_limit"] for r in rows}
    room = f"UB of {bytes_text(max(limits))}" if len(limits) == 1 else "UB"
    out = table("key", *groups, "template", "tile", room, "only if", right=("key", "group", "tile"))
    for r in rows:
        used = "does not fit"
        if r["ub_bytes"] is not None:
            share = f"{100 * r['ub_bytes'] / r['ub_limit']:.0f} %"
            whole = "" if len(limits) == 1 else f" of {bytes_text(r['ub_limit'])}"
            used = f"{bytes_text(r['ub_bytes'])}{whole} ({share})"
        out.add_row(
            str(r["key"]),
            *([str(r["group"])] if groups else []),
            r["template"],
            f"{r['tile_axis']} x {number(r['tile'])}",
            used,
            "; ".join(r["conditions"]).replace("needs ", "") or "always",
        )
    return out


def print_graph_summary(screen: Console, found: Mapping[str, Any]) -> None:
    """Print parameters, symbols and ops of a graph."""
    ops = ", ".join(f"{n} {op}" for op, n in found["ops"].items())
    screen.print(f"graph {found['name']}: {ops or 'no ops'}", style="bold")
    rows = table("", "name", "dtype", "shape")
    for kind in ("inputs", "outputs"):
        for t in found[kind]:
            note = f"{kind[:-1]}, in place of {t['inout']}" if t.get("inout") else kind[:-1]
            rows.add_row(note, printable(t["name"]), t["dtype"], f"[{', '.join(t['shape'])}]")
    screen.print(rows)
    for s in found["symbols"]:
        hint = f", typically {s['hint']}" if s["hint"] is not None else ""
        screen.print(f"{s['name']}: {s['min']} to {s['max']}{hint}")
