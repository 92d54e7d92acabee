"""Tables of tuning: families of settings, bottlenecks, and the families that address them."""

from __future__ import annotations

from typing import NamedTuple

from autofuse.clients.kernelgen.defining.strategies import STRATEGIES
from autofuse.clients.kernelgen.state_format import Speed

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
        idea: why changing them may help.
        moves: changes to try: setting -> steps up or down, in powers of two; ``stages`` changes by one.
    """

    idea: str
    moves: tuple[dict[str, int], ...]


_GRID, _BLOCKS, _WARPS = (
    "grid_config_optimization",
    "block_size_optimization",
    "warp_stage_optimization",
)
_ACCESS, CHOICE = "memory_access_optimization", "dynamic_shape_optimization"
#: Families by key of :data:`STRATEGIES`, in the order in which they are tried unless a bottleneck decides otherwise.
#: Data reuse depends only on the graph, so no setting changes it.
FAMILIES: dict[str, Family] = {
    _GRID: Family(
        "more programs, or parts of rows, keep more multiprocessors busy; fewer have less to combine",
        tuple({k: s} for k in ("parts", "programs", "chunks") for s in (1, -1)),
    ),
    _BLOCKS: Family(
        "larger blocks share more of the data they read, smaller ones leave registers for more concurrent programs",
        (
            *({k: s} for k in ("rows", "cols") for s in (1, -1)),
            {"rows": 1, "cols": -1},
            {"rows": -1, "cols": 1},
        ),
    ),
    _WARPS: Family(
        "more warps or stages keep more reads in flight, which hides their latency",
        tuple({k: s} for k in ("warps", "stages") for s in (1, -1, 2)),
    ),
    _ACCESS: Family(
        "a block and its warps change in opposite directions: this sets how many contiguous bytes each thread reads",
        (
            {"rows": 1, "warps": -1},
            {"rows": -1, "warps": 1},
            {"cols": 1, "warps": -1},
            {"cols": -1, "warps": 1},
        ),
    ),
    CHOICE: Family(
        "blocks of a kernel go back to the default rules, which depend on the sizes",
        (),
    ),
}


class Bottleneck(NamedTuple):
    """A bottleneck named by a target's model.

    Attributes:
        document: its name in the source document; empty if it has none.
        words: description of the part that takes longest.
        families: families that address it, the most promising first.
        low: its name in the document if a figure of the times, ``figure``, is below ``least``, in %.
        figure: as above.
        least: as above.
    """

    document: str
    words: str
    families: tuple[str, ...]
    low: str = ""
    figure: str = ""
    least: float = 0.0


#: Bottlenecks by their names in :mod:`autofuse.codegen.backends.triton.cost`.  If too few programs fit at once, nothing
#: hides their stalls: the document's latency.  Its cache hit rate comes from a profiler only, not from a model.  Low
#: utilisation is reported next to its figure: the document wants 60 % of the bandwidth.
BOTTLENECKS: dict[str, Bottleneck] = {
    "bandwidth": Bottleneck(
        "内存带宽受限",
        "memory takes longest to move the bytes",
        (_ACCESS, _BLOCKS),
        "内存带宽利用率低",
        "bandwidth",
        60.0,
    ),
    "L2": Bottleneck("", "L2 takes longest to move the bytes", (_BLOCKS, _ACCESS)),
    "parallelism": Bottleneck(
        "",
        "too few programs are in flight to hide their latency",
        (_GRID, _BLOCKS),
        "并行度不足",
        "parallelism",
        60.0,
    ),
    "registers": Bottleneck(
        "内存延迟高", "too few programs fit at once to hide their latency", (_WARPS, _BLOCKS)
    ),
    "clusters": Bottleneck("", "programs wait for each other", (_GRID, _WARPS)),
    "instructions": Bottleneck("", "arithmetic takes longest", (_WARPS, _BLOCKS)),
    "launch": Bottleneck("", "starting and ending the kernel takes longest", (_GRID, _BLOCKS)),
    "latency": Bottleneck(
        "内存延迟高", "a core waits for the loads of its blocks", (_BLOCKS, _GRID)
    ),
}


def title(family: str) -> str:
    """Return the readable name of a family, with its name in the source document."""
    found = STRATEGIES.get(family)
    return family if found is None else f"{found.title} ({found.chinese})"


def document_name(bottleneck: str, speed: Speed | None = None) -> str:
    """Return the name of a bottleneck in the source document; empty if it has none.

    Args:
        bottleneck: its name here.
        speed: the figures shown with the name; None if it is shown without figures.
    """
    found = BOTTLENECKS.get(bottleneck)
    if found is None:
        return ""
    figure = getattr(speed, found.figure) if speed is not None and found.figure else None
    return found.low if figure is not None and figure.value < found.least else found.document


def preferred(bottleneck: str) -> tuple[str, ...]:
    """Return all families, those that address a bottleneck first."""
    found = BOTTLENECKS.get(bottleneck)
    first = () if found is None else found.families
    return (*first, *(f for f in FAMILIES if f not in first))
