"""Name each distinct GM offset and DMA descriptor of a block once, and a constant descriptor once for the function.

Most loads and stores of one tile move the same byte ranges of different tensors; shared names are shorter to read, and
cost the scalar unit less.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    Comment,
    CopyIn,
    CopyOut,
    DmaBlock,
    DmaDims,
    DmaLet,
    For,
    IndexRead,
    KernelFn,
    Let,
    Stmt,
)
from autofuse.implgraph.expr.expression import ZERO, Expr, sym
from autofuse.implgraph.ir.frozen import replace

__all__ = ["NameCopies"]


_COPIES = frozenset({CopyIn, CopyOut})
#: Copies, and statements that affect their names.
_CONCERNED = _COPIES | {IndexRead}


@dataclass(slots=True)
class _Names:
    """Names of one block; ``count`` holds the next number of each stem, unique within a function."""

    count: dict[str, int]
    offsets: dict[Expr, str] = field(default_factory=dict)
    blocks: dict[tuple[bool, DmaBlock], str] = field(default_factory=dict)
    made: list[Stmt] = field(default_factory=list)

    def fresh(self, stem: str) -> str:
        number = self.count.get(stem, 0)
        self.count[stem] = number + 1
        return f"{stem}{number}"

    def offset(self, e: Expr) -> Expr:
        if len(e.terms) == 0 or (len(e.terms) == 1 and len(e.terms[0][0]) <= 1):
            return e
        name = self.offsets.get(e)
        if name is None:
            name = self.offsets[e] = self.fresh("offset")
            self.made.append(Let(name, e))
        return sym(name)

    def block(self, b: DmaBlock, load: bool) -> str:
        # Without gaps, loads and stores share descriptors.
        key = (load and not (b.gm_gap == ZERO and b.ub_gap == ZERO), b)
        name = self.blocks.get(key)
        if name is None:
            name = self.blocks[key] = self.fresh("block")
            self.made.append(DmaLet(name, b, load))
        return name


@dataclass(frozen=True)
class NameCopies:
    """Name DataCopyPad copies; copies in loops over a tensor's rows keep their offsets, which change there."""

    name: str = "name-copies"

    def __call__(self, fn: KernelFn) -> KernelFn:
        """Return the function with named offsets and descriptors."""
        counters: dict[str, int] = {}
        constants = _Names(counters)
        body = list(_named(_with_constants(fn.body, constants), counters))
        for i, s in enumerate(body):
            if isinstance(s, For):
                body[i] = replace(s, body=_in_tile(_named(s.body, counters), counters))
        at = next((i for i, s in enumerate(body) if type(s) in _COPIES or isinstance(s, For)), 0)
        if constants.made and not isinstance(body[at], For):
            at = _statement_start(body, at)
        return replace(fn, body=(*body[:at], *constants.made, *body[at:]))


def _with_constants(body: tuple[Stmt, ...], constants: _Names) -> tuple[Stmt, ...]:
    """Name the descriptors of all copies that are the same for every tile and row."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            s = replace(s, body=_with_constants(s.body, constants))
        elif isinstance(s, (CopyIn, CopyOut)) and isinstance(s.block, DmaBlock):
            moved = s.pad and not (isinstance(s, CopyIn) and s.scalar)
            if moved and all([e.is_const for e in s.block.exprs()]):
                s = replace(s, block_name=constants.block(s.block, isinstance(s, CopyIn)))
        out.append(s)
    return tuple(out)


def _in_tile(body: tuple[Stmt, ...], counters: dict[str, int]) -> tuple[Stmt, ...]:
    """Name offsets and descriptors in inner loops whose iterations have their own tiles."""
    if For not in map(type, body):
        return body
    return tuple(
        replace(s, body=_named(s.body, counters))
        if isinstance(s, For) and Alloc in map(type, s.body)
        else s
        for s in body
    )


def _named(body: tuple[Stmt, ...], counters: dict[str, int]) -> tuple[Stmt, ...]:
    """Return the statements of one block, with definitions after the leading Lets or before the first copy.

    An offset that depends on a tensor's contents stays in place.
    """
    if _COPIES.isdisjoint(map(type, body)):
        return body
    names = _Names(counters)
    out: list[Stmt] = []
    first: int | None = None
    read: set[str] = set()
    for s in body:
        if type(s) not in _CONCERNED:
            pass
        elif isinstance(s, IndexRead):
            read.add(s.name)
        elif isinstance(s, CopyIn) and s.scalar:
            pass
        elif isinstance(s, (CopyIn, CopyOut)) and s.pad:
            if first is None:
                first = len(out)
            named = s.block_name
            # Multi-dimensional loads spell out their descriptors.
            if not named and not isinstance(s.block, DmaDims):
                named = names.block(s.block, isinstance(s, CopyIn))
            fixed = read.isdisjoint(s.gm_offset.symbols())
            offset = names.offset(s.gm_offset) if fixed else s.gm_offset
            s = replace(s, gm_offset=offset, block_name=named)
        out.append(s)
    if first is None:
        return body
    # A loop body begins with the indices that offsets depend on; a function begins with other code.
    if For in map(type, body):
        at = _statement_start(out, first)
    else:
        at = next((i for i, s in enumerate(out) if not isinstance(s, Let)), len(out))
    return (*out[:at], *names.made, *out[at:])


def _statement_start(body: list[Stmt], at: int) -> int:
    """Return the index of the comment above the statement group of ``body[at]``."""
    while at > 0 and not isinstance(body[at], Comment):
        at -= 1
    return at
