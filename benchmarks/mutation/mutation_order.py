"""Rules about the order of pipes: pairs, flags and barriers whose work something else does."""

from __future__ import annotations

from dataclasses import replace

from mutation_change import (
    Mutation,
    actual_size,
    blocks_of,
    calls_of,
    dtypes_of,
    one_step,
    one_turn,
    reads_of,
    statements,
    tile_lengths,
    writes_of,
)

from autofuse.codegen.backends.ascendc.emit_cpp import callee
from autofuse.codegen.ir.calls import Call, Count
from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    Barrier,
    Comment,
    CopyIn,
    CopyOut,
    DeQue,
    EnQue,
    For,
    Free,
    GetBuf,
    IndexRead,
    InitBuffer,
    KernelFn,
    QueueDecl,
    ScalarRead,
    Stmt,
    Sync,
)
from autofuse.codegen.passes.barriers import InsertBarriers
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.graph import ImplGraph, Position

__all__ = [
    "barrier_inside",
    "before_a_read",
    "behind_the_only_buffer",
    "for_the_scalar_unit",
    "one_iteration",
    "ordered_by_another_pair",
]

_TRANSPOSE = "autofuse::TransposeRows"
_FOLDS = ("autofuse::ReduceInner<", "autofuse::ReduceOuter<")


def ordered_by_another_pair(m: Mutation) -> bool:
    """EnQue and DeQue of a tensor, where a pair of another queue between the same pipes does their work.

    A pipe sets flags in order, each when all it was given before is done.  So if the other EnQue stands behind the
    last write of this tensor, and the other DeQue before its first read, the reading pipe has waited for this tensor.
    """
    pipes = {s.name: (s.copy, s.position) for s in m.fn.body if isinstance(s, QueueDecl)}
    for before, after in zip(blocks_of(m.fn.body), blocks_of(m.mutant.body), strict=False):
        if before == after:
            continue
        for pair in [s for s in before if isinstance(s, EnQue)]:
            if _without(before, pair) != _without(after, pair):
                continue
            written, read = _span(before, pair.local, pipes[pair.queue])
            return any(
                isinstance(s, EnQue)
                and s != pair
                and pipes[s.queue] == pipes[pair.queue]
                and written < i
                and _dequeued(before, i, s) < read
                for i, s in enumerate(before)
            )
    return False


def _without(block: tuple[Stmt, ...], pair: EnQue) -> list[Stmt]:
    return [
        s
        for s in block
        if not (isinstance(s, EnQue | DeQue) and s.local == pair.local and s.queue == pair.queue)
    ]


def _dequeued(block: tuple[Stmt, ...], i: int, pair: EnQue) -> int:
    places = range(i, len(block))
    of = DeQue(pair.local, pair.queue, pair.dtype)
    return next((k for k in places if block[k] == of), len(block))


def _span(block: tuple[Stmt, ...], local: str, queue: tuple[bool, Position]) -> tuple[int, int]:
    """The places of the last write to a tensor, and of the first read on the other side of its queue."""
    copy, position = queue
    loaded = copy or position is Position.VECIN
    stored = copy or position is Position.VECOUT
    written, read = len(block), len(block)
    for i, s in enumerate(block):
        for x in statements((s,)):
            if isinstance(x, CopyIn if loaded else Call) and local in writes_of(x):
                written = i
            elif isinstance(
                x, CopyOut if stored else Call | ScalarRead | IndexRead
            ) and local in reads_of(x):
                read = min(read, i)
    return written, read


def one_iteration(m: Mutation) -> bool:
    """A barrier between the iterations of a loop that runs once: over the tiles of a core, or over what is reduced.

    So is the initial value of an accumulator that is written before the loop over tiles.  Written without such loops,
    the calls need no barrier that the mutant does not have.
    """
    tiles, steps = one_turn(m.impl), one_step(m)
    if m.kind == "early-start":  # before the only iteration, or in it
        return tiles
    return (tiles or steps) and _needs_no_barrier(m, m.mutant, tiles, steps)


def barrier_inside(m: Mutation) -> bool:
    """A barrier beside a call of ours that has one inside, whatever the tile.

    ``ReduceOuter`` of three to eight rows joins them one after the other, with a barrier before each from the third on;
    of more, it and ``ReduceInner`` of rows longer than 256 bytes, fold the source to scratch
    space, and after a barrier that to the result; of fewer or shorter ones they write no scratch space (of shorter
    ones only sums, maxima and minima of floats).  ``TransposeRows`` that has something to leave out begins with one;
    if it has nothing to leave out, it writes no scratch space.  It has one before every instruction that writes scratch
    space, so space that only such calls have needs no other.
    Written that way, the calls need no barrier that the mutant does not have.
    """
    body = _opened(m, m.mutant.body)
    if body == m.mutant.body:
        return False
    mutant = replace(m.mutant, body=body)
    return _needs_no_barrier(m, mutant, one_turn(m.impl), one_step(m))


