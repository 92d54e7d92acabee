"""KernelIR: the statements of one device function.  The whole grammar is on this page.

Sizes are :class:`Expr` over C++ variables that a ``Let`` or a ``For`` of the same function defines.  Text is made by
``emit_cpp.py`` and nowhere else.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from autofuse.implgraph.expr.expression import ZERO, Expr, total
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import Position
from autofuse.targets import Architecture, TargetSpec

__all__ = [
    "WORKSPACE",
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
    "DmaDim",
    "DmaDims",
    "DmaLet",
    "EnQue",
    "EnumArg",
    "For",
    "Form",
    "Free",
    "GetBuf",
    "GlobalDecl",
    "IndexRead",
    "InitBuffer",
    "KernelFn",
    "Let",
    "LocalArg",
    "Loop",
    "Number",
    "Parameters",
    "Phases",
    "PipeDecl",
    "QueueDecl",
    "ReturnIfEmpty",
    "Role",
    "RowLanes",
    "RowLoop",
    "RowRegister",
    "RowStep",
    "Rows",
    "ScalarRead",
    "ScalarVar",
    "SizeValue",
    "Stmt",
    "Sync",
    "TilingField",
    "VectorFunction",
]

#: The parameter for what groups leave each other in GM; the others are in ``KernelFn.params``.
WORKSPACE = "workspace"


class Role(Enum):
    """What a tensor in UB is to the node that it is declared for."""

    RESULT = "result"
    SCRATCH = "scratch"


class Loop(Enum):
    """What a loop goes through: the tiles of a core, the steps of a reduction, or rows of one copy."""

    TILES = "tiles"
    STEPS = "steps"
    ROWS = "rows"


# arguments of calls ---------------------------------------------------------------------------
@frozen
class LocalArg:
    """A tensor in UB; ``as_type`` reinterprets its elements."""

    local: str
    as_type: DType | None = None
    role: Role = Role.RESULT


@frozen
class Count:
    """A number of elements."""

    value: Expr


@frozen
class Number:
    """A compile-time scalar of exactly ``dtype``."""

    value: float | int
    dtype: DType


@frozen
class ScalarVar:
    """A scalar that a ScalarRead defined."""

    name: str


@frozen
class EnumArg:
    """An enumerator such as ``RoundMode::CAST_RINT``."""

    text: str


@frozen
class SizeValue:
    """A scalar of ``dtype`` that is known when the kernel runs: a size, or an index."""

    value: Expr
    dtype: DType


Arg: TypeAlias = LocalArg | Count | Number | ScalarVar | EnumArg | SizeValue


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
    """``const int64_t name = t.name``: a number of the tiling data."""

    name: str


@frozen
class BlockIndex:
    """``const int64_t name = GetBlockIdx()``; counted from the core in the tiling data's ``first``, if any."""

    name: str
    first: str | None = None


@frozen
class ReturnIfEmpty:
    """Leaves the function if ``value`` <= 0: this core has no tile."""

    value: str


@frozen
class GlobalDecl:
    """A GlobalTensor over the kernel's parameter ``param``, from its byte ``offset`` on."""

    name: str
    dtype: DType
    param: str
    offset: Expr = ZERO


@frozen
class BypassL2:
    """Loads from the GlobalTensor ``name`` bypass L2 if the kernel's bytes, ``held``, are more than ``size``."""

    name: str
    held: Expr
    size: int


@frozen
class PipeDecl:
    """The TPipe of the function."""

    name: str


@frozen
class QueueDecl:
    """A TQue, or with ``copy`` a TQueBind from VECIN to VECOUT; ``id`` of the queue in the plan."""

    name: str
    position: Position
    depth: int
    copy: bool = False
    id: int = 0


@frozen
class BufDecl:
    """A TBuf; ``id`` of the buffer in the plan."""

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
    """The tensor of a TBuf; ``node``: whose result or scratch space it is."""

    local: str
    buf: str
    dtype: DType
    node: str = ""
    role: Role = Role.RESULT


@frozen
class Alloc:
    """A free buffer of the queue, for the result of ``node``."""

    local: str
    queue: str
    dtype: DType
    node: str = ""


@frozen
class Alias:
    """The memory of ``of``, a tensor of a queue that is no longer needed, for the result of ``node``."""

    local: str
    of: str
    dtype: DType
    node: str = ""


