"""Text output of ``autofuse explain``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from autofuse.base.wording import counted, form
from autofuse.report.text.tables import bytes_text, print_reasons, table

__all__ = ["PARTS", "facts", "head", "held", "print_explanation", "print_kernels", "roof_words"]

Row = Mapping[str, Any]

#: Part of a template's time -> its name.
PARTS = {
    "start": "start",
    "mte2": "MTE2",
    "vector": "vector",
    "mte3": "MTE3",
    "scalar": "scalar",
    "gm": "GM",
}
#: Kind of bytes that a GPU kernel moves -> its key in JSON.
_MOVED = {"inputs": "input_bytes", "outputs": "output_bytes", "scratch": "scratch_bytes"}


def head(found: Row) -> str:
    """Return a line with kernel, chip, sizes and modelled time."""
    sizes = ", ".join(f"{k}={v}" for k, v in found["sizes"].items())
    at = f" at {sizes}" if sizes else ""
    total = "no template is legal" if found["total_us"] is None else f"{found['total_us']:.2f} us"
    return f"kernel {found['name']} for {found['target']}{at}: {total} (model)"


def print_explanation(screen: Console, found: Row) -> None:
    """Print the templates per group with modelled times, the rejected ones, and UB of the chosen ones."""
    screen.print(head(found), style="bold")
    screen.print(found["note"], style="yellow")
    if found.get("tuned") is not None:
        _print_tuned(screen, found)
    elif found["key"] is not None:
        screen.print(f"the host function chooses tiling key {found['key']} of {found['keys']}")
    if found.get("roof") is not None:
        _print_roof(screen, found["roof"])
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


def roof_words(roof: Row) -> str:
    """Return the lower bound of the time, its parts, and the ratio of the kernel's time to it, in a sentence."""
    nbytes = bytes_text(roof["read_bytes"] + roof["written_bytes"])
    return (
        f"roof: {roof['total_us']:.2f} us (model): start {roof['start_us']:.2f}, and the longer of {nbytes} over GM, "
        f"{roof['memory_us']:.2f}, and one vector call per op, {roof['vector_us']:.2f}; the kernel takes "
        f"{roof['times']:.2f} times as long"
    )


def _print_roof(screen: Console, roof: Row) -> None:
    """Print the lower bound of the time, and the causes for which the kernel takes longer."""
    parts = {
        "start": roof["start_us"],
        "GM": roof["memory_us"],
        "vector": roof["vector_us"],
        "roof": roof["total_us"],
        "kernel": roof["kernel_us"],
    }
    out = table("roof, us", *parts, "ratio", right=(*parts, "ratio"))
    nbytes = bytes_text(roof["read_bytes"] + roof["written_bytes"])
    out.add_row(f"{nbytes} once", *(f"{us:.2f}" for us in parts.values()), f"{roof['times']:.2f}")
    screen.print(out)
    rows = [x for x in roof["lost"] if abs(x["us"]) >= 0.005]
    if rows:
        out = table("over the roof", "us", "cause", right=("us",))
        for x in rows:
            out.add_row(x["cause"], f"{x['us']:.2f}", x["text"])
        screen.print(out)


def _print_tuned(screen: Console, found: Row) -> None:
    """Print the tuning file's choice beside the search's; the following output is about the latter."""
    t = found["tuned"]
    what = "; ".join(
        f"{g['template']}, tiles of {g['tile']}, {counted(g['cores'], 'core')} x {counted(g['tiles_per_core'], 'tile')}"
        for g in t["groups"]
    )
    screen.print(
        f"the tuning file {found['tuning']} covers these sizes: the host function chooses tiling key {t['key']}"
        f" of {found['keys']}, {t['total_us']:.2f} us (model): {what}",
        soft_wrap=True,
    )
    if found["key"] is not None:
        text = f"without the file: tiling key {found['key']}, {found['total_us']:.2f} us (model)"
        screen.print(text, soft_wrap=True)


def print_kernels(screen: Console, found: Row) -> None:
    """Print the kernels for a GPU: iteration space, blocks, and bytes to move of each."""
    sizes = ", ".join(f"{k}={v}" for k, v in found["sizes"].items())
    at = f" at {sizes}" if sizes else ""
    screen.print(f"{found['name']} for {found['target']}{at}", style="bold")
    out = table("kernel", "form", "rows x cols", "block", "grid", "warps", right=("grid", "warps"))
    for k in found["kernels"]:
        size, block = [k["rows"], k["cols"]], [*k["block"]]
        if k["form"] == "items":
            size, block = size[:1], block[:1]
        if k["cluster"] > 1:
            block = [k["cluster"], *block]
        out.add_row(
            k["name"],
            k["form"],
            "x".join(map(str, size)),
            "x".join(map(str, block)),
            str(k["programs"]) if k["launched"] else "none",
            str(k["warps"]),
        )
    screen.print(out)
    out = table("moved by", "passes", *_MOVED, right=("passes", *_MOVED))
    for k in found["kernels"]:
        if k["launched"]:
            moved = (bytes_text(k[key]) if k[key] else "-" for key in _MOVED.values())
            out.add_row(k["name"], str(k["passes"]), *moved)
    if out.rows:
        screen.print(out)
    times = [k for k in found["kernels"] if k["modelled_us"] is not None]
    if times:
        out = table("modelled", "us (model)", "bottleneck", right=("us (model)",))
        for k in times:
            out.add_row(k["name"], f"{k['modelled_us']:.1f}", k["bottleneck"])
        screen.print(out)
    for name, sizes_of in found["tuned"].items():
        given = ", ".join(f"{k} {v}" for k, v in sizes_of.items()) or "nothing"
        screen.print(f"{name}: the tuning file gives {given}", soft_wrap=True)
    total = f"{found['modelled_us']:.1f} us in all (model)" if times else "no modelled times"
    screen.print(f"the kernels are in {', '.join(found['files'])}; {total}")


