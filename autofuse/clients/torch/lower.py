"""Lower the nodes of a region to the graph of its kernel."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from autofuse.clients.torch.emit import Emitter, Value
from autofuse.clients.torch.layouts import memory_order
from autofuse.clients.torch.ops.row import Call, Kind, dtype_of
from autofuse.clients.torch.ops.table import find
from autofuse.clients.torch.refusal import RefusedError, reason_for_kind
from autofuse.clients.torch.sizes import Shape, Sizes, hint_of
from autofuse.implgraph.cutting.cut import expressions
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Symbol, Tensor
from autofuse.implgraph.ir.names import identifier

__all__ = [
    "DEVICES",
    "IndexInput",
    "Lowered",
    "Output",
    "ScalarInput",
    "TensorInput",
    "layout_of",
    "lower",
    "refusal",
]

#: Types of devices with kernels.
DEVICES = ("cpu", "cuda", "npu")
#: Ops that only rearrange elements.
_ORDERS = frozenset({"Reshape", "Transpose", "Broadcast", "Slice"})
#: Maximum number of ops in the name of a kernel.
_NAMED_OPS = 5


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor that the kernel reads.

    Attributes:
        node: its producer.
        perm: memory order of its axes; None for row-major.
    """

    node: torch.fx.Node
    perm: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A number that is known at run time and passed as a tensor of one element.

    Attributes:
        dtype: its element type in the kernel.
        expr: the number as an expression of sizes; None if a node produces it.
        node: its producer.
    """

    dtype: torch.dtype
    expr: Expr | None
    node: torch.fx.Node | None


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that the kernel writes.

    Attributes:
        node: the node whose result it is.
        dtype: its element type.
        shape: its shape in memory order.
        perm: permutation of the axes that gives the result; None for the identity.
    """

    node: torch.fx.Node
    dtype: torch.dtype
    shape: Shape
    perm: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class IndexInput:
    """An input whose elements are indices.

    Attributes:
        node: its producer.
        extent: size of the indexed dimension.
        wraps: negative indices count from its end.
    """

    node: torch.fx.Node
    extent: Expr
    wraps: bool


@dataclass(frozen=True, slots=True)
class Lowered:
    """The graph of a region.

    Attributes:
        graph: graph of the kernel.
        inputs: source of every input of the graph.
        outputs: node of every output of the graph.
        symbols: name in PyTorch's graph of every symbol of the graph.
        negative: those of these names whose value is at most 0; the symbol of the graph is the absolute value.
        rests: symbol of PyTorch's graph -> the "symbol" (a difference) and the term whose sum it is.
        sources: node of the graph -> the PyTorch node it implements.
        indices: inputs used directly as indices; indices that the kernel computes are not known in advance.
    """

    graph: FusionGraph
    inputs: tuple[TensorInput | ScalarInput, ...]
    outputs: tuple[Output, ...]
    symbols: tuple[str, ...]
    negative: frozenset[str]
    rests: Mapping[str, tuple[str, Expr]]
    sources: Mapping[str, torch.fx.Node]
    indices: tuple[IndexInput, ...]


def layout_of(t: torch.Tensor) -> tuple[int, ...] | None:
    """Return the memory order of a tensor's axes; None for row-major order, or if elements overlap.

    A tensor with gaps between its elements has an order too: a dense tensor in this order supports every view that the
    tensor supports.
    """
    strides = [hint_of(s) for s in t.stride()]
    sizes = [hint_of(s) for s in t.shape]
    if any(s is None for s in strides):
        return None
    perm = tuple(sorted(range(t.dim()), key=lambda d: (-(strides[d] or 0), d)))
    # The position of an axis of size 1 in memory is meaningless.
    long = [d for d in perm if sizes[d] != 1]
    if long == sorted(long):
        return None
    least = 1
    for d in reversed(long):
        stride, size = strides[d] or 0, sizes[d] or 0
        if stride < least:
            return None
        least = stride * size
    return perm


