"""Figures of a chip that the cost model turns into times, so that measured times can determine them."""

from __future__ import annotations

from collections.abc import Collection

from autofuse.targets import Figure, TargetSpec

__all__ = ["fitting_figures"]

#: Chip-wide figures that :func:`autofuse.schedule.cost.cost.evaluate` reads as costs.
_PLAIN = ("kernel_head_us", "sync_all")
#: Figures of the table ``model`` that describe how a core works and are not quantities.
_STRUCTURE = ("model.vector_issue", "model.vector_fused")


def fitting_figures(target: TargetSpec, keep: Collection[str] = ()) -> tuple[Figure, ...]:
    """Return the figures that a fit may change, in the order of the target file.

    It omits counts and sizes (cores, clock, L2, UB), figures that no time depends on, figures that are 0, and free
    vector calls.

    Args:
        target: the chip.
        keep: statuses whose figures stay unchanged, such as ``vendor``.
    """
    costs = (
        f for f in target.figures() if f.name.startswith(("model.", "vector.")) or f.name in _PLAIN
    )
    return tuple(
        f for f in costs if f.name not in _STRUCTURE and f.status not in keep and float(f.value) > 0
    )
