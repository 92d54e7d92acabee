"""Checks of sizes: extents of calls and copies against their buffers, the sum of UB, casts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.functions.definition import Proof
from autofuse.codegen.ir.calls import Call, Count, LocalArg, Number, ScalarVar, SizeValue
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    CopyIn,
    CopyOut,
    DmaBlock,
    DmaDims,
    GetBuf,
    InitBuffer,
)
from autofuse.codegen.proofs.item import Item
from autofuse.codegen.proofs.model import Finding, Kernel, at_loads
from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
    CeilDiv,
    Expr,
    FloorDiv,
    align_up,
    const,
)
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.graph import BufferKind, Node
from autofuse.implgraph.ops.definition import Call as CallRow
from autofuse.implgraph.ops.registry import find_call

__all__ = [
    "buffers_equal_the_plan",
    "calls_cover_the_tile",
    "calls_fit_their_buffers",
    "calls_match_their_nodes",
    "copies_fit_their_buffers",
    "dma_fields_do_not_truncate",
    "ub_is_within_its_limit",
]


# memory ---------------------------------------------------------------------------------------
def buffers_equal_the_plan(kernel: Kernel) -> Iterator[Finding]:
    """InitBuffer states the plan's bytes and numbers, and tensors come from the buffers of their nodes."""
    have = {
        i.stmt.name: (i.stmt, i.values[0]) for i in kernel.items if isinstance(i.stmt, InitBuffer)
    }
    for b in kernel.impl.buffers:
        name = kernel.planned.get((b.kind, b.id), f"{b.kind.value} {b.id}")
        if name not in have:
            yield Finding(f"{name} of the plan gets no memory")
            continue
        stmt, nbytes = have.pop(name)
        number = b.buf_num if b.kind is BufferKind.QUEUE else 0
        if stmt.buf_num != number:
            yield Finding(f"{name} has {stmt.buf_num} buffers, {number} in the plan")
        yield from kernel.same(nbytes, b.nbytes, f"bytes of {name}, in the kernel and in the plan")
        yield from kernel.multiple(nbytes, kernel.arch.block_bytes, f"bytes of {name}")
    for name in have:
        yield Finding(f"{name} gets memory, but is not in the plan")
    for item in kernel.items:
        if isinstance(item.stmt, GetBuf):
            node = kernel.locals.get(item.stmt.local)
            if (
                node is not None
                and kernel.planned.get((BufferKind.BUF, node.y.buf)) != item.stmt.buf
            ):
                yield Finding(f"{item.stmt.local} is taken from {item.stmt.buf}", node.name)
        elif isinstance(item.stmt, Alias):
            node = kernel.locals.get(item.stmt.local)
            if node is not None and kernel.local_of(node.over or "") != item.stmt.of:
                yield Finding(f"{item.stmt.local} has the memory of {item.stmt.of}", node.name)


def ub_is_within_its_limit(kernel: Kernel) -> Iterator[Finding]:
    """The buffers add up to ``tiling.ub``, which grows with the tile: the host solves for the actual use."""
    total = ZERO
    for item in kernel.items:
        if isinstance(item.stmt, InitBuffer):
            total = total + item.values[0] * max(item.stmt.buf_num, 1)
            if not kernel.prover.monotone(item.values[0], kernel.spec.opened.symbol):
                yield Finding(
                    f"the bytes of {item.stmt.name} fall as the tile grows: {item.values[0]}"
                )
    yield from kernel.same(total, kernel.spec.ub, "bytes of all buffers, and tiling.ub")
    if kernel.spec.ub_limit > kernel.target.ub_usable:
        yield Finding(
            f"the limit {kernel.spec.ub_limit} is above the {kernel.target.ub_usable} usable bytes"
        )


# calls ----------------------------------------------------------------------------------------
def _extent(kernel: Kernel, n: Node, axis: int) -> Expr:
    """Return the iterations of a vectorised axis where ``n`` runs: of this tile, or of a whole one."""
    whole = kernel.is_whole(n) and axis == kernel.tile_in.id
    return kernel.t if whole else kernel.extent(axis)


def _bytes(elements: Expr, dtype: DType) -> Expr:
    return CeilDiv(elements, 8) if dtype.kind == "m" else elements * dtype.itemsize


def _row(kernel: Kernel, n: Node) -> CallRow | None:
    return find_call(n.op, kernel.arch)