def lower(
    nodes: Sequence[torch.fx.Node],
    outputs: Sequence[torch.fx.Node],
    parameters: Sequence[torch.fx.Node] | None = None,
) -> Lowered:
    """Lower nodes to a graph.

    Args:
        nodes: the nodes in topological order.
        outputs: nodes whose results are needed; their results are tensors.
        parameters: the inputs of the graph in order, even if unused; all inputs and outputs then have PyTorch's shapes.
            None: the inputs are the tensors read, in order of first use, and inputs and outputs have the axis order of
            memory.

    Raises:
        RefusedError: an op does not support its operands; ``args[1]`` is the node.
    """
    return _Lowering(nodes, parameters).run(outputs)


def refusal(node: torch.fx.Node) -> str | None:
    """Return why a node by itself cannot be in a kernel; None if it can."""
    row = find(node.target)
    if row is None:
        return _usual_reason(node)
    try:
        devices: set[str] = set()
        for n in (*node.all_input_nodes, node):
            devices |= _checked_devices(n.meta.get("val"))
        if len(devices) > 1:
            raise RefusedError(f"tensors on several devices: {', '.join(sorted(devices))}")
        _Lowering([node]).run([node])
    except RefusedError as e:
        return str(e.args[0])
    return None


def _usual_reason(node: torch.fx.Node) -> str:
    name = str(node.target)
    return reason_for_kind(name.split(".")[1] if name.count(".") > 1 else name)


def _checked_devices(val: Any) -> set[str]:
    """Return the devices of a value's tensors; raise RefusedError unless kernels support all of them."""
    found = set()
    for t in val if isinstance(val, list | tuple) else (val,):
        if not isinstance(t, torch.Tensor):
            continue
        if t.layout is not torch.strided:
            raise RefusedError(f"the layout {str(t.layout).removeprefix('torch.')}")
        dtype_of(t.dtype)
        if t.is_neg() or t.is_conj():
            raise RefusedError("a tensor with a pending sign or conjugate")
        if t.device.type not in DEVICES:
            raise RefusedError(f"the device {t.device.type}: kernels run on {', '.join(DEVICES)}")
        found.add(t.device.type)
    return found


