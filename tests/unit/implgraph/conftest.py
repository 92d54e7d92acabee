"""Graphs built by hand from the dataclasses: abs on 200 x 200, before and after scheduling."""

from dataclasses import replace

import pytest

from autofuse.implgraph.expr.expression import ZERO, CeilDiv, Ratio, const, sym
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import (
    Constant,
    FusionGraph,
    FusionNode,
    GraphOutput,
    Symbol,
    Tensor,
)
from autofuse.implgraph.ir.graph import (
    AllocType,
    Api,
    Axis,
    AxisType,
    BufferKind,
    BufferPlan,
    Hardware,
    HintGraph,
    ImplGraph,
    Mem,
    Node,
    Position,
    Queue,
    TensorView,
    TileLength,
    TilingSpec,
)

F32 = dtype("float32")
T, TB = sym("z0z1t_size"), sym("z0z1Tb_size")
TILES = CeilDiv(40000, T)
NEST = (5, 6, 4)
REPEATS = (Ratio(40000, TB * T), TB, T)
STRIDES = (TB * T, T, const(1))


def _gm(tensor_id: int) -> Mem:
    return Mem(tensor_id, AllocType.GLOBAL, Hardware.GM, Position.GM)


def _ub(tensor_id: int, position: Position, reuse: int) -> Mem:
    return Mem(tensor_id, AllocType.QUEUE, Hardware.UB, position, reuse_id=reuse)


def _y(mem: Mem, que: Queue | None = None) -> TensorView:
    return TensorView(F32, NEST, REPEATS, STRIDES, ZERO, (4,), (const(1),), mem, que)


def _axes() -> tuple[Axis, ...]:
    return (
        Axis(0, "z0", const(200)),
        Axis(1, "z1", const(200)),
        Axis(2, "z0z1", const(40000)),
        Axis(3, "z0z1T", TILES, AxisType.TILE_OUT, (2,), 1),
        Axis(4, "z0z1t", T, AxisType.TILE_IN, (2,), 1),
        Axis(5, "z0z1TB", CeilDiv(TILES, TB), AxisType.BLOCK_OUT, (3,), 1),
        Axis(6, "z0z1Tb", TB, AxisType.BLOCK_IN, (3,), 1),
    )


@pytest.fixture
def abs_impl() -> ImplGraph:
    """The graph of the source document, general template."""
    nodes = (
        Node(
            "Data_0",
            "Data",
            (),
            _y(_gm(0)),
            {"index": 0},
            NEST,
            None,
            Api("Buffer", "data", "None"),
        ),
        Node(
            "gather_0",
            "Load",
            ("Data_0",),
            _y(_ub(2, Position.VECIN, 0), Queue(0, 2, 2)),
            {},
            NEST,
            6,
            Api("Compute", "load", "MTE2"),
        ),
        Node(
            "abs_0",
            "Abs",
            ("gather_0",),
            _y(_ub(3, Position.VECOUT, 1), Queue(1, 2, 2)),
            {},
            NEST,
            6,
            Api("Compute", "elewise", "Vector"),
            origin="/nodes/0",
        ),
        Node(
            "store", "Store", ("abs_0",), _y(_gm(1)), {}, NEST, 6, Api("Compute", "store", "MTE3")
        ),
        Node(
            "Output_0",
            "Output",
            ("store",),
            _y(_gm(4)),
            {"index": 0},
            NEST,
            None,
            Api("Buffer", "output", "None"),
        ),
    )
    nbytes = CeilDiv(T * 4, 32) * 32
    buffers = (
        BufferPlan(BufferKind.QUEUE, 0, Position.VECIN, 2, 2, nbytes, ("gather_0",)),
        BufferPlan(BufferKind.QUEUE, 1, Position.VECOUT, 2, 2, nbytes, ("abs_0",)),
    )
    tiling = TilingSpec(
        lengths=(TileLength(2, "z0z1t_size", const(40000), 8),),
        block_size="z0z1Tb_size",
        outer=const(1),
        row_elements=const(1),
        ub=nbytes * 4,
        ub_limit=188416,
    )
    return ImplGraph("abs_test", 0, 0, "general", "", 2, (), _axes(), nodes, buffers, tiling)


@pytest.fixture
def abs_hint() -> HintGraph:
    """The same before scheduling, with one symbolic size."""
    s0 = sym("s0")

    def y(**kw: object) -> TensorView:
        view = TensorView(F32, (0, 1), (s0, const(200)), (const(200), const(1)))
        return replace(view, **kw)

    nodes = (
        Node("Data_0", "Data", (), y(), {"index": 0}, (0, 1)),
        Node("gather_0", "Load", ("Data_0",), y(), {}, (0, 1)),
        Node("abs_0", "Abs", ("gather_0",), y(), {}, (0, 1), origin="/nodes/0"),
        Node("store", "Store", ("abs_0",), y(), {}, (0, 1)),
        Node("Output_0", "Output", ("store",), y(), {"index": 0}, (0, 1)),
    )
    axes = (Axis(0, "z0", s0), Axis(1, "z1", const(200)))
    return HintGraph("abs_test", (Symbol("s0", 1, 1048576, 200),), axes, nodes)


@pytest.fixture
def fusion() -> FusionGraph:
    """A FusionGraph with every kind of thing in it."""
    s0 = sym("s0")
    shape = (s0, const(200))
    tensors = {
        "x": Tensor("x", F32, shape, origin="/inputs/0"),
        "k": Tensor("k", F32, (), scalar=True),
        "v": Tensor("v", F32, shape, (s0 * 4, const(1)), const(8)),
        "a": Tensor("a", F32, shape),
        "b": Tensor("b", F32, (s0 * 200,)),
        "c": Tensor("c", dtype("float16"), (s0 * 200,)),
    }
    nodes = (
        FusionNode("add", "AddN", ("x", "k", "v", Constant(1.5)), ("a",), {}, "/nodes/0"),
        FusionNode("view", "Reshape", ("a",), ("b",), {"shape": (s0 * 200,)}),
        FusionNode("cast", "Cast", ("b",), ("c",), {"dtype": "float16"}),
        FusionNode("max", "Maximum", ("b", Constant(1, F32)), ("d",)),
    )
    tensors["d"] = replace(tensors["b"], name="d")
    outputs = (GraphOutput("y", "c"), GraphOutput("x_out", "a", "x"))
    return FusionGraph("mix", (Symbol("s0"),), ("x", "k", "v"), nodes, outputs, tensors)
