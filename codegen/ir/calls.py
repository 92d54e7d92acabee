"""Calls in a device function and their arguments, and calls fused into a function on vector registers."""

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
    """Role of a tensor in UB for the node it is declared for."""

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
    """A scalar variable that a ScalarRead defines."""

    name: str


@frozen
class EnumArg:
    """An enumerator such as ``RoundMode::CAST_RINT``."""

    text: str


@frozen
class SizeValue:
    """A scalar of ``dtype`` known only at run time: a size, or an index."""

    value: Expr
    dtype: DType


Arg: TypeAlias = LocalArg | Count | Number | ScalarVar | EnumArg | SizeValue


#: Form of a function with two forms: along the innermost axes of a tensor, or along others.
Form: TypeAlias = Literal["", "Inner", "Outer"]
#: Reads and writes of a call, divided into phases at its internal barriers of the vector pipe.
Phases: TypeAlias = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@frozen
class Call:
    """A vector call.

    Attributes:
        api: name of a function of Ascend C, or the key of one in ``codegen.functions.FUNCTIONS``.
        args: arguments in the function's order.
        writes: tensors whose bytes it writes: result, scratch space, values carried from tile to tile.
        reads: tensors whose bytes it reads.
        form: form of a function that has two.
        of: template arguments: flags, and names of operations.
    """

    api: str
    args: tuple[Arg, ...]
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    form: Form = ""
    of: tuple[str | bool, ...] = ()


#: A register of a function with rows: its tensor, and the part of the row; None: one value for the whole row.
RowRegister: TypeAlias = "tuple[str, int | None]"
#: Lanes of a step: all, those of the row in its last register, or the reduced ones among them.
RowLanes: TypeAlias = Literal["all", "row", "part"]


@frozen
class RowStep:
    """One step of a function with rows on registers, done once per row.

    ``load``: a register of a tensor, or the row's element into all lanes.  ``call``: one call.  ``start``: the neutral
    element of a reduction into all lanes.  ``fill``: the neutral element into lanes past the row.  ``join``: two
    registers of partial results into one.  ``reduce``: all lanes into the lowest one.  ``spread``: the lowest lane into
    all lanes.  ``store``: a register to a tensor, or the lowest lane to the row's element.  ``stores_wait``: later
    stores wait for earlier loads.  ``loads_wait``: later loads wait for earlier stores.

    Attributes:
        call: index in ``calls`` of the call it belongs to; -1: of none.
        to: register, or part of a tensor, that it writes.
        of: registers, or part of a tensor, that it reads.
        lanes: lanes that it covers.
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
    """Steps in a loop over the row from its first element on, ``width`` registers per iteration.

    Registers and parts of tensors are numbered relative to the iteration.
    """

    times: int
    width: int
    steps: tuple[RowStep, ...]


@frozen
class Rows:
    """Rows that a function on registers loops over, each as a whole.

    Attributes:
        count: number of rows.
        length: elements of a row that reductions cover.
        pitch: elements from one row to the next; calls cover all of them.
        steps: steps of one row.
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
        """Return all steps in textual order, those of a loop once."""
        return tuple(x for s in self.steps for x in (s.steps if isinstance(s, RowLoop) else (s,)))


@frozen
class VectorFunction:
    """Calls over the same elements as one function on vector registers.

    It processes the elements a register at a time.  A tensor that is read but not computed earlier is loaded once,
    before the call that first needs it; a result stays in its register, and is stored after the last call that writes
    it, or not at all.  Element k of a step lies in lane k, ``lane`` bytes wide for every dtype: narrower ones are
    widened to a lane.

    Attributes:
        name: function name.
        count: number of elements.
        calls: calls, in order; the names of tensors denote registers.
        loads: tensors in UB that it loads.
        stores: tensors in UB that it stores.
        dtypes: dtypes of all tensors and registers.
        notes: comments that precede each call.
        rows: rows, for calls that reduce rows or have operands with one element per row; ``count`` then counts all
            elements.
        fills: number of leading calls that fill registers with a number, or a row, instead of loading.
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
        """Return the bytes of the widest element dtype."""
        return max(d.itemsize for _, d in self.dtypes if d.kind != "m")

    @property
    def stored(self) -> tuple[str, ...]:
        """Return ``stores`` in the order of their calls; of tensors at one address, the last one stays."""
        return tuple([s.writes[0] for s in self.calls if s.writes[0] in self.stores])
