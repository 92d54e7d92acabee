"""Whether a template fits UB: by its memory plan, or before it has one."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import BufferPlan, TilingSpec
from autofuse.schedule.axes.rejection import TemplateRejectedError
from autofuse.schedule.axes.tile_limits import smallest_tile
from autofuse.schedule.memory.memory_plan import buffer_title, least_memory
from autofuse.schedule.placement.placement import Placed
from autofuse.targets import TargetSpec

__all__ = ["check_budget", "exceeds_budget"]


def exceeds_budget(
    placed: Placed, spec: TilingSpec, symbols: Sequence[Symbol], target: TargetSpec
) -> bool:
    """Whether what is alive at one time exceeds UB with the smallest tile, or all buffers, so that no plan can fit.

    Args:
        placed: the nodes of a template on its split axes.
        spec: its tiling; the UB sum in it is not looked at.
        symbols: of the graph.
        target: the chip.
    """
    env = {s.name: max(s.min, 1) for s in symbols}
    env[spec.tile_size] = tile = smallest_tile(spec, env)
    nodes = (*placed.hoisted, *placed.looped)
    longest = tile * spec.row_elements.evaluate(env) * max(n.y.dtype.itemsize for n in nodes)
    # Most often not even all tensors at one time would exceed it, as long as none has padding of its own.
    if len(nodes) * longest <= spec.ub_limit and len(nodes) <= target.arch.buffers_total:
        return False
    buffers, used = least_memory(placed, target, env)
    return used > spec.ub_limit or buffers > target.arch.buffers_total


def check_budget(
    spec: TilingSpec, buffers: Sequence[BufferPlan], symbols: Sequence[Symbol]
) -> None:
    """The smallest legal tile must fit UB, at the smallest sizes that symbols may have.

    With two buffers per queue, a symbolic axis is taken as long: where one granule of it does not fit, single buffers
    do better.

    Raises:
        TemplateRejectedError: it does not; the message names every buffer, and the tile that would fit.
    """
    env = {s.name: max(s.min, 1) for s in symbols}
    if spec.tile_max is not None and spec.tile_max.evaluate(env) < 1:
        raise TemplateRejectedError(
            f"one tile takes more rows than a DMA command moves: {spec.tile_max} tiles of them fit"
        )
    double = any(b.buf_num > 1 for b in buffers)
    tile = spec.granule if symbols and double else smallest_tile(spec, env)
    env[spec.tile_size] = tile
    used = spec.ub.evaluate(env)
    if used <= spec.ub_limit:
        return
    lines = "; ".join(_buffer_line(b, env) for b in buffers)
    env[spec.tile_size] = 0
    fits = next((t for t in range(tile, 0, -1) if _bytes_at(spec, env, t) <= spec.ub_limit), 0)
    raise TemplateRejectedError(
        f"the smallest tile, {tile}, needs {used} bytes of UB and {spec.ub_limit} are usable "
        f"({f'a tile of {fits} would fit' if fits else 'not even a tile of 1 fits'})",
        "AF3003",
        lines,
    )


def _bytes_at(spec: TilingSpec, env: dict[str, int], tile: int) -> int:
    return spec.ub.evaluate({**env, spec.tile_size: tile})


def _buffer_line(b: BufferPlan, env: dict[str, int]) -> str:
    return f"{buffer_title(b)} {b.buf_num} x {b.nbytes.evaluate(env)} bytes"
