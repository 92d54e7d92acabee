"""Candidate block sizes for a tuner to measure, besides those of the rules; the best by the model come first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.blocks import MOST_WARPS
from autofuse.codegen.backends.triton.cost import modelled
from autofuse.codegen.backends.triton.kernels import Program
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.tuning import KernelTuning, Tuning
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.targets import GpuTarget

__all__ = ["Planned", "neighbours", "planned"]

#: Factors for each size; ``warps`` and ``stages`` take a few values of their own.
_FACTORS: Mapping[str, tuple[int, ...]] = {
    "rows": (-4, -2, 2, 4, 8),
    "cols": (-4, -2, 2, 4),
    "parts": (-2, 2),
    "programs": (-4, -2, 2, 4),
    "chunks": (-4, -2, 2, 4),
}
_STAGES = (1, 2, 3, 4)
#: Sizes changed together with warps: larger blocks need more threads.
_WITH_WARPS = ("rows", "cols", "parts")
#: Most plans per kernel; each takes milliseconds.
_MOST_TRIED = 96


@frozen
class Planned:
    """A tuning with its plan.

    Attributes:
        tuning: sizes of all kernels with tunable blocks.
        program: the plan.
        us: modelled time for each of the given sizes.
    """

    tuning: Tuning
    program: Program
    us: tuple[float, ...]


def planned(
    graph: FusionGraph,
    hint: HintGraph,
    target: GpuTarget,
    sizes: Sequence[Mapping[str, int]],
    tuning: Tuning | None = None,
) -> Planned:
    """Plan a graph with a tuning, or with the rules' blocks.

    Args:
        graph: the original graph.
        hint: its loop-level form, with unmerged axes.
        target: card of the dialect ``cuda``.
        sizes: sizes of the graph's symbols: a dict for each modelled time.
        tuning: blocks in place of the rules' choice; None for none.

    Raises:
        AutofuseError: AF3007, the tuning does not fit.
    """
    program = plan(graph, hint, target, tuning)
    us = tuple(sum(t.us for t in modelled(program, target, s)) for s in sizes)
    return Planned(Tuning.of(program, target), program, us)


def neighbours(
    start: Planned,
    kernel: str,
    hint: HintGraph,
    target: GpuTarget,
    sizes: Sequence[Mapping[str, int]],
) -> list[Planned]:
    """Return plans in which one kernel's blocks are one or two steps away, fastest by the model first.

    Args:
        start: plan to start from.
        kernel: name of the kernel.
        hint: as for :func:`planned`, as are the following.
        target: card.
        sizes: sizes of the symbols.
    """
    at = next((i for i, k in enumerate(start.tuning.kernels) if k.name == kernel), None)
    if at is None:
        return []
    own = start.tuning.kernels[at]
    found: dict[str, Planned] = {}
    for changed in _others(own.sizes):
        # Later kernels depend on this one's blocks, so their given sizes may no longer fit.
        kernels = (*start.tuning.kernels[:at], KernelTuning(kernel, changed))
        later = start.tuning.kernels[at + 1 :]
        for wanted in ((*kernels, *later), kernels):
            made = _planned(start, hint, target, sizes, wanted)
            if made is not None:
                if made.tuning != start.tuning:
                    found.setdefault(made.tuning.text(), made)
                break
    return sorted(found.values(), key=lambda p: prod(p.us))


def _planned(
    start: Planned,
    hint: HintGraph,
    target: GpuTarget,
    sizes: Sequence[Mapping[str, int]],
    kernels: tuple[KernelTuning, ...],
) -> Planned | None:
    """Return the plan with these blocks; None if they do not fit."""
    try:
        tuning = replace(start.tuning, kernels=kernels)
        return planned(start.program.graph, hint, target, sizes, tuning)
    except AutofuseError as e:
        if any(d.code != "AF3007" for d in e.diagnostics):
            raise
        return None


def _others(sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield other sizes: each changed alone, then block sizes together with warps."""
    values = {key: _values(key, sizes) for key in sizes}
    count = 0
    for key, others in values.items():
        for v in others:
            count += 1
            yield _changed(sizes, key, v)
    for key in _WITH_WARPS:
        for v, warps in product(values.get(key, ()), values.get("warps", ())):
            if count >= _MOST_TRIED:
                return
            count += 1
            yield {**_changed(sizes, key, v), "warps": warps}


def _changed(sizes: Mapping[str, int], key: str, value: int) -> dict[str, int]:
    """Change one size; if a row is divided into other parts, drop ``cols``, which follows from them."""
    kept = {k: v for k, v in sizes.items() if (key, k) != ("parts", "cols")}
    return {**kept, key: value}


def _values(key: str, sizes: Mapping[str, int]) -> list[int]:
    now = sizes[key]
    if key == "warps":
        found = {max(1, now // 4), max(1, now // 2), min(MOST_WARPS, 2 * now), min(32, 4 * now)}
    elif key == "stages":
        found = set(_STAGES)
    else:
        found = {now * f if f > 0 else now // -f for f in _FACTORS[key]}
    return sorted(v for v in found if v >= 1 and v != now)
