"""Every element-wise op of the registry as a graph of one node, on every dtype that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import all_ops, lookup

__all__ = ["DTYPES", "ELEMENTS", "graph_of", "graphs", "variants"]

#: A block with a tail.
ELEMENTS = 1009
DTYPES = tuple(d for d in BY_NAME if d != "mask")
CHEBYSHEV = {f"ShiftedChebyshevPolynomial{x}": {"n": 4} for x in "TUVW"}
DEGREE = ("LaguerrePolynomialL", "LegendrePolynomialP")
#: The input that is bool.
CONDITION = {"Select": 0, "MaskedFill": 1}
#: Infinite arguments of polynomials, and a power, amplify beyond meaning.
TAME = frozenset({*DEGREE, *CHEBYSHEV, "Pow"})
#: Further attributes that change what an op means.
VARIANTS = {
    "BitShift": ({"direction": "RIGHT"},),
    "Mod": ({"fmod": True},),
    "IsInf": ({"detect_negative": False}, {"detect_positive": False}),
}


def graph_of(
    op: str, kinds: Sequence[str], attrs: Mapping[str, Any], elements: int = ELEMENTS
) -> FusionGraph | None:
    """One node as a graph, or None where the op does not take the types."""
    operands: list[Any] = [
        Tensor(f"x{i}_{d}", BY_NAME[d], (const(elements),)) for i, d in enumerate(kinds)
    ]
    if op in DEGREE:
        operands[1] = Constant(4.0)
    try:
        kind, shape = infer_node(lookup(op), operands, attrs)
    except OpError:
        return None
    out = Tensor("y", kind, shape)
    given = {t.name: t for t in operands if isinstance(t, Tensor)}
    names = tuple(t.name if isinstance(t, Tensor) else t for t in operands)
    nodes = (FusionNode("n", op, names, ("y",), attrs),)
    return FusionGraph("g", (), tuple(given), nodes, (GraphOutput("y", "y"),), given | {"y": out})


def graphs(dtypes: Sequence[str]) -> Iterator[tuple[str, FusionGraph, bool]]:
    """(title, graph, whether special values make sense) for all that the rows take."""
    for row in all_ops(user=True):
        if row.compute_type != "elewise":
            continue
        for dtype in dtypes:
            kinds = [dtype] * (3 if row.arity[1] > 3 else row.arity[0])
            if row.name in CONDITION:
                kinds[CONDITION[row.name]] = "bool"
            for attrs in _attrs(row.name, dtype):
                g = graph_of(row.name, kinds, attrs)
                if g is not None:
                    yield f"{row.name} {dtype} {attrs}", g, row.name not in TAME


def variants(op: str, dtype: str) -> Sequence[Mapping[str, Any]]:
    """Return further attributes of an op that change what it means on a dtype."""
    if op == "Axpy":  # the largest number times alpha stays finite: infinity minus it is no NaN
        return ({"alpha": -0.5 if BY_NAME[dtype].kind == "f" else 2.0},)
    return VARIANTS.get(op, ())


def _attrs(op: str, dtype: str) -> list[dict[str, Any]]:
    if op == "Cast":
        modes = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
        return [{"dtype": d} for d in DTYPES if d != dtype] + [
            {"dtype": d, "round": m} for m in modes for d in ("int8", "int32", dtype)
        ]
    if op == "BitCast":
        return [{"dtype": d} for d in DTYPES if BY_NAME[d].bits == BY_NAME[dtype].bits]
    return [CHEBYSHEV.get(op, {}), *variants(op, dtype)]
