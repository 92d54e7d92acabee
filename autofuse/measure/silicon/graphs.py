"""Graphs for comparing a chip with NumPy: one per op, per template family, and per assumption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ir.fusion import (
    AttrValue,
    FusionGraph,
    FusionNode,
    GraphOutput,
    Symbol,
    Tensor,
)
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import all_ops, lookup
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.measure.silicon.corners import CORNERS
from autofuse.report.op_support import DTYPES, NONE, one_op_graph, realised
from autofuse.targets import TargetSpec

__all__ = ["FAMILIES", "FamilyGraph", "Subject", "subjects"]

Array: TypeAlias = npt.NDArray[Any]
_NO_SIZES: Mapping[str, int] = MappingProxyType({})
Node: TypeAlias = "tuple[str, tuple[str, ...], dict[str, AttrValue]]"


@dataclass(frozen=True, slots=True)
class FamilyGraph:
    """A graph for which some template families have a template.

    Attributes:
        name: an identifier.
        families: prefixes of templates that it must have on Atlas A2.
        shapes: shapes of the float32 inputs ``x`` and ``y``; a text is a symbol.
        nodes: op, inputs, attributes; results are ``t0``, ``t1``, ...
        sizes: sizes of its symbols.
        meets: the kernel has a barrier of all cores.
    """

    name: str
    families: tuple[str, ...]
    shapes: tuple[tuple[int | str, ...], ...]
    nodes: tuple[Node, ...]
    sizes: Mapping[str, int] = field(default_factory=lambda: _NO_SIZES)
    meets: bool = False


#: Elements of an assumption's input, which repeats its numbers: whole blocks of every dtype.
_LONG = 32
_X, _BOTH = ("x",), ("x", "y")
_SUM: Node = ("ReduceSum", ("t0",), {"axes": (1,)})

FAMILIES: tuple[FamilyGraph, ...] = (
    FamilyGraph(
        "lines",
        ("general",),
        ((4096,), (4096,)),
        (("Add", _BOTH, {}), ("Exp", ("t0",), {})),
    ),
    FamilyGraph("common_rows", ("general_rows",), ((256, 6000), (1, 6000)), (("Add", _BOTH, {}),)),
    FamilyGraph("rows", ("row",), ((512, 64), (64,)), (("Add", _BOTH, {}),)),
    FamilyGraph("odd_rows", ("row_unaligned",), ((512, 77), (77,)), (("Add", _BOTH, {}),)),
    FamilyGraph("softmax", ("reduce_all",), ((512, 77),), (("Softmax", _X, {"axis": -1}),)),
    FamilyGraph(
        "any_softmax",
        ("reduce_all_tight",),
        (("n", "m"),),
        (("Softmax", _X, {"axis": -1}),),
        MappingProxyType({"n": 64, "m": 9001}),
    ),
    FamilyGraph("long_softmax", ("reduce",), ((8, 40000),), (("Softmax", _X, {"axis": -1}),)),
    FamilyGraph(
        "weighted_sums",
        ("reduce_rows",),
        ((64, 24000), (1, 24000)),
        (("Mul", _BOTH, {}), _SUM),
    ),
    FamilyGraph(
        "columns", ("reduce_block",), ((3000, 1000),), (("ReduceSum", _X, {"axes": (0,)}),)
    ),
    FamilyGraph(
        "heads",
        ("reduce_apart",),
        ((4, 12, 1024, 64),),
        (("Transpose", _X, {"perm": (0, 2, 1, 3)}), _SUM),
    ),
    FamilyGraph(
        "batch_norm",
        ("reduce_all_apart",),
        ((16, 96, 196),),
        (("ReduceSum", _X, {"axes": (0, 2), "keepdims": True}), ("Sub", ("x", "t0"), {})),
    ),
    FamilyGraph(
        "transposed", ("transpose",), ((128, 192),), (("Transpose", _X, {"perm": (1, 0)}),)
    ),
    FamilyGraph("triples", ("narrow",), ((5000, 3), (5000, 1)), (("Mul", _BOTH, {}),)),
    FamilyGraph(
        "channels",
        ("narrow_outer",),
        ((200, 3, 64),),
        (("Transpose", _X, {"perm": (0, 2, 1)}),),
    ),
    FamilyGraph("pairs", ("narrow_rows",), ((64, 8192, 2), (8192, 1)), (("Mul", _BOTH, {}),)),
    FamilyGraph("sums", ("scan_all",), ((256, 200),), (("CumSum", _X, {"axis": 1}),)),
    FamilyGraph("few_sums", ("scan_all_few",), ((16, 4000),), (("CumSum", _X, {"axis": 1}),)),
    FamilyGraph("long_sums", ("scan",), ((5, 30000),), (("CumSum", _X, {"axis": 1}),)),
    FamilyGraph(
        "divided_sum",
        ("reduce",),
        ((100_000,),),
        (("ReduceSum", _X, {"axes": (0,)}),),
        meets=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """One kernel to compare with NumPy.

    Attributes:
        name: unique; words separated by dots.
        kind: ``op``, ``template`` or ``corner``.
        about: the op, the graph of a family, or the assumption.
        dtype: dtype of its inputs.
        meets: its kernel has a barrier of all cores.
    """

    name: str
    kind: str
    about: str
    dtype: str
    meets: bool = False

    def is_claimed(self, target: TargetSpec) -> bool:
        """Return True if the target claims the op for the dtype; subjects of other kinds are always claimed."""
        if self.kind != "op":
            return True
        return realised(_ROWS[self.about], BY_NAME[self.dtype], target) != NONE

    def graph(self) -> FusionGraph:
        """Return the graph of the kernel."""
        if self.kind == "op":
            graph = one_op_graph(_ROWS[self.about], BY_NAME[self.dtype])
            return replace(graph, name=f"op_{self.about}_{self.dtype}")
        if self.kind == "template":
            return _family_graph(_FAMILIES[self.about])
        c = _CORNERS[self.about]
        shapes = [(_LONG,)] * len(c.inputs)
        names = tuple("xyz"[: len(c.inputs)])
        return _graph(f"corner_{c.name}", names, shapes, c.dtype, [(c.op, names, dict(c.attrs))])

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the symbols."""
        return dict(_FAMILIES[self.about].sizes) if self.kind == "template" else {}

    def inputs(self, graph: FusionGraph, seed: int) -> Iterator[tuple[str, dict[str, Array]]]:
        """Yield a suffix for the name of the case, and the inputs of the kernel."""
        if self.kind == "corner":
            c = _CORNERS[self.about]
            kind = numpy_dtype(BY_NAME[c.dtype])
            with np.errstate(all="ignore"):
                arrays = [np.resize(np.array(v), _LONG).astype(kind) for v in c.inputs]
            yield "", dict(zip(graph.inputs, arrays, strict=True))
            return
        sizes = self.sizes()
        yield "", random_inputs(graph, sizes, seed)
        if self.kind == "op" and any(graph.tensors[n].dtype.kind == "f" for n in graph.inputs):
            # They include infinities, NaN, signed zeros, subnormal and huge numbers.
            yield ".special", random_inputs(graph, sizes, seed + 1, special=True)


