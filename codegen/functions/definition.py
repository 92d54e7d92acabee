"""A function of ``device_templates/`` as code generation knows it: what a kernel states, and what has to hold of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from autofuse.codegen.ir.calls import Arg, Call, Form, LocalArg, Phases, Role
from autofuse.codegen.ir.extents import Extents
from autofuse.codegen.ir.finding import Finding
from autofuse.codegen.proofs.model import Kernel
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, align_up, product
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.graph import Node, TensorView
from autofuse.implgraph.ops.definition import Call as CallRow
from autofuse.targets import Architecture

__all__ = ["DeviceFunction", "Findings", "FunctionSite", "Proof"]

Findings: TypeAlias = Iterator[Finding]


@frozen
class FunctionSite:
    """Call site of a function.

    Attributes:
        node: the node that it computes.
        row: its call in the registry.
        nodes: the nodes of the template, by name.
        extents: extents of tiles.
        whole: True for a full tile, False for a tail.
        dst: the tensor of the result.
        operands: the tensors of the inputs.
        tmp: the scratch space, if the node has one.
        arch: architecture of the chip.
    """

    node: Node
    row: CallRow
    nodes: Mapping[str, Node]
    extents: Extents
    whole: bool
    dst: str
    operands: tuple[str, ...]
    tmp: str
    arch: Architecture

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

    def along(self, y: TensorView, run: Sequence[int]) -> tuple[Form, list[Expr]]:
        """Return the form and counts of a tensor along a run of its vectorised axes, by position; none: row by row.

        Returns:
            The form; the elements before the run, in it, and after it or, if nothing follows, from one row to the next.
        """
        padded, strides = self.padded(y), y.vectorized_strides
        if not run:
            return "Outer", [ONE, ONE, product(padded)]
        counts = [
            product(padded[: run[0]]),
            product(self.extent(y.vectorized_axis[i]) for i in run),
        ]
        if run[-1] + 1 < len(padded):
            return "Outer", [*counts, strides[run[-1]]]
        if run[0]:
            return "Inner", [*counts, strides[run[0] - 1]]
        # Padding, if there is any, is behind all elements of the run.
        whole = product(self.extents.in_ub(y, i, True) for i in run)
        return "Inner", [*counts, align_up(whole, self.arch.block_bytes // y.dtype.itemsize)]

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
        tmp = (self.tmp,) if self.node.tmp_buffers else ()
        tensors = (
            *(LocalArg(x, view) for x in (self.dst, *self.operands)),
            *(LocalArg(x, None, Role.SCRATCH) for x in tmp),
        )
        writes = (self.dst, *tmp, *kept)
        return Call(self.row.api, (*tensors, *args), writes, self.operands, form, of)


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof of a statement: its obligations, each a finding if it does not hold.

    Attributes:
        kernel: the function that contains the statement.
        call: the statement.
        n: its node.
        counts: the numbers of elements that it states, in the variables of the kernel.
        extent: iterations of a vectorised axis of the node in this tile.
    """

    kernel: Kernel
    call: Call
    n: Node
    counts: Sequence[Expr]
    extent: Callable[[int], Expr]

    @property
    def api(self) -> str:
        """The function."""
        return self.call.api

    @property
    def arch(self) -> Architecture:
        """The architecture that the function is for."""
        return self.kernel.arch

    @property
    def block(self) -> int:
        """Bytes of a block of UB."""
        return self.arch.block_bytes

    @property
    def source(self) -> Node:
        """The first operand."""
        return self.kernel.nodes[self.n.inputs[0]]

    def span(self, y: TensorView) -> Expr:
        """Elements of UB from the first to the last of a tensor in this tile, rows with their padding."""
        axes = y.vectorized_axis
        return self.extent(axes[0]) * y.vectorized_strides[0] if axes else ONE

    def wrong(self, message: str, *, refuted: bool = True) -> Finding:
        """A finding on the node."""
        return Finding(message, self.n.name, refuted)

    def same(self, a: Expr, b: Expr, what: str) -> Findings:
        """``a == b``."""
        return self.kernel.same(a, b, what, self.n.name)

    def at_least(self, a: Expr, b: Expr, what: str) -> Findings:
        """``a >= b``."""
        return self.kernel.at_least(a, b, what, self.n.name)

    def aligned(self, nbytes: Expr, what: str) -> Findings:
        """Bytes are whole blocks of UB, so that what follows them has an address where a tensor may start."""
        return self.kernel.multiple(nbytes, self.block, what, self.n.name)

    def fit(self, nbytes: Sequence[Expr]) -> Findings:
        """Every tensor that the statement gets, in order, has a buffer of so many bytes."""
        tensors = [a.local for a in self.call.args if isinstance(a, LocalArg)]
        if len(tensors) > len(nbytes):
            yield self.wrong(f"{self.api} gets {len(tensors)} tensors")
        for local, used in zip(tensors, nbytes, strict=False):
            room = self.kernel.nbytes.get(self.kernel.buffer_of(local), ZERO)
            yield from self.at_least(room, used, f"bytes of {local} in {self.api}")


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
    covers: Callable[[Proof], Findings] | None = None
    fits: Callable[[Proof], Findings] | None = None
    of: Callable[[Node, Form], tuple[str | bool, ...]] = _no_arguments
    phases: Callable[[Call], Phases] = _one_phase
    carries: bool = False
