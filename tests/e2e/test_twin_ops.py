"""Every op of the registry, in every dtype that it takes, against its reference."""

import pytest

from autofuse import api
from autofuse.implgraph.dtypes import BY_NAME
from autofuse.implgraph.expr import const
from autofuse.implgraph.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.infer import infer_node
from autofuse.implgraph.ops import OpError, all_ops, lookup
from autofuse.twin.verify import verify_kernel

pytestmark = pytest.mark.twin

SHAPE = (const(3), const(333))
ELEMENTWISE = [r.name for r in all_ops(user=True) if r.compute_type == "elewise" and not r.attrs]
DTYPES = ("float32", "float16", "bfloat16", "int32", "int16", "bool")


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as m:
        m.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def graph_of(op):
    """The op in every dtype that it takes, as one graph; the condition of a select is bool."""
    row = lookup(op)
    count = max(row.arity[0], 3 if row.arity[1] > 3 else 0)
    tensors, names, nodes, outputs = {}, [], [], []
    for name in DTYPES:
        operands = [Tensor(f"x{i}_{name}", BY_NAME[name], SHAPE) for i in range(count)]
        if row.dtype_rule is lookup("Select").dtype_rule:
            operands[0] = Tensor(f"x0_{name}", BY_NAME["bool"], SHAPE)
        try:
            result, shape = infer_node(row, operands, {})
        except OpError:
            continue
        made = Tensor(f"y_{name}", result, shape)
        tensors |= {t.name: t for t in (*operands, made)}
        names += [t.name for t in operands]
        nodes.append(FusionNode(name, op, tuple(t.name for t in operands), (made.name,)))
        outputs.append(GraphOutput(made.name, made.name))
    return FusionGraph(f"{op.lower()}_all", (), tuple(names), tuple(nodes), tuple(outputs), tensors)


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_op(op):
    g = graph_of(op)
    built = api.build(g, verify_ir=True)
    # NaN, infinities and the ends of the range, too; a power amplifies these beyond meaning.
    report = verify_kernel(built.files, g, special=op != "Pow")
    assert report.ok, "\n".join(map(str, report.diagnostics))