@frozen
class EnQue:
    """Hands the tensor to the other side of the queue.

    ``link``: of a TQueBind whose buffers pass through vector calls as well, ``in`` from the load to these, ``out`` from
    them to the store.
    """

    local: str
    queue: str
    dtype: DType
    link: str = ""


@frozen
class DeQue:
    """Takes it on the other side; ``link`` as of EnQue."""

    local: str
    queue: str
    dtype: DType
    link: str = ""


@frozen
class Free:
    """Gives the buffer back to the queue."""

    local: str
    queue: str


@frozen
class DmaBlock:
    """Blocks of one DMA command.  ``length`` and ``gm_gap`` in bytes, ``ub_gap`` in 32-byte units, end to start."""

    count: Expr
    length: Expr
    gm_gap: Expr
    ub_gap: Expr

    def exprs(self) -> tuple[Expr, ...]:
        """All fields."""
        return self.count, self.length, self.gm_gap, self.ub_gap


@frozen
class DmaDim:
    """One dimension of a copy: iterations, strides in GM and in UB in elements."""

    size: Expr
    gm: Expr
    ub: Expr


@frozen
class DmaDims:
    """The dimensions of one load that has several, outermost first."""

    dims: tuple[DmaDim, ...]

    def exprs(self) -> tuple[Expr, ...]:
        """All fields of all dimensions."""
        return tuple(e for d in self.dims for e in (d.size, d.gm, d.ub))

    @property
    def gm_span(self) -> Expr:
        """Elements of GM from the first to the last one, both of them counted."""
        return total((d.size - 1) * d.gm for d in self.dims) + 1

    @property
    def ub_span(self) -> Expr:
        """The same in UB."""
        return total((d.size - 1) * d.ub for d in self.dims) + 1


@frozen
class DmaLet:
    """A named descriptor for loads (``load``) or stores."""

    name: str
    block: DmaBlock
    load: bool


@frozen
class CopyIn:
    """GM -> UB.  Offsets in elements.

    ``pad``: any number of bytes, DataCopyPad where the block has no dimensions; otherwise DataCopy of whole 32-byte
    units.  ``block_name``: the DmaLet with this block.
    """

    local: str
    local_offset: Expr
    gm: str
    gm_offset: Expr
    dtype: DType
    block: DmaBlock | DmaDims
    pad: bool = True
    block_name: str = ""


@frozen
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


#: Of a function with two forms: along the innermost axes of a tensor, or along others.
Form: TypeAlias = Literal["", "Inner", "Outer"]
#: What a call reads and what it writes, in parts between which it has a barrier of the vector pipe itself.
Phases: TypeAlias = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@frozen
class Call:
    """A vector call.

    Attributes:
        api: name of a function of Ascend C, or the key of one in ``codegen.functions.FUNCTIONS``.
        args: in the order of the function.
        writes: tensors whose bytes it writes: the result, scratch space, what is carried from tile to tile.
        reads: tensors whose bytes it reads.
        form: which of the two forms of a function that has them.
        of: template arguments: flags, and names of operations.
    """

    api: str
    args: tuple[Arg, ...]
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    form: Form = ""
    of: tuple[str | bool, ...] = ()


#: A register of a function with rows: the tensor whose value it is, and which part of the row; None: of all of it.
RowRegister: TypeAlias = "tuple[str, int | None]"
#: Lanes of a step: all of them, those of the row in its last register, or those of them that are reduced.
RowLanes: TypeAlias = Literal["all", "row", "part"]


@frozen
class RowStep:
    """What a function with rows does with registers, once for a row.

    ``load``: a register of a tensor, or the element of the row to all lanes.  ``call``: one call.  ``start``: the
    neutral element of a reduction to all lanes.  ``fill``: that to lanes that are not of the row.  ``join``: two
    registers of partial results to one.  ``reduce``: all lanes to the lowest one.  ``spread``: that to all lanes.
    ``store``: a register to a tensor, or the lowest lane to the element of the row.  ``stores_wait``: later stores, for
    earlier loads.  ``loads_wait``: later loads, for earlier stores.

    Attributes:
        call: the place in ``calls`` of the call that this is part of; -1: of none.
        to: the register, or the part of a tensor, that is written.
        of: the registers, or the part of a tensor, that are read.
        lanes: those that it is about.
    """

    op: Literal[
        "load",
        "call",
        "start",
        "fill",
        "join",
        "reduce",
        "spread",
        "store",
        "stores_wait",
        "loads_wait",
    ]
    call: int = -1
    to: RowRegister = ("", None)
    of: tuple[RowRegister, ...] = ()
    lanes: RowLanes = "all"


