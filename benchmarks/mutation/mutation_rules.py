"""Rules for mutants that are equivalent to their kernel: the only excuses for a survivor.

Each rule is an argument about one pattern and matches mutants as narrowly as possible.  Rules are applied to every
mutant; a rule that matches a killed mutant is wrong, and ``mutation.py`` reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from mutation_accumulators import (
    counts_for_nothing,
    sign_of_a_move,
    start_is_overwritten,
    start_times_zero,
)
from mutation_change import (
    Mutation,
    actual_size,
    axis_name,
    calls_of,
    change_of,
    count_change,
    dtypes_of,
    has_one_tile,
    one_step,
    statements,
    tile_lengths,
)
from mutation_memory import (
    ELEMENTWISE,
    WHOLE,
    behind_the_end,
    between_rows,
    bits_to_spare,
    scratch_above_the_least,
    scratch_that_is_not_used,
    spare_buffer,
)
from mutation_order import (
    barrier_inside,
    before_a_read,
    behind_the_only_buffer,
    for_the_scalar_unit,
    one_iteration,
    ordered_by_another_pair,
)
from mutation_registers import REGISTERS, same_values

from autofuse.codegen.backends.ascendc.emit_cpp import callee
from autofuse.codegen.ir.calls import Call, Count, EnumArg
from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    CopyIn,
    CopyOut,
    DmaDims,
    For,
    GetBuf,
    KernelFn,
    Let,
    ScalarRead,
    Stmt,
)
from autofuse.codegen.lower.names import Names
from autofuse.implgraph.expr.expression import ONE, Expr, const, sym
from autofuse.implgraph.ir.graph import AxisType, ImplGraph
from autofuse.implgraph.ops.rows.device import PICK_BYTES

__all__ = ["RULES", "Mutation", "equivalent"]

_COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or"})
_EQUALITY = frozenset({EnumArg("CMPMODE::EQ"), EnumArg("CMPMODE::NE")})


def equivalent(m: Mutation) -> str:
    """Return the name of the rule that shows the mutant to be equivalent; empty if there is none."""
    for name, (kinds, rule) in RULES.items():
        if m.kind in kinds and rule(m):
            return name
    return ""


# computation ----------------------------------------------------------------------------------
def _commutes(m: Mutation) -> bool:
    """Return True for swapped operands of a commutative call, including a comparison for equality."""
    old, new = change_of(m)
    if not isinstance(old, Call) or not isinstance(new, Call):
        return False
    return callee(old) in _COMMUTATIVE or (
        callee(old) == "Compare" and not _EQUALITY.isdisjoint(old.args)
    )


def _sign_is_lost(m: Mutation) -> bool:
    """Return True for swapped operands of a difference used only by square or magnitude: ``b - a`` is ``-(a - b)``."""
    old, new = change_of(m)
    if not isinstance(old, Call) or not isinstance(new, Call) or callee(old) != "Sub":
        return False
    names = Names(m.impl, m.fn.params)
    made = next((n for n in m.impl.nodes if names.local(n) == old.writes[0]), None)
    if made is None or made.y.dtype.kind != "f":
        return False
    users = [n for n in m.impl.nodes if made.name in n.inputs]
    squares = [n.op == "Mul" and set(n.inputs) == {made.name} for n in users]
    return bool(users) and all(s or n.op == "Abs" for s, n in zip(squares, users, strict=True))


def _step_of_one_table(m: Mutation) -> bool:
    """Return True for the step of ``PickAhead``, if one table of offsets has all elements, for all tiles.

    The offsets give the positions of elements; the step gives the start of the next table's elements.
    """
    old, new = change_of(m)
    if (
        not isinstance(old, Call)
        or not isinstance(new, Call)
        or callee(old) != "autofuse::PickAhead"
    ):
        return False
    count, *before = (a.value for a in old.args if isinstance(a, Count))
    same, *after = (a.value for a in new.args if isinstance(a, Count))
    if same != count or after[1:] != before[1:]:
        return False
    entries = PICK_BYTES // 4
    words = max(dtypes_of(m)[old.writes[0]].itemsize // 4, 1)
    lengths = tile_lengths(m.impl) if m.impl.tiling.opened.longest.is_const else set()
    most = [_elements_of_tile(m, count, t) for t in lengths]
    return bool(most) and all(n is not None and n * words <= entries for n in most)


def _elements_of_tile(m: Mutation, count: Expr, tile: int) -> int | None:
    """Return the count of a call for a tile of this length; None if it depends on more."""
    return count.substitute({actual_size(m.impl): const(tile)}).as_int()


# order ----------------------------------------------------------------------------------------
def _pitch_of_one_row(m: Mutation) -> bool:
    """Return True for the distance of rows in ``ReduceInner``, if there is one row, for all tiles.

    The function accesses row ``r`` at ``r * pitch``, and its scratch space depends on the length of a row, not on the
    distance.  An instruction for one row makes no step, so any distance works, including 0.
    """
    old, _, after = count_change(m)
    if old is None or not callee(old).startswith("autofuse::ReduceInner<"):
        return False
    new = change_of(m)[1]
    assert isinstance(new, Call)
    counts = [a.value for a in old.args if isinstance(a, Count)]
    if [a.value for a in new.args if isinstance(a, Count)] != [*counts[:2], after]:
        return False
    if counts[0] == ONE and after == counts[2] + 32:
        return True
    lengths = tile_lengths(m.impl) if m.impl.tiling.opened.longest.is_const else set()
    places = (after.substitute({m.impl.tiling.opened.symbol: const(t)}).as_int() for t in lengths)
    far = all(p is not None and p >= 0 for p in places)
    return counts[0] == ONE and bool(lengths) and far


# lengths --------------------------------------------------------------------------------------
def _no_short_tile(m: Mutation) -> bool:
    """Return True for the length of the last tile, if it is never shorter than the others.

    The tiled axis has a fixed size.  Either there is one tile and the length becomes the rest of the axis, or all tiles
    divide the axis and the length becomes that of a tile.
    """
    old, new = change_of(m)
    extent = m.impl.tiling.opened.extent.as_int()
    if not isinstance(old, Let) or not isinstance(new, Let) or extent is None:
        return False
    if old.name != actual_size(m.impl):
        return False
    if str(new.value) == m.impl.tiling.opened.symbol:
        return all(extent % t == 0 for t in tile_lengths(m.impl))
    return has_one_tile(m.impl)


def _no_short_share(m: Mutation) -> bool:
    """Return True for the tiles of the last core, if they are never fewer than those of the others.

    The number of tiles is fixed.  Without the limit per core, there is one tile.  Without the limit of the remaining
    tiles, either the number is a multiple of the tiles per core, for every such number and tile length, and no core
    runs only for another group; or there is one tile too many, which starts at the end of the axis and has no work.
    """
    old, new = change_of(m)
    spec = m.impl.tiling
    extent, outer = spec.opened.extent.as_int(), spec.outer.as_int()
    if not isinstance(old, Let) or not isinstance(new, Let) or outer is None:
        return False
    if old.name != f"{axis_name(m.impl, AxisType.BLOCK_IN)}_loop_size":
        return False
    if extent is None:
        # All tiles of a reduced axis belong to one core.
        return spec.reduce_tiles and outer == 1 and str(new.value) != spec.block_size
    counts = {
        t: spec.tiles.substitute({spec.opened.symbol: const(t)}).as_int() or 0
        for t in tile_lengths(m.impl)
    }
    if str(new.value) != spec.block_size:
        return set(counts.values()) == {1}
    if m.others is None:
        return False
    idle = outer == 1 and not spec.reduce_tiles and _idle_at_the_end(m.fn, m.impl)
    for t, n in counts.items():
        for share in range(1, n + 1):
            more = max(-(-n // share), m.others) * share - n
            if more and not (idle and more == 1 and extent % t == 0):
                return False
    return True


def _no_work(m: Mutation) -> bool:
    """Return True for an additional iteration over tiles, if there is one tile: the next one starts at the axis' end.

    Its length is 0, because a tile is as long as the axis.
    """
    old, new = change_of(m)
    if not isinstance(old, For) or not isinstance(new, For) or not calls_of(old.body):
        return False
    spec = m.impl.tiling
    one = has_one_tile(m.impl) and spec.outer.as_int() == 1 and not spec.reduce_tiles
    return one and new == replace(old, extent=old.extent + 1) and _idle_at_the_end(m.fn, m.impl)


def _no_step(m: Mutation) -> bool:
    """Return True for an additional iteration of a reduce loop over one tile: it starts at the axis' end with length 0.

    Nothing is moved or computed.  One instruction reduces a row of half or float to its maximum or minimum; it is
    documented to do nothing without lanes, so its previous result is combined once more.
    """
    old, new = change_of(m)
    spec = m.impl.tiling
    if not isinstance(old, For) or not isinstance(new, For) or not spec.reduce_tiles:
        return False
    if not has_one_tile(m.impl) or spec.reduce_outer.as_int() != 1:
        return False
    if new != replace(old, extent=old.extent + 1):
        return False
    dtypes = {s.local: s.dtype for s in statements(m.fn.body) if isinstance(s, Alloc | GetBuf)}
    parts, rest = set(), []
    for s in old.body:
        if isinstance(s, Call) and callee(s).startswith(WHOLE[1:]) and s.args[3] == Count(ONE):
            if s.args[4] != Count(sym(actual_size(m.impl))) or dtypes[s.writes[0]].kind != "f":
                return False
            parts.add(s.writes[0])
        elif not (isinstance(s, Call) and callee(s) in ("Max", "Min") and parts & set(s.reads)):
            rest.append(s)
        elif s.writes[0] not in s.reads:
            return False
    return bool(parts) and _is_idle(tuple(rest), m.impl)


def _idle_at_the_end(fn: KernelFn, impl: ImplGraph) -> bool:
    """Return True if a tile of length 0 moves and computes nothing.

    Copies of blockLen 0 or blockCount 0 and calls of these functions on 0 elements are documented to do nothing, so an
    axis of a loop of copies does not matter.
    """
    loop = fn.body[-1]
    assert isinstance(loop, For)
    return _is_idle(loop.body, impl)


def _is_idle(body: tuple[Stmt, ...], impl: ImplGraph) -> bool:
    empty = {actual_size(impl): 0}
    for s in statements(body):
        if isinstance(s, ScalarRead):
            return False
        sizes: tuple[Expr, ...]
        if isinstance(s, CopyIn | CopyOut):
            if isinstance(s.block, DmaDims):
                return False  # no dimension may be empty
            sizes = (s.block.length, s.block.count)
        elif isinstance(s, Call):
            if callee(s) not in ELEMENTWISE:
                return False
            sizes = tuple(a.value for a in s.args if isinstance(a, Count))
        else:
            continue
        if not any(e.substitute(empty) == 0 for e in sizes):
            return False
    return True


# ----------------------------------------------------------------------------------------------
_Rule: TypeAlias = Callable[[Mutation], bool]
#: Name of a rule -> the classes it applies to, and the argument.
_STARTS = (
    *("delete-start", "change-start", "early-start", "late-start"),
    *("delete-call", "change-constant", "call-count"),
)

RULES: dict[str, tuple[tuple[str, ...], _Rule]] = {
    "commutative call": (("swap-operands",), _commutes),
    "sign that is lost": (("swap-operands",), _sign_is_lost),
    "sign of a move": (("swap-operands",), sign_of_a_move),
    "initial value that is overwritten": (_STARTS, start_is_overwritten),
    "initial value times 0": (("change-start", "change-constant"), start_times_zero),
    "move that counts for nothing": (("change-start", "change-constant"), counts_for_nothing),
    "ordered by another pair": (("delete-pair", "early-pair"), ordered_by_another_pair),
    "loop that runs once": (("delete-barrier", "weaken-barrier", "early-start"), one_iteration),
    "reduce loop that runs once": (("late-start",), one_step),
    "pitch of one row": (("reduce-shape",), _pitch_of_one_row),
    "step of one table": (("call-count",), _step_of_one_table),
    "scratch space that is not used": (
        ("halve-scratch", "shrink-buffer"),
        scratch_that_is_not_used,
    ),
    "scratch space above the least": (("halve-scratch", "shrink-buffer"), scratch_above_the_least),
    "element behind the end": (("call-count", "reduce-shape"), behind_the_end),
    "bits to spare": (("call-count",), bits_to_spare),
    "element between rows": (("call-count", "reduce-shape"), between_rows),
    "no short tile": (("drop-tail",), _no_short_tile),
    "no short share": (("drop-tail",), _no_short_share),
    "tile without work": (("loop-extent",), _no_work),
    "step without work": (("loop-extent", "reduce-loop"), _no_step),
    "barrier inside a call": (("delete-barrier", "weaken-barrier"), barrier_inside),
    "barrier behind the only buffer": (
        ("delete-barrier", "weaken-barrier"),
        behind_the_only_buffer,
    ),
    "pair for the scalar unit": (("delete-pair", "early-pair"), for_the_scalar_unit),
    "pair before a read": (("early-pair",), before_a_read),
    "spare buffer of a queue": (("shrink-buffer",), spare_buffer),
    "same values in registers": (REGISTERS, same_values),
}
