"""Calls in a device function and their arguments; calls that make one function on vector registers."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import frozen

__all__ = [
    "Arg",
    "Call",
    "Count",
    "EnumArg",
    "Form",
    "LocalArg",
    "Number",
    "Phases",
    "Role",
    "RowLanes",
    "RowLoop",
    "RowRegister",
    "RowStep",
    "Rows",
    "ScalarVar",
    "SizeValue",
    "VectorFunction",
]


class Role(Enum):
    """Role of a tensor in UB for the node that it is declared for."""

    RESULT = "result"
    SCRATCH = "scratch"


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
    """One step of a function with rows on registers, done once per row.

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
        """Return the number of registers of ``lanes`` lanes that a row takes."""
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
