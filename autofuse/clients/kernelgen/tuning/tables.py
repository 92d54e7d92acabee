"""Tables of tuning: families of settings, bottlenecks, and which family answers which."""

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
    """A bottleneck that the model of a target names.

    Attributes:
        document: what the source document calls it; empty where it does not know it.
        words: what takes longest.
        families: that answer it, the most promising first.
        low: what the document calls it where a figure of the times, ``figure``, is below ``least``, in %.
        figure: as above.
        least: as above.
    """

    document: str
    words: str
    families: tuple[str, ...]
    low: str = ""
    figure: str = ""
    least: float = 0.0


#: By the names that :mod:`autofuse.codegen.backends.triton.cost` gives.  Where too few programs fit at once, nothing
#: hides what each waits for: the document's latency.  Its rate of cache hits is what a profiler says, and no model.
#: That something is used too little is said beside the figure that says so: the document wants 60 % of the bandwidth.
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
        "too few programs are under way to hide what each waits for",
        (_GRID, _BLOCKS),
        "并行度不足",
        "parallelism",
        60.0,
    ),
    "registers": Bottleneck(
        "内存延迟高", "too few programs fit at once to hide what each waits for", (_WARPS, _BLOCKS)
    ),
    "clusters": Bottleneck("", "programs wait for each other", (_GRID, _WARPS)),
    "instructions": Bottleneck("", "the operations take longest", (_WARPS, _BLOCKS)),
    "launch": Bottleneck("", "the kernel starts and ends", (_GRID, _BLOCKS)),
    "latency": Bottleneck(
        "内存延迟高", "a core waits for the loads of its blocks", (_BLOCKS, _GRID)
    ),
}


def title(family: str) -> str:
    """A family for people, with the source document's name for it."""
    found = STRATEGIES.get(family)
    return family if found is None else f"{found.title} ({found.chinese})"


def document_name(bottleneck: str, speed: Speed | None = None) -> str:
    """The name of a bottleneck in the source document; empty if it has none.

    Args:
        bottleneck: its name here.
        speed: the figures that the name stands beside; None: it stands beside none.
    """
    found = BOTTLENECKS.get(bottleneck)
    if found is None:
        return ""
    figure = getattr(speed, found.figure) if speed is not None and found.figure else None
    return found.low if figure is not None and figure.value < found.least else found.document


def preferred(bottleneck: str) -> tuple[str, ...]:
    """All families, those that answer a bottleneck first."""
    found = BOTTLENECKS.get(bottleneck)
    first = () if found is None else found.families
    return (*first, *(f for f in FAMILIES if f not in first))
