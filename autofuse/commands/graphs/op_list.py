"""``ops``: the list of all ops of graph files, or the details of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.outcome import Outcome
from autofuse.frontends.op_hints import unknown_op
from autofuse.implgraph.ops.definition import ANY, Attr, OpDef
from autofuse.implgraph.ops.registry import all_ops, find
from autofuse.report.op_support import DTYPES, MEANINGS, NONE, allowed, example, realised
from autofuse.targets import TargetSpec, load_chip, target_names

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ops"]


def ops(name: str | None) -> Outcome:
    """List all ops of graph files, or describe one, by its name or an alias.

    Raises:
        AutofuseError: AF1201, there is no such op.
    """
    from autofuse.report.text import ops as text

    if name is None:
        rows = [_row(r) for r in all_ops(user=True)]
        return Outcome({"ops": rows}, lambda screen: text.print_ops(screen, rows))
    row = find(name)
    if row is None or not row.user:
        raise AutofuseError.of("AF1201", f"the op {name!r} is not known", hint=unknown_op(name))
    found = _page(row)

    def show(screen: Console) -> None:
        text.print_op(screen, found)

    return Outcome(found, show)


def _row(row: OpDef) -> dict[str, Any]:
    """Return the table's row of an op; ``inputs`` are the fewest and the most (None: any number)."""
    fewest, most = row.arity
    return {
        "name": row.name,
        "aliases": list(row.aliases),
        "inputs": [fewest, None if most >= ANY else most],
        "formula": row.doc,
        "ulp": row.ulp,
        "absolute": row.absolute,
        "error": allowed(row),
        "attributes": [_attribute(a) for a in row.attrs],
    }


def _attribute(a: Attr) -> dict[str, Any]:
    default = list(a.default) if isinstance(a.default, tuple) else a.default
    return {
        "name": a.name,
        "kind": a.kind,
        "required": a.default is None,
        "default": default,
        "meaning": a.doc,
    }


def _page(row: OpDef) -> dict[str, Any]:
    """Return the row of an op, how each kind of chip computes each dtype, and a buildable graph file."""
    chips = []
    for same in _architectures():
        words = {d.name: realised(row, d, same[0]) for d in DTYPES}
        chips.append({"targets": [t.name for t in same], "dtypes": words})
    able = next(d for d in DTYPES if any(c["dtypes"][d.name] != NONE for c in chips))  # type: ignore[index]
    return {
        **_row(row),
        "source": row.source,
        "chips": chips,
        "meanings": MEANINGS,
        "example": example(row, able),
    }


def _architectures() -> list[list[TargetSpec]]:
    """Return the chips that kernels are generated for; chips of one architecture have the same calls."""
    same: dict[str, list[TargetSpec]] = {}
    for chip in map(load_chip, target_names()):
        same.setdefault(chip.arch.name, []).append(chip)
    return sorted(same.values(), key=lambda chips: chips[0].experimental)
