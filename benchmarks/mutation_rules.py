"""Mutants that mean the same as the kernel they come from: the only rules by which a survivor is excused.

Each rule is an argument about one pattern and names the mutants it takes as narrowly as it can.  Rules are asked about
every mutant; one that holds for a mutant which something kills is wrong, and ``mutation.py`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from mutation_change import (
    Mutation,
    actual_size,
    axis_name,
    calls_of,
    change_of,
    count_change,
    has_one_tile,
    one_step,
    statements,
    tile_lengths,
)
from mutation_order import (
    barrier_inside,
    before_a_read,
    for_the_scalar_unit,
    one_iteration,
    ordered_by_another_pair,
)

from autofuse.codegen.kernel_ir import (
    Alloc,
    Call,
    CopyIn,
    CopyOut,
    Count,
    EnumArg,
    For,
    Free,
    GetBuf,
    InitBuffer,
    KernelFn,
    Let,
    ScalarRead,
    Stmt,
)
from autofuse.codegen.verification.model import Kernel
from autofuse.codegen.verification.ranges import calls_cover_the_tile, calls_fit_their_buffers
from autofuse.implgraph.expr import ONE, ZERO, Expr, const, sym
from autofuse.implgraph.graph import AxisType, ImplGraph

__all__ = ["RULES", "Mutation", "equivalent"]

_COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or"})
_EQUALITY = frozenset({EnumArg("CMPMODE::EQ"), EnumArg("CMPMODE::NE")})
#: Calls that compute every element from the elements at its place, or from a scalar.
_ELEMENTWISE = frozenset(
    {"Abs", "Add", "Adds", "Cast", "Div", "Duplicate", "Exp", "Ln", "Max", "Maxs", "Min", "Mins"}
    | {"Mul", "Muls", "Reciprocal", "Relu", "Rsqrt", "Sqrt", "Sub"}
)
#: Reductions that the chip has for a row of half or float.
_WHOLE = tuple(f"autofuse::ReduceInner<autofuse::{op}Of>" for op in ("Sum", "Max", "Min"))


def equivalent(m: Mutation) -> str:
    """The name of the rule that shows the mutant to mean the same; empty if there is none."""
    for name, (kinds, rule) in RULES.items():
        if m.kind in kinds and rule(m):
            return name
    return ""


# computation ----------------------------------------------------------------------------------
def _commutes(m: Mutation) -> bool:
    """The operands of a call that takes them in either order; a comparison does if it asks whether they are equal."""
    old, new = change_of(m)
    if not isinstance(old, Call) or not isinstance(new, Call):
        return False
    return old.api in _COMMUTATIVE or (old.api == "Compare" and not _EQUALITY.isdisjoint(old.args))


# order ----------------------------------------------------------------------------------------
def _pitch_of_one_row(m: Mutation) -> bool:
    """The distance of rows in ``ReduceInner``, where there is one row, whatever the tile.

    The function goes to row ``r`` at ``r * pitch`` and has scratch space by the length of a row, not by the distance.
    """
    old, _, after = count_change(m)
    if old is None or not old.api.startswith("autofuse::ReduceInner<"):
        return False
    new = change_of(m)[1]
    assert isinstance(new, Call)
    counts = [a.value for a in old.args if isinstance(a, Count)]
    if [a.value for a in new.args if isinstance(a, Count)] != [*counts[:2], after]:
        return False
    if counts[0] == ONE and after == counts[2] + 32:
        return True
    lengths = tile_lengths(m.impl) if m.impl.tiling.longest.is_const else set()
    places = (after.substitute({m.impl.tiling.tile_size: const(t)}).as_int() for t in lengths)
    far = all(p is not None and p > 0 for p in places)
    return counts[0] == ONE and bool(lengths) and far


def _scratch_of_short_rows(m: Mutation) -> bool:
    """Scratch space of ``ReduceInner`` where a row is at most 256 bytes, whatever the tile.

    The chip reduces such a row of half or float to its sum, maximum or minimum in one instruction: nothing is folded.
    """
    old, new = change_of(m)
    if not isinstance(old, InitBuffer) or not isinstance(new, InitBuffer) or new.buf_num:
        return False
    if any(not old.api.startswith(_WHOLE) for old in _scratched(m, old.name)):
        return False
    longest = m.impl.tiling.longest.as_int()
    if longest is None or new.nbytes == ZERO:
        return False
    tile = dict.fromkeys((actual_size(m.impl), m.impl.tiling.tile_size), longest)
    size = {s.local: s.dtype for s in statements(m.fn.body) if isinstance(s, Alloc | GetBuf)}
    for call in _scratched(m, old.name):
        n = [a.value for a in call.args if isinstance(a, Count)][1].substitute(tile).as_int()
        dtype = size[call.writes[0]]
        if n is None or dtype.kind != "f" or n * dtype.itemsize > 256:
            return False
    here = {s.local for s in statements(m.fn.body) if isinstance(s, GetBuf) and s.buf == old.name}
    used = {x for c in calls_of(m.fn.body) for x in (*c.writes, *c.reads)} & here
    return used <= {c.writes[1] for c in _scratched(m, old.name)}


def _scratched(m: Mutation, buffer: str) -> list[Call]:
    """The calls that have scratch space in a buffer."""
    here = {s.local for s in statements(m.fn.body) if isinstance(s, GetBuf) and s.buf == buffer}
    return [c for c in calls_of(m.fn.body) if not here.isdisjoint(c.writes[1:])]


# lengths --------------------------------------------------------------------------------------
def _behind_the_end(m: Mutation) -> bool:
    """One element more, for which every operand has room in its buffer, whatever the tile.

    A buffer holds one tensor at a time, from its start, so behind the end of a tensor are no data.  Calls compute the
    elements of a tensor from elements of tensors, and copies to GM leave out what is behind the end: nobody sees it.
    ``TransposeRows`` of one matrix makes a column more into a row behind the others.
    ``BroadcastInner`` with a row more makes the others as before; with a longer row it does if there is one row.
    """
    old, before, after = count_change(m)
    if old is None or after != before + 1:
        return False
    new = change_of(m)[1]
    touched: tuple[str, ...] = (*old.reads, *old.writes)
    if old.api == "autofuse::BroadcastInner":
        rows, _ = (a.value for a in old.args if isinstance(a, Count))
        if rows not in (before, ONE):
            return False
        # Of a row that is longer, the result alone; a row more has to fit as a whole.
        touched = () if rows == before else old.writes[:1]
    elif old.api == "autofuse::TransposeRows":
        counts = [a.value for a in old.args if isinstance(a, Count)]
        changed = (
            [a.value for a in new.args if isinstance(a, Count)] if isinstance(new, Call) else []
        )
        if counts[0] != ONE or changed != [*counts[:2], after, *counts[3:]]:
            return False
        touched = ()
    elif old.api not in _ELEMENTWISE:
        return False
    if touched and _end_in_their_last_block(m, touched, before):
        return True
    return not list(calls_fit_their_buffers(_kernel(m)))


def _end_in_their_last_block(m: Mutation, tensors: tuple[str, ...], count: Expr) -> bool:
    """All are one tile of fixed length, or one element, and have room for another one in their last 32 bytes."""
    spec = m.impl.tiling
    extent, longest = spec.extent.as_int(), spec.longest.as_int()
    tile: dict[str, int] = {}
    if extent is not None and longest is not None and has_one_tile(m.impl):
        tile = {actual_size(m.impl): extent, spec.tile_size: longest}
    n = count.substitute(tile).as_int()
    if n is None:
        return False
    size = {
        s.local: s.dtype.itemsize for s in statements(m.fn.body) if isinstance(s, Alloc | GetBuf)
    }
    return all(n * size[x] % 32 for x in tensors)


def _bits_to_spare(m: Mutation) -> bool:
    """A word less of a mask, where the words that are left have a bit for every element, whatever the tile."""
    old, before, after = count_change(m)
    if old is None or old.api not in ("And", "Or", "Not") or after != before - 1:
        return False
    made = next((n for n in m.impl.nodes if f"{n.name}_local" == old.writes[0]), None)
    if made is None or made.y.dtype.kind != "m":
        return False
    return not list(calls_cover_the_tile(_kernel(m)))


def _kernel(m: Mutation) -> Kernel:
    return Kernel(m.mutant, m.impl, None, m.target)


def _between_rows(m: Mutation) -> bool:
    """One element less, where rows are padded and the last element is padding behind the last row.

    The call computes whole rows, so the element that is left out is the last one of a row; the row of its result is
    shorter than the distance to the next one.
    """
    old, before, after = count_change(m)
    if old is None or old.api not in _ELEMENTWISE or after != before - 1:
        return False
    made = next((n for n in m.impl.nodes if f"{n.name}_local" == old.writes[0]), None)
    if made is None or len(made.y.vectorized_axis) < 2 or made.y.vectorized_strides[-1] != 1:
        return False
    sizes = {a.id: a.size.as_int() for a in m.impl.axes}
    row, pitch = sizes[made.y.vectorized_axis[-1]], made.y.vectorized_strides[-2].as_int()
    outer = math.prod(sizes[a] or 0 for a in made.y.vectorized_axis[1:-1])
    if row is None or pitch is None or row >= pitch or not outer:
        return False
    first = made.y.vectorized_axis[0]
    lengths = [const(sizes[first] or 0)]
    if first == m.impl.tile(AxisType.TILE_IN).id:
        lengths = [sym(actual_size(m.impl)), sym(m.impl.tiling.tile_size)]
    return before in [rows * outer * pitch for rows in lengths]


def _no_short_tile(m: Mutation) -> bool:
    """The length of the last tile, where it is never less than that of the others.

    The tiled axis has a fixed size.  There is one tile and the length becomes what is left of the axis, or all tiles
    divide the axis and the length becomes that of a tile.
    """
    old, new = change_of(m)
    extent = m.impl.tiling.extent.as_int()
    if not isinstance(old, Let) or not isinstance(new, Let) or extent is None:
        return False
    if old.name != actual_size(m.impl):
        return False
    if str(new.value) == m.impl.tiling.tile_size:
        return all(extent % t == 0 for t in tile_lengths(m.impl))
    return has_one_tile(m.impl)


def _no_short_share(m: Mutation) -> bool:
    """The tiles of the last core, where they are never fewer than those of the others.

    The number of tiles is fixed.  Without the limit that a core takes, there is one tile.  Without the limit that
    tiles are left, the number is a multiple of what a core takes, however much that is and however long the tiles, and
    no core comes for the sake of another group; or there is one tile too many, which starts at the end of the axis and
    has no work.
    """
    old, new = change_of(m)
    spec = m.impl.tiling
    extent, outer = spec.extent.as_int(), spec.outer.as_int()
    if not isinstance(old, Let) or not isinstance(new, Let) or extent is None or outer is None:
        return False
    if old.name != f"{axis_name(m.impl, AxisType.BLOCK_IN)}_loop_size":
        return False
    counts = {
        t: spec.tiles.substitute({spec.tile_size: const(t)}).as_int() or 0
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
    """An iteration more of the loop over tiles, where there is one tile: the next one starts at the end of the axis.

    Its length is 0, for a tile is as long as the axis.
    """
    old, new = change_of(m)
    if not isinstance(old, For) or not isinstance(new, For) or not calls_of(old.body):
        return False
    spec = m.impl.tiling
    one = has_one_tile(m.impl) and spec.outer.as_int() == 1 and not spec.reduce_tiles
    return one and new == replace(old, extent=old.extent + 1) and _idle_at_the_end(m.fn, m.impl)


def _no_step(m: Mutation) -> bool:
    """An iteration more of a reduce loop over one tile: the next one starts at the end of the axis, its length is 0.

    Nothing is moved and nothing computed.  A row of half or float is reduced to its maximum or minimum by one
    instruction, which is documented to do nothing without lanes; its result is as before, and joined once more.
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
        if isinstance(s, Call) and s.api.startswith(_WHOLE[1:]) and s.args[3] == Count(ONE):
            if s.args[4] != Count(sym(actual_size(m.impl))) or dtypes[s.writes[0]].kind != "f":
                return False
            parts.add(s.writes[0])
        elif not (isinstance(s, Call) and s.api in ("Max", "Min") and parts & set(s.reads)):
            rest.append(s)
        elif s.writes[0] not in s.reads:
            return False
    return bool(parts) and _is_idle(tuple(rest), m.impl)