def _calls(kernel: Kernel, *, fills: bool = False) -> Iterator[tuple[Item, Call, Node, list[Expr]]]:
    """Yield calls with the nodes whose results they write; ``fills``: those that fill registers instead."""
    for item in kernel.items:
        s = item.stmt
        if isinstance(s, Call) and item.fills == fills:
            node = kernel.maker(item, s.writes[0])
            if node is not None:
                yield item, s, node, [kernel.value(a.value) for a in s.args if isinstance(a, Count)]


def calls_match_their_nodes(kernel: Kernel) -> Iterator[Finding]:
    """A call writes the result of a node and reads its operands, in the right positions."""
    for item in kernel.items:
        if isinstance(item.stmt, Call) and item.stmt.writes[0] not in kernel.locals:
            yield Finding(
                f"{item.stmt.api} writes {item.stmt.writes[0]}, which is no node's result"
            )
    seen = set()
    for item, s, n, _ in _calls(kernel):
        seen.add(n.name)
        want = [kernel.local_of(n.name)]
        scalars = {kernel.scalars.get(a.name) for a in s.args if isinstance(a, ScalarVar)}
        for x in n.inputs:
            scalar = kernel.nodes[x].op == "Scalar" or kernel.local_of(x) in scalars
            want += [] if scalar else [kernel.local_of(x)]
        want += [kernel.scratch_of(n)] * len(n.tmp_buffers)
        have = [a.local for a in s.args if isinstance(a, LocalArg)]
        if have != want:
            yield Finding(f"{s.api} gets ({', '.join(have)}), its node ({', '.join(want)})", n.name)
        if kernel.place_of(n) != item.place:
            yield Finding(f"{s.api} runs in other loops than its node", n.name)
        row = _row(kernel, n)
        f = FUNCTIONS.get(s.api)
        of = f.of(n, s.form) if f is not None else ()
        if row is None or row.api != s.api or s.of != of:
            yield Finding(f"{n.op} is done by {s.api}", n.name)
        if not _same_constants(kernel, s, n):
            yield Finding(f"{s.api} gets another constant than {n.op}", n.name)
        if (set(s.writes), set(s.reads)) != _touched(kernel, n, s, have):
            yield Finding(f"{s.api} states other reads and writes than its operands", n.name)
    filled = set[str]()
    for _, s, n, _ in _calls(kernel, fills=True):
        filled.add(n.name)
        row = _row(kernel, n)
        copied = tuple(kernel.local_of(x) for x in n.inputs if kernel.nodes[x].op != "Scalar")
        same = s.reads == copied and (not copied or s.form == "Outer")
        if row is None or row.api != s.api or not same or not _same_constants(kernel, s, n):
            yield Finding(f"a register is filled in place of {n.name}, which is another", n.name)
    in_ub = {x for i in kernel.items for x in i.reads_in_ub}
    for n in kernel.impl.nodes:
        if n.api is None or n.api.unit != "Vector" or n.name in seen:
            continue
        if n.name not in filled:
            yield Finding(f"no call makes {n.name}", n.name)
        elif kernel.local_of(n.name) in in_ub:
            yield Finding(f"no call fills {n.name} in UB, where it is read", n.name)


def _same_constants(kernel: Kernel, s: Call, n: Node) -> bool:
    """Return True if the constants of a call are those of its node; integers are compared as bits."""
    scalars = [kernel.nodes[x] for x in n.inputs if kernel.nodes[x].op == "Scalar"]
    want = [x.attrs.get("value") for x in scalars if "value" in x.attrs]
    have = [a for a in s.args if isinstance(a, Number)]
    if len(want) != len(have):
        return False
    for value, a in zip(want, have, strict=True):
        assert isinstance(value, int | float)
        if a.dtype.kind in "iu":
            if (int(value) - int(a.value)) % (1 << a.dtype.bits):
                return False
        elif float(value).hex() != float(a.value).hex():  # NaN and the sign of 0 count.
            return False
    return True


def _touched(kernel: Kernel, n: Node, s: Call, have: list[str]) -> tuple[set[str], set[str]]:
    scratch = {x for x in have if kernel.scratch.get(x) is n}
    # The carry of a running sum is read and written.
    carries = s.api in FUNCTIONS and FUNCTIONS[s.api].carries
    carry = set(have[2:3]) - scratch if carries else set[str]()
    return {have[0], *scratch, *carry}, set(have[1:]) - scratch


