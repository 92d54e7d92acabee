"""Code generation's view of a function of ``device_templates/``: its statement, and its proof obligations."""

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
        extents: extents of the tiles.
        whole: True for a full tile, False for a tail.
        dst: tensor of the result.
        operands: tensors of the inputs.
        tmp: scratch space, if the node has one.
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
        """Return the first input."""
        return self.nodes[self.node.inputs[0]]

    def extent(self, axis: int) -> Expr:
        """Return the number of elements of the tile along an axis."""
        return self.extents.of(axis, self.whole)

    def padded(self, y: TensorView) -> list[Expr]:
        """Return the number of elements along the vectorised axes of a tensor in UB, padding included."""
        return [self.extents.in_ub(y, i, self.whole) for i in range(len(y.vectorized_axis))]

    def along(self, y: TensorView, run: Sequence[int]) -> tuple[Form, list[Expr]]:
        """Return the form and counts of a tensor along a run of its vectorised axes, by position; row by row if none.

        Returns:
            The form; the elements before the run, in it, and after it or, if nothing follows, the row pitch.
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
        # Padding, if any, follows all elements of the run.
        whole = product(self.extents.in_ub(y, i, True) for i in run)
        return "Inner", [*counts, align_up(whole, self.arch.block_bytes // y.dtype.itemsize)]

    def made(
        self,
        args: Iterable[Arg],
        form: Form = "",
        of: tuple[str | bool, ...] = (),
        kept: tuple[str, ...] = (),
    ) -> Call:
        """Build the statement: result, operands and scratch space, then ``args``; it writes the operands ``kept``."""
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
    """Proof of a statement: obligations, each a finding if it does not hold.

    Attributes:
        kernel: function that contains the statement.
        call: the statement.
        n: its node.
        counts: numbers of elements that it states, in terms of the kernel's variables.
        extent: iterations of a vectorised axis of the node in this tile.
    """

    kernel: Kernel
    call: Call
    n: Node
    counts: Sequence[Expr]
    extent: Callable[[int], Expr]

    @property
    def api(self) -> str:
        """Return the name of the function."""
        return self.call.api

    @property
    def arch(self) -> Architecture:
        """Return the architecture of the function."""
        return self.kernel.arch

    @property
    def block(self) -> int:
        """Return the bytes of a block of UB."""
        return self.arch.block_bytes

    @property
    def source(self) -> Node:
        """Return the first operand."""
        return self.kernel.nodes[self.n.inputs[0]]

    def span(self, y: TensorView) -> Expr:
        """Return the elements of UB from the first to the last of a tensor in this tile, padding of rows included."""
        axes = y.vectorized_axis
        return self.extent(axes[0]) * y.vectorized_strides[0] if axes else ONE

    def wrong(self, message: str, *, refuted: bool = True) -> Finding:
        """Return a finding on the node."""
        return Finding(message, self.n.name, refuted)

    def same(self, a: Expr, b: Expr, what: str) -> Findings:
        """Return a finding unless ``a == b``."""
        return self.kernel.same(a, b, what, self.n.name)

    def at_least(self, a: Expr, b: Expr, what: str) -> Findings:
        """Return a finding unless ``a >= b``."""
        return self.kernel.at_least(a, b, what, self.n.name)

    def aligned(self, nbytes: Expr, what: str) -> Findings:
        """Return a finding unless the bytes are whole blocks of UB, so that a tensor may start after them."""
        return self.kernel.multiple(nbytes, self.block, what, self.n.name)

    def fit(self, nbytes: Sequence[Expr]) -> Findings:
        """Yield a finding for every tensor argument, in order, whose buffer is smaller than its bytes."""
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
    """A function, or a pair of forms for the innermost axes and for others.

    The proofs compare a statement with its node, independently of ``call``, which built it.

    Attributes:
        header: ``autofuse_<header>.h`` defines it; empty if the kernel includes it anyway.
        call: builds the statement of a node; None for an element-wise one, built by its style in the registry.
        covers: proves that the counts of a statement are those of its node in this tile; None as for ``call``.
        fits: proves that no statement accesses an operand out of bounds; None as for ``call``.
        of: template arguments of a node's statement.
        phases: reads and writes of a statement, divided at its internal barriers of the vector pipe.
        carries: the second operand, if present, is updated for the next tile.
        flags: names in the header of false and true, for each template argument that is a bool.
    """

    header: str
    call: Callable[[FunctionSite], Call] | None = None
    covers: Callable[[Proof], Findings] | None = None
    fits: Callable[[Proof], Findings] | None = None
    of: Callable[[Node, Form], tuple[str | bool, ...]] = _no_arguments
    phases: Callable[[Call], Phases] = _one_phase
    carries: bool = False
    flags: tuple[tuple[str, str], ...] = ()
