"""Checks that a template fits UB, with or without a memory plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autofuse.base.wording import Wording, counted, listed
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import BufferPlan, Node, TilingSpec
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tile_limits import smallest_tile
from autofuse.schedule.memory.memory_plan import buffer_title, least_memory
from autofuse.schedule.placement.placement import Placed
from autofuse.targets import TargetSpec

__all__ = ["check_budget", "exceeds_budget"]


def exceeds_budget(
    placed: Placed, spec: TilingSpec, symbols: Sequence[Symbol], target: TargetSpec
) -> bool:
    """Return True if no plan can fit: live tensors exceed UB, or the number of buffers, even for the smallest tile.

    Args:
        placed: the nodes of a template on its split axes.
        spec: its tiling; the UB sum in it is ignored.
        symbols: symbols of the graph.
        target: the chip.
    """
    env = {s.name: max(s.min, 1) for s in symbols}
    env[spec.opened.symbol] = tile = smallest_tile(spec, env)
    nodes = (*placed.hoisted, *placed.looped)
    longest = tile * spec.row_elements.evaluate(env) * max(n.y.dtype.itemsize for n in nodes)
    # Usually not even all tensors together exceed it, as long as none has its own padding.
    if len(nodes) * longest <= spec.ub_limit and len(nodes) <= target.arch.buffers_total:
        return False
    buffers, used = least_memory(placed, target, env)
    return used > spec.ub_limit or buffers > target.arch.buffers_total


def check_budget(
    spec: TilingSpec,
    buffers: Sequence[BufferPlan],
    nodes: Iterable[Node],
    symbols: Sequence[Symbol],
) -> None:
    """Check that the smallest legal tile fits UB at the smallest sizes of the symbols.

    With double buffering, a symbolic axis is assumed to be long: if one granule of it does not fit, single buffering is
    better.

    Raises:
        TemplateRejectedError: it does not fit; the message lists every buffer and the tile that would fit.
    """
    env = {s.name: max(s.min, 1) for s in symbols}
    if spec.opened.most is not None and spec.opened.most.evaluate(env) < 1:
        raise TemplateRejectedError(
            Wording(
                "one tile needs more rows than a DMA command moves: {} tiles fit in a command",
                spec.opened.most,
            )
        )
    double = any(b.buf_num > 1 for b in buffers)
    tile = spec.opened.granule if symbols and double else smallest_tile(spec, env)
    env[spec.opened.symbol] = tile
    used = spec.ub.evaluate(env)
    if used <= spec.ub_limit:
        return
    named = {n.name: n for n in nodes}
    lines = listed([_buffer_line(b, named, env) for b in buffers])
    env[spec.opened.symbol] = 0
    fits = next((t for t in range(tile, 0, -1) if _bytes_at(spec, env, t) <= spec.ub_limit), 0)
    raise TemplateRejectedError(
        Wording(
            "the smallest tile, {}, needs {} of UB, but {} are usable ({})",
            tile,
            counted(used, "byte"),
            spec.ub_limit,
            f"a tile of {fits} would fit" if fits else "not even a tile of 1 fits",
        ),
        "AF3003",
        lines,
    )


def _bytes_at(spec: TilingSpec, env: dict[str, int], tile: int) -> int:
    return spec.ub.evaluate({**env, spec.opened.symbol: tile})


def _buffer_line(b: BufferPlan, nodes: Mapping[str, Node], env: dict[str, int]) -> Wording:
    nbytes = counted(b.nbytes.evaluate(env), "byte")
    return Wording("{} {} x {}", buffer_title(b, nodes), b.buf_num, nbytes)
