"""Small wrong changes to KernelIR, to ask of a verifier whether it sees them.

:func:`mutants` yields every change of the classes in :data:`CLASSES`, one at a time.  A mutant is a function of the
same form, so it can be verified statically, emitted, compiled and run.  The order depends on the function alone.

Few mutants of functions that code generation made are equivalent: no sync and no barrier is there for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from autofuse.codegen.backends.ascendc.emit_cpp import callee
from autofuse.codegen.ir.calls import Call, Count, LocalArg, Number
from autofuse.codegen.ir.kernel_ir import (
    Alloc,
    Barrier,
    CopyIn,
    CopyOut,
    DeQue,
    DmaBlock,
    DmaDims,
    DmaLet,
    EnQue,
    For,
    Free,
    GlobalDecl,
    IndexRead,
    InitBuffer,
    KernelFn,
    Let,
    Stmt,
    Sync,
)
from autofuse.implgraph.expr.expression import Expr, Func, const
from autofuse.schedule.placement.copied import DmaDim

__all__ = ["CLASSES", "Mutant", "mutants"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed function.

    Attributes:
        kind: class of the change, a key of :data:`CLASSES`.
        text: what was changed, for people.
    """

    kind: str
    text: str
    fn: KernelFn


Path: TypeAlias = tuple[int, ...]
_Edit: TypeAlias = Callable[[Stmt], Iterator[tuple[str, Stmt | None]]]


def mutants(fn: KernelFn, kinds: tuple[str, ...] | None = None) -> Iterator[Mutant]:
    """All mutants of ``fn``, or those of some classes."""
    for kind, edit in CLASSES.items():
        if kinds is not None and kind not in kinds:
            continue
        for path, s in _walk(fn.body, ()):
            for text, changed in edit(s):
                body = _replaced(fn.body, path, changed)
                if isinstance(s, DmaLet) and isinstance(changed, DmaLet):
                    body = _renamed(body, s.name, changed.block)
                yield Mutant(kind, text, replace(fn, body=body))


# places ---------------------------------------------------------------------------------------
def _walk(body: tuple[Stmt, ...], at: Path) -> Iterator[tuple[Path, Stmt]]:
    for i, s in enumerate(body):
        yield (*at, i), s
        if isinstance(s, For):
            yield from _walk(s.body, (*at, i))


def _replaced(body: tuple[Stmt, ...], path: Path, by: Stmt | None) -> tuple[Stmt, ...]:
    i = path[0]
    if len(path) == 1:
        return (*body[:i], *([] if by is None else [by]), *body[i + 1 :])
    loop = body[i]
    assert isinstance(loop, For)
    return (*body[:i], replace(loop, body=_replaced(loop.body, path[1:], by)), *body[i + 1 :])


