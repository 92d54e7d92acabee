"""KernelIR: the statements of one device function.  ``calls`` has vector calls and their arguments.

Sizes are :class:`Expr` over C++ variables that a ``Let`` or a ``For`` of the same function defines.  Only
``emit_cpp.py`` emits text.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from autofuse.codegen.ir.calls import Call, Role, VectorFunction
from autofuse.implgraph.expr.expression import ZERO, Expr, total
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import Position
from autofuse.schedule.placement.copied import DmaDim
from autofuse.targets import Architecture, TargetSpec

__all__ = [
    "WORKSPACE",
    "Alias",
    "Alloc",
    "Barrier",
    "BlockIndex",
    "BufDecl",
    "BypassL2",
    "Comment",
    "CopyIn",
    "CopyOut",
    "DeQue",
    "DmaBlock",
    "DmaDims",
    "DmaLet",
    "EnQue",
    "For",
    "Free",
    "GetBuf",
    "GlobalDecl",
    "IndexRead",
    "InitBuffer",
    "KernelFn",
    "Let",
    "Loop",
    "Parameters",
    "PipeDecl",
    "QueueDecl",
    "ReturnIfEmpty",
    "ScalarRead",
    "Stmt",
    "Sync",
    "TilingField",
]

#: The parameter for data that groups pass to each other in GM; the others are in ``KernelFn.params``.
WORKSPACE = "workspace"


class Loop(Enum):
    """Range of a loop: the tiles of a core, the steps of a reduction, or the rows of one copy."""

    TILES = "tiles"
    STEPS = "steps"
    ROWS = "rows"


# statements -----------------------------------------------------------------------------------
@frozen
class Comment:
    """``// text``."""

    text: str


@frozen
class Let:
    """``const int64_t name = value``."""

    name: str
    value: Expr


@frozen
class TilingField:
    """``const int64_t name = t.name``: a field of the tiling data."""

    name: str


@frozen
class BlockIndex:
    """``const int64_t name = GetBlockIdx()``; relative to the core in the tiling data's ``first``, if any."""

    name: str
    first: str | None = None


@frozen
class ReturnIfEmpty:
    """Leave the function if ``value`` <= 0: this core has no tile."""

    value: str


@frozen
class GlobalDecl:
    """A GlobalTensor over the kernel's parameter ``param``, starting at byte ``offset``."""

    name: str
    dtype: DType
    param: str
    offset: Expr = ZERO


@frozen
class BypassL2:
    """Make loads from GlobalTensors bypass L2 if the kernel's bytes, ``held``, exceed ``size``; None: always."""

    names: tuple[str, ...]
    held: Expr | None
    size: int


@frozen
class PipeDecl:
    """The function's TPipe."""

    name: str


@frozen
class QueueDecl:
    """A TQue, or with ``copy`` a TQueBind from VECIN to VECOUT; ``id``: of the queue in the plan."""

    name: str
    position: Position
    depth: int
    copy: bool = False
    id: int = 0


@frozen
class BufDecl:
    """A TBuf; ``id``: of the buffer in the plan."""

    name: str
    position: Position
    id: int = 0


@frozen
class InitBuffer:
    """Memory for a queue (``buf_num`` buffers) or a TBuf (``buf_num`` 0)."""

    pipe: str
    name: str
    buf_num: int
    nbytes: Expr


@frozen
class GetBuf:
    """The tensor of a TBuf; ``node``: node whose result or scratch space it is."""

    local: str
    buf: str
    dtype: DType
    node: str = ""
    role: Role = Role.RESULT


@frozen
class Alloc:
    """A free buffer of the queue, allocated for the result of ``node``."""

    local: str
    queue: str
    dtype: DType
    node: str = ""


@frozen
class Alias:
    """The memory of ``of``, a dead queue tensor, reused for the result of ``node``."""

    local: str
    of: str
    dtype: DType
    node: str = ""


@frozen
class EnQue:
    """Hand the tensor to the other side of the queue.

    ``link``: for a TQueBind whose buffers vector calls use as well: ``in`` from the load to these calls, ``out`` from
    the calls to the store.
    """

    local: str
    queue: str
    dtype: DType
    link: str = ""


@frozen
class DeQue:
    """Take the tensor on the other side; ``link`` as in EnQue."""

    local: str
    queue: str
    dtype: DType
    link: str = ""


@frozen
class Free:
    """Return the buffer to the queue."""

    local: str
    queue: str


