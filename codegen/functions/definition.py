"""A function of ``device_templates/`` as code generation knows it: what a kernel states, and what has to hold of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from autofuse.codegen.ir.extents import Extents
from autofuse.codegen.ir.finding import Finding
from autofuse.codegen.ir.kernel_ir import Arg, Call, Form, LocalArg
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import Node, TensorView
from autofuse.implgraph.ops.definition import Call as CallRow

if TYPE_CHECKING:
    from autofuse.codegen.verification.model import Kernel

__all__ = ["DeviceFunction", "Extent", "Findings", "FunctionSite", "locals_of", "room_of", "span"]

#: Iterations of a vectorised axis in this tile.
Extent: TypeAlias = Callable[[int], Expr]
Findings: TypeAlias = Iterator[Finding]
#: What is read and what is written, part by part.
Phases: TypeAlias = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@frozen
class FunctionSite:
    """Where a function is called.

    Attributes:
        node: what it computes.
        row: its call in the registry.
        nodes: those of the template, by name.
        extents: of tiles.
        whole: this one is a full tile, not a tail.
        dst: the tensor of the result.
        operands: the tensors of the inputs.
    """

    node: Node
    row: CallRow
    nodes: Mapping[str, Node]
    extents: Extents
    whole: bool
    dst: str
    operands: tuple[str, ...]

    @property
    def source(self) -> Node:
        """The first input."""
        return self.nodes[self.node.inputs[0]]

    def extent(self, axis: int) -> Expr:
        """Elements of the tile along an axis."""
        return self.extents.of(axis, self.whole)

    def padded(self, y: TensorView) -> list[Expr]:
        """Elements along the vectorised axes of a tensor in UB, padding included."""
        return [self.extents.in_ub(y, i, self.whole) for i in range(len(y.vectorized_axis))]

    def made(
        self,
        args: Iterable[Arg],
        form: Form = "",
        of: tuple[str | bool, ...] = (),
        kept: tuple[str, ...] = (),
    ) -> Call:
        """The statement: result, operands and scratch space, then ``args``; ``kept`` are operands that it writes."""
        moved = self.row.as_type.get(self.node.y.dtype.name)
        view = BY_NAME[moved] if moved else None
        tmp = (f"{self.node.name}_tmp",) if self.node.tmp_buffers else ()
        tensors = (
            *(LocalArg(x, view) for x in (self.dst, *self.operands)),
            *(LocalArg(x) for x in tmp),
        )
        writes = (self.dst, *tmp, *kept)
        return Call(self.row.api, (*tensors, *args), writes, self.operands, form, of)


def _no_arguments(n: Node, form: Form) -> tuple[str | bool, ...]:
    return ()


def _one_phase(s: Call) -> Phases:
    return ((s.reads, s.writes),)


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """One function, or one with a form for the innermost axes and one for others.

    The proofs compare a statement with its node; they take nothing from ``call``, which made it.

    Attributes:
        header: ``autofuse_<header>.h`` has it; empty where a kernel includes that anyway.
        call: the statement of a node; None where it is element-wise, by its style in the registry.
        covers: that the counts of a statement are those of its node in this tile; None as for ``call``.
        fits: that no statement touches bytes behind the buffer of an operand; None as for ``call``.
        of: the template arguments of a node's statement.
        phases: what a statement reads and writes, in parts between which it has a barrier of the vector pipe itself.
        carries: the second operand, if there is one, is brought up to date for the next tile.
    """

    header: str
    call: Callable[[FunctionSite], Call] | None = None
    covers: Callable[[Kernel, Call, Node, Sequence[Expr], Extent], Findings] | None = None
    fits: Callable[[Kernel, Call, Node, Sequence[Expr]], Findings] | None = None
    of: Callable[[Node, Form], tuple[str | bool, ...]] = _no_arguments
    phases: Callable[[Call], Phases] = _one_phase
    carries: bool = False


def span(y: TensorView, extent: Extent) -> Expr:
    """Elements of UB from the first to the last of a tensor in this tile, rows with their padding."""
    return extent(y.vectorized_axis[0]) * y.vectorized_strides[0] if y.vectorized_axis else ONE


def locals_of(s: Call) -> list[str]:
    """The tensors that a statement gets, in order."""
    return [a.local for a in s.args if isinstance(a, LocalArg)]


def room_of(kernel: Kernel, local: str) -> Expr:
    """Bytes of the buffer of a tensor."""
    return kernel.nbytes.get(kernel.buffer_of(local), ZERO)
