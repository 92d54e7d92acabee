"""Text output of ``ops``: the table of all ops, and the page of one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from autofuse.report.text.tables import table

__all__ = ["file_text", "print_op", "print_ops"]

#: Width of a terminal.
_WIDTH = 80


def print_ops(screen: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one op per line, with its aliases."""
    out = table("op", "inputs", "result")
    for r in rows:
        also = f" (also {', '.join(r['aliases'])})" if r["aliases"] else ""
        out.add_row(r["name"], _inputs(r), f"{r['formula']}{also}")
    screen.print(out)
    screen.print("Attributes, dtypes, accuracy and an example: autofuse ops NAME", style="dim")


def print_op(screen: Console, found: Mapping[str, Any]) -> None:
    """Print the page of one op."""
    screen.print(found["name"], style="bold")
    facts = table("", "", header=False)
    facts.add_row("result", found["formula"])
    facts.add_row("inputs", _inputs(found))
    if found["aliases"]:
        facts.add_row("also called", ", ".join(found["aliases"]))
    facts.add_row("accuracy", _accuracy(found["error"]))
    if found["source"]:
        facts.add_row("computed as", found["source"])
    screen.print(facts)
    screen.print()
    if found["attributes"]:
        attributes = table("attribute", "kind", "default", "meaning")
        for a in found["attributes"]:
            default = "required" if a["required"] else json.dumps(a["default"])
            attributes.add_row(a["name"], a["kind"], default, a["meaning"])
        screen.print(attributes)
    else:
        screen.print("No attributes.")
    screen.print()
    chips = found["chips"]
    dtypes = table("dtype", *(_chips(c["targets"]) for c in chips))
    for d in chips[0]["dtypes"]:
        dtypes.add_row(d, *(c["dtypes"][d] for c in chips))
    screen.print(dtypes)
    used = {w for c in chips for w in c["dtypes"].values()}
    screen.print("; ".join(f"{w}: {m}" for w, m in found["meanings"].items() if w in used))
    screen.print()
    screen.print("Example graph, for autofuse verify:", style="dim")
    screen.print(file_text(found["example"]), soft_wrap=True)


def file_text(graph: Mapping[str, Any]) -> str:
    """Return a graph file with a line for every tensor and every node."""
    parts = []
    for name, value in graph.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n    ".join(map(_object, value))
            parts.append(f"  {json.dumps(name)}: [\n    {lines}\n  ]")
        else:
            parts.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _object(value: Mapping[str, Any]) -> str:
    """Format an object on one line if short, with the attributes of a node on a second one."""
    lines = [{k: v for k, v in value.items() if k != "attrs"}]
    if len(json.dumps(lines[0])) > _WIDTH - 5:
        late = ("inputs", "outputs")
        lines = [
            {k: v for k, v in lines[0].items() if k not in late},
            {k: v for k, v in lines[0].items() if k in late},
        ]
    lines += [{"attrs": value["attrs"]}] if "attrs" in value else []
    return "{" + ",\n     ".join(json.dumps(part)[1:-1] for part in lines) + "}"


def _inputs(row: Mapping[str, Any]) -> str:
    fewest, most = row["inputs"]
    if most is None:
        return f"{fewest} or more"
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def _accuracy(error: str) -> str:
    """Return the expected error, and verify's tolerance."""
    return f"{error}; verify allows twice that" if error else "exact"


def _chips(names: Sequence[str]) -> str:
    """Return names of chips on separate lines, to keep the column narrow."""
    return "\n".join(names)
