"""Limits of an Ascend chip's vector cores for kernels that triton-ascend compiles.

A program runs on a core: a grid with more programs than cores runs in turns, and one of more than 65,535 not at all, so
a program loops over blocks, and waits for no other.  The values of a block lie in UB, where the compiler double-buffers
the loads; it rejects blocks that do not fit.  Sources: the migration guide and the tables of element types in the
reference of triton-ascend 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import Wording, counted
from autofuse.codegen.backends.triton.blocks import power, rows_of_core
from autofuse.codegen.backends.triton.kernels import Blocks, Form
from autofuse.codegen.backends.triton.ops.spelling import TRITON
from autofuse.codegen.nests.nest import Nest
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import HintGraph, Node
from autofuse.implgraph.ops.rows.reductions import REDUCES
from autofuse.targets.gpu import GpuTarget

__all__ = ["Core", "core_of"]

#: Bytes per element that a device function holds besides its operands: eight 32-bit values.
_IN_FUNCTIONS = 8 * 4
#: Bytes per element of a reduction in a loop: its partial results, and the values that one block adds to them.
_IN_REDUCTION = 2 * 4
#: Bytes per element of a row with sums over rows, without the sums: the gradient of a norm holds fewer.
_BESIDE_SUMS = 40 * 4
_SHIFTS = frozenset({"Shl", "Shr", "LShift", "RShift"})


def core_of(target: GpuTarget) -> Core | None:
    """Return the limits of a target; None for CUDA, which has others."""
    if target.dialect != "ascend":
        return None
    return Core(target.multiprocessors, target.ub_bytes // 2)


@frozen
class Core:
    """Limits of a target's cores.

    Attributes:
        cores: number of cores; most programs of a grid.
        room: bytes of UB for the values of a block; the other half is for the loads of the next one.
    """

    cores: int
    room: int

    def check(self, hint: HintGraph) -> None:
        """Raise AF3001 for ops and element types that the compiler does not support.

        Args:
            hint: legalised graph.
        """
        named = hint.by_name()
        for n in hint.nodes:
            what = next(_lacking(n, named), None)
            if what is not None:
                text = f"triton-ascend has no {what}"
                raise AutofuseError.of("AF3001", text, where=Where(pointer=n.origin))

    def elements(self, nest: Nest) -> int:
        """Return the most elements of a block that fit, a power of 2."""
        return 1 << (max(self.room // _bytes(nest), 1).bit_length() - 1)

    def has_room_for_sums(self, cols: Expr, sums: int) -> bool:
        """Return True if rows of ``cols`` elements leave room for ``sums`` sums over rows beside them."""
        each = _BESIDE_SUMS + sums * _IN_REDUCTION
        return cols.is_const and power(cols.value) * each <= self.room

    def whole_rows(self, b: Blocks | None, nest: Nest, rows: int) -> Blocks | None:
        """Return blocks as ``fitted`` does, but whose programs wait for no other; None if a row does not fit."""
        if b is None or b.parts > 1 or b.cols > self.elements(nest):
            return None
        return self.fitted(b, Form.ROWS, nest, rows)

    def fitted(self, b: Blocks, form: Form, nest: Nest, rows: int) -> Blocks:
        """Return the largest blocks that fit UB, but small enough to give all cores one.

        Args:
            b: blocks for an NVIDIA card.
            form: form of the kernel.
            nest: nest of the kernel.
            rows: rows of all its blocks.

        Raises:
            AutofuseError: AF3003, a row must fit as a whole and does not.
        """
        most = self.elements(nest)
        side, cols = b.rows, b.cols
        while side * cols > most and (side > 1 or form is not Form.ROWS):
            if side > 1 and (side >= cols or form is Form.ROWS):
                side //= 2
            else:
                cols //= 2
        if side * cols > most:
            raise AutofuseError.of(
                "AF3003", Wording("a row of {} does not fit UB", counted(cols, "element"))
            )
        if form is not Form.TILES:
            side = max(side, rows_of_core(rows, cols, most, self.cores)[0])
        programs = min(b.programs, self.cores, -(-rows // side))
        return replace(b, rows=side, cols=cols, programs=programs, stages=1)


def _bytes(nest: Nest) -> int:
    """Return the peak bytes of UB per element of a block."""
    named = nest.by_name()
    last = {i: k for k, n in enumerate(nest.nodes) for i in n.inputs}
    held = [n for n in nest.nodes if n.op not in ("Scalar", "Store")]
    place = {n.name: k for k, n in enumerate(nest.nodes)}
    most = 4
    for n in held:
        k = place[n.name]
        alive = (m for m in held if m is n or place[m.name] < k <= last.get(m.name, -1))
        total = sum(m.y.dtype.itemsize for m in alive)
        most = max(most, total + (_IN_FUNCTIONS if len(_texts(n, named)) > 1 else 0))
    return most + _IN_REDUCTION * sum(n.op in REDUCES or n.op == "Scan" for n in nest.nodes)


def _texts(n: Node, named: dict[str, Node]) -> tuple[str, ...]:
    """Return the text of a node and of the device functions that it calls."""
    if not TRITON.spelled(n.op):
        return ()
    dtypes = [named[i].y.dtype for i in n.inputs]
    text = TRITON.spell(n.op, n.inputs, n.attrs, dtypes, n.y.dtype)
    return text, *TRITON.functions(text).values()


def _lacking(n: Node, named: dict[str, Node]) -> Iterator[str]:
    """Yield the features that a node needs and the compiler lacks, according to its documentation.

    The front end accepts all of them; the hardware lacks loads of unsigned integers and float64.
    """
    dtype = n.y.dtype
    if dtype.kind == "u":
        yield f"values of {dtype.name}"
    if any("float64" in text for text in _texts(n, named)):
        yield f"float64, in which {n.op} of floats is computed"
    if n.op in _SHIFTS and named[n.inputs[1]].op != "Scalar":
        yield f"{n.op} by a count per element"
    # It would need unmasked loads.
    if n.op == "Scan" and n.attrs["reverse"]:
        yield "running sum from the end"
