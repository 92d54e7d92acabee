"""Templates of groups with reductions.

*reduce_all*: a tile holds whole rows of all reduced axes, so GM is read once, even if results of the reduction are
combined with the data again (norms).  The tiled axis is a kept one.  If row lengths are known only at run time, a
second template with single buffering covers rows that would not fit otherwise.

*reduce*: a loop runs over the reduced axes, with an accumulator in UB.  Data combined with a result of the reduction
are read again in a further loop.  With the innermost axis tiled it is legal for every size.
"""

from __future__ import annotations

from autofuse.implgraph.division.worth import ROW
from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import AxisType, Condition, ImplGraph
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.schedule.axes.tile_limits import takes_every_size
from autofuse.schedule.axes.tiling_axes import (
    Candidate,
    GroupInput,
    Padding,
    reordered,
    with_tiles,
    with_unit_axis,
)
from autofuse.schedule.realise import Template
from autofuse.schedule.templates.family import REDUCTION, Candidates, InLoops

__all__ = ["ALL", "LOOP", "REDUCE", "Reduce", "rows_in_tile", "tiled", "whole_or_in_loops"]

ALL, LOOP = "reduce_all", "reduce"
#: Suffix of *reduce_all* with as few buffers as possible.
TIGHT = "tight"

#: Maximum candidates per kind, innermost tiled axes first.
MOST = 4
#: Rows per tile of rows that share loads: if their number is known only at run time, and at most.
SOME, MANY = 4, 8


class Reduce(InLoops):
    """Tiles that hold all reduced axes, and loops over these."""

    kinds = REDUCTION

    def candidates(self, g: GroupInput) -> Candidates:
        """Return whole rows in a tile, loops, and loops of several rows or of blocks of columns."""
        found = whole_or_in_loops(g) + _shared(g) + _blocks(g) + _apart(g)
        return [(h, c) for h, c in found if _holds_rows(h, c, g)]

    def planned(self, template: Template) -> ImplGraph:
        """Plan memory; tiles that hold all reduced axes hold whole rows."""
        if template.candidate.tight:
            return template.for_long_rows()
        whole = template.candidate.all_load or template.g.within
        return template.of_rows() if whole else template.in_tiles()

    def always_legal(self, impl: ImplGraph) -> bool:
        """Return True for a loop whose tiles may be short."""
        return impl.r_axis is not None and takes_every_size(impl.tiling)


REDUCE = Reduce()


def _holds_rows(h: GroupInput, c: Candidate, g: GroupInput) -> bool:
    """Return True if tiles of ``h``, which is ``g`` on its axes, hold whole rows and lie within a part of the rows."""
    parts = h.axes[h.order[c.position]].type is AxisType.TILE_OUT
    return not parts and set(g.within).issubset(h.order[c.position + 1 :])


def whole_or_in_loops(g: GroupInput) -> Candidates:
    """Return all-load templates, then loops."""
    whole, loops = tiled(g, ALL, LOOP)
    if any(not g.size(a).is_const for a in g.reduced) and _meets_data_again(g):
        # Row lengths are known only at run time: rows that do not fit with double buffering may fit with single.
        whole += [(h, replace(c, suffix=TIGHT, tight=True)) for h, c in whole]
    return whole + loops


def tiled(g: GroupInput, all_load: str, loop: str) -> tuple[Candidates, Candidates]:
    """Return the templates of two kinds: all reduced axes in a tile, and a loop over them."""
    kept = [p for p, a in enumerate(g.order) if a not in g.reduced]
    # An axis for the cores to share if the outermost axis is reduced.
    unit = with_unit_axis(g) if g.order[0] in g.reduced else g
    places = [(g, p) for p in reversed(kept[-MOST:])] or [(unit, 0)]
    whole = [(h, Candidate(all_load, "", p, Padding.INNERMOST, all_load=True)) for h, p in places]
    loops: Candidates = []
    for p in reversed(range(len(g.order))[-2 * MOST :]):
        reduced = g.order[p] in g.reduced
        if not reduced and not any(a in g.reduced for a in g.order[:p]):
            continue  # nothing to loop over: same as the all-load template
        inside = reduced and not any(k < p for k in kept)
        h, place = (unit, p + 1) if inside else (g, p)
        loops.append((h, Candidate(loop, "", place, Padding.INNERMOST)))
    return whole, loops


