"""Hand-built graphs with their templates, to test code generation without the scheduler."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from twin_graphs import every_template

from autofuse.implgraph.expr.expression import CeilDiv, Expr, align_up, const, product, sym
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Symbol, Tensor
from autofuse.implgraph.ir.graph import (
    Api,
    Axis,
    AxisType,
    BufferKind,
    BufferPlan,
    Condition,
    HintGraph,
    ImplGraph,
    Node,
    Position,
    Queue,
    TensorView,
    TileLength,
    TilingSpec,
)
from autofuse.schedule.axes.result import Group, Rejected, ScheduleResult

F32 = dtype("float32")


@dataclass(frozen=True)
class Case:
    graph: FusionGraph
    results: tuple[ScheduleResult, ...]


def fusion_graph(name: str, shape: tuple[Expr, ...], symbols: tuple[Symbol, ...]) -> FusionGraph:
    return FusionGraph(
        name=name,
        symbols=symbols,
        inputs=("x",),
        nodes=(FusionNode("abs_0", "Abs", ("x",), ("y",)),),
        outputs=(GraphOutput("y", "y"),),
        tensors={"x": Tensor("x", F32, shape), "y": Tensor("y", F32, shape)},
    )


def api(kind: str, unit: str) -> Api:
    return Api("Compute", kind, unit)


def impl(
    graph: FusionGraph,
    spec: TilingSpec,
    axes: tuple[Axis, ...],
    vector: tuple[int, ...],
    *,
    template: str = "general",
    suffix: str = "",
    group: int = 0,
) -> ImplGraph:
    """Load, Abs, Store along ``axes``; the axes ``vector`` are inside one call."""
    ids = tuple(a.id for a in axes)
    sizes = tuple(a.size for a in axes)
    strides = tuple(product(sizes[i + 1 :]) for i in range(len(axes)))
    view = TensorView(F32, ids, sizes, strides)
    inside = tuple(strides[ids.index(a)] for a in vector)
    view = replace(view, vectorized_axis=vector, vectorized_strides=inside)
    loop = ids[0]
    room = align_up(4 * product(axes[ids.index(a)].size for a in vector), 32)
    buffers = tuple(
        BufferPlan(BufferKind.QUEUE, i, position, 2, 2, room, (name,))
        for i, (position, name) in enumerate(
            ((Position.VECIN, "load_0"), (Position.VECOUT, "abs_0"))
        )
    )
    loaded, made = (replace(view, que=Queue(b.id, 2, 2)) for b in buffers)
    nodes = (
        Node(
            "data_0",
            "Data",
            (),
            replace(view, vectorized_axis=(), vectorized_strides=()),
            {"index": 0},
        ),
        Node("load_0", "Load", ("data_0",), loaded, loop_axis=loop, api=api("load", "MTE2")),
        Node("abs_0", "Abs", ("load_0",), made, loop_axis=loop, api=api("elewise", "Vector")),
        Node("store_0", "Store", ("abs_0",), view, loop_axis=loop, api=api("store", "MTE3")),
        Node("output_0", "Output", ("store_0",), view, {"index": 0}),
    )
    return ImplGraph(
        graph=graph.name,
        result=0,
        group=group,
        template=template,
        suffix=suffix,
        y_axis=spec.opened.axis,
        symbols=graph.symbols,
        axes=axes,
        nodes=nodes,
        buffers=buffers,
        tiling=spec,
    )


def general(
    graph: FusionGraph, tile: str = "z0z1t_size", block: str = "z0z1Tb_size", group: int = 0
) -> ImplGraph:
    """All axes merged into one."""
    extent = product(graph.tensors["x"].shape)
    t = sym(tile)
    spec = TilingSpec(
        lengths=(TileLength(2, tile, extent, 8),),
        block_size=block,
        outer=const(1),
        row_elements=const(1),
        ub=4 * align_up(4 * t, 32),
        ub_limit=188160,
    )
    axes = (
        Axis(0, "z0z1T", CeilDiv(extent, t), AxisType.TILE_OUT, (2,)),
        Axis(1, "z0z1t", t, AxisType.TILE_IN, (2,)),
    )
    return impl(graph, spec, axes, (1,), group=group)


def rows(graph: FusionGraph, conditions: tuple[Condition, ...] = ()) -> ImplGraph:
    """The first axis tiled, the last one inside the call."""
    m, n = graph.tensors["x"].shape
    t = sym("z0t_size")
    spec = TilingSpec(
        lengths=(TileLength(0, "z0t_size", m, 1, const(4095)),),
        block_size="z0Tb_size",
        outer=const(1),
        row_elements=n,
        ub=4 * align_up(4 * n, 32) * t,
        ub_limit=188160,
        conditions=conditions,
    )
    axes = (
        Axis(0, "z0T", CeilDiv(m, t), AxisType.TILE_OUT, (0,)),
        Axis(1, "z0t", t, AxisType.TILE_IN, (0,)),
        Axis(2, "z1", n),
    )
    return impl(graph, spec, axes, (1, 2), template="row", suffix="unaligned")


def schedule(graph: FusionGraph, *groups: tuple[ImplGraph, ...]) -> tuple[ScheduleResult, ...]:
    hint = HintGraph(graph.name, graph.symbols, (), ())
    made = tuple(Group(i, impls) for i, impls in enumerate(groups))
    return (ScheduleResult(0, hint, made, (Rejected(0, "column", "needs 2 axes"),)),)


@pytest.fixture(autouse=True, scope="module")
def _every_template(request: pytest.FixtureRequest) -> Iterator[None]:
    """Code is made and proved for every template, also for those that win nowhere; kernels of backends are whole."""
    with nullcontext() if request.path.parent.name == "backends" else every_template():
        yield


@pytest.fixture
def abs_case() -> Case:
    """abs of [s0, 200] with one template."""
    graph = fusion_graph("abs_test", (sym("s0"), const(200)), (Symbol("s0", 1, 1 << 20, 200),))
    return Case(graph, schedule(graph, (general(graph),)))


@pytest.fixture
def two_templates() -> Case:
    """abs of [s0, s1]; the second template wants s1 to be a multiple of 8."""
    graph = fusion_graph(
        "abs_two", (sym("s0"), sym("s1")), (Symbol("s0", 0, 1 << 40), Symbol("s1", 0, 1 << 40))
    )
    impls = (general(graph), rows(graph, (Condition(sym("s1"), 8),)))
    return Case(graph, schedule(graph, impls))


@pytest.fixture
def two_groups() -> Case:
    """Two groups of two templates each, static shape."""
    graph = fusion_graph("abs_static", (const(64), const(200)), ())
    first = (general(graph), rows(graph))
    second = (
        general(graph, "b_t_size", "b_Tb_size", group=1),
        general(graph, "b_t_size", "b_Tb_size", group=1),
    )
    return Case(graph, schedule(graph, first, second))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Writes files by path into the test's folder."""

    def do(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return do