def _print_group(screen: Console, group: Row, inputs: Sequence[str] | None) -> None:
    """Print a group of a form; ``inputs``: names of the graph's inputs, None if the form is not chosen."""
    barrier = ", after a barrier of all cores" if group["barrier"] else ""
    screen.print(f"group {group['group']}{barrier}; all times are microseconds of the model")
    rows = group["templates"]
    out = table("", "template", "tile", "cores x tiles", "us", "bottleneck", right=("us",))
    for t in rows:
        tile, cores, us = "-", "-", "-"
        if t["legal"]:
            tile, us = str(t["tile"]), f"{t['us']['total']:.2f}"
            cores = f"{t['cores']} x {t['tiles_per_core']}"
        mark = "*" if t["chosen"] else ""
        out.add_row(
            mark, t["template"], f"{t['tile_axis']} x {tile}", cores, us, t.get("limit", "-")
        )
    screen.print(out)
    out = table("", "breakdown, us", *PARTS.values(), right=tuple(PARTS.values()))
    for t in rows:
        if t["legal"]:
            times = (f"{t['us'][k]:.2f}" for k in PARTS)
            out.add_row("*" if t["chosen"] else "", t["template"], *times)
    if out.rows:
        screen.print(out)
    print_reasons(screen, "not taken", [(t["title"], t["lost"]) for t in rows if t["lost"]])
    print_reasons(screen, "rejected", [(r["title"], r["reason"]) for r in group["rejected"]])
    for t in rows:
        if t["chosen"] and inputs is not None:
            _print_taken(screen, t, inputs)


def facts(t: Row, names: Sequence[str]) -> list[str]:
    """Return facts about the chosen template: its bound, bank conflicts, L2 and cores.

    Args:
        t: the template.
        names: names of the graph's inputs.
    """
    share = 100 * t["bound_us"] / t["us"]["total"]
    out = [
        f"taken: {t['title']}: {t['bound_us']:.2f} us (model) if everything overlapped, "
        f"{share:.0f} % of its time; {t['us']['exposed']:.2f} us not overlapped"
    ]
    if t["two_operand_calls"]:
        out.append(
            f"{t['without_conflict']} of {counted(t['two_operand_calls'], 'call')} with two "
            f"tensors {form(t['without_conflict'], 'is', 'are')} free of bank conflicts"
        )
    for c in t["bank_conflicts"]:
        what = "the operands" if c["between"] == "sources" else "an operand and the result"
        out.append(f"bank conflict: {c['node']} ({c['op']}), between {what}: {c['reason']}")
    l2 = t["l2"]
    if l2["touched_bytes"] > l2["size_bytes"]:
        inputs = ", ".join(names[i] for i in l2["bypassed_inputs"])
        which = f"loads of {inputs} bypass it" if inputs else "no load bypasses it"
        out.append(
            f"L2: {bytes_text(l2['size_bytes'])}; the kernel touches {bytes_text(l2['touched_bytes'])}: {which}"
        )
    if t["staggered_inputs"]:
        inputs = ", ".join(names[i] for i in t["staggered_inputs"])
        out.append(
            f"all cores read {inputs}: each starts at a different step of the loop, so at different addresses"
        )
    return out


def _print_taken(screen: Console, t: Row, names: Sequence[str]) -> None:
    """Print bound, bank conflicts and UB of the chosen template."""
    for text in facts(t, names):
        screen.print(text)
    screen.print(f"UB: {bytes_text(t['ub_bytes'])} of {bytes_text(t['ub_limit'])}")
    out = table("from", "to", "buffer", "bytes", "holds", right=("from", "to", "bytes"))
    for b in t["ub"]:
        size = b["bytes"] * b["count"]
        kind = "TQue" if b["kind"] == "queue" else "TBuf"
        out.add_row(
            f"{b['offset']:#07x}",
            f"{b['offset'] + size:#07x}",
            f"{kind} {b['id']} {b['position']}",
            f"{b['count']} x {b['bytes']}",
            held(b),
        )
    screen.print(out)


def held(b: Row) -> str:
    """Return the names of the tensors in a buffer, and of tensors whose intermediate steps it holds."""
    whole = ", ".join(b["holds"])
    steps = f"steps of {', '.join(b['steps_of'])}" if b["steps_of"] else ""
    return " and ".join(p for p in (whole, steps) if p) or ("padding" if b["pad"] else "scratch")
