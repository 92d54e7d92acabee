"""Small graphs, and what the scheduler makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from autofuse.implgraph.expr.expression import Expr, const, sym
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import (
    Constant,
    FusionGraph,
    FusionNode,
    GraphOutput,
    Symbol,
    Tensor,
)
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph, Node
from autofuse.implgraph.lowering.lowering import groups, lower
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.axes.tiling_axes import GroupInput, plain
from autofuse.schedule.legal.legalize import legalize
from autofuse.schedule.scheduler import schedule
from autofuse.targets import TargetSpec, load_target

Size: TypeAlias = "int | str"


def expr(s: Size) -> Expr:
    return const(s) if isinstance(s, int) else sym(s)


def make_graph(
    inputs: Mapping[str, tuple[Any, ...]],
    nodes: Sequence[tuple[Any, ...]],
    outputs: Sequence[str],
    **symbols: tuple[int, int, int | None],
) -> FusionGraph:
    """A graph.

    Args:
        inputs: name -> (dtype, shape) or (dtype, shape, strides, offset).
        nodes: (result, op, operands) or (result, op, operands, attrs); a number is a constant.
        outputs: names of tensors.
        symbols: name -> (min, max, hint).
    """
    tensors: dict[str, Tensor] = {}
    for name, (d, shape, *layout) in inputs.items():
        strides = tuple(expr(s) for s in layout[0]) if layout else None
        offset = expr(layout[1]) if layout else None
        tensors[name] = Tensor(name, dtype(d), tuple(map(expr, shape)), strides, offset)
    made = []
    for result, op, operands, *rest in nodes:
        attrs = dict(rest[0]) if rest else {}
        if "shape" in attrs:
            attrs["shape"] = tuple(map(expr, attrs["shape"]))
        values = [x if isinstance(x, str) else Constant(x) for x in operands]
        known = [x if isinstance(x, Constant) else tensors[x] for x in values]
        tensors[result] = Tensor(result, *infer_node(lookup(op), known, attrs))
        made.append(FusionNode(f"{op.lower()}_{result}", op, tuple(values), (result,), attrs))
    return FusionGraph(
        "g",
        tuple(Symbol(k, *v) for k, v in symbols.items()),
        tuple(inputs),
        tuple(made),
        tuple(GraphOutput(f"o{i}", t) for i, t in enumerate(outputs)),
        tensors,
    )


def hint_of(graph: FusionGraph) -> HintGraph:
    return canonicalise(lower(graph))


def legal_group(hint: HintGraph, target: TargetSpec) -> GroupInput:
    """The first group of a graph, legalised."""
    nodes = groups(hint)[0]
    inside = {n.name for n in nodes}
    used = {i for n in nodes for i in n.inputs}
    data = [n for n in hint.ops("Data") if n.name in used]
    outputs = [n for n in hint.ops("Output") if set(n.inputs) & inside]
    legal = legalize([*data, *nodes, *outputs], hint, target)
    order = next(n.y.axis for n in legal if n.op == "Store")
    count = sum(1 for _ in hint.ops("Data"))
    axes = plain(hint.axes)
    return GroupInput(hint.name, 0, 0, hint.symbols, axes, order, legal, target, count)


@pytest.fixture(scope="session")
def target() -> TargetSpec:
    return load_target("ascend910b1")


@pytest.fixture
def make() -> Callable[..., FusionGraph]:
    """Makes a FusionGraph; see ``make_graph``."""
    return make_graph


@pytest.fixture
def group() -> Callable[..., GroupInput]:
    """Makes the first group of a graph, legalised for ``chip``."""

    def do(*args: Any, chip: str = "ascend910b1", **symbols: Any) -> GroupInput:
        return legal_group(hint_of(make_graph(*args, **symbols)), load_target(chip))

    return do


@pytest.fixture
def legal(group: Callable[..., GroupInput]) -> Callable[..., dict[str, Node]]:
    """Makes the legal nodes of the first group, without Data and Output, by name."""

    def do(*args: Any, **symbols: Any) -> dict[str, Node]:
        nodes = group(*args, **symbols).nodes
        return {n.name: n for n in nodes if n.op not in ("Data", "Output")}

    return do


@pytest.fixture
def impls(target: TargetSpec) -> Callable[..., tuple[ImplGraph, ...]]:
    """Makes all templates of a graph."""

    def do(*args: Any, **symbols: Any) -> tuple[ImplGraph, ...]:
        results = schedule(hint_of(make_graph(*args, **symbols)), target)
        return tuple(i for r in results for g in r.groups for i in g.impls)

    return do