@frozen
class DmaBlock:
    """Blocks of one DMA command: ``length`` and ``gm_gap`` in bytes, ``ub_gap`` in 32-byte units, end to start."""

    count: Expr
    length: Expr
    gm_gap: Expr
    ub_gap: Expr

    def exprs(self) -> tuple[Expr, ...]:
        """Return all fields."""
        return self.count, self.length, self.gm_gap, self.ub_gap


@frozen
class DmaDims:
    """The dimensions of a multi-dimensional load, outermost first."""

    dims: tuple[DmaDim, ...]

    def exprs(self) -> tuple[Expr, ...]:
        """Return all fields of all dimensions."""
        return tuple(e for d in self.dims for e in (d.size, d.gm, d.ub))

    @property
    def gm_span(self) -> Expr:
        """Return the elements of GM from the first to the last one, inclusive."""
        return total((d.size - 1) * d.gm for d in self.dims) + 1

    @property
    def ub_span(self) -> Expr:
        """Return the elements of UB from the first to the last one, inclusive."""
        return total((d.size - 1) * d.ub for d in self.dims) + 1


@frozen
class DmaLet:
    """A named descriptor for loads (``load``) or stores."""

    name: str
    block: DmaBlock
    load: bool


@frozen
class CopyIn:
    """GM -> UB copy; offsets in elements.

    ``pad``: any number of bytes, DataCopyPad if the block has no dimensions; otherwise DataCopy of whole 32-byte units.
    ``block_name``: the DmaLet with this block.  ``scalar``: no DMA; the scalar unit writes the single element, from the
    ScalarRead of this name, to UB: ``local.SetValue(0, scalar)``.
    """

    local: str
    local_offset: Expr
    gm: str
    gm_offset: Expr
    dtype: DType
    block: DmaBlock | DmaDims
    pad: bool = True
    block_name: str = ""
    scalar: str = ""


@frozen
class CopyOut:
    """UB -> GM copy; fields as in CopyIn."""

    local: str
    local_offset: Expr
    gm: str
    gm_offset: Expr
    dtype: DType
    block: DmaBlock
    pad: bool = True
    block_name: str = ""


@frozen
class ScalarRead:
    """``const T name = local.GetValue(0)`` on the scalar unit.

    ``gm``: read the element at ``offset`` of a GlobalTensor instead; it belongs to the Load ``load``, and to the tensor
    ``local`` if that exists in UB.
    """

    name: str
    local: str
    dtype: DType
    gm: str = ""
    offset: Expr = ZERO
    load: str = ""


@frozen
class IndexRead:
    """``const int64_t name = autofuse::IndexIn(local.GetValue(offset), extent)`` on the scalar unit.

    It is the index, 0 <= name < extent, that an element of ``local`` selects along a dimension of ``extent`` elements.
    The Load ``load`` takes its elements there.
    """

    name: str
    local: str
    offset: Expr
    dtype: DType
    extent: Expr
    load: str = ""


@frozen
class Sync:
    """A flag set on the pipe ``source`` and awaited on ``target``."""

    source: str
    target: str

    @property
    def event(self) -> str:
        """Return the HardEvent, such as ``MTE2_V``."""
        return f"{self.source}_{self.target}"


@frozen
class Barrier:
    """All earlier instructions of the pipe finish before later ones start."""

    pipe: str


@frozen
class For:
    """``for (int64_t var = 0; var < extent; var++)``."""

    var: str
    extent: Expr
    body: tuple[Stmt, ...]
    over: Loop = Loop.ROWS


Stmt: TypeAlias = (
    Comment
    | Let
    | TilingField
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
    | VectorFunction
    | ScalarRead
    | IndexRead
    | Sync
    | Barrier
    | For
)


@frozen
class Parameters:
    """A kernel's GM parameters for tensors, in order: inputs, then outputs."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names."""
        return (*self.inputs, *self.outputs)


@frozen
class KernelFn:
    """A device function: one template.

    Attributes:
        params: tensor parameters of the kernel.
        title: comment above the function, one line per entry.
        arch: architecture of the calls; None: nothing depends on it.
        chip: chip whose cost model chooses between forms of a call; None: the first form.
    """

    name: str
    params: Parameters
    body: tuple[Stmt, ...]
    title: tuple[str, ...] = ()
    arch: Architecture | None = None
    chip: TargetSpec | None = None

    @property
    def pointers(self) -> tuple[str, ...]:
        """Return the kernel's GM parameters that the body uses, in order; the function has no others."""
        used = {s.param for s in self.body if isinstance(s, GlobalDecl)}
        return tuple([p for p in (*self.params.names, WORKSPACE) if p in used])
