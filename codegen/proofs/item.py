"""A statement of a kernel, as the proofs see it."""

from __future__ import annotations

from dataclasses import dataclass

from autofuse.codegen.ir.calls import Call, VectorFunction
from autofuse.codegen.ir.kernel_ir import (
    CopyIn,
    CopyOut,
    DmaBlock,
    DmaDims,
    EnQue,
    IndexRead,
    ScalarRead,
    Stmt,
)
from autofuse.implgraph.expr.expression import Expr

__all__ = ["Item"]


@dataclass(frozen=True, slots=True)
class Item:
    """A statement with its expressions in terms of the variables.

    Attributes:
        rows: surrounding loops inside the main loop: variable and extent.
        inside: True in the loop over tiles.
        number: number of the surrounding reduce loop; None outside of them.
        within: function on registers that a call belongs to, which precedes its calls; None for others.
        values: expressions of the statement, in the order of its fields.
    """

    stmt: Stmt
    inside: bool
    rows: tuple[tuple[str, Expr], ...] = ()
    values: tuple[Expr, ...] = ()
    block: DmaBlock | DmaDims | None = None
    number: int | None = None
    within: VectorFunction | None = None

    @property
    def place(self) -> tuple[bool, int | None]:
        """Return the loops around the statement."""
        return self.inside, self.number

    @property
    def reads_in_ub(self) -> tuple[str, ...]:
        """Return the tensors in UB whose elements it reads; calls of a function read registers."""
        s = self.stmt
        if isinstance(s, Call):
            return s.reads if self.within is None else ()
        if isinstance(s, VectorFunction):
            return s.loads
        if isinstance(s, ScalarRead) and s.gm:
            return ()
        return (s.local,) if isinstance(s, CopyOut | EnQue | IndexRead | ScalarRead) else ()

    @property
    def writes_in_ub(self) -> tuple[str, ...]:
        """Return the tensors in UB that it writes, in order; calls of a function write registers."""
        s = self.stmt
        if isinstance(s, Call):
            return s.writes if self.within is None else ()
        if isinstance(s, VectorFunction):
            return s.stored
        return (s.local,) if isinstance(s, CopyIn) else ()

    @property
    def fills(self) -> bool:
        """Return True if it fills a register with a node's number, or with the row that the node copies."""
        f = self.within
        return f is not None and self.stmt in f.calls[: f.fills]
