"""Text output of the verbs, from the dict that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from autofuse.report.text.fitting import Fitted

__all__ = [
    "bytes_text",
    "number",
    "print_checked",
    "print_cpus",
    "print_doctor",
    "print_gpus",
    "print_knobs",
    "print_reasons",
    "print_target",
    "print_targets",
    "table",
]

Row = Mapping[str, Any]


def table(*columns: str, right: Sequence[str] = (), header: bool = True) -> Fitted:
    """Return an empty table without lines; the columns in ``right`` hold numbers."""
    return Fitted(columns, right, header)


def number(value: object) -> str:
    """Format a number for a table: short, and exact if it is an integer."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def bytes_text(count: int) -> str:
    """Format a number of bytes in the most readable unit."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def print_reasons(screen: Console, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print templates that are not chosen or were rejected, with the reason."""
    out = table(title, "why")
    for name, reason in rows:
        out.add_row(name, reason)
    if rows:
        screen.print(out)


def print_targets(screen: Console, rows: Sequence[Row]) -> None:
    """Print the chips, one per line."""
    out = table(
        "target", "chip", "cores", "UB", "clock", "GM", "status",
        right=("cores", "UB", "clock", "GM"),
    )  # fmt: skip
    for r in rows:
        out.add_row(
            str(r["name"]),
            str(r["soc"]),
            number(r["aiv_cores"]),
            bytes_text(int(r["ub_bytes"])),
            f"{r['clock_mhz']} MHz",
            f"{r['gm_bandwidth_gbs']:g} GB/s",
            _state(r),
        )
    screen.print(out)
    _print_checked(screen, rows)


def print_gpus(screen: Console, rows: Sequence[Row]) -> None:
    """Print the targets of Triton kernels, one per line."""
    out = table(
        "Triton target", "dialect", "cores", "clock", "L2", "copy", "status",
        right=("cores", "clock", "L2", "copy"),
    )  # fmt: skip
    for r in rows:
        out.add_row(
            str(r["name"]),
            str(r["dialect"]),
            number(r["multiprocessors"]),
            f"{r['clock_mhz']} MHz",
            bytes_text(int(r["l2_bytes"])),
            f"{r['copy_gbs']:g} GB/s",
            _state(r),
        )
    screen.print(out)
    _print_checked(screen, rows)


def print_cpus(screen: Console, rows: Sequence[Row]) -> None:
    """Print the targets of C++ loops, one per line."""
    out = table(
        "CPU target", "cores", "vector", "cache of a core", right=("vector", "cache of a core")
    )
    for r in rows:
        cores = number(r["cores"]) if r["cores"] else "all"
        out.add_row(
            str(r["name"]), cores, f"{r['simd_bytes']} B", bytes_text(int(r["cache_bytes"]))
        )
    screen.print(out)
    _print_checked(screen, rows)


def _state(row: Row) -> str:
    return "experimental" if row["experimental"] else ""


def _print_checked(screen: Console, rows: Sequence[Row]) -> None:
    """Print how the kernels of targets were checked; targets with the same answer share a line."""
    for text in dict.fromkeys(r["checked"] for r in rows):
        names = [str(r["name"]) for r in rows if r["checked"] == text]
        screen.print(f"{', '.join(names)}: {text}", style="dim")


def print_checked(screen: Console, found: Row) -> None:
    """Print how kernels of an experimental target were checked; nothing for other targets."""
    if found["experimental"]:
        text = f"{found['target']} is experimental: {found['checked']}"
        screen.print(text, style="yellow", soft_wrap=True)


def print_target(screen: Console, row: Row) -> None:
    """Print every figure of a chip, of a target of Triton kernels, or of a CPU."""
    if "soc" in row:
        kind = f"{row['soc']}, {row['npu_arch']}"
    else:
        kind = f"Triton, {row['dialect']}" if "dialect" in row else "C++"
    screen.print(f"{row['name']} ({kind})", style="bold")
    screen.print(f"{'experimental: ' if row['experimental'] else ''}{row['checked']}")
    out = table("figure", "value", "status", "source")
    for f in row["figures"]:
        value = f["value"] if isinstance(f["value"], str) else f"{f['value']:,.10g}"
        out.add_row(f["name"], f"{value} {f['unit']}".rstrip(), f["status"], f["source"])
    screen.print(out)


def print_doctor(screen: Console, rows: Sequence[Row]) -> None:
    """Print the found parts, and hints for missing ones."""
    marks = {
        "ok": Text("ok", style="green"),
        "missing": Text("missing", style="bold red"),
        "broken": Text("broken", style="bold red"),
        "optional": Text("not found", style="yellow"),
    }
    out = table("", "what", "found")
    for r in rows:
        out.add_row(marks[r["status"]], r["what"], str(r["found"]))
    screen.print(out)
    for r in rows:
        if r["hint"]:
            screen.print(f"{r['what']}: {r['hint']}", style="dim")


def print_knobs(screen: Console, rows: Sequence[Row]) -> None:
    """Print the environment variables."""
    out = table("variable", "value", "default", "meaning")
    for r in rows:
        style = "bold" if r["set"] else ""
        out.add_row(Text(r["name"], style=style), r["value"], r["default"], r["doc"])
    screen.print(out)