def _apart(g: GroupInput) -> Candidates:
    """Return templates in which cores also share the kept axes inside reduced ones, except an innermost one.

    As the heads in a sum over tokens of [batch, token, head, channel], or the channels of a norm of images: a tile
    holds all that belongs to some of them, or a loop runs over it.
    """
    first = next(p for p, a in enumerate(g.order) if a in g.reduced)
    inside = [a for a in g.order[first:-1] if a not in g.reduced]
    if not inside:
        return []
    rest = [a for a in g.order[first:] if a not in inside]
    moved = reordered(g, (*g.order[:first], *inside, *rest))
    last = max(p for p, a in enumerate(moved.order) if a in g.reduced)
    found = [(moved, Candidate(LOOP, "apart", last, Padding.INNERMOST))]
    if g.within:  # a tile of rows that belong to one part is a loop over these
        return found
    rows, most = product(g.size(a) for a in rest[:-1]), g.target.arch.dma_block_count_max
    whole = Candidate(
        ALL,
        "apart",
        first + len(inside) - 1,
        Padding.INNERMOST,
        all_load=True,
        # One command loads the rows of one kept element.
        conditions=() if rows.is_const else (Condition(rows, at_most=most),),
    )
    return [*found, (moved, whole)]


def _meets_data_again(g: GroupInput) -> bool:
    """Return True if a reduction's result is combined with elements along the reduced axes: a loop reads them again."""
    late: set[str] = set()
    for n in g.nodes:
        if n.op in REDUCES or not late.isdisjoint(n.inputs):
            late.add(n.name)
            if n.op not in REDUCES and not set(g.reduced).isdisjoint(n.y.varies()):
                return True
    return False


def _shared(g: GroupInput) -> Candidates:
    """Return a loop over tiles of several rows, if rows share loaded data.

    Shared data, such as the scale of a layer norm, are then loaded once for the rows of a tile.  The last tile has
    fewer rows, which requires DataCopyPad.
    """
    last = g.order[-1]
    kept = [a for a in g.order if a not in g.reduced]
    if last not in g.reduced or not kept or not g.target.arch.has_datacopypad:
        return []
    varies = [frozenset(n.y.varies()) for n in g.nodes if n.op == "Load"]
    own = any({kept[-1], last} <= v for v in varies)
    shared = any(last in v and kept[-1] not in v for v in varies)
    if not own or not shared:
        return []
    count = rows_in_tile(g.size(kept[-1]).as_int(), g.target.aiv_cores)
    if count < 2:
        return []
    cut = with_tiles(g, kept[-1], count)
    rows = cut.order[g.order.index(kept[-1]) + 1]
    candidate = Candidate(
        LOOP, f"rows_{count}", len(cut.order) - 1, Padding.EVERY_TENSOR, rows=(rows,)
    )
    return [(cut, candidate)]


def rows_in_tile(rows: int | None, cores: int) -> int:
    """Return the rows per tile, a power of two, such that every core gets some."""
    if rows is None:
        return SOME
    each = -(-rows // cores)
    return min(MANY, 1 << (each.bit_length() - 1)) if each else 1


def _blocks(g: GroupInput) -> Candidates:
    """Return loops over rows in which every tile has a block of neighbours, if rows are kept and long.

    A tile then has many rows, whatever their length, and a group of cores shares each block of columns.  The last block
    is shorter, which requires DataCopyPad.  Shorter blocks of known rows are tried as well where they leave fewer
    elements to the busiest core.
    """
    last = g.order[-1]
    size = g.size(last).as_int()
    outside = [p for p, a in enumerate(g.order[:-1]) if a in g.reduced]
    long = size is None or size > ROW + ROW // 2
    if last in g.reduced or not outside or not long or not g.target.arch.has_datacopypad:
        return []
    lengths = {ROW: None, _block_for(size, g.target.aiv_cores): None}
    return [
        (
            with_tiles(g, last, n),
            Candidate(LOOP, f"block_{n}", 1 + outside[-1], Padding.EVERY_TENSOR),
        )
        for n in lengths
    ]


def _block_for(size: int | None, cores: int) -> int:
    """Return the length of blocks for which a core has the fewest elements of a row; the longest of several."""
    if size is None:
        return ROW

    def elements(length: int) -> int:
        blocks = (size + length - 1) // length
        return (blocks + cores - 1) // cores * length

    return min((ROW, ROW // 2, ROW // 4), key=elements)