def _idle_at_the_end(fn: KernelFn, impl: ImplGraph) -> bool:
    """A tile of length 0 moves nothing and computes nothing.

    Copies of blockLen 0 or blockCount 0 and calls of these functions on 0 elements are documented to do nothing; an
    axis that a loop of copies runs over does not matter then.
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
            sizes = (s.block.length, s.block.count)
        elif isinstance(s, Call):
            if s.api not in _ELEMENTWISE:
                return False
            sizes = tuple(a.value for a in s.args if isinstance(a, Count))
        else:
            continue
        if not any(e.substitute(empty) == 0 for e in sizes):
            return False
    return True


def _spare_buffer(m: Mutation) -> bool:
    """A queue keeps a buffer for each tensor that is out at one time.

    The second buffer of a queue only lets the next iteration begin earlier: every tensor is freed in the iteration
    that took it, so fewer buffers make AllocTensor wait and nothing else.
    """
    old, new = change_of(m)
    if not isinstance(old, InitBuffer) or not isinstance(new, InitBuffer):
        return False
    if new.nbytes != old.nbytes or new.buf_num != old.buf_num - 1:
        return False
    most = _most_out(m.fn.body, old.name, 0)
    return most is not None and 0 < most <= new.buf_num


def _most_out(body: tuple[Stmt, ...], queue: str, before: int) -> int | None:
    """Most tensors of a queue that are out at one time, of which ``before`` from the start; None: some stay out."""
    most, out = before, set[str]()
    for s in body:
        if isinstance(s, For):
            inside = _most_out(s.body, queue, before + len(out))
            if inside is None:
                return None
            most = max(most, inside)
        elif isinstance(s, Alloc) and s.queue == queue:
            out.add(s.local)
            most = max(most, before + len(out))
        elif isinstance(s, Free) and s.queue == queue:
            out.discard(s.local)
    return None if out else most


# ----------------------------------------------------------------------------------------------
_Rule: TypeAlias = Callable[[Mutation], bool]
#: Name of a rule -> the classes it is asked about, and the argument.
RULES: dict[str, tuple[tuple[str, ...], _Rule]] = {
    "commutative call": (("swap-operands",), _commutes),
    "ordered by another pair": (("delete-pair", "early-pair"), ordered_by_another_pair),
    "loop that runs once": (("delete-barrier", "weaken-barrier", "early-start"), one_iteration),
    "reduce loop that runs once": (("late-start",), one_step),
    "pitch of one row": (("reduce-shape",), _pitch_of_one_row),
    "scratch space of short rows": (("halve-scratch", "shrink-buffer"), _scratch_of_short_rows),
    "element behind the end": (("call-count",), _behind_the_end),
    "bits to spare": (("call-count",), _bits_to_spare),
    "element between rows": (("call-count",), _between_rows),
    "no short tile": (("drop-tail",), _no_short_tile),
    "no short share": (("drop-tail",), _no_short_share),
    "tile without work": (("loop-extent",), _no_work),
    "step without work": (("loop-extent", "reduce-loop"), _no_step),
    "barrier inside a call": (("delete-barrier", "weaken-barrier"), barrier_inside),
    "pair for the scalar unit": (("delete-pair", "early-pair"), for_the_scalar_unit),
    "pair before a read": (("early-pair",), before_a_read),
    "spare buffer of a queue": (("shrink-buffer",), _spare_buffer),
}