def _opened(m: Mutation, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block with the barriers inside of calls."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            out.append(replace(s, body=_opened(m, s.body)))
        elif isinstance(s, Call) and callee(s) == _TRANSPOSE and _has_own_scratch(m, s):
            out += [Barrier("PIPE_V")] if _leaves_out(m, s) else []
            out.append(replace(s, writes=s.writes[:1]))
        elif isinstance(s, Call) and callee(s).startswith(_FOLDS) and _folds(m, s):
            out += [replace(s, writes=s.writes[1:]), Barrier("PIPE_V")]
            out.append(replace(s, writes=s.writes[:1], reads=s.writes[1:]))
        elif isinstance(s, Call) and callee(s).startswith(_FOLDS) and _is_direct(m, s):
            once = replace(s, writes=s.writes[:1])
            # From the third row on, each is joined to what was made before.
            again = replace(once, reads=(*s.reads, *once.writes))
            out += [once, Barrier("PIPE_V"), again] if _joins_rows(s) else [once]
        elif isinstance(s, Call) and callee(s) == _TRANSPOSE and _leaves_out(m, s):
            out += [Barrier("PIPE_V"), s]
        elif isinstance(s, Call) and callee(s) == _TRANSPOSE and _fits_whole(m, s):
            out.append(replace(s, writes=s.writes[:1]))
        else:
            out.append(s)
    return tuple(out)


def _has_own_scratch(m: Mutation, s: Call) -> bool:
    """The scratch space is in a buffer that nothing else than the scratch space of such calls is in."""
    place = {g.local: g.buf for g in statements(m.fn.body) if isinstance(g, GetBuf)}
    here = place.get(s.writes[1])
    return here is not None and all(
        callee(c) == _TRANSPOSE and place.get(x) == here and x == c.writes[1]
        for c in calls_of(m.fn.body)
        for x in (*c.writes, *c.reads)
        if place.get(x) == here
    )


def _folds(m: Mutation, s: Call) -> bool:
    n = [a.value for a in s.args if isinstance(a, Count)][1].as_int()
    limit = 8 if "Outer" in callee(s) else 256 // dtypes_of(m)[s.writes[0]].itemsize
    return n is not None and n > limit


def _is_direct(m: Mutation, s: Call) -> bool:
    """The call reduces to its result without scratch space."""
    dtype = dtypes_of(m)[s.writes[0]]
    n = [a.value for a in s.args if isinstance(a, Count)][1].as_int()
    whole = dtype.kind == "f" and "ProdOf" not in callee(s)
    limit = 8 if "Outer" in callee(s) else 256 // dtype.itemsize if whole else 0
    return n is not None and n <= limit


def _joins_rows(s: Call) -> bool:
    """``ReduceOuter`` of more than two rows, where it needs no scratch space."""
    n = [a.value for a in s.args if isinstance(a, Count)][1].as_int()
    return "Outer" in callee(s) and n is not None and n > 2


def _leaves_out(m: Mutation, s: Call) -> bool:
    """The first 16 rows of 32 bytes that are transposed do not fit the result, however long the tile is."""
    block = 32 // dtypes_of(m)[s.writes[0]].itemsize
    _, _, cols, _, pitch = (a.value for a in s.args if isinstance(a, Count))
    columns = _most(m.impl, cols)
    places = _most(m.impl, pitch)
    few = columns is not None and columns < block
    return few or (block == 8 and places is not None and places <= block)


def _fits_whole(m: Mutation, s: Call) -> bool:
    """No 16 rows of 32 bytes that are transposed go beyond the result, however long the tile is."""
    block = 32 // dtypes_of(m)[s.writes[0]].itemsize
    _, _, cols, _, pitch = (a.value for a in s.args if isinstance(a, Count))
    lengths = tile_lengths(m.impl) if m.impl.tiling.opened.longest.is_const else set()
    pitches = [pitch.substitute({m.impl.tiling.opened.symbol: const(t)}).as_int() for t in lengths]
    whole = cols.as_int()
    if whole is None or whole % block or not pitches:
        return False
    return all(p is not None and p % 16 == 0 for p in pitches)


def _most(impl: ImplGraph, e: Expr) -> int | None:
    """The largest value for any legal tile, of an axis of fixed size."""
    lengths = tile_lengths(impl) if impl.tiling.opened.longest.is_const else set()
    found = []
    for t in lengths:
        sizes = {impl.tiling.opened.symbol: t, actual_size(impl): t}
        sizes |= {f"{a.name}_actual_size": a.size.as_int() or 0 for _, a in impl.cut_axes()}
        found.append(e.substitute(sizes).as_int())
    return None if not found or None in found else max(n for n in found if n is not None)


def _needs_no_barrier(m: Mutation, fn: KernelFn, tiles: bool, steps: bool) -> bool:
    """Without the loops over tiles, and over what is reduced, every barrier that is needed is there."""
    loop = next((s for s in fn.body if isinstance(s, For) and calls_of(s.body)), None)
    if loop is None or fn.body[-1] != loop:
        return False
    inner: list[Stmt] = []
    for s in loop.body:
        inner += s.body if steps and isinstance(s, For) and calls_of(s.body) else [s]
    ends = inner if tiles else [replace(loop, body=tuple(inner))]
    once = replace(fn, body=(*fn.body[:-1], *ends))
    return InsertBarriers()(once) == once


def for_the_scalar_unit(m: Mutation) -> bool:
    """EnQue and DeQue of a tensor that the scalar unit alone reads, behind a flag of its own for what was loaded.

    They are left out, or stand elsewhere in the same block.
    """
    for before, after in zip(blocks_of(m.fn.body), blocks_of(m.mutant.body), strict=False):
        for pair in [s for s in before if isinstance(s, EnQue)]:
            if before == after or _without(after, pair) != _without(before, pair):
                continue
            everything = list(statements(m.fn.body))
            users = [s for s in everything if pair.local in reads_of(s)]
            loads = [k for k, s in enumerate(before) if pair.local in writes_of(s)]
            return bool(users) and all(
                isinstance(s, ScalarRead | IndexRead) and _flagged(before, loads, s) for s in users
            )
    return False


def _flagged(block: tuple[Stmt, ...], loads: list[int], read: ScalarRead | IndexRead) -> bool:
    """The read, or a loop with it, stands in the block, behind a flag that stands behind the load."""
    inside = (k for k, s in enumerate(block) if read in statements((s,)))
    at = next(inside, -1)
    return bool(loads) and max(loads) < at and Sync("MTE2", "S") in block[max(loads) : at]


def behind_the_only_buffer(m: Mutation) -> bool:
    """A barrier between the iterations of a loop, all of which use the one buffer of a queue that loads and stores.

    The vector pipe waits for a load before its first call, that load for the store of the iteration before, and that
    for all calls before its EnQue, which are all of that iteration.  Written without the loop, the calls need no
    barrier that the mutant does not have.
    """
    loop = next((s for s in m.mutant.body if isinstance(s, For) and calls_of(s.body)), None)
    if loop is None:
        return False
    calls = [i for i, s in enumerate(loop.body) if calls_of((s,))]
    copies = {s.name for s in m.mutant.body if isinstance(s, QueueDecl) and s.copy}
    for s in m.mutant.body:
        if not isinstance(s, InitBuffer) or s.name not in copies or s.buf_num != 1:
            continue
        taken = [i for i, d in enumerate(loop.body) if isinstance(d, DeQue) and d.queue == s.name]
        given = [i for i, e in enumerate(loop.body) if isinstance(e, EnQue) and e.queue == s.name]
        # Given by the load and taken by the calls, given by them and taken by the store.
        if len(given) == len(taken) == 2 and taken[0] < calls[0] and calls[-1] < given[1]:
            return _needs_no_barrier(m, m.mutant, True, one_step(m))
    return False


def before_a_read(m: Mutation) -> bool:
    """EnQue and DeQue of a tensor before a call that reads it, not only behind it.

    The tensor is written by then.  That the buffer is not written again before the call is done is due to a barrier
    of the vector pipe behind it.
    """
    for before, after in zip(blocks_of(m.fn.body), blocks_of(m.mutant.body), strict=False):
        for i, s in enumerate(after):
            if before == after or not isinstance(s, EnQue) or before[:i] != after[:i]:
                continue
            rest = list(after[i + 2 :])
            if before[i] == s or [*before[:i], *rest] != _without(before, s):
                continue
            at = next(k for k, x in enumerate(before) if x == s)
            skipped = before[i:at]
            calls = [x for x in skipped if isinstance(x, Call)]
            plain = all(isinstance(x, Call | Comment | Alloc | Free | Barrier) for x in skipped)
            if not plain or any(s.local in x.writes for x in calls):
                return False
            last = max((k for k in range(i, at) if s.local in reads_of(before[k])), default=at)
            return Barrier("PIPE_V") in before[last:]
    return False
