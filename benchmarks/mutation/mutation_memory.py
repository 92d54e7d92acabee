"""Rules about memory: elements and bytes that a call does not need, or that are never observed."""

from __future__ import annotations

import math
from dataclasses import replace

from mutation_change import (
    Mutation,
    actual_size,
    blocks_of,
    calls_of,
    change_of,
    count_change,
    dtypes_of,
    has_one_tile,
    statements,
    tile_lengths,
)

from autofuse.codegen.backends.ascendc.emit_cpp import callee
from autofuse.codegen.ir.calls import Call, Count, LocalArg
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    CopyIn,
    CopyOut,
    EnQue,
    For,
    Free,
    GetBuf,
    InitBuffer,
    KernelFn,
    Let,
    QueueDecl,
    Stmt,
)
from autofuse.codegen.lower.names import Names
from autofuse.codegen.passes.barriers import InsertBarriers
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.codegen.verification.ranges import (
    calls_cover_the_tile,
    calls_fit_their_buffers,
    copies_fit_their_buffers,
)
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, const, sym
from autofuse.implgraph.ir.graph import AxisType, ImplGraph, Position, TilingSpec
from autofuse.targets import TargetSpec

__all__ = [
    "ELEMENTWISE",
    "WHOLE",
    "behind_the_end",
    "between_rows",
    "bits_to_spare",
    "has_room",
    "scratch_above_the_least",
    "scratch_that_is_not_used",
    "spare_buffer",
]

#: Calls that compute every element from the elements at the same index, or from a scalar.
ELEMENTWISE = frozenset(
    {"Abs", "Add", "Adds", "Cast", "Div", "Duplicate", "Exp", "Ln", "Max", "Maxs", "Min", "Mins"}
    | {"Mul", "Muls", "Reciprocal", "Relu", "Rsqrt", "Sqrt", "Sub"}
)
#: Calls that process each row independently.
_ROW_BY_ROW = (
    *("autofuse::ReduceInner<", "autofuse::ReduceOuter<", "autofuse::WithRows<"),
    *("autofuse::PickByMask", "autofuse::PickAhead"),
)
#: Documented scratch bytes of advanced functions for float: 256 times the number of tensors they keep.
_LEAST_SCRATCH = {"Power": 1024, "Tanh": 256, "Sigmoid": 256, "Erf": 768, "Sin": 768, "Cos": 768}
#: Maximum number of tile lengths to check one by one.
_FEW = 64
#: Reductions for which the chip has an instruction for a row of half or float.
WHOLE = tuple(f"autofuse::ReduceInner<autofuse::{op}Of>" for op in ("Sum", "Max", "Min"))


def scratch_that_is_not_used(m: Mutation) -> bool:
    """Return True for scratch space that ``ReduceInner`` does not need for rows of this length, for all tiles.

    One instruction reduces a row of half of at most 256 bytes to its sum, maximum or minimum, without folding.  A
    longer row is folded to the length of its parts, which the scratch space must hold for every row; the plan bounds it
    by the distance of the rows.  For float, fewer than four rows do not take a block each.
    """
    change = _less_scratch(m, WHOLE)
    if change is None:
        return False
    size = dtypes_of(m)
    for t, room in change:
        for call in _scratched(m, _buffer_of_change(m)):
            dtype = size[call.writes[0]]
            counts = [_value_of_tile(m, a.value, t) for a in call.args if isinstance(a, Count)]
            rows, n = counts[:2]
            if rows is None or n is None or dtype.kind != "f":
                return False
            if _scratch_used(rows, n, dtype.itemsize) > room:
                return False
    return True


def _scratch_used(rows: int, n: int, size: int) -> int:
    """Return the scratch bytes that ``ReduceInner`` uses for rows of half or float."""
    return _eighths(rows, n) if size == 4 else rows * _folded_row(n)


def _folded_row(n: int) -> int:
    """Return the bytes of a row of ``n`` elements of half that ``ReduceInner`` folds."""
    lanes, block = 128, 16
    if n <= lanes:
        return 0
    part = math.ceil(n / min(math.ceil(n / lanes), 8))
    return math.ceil(part / block) * 32