def calls_cover_the_tile(kernel: Kernel) -> Iterator[Finding]:
    """The count of a call matches its result in this tile, rounded up if the call requires it."""
    for item, s, n, counts in _calls(kernel, fills=True):
        f = FUNCTIONS.get(s.api)
        if f is not None and f.covers is not None:
            # Instead of copies for all tiles: copies for the rows of this one, or for all rows before the loop.
            extent = kernel.extent if item.inside else partial(_extent, kernel, n)
            yield from f.covers(Proof(kernel, s, n, counts, extent))
    for _item, s, n, counts in _calls(kernel):
        proof = Proof(kernel, s, n, counts, partial(_extent, kernel, n))
        want = proof.span(n.y)
        if n.op == "Iota":
            yield from _line_starts(kernel, s, n)
        f = FUNCTIONS.get(s.api)
        if f is not None and f.covers is not None:
            yield from f.covers(proof)
            continue
        if len(counts) != 1:
            yield Finding(f"{s.api} has {len(counts)} counts", n.name)
            continue
        row = _row(kernel, n)
        dtype = _counted(kernel, n)
        if n.y.dtype.kind == "m" and s.api in ("And", "Or", "Not"):
            yield from kernel.at_least(counts[0] * 16, want, f"bits of {s.api}", n.name)
            yield from kernel.at_least(
                align_up(want, 8 * kernel.arch.block_bytes),
                counts[0] * 16,
                f"bits of {s.api}, rounded",
                n.name,
            )
            continue
        if row is not None and row.style in ("bits_1", "bits_2"):
            want = want * (n.y.dtype.itemsize // 2)  # 16 bits at a time.
        unit = kernel.arch.vector_bytes if row is not None and row.whole_repeats else 0
        unit = kernel.arch.block_bytes if s.api == "DataCopy" else unit
        if not unit:
            yield from kernel.same(counts[0], want, f"elements of {s.api}", n.name)
            continue
        rounded = align_up(want, max(unit // dtype.itemsize, 1))
        yield from kernel.same(
            counts[0], rounded, f"elements of {s.api}, in steps of {unit} bytes", n.name
        )


def _line_starts(kernel: Kernel, s: Call, n: Node) -> Iterator[Finding]:
    """Check that the first value of an Iota belongs to the tile's first index."""
    have = [kernel.value(a.value) for a in s.args if isinstance(a, SizeValue)]
    start, step = (n.size(k, d) for k, d in (("start", 0), ("step", 1)))
    for value, wanted in zip(have, (start + step * kernel.start_of(n), step), strict=True):
        yield from kernel.same(value, wanted, f"number of {s.api}", n.name)


def _counted(kernel: Kernel, n: Node) -> DType:
    """Return the type whose elements the call counts: that of the operand, for Compare, else of the result."""
    if n.y.dtype.kind == "m" and n.inputs:
        return kernel.nodes[n.inputs[0]].y.dtype
    return n.y.dtype


def calls_fit_their_buffers(kernel: Kernel) -> Iterator[Finding]:
    """No call accesses an operand beyond its buffer, with its count rounded."""
    for _item, s, n, counts in _calls(kernel):
        f = FUNCTIONS.get(s.api)
        if f is not None and f.fits is not None:
            yield from f.fits(Proof(kernel, s, n, counts, partial(_extent, kernel, n)))
            continue
        if len(counts) != 1:
            continue
        for arg in s.args:
            if not isinstance(arg, LocalArg):
                continue
            room = kernel.nbytes.get(kernel.buffer_of(arg.local))
            if room is None:
                yield Finding(f"{arg.local} has no memory", n.name)
                continue
            node = kernel.locals.get(arg.local)
            row = _row(kernel, n)
            if node is None:
                if row is not None and row.tmp is not None:
                    used = row.tmp(counts[0], n.y.dtype)
                    yield from kernel.at_least(room, used, f"scratch space of {s.api}", n.name)
                continue
            dtype = arg.as_type or node.y.dtype
            used = _bytes(counts[0], dtype)
            yield from kernel.at_least(room, used, f"bytes of {arg.local} in {s.api}", n.name)


# copies ---------------------------------------------------------------------------------------
def copies_fit_their_buffers(kernel: Kernel) -> Iterator[Finding]:
    """Every block of a DMA command starts at a 32-byte address of its buffer, and ends in it, filler included."""
    for item, s, block in at_loads(kernel):
        node = kernel.node_of(s.local)
        room = kernel.nbytes.get(kernel.buffer_of(s.local))
        if room is None:
            yield Finding(f"{s.local} has no memory", node)
            continue
        made = kernel.locals.get(s.local)
        if made is not None and made.y.dtype.itemsize != s.dtype.itemsize:
            yield Finding(f"{s.local} is {made.y.dtype}, but is copied as {s.dtype}", node)
        at = item.values[0] * s.dtype.itemsize
        yield from kernel.at_least(at, ZERO, "UB address of a copy", node, item)
        unit = kernel.arch.block_bytes
        yield from kernel.multiple(at, unit, "UB address of a copy", node, item)
        if isinstance(block, DmaDims):
            end = at + block.ub_span * s.dtype.itemsize
            yield from kernel.at_least(room, end, f"bytes of {s.local} in a copy", node, item)
            continue
        length = align_up(block.length, kernel.arch.block_bytes)
        end = at + length
        if block.count != 1:
            end = end + (block.count - 1) * (length + block.ub_gap * kernel.arch.block_bytes)
        yield from kernel.at_least(room, end, f"bytes of {s.local} in a copy", node, item)


def dma_fields_do_not_truncate(kernel: Kernel) -> Iterator[Finding]:
    """Descriptor fields, and bytes of InitBuffer, are within the limits of their types and of the chip."""
    limit, gap_max = kernel.spec.ub_limit, kernel.arch.dma_gap_max
    if limit >= 1 << 32:
        yield Finding(f"the UB limit {limit} does not fit 32 bits")
    for item, s, block in at_loads(kernel):
        node = kernel.node_of(s.local)
        if isinstance(block, DmaDims):
            yield from _dims(kernel, block, node, item)
            continue
        count, length = kernel.arch.dma_block_count_max, kernel.arch.dma_block_len_max
        room = kernel.nbytes.get(kernel.buffer_of(s.local), ZERO)
        yield from kernel.at_least(const(count), block.count, "blockCount", node, item)
        yield from kernel.at_least(block.count, ZERO, "blockCount", node, item)
        yield from kernel.at_least(block.length, ZERO, "blockLen", node, item)
        # All buffers together fit the limit of UB, for every tile that the host may choose.
        if limit > length or not kernel.prover.nonneg(room - block.length):
            yield from kernel.at_least(const(length), block.length, "blockLen", node, item)
        for gap, what in ((block.gm_gap, "GM gap"), (block.ub_gap, "UB gap")):
            yield from kernel.at_least(gap, ZERO, what, node, item)
            if limit <= gap_max and what == "UB gap" and kernel.prover.nonneg(room - gap):
                continue
            yield from kernel.at_least(const(gap_max), gap, what, node, item)
        if not s.pad:
            yield from _whole_blocks(kernel, s, block, item)


def _dims(kernel: Kernel, block: DmaDims, node: str, item: Item) -> Iterator[Finding]:
    """Check that dimensions are nonempty and lie after their inner ones in UB, so that no element is written twice."""
    most, far, dims = kernel.arch.dma_dim_max, kernel.arch.dma_dim_stride_max, block.dims
    if len(dims) > kernel.arch.dma_dims:
        yield Finding(f"a load of {len(dims)} dimensions", node)
    inside = ONE
    for d in reversed(dims):
        yield from kernel.at_least(d.size, ONE, "size of a dimension", node, item)
        yield from kernel.at_least(const(most), d.size, "size of a dimension", node, item)
        yield from kernel.at_least(d.gm, ZERO, "GM stride of a dimension", node, item)
        yield from kernel.at_least(const(far), d.gm, "GM stride of a dimension", node, item)
        yield from kernel.at_least(const(most), d.ub, "UB stride of a dimension", node, item)
        yield from kernel.at_least(d.ub, inside, "UB stride of a dimension", node, item)
        inside = inside + (d.size - 1) * d.ub


def _whole_blocks(
    kernel: Kernel, s: CopyIn | CopyOut, block: DmaBlock, item: Item
) -> Iterator[Finding]:
    """Check the blocks of a DataCopy, whose descriptor counts them."""
    unit, most = kernel.arch.block_bytes, kernel.arch.dma_blocks_max
    node = kernel.node_of(s.local)
    for e, what in (
        (block.length, "blockLen of DataCopy"),
        (block.gm_gap, "GM gap of DataCopy"),
    ):
        yield from kernel.multiple(e, unit, what, node, item)
        room = kernel.nbytes.get(kernel.buffer_of(s.local), ZERO)
        if kernel.spec.ub_limit > most * unit or not kernel.prover.nonneg(room - e):
            yield from kernel.at_least(const(most), FloorDiv(e, unit), what, node, item)
