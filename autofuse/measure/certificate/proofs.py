"""Proofs about a kernel before a compiler sees it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autofuse.codegen.verification import CHECKS, GROUP_CHECKS, verify_schedule
from autofuse.implgraph.check.verify import CHECKS as IR_CHECKS
from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.results import BuildResult
from autofuse.targets import ascend_chip

__all__ = ["STATUS", "proofs"]

#: Status of these results.
STATUS = (
    "proved before compilation, with symbolic sizes, assuming that chip calls behave as documented"
)

#: Module of checks -> its subject.
_ABOUT = {
    "accumulators": "order of sums",
    "available": "calls of the chip",
    "banks": "alignment",
    "cover": "reads and writes of every core",
    "groups": "groups and barriers",
    "integers": "integers",
    "order": "queues, events, barriers",
    "pieces": "groups and barriers",
    "ranges": "memory and alignment",
    "registers": "functions on registers",
    "staggered": "order of sums",
}


def proofs(built: BuildResult) -> dict[str, Any]:
    """Return the checks of a build and their results.

    Args:
        built: a build for an Ascend chip.

    Returns:
        ``graphs`` (the number of graphs that the invariants of the IR hold for, and of these invariants),
        ``functions``, ``checks`` (a dict per check: ``check``, ``about``, ``meaning``, ``proved``, ``open``: neither
        proved nor refuted), ``refuted``, ``status``.
    """
    chip = ascend_chip(built.target)
    found = verify_schedule(built.graph, built.schedule, chip)
    opened: Counter[str] = Counter()
    refuted: list[str] = []
    for d in found:
        name = next((n.removeprefix("check ") for n in d.notes if n.startswith("check ")), "")
        opened[name] += 1
        if d.severity == "error":
            refuted.append(f"{name}: {d.message}")
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    graphs: list[HintGraph | ImplGraph] = [*(r.hint for r in built.schedule), *impls]
    broken = [d.message for g in graphs for d in verify(g)]
    checks: tuple[Any, ...] = (*GROUP_CHECKS, *CHECKS)
    return {
        "graphs": {"count": len(graphs), "invariants": len(IR_CHECKS), "broken": broken},
        "functions": len(impls),
        "checks": [_row(c, opened[c.__name__]) for c in checks],
        "refuted": refuted,
        "status": STATUS,
    }


def _row(check: Any, left: int) -> dict[str, Any]:
    module = check.__module__.rpartition(".")[2]
    words = (check.__doc__ or "").strip().splitlines()
    return {
        "check": check.__name__,
        "about": _ABOUT.get(module, module),
        "meaning": words[0].replace("``", "") if words else "",
        "proved": left == 0,
        "open": left,
    }