def _eighths(rows: int, n: int) -> int:
    """Return the scratch bytes that ``ReduceInner`` uses for rows of float."""
    places, used, k = (0, rows * math.ceil(n / 64)), 0, 0
    while n > 64:
        used = max(used, places[k % 2] + rows * math.ceil(n / 64))
        n, k = math.ceil(n / 8), k + 1
    if rows >= 4:
        used = max(used, places[k % 2] + rows)
    return used * 32


def scratch_above_the_least(m: Mutation) -> bool:
    """Return True for scratch space of an advanced function that is at least the documented minimum, for all tiles.

    Between the minimum and the planned size, the function processes its operands in more parts.
    """
    change = _less_scratch(m, tuple(_LEAST_SCRATCH))
    if change is None:
        return False
    calls = _scratched(m, _buffer_of_change(m))
    dtypes = dtypes_of(m)
    if any(dtypes[c.writes[0]].name != "float32" for c in calls):
        return False
    least = max(_LEAST_SCRATCH[callee(c)] for c in calls)
    # Power with two tensor operands; the forms with a scalar need more.
    if any(callee(c) == "Power" and len(c.reads) != 2 for c in calls):
        return False
    return all(room >= least for _, room in change)


def _less_scratch(m: Mutation, functions: tuple[str, ...]) -> list[tuple[int, int]] | None:
    """Return the possible tile lengths, each with the bytes of the buffer.

    The buffer holds scratch space of these functions, and single elements at other times.
    """
    old, new = change_of(m)
    if not isinstance(old, InitBuffer) or not isinstance(new, InitBuffer) or new.buf_num:
        return None
    calls = _scratched(m, old.name)
    if not calls or any(not callee(c).startswith(functions) for c in calls):
        return None
    here = {s.local for s in statements(m.fn.body) if isinstance(s, GetBuf) and s.buf == old.name}
    used = {x for c in calls_of(m.fn.body) for x in (*c.writes, *c.reads)} & here
    others = used - {c.writes[1] for c in calls}
    if not _are_elements(m, others) or not m.impl.tiling.opened.longest.is_const:
        return None
    out = []
    for t in tile_lengths(m.impl):
        room = _value_of_tile(m, new.nbytes, t)
        # An empty buffer is not legal.
        if room is None or room <= 0:
            return None
        out.append((t, room))
    return out or None


def _are_elements(m: Mutation, tensors: set[str]) -> bool:
    """Return True if these tensors are only used as single elements, which fit in 32 bytes."""
    for s in statements(m.fn.body):
        if isinstance(s, CopyIn | CopyOut) and s.local in tensors:
            return False
    calls = [c for c in calls_of(m.fn.body) if not tensors.isdisjoint((*c.reads, *c.writes))]
    return all({a.value for a in c.args if isinstance(a, Count)} == {ONE} for c in calls)


def _value_of_tile(m: Mutation, e: Expr, tile: int) -> int | None:
    """Return the value of an expression of the mutant for tiles of this length, with its variables substituted."""
    lets = {s.name: s.value for s in m.mutant.body if isinstance(s, Let)}
    sizes = {m.impl.tiling.opened.symbol: const(tile), actual_size(m.impl): const(tile)}
    for _ in range(len(lets) + 1):
        names = [n for n in e.symbols() if n in sizes or n in lets]
        if not names:
            break
        e = e.substitute({n: sizes.get(n, lets.get(n, ZERO)) for n in names})
    return e.as_int()


def _buffer_of_change(m: Mutation) -> str:
    old = change_of(m)[0]
    assert isinstance(old, InitBuffer)
    return old.name


def _scratched(m: Mutation, buffer: str) -> list[Call]:
    """Return the calls with scratch space in a buffer."""
    here = {s.local for s in statements(m.fn.body) if isinstance(s, GetBuf) and s.buf == buffer}
    return [c for c in calls_of(m.fn.body) if not here.isdisjoint(c.writes[1:])]


