"""Small graphs, and a check that lowering keeps what they mean."""

from __future__ import annotations

import numpy as np

from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.expr.expression import Expr, sym
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Symbol, Tensor
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.machines.twin.oracle.oracle import evaluate


def dims(*shape):
    return tuple(sym(s) if isinstance(s, str) else Expr.of(s) for s in shape)


def graph(inputs, nodes, outputs, symbols=(), dtype="float32"):
    """A FusionGraph.

    Inputs: name -> shape, or (shape, dtype).  Nodes: (result, op, operands, attrs).  Outputs: names, or (name, inout).
    """
    tensors = {}
    for name, given in inputs.items():
        shape, kind = given if given and isinstance(given[0], tuple) else (given, dtype)
        tensors[name] = Tensor(name, BY_NAME[kind], dims(*shape))
    made = []
    for result, op, operands, *rest in nodes:
        attrs = rest[0] if rest else {}
        values = [tensors[x] if isinstance(x, str) else x for x in operands]
        kind, shape = infer_node(lookup(op), values, attrs)
        tensors[result] = Tensor(result, kind, shape)
        made.append(FusionNode(f"{op.lower()}_{len(made)}", op, tuple(operands), (result,), attrs))
    outs = [o if isinstance(o, tuple) else (o, None) for o in outputs]
    return FusionGraph(
        "g",
        tuple(Symbol(s, 0, 1 << 20) for s in symbols),
        tuple(inputs),
        tuple(made),
        tuple(GraphOutput(f"o{i}", t, alias) for i, (t, alias) in enumerate(outs)),
        tensors,
    )


def checked(g, env=None, lower=lower):
    """The canonical HintGraph, after it was executed beside the reference of the comparison."""
    hint = canonicalise(lower(g))
    assert verify(hint) == []
    env = env or {}
    rng = np.random.default_rng(1)
    inputs = {}
    for name in g.inputs:
        t = g.tensors[name]
        shape = tuple(s.evaluate(env) for s in t.shape)
        values = rng.integers(-8, 9, shape)
        inputs[name] = (values / 4 if t.dtype.kind == "f" else values).astype(numpy_dtype(t.dtype))
    want = evaluate(g, inputs, env)
    got = interpret(hint, [inputs[n].ravel() for n in g.inputs], env)
    for o, value in zip(g.outputs, got, strict=True):
        ref = want[o.name]
        tolerance = 0 if ref.tolerance is None else ref.tolerance
        have = np.asarray(value).reshape(ref.value.shape)
        exact = ref.value.astype(np.float64)
        same = (have == ref.value) | (np.isnan(exact) & np.isnan(have.astype(np.float64)))
        with np.errstate(invalid="ignore"):
            near = np.abs(have.astype(np.float64) - exact) <= tolerance
        assert (same | near).all(), o.name
    return hint
