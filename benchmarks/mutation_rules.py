"""Mutants that mean the same as the kernel they come from: the only rules by which a survivor is excused.

Each rule is an argument about one pattern and names the mutants it takes as narrowly as it can.  A mutant that the
twin or a comparison kills is never looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autofuse.codegen.kernel_ir import (
    Alloc,
    Barrier,
    Call,
    CopyIn,
    Count,
    DeQue,
    EnQue,
    For,
    Free,
    GetBuf,
    InitBuffer,
    KernelFn,
    Let,
    QueueDecl,
    ScalarRead,
    Stmt,
    Sync,
)
from autofuse.implgraph.graph import AxisType, ImplGraph, Position

__all__ = ["RULES", "equivalent"]

_COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or"})
#: Calls that compute every element from the elements at its place.
_ELEMENTWISE = frozenset(
    {"Abs", "Add", "Adds", "Cast", "Div", "Exp", "Ln", "Max", "Maxs", "Min", "Mins", "Mul", "Muls"}
    | {"Reciprocal", "Relu", "Rsqrt", "Sqrt", "Sub"}
)


def equivalent(kind: str, fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> str:
    """The name of the rule that shows the mutant to mean the same; empty if there is none."""
    for name, (kinds, rule) in RULES.items():
        if kind in kinds and rule(fn, mutant, impl):
            return name
    return ""


def _commutes(fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> bool:
    """The operands of a call that takes them in either order, bit for bit."""
    del impl
    old, new = _change(fn, mutant)
    return isinstance(old, Call) and isinstance(new, Call) and old.api in _COMMUTATIVE


def _spare_buffer(fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> bool:
    """A queue keeps a buffer for each tensor that is out at one time.

    The second buffer of a queue only lets the next iteration begin earlier: every tensor is freed in the iteration
    that took it, so fewer buffers make AllocTensor wait and nothing else.
    """
    del impl
    old, new = _change(fn, mutant)
    if not isinstance(old, InitBuffer) or not isinstance(new, InitBuffer):
        return False
    if new.nbytes != old.nbytes or new.buf_num != old.buf_num - 1:
        return False
    most = 0
    for block in _blocks(fn.body):
        out: set[str] = set()
        for s in block:
            if isinstance(s, Alloc) and s.queue == old.name:
                out.add(s.local)
                most = max(most, len(out))
            elif isinstance(s, Free) and s.queue == old.name:
                out.discard(s.local)
        if out:
            return False
    return 0 < most <= new.buf_num


def _ordered_by_another_pair(fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> bool:
    """EnQue and DeQue of a load, where those of a later load come before the first use.

    Copies from GM start in order, and the flag of the later EnQue waits for all of them, so the vector pipe waits
    for this copy too.  Both queues must be plain VECIN queues, and no call may stand between the two pairs.
    """
    del impl
    plain = {
        s.name
        for s in fn.body
        if isinstance(s, QueueDecl) and not s.copy and s.position is Position.VECIN
    }
    for before, after in zip(_blocks(fn.body), _blocks(mutant.body), strict=False):
        if before == after:
            continue
        pairs = [s for s in before if isinstance(s, EnQue)]
        # The pair that is gone, or not at its place any more.
        for i, s in enumerate(before):
            if not isinstance(s, EnQue) or s.queue not in plain or s not in pairs:
                continue
            if _without(before, s) != _without(after, s):
                continue
            for later in before[i + 2 :]:
                if isinstance(later, Call | For | Free):
                    return False
                if isinstance(later, EnQue) and later.queue in plain:
                    return True
            return False
    return False


def _without(block: tuple[Stmt, ...], pair: EnQue) -> list[Stmt]:
    return [
        s
        for s in block
        if not (isinstance(s, EnQue | DeQue) and s.local == pair.local and s.queue == pair.queue)
    ]


def _barrier_inside(fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> bool:
    """The barrier before ``autofuse::BroadcastInner``, which has one between its two parts.

    The first part reads the source and writes the scratch space, the second writes the result.  If no call since the
    last barrier touches the scratch space or writes the source, only the second part needs what came before to be
    complete, and the inner barrier stands between them; it does so for everything that follows as well.
    """
    del impl
    bufs = {s.local: s.buf for s in fn.body if isinstance(s, GetBuf)}
    start = next((i for i, s in enumerate(fn.body) if isinstance(s, For)), len(fn.body))
    old, new = list(fn.body[:start]), list(mutant.body[:start])
    if old != new or start == len(fn.body):
        return False
    loop, changed = fn.body[start], mutant.body[start]
    if not isinstance(loop, For) or not isinstance(changed, For):
        return False
    for i, s in enumerate(loop.body):
        if not isinstance(s, Barrier) or _except_barriers(changed.body, i) != loop.body[i + 1 :]:
            continue
        call = next((x for x in loop.body[i + 1 :] if isinstance(x, Call)), None)
        if call is None or call.api != "autofuse::BroadcastInner":
            return False
        _, tmp = call.writes
        # What may have been issued since a barrier: this iteration, the one before, what precedes the loop.
        before = [*old, *loop.body, *loop.body[:i]]
        since: list[Call] = []
        for x in before:
            if isinstance(x, Barrier):
                since.clear()
            elif isinstance(x, Call):
                since.append(x)
        if not any(isinstance(x, Barrier) for x in loop.body[:i]):
            since += [x for x in old if isinstance(x, Call)]
        place = {bufs.get(x, x) for x in (tmp,)}
        source = {bufs.get(x, x) for x in call.reads}
        return not any(
            place & {bufs.get(x, x) for x in (*c.reads, *c.writes)}
            or source & {bufs.get(x, x) for x in c.writes}
            for c in since
        )
    return False


def _barrier_in_the_loop(fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> bool:
    """The barrier right before the loop, where one in the loop comes before any call that needs it.

    No call between the start of the loop and its first barrier touches what a call before the loop wrote, or writes
    what one read; the first barrier of the loop then orders everything after it.
    """
    del impl
    bufs = {s.local: s.buf for s in fn.body if isinstance(s, GetBuf)}
    at = next((i for i, s in enumerate(fn.body) if isinstance(s, For) and _calls((s,))), 0)
    if not at or not isinstance(fn.body[at - 1], Barrier):
        return False
    left = mutant.body
    if len(left) == len(fn.body) and isinstance(left[at - 1], Barrier):
        left = (*left[: at - 1], *left[at:])
    loop = fn.body[at]
    if left != (*fn.body[: at - 1], *fn.body[at:]) or not isinstance(loop, For):
        return False
    first = next((i for i, s in enumerate(loop.body) if isinstance(s, Barrier)), None)
    if first is None:
        return False
    early, late = _calls(fn.body[: at - 1]), _calls(loop.body[:first])
    written = {bufs.get(x, x) for c in early for x in c.writes}
    read = {bufs.get(x, x) for c in early for x in c.reads}
    return not any(
        written & {bufs.get(x, x) for x in (*c.reads, *c.writes)}
        or read & {bufs.get(x, x) for x in c.writes}
        for c in late
    )


def _in_the_padding(fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> bool:
    """One element more in a call on contiguous tensors, where all of them end inside their last 32 bytes.

    The axis is one tile, so the count is fixed.  Every buffer is a multiple of 32 bytes, the element after the last
    one is padding in each operand, and copies to GM leave it out.
    """
    old, new = _change(fn, mutant)
    spec = impl.tiling
    extent = spec.extent.as_int()
    if not isinstance(old, Call) or not isinstance(new, Call) or old.api not in _ELEMENTWISE:
        return False
    if extent is None or extent > spec.granule or not _is_whole(fn, impl):
        return False
    counts = [(a.value, b.value) for a, b in _arguments(old, new)]
    names = {a.type: a.name for a in impl.axes}
    tile = {f"{names[AxisType.TILE_IN]}_actual_size": extent, spec.tile_size: extent}
    dtypes = {
        s.local: s.dtype.itemsize
        for b in _blocks(fn.body)
        for s in b
        if isinstance(s, Alloc | GetBuf)
    }
    for before, after in counts:
        n, more = before.substitute(tile).as_int(), after.substitute(tile).as_int()
        if n is None or more is None or more != n + 1:
            return False
        sizes = [dtypes[x] for x in (*old.reads, *old.writes)]
        if any(more * size > -(-n * size // 32) * 32 for size in sizes):
            return False
    return len(counts) == 1


def _arguments(old: Call, new: Call) -> list[tuple[Count, Count]]:
    return [
        (a, b)
        for a, b in zip(old.args, new.args, strict=True)
        if isinstance(a, Count) and isinstance(b, Count) and a != b
    ]


def _is_whole(fn: KernelFn, impl: ImplGraph) -> bool:
    """No tensor of the loop has more than the tiled axis in UB."""
    del fn
    return all(
        n.y.vectorized_axis in ((), (next(a.id for a in impl.axes if a.type is AxisType.TILE_IN),))
        for n in impl.nodes
        if n.api is not None
    )


def _no_vector_call(fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> bool:
    """The sync MTE2_V before the loop, where no vector call touches what was loaded there.

    The scalar unit takes those tensors, behind a sync MTE2_S that the mutant still has.
    """
    del impl
    start = next((i for i, s in enumerate(fn.body) if isinstance(s, For) and _calls((s,))), -1)
    if start < 0:
        return False
    syncs = [s.event for s in fn.body[:start] if isinstance(s, Sync)]
    left = [s.event for b in _blocks(mutant.body) for s in b if isinstance(s, Sync)]
    every = [s.event for b in _blocks(fn.body) for s in b if isinstance(s, Sync)]
    for event in left:
        if event in every:
            every.remove(event)
    loaded = {s.local for b in _blocks(fn.body[:start]) for s in b if isinstance(s, CopyIn)}
    touched = {x for c in _calls(fn.body) for x in (*c.reads, *c.writes)}
    gone = every == ["MTE2_V"] and syncs.count("MTE2_V") == 1
    if not gone or loaded & touched:
        return False
    waited = False
    for s in fn.body[:start]:
        if isinstance(s, CopyIn | For):
            waited = False
        elif isinstance(s, Sync) and s.event == "MTE2_S":
            waited = True
        elif isinstance(s, ScalarRead) and s.local in loaded and not waited:
            return False
    return waited


def _calls(body: tuple[Stmt, ...]) -> list[Call]:
    return [s for b in _blocks(body) for s in b if isinstance(s, Call)]


def _except_barriers(body: tuple[Stmt, ...], i: int) -> tuple[Stmt, ...]:
    """What follows place ``i``, at which a barrier of another pipe may stand in for the one that is gone."""
    if i < len(body) and isinstance(body[i], Barrier):
        return body[i + 1 :]
    return body[i:]


def _no_tail(fn: KernelFn, mutant: KernelFn, impl: ImplGraph) -> bool:
    """The length of the last tile, or the tiles of the last core, where it is never less than that of the others.

    The tiled axis has a fixed size.  For tiles: there is one, as long as the axis, or all tiles divide the axis and
    the length becomes that of a tile.  For cores: the number of tiles is a multiple of what a core takes (the number
    divided by the cores, rounded up), however many cores there are and however long the tiles.
    """
    old, new = _change(fn, mutant)
    spec = impl.tiling
    extent, outer = spec.extent.as_int(), spec.outer.as_int()
    if not isinstance(old, Let) or not isinstance(new, Let) or extent is None:
        return False
    tiles = {extent, *range(spec.granule, extent + 1, spec.granule)}
    names = {a.type: a.name for a in impl.axes}
    if old.name == f"{names[AxisType.TILE_IN]}_actual_size":
        full = str(new.value) == spec.tile_size
        return tiles == {extent} or (full and all(extent % t == 0 for t in tiles))
    if old.name == f"{names[AxisType.BLOCK_IN]}_loop_size" and outer is not None:
        counts = {-(-extent // t) * outer for t in tiles}
        shares = {(n, -(-n // cores)) for n in counts for cores in range(1, n + 1)}
        if str(new.value) == spec.block_size:
            return all(n % share == 0 for n, share in shares)
        return counts == {1}
    return False


def _blocks(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    yield body
    for s in body:
        if isinstance(s, For):
            yield from _blocks(s.body)


def _change(fn: KernelFn, mutant: KernelFn) -> tuple[Stmt | None, Stmt | None]:
    """The one statement that was replaced, and by what; None if that is not what happened."""
    pairs = list(_differences(fn.body, mutant.body))
    return pairs[0] if len(pairs) == 1 else (None, None)


def _differences(
    a: tuple[Stmt, ...], b: tuple[Stmt, ...]
) -> Iterator[tuple[Stmt | None, Stmt | None]]:
    if len(a) != len(b):
        yield None, None
        return
    for x, y in zip(a, b, strict=True):
        if isinstance(x, For) and isinstance(y, For) and (x.var, x.extent) == (y.var, y.extent):
            yield from _differences(x.body, y.body)
        elif x != y:
            yield x, y


#: Name of a rule -> the classes it is asked about, and the argument.
RULES: dict[str, tuple[tuple[str, ...], Callable[[KernelFn, KernelFn, ImplGraph], bool]]] = {
    "commutative call": (("swap-operands",), _commutes),
    "spare buffer of a queue": (("shrink-buffer",), _spare_buffer),
    "ordered by the pair of a later load": (
        ("delete-pair", "early-pair"),
        _ordered_by_another_pair,
    ),
    "barrier inside BroadcastInner": (("delete-barrier", "weaken-barrier"), _barrier_inside),
    "no vector call on what was loaded": (("delete-sync", "weaken-sync"), _no_vector_call),
    "barrier in the loop": (("delete-barrier", "weaken-barrier"), _barrier_in_the_loop),
    "element in the padding": (("call-count",), _in_the_padding),
    "no tail": (("drop-tail",), _no_tail),
}