def behind_the_end(m: Mutation) -> bool:
    """Return True for one more element that fits the buffer of every operand, for all tiles.

    A buffer holds one tensor at a time, from its start, so there is no data after the end of a tensor.  Calls compute
    the elements of a tensor from elements of tensors, and copies to GM skip elements past the end: they are never
    observed.  ``TransposeRows`` of one matrix turns an additional column into a row after the others.
    ``BroadcastInner`` with an additional row leaves the others unchanged; with a longer row it does so if there is one
    row, and so does ``WithRows``, whose scratch space for one row is the same for any length.  So do ``ReduceInner``
    and ``ReduceOuter`` with an additional result, which folds its own rows, ``WithRows`` with an additional row, and
    ``Arange``.  ``PickByMask`` and ``PickAhead`` of one run pick an additional element, which is in the buffer of the
    run.
    """
    old, before, after = count_change(m)
    if old is None or after != before + 1:
        return False
    new = change_of(m)[1]
    touched: tuple[str, ...] = (*old.reads, *old.writes)
    if callee(old) == "autofuse::BroadcastInner":
        rows, _ = (a.value for a in old.args if isinstance(a, Count))
        if rows not in (before, ONE):
            return False
        # For a longer row, only the result; an additional row must fit as a whole.
        touched = () if rows == before else old.writes[:1]
    elif callee(old) == "autofuse::TransposeRows":
        counts = [a.value for a in old.args if isinstance(a, Count)]
        changed = (
            [a.value for a in new.args if isinstance(a, Count)] if isinstance(new, Call) else []
        )
        if counts[0] != ONE or changed != [*counts[:2], after, *counts[3:]]:
            return False
        touched = ()
    elif callee(old).startswith(_ROW_BY_ROW):
        counts = [a.value for a in old.args if isinstance(a, Count)]
        changed = (
            [a.value for a in new.args if isinstance(a, Count)] if isinstance(new, Call) else []
        )
        if changed == [ONE, counts[1] + 1] and callee(old).startswith("autofuse::WithRows<"):
            touched = (*old.reads[:1], *old.writes[:1])
        elif changed == [counts[0] + 1, *counts[1:]]:
            touched = ()
        else:
            return False
    elif callee(old) not in (*ELEMENTWISE, "Arange"):
        return False
    if touched and _end_in_their_last_block(m, touched, before):
        return True
    if callee(old).startswith(WHOLE) and isinstance(new, Call) and _reduction_fits(m, new):
        return True
    return has_room(m.mutant, m.impl, m.target)


def _reduction_fits(m: Mutation, call: Call) -> bool:
    """Return True if source, result and scratch space of ``ReduceInner`` fit their buffers for all tiles."""
    places = {s.local: s.buf for s in statements(m.fn.body) if isinstance(s, GetBuf)}
    places |= {s.local: s.queue for s in statements(m.fn.body) if isinstance(s, Alloc)}
    places |= {s.local: places[s.of] for s in statements(m.fn.body) if isinstance(s, Alias)}
    room = {s.name: s.nbytes for s in statements(m.fn.body) if isinstance(s, InitBuffer)}
    dtype = dtypes_of(m)[call.writes[0]]
    result, source, scratch = (a.local for a in call.args if isinstance(a, LocalArg))
    lengths = tile_lengths(m.impl) if m.impl.tiling.opened.longest.is_const else set()
    for t in lengths:
        counts = [_value_of_tile(m, a.value, t) for a in call.args if isinstance(a, Count)]
        have = [_value_of_tile(m, room[places[x]], t) for x in (result, source, scratch)]
        rows, n, pitch = (c or 0 for c in counts)
        need = (
            math.ceil(rows * dtype.itemsize / 32) * 32,
            rows * pitch * dtype.itemsize,
            _scratch_used(rows, n, dtype.itemsize),
        )
        if None in (*counts, *have) or dtype.kind != "f" or pitch < n:
            return False
        if any(h is None or h < b for h, b in zip(have, need, strict=True)):
            return False
    return bool(lengths)


