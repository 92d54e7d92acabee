"""Rules about the order of pipes: pairs, flags and barriers made redundant by other ones."""

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
    """Return True for EnQue and DeQue of a tensor that a pair of another queue between the same pipes makes redundant.

    A pipe sets flags in order, each after all its earlier work.  So if the other EnQue follows the last write of this
    tensor, and the other DeQue precedes its first read, the reading pipe has waited for this tensor.
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
    """Return the positions of the last write to a tensor, and of the first read on the other side of its queue."""
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
    """Return True for a barrier between iterations of a loop that runs once: over a core's tiles, or a reduction.

    The same applies to an accumulator's initial value written before the loop over tiles.  Without such loops, the
    calls need no barrier that the mutant lacks.
    """
    tiles, steps = one_turn(m.impl), one_step(m)
    if m.kind == "early-start":  # before the only iteration, or inside it
        return tiles
    return (tiles or steps) and _needs_no_barrier(m, m.mutant, tiles, steps)


def barrier_inside(m: Mutation) -> bool:
    """Return True for a barrier next to a library function that contains one, for all tiles.

    ``ReduceOuter`` of three to eight rows combines them one after the other, with a barrier before each from the third
    on.  With more rows, it and ``ReduceInner`` of rows longer than 256 bytes fold the source to scratch space, and
    after a barrier fold that to the result; with fewer or shorter ones they write no scratch space (for shorter ones
    only sums, maxima and minima of floats).  ``TransposeRows`` starts with a barrier if it must skip elements;
    otherwise it writes no scratch space.  It has a barrier before every instruction that writes scratch space, so space
    used only by such calls needs no other.  With these barriers written out, the calls need no barrier that the mutant
    lacks.
    """
    body = _opened(m, m.mutant.body)
    if body == m.mutant.body:
        return False
    mutant = replace(m.mutant, body=body)
    return _needs_no_barrier(m, mutant, one_turn(m.impl), one_step(m))


def _opened(m: Mutation, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Return the block with the barriers inside calls written out."""
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
            # From the third row on, each is combined with the previous result.
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
    """Return True if only scratch space of such calls uses the buffer of the scratch space."""
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
    """Return True if the call reduces to its result without scratch space."""
    dtype = dtypes_of(m)[s.writes[0]]
    n = [a.value for a in s.args if isinstance(a, Count)][1].as_int()
    whole = dtype.kind == "f" and "ProdOf" not in callee(s)
    limit = 8 if "Outer" in callee(s) else 256 // dtype.itemsize if whole else 0
    return n is not None and n <= limit


def _joins_rows(s: Call) -> bool:
    """Return True for ``ReduceOuter`` of more than two rows that needs no scratch space."""
    n = [a.value for a in s.args if isinstance(a, Count)][1].as_int()
    return "Outer" in callee(s) and n is not None and n > 2


def _leaves_out(m: Mutation, s: Call) -> bool:
    """Return True if the first 16 transposed rows of 32 bytes do not fit the result, for all tiles."""
    block = 32 // dtypes_of(m)[s.writes[0]].itemsize
    _, _, cols, _, pitch = (a.value for a in s.args if isinstance(a, Count))
    columns = _most(m.impl, cols)
    places = _most(m.impl, pitch)
    few = columns is not None and columns < block
    return few or (block == 8 and places is not None and places <= block)


def _fits_whole(m: Mutation, s: Call) -> bool:
    """Return True if no 16 transposed rows of 32 bytes exceed the result, for all tiles."""
    block = 32 // dtypes_of(m)[s.writes[0]].itemsize
    _, _, cols, _, pitch = (a.value for a in s.args if isinstance(a, Count))
    lengths = tile_lengths(m.impl) if m.impl.tiling.opened.longest.is_const else set()
    pitches = [pitch.substitute({m.impl.tiling.opened.symbol: const(t)}).as_int() for t in lengths]
    whole = cols.as_int()
    if whole is None or whole % block or not pitches:
        return False
    return all(p is not None and p % 16 == 0 for p in pitches)


def _most(impl: ImplGraph, e: Expr) -> int | None:
    """Return the largest value for any legal tile of an axis of fixed size."""
    lengths = tile_lengths(impl) if impl.tiling.opened.longest.is_const else set()
    found = []
    for t in lengths:
        sizes = {impl.tiling.opened.symbol: t, actual_size(impl): t}
        sizes |= {f"{a.name}_actual_size": a.size.as_int() or 0 for _, a in impl.cut_axes()}
        found.append(e.substitute(sizes).as_int())
    return None if not found or None in found else max(n for n in found if n is not None)


def _needs_no_barrier(m: Mutation, fn: KernelFn, tiles: bool, steps: bool) -> bool:
    """Return True if, without the loops over tiles and reductions, every required barrier is present."""
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
    """Return True for EnQue and DeQue of a tensor read only by the scalar unit, after its own flag for the load.

    They are removed, or moved within the same block.
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
    """Return True if the read, or a loop with it, is in the block after a flag that follows the load."""
    inside = (k for k, s in enumerate(block) if read in statements((s,)))
    at = next(inside, -1)
    return bool(loads) and max(loads) < at and Sync("MTE2", "S") in block[max(loads) : at]


def behind_the_only_buffer(m: Mutation) -> bool:
    """Return True for a barrier between iterations that share the single buffer of a queue for loads and stores.

    The vector pipe waits for a load before its first call, that load for the store of the previous iteration, and that
    store for all calls before its EnQue, which are all calls of that iteration.  Without the loop, the calls need no
    barrier that the mutant lacks.
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
        # Enqueued by the load and dequeued by the calls, then enqueued by them and dequeued by the store.
        if len(given) == len(taken) == 2 and taken[0] < calls[0] and calls[-1] < given[1]:
            return _needs_no_barrier(m, m.mutant, True, one_step(m))
    return False


def before_a_read(m: Mutation) -> bool:
    """Return True for EnQue and DeQue of a tensor moved before a call that reads it.

    The tensor is complete by then.  A barrier of the vector pipe after the call keeps the buffer from being rewritten
    before the call is done.
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
