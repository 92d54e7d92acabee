"""A tiny interpreter of KernelIR: which elements of GM every copy touches, for given sizes.

It runs the loops and the arithmetic of the function as they are written, core by core, and nothing else; so it says the
same as the kernel on a chip about addresses, and nothing about values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    BlockIndex,
    CopyIn,
    CopyOut,
    DmaBlock,
    DmaDims,
    DmaLet,
    For,
    GetBuf,
    GlobalDecl,
    IndexRead,
    InitBuffer,
    KernelFn,
    Let,
    ReturnIfEmpty,
    Stmt,
    TilingField,
)
from autofuse.implgraph.expr.expression import Expr

__all__ = ["Transfer", "run_kernel"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one DMA command of one core moved.

    Attributes:
        param: the kernel's parameter.
        pieces: (first GM byte, first UB byte, bytes) of every block.
        room: bytes of the buffer in UB.
    """

    core: int
    local: str
    param: str
    store: bool
    itemsize: int
    pieces: tuple[tuple[int, int, int], ...]
    room: int

    def elements(self) -> Iterator[int]:
        """Indices of the GM elements, in the order in which they are moved."""
        for gm, _, nbytes in self.pieces:
            yield from range(gm // self.itemsize, (gm + nbytes) // self.itemsize)


def run_kernel(fn: KernelFn, data: Mapping[str, int], cores: int) -> Iterator[Transfer]:
    """All transfers of a launch.

    Args:
        fn: the function after all passes.
        data: members of the tiling data: sizes, tile length, tiles per core.
        cores: how many cores run it.
    """
    for core in range(cores):
        yield from _Core(fn, dict(data), core).block(fn.body)


class _Left(Exception):  # noqa: N818 - not an error: a core without tiles
    pass


class _Core:
    def __init__(self, fn: KernelFn, data: dict[str, int], core: int) -> None:
        self.env: dict[str, int] = {}
        self.data = data
        self.core = core
        self.params: dict[str, str] = {}
        self.blocks: dict[str, DmaBlock | DmaDims] = {}
        #: Bytes of every buffer, as InitBuffer sets them up, and the buffer of every tensor.
        self.nbytes: dict[str, int] = {}
        self.place: dict[str, str] = {}
        self.reads = 0

    def value(self, e: Expr) -> int:
        return e.evaluate(self.env)

    def block(self, body: tuple[Stmt, ...]) -> Iterator[Transfer]:
        try:
            for s in body:
                yield from self.step(s)
        except _Left:
            return

    def step(self, s: Stmt) -> Iterator[Transfer]:
        if isinstance(s, Let):
            self.env[s.name] = self.value(s.value)
        elif isinstance(s, TilingField):
            self.env[s.name] = self.data[s.name]
        elif isinstance(s, BlockIndex):
            self.env[s.name] = self.core
        elif isinstance(s, ReturnIfEmpty):
            if self.env[s.value] <= 0:
                raise _Left
        elif isinstance(s, GlobalDecl):
            self.params[s.name] = s.param
        elif isinstance(s, InitBuffer):
            self.nbytes[s.name] = self.value(s.nbytes)
        elif isinstance(s, Alloc):
            self.place[s.local] = s.queue
        elif isinstance(s, GetBuf):
            self.place[s.local] = s.buf
        elif isinstance(s, DmaLet):
            self.blocks[s.name] = s.block
        elif isinstance(s, IndexRead):
            # Values are not known here: all places of the dimension take turns.
            self.env[s.name] = self.reads % self.value(s.extent)
            self.reads += 1
        elif isinstance(s, CopyIn | CopyOut):
            yield self.copy(s)
        elif isinstance(s, For):
            for i in range(self.value(s.extent)):
                self.env[s.var] = i
                for inner in s.body:
                    yield from self.step(inner)

    def copy(self, s: CopyIn | CopyOut) -> Transfer:
        room = self.nbytes[self.place[s.local]]
        b = self.blocks[s.block_name] if s.block_name else s.block
        if isinstance(b, DmaDims):
            return self.load_of_dims(s, b, room)
        count, length, gm_gap, ub_gap = map(self.value, (b.count, b.length, b.gm_gap, b.ub_gap))
        size = s.dtype.itemsize
        gm, ub = self.value(s.gm_offset) * size, self.value(s.local_offset) * size
        pitch = -(-length // 32) * 32 + ub_gap * 32
        pieces = tuple(
            (gm + r * (length + gm_gap), ub + r * pitch, length) for r in range(count) if length
        )
        store = isinstance(s, CopyOut)
        return Transfer(self.core, s.local, self.params[s.gm], store, size, pieces, room)

    def load_of_dims(self, s: CopyIn | CopyOut, block: DmaDims, room: int) -> Transfer:
        size = s.dtype.itemsize
        gm, ub = self.value(s.gm_offset), self.value(s.local_offset)
        dims = [(self.value(d.size), self.value(d.gm), self.value(d.ub)) for d in block.dims]
        pieces = []
        for at in product(*(range(n) for n, _, _ in dims)):
            far = sum(i * step for i, (_, step, _) in zip(at, dims, strict=True))
            near = sum(i * step for i, (_, _, step) in zip(at, dims, strict=True))
            pieces.append(((gm + far) * size, (ub + near) * size, size))
        return Transfer(self.core, s.local, self.params[s.gm], False, size, tuple(pieces), room)