def _end_in_their_last_block(m: Mutation, tensors: tuple[str, ...], count: Expr) -> bool:
    """Return True if all are one tile of fixed length or one element, with room for one more in their last 32 bytes."""
    spec = m.impl.tiling
    extent, longest = spec.opened.extent.as_int(), spec.opened.longest.as_int()
    tile: dict[str, int] = {}
    if extent is not None and longest is not None and has_one_tile(m.impl):
        tile = {actual_size(m.impl): extent, spec.opened.symbol: longest}
    n = count.substitute(tile).as_int()
    if n is None:
        return False
    size = {
        s.local: s.dtype.itemsize for s in statements(m.fn.body) if isinstance(s, Alloc | GetBuf)
    }
    return all(n * size[x] % 32 for x in tensors)


def bits_to_spare(m: Mutation) -> bool:
    """Return True for a mask with one word less whose remaining words have a bit for every element, for all tiles."""
    old, before, after = count_change(m)
    if old is None or callee(old) not in ("And", "Or", "Not") or after != before - 1:
        return False
    names = Names(m.impl, m.fn.params)
    made = next((n for n in m.impl.nodes if names.local(n) == old.writes[0]), None)
    if made is None or made.y.dtype.kind != "m":
        return False
    return not list(calls_cover_the_tile(_kernel(m)))


def _kernel(m: Mutation) -> Kernel:
    return Kernel(m.mutant, m.impl, None, m.target)


def has_room(fn: KernelFn, impl: ImplGraph, target: TargetSpec) -> bool:
    """Return True if calls and copies provably fit the buffers of a function, for all tiles.

    If no proof covers all tile lengths at once, and there are few, each length gets a proof: with the buffers of that
    tile, for all tiles up to its length.
    """
    found = _does_not_fit(fn, impl, target)
    if not found or any(f.refuted for f in found) or not impl.tiling.opened.longest.is_const:
        return not found
    lengths = sorted(tile_lengths(impl))
    return 0 < len(lengths) <= _FEW and not any(
        _does_not_fit(
            _with_room_of(fn, impl, t),
            replace(impl, tiling=_no_longer_than(impl.tiling, t)),
            target,
        )
        for t in lengths
    )


def _no_longer_than(spec: TilingSpec, tile: int) -> TilingSpec:
    return replace(spec, lengths=(replace(spec.opened, most=const(tile)),))


def _does_not_fit(fn: KernelFn, impl: ImplGraph, target: TargetSpec) -> list[Finding]:
    kernel = Kernel(fn, impl, None, target)
    return [*calls_fit_their_buffers(kernel), *copies_fit_their_buffers(kernel)]


def _with_room_of(fn: KernelFn, impl: ImplGraph, tile: int) -> KernelFn:
    """Return the function with the buffers of tiles of one length."""
    lets = {s.name: s.value for s in fn.body if isinstance(s, Let)}
    name = impl.tiling.opened.symbol
    body = tuple(
        replace(s, nbytes=s.nbytes.substitute(lets).substitute({name: const(tile)}))
        if isinstance(s, InitBuffer)
        else s
        for s in fn.body
    )
    return replace(fn, body=body)


def between_rows(m: Mutation) -> bool:
    """Return True if the omitted last elements of a result are padding after the last row.

    One element of an element-wise call or one row of ``ReduceInner``, and one row of a broadcast: the call computes
    whole rows, and the omitted elements are between the last element of the tile and the end of the last row.
    """
    old, before, after = count_change(m)
    if old is None or after != before - 1:
        return False
    names = Names(m.impl, m.fn.params)
    made = next((n for n in m.impl.nodes if names.local(n) == old.writes[0]), None)
    if made is None or len(made.y.vectorized_axis) < 2:
        return False
    strides = [s.as_int() for s in made.y.vectorized_strides]
    pitch, lost = strides[0], _left_out(m, old)
    sizes = {a.id: a.size.as_int() for a in m.impl.axes}
    first, *inner = made.y.vectorized_axis
    last = [((sizes[a] or 0) - 1) * (s or 0) for a, s in zip(inner, strides[1:], strict=True)]
    known = all(sizes[a] for a in inner) and all(strides)
    if pitch is None or lost is None or not known or sum(last) + lost >= pitch:
        return False
    rows = [const(sizes[first] or 0)]
    if first == m.impl.tile(AxisType.TILE_IN).id:
        rows = [sym(actual_size(m.impl)), sym(m.impl.tiling.opened.symbol)]
    return before * lost in [n * pitch for n in rows]


