"""Support of a single op: its realisation for each dtype, and an example graph file."""

from __future__ import annotations

from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.ops.definition import OpDef, OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.legal.legalize import legalize
from autofuse.schedule.scheduler import schedule
from autofuse.targets import TargetSpec

__all__ = ["DTYPES", "MEANINGS", "NONE", "allowed", "example", "one_op_graph", "realised"]

#: The dtypes of tensors in graphs.
DTYPES = tuple(d for d in BY_NAME.values() if d.kind != "m")
SHAPE = (const(64), const(64))
#: Nodes that move data and compute nothing.
_MOVES = frozenset({"Data", "Output", "Load", "Store", "Scalar"})

NATIVE, COMPOSED, WIDENED, COPIED, NONE = "call", "calls", "wider", "copy", "-"
#: Words for the realisation of an op.
MEANINGS = {
    NATIVE: "one call of the chip's API",
    COMPOSED: "several calls",
    WIDENED: "computed in a wider dtype and cast back",
    COPIED: "moved only",
    NONE: "not available",
}


def allowed(row: OpDef) -> str:
    """Return the expected error of one application, of which ``verify`` allows twice as much; empty if exact."""
    parts = [f"{row.ulp:g} units in the last place of the result (ulp)"] if row.ulp else []
    parts += [f"{row.absolute:g}"] if row.absolute else []
    parts += [f"for n operands {row.addends}"] if row.addends else []
    return ", and ".join(parts)


def realised(row: OpDef, dtype: DType, target: TargetSpec) -> str:
    """Return how an op on fresh tensors of a dtype is realised: a word of :data:`MEANINGS`, else :data:`NONE`."""
    try:
        graph = one_op_graph(row, dtype)
        hint = canonicalise(lower(graph))
        if row.compute_type == "elewise":
            legal = legalize(hint.nodes, hint, target)
        else:
            legal = schedule(hint, target)[0].groups[0].impls[0].nodes
    except (AutofuseError, OpError):
        return NONE
    nodes = [n for n in legal if n.op not in _MOVES]
    if not nodes:
        return COPIED
    widened = (
        row.name != "Cast"
        and dtype.kind != "b"
        and all(n.op == "Cast" or n.y.dtype != dtype for n in nodes if n.y.dtype.kind not in "bm")
    )
    if widened and any(n.op == "Cast" for n in nodes):
        return WIDENED
    return NATIVE if len(nodes) == 1 else COMPOSED


#: Op -> the input that must be bool.
_CONDITION = {"Select": 0, "MaskedFill": 1}
#: Ops whose second input must be a constant.
_DEGREES = ("LaguerrePolynomialL", "LegendrePolynomialP")
#: Attributes of ops that move elements.
_MOVED: dict[str, dict[str, Any]] = {
    "Transpose": {"perm": (1, 0)},
    "Slice": {"starts": (const(0), const(8)), "shape": (SHAPE[0], const(16))},
    "Pad": {"low": (const(0), const(8)), "high": (const(0), const(8))},
}


def one_op_graph(row: OpDef, dtype: DType) -> FusionGraph:
    """Return a graph of one op on fresh inputs of one dtype; the condition of a Select is bool.

    Raises:
        OpError: the op does not support the dtype.
    """
    kinds = [dtype] * min(row.arity[1], max(row.arity[0], 2 if row.name == "AddN" else 1))
    if row.name in _CONDITION:
        kinds[_CONDITION[row.name]] = BY_NAME["bool"]
    if row.compute_type == "gather":
        kinds[1] = BY_NAME["int32"]
    shapes = [(SHAPE[0], const(1)) if row.name == "Broadcast" else SHAPE for _ in kinds]
    inputs = [Tensor(f"x{i}", k, s) for i, (k, s) in enumerate(zip(kinds, shapes, strict=True))]
    attrs: dict[str, Any] = {}
    if row.name == "Cast":
        attrs["dtype"] = "float16" if dtype.name == "float32" else "float32"
    if row.name == "BitCast":
        attrs["dtype"] = next(
            d.name for d in reversed(DTYPES) if d.bits == dtype.bits and d.kind != "b"
        )
    if row.name in ("Broadcast", "Reshape"):
        attrs["shape"] = SHAPE if row.name == "Broadcast" else (SHAPE[0] * SHAPE[1],)
    attrs |= _MOVED.get(row.name, {})
    attrs |= {"n": 5} if "n" in row.attr_names() else {}
    if "axis" in row.attr_names():
        attrs["axis"] = 1
    if "axes" in row.attr_names():
        attrs["axes"] = (1,)
    if row.name == "Iota":
        attrs |= {"shape": SHAPE, "dtype": dtype.name}
    operands: list[Tensor | Constant] = list(inputs)
    if row.name in _DEGREES:
        operands[1] = Constant(5.0)
        del inputs[1]
    kind, shape = infer_node(row, operands, attrs)
    tensors = {t.name: t for t in (*inputs, Tensor("y", kind, shape))}
    names = tuple(t.name for t in inputs)
    given = tuple(o.name if isinstance(o, Tensor) else o for o in operands)
    node = FusionNode("op", row.name, given, ("y",), attrs)
    return FusionGraph("support", (), names, (node,), (GraphOutput("y", "y"),), tensors)


def example(row: OpDef, dtype: DType) -> dict[str, Any]:
    """Return the graph file of :func:`one_op_graph`.

    Raises:
        OpError: the op does not support the dtype.
    """
    graph = one_op_graph(row, dtype)
    (node,) = graph.nodes
    written: dict[str, Any] = {
        "name": "op",
        "op": row.name,
        "inputs": [{"const": o.value} if isinstance(o, Constant) else o for o in node.inputs],
        "outputs": list(node.outputs),
    }
    if node.attrs:
        written["attrs"] = {k: _plain(v) for k, v in node.attrs.items()}
    return {
        "schema": "autofuse.graph/1",
        "name": f"{row.name}_example",
        "inputs": [
            {"name": n, "dtype": t.dtype.name, "shape": _plain(t.shape)}
            for n in graph.inputs
            if (t := graph.tensors[n])
        ],
        "nodes": [written],
        "outputs": ["y"],
    }


def _plain(value: Any) -> Any:
    """Return an attribute or a shape as JSON, with sizes as numbers."""
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return int(value.value) if isinstance(value, Expr) else value
