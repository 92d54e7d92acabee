"""Tables of tuning: families of settings, bottlenecks, and which family answers which."""

from __future__ import annotations

from typing import NamedTuple

from autofuse.kernelgen.defining.strategies import STRATEGIES

__all__ = [
    "BOTTLENECKS",
    "CHOICE",
    "FAMILIES",
    "Bottleneck",
    "Family",
    "document_name",
    "preferred",
    "title",
]


class Family(NamedTuple):
    """Settings that one round may change.

    Attributes:
        idea: why a change of them may help.
        moves: changes that are tried: setting -> steps up or down, powers of two; of ``stages`` each step is one.
    """

    idea: str
    moves: tuple[dict[str, int], ...]


_GRID, _BLOCKS, _WARPS = (
    "grid_config_optimization",
    "block_size_optimization",
    "warp_stage_optimization",
)
_ACCESS, CHOICE = "memory_access_optimization", "dynamic_shape_optimization"
#: By key of :data:`STRATEGIES`, in the order in which they are tried where no bottleneck says otherwise.  The reuse of
#: data follows from the graph: no setting changes it.
FAMILIES: dict[str, Family] = {
    _GRID: Family(
        "more programs, or parts of rows, keep more multiprocessors busy; fewer have less to join",
        tuple({k: s} for k in ("parts", "programs", "chunks") for s in (1, -1)),
    ),
    _BLOCKS: Family(
        "larger blocks share more of what they read, smaller ones leave registers for more programs at once",
        (
            *({k: s} for k in ("rows", "cols") for s in (1, -1)),
            {"rows": 1, "cols": -1},
            {"rows": -1, "cols": 1},
        ),
    ),
    _WARPS: Family(
        "more warps or stages have more reads under way, which hides what each has to wait",
        tuple({k: s} for k in ("warps", "stages") for s in (1, -1, 2)),
    ),
    _ACCESS: Family(
        "a block and its warps in opposite directions: how many bytes each thread reads side by side",
        (
            {"rows": 1, "warps": -1},
            {"rows": -1, "warps": 1},
            {"cols": 1, "warps": -1},
            {"cols": -1, "warps": 1},
        ),
    ),
    CHOICE: Family(
        "blocks of a kernel are left to the rules again, which look at the sizes",
        (),
    ),
}


class Bottleneck(NamedTuple):
    """A bottleneck that the model of a card names.

    Attributes:
        document: what the source document calls it; empty where it does not know it.
        families: that answer it, the most promising first.
    """

    document: str
    families: tuple[str, ...]


#: By the names that :mod:`autofuse.codegen.backends.triton.cost` gives.  Where too few programs fit at once, nothing
#: hides what each waits for: the document's latency.  Its rate of cache hits is what a profiler says, and no model.
BOTTLENECKS: dict[str, Bottleneck] = {
    "bandwidth": Bottleneck("内存带宽利用率低", (_ACCESS, _BLOCKS)),
    "L2": Bottleneck("", (_BLOCKS, _ACCESS)),
    "parallelism": Bottleneck("并行度不足", (_GRID, _BLOCKS)),
    "registers": Bottleneck("内存延迟高", (_WARPS, _BLOCKS)),
    "clusters": Bottleneck("", (_GRID, _WARPS)),
    "instructions": Bottleneck("", (_WARPS, _BLOCKS)),
    "launch": Bottleneck("", (_GRID, _BLOCKS)),
}


def title(family: str) -> str:
    """A family for people, with the source document's name for it."""
    found = STRATEGIES.get(family)
    return family if found is None else f"{found.title} ({found.chinese})"


def document_name(bottleneck: str) -> str:
    """What the source document calls a bottleneck; empty where it has no name for it."""
    found = BOTTLENECKS.get(bottleneck)
    return "" if found is None else found.document


def preferred(bottleneck: str) -> tuple[str, ...]:
    """All families, those that answer a bottleneck first."""
    found = BOTTLENECKS.get(bottleneck)
    first = () if found is None else found.families
    return (*first, *(f for f in FAMILIES if f not in first))