def _left_out(m: Mutation, old: Call) -> int | None:
    """Return the elements at the end of its result that a call omits if its count is one less; None for other calls."""
    counts = [a.value for a in old.args if isinstance(a, Count)]
    new = change_of(m)[1]
    assert isinstance(new, Call)
    changed = [a.value for a in new.args if isinstance(a, Count)]
    if callee(old) in ELEMENTWISE or (
        callee(old).startswith("autofuse::ReduceInner<") and changed == [counts[0] - 1, *counts[1:]]
    ):
        return 1
    if callee(old) == "autofuse::BroadcastInner" and changed == [counts[0] - 1, counts[1]]:
        return counts[1].as_int()
    if callee(old) == "autofuse::BroadcastOuter" and changed == [ONE, counts[1] - 1, counts[2]]:
        return counts[2].as_int()
    return None


def spare_buffer(m: Mutation) -> bool:
    """Return True if a queue still has a buffer for each tensor in flight.

    The second buffer of a queue only lets the next iteration start earlier: every tensor is freed in the iteration that
    allocated it, so fewer buffers only make AllocTensor wait.  It waits for the pipe that dequeues tensors, so no other
    pipe may access an enqueued tensor: a vector pipe that reads a tensor it has enqueued for a store would still be
    reading while it writes the next one, unless a barrier is in between.
    """
    old, new = change_of(m)
    if not isinstance(old, InitBuffer) or not isinstance(new, InitBuffer):
        return False
    if new.nbytes != old.nbytes or new.buf_num != old.buf_num - 1:
        return False
    if _is_read_elsewhere(m.fn, old.name) and not _barriers_part_tensors(m.mutant, old.name):
        return False
    most = _most_out(m.fn.body, old.name, 0)
    return most is not None and 0 < most <= new.buf_num


def _is_read_elsewhere(fn: KernelFn, queue: str) -> bool:
    """Return True if a pipe other than the queue's consumer accesses an enqueued tensor."""
    decl = next(s for s in fn.body if isinstance(s, QueueDecl) and s.name == queue)
    stored = decl.copy or decl.position is Position.VECOUT
    for block in blocks_of(fn.body):
        given: set[str] = set()
        for top in block:
            for s in statements((top,)):
                if isinstance(s, EnQue) and s.queue == queue:
                    given.add(s.local)
                elif stored and isinstance(s, Call):
                    if given & {*s.reads, *s.writes}:
                        return True
                elif isinstance(s, CopyIn) or (isinstance(s, CopyOut) and not stored):
                    if s.local in given:
                        return True
                elif isinstance(s, Free):
                    given.discard(s.local)
    return False


def _barriers_part_tensors(fn: KernelFn, queue: str) -> bool:
    """Return True if the vector pipe's barriers suffice when all tensors of a result queue share the same bytes."""
    decl = next(s for s in fn.body if isinstance(s, QueueDecl) and s.name == queue)
    if decl.copy or decl.position is not Position.VECOUT:
        return False
    taken = [s for s in statements(fn.body) if isinstance(s, Alloc) and s.queue == queue]
    one = tuple(GetBuf(s.local, queue, s.dtype, s.node) for s in taken)
    same = replace(fn, body=(*one, *_without(fn.body, set(taken))))
    return InsertBarriers()(same) == same


def _without(body: tuple[Stmt, ...], gone: set[Alloc]) -> tuple[Stmt, ...]:
    kept = (s for s in body if s not in gone)
    return tuple(replace(s, body=_without(s.body, gone)) if isinstance(s, For) else s for s in kept)


def _most_out(body: tuple[Stmt, ...], queue: str, before: int) -> int | None:
    """Return the maximum tensors of a queue in flight, ``before`` of them initially; None if some are never freed."""
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
