"""Vector nodes of a tile as calls of the chip: their operands, counts and strides."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.functions.definition import FunctionSite
from autofuse.codegen.ir.calls import Call, Number, ScalarVar, SizeValue
from autofuse.codegen.ir.extents import Extents
from autofuse.codegen.ir.intrinsics import STYLES, CallSite, Scalar
from autofuse.codegen.lower.counting import elements_done
from autofuse.codegen.lower.names import Names
from autofuse.implgraph.expr.expression import ZERO, sym
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.implgraph.ops.registry import call_of
from autofuse.schedule.placement.scalars import scalar_inputs
from autofuse.targets import Architecture

__all__ = ["VectorCalls"]


class VectorCalls:
    """The calls of an ImplGraph on one architecture; ``extents``: of its tiles."""

    def __init__(self, impl: ImplGraph, arch: Architecture, extents: Extents, names: Names) -> None:
        self.impl = impl
        self.names = names
        self.arch = arch
        self.extents = extents
        self.nodes = impl.by_name()
        #: An accumulator shares the tensor of its initial value.
        self.same = {n.name: n.joins for n in impl.nodes if n.joins is not None}
        #: Operands that a node's call takes as scalars, by position, if any.
        self.scalar_inputs = {
            n.name: at for n in impl.nodes if (at := scalar_inputs(n, self.nodes, arch))
        }

    def of(self, n: Node, whole: bool, known: Mapping[str, ScalarVar]) -> Call:
        """Return the call of a node; ``known``: uniform tensors read as scalars."""
        row = call_of(n.op, self.arch)
        function = FUNCTIONS.get(row.api)
        if function is not None and function.call is not None:
            operands = tuple([self.names.local(self.nodes[i]) for i in n.inputs])
            return function.call(
                FunctionSite(
                    n,
                    row,
                    self.nodes,
                    self.extents,
                    whole,
                    self.names.local(n),
                    operands,
                    self.names.scratch(n),
                    self.arch,
                )
            )
        as_scalar = self.scalar_inputs.get(n.name, ())
        tensors: dict[int, tuple[str, DType]] = {}
        scalars: dict[int, Scalar] = {}
        if n.op == "Iota":
            scalars = dict(enumerate(self._line(n)))
        for i, name in enumerate(n.inputs):
            x = self.nodes[name]
            if x.op == "Scalar":
                scalars[i] = self._counted(x) if x.attrs.get("count") else _scalar(x)
            elif i in as_scalar:
                scalars[i] = known.get(name) or ScalarVar(self.names.scalar(x))
            else:
                tensors[i] = (self.names.local(x), x.y.dtype)
        tmp = self.names.scratch(n) if n.tmp_buffers else None
        count = self.extents.elements(n.y, whole)
        site = CallSite(n, row, self.names.local(n), tensors, scalars, count, tmp, self.arch)
        return STYLES[row.style](site)

    def _counted(self, x: Node) -> SizeValue:
        """Return the number that a counting Scalar holds."""
        after = x.attrs["count"] == "after"
        return SizeValue(
            elements_done(self.impl, self.extents.actual_name(), after=after), x.y.dtype
        )

    def _line(self, n: Node) -> tuple[SizeValue, SizeValue]:
        """Return the first value and the step of an Iota, for the index at the start of the tile."""
        start, step = (n.size(k, d) for k, d in (("start", 0), ("step", 1)))
        first = ZERO
        for a, s, r in zip(n.y.axis, n.y.strides, n.y.repeats, strict=True):
            if r == 1:
                continue
            if a == self.extents.block_in.id:
                first = first + s * sym(self.extents.tile_out.name)
            elif a != self.extents.block_out.id and a not in n.y.vectorized_axis:
                first = first + s * self.extents.index(a)
        dtype = n.y.dtype
        return SizeValue(start + step * first, dtype), SizeValue(step, dtype)


def _scalar(x: Node) -> Number | SizeValue:
    """Return the value of a Scalar node."""
    if "expr" in x.attrs:
        return SizeValue(x.size("expr"), x.y.dtype)
    value = x.attrs["value"]
    assert isinstance(value, (int, float))
    return Number(value, x.y.dtype)