def _renamed(body: tuple[Stmt, ...], name: str, block: DmaBlock) -> tuple[Stmt, ...]:
    """The copies that use a named descriptor with its new fields."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For):
            s = replace(s, body=_renamed(s.body, name, block))
        elif isinstance(s, CopyIn | CopyOut) and s.block_name == name:
            s = replace(s, block=block)
        out.append(s)
    return tuple(out)


# edits ----------------------------------------------------------------------------------------
def _delete(kind: type) -> _Edit:
    def edit(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
        if isinstance(s, kind):
            yield f"without {_short(s)}", None

    return edit


def _short(s: Stmt) -> str:
    if isinstance(s, Alloc | EnQue | DeQue | Free):
        return f"{type(s).__name__} of {s.local}"
    if isinstance(s, CopyIn | CopyOut):
        return f"{type(s).__name__} of {s.local}"
    if isinstance(s, Sync):
        return f"the sync {s.event}"
    if isinstance(s, Barrier):
        return f"a barrier of {s.pipe}"
    if isinstance(s, Call):
        return f"{callee(s)} to {s.writes[0]}"
    return type(s).__name__


def _gm_offset(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    if isinstance(s, CopyIn | CopyOut):
        for by in (1, -1):
            yield f"{_short(s)}: GM offset {by:+d}", replace(s, gm_offset=s.gm_offset + by)


def _ub_offset(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    if isinstance(s, CopyIn | CopyOut):
        step = max(32 // s.dtype.itemsize, 1)
        yield f"{_short(s)}: UB offset +{step}", replace(s, local_offset=s.local_offset + step)


def _index(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    """Another index is read, or it is brought inside another dimension."""
    if isinstance(s, IndexRead):
        yield f"{s.name}: UB offset +1", replace(s, offset=s.offset + 1)
        for by in (1, -1):
            yield f"{s.name}: extent {by:+d}", replace(s, extent=s.extent + by)


def _blocks(change: Callable[[DmaBlock, int], Iterator[tuple[str, DmaBlock]]]) -> _Edit:
    def edit(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
        if isinstance(s, DmaLet):
            for text, block in change(s.block, 4):
                yield f"{s.name}: {text}", replace(s, block=block)
        elif isinstance(s, CopyIn | CopyOut) and not s.block_name and isinstance(s.block, DmaBlock):
            for text, block in change(s.block, s.dtype.itemsize):
                yield f"{_short(s)}: {text}", replace(s, block=block)

    return edit


def _length(b: DmaBlock, size: int) -> Iterator[tuple[str, DmaBlock]]:
    for by in (size, -size):
        yield f"length {by:+d}", replace(b, length=b.length + by)


def _count(b: DmaBlock, size: int) -> Iterator[tuple[str, DmaBlock]]:
    del size
    for by in (1, -1):
        yield f"count {by:+d}", replace(b, count=b.count + by)


def _gap(b: DmaBlock, size: int) -> Iterator[tuple[str, DmaBlock]]:
    if b.count != 1:
        yield f"GM gap +{size}", replace(b, gm_gap=b.gm_gap + size)
        yield "UB gap +1", replace(b, ub_gap=b.ub_gap + 1)


def _dims(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    """A load of several dimensions: sizes and strides by one, two neighbours that change their strides, one less."""
    if not isinstance(s, CopyIn) or not isinstance(s.block, DmaDims):
        return
    dims = s.block.dims

    def made(text: str, changed: Sequence[DmaDim]) -> tuple[str, Stmt]:
        return f"{_short(s)}: {text}", replace(s, block=DmaDims(tuple(changed)))

    for i, d in enumerate(dims):
        for by in (1, -1):
            for name, other in (
                ("size", replace(d, size=d.size + by)),
                ("GM stride", replace(d, gm=d.gm + by)),
                ("UB stride", replace(d, ub=d.ub + by)),
            ):
                yield made(f"{name} {i} {by:+d}", (*dims[:i], other, *dims[i + 1 :]))
        yield made(f"without dimension {i}", (*dims[:i], *dims[i + 1 :]))
    for i, (a, b) in enumerate(pairwise(dims)):
        turned = replace(a, gm=b.gm), replace(b, gm=a.gm)
        yield made(f"GM strides {i} and {i + 1}", (*dims[:i], *turned, *dims[i + 2 :]))


def _gm_base(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    """A parameter, or a piece of the workspace, starts elsewhere."""
    if isinstance(s, GlobalDecl):
        for by in (32, -32):
            yield f"{s.name} {by:+d} bytes", replace(s, offset=s.offset + by)


def _elements(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    if isinstance(s, Call) and not _reduces(s):
        yield from _counts(s, ())


def _reduced(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    """``outer`` and ``n`` by one; the pitch, or ``inner``, so that rows stay where a row may start."""
    if isinstance(s, Call) and _reduces(s):
        yield from _counts(s, (1, 1, 32))


def _reduces(s: Call) -> bool:
    return s.api == "Reduce"


def _counts(s: Call, steps: tuple[int, ...]) -> Iterator[tuple[str, Stmt | None]]:
    """Every count by its step, or by one."""
    places = [(i, a) for i, a in enumerate(s.args) if isinstance(a, Count)]
    for n, (i, a) in enumerate(places):
        step = steps[n] if n < len(steps) else 1
        for by in (step, -step):
            args = (*s.args[:i], Count(a.value + by), *s.args[i + 1 :])
            number = f" {n}" if len(places) > 1 else ""
            yield f"{_short(s)}: count{number} {by:+d}", replace(s, args=args)


def _constant(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    if isinstance(s, Call):
        for i, a in enumerate(s.args):
            if isinstance(a, Number):
                other = a.value + (-1 if a.value > 0 else 1) if math.isfinite(a.value) else 0
                other = 0 if other == a.value else other
                args = (*s.args[:i], Number(other, a.dtype), *s.args[i + 1 :])
                yield f"{_short(s)}: {other} for {a.value}", replace(s, args=args)


def _tail(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    """``Min(t, E - j*t)`` without the second: every tile is taken to be full, every core to be busy."""
    if isinstance(s, Let):
        for value in _without_min(s.value):
            yield f"{s.name} = {value}", replace(s, value=value)


def _without_min(e: Expr) -> Iterator[Expr]:
    if len(e.terms) == 1 and len(e.terms[0][0]) == 1:
        atom = e.terms[0][0][0][0]
        if isinstance(atom, Func) and atom.name == "Min":
            yield from atom.args


def _buffer(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    if isinstance(s, InitBuffer):
        yield f"{s.name}: 32 bytes less", replace(s, nbytes=s.nbytes - 32)
        if s.buf_num > 1:
            yield f"{s.name}: one buffer less", replace(s, buf_num=s.buf_num - 1)


def _operands(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    """Two operands of a call change places, where they are different ones."""
    if isinstance(s, Call):
        places = [i for i, a in enumerate(s.args) if isinstance(a, LocalArg)]
        for i, j in pairwise(places[1:]):
            a, b = s.args[i], s.args[j]
            if a != b:
                args = list(s.args)
                args[i], args[j] = b, a
                yield f"{_short(s)}: operands {i} and {j}", replace(s, args=tuple(args))


def _loop(s: Stmt) -> Iterator[tuple[str, Stmt | None]]:
    if isinstance(s, For):
        for by in (1, -1):
            yield (
                f"the loop over {s.var} runs {by:+d} times",
                replace(s, extent=s.extent + const(by)),
            )


#: Name of a class -> its changes of one statement; None in place of a statement deletes it.
CLASSES: dict[str, _Edit] = {
    "delete-alloc": _delete(Alloc),
    "delete-enque": _delete(EnQue),
    "delete-deque": _delete(DeQue),
    "delete-free": _delete(Free),
    "delete-barrier": _delete(Barrier),
    "delete-sync": _delete(Sync),
    "delete-copy-in": _delete(CopyIn),
    "delete-copy-out": _delete(CopyOut),
    "delete-call": _delete(Call),
    "gm-base": _gm_base,
    "gm-offset": _gm_offset,
    "ub-offset": _ub_offset,
    "index-read": _index,
    "dma-length": _blocks(_length),
    "dma-count": _blocks(_count),
    "dma-gap": _blocks(_gap),
    "dma-dims": _dims,
    "call-count": _elements,
    "reduce-shape": _reduced,
    "drop-tail": _tail,
    "loop-extent": _loop,
    "shrink-buffer": _buffer,
    "swap-operands": _operands,
    "change-constant": _constant,
}