def subjects() -> Iterator[Subject]:
    """Yield all subjects, ops first."""
    for row in _ROWS.values():
        for dtype in DTYPES:
            try:
                one_op_graph(row, dtype)
            except OpError:
                continue
            yield Subject(f"op.{row.name}.{dtype.name}", "op", row.name, dtype.name)
    for f in FAMILIES:
        yield Subject(f"template.{f.name}", "template", f.name, "float32", f.meets)
    for c in CORNERS:
        yield Subject(f"corner.{c.name}", "corner", c.name, c.dtype)


def _family_graph(f: FamilyGraph) -> FusionGraph:
    return _graph(f"family_{f.name}", _BOTH[: len(f.shapes)], f.shapes, "float32", f.nodes)


def _graph(
    name: str,
    inputs: Sequence[str],
    shapes: Sequence[Sequence[int | str]],
    dtype: str,
    nodes: Sequence[Node],
) -> FusionGraph:
    symbols = dict.fromkeys(d for s in shapes for d in s if isinstance(d, str))
    tensors = {
        n: Tensor(n, BY_NAME[dtype], tuple(sym(d) if isinstance(d, str) else const(d) for d in s))
        for n, s in zip(inputs, shapes, strict=True)
    }
    made = []
    for i, (op, operands, attrs) in enumerate(nodes):
        kind, shape = infer_node(lookup(op), [tensors[n] for n in operands], attrs)
        tensors[f"t{i}"] = Tensor(f"t{i}", kind, shape)
        made.append(FusionNode(f"n{i}", op, operands, (f"t{i}",), attrs))
    last = f"t{len(nodes) - 1}"
    return FusionGraph(
        name,
        tuple(Symbol(s, 1, 1 << 20) for s in symbols),
        tuple(inputs),
        tuple(made),
        (GraphOutput(last, last),),
        tensors,
    )


_ROWS = {row.name: row for row in all_ops(user=True)}
_FAMILIES = {f.name: f for f in FAMILIES}
_CORNERS = {c.name: c for c in CORNERS}
