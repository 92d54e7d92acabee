"""The op registry: all rows of ``rows/``, by name and by alias.

Lowering and legalisation introduce the rows of ``device`` and ``bits``; users write the others.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from autofuse.implgraph.ops.definition import Call, OpDef
from autofuse.implgraph.ops.rows import (
    activations,
    bessel,
    bits,
    device,
    elementwise,
    gamma,
    integers,
    math,
    movement,
    reductions,
    special,
)
from autofuse.targets import Architecture

__all__ = [
    "Registry",
    "all_ops",
    "call_of",
    "find",
    "find_call",
    "is_many_calls",
    "lookup",
    "suggest",
]


@dataclass(frozen=True, slots=True)
class Registry:
    """Rows by name and by alias."""

    rows: Mapping[str, OpDef]
    aliases: Mapping[str, str]

    @classmethod
    def of(cls, rows: Iterable[OpDef]) -> Registry:
        """Return a registry of rows; ValueError if a name or alias occurs twice."""
        named: dict[str, OpDef] = {}
        aliases: dict[str, str] = {}
        for row in rows:
            for name in (row.name, *row.aliases):
                if name in named or name in aliases:
                    raise ValueError(f"op {name!r} is registered twice")
            named[row.name] = row
            aliases.update(dict.fromkeys(row.aliases, row.name))
        return cls(named, aliases)


#: In the order of the documents: ops that users write come first.
_MODULES = (
    elementwise,
    math,
    integers,
    activations,
    special,
    bessel,
    gamma,
    reductions,
    movement,
    device,
    bits,
)
#: Minimum similarity for suggesting another name: "Sort" is not "Sqrt", "MatMul" is not "Mul".
_ALIKE = 0.8
_REGISTRY = Registry.of(row for m in _MODULES for row in m.ROWS)


def find(name: str) -> OpDef | None:
    """Return the row called ``name`` (registry name or alias), or None."""
    known = _REGISTRY
    return known.rows.get(name) or known.rows.get(known.aliases.get(name, ""))


@lru_cache(maxsize=1024)
def lookup(name: str) -> OpDef:
    """Return the row called ``name``; raise KeyError for an unknown name."""
    row = _REGISTRY.rows.get(name) or find(name)
    if row is None:
        raise KeyError(f"unknown op {name!r}")
    return row


@lru_cache(maxsize=1024)
def find_call(op: str, arch: Architecture) -> Call | None:
    """Return the call of an op, with the dtypes supported on an architecture; None if it has no such call."""
    call = lookup(op).call
    if call is None or call.api in arch.lacks:
        return None
    taken = dict(arch.calls).get(op)
    if taken is None:
        return call
    as_type = {have: to for have, to in call.as_type.items() if have in taken}
    return replace(call, dtypes=call.dtypes & taken, as_type=as_type) if taken else None


def call_of(op: str, arch: Architecture) -> Call:
    """Return the call of an op on an architecture; KeyError if it has none."""
    call = find_call(op, arch)
    if call is None:
        raise KeyError(f"architecture {arch.name} has no call for {op}")
    return call


@lru_cache(maxsize=1024)
def is_many_calls(op: str) -> bool:
    """Return True if an op calls a device function: many chip calls, at addresses that depend on sizes."""
    call = lookup(op).call
    return call is not None and call.style == "device"


def all_ops(*, user: bool | None = None) -> list[OpDef]:
    """Return all rows in the order of registration; ``user`` filters on :attr:`OpDef.user`."""
    return [r for r in _REGISTRY.rows.values() if user is None or r.user is user]


def suggest(name: str) -> str | None:
    """Return the user op whose name is closest to ``name``, for "did you mean"."""
    known = _REGISTRY
    names: Iterable[str] = [r.name for r in known.rows.values() if r.user] + list(known.aliases)
    lower = {n.lower(): n for n in names}
    hits = difflib.get_close_matches(name.lower(), list(lower), n=3, cutoff=_ALIKE)
    # Among similarly close names, prefer a common prefix.
    best = next((h for h in hits if h[:1] == name[:1].lower()), hits[0] if hits else "")
    return lower.get(best)
