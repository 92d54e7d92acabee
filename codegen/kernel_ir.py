"""KernelIR: the statements of one device function.  The whole grammar is on this page.

Sizes are :class:`Expr` over C++ variables that a ``Let`` or a ``For`` of the same function defines.  Text is made by
``emit_cpp.py`` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from autofuse.implgraph.dtypes import DType
from autofuse.implgraph.expr import ZERO, Expr
from autofuse.implgraph.graph import Position

__all__ = [
    "Alias",
    "Alloc",
    "Arg",
    "Barrier",
    "BlockIndex",
    "BufDecl",
    "BypassL2",
    "Call",
    "Comment",
    "CopyIn",
    "CopyOut",
    "Count",
    "DeQue",
    "DmaBlock",
    "DmaLet",
    "EnQue",
    "EnumArg",
    "For",
    "Free",
    "GetBuf",
    "GlobalDecl",
    "IndexRead",
    "InitBuffer",
    "KernelFn",
    "Let",
    "LocalArg",
    "Number",
    "PipeDecl",
    "QueueDecl",
    "ReturnIfEmpty",
    "ScalarRead",
    "ScalarVar",
    "SizeValue",
    "Stmt",
    "Sync",
]


# arguments of calls ---------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class LocalArg:
    """A tensor in UB; ``as_type`` reinterprets its elements."""

    local: str
    as_type: DType | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """A number of elements."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Number:
    """A compile-time scalar of exactly ``dtype``."""

    value: float | int
    dtype: DType


@dataclass(frozen=True, slots=True)
class ScalarVar:
    """A scalar that a ScalarRead defined."""

    name: str


@dataclass(frozen=True, slots=True)
class EnumArg:
    """An enumerator such as ``RoundMode::CAST_RINT``."""

    text: str


@dataclass(frozen=True, slots=True)
class SizeValue:
    """A scalar of ``dtype`` that is known when the kernel runs: a size, or an index."""

    value: Expr
    dtype: DType


Arg: TypeAlias = LocalArg | Count | Number | ScalarVar | EnumArg | SizeValue


# statements -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Comment:
    """``// text``."""

    text: str


@dataclass(frozen=True, slots=True)
class Let:
    """``const int64_t name = value``."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """``const int64_t name = GetBlockIdx()``; counted from another core if ``first`` says which."""

    name: str
    first: Expr | None = None


@dataclass(frozen=True, slots=True)
class ReturnIfEmpty:
    """Leaves the function if ``value`` <= 0: this core has no tile."""

    value: str


@dataclass(frozen=True, slots=True)
class GlobalDecl:
    """A GlobalTensor over the kernel's parameter ``param``, from its byte ``offset`` on."""

    name: str
    dtype: DType
    param: str
    offset: Expr = ZERO


@dataclass(frozen=True, slots=True)
class BypassL2:
    """Loads from the GlobalTensor ``name`` bypass L2 if the kernel's bytes, ``held``, are more than ``size``."""

    name: str
    held: Expr
    size: int


@dataclass(frozen=True, slots=True)
class PipeDecl:
    """The TPipe of the function."""

    name: str


@dataclass(frozen=True, slots=True)
class QueueDecl:
    """A TQue, or with ``copy`` a TQueBind from VECIN to VECOUT."""

    name: str
    position: Position
    depth: int
    copy: bool = False


@dataclass(frozen=True, slots=True)
class BufDecl:
    """A TBuf."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class InitBuffer:
    """Memory for a queue (``buf_num`` buffers) or a TBuf (``buf_num`` 0)."""

    pipe: str
    name: str
    buf_num: int
    nbytes: Expr


@dataclass(frozen=True, slots=True)
class GetBuf:
    """The tensor of a TBuf."""

    local: str
    buf: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Alloc:
    """A free buffer of the queue."""

    local: str
    queue: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name for the memory of ``of``, a tensor of a queue that is no longer needed."""

    local: str
    of: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class EnQue:
    """Hands the tensor to the other side of the queue.

    ``link``: of a TQueBind whose buffers pass through vector calls as well, ``in`` from the load to these, ``out`` from
    them to the store.
    """

    local: str
    queue: str
    dtype: DType
    link: str = ""


@dataclass(frozen=True, slots=True)
class DeQue:
    """Takes it on the other side; ``link`` as of EnQue."""

    local: str
    queue: str
    dtype: DType
    link: str = ""


@dataclass(frozen=True, slots=True)
class Free:
    """Gives the buffer back to the queue."""

    local: str
    queue: str


@dataclass(frozen=True, slots=True)
class DmaBlock:
    """Blocks of one DMA command.  ``length`` and ``gm_gap`` in bytes, ``ub_gap`` in 32-byte units, end to start."""

    count: Expr
    length: Expr
    gm_gap: Expr
    ub_gap: Expr


@dataclass(frozen=True, slots=True)
class DmaLet:
    """A named descriptor for loads (``load``) or stores."""

    name: str
    block: DmaBlock
    load: bool


@dataclass(frozen=True, slots=True)
class CopyIn:
    """GM -> UB.  Offsets in elements.

    ``pad``: DataCopyPad; otherwise DataCopy of whole 32-byte units.  ``block_name``: the DmaLet with this block.
    """

    local: str
    local_offset: Expr
    gm: str
    gm_offset: Expr
    dtype: DType
    block: DmaBlock
    pad: bool = True
    block_name: str = ""


@dataclass(frozen=True, slots=True)
class CopyOut:
    """UB -> GM; fields as CopyIn."""

    local: str
    local_offset: Expr
    gm: str
    gm_offset: Expr
    dtype: DType
    block: DmaBlock
    pad: bool = True
    block_name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A vector call; ``writes`` and ``reads`` name the tensors whose bytes it touches (scratch counts as written)."""

    api: str
    args: tuple[Arg, ...]
    writes: tuple[str, ...]
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScalarRead:
    """``const T name = local.GetValue(0)`` on the scalar unit."""

    name: str
    local: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class IndexRead:
    """``const int64_t name = autofuse::IndexIn(local.GetValue(offset), extent)`` on the scalar unit.

    The place along a dimension of ``extent`` elements that an element of ``local`` names: 0 <= name < extent.
    """

    name: str
    local: str
    offset: Expr
    dtype: DType
    extent: Expr


@dataclass(frozen=True, slots=True)
class Sync:
    """Flag set on one pipe and awaited on another; ``event`` is a HardEvent such as ``MTE2_V``."""

    event: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """All earlier instructions of the pipe finish before later ones start."""

    pipe: str


@dataclass(frozen=True, slots=True)
class For:
    """``for (int64_t var = 0; var < extent; var++)``."""

    var: str
    extent: Expr
    body: tuple[Stmt, ...]


Stmt: TypeAlias = (
    Comment
    | Let
    | BlockIndex
    | ReturnIfEmpty
    | GlobalDecl
    | BypassL2
    | PipeDecl
    | QueueDecl
    | BufDecl
    | InitBuffer
    | GetBuf
    | Alloc
    | Alias
    | EnQue
    | DeQue
    | Free
    | DmaLet
    | CopyIn
    | CopyOut
    | Call
    | ScalarRead
    | IndexRead
    | Sync
    | Barrier
    | For
)


@dataclass(frozen=True, slots=True)
class KernelFn:
    """A device function: one template.

    Attributes:
        tensors: GM parameters in the kernel's order (inputs, then outputs).
        title: comment above the function, one line per entry.
        unused: parameters that the body does not touch.
    """

    name: str
    tensors: tuple[str, ...]
    body: tuple[Stmt, ...]
    title: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
