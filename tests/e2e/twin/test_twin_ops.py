"""Every op of the registry, in every dtype that it takes, against its reference; several ops to a kernel."""

import numpy as np
import pytest

from autofuse import api
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import all_ops, lookup
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = pytest.mark.twin

SHAPE = (const(399),)
#: Floats that are computed as they are; the others go through float32, which the third dtype shows.
DTYPES = (
    *("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
    *("int64", "bool"),
)
ATTRS = {f"ShiftedChebyshevPolynomial{x}": {"n": 4} for x in "TUVW"}
#: The input that is bool.
CONDITION = {"Select": 0, "MaskedFill": 1}
DEGREE = ("LaguerrePolynomialL", "LegendrePolynomialP")
#: Infinite arguments of polynomials, and a power, amplify beyond meaning.
TAME = frozenset({*DEGREE, *ATTRS, "Pow"})
#: Of what is computed in a wider dtype the wider one is tested, and these: the casts are the same for all ops.
KEPT = ("int8", "uint16")
PER_KERNEL = 16


def jobs():
    """(op, dtypes of the inputs) for all that the rows and the chip take."""
    out = []
    for row in all_ops(user=True):
        if row.compute_type != "elewise" or row.name in ("Cast", "BitCast"):
            continue
        for dtype in DTYPES:
            kinds = [dtype] * max(row.arity[0], 3 if row.arity[1] > 3 else 0)
            if row.name in CONDITION:
                kinds[CONDITION[row.name]] = "bool"
            try:
                infer_node(row, tensors(kinds), ATTRS.get(row.name, {}))
            except OpError:
                continue
            if dtype == "int64" and row.name == "Pow":
                continue  # 800 calls: test_long_integers_on_twin.py
            if dtype in row.promote and row.cost in ("unary", "div") and dtype not in KEPT:
                continue
            out.append((row.name, tuple(kinds)))
    return out


def tensors(kinds):
    return [Tensor(f"x{i}_{d}", BY_NAME[d], SHAPE) for i, d in enumerate(kinds)]


def graph_of(batch, name="ops"):
    """One node per job; jobs share their inputs."""
    found, inputs, nodes, outputs = {}, {}, [], []
    for k, (op, kinds) in enumerate(batch):
        row = lookup(op)
        operands = tensors(kinds)
        attrs = ATTRS.get(op, {})
        if op in DEGREE:
            operands[1] = Constant(4.0)
        kind, shape = infer_node(row, operands, attrs)
        made = Tensor(f"y{k}_{op.lower()}_{kinds[-1]}", kind, shape)
        inputs |= {t.name: t for t in operands if isinstance(t, Tensor)}
        found[made.name] = made
        names = tuple(t.name if isinstance(t, Tensor) else t for t in operands)
        nodes.append(FusionNode(f"n{k}", op, names, (made.name,), attrs))
        outputs.append(GraphOutput(made.name, made.name))
    return FusionGraph(name, (), tuple(inputs), tuple(nodes), tuple(outputs), inputs | found)


def batches():
    tame = [j for j in jobs() if j[0] in TAME]
    wild = [j for j in jobs() if j[0] not in TAME]
    parts = [tame[i : i + PER_KERNEL] for i in range(0, len(tame), PER_KERNEL)]
    return parts + [wild[i : i + PER_KERNEL] for i in range(0, len(wild), PER_KERNEL)]


def test_promoted_floats_are_cast_around_an_op():
    names = ("Expm1", "Atan2", "Softsign", "Fmod", "CopySign", "Round", "Ndtri", "Hypot")
    check([(op, (d,) * lookup(op).arity[0]) for op in names for d in ("float16", "bfloat16")])


def check(batch):
    g = graph_of(batch)
    built = api.build(g)
    # NaN, infinities and the ends of the range, too.
    report = verify_kernel(built.files, g, special=batch[0][0] not in TAME)
    assert report.ok, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize("batch", batches(), ids=lambda b: f"{b[0][0]}..{b[-1][0]}")
def test_ops(batch):
    check(batch)


def test_casts_between_integers_wrap_and_to_them_saturate():
    names = [d for d in DTYPES if d != "bool"]
    for to in names:
        shape = SHAPE
        inputs = {d: Tensor(f"x_{d}", BY_NAME[d], shape) for d in names if d != to}
        found = {f"y_{d}": Tensor(f"y_{d}", BY_NAME[to], shape) for d in inputs}
        nodes = tuple(
            FusionNode(d, "Cast", (f"x_{d}",), (f"y_{d}",), {"dtype": to}) for d in inputs
        )
        outputs = tuple(GraphOutput(y, y) for y in found)
        every = {t.name: t for t in inputs.values()} | found
        g = FusionGraph("casts", (), tuple(t.name for t in inputs.values()), nodes, outputs, every)
        report = verify_kernel(api.build(g).files, g, special=True)
        assert report.ok, f"to {to}:\n" + "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_integers_are_compared_where_the_chip_compares_floats(dtype):
    # Neighbours that are one float32, ends of the range, and operands that are often equal.
    edge = 0 if dtype[0] == "u" else -(2**31)
    ops = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
    rows = [("Minimum", ["a", "b"], "m"), ("Add", ["m", {"const": 1}], "next")]
    rows += [(op, ["m", x], f"{op.lower()}_{x}") for op in ops for x in ("b", "next")]
    rows += [
        ("Equal", ["m", {"const": edge}], "at_edge"),
        ("Less", ["m", {"const": 2**31 - 1}], "near"),
    ]
    g = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "compared",
            "inputs": [{"name": x, "shape": [1024], "dtype": dtype} for x in "ab"],
            "nodes": [
                {"name": f"n_{y}", "op": op, "inputs": xs, "outputs": [y]} for op, xs, y in rows
            ],
            "outputs": [y for _, _, y in rows[2:]],
        }
    )
    report = verify_kernel(api.build(g, target="ascend310p").files, g, special=True)
    assert report.ok, "\n".join(map(str, report.diagnostics))


def test_polynomials_of_infinities_and_of_what_is_no_number():
    """Of degree 0 all are 1; Chebyshev's go to infinity with their argument, as far as the sign of the leading term."""
    x = np.array([np.inf, -np.inf, np.nan, 0.5, 2.0], np.float32)
    nodes, wanted = [], []
    for op in (*ATTRS, *DEGREE):
        for n in (0, 1, 4, 5) if op in ATTRS else (0,):
            degree = {"attrs": {"n": n}, "inputs": ["x"]} if op in ATTRS else {"inputs": ["x", n]}
            nodes.append({"name": f"n{len(nodes)}", "op": op, "outputs": [f"{op}_{n}"], **degree})
            wanted.append([np.inf, np.inf if n == 4 else -np.inf, np.nan] if n else [1.0, 1.0, 1.0])
    graph = {
        "schema": "autofuse.graph/1",
        "name": "polynomials",
        "inputs": [{"name": "x", "shape": [5], "dtype": "float32"}],
        "nodes": [
            {**n, "inputs": [i if isinstance(i, str) else {"const": i} for i in n["inputs"]]}
            for n in nodes
        ],
        "outputs": [n["outputs"][0] for n in nodes],
    }
    built = api.build(graph)
    kernel = api.load(built)
    for node, got, want in zip(nodes, kernel(x), wanted, strict=True):
        np.testing.assert_array_equal(got[:3], np.float32(want), err_msg=str(node))
        exact = evaluate(built.graph, {"x": x}, {})[node["outputs"][0]].value[:3]
        np.testing.assert_array_equal(got[:3], np.float32(exact), err_msg=str(node))