@frozen
class RowLoop:
    """Steps that go through the row from its first element on, ``width`` registers of it each time.

    They name registers, and parts of tensors, by their places among these.
    """

    times: int
    width: int
    steps: tuple[RowStep, ...]


@frozen
class Rows:
    """The rows that a function on registers goes through, each of them as a whole.

    Attributes:
        count: of the rows.
        length: elements of a row that reductions take.
        pitch: elements from one row to the next; calls go through all of them.
        steps: what is done for a row.
    """

    count: Expr
    length: int
    pitch: int
    steps: tuple[RowStep | RowLoop, ...]

    def registers(self, lanes: int) -> int:
        """How many registers of so many lanes a row takes."""
        return -(-self.pitch // lanes)

    @property
    def written(self) -> tuple[RowStep, ...]:
        """All steps in the order of the text, those of a loop once."""
        return tuple(x for s in self.steps for x in (s.steps if isinstance(s, RowLoop) else (s,)))


@frozen
class VectorFunction:
    """Calls over the same elements as one function on vector registers.

    It goes through the elements a register at a time.  What is read and not computed before is loaded once, before the
    call that needs it first; a result stays in its register, and is stored behind the last call that makes it, or not
    at all.  Element k of a step lies in lane k, ``lane`` bytes wide, whatever its dtype is: narrower ones are spread.

    Attributes:
        name: of the function.
        count: of the elements.
        calls: in order; the names of tensors stand for registers.
        loads: tensors in UB that are read.
        stores: those that are written.
        dtypes: of all tensors and registers.
        notes: of each call, the comments that precede it.
        rows: of a function whose calls reduce rows, or have operands with an element per row; ``count`` is that of all
            elements there.
        fills: so many calls, the first ones, fill registers with a number, or a row, in place of a load.
    """

    name: str
    count: Expr
    calls: tuple[Call, ...]
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    dtypes: tuple[tuple[str, DType], ...]
    notes: tuple[tuple[str, ...], ...]
    rows: Rows | None = None
    fills: int = 0

    @property
    def lane(self) -> int:
        """Bytes of the widest dtype of elements."""
        return max(d.itemsize for _, d in self.dtypes if d.kind != "m")

    @property
    def stored(self) -> tuple[str, ...]:
        """``stores`` in the order of the calls that make them: of those at one place the last one stays."""
        return tuple([s.writes[0] for s in self.calls if s.writes[0] in self.stores])


@frozen
class ScalarRead:
    """``const T name = local.GetValue(0)`` on the scalar unit."""

    name: str
    local: str
    dtype: DType


@frozen
class IndexRead:
    """``const int64_t name = autofuse::IndexIn(local.GetValue(offset), extent)`` on the scalar unit.

    The place along a dimension of ``extent`` elements that an element of ``local`` names: 0 <= name < extent.  The Load
    ``load`` takes its elements there.
    """

    name: str
    local: str
    offset: Expr
    dtype: DType
    extent: Expr
    load: str = ""


@frozen
class Sync:
    """Flag set on the pipe ``source`` and awaited on ``target``."""

    source: str
    target: str

    @property
    def event(self) -> str:
        """The HardEvent, such as ``MTE2_V``."""
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
    """The GM parameters of a kernel for tensors, in its order: inputs, then outputs."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.inputs, *self.outputs)


@frozen
class KernelFn:
    """A device function: one template.

    Attributes:
        params: the tensors that it is given.
        title: comment above the function, one line per entry.
        unused: parameters that the body does not touch.
        arch: whose calls these are; None: nothing depends on it.
        chip: whose cost model decides where calls have two forms; None: the first one is taken.
    """

    name: str
    params: Parameters
    body: tuple[Stmt, ...]
    title: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    arch: Architecture | None = None
    chip: TargetSpec | None = None