class _Lowering:
    def __init__(
        self, nodes: Sequence[torch.fx.Node], parameters: Sequence[torch.fx.Node] | None = None
    ) -> None:
        self.nodes = nodes
        self.parameters = parameters
        self.sizes = Sizes()
        for node in nodes:
            self.name_differences(node)
        self.e = Emitter("region", self.sizes)
        self.values: dict[torch.fx.Node, Value | Sequence[Value]] = {}
        self.inputs: dict[str, TensorInput | ScalarInput] = {}
        self.sources: dict[str, torch.fx.Node] = {}
        self.scalars: dict[Any, Value] = {}

    def name_differences(self, node: torch.fx.Node) -> None:
        """Name the sizes of a node that are differences, before any of them is used."""
        try:
            self.sizes.name_differences(_sizes_of(node))
        except RefusedError as e:
            raise RefusedError(str(e.args[0]), node) from None

    def run(self, outputs: Sequence[torch.fx.Node]) -> Lowered:
        for node in self.parameters or ():
            self.operand(node)
        for node in self.nodes:
            self.add(node)
        results: list[tuple[Tensor, Output]] = []
        for node in outputs:
            found = self.values[node]
            # All results of a multi-result node, only to check that it can be lowered.
            for v, t in _pairs(found, node.meta["val"]):
                results.append(self.output(node, v, t))
        return self.finish(results)

    # operands ---------------------------------------------------------------------------------

    def add(self, node: torch.fx.Node) -> None:
        if node in self.values:
            return
        if node.target is operator.getitem:
            source = self.values[node.args[0]]  # type: ignore[index]
            assert not isinstance(source, Value)
            self.values[node] = source[node.args[1]]  # type: ignore[index]
            return
        row = find(node.target)
        assert row is not None
        before = len(self.e.nodes)
        try:
            if row.kind is not Kind.CREATE:
                for x in node.all_input_nodes:
                    self.operand(x)
            found = row.convert(Call(node, self.e, self.values, self.scalar, row.numbers))
            self.values[node] = self.as_declared(found, node.meta["val"])
        except RefusedError as e:
            raise RefusedError(str(e.args[0]), node) from None
        except (ValueError, TypeError, IndexError, KeyError, ArithmeticError) as e:
            # Arguments in a form that no row expects.
            raise RefusedError(f"its arguments do not match: {type(e).__name__}: {e}", node) from e
        for n in self.e.nodes[before:]:
            self.sources[n.name] = node

    def operand(self, node: torch.fx.Node) -> None:
        """Provide an operand of the region's nodes: keep a known value, create it here again, or add an input."""
        val = node.meta.get("val")
        if node in self.values or not isinstance(val, torch.Tensor):
            return
        row = find(node.target)
        if row is not None and row.kind is Kind.CREATE:
            self.add(node)
            return
        perm = self.order_of(val)
        shape = self.sizes.shape(val.shape)
        physical = shape if perm is None else tuple(shape[p] for p in perm)
        x = self.e.input(dtype_of(val.dtype), physical)
        assert x.tensor is not None
        self.inputs[x.tensor.name] = TensorInput(node, perm)
        self.values[node] = x if perm is None else self.e.transpose(x, _inverse(perm))

    def order_of(self, t: torch.Tensor) -> tuple[int, ...] | None:
        """Return the axis order of an input or output; for a function, None: shapes as declared."""
        return layout_of(t) if self.parameters is None else None

    def scalar(self, given: Any, dtype: DType) -> Value:
        """Return a number known at run time as a tensor."""
        expr, node = None, None
        if isinstance(given, Expr):
            expr = given
        else:
            val = given.meta.get("val")
            if isinstance(val, torch.SymInt | int) and not isinstance(val, bool):
                expr = self.sizes.expr(val)
            elif isinstance(val, torch.SymFloat | float):
                node = given
            elif isinstance(val, torch.Tensor):
                return self.e.cast(self.value_of(given), dtype)
            else:
                raise RefusedError("an operand is neither a tensor nor a number")
        if expr is not None and expr.is_const:
            return self.e.full((), expr.value, dtype)
        key = (expr if expr is not None else node, dtype)
        if key not in self.scalars:
            x = self.e.input(dtype, ())
            assert x.tensor is not None
            torch_dtype = getattr(torch, dtype.name)
            self.inputs[x.tensor.name] = ScalarInput(torch_dtype, expr, node)
            self.scalars[key] = x
        return self.scalars[key]

    def value_of(self, node: torch.fx.Node) -> Value:
        self.operand(node)
        found = self.values[node]
        assert isinstance(found, Value)
        return found

    def as_declared(self, found: Value | Sequence[Value], val: Any) -> Value | Sequence[Value]:
        """Return the result with the element type and shape of PyTorch's metadata."""
        if not isinstance(found, Value):
            return [self.declared(v, t) for v, t in zip(found, val, strict=True)]
        return self.declared(found, val)

    def declared(self, found: Value, t: torch.Tensor) -> Value:
        found = self.e.cast(found, dtype_of(t.dtype))
        shape = self.sizes.shape(t.shape)
        if found.shape != shape and len(found.shape) <= len(shape):
            found = self.e.broadcast(found, shape)
        if found.shape != shape:
            raise RefusedError(f"the shape {list(map(str, found.shape))} should be {list(t.shape)}")
        return found

    # the graph --------------------------------------------------------------------------------

    def output(self, node: torch.fx.Node, v: Value, t: torch.Tensor) -> tuple[Tensor, Output]:
        perm = self.order_of(t)
        if self.parameters is None and (order := memory_order(t)) is not None:
            perm = order if list(order) != sorted(order) else None
        before = len(self.e.nodes)
        laid = self.e.tensor(v if perm is None else self.e.transpose(v, perm))
        for n in self.e.nodes[before:]:
            self.sources[n.name] = node
        inverse = None if perm is None else _inverse(perm)
        return laid, Output(node, t.dtype, laid.shape, inverse)

    def finish(self, results: Sequence[tuple[Tensor, Output]]) -> Lowered:
        b = self.e
        tensors = [t for t, _ in results]
        nodes, needed = b.live({t.name for t in tensors})
        needed |= {n for n, s in self.inputs.items() if s.node in (self.parameters or ())}
        inputs = [n for n in self.e.inputs if n in needed]
        kept = {n: t for n, t in b.tensors.items() if n in needed}
        given = [self.inputs[n] for n in inputs]
        numbers = [s.expr for s in given if isinstance(s, ScalarInput) and s.expr is not None]
        symbols = self.symbols(kept.values(), nodes, numbers)
        b.symbols = {s.name: s for s in symbols}
        for t in kept.values():
            b.check_shape(t.shape, "", "a tensor")
        b.refuse()
        used = set(inputs)
        outputs = tuple(GraphOutput(b.output_name(t, "", used), t.name) for t in tensors)
        graph = FusionGraph(
            _name(nodes), tuple(symbols), tuple(inputs), tuple(nodes), outputs, kept
        )
        torch_names = {s.name: name for name, s in self.sizes.symbols.items()}
        return Lowered(
            graph,
            tuple(self.inputs[n] for n in inputs),
            tuple(o for _, o in results),
            tuple(torch_names[s.name] for s in symbols),
            frozenset(self.sizes.negative),
            dict(self.sizes.rests),
            self.sources,
            self.indices(nodes, {s.name for s in symbols}),
        )

    def indices(
        self, nodes: Sequence[FusionNode], symbols: Collection[str]
    ) -> tuple[IndexInput, ...]:
        """Return the inputs that serve as indices, perhaps after a reordering."""
        maker = {n.outputs[0]: n for n in nodes}
        found = []
        for i in self.e.indices:
            name = "" if i.index.tensor is None else i.index.tensor.name
            while name in maker and maker[name].op in _ORDERS:
                (operand,) = maker[name].inputs
                name = operand if isinstance(operand, str) else ""
            given = self.inputs.get(name)
            if isinstance(given, TensorInput) and i.extent.symbols() <= set(symbols):
                found.append(IndexInput(given.node, i.extent, i.wraps))
        return tuple(found)

    def symbols(
        self, tensors: Collection[Tensor], nodes: Sequence[FusionNode], numbers: Iterable[Expr]
    ) -> list[Symbol]:
        """Return the symbols that the kernel or a number for it needs, with ranges."""
        alive = {s for e in (*expressions(nodes, tensors), *numbers) for s in e.symbols()}
        return [s for s in self.sizes.limit([t.shape for t in tensors]) if s.name in alive]


def _sizes_of(node: torch.fx.Node) -> Iterator[Any]:
    """Yield the sizes of a node's operands and results."""
    for x in (*node.all_input_nodes, node):
        val = x.meta.get("val")
        for t in val if isinstance(val, list | tuple) else (val,):
            if isinstance(t, torch.Tensor):
                yield from t.shape


def _pairs(found: Value | Sequence[Value], val: Any) -> list[tuple[Value, torch.Tensor]]:
    if isinstance(found, Value):
        return [(found, val)]
    return list(zip(found, val, strict=True))


def _inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(perm.index(i) for i in range(len(perm)))


def _name(nodes: Sequence[FusionNode]) -> str:
    """Return the name of a kernel: its first ops."""
    ops = list(dict.fromkeys(n.op.lower() for n in nodes)) or ["copy"]
    return identifier("_".join(["fused", *ops[:_NAMED_OPS]]))
