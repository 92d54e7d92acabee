"""Any partition of a model into regions is convex and has every node once."""

from collections.abc import Iterator

from extras import required
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = required("onnx")

from onnx import TensorProto, helper
from onnx_models import model, node, value

from autofuse.frontends.onnx.pieces import FALLBACK, KERNEL, read_pieces
from autofuse.frontends.onnx.regions import Regions, execution_order
from autofuse.frontends.regions import grow


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, tuple[int, ...]], set[int]]:
    """Nodes with those that they need, and the eligible ones."""
    count = draw(st.integers(1, 24))
    needs = {}
    for n in range(count):
        near = st.integers(max(0, n - 6), max(0, n - 1))
        needs[n] = tuple(sorted(draw(st.sets(near, max_size=3)))) if n else ()
    eligible = {n for n in needs if draw(st.integers(0, 3)) > 0}
    return needs, eligible


def reaching(needs: dict[int, tuple[int, ...]], nodes: set[int]) -> set[int]:
    """All nodes that some of these need, directly or not."""
    found: set[int] = set()
    todo = list(nodes)
    while todo:
        for d in needs[todo.pop()]:
            if d not in found:
                found.add(d)
                todo.append(d)
    return found


def between(needs: dict[int, tuple[int, ...]], region: set[int]) -> Iterator[int]:
    """Nodes outside of a region that need one of it and are needed by one of it."""
    above = reaching(needs, region)
    for n in above - region:
        if reaching(needs, {n}) & region:
            yield n


@given(graphs(), st.integers(1, 9))
@settings(max_examples=300, deadline=None)
def test_regions_are_convex_and_have_every_node_once(
    graph: tuple[dict[int, tuple[int, ...]], set[int]], most: int
) -> None:
    needs, eligible = graph
    found = grow(needs, eligible, lambda a, b: 1 + (a * 7 + b) % 5, lambda s: len(s) <= most)
    assert sorted(n for r in found for n in r) == sorted(eligible)
    for r in found:
        assert len(r) <= most
        assert not list(between(needs, set(r)))
    units = [*found, *((n,) for n in needs if n not in eligible)]
    done: set[int] = set()
    for k in execution_order(units, needs):
        assert all(set(needs[n]) <= done | set(units[k]) for n in units[k])
        done.update(units[k])
    assert done == needs.keys()


@given(graphs())
@settings(max_examples=100, deadline=None)
def test_a_chain_of_eligible_nodes_is_one_region(
    graph: tuple[dict[int, tuple[int, ...]], set[int]],
) -> None:
    count = len(graph[0])
    needs = {n: (n - 1,) if n else () for n in range(count)}
    assert grow(needs, set(needs), lambda a, b: 1, lambda s: True) == [tuple(range(count))]


OPS = {"Add": 2, "Relu": 1, "Mul": 2, "MatMul": 2, "Transpose": 1, "Shape": 1, "Identity": 1}


@st.composite
def models(draw: st.DrawFn) -> tuple[list[tuple[str, list[int]]], list[int]]:
    """Nodes as (op, operands by number), and the outputs; number 0 is the input."""
    nodes: list[tuple[str, list[int]]] = []
    square = [0]
    for n in range(1, draw(st.integers(2, 14))):
        op = draw(st.sampled_from(sorted(OPS)))
        nodes.append((op, [draw(st.sampled_from(square)) for _ in range(OPS[op])]))
        if op != "Shape":
            square.append(n)
    made = st.sets(st.integers(1, len(nodes)), min_size=1, max_size=3)
    return nodes, sorted(draw(made))


@given(models())
@settings(max_examples=60, deadline=None)
def test_every_node_of_a_model_has_one_place(
    given_model: tuple[list[tuple[str, list[int]]], list[int]],
) -> None:
    nodes, outputs = given_model
    proto = model(
        [node(op, [f"t{x}" for x in xs], [f"t{k + 1}"]) for k, (op, xs) in enumerate(nodes)],
        [value("t0", ["n", "n"])],
        [],
    )
    kinds = [
        TensorProto.INT64 if nodes[o - 1][0] == "Shape" else TensorProto.FLOAT for o in outputs
    ]
    proto.graph.output.extend(
        helper.make_tensor_value_info(f"t{o}", k, None) for o, k in zip(outputs, kinds, strict=True)
    )
    pieces = read_pieces(proto)
    assert [p.index for p in pieces.pieces] == list(range(len(nodes)))
    regions = Regions(pieces)
    kernels = [p.index for p in pieces.pieces if p.kind == KERNEL]
    found = regions.grown(kernels)
    assert sorted(n for r in found for n in r) == kernels
    assert all(p.op == "MatMul" for p in pieces.pieces if p.kind == FALLBACK)
    needs = dict(regions.needs)
    for r in found:
        assert not list(between(needs, set(r)))
    others = [(p.index,) for p in pieces.pieces if p.kind == FALLBACK]
    execution_order([*found, *others], needs)
