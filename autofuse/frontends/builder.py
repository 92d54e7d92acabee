"""Common parts of all frontends: a growing FusionGraph, checks of its additions, and node order."""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from autofuse.base.wording import counted
from autofuse.frontends.json_positions import Document, Findings, quote
from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import Expr, ExprError, Func, const, product
from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.fusion import AttrValue, Constant, FusionNode, Symbol, Tensor, in_labels
from autofuse.implgraph.ir.names import called, identifier, tensor_name
from autofuse.implgraph.ops import registry
from autofuse.implgraph.ops.definition import OpDef, OpError
from autofuse.implgraph.ops.infer import infer_node, operand_dtypes
from autofuse.implgraph.ops.rules import broadcast_shapes, with_source

__all__ = [
    "MAX_ELEMENTS",
    "MAX_NODES",
    "MAX_RANK",
    "MAX_SIZE",
    "Array",
    "Emitter",
    "GraphBuilder",
    "Move",
    "Number",
    "Shape",
    "check_counts",
    "describe",
    "find_cycle",
    "fixed",
    "is_moderate",
    "shape_text",
    "topological_order",
]

#: A tensor has fewer elements than this for every size of its symbols, so byte offsets fit int64.
MAX_ELEMENTS = 1 << 48
#: Largest size of one dimension.
MAX_SIZE = 1 << 31
MAX_RANK = 16
MAX_NODES = 10_000
# Far more than a size that fits int64 needs.
_MAX_FACTOR = 1 << 64
_MAX_DEGREE = 32

Array: TypeAlias = npt.NDArray[Any]
Number: TypeAlias = int | float | bool
Shape: TypeAlias = tuple[Expr, ...]
#: Moves the elements of an array; the second argument is the resulting shape.
Move: TypeAlias = Callable[[Array, tuple[int, ...]], Array]
T = TypeVar("T")
V = TypeVar("V")


def shape_text(shape: Sequence[object]) -> str:
    """Return a shape as text for a message."""
    return "[" + ", ".join(str(s) for s in shape) + "]"


class GraphBuilder:
    """Tensors and nodes of a graph during reading."""

    def __init__(self, findings: Findings, graph_name: str) -> None:
        self.findings = findings
        self.name = identifier(graph_name)
        self.called = called(graph_name, self.name)
        self.taken = {self.name}
        self.tensor_names: set[str] = set()
        self.node_names: set[str] = set()
        self.symbols: dict[str, Symbol] = {}
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[FusionNode] = []

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Return the closed range of every symbol."""
        return {s.name: (s.min, s.max) for s in self.symbols.values()}

    def in_labels(self, thing: T) -> T:
        """Return sizes, or a tuple or a dict of them, with the user's names of symbols."""
        return in_labels(thing, self.symbols.values())

    def in_words(self, shape: Sequence[Expr]) -> str:
        """Return a shape as text for a message."""
        return shape_text(self.in_labels(tuple(shape)))

    def check_shape(self, shape: Shape, pointer: str, what: str) -> bool:
        """Return True if rank and sizes are within the limits for every value of the symbols; else note AF1109."""
        wrong = self._too_large(shape, what)
        if wrong is not None:
            self.findings.add("AF1109", wrong[0], pointer, hint=wrong[1])
        return wrong is None

    def _too_large(self, shape: Shape, what: str) -> tuple[str, str] | None:
        """Return an error text and a hint for a shape that is not allowed, else None."""
        if len(shape) > MAX_RANK:
            return (
                f"{what} has {counted(len(shape), 'dimension')}; at most {MAX_RANK} are allowed",
                "",
            )
        if not all(map(is_moderate, shape)):
            return f"a size of {what} contains numbers that are too large", ""
        ranges = self.ranges()
        try:
            for i, size in enumerate(shape):
                lo, hi = bounds(size, ranges)
                if lo < 0:
                    own = self.in_labels(size)
                    text = f"dimension {i} of {what} is {own}, which can be negative"
                    return text, "raise the min of its symbols"
                if size.is_const and hi > MAX_SIZE:
                    return f"dimension {i} of {what} is {hi}; at most {MAX_SIZE} is allowed", ""
            most = bounds(product(shape), ranges)[1]
        except ExprError as e:
            return f"the shape of {what} has no bounds: {e}", ""
        if most < MAX_ELEMENTS:
            return None
        shape = self.in_labels(shape)
        names = sorted({n for s in shape for n in s.symbols()})
        amount = most if most < 1 << 64 else "2**64 or more"
        text = f"{what} {shape_text(shape)} has up to {counted(amount, 'element')}; the limit is 2**48 - 1"
        return text, f"give {', '.join(names)} a smaller max" if names else ""

    def infer(
        self,
        row: OpDef,
        operands: Sequence[Tensor | Constant],
        attrs: Mapping[str, Any],
        pointer: str,
        *,
        node: str = "",
        operand_pointers: Sequence[str] = (),
        hint: str = "",
    ) -> tuple[DType, Shape] | None:
        """Return dtype and shape of a node's result; None, with a finding, if the op refuses its operands.

        ``hint`` is used if the op's refusal has none.
        """
        if any(isinstance(x, Tensor) and x.dtype.kind in "iu" for x in operands):
            for o, p in zip(operands, operand_pointers, strict=False):
                if isinstance(o, Constant) and o.dtype is None and not math.isfinite(o.value):
                    text = f"the constant {o.value} is not an integer"
                    cast = "Cast the tensor to a float type first"
                    self.findings.add("AF1203", text, p, hint=cast, node=node)
                    return None
        try:
            dtype, shape = infer_node(row, operands, attrs, self.ranges())
            given = operand_dtypes(operands)
        except OpError as refusal:
            e = self._refusal(row, operands, attrs) or refusal
            self.findings.add(e.code, str(e), pointer, hint=e.hint or hint, node=node)
            return None
        except ExprError as e:
            text = f"the shape of the result cannot be computed: {e}"
            self.findings.add("AF1204", text, pointer, node=node)
            return None
        ok = True
        for o, d, p in zip(operands, given, operand_pointers, strict=False):
            if isinstance(o, Constant) and not self.check_constant(o.value, d, p, node=node):
                ok = False
        return (dtype, shape) if ok else None

    def _refusal(
        self, row: OpDef, operands: Sequence[Tensor | Constant], attrs: Mapping[str, Any]
    ) -> OpError | None:
        """Return the error of a row that refuses a node, with the user's symbol names; None if it accepts."""
        named = [
            replace(o, shape=self.in_labels(o.shape)) if isinstance(o, Tensor) else o
            for o in operands
        ]
        ranges = {s.label: (s.min, s.max) for s in self.symbols.values()}
        try:
            infer_node(row, named, self.in_labels(dict(attrs)), ranges)
            operand_dtypes(operands)
        except OpError as e:
            return e
        return None

    def check_constant(
        self, value: int | float | bool, dtype: DType, pointer: str, *, node: str = ""
    ) -> bool:
        """Return True if the dtype can represent the value; else note AF1104."""
        if dtype.kind in "iu":
            lo = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
            hi = (1 << (dtype.bits - (dtype.kind == "i"))) - 1
            if not math.isfinite(value) or value != int(value) or not lo <= value <= hi:
                text = f"the constant {value} does not fit {dtype} ({lo} to {hi})"
                self.findings.add("AF1104", text, pointer, node=node)
                return False
        elif dtype.kind == "b" and value not in (0, 1):
            text = f"the constant {value} is not a bool"
            self.findings.add("AF1104", text, pointer, hint="true, false", node=node)
            return False
        return True

    def add_tensor(self, tensor: Tensor) -> None:
        """Register a tensor."""
        self.tensors[tensor.name] = tensor

    def add_node(
        self,
        name: str,
        op: str,
        operands: Sequence[Tensor | Constant],
        output: Tensor,
        attrs: Mapping[str, AttrValue],
        origin: str,
    ) -> Tensor:
        """Register a node with one result, and return that."""
        self.add_tensor(output)
        inputs = tuple(o.name if isinstance(o, Tensor) else o for o in operands)
        own = identifier(name, self.node_names)
        node = FusionNode(own, op, inputs, (output.name,), dict(attrs), origin, called(name, own))
        self.nodes.append(node)
        return output

    def live(self, outputs: Collection[str]) -> tuple[list[FusionNode], set[str]]:
        """Return the nodes that tensors depend on, in order, and their tensors."""
        needed, kept = set(outputs), []
        for n in reversed(self.nodes):
            if not needed.isdisjoint(n.outputs):
                kept.append(n)
                needed.update(x for x in n.inputs if isinstance(x, str))
        return kept[::-1], needed

    def output_name(self, tensor: Tensor, wanted: str, used: set[str]) -> str:
        """Return the parameter name for an output: the tensor's name if possible, else a new one.

        Args:
            tensor: the tensor that is written.
            wanted: the name in the file; empty for the tensor's name.
            used: parameters so far, inputs among them; the result is added.
        """
        name = tensor.name
        if wanted or name in used:
            name = tensor_name(wanted or f"{name}_out", self.tensor_names)
        used.add(name)
        return name

    def element_count(self, shape: Shape) -> Expr | None:
        """Return the product of the sizes, or None if it is too large to write down."""
        try:
            return product(shape)
        except ExprError:
            return None


class Emitter(GraphBuilder, ABC, Generic[V]):
    """Builds a graph op by op from values of type ``V``: tensors of the graph, or constants known while reading.

    A subclass defines the values. A known value stays known as long as ops can take it as a constant.

    Attributes:
        node: name of the client's current node, for messages and names.
        pointer: its place.
        inputs: names of the parameters, in order.
    """

    def __init__(self, name: str, path: str = "") -> None:
        super().__init__(Findings(Document(None, "", path)), name)
        self.node = ""
        self.pointer = ""
        self.inputs: list[str] = []

    # values -----------------------------------------------------------------------------------

    @abstractmethod
    def shape(self, x: V) -> Shape:
        """Sizes, outermost first."""

    @abstractmethod
    def operand(self, x: V) -> Tensor | Constant:
        """Return the value as an operand of a node: a tensor, or a constant if all elements are equal."""

    @abstractmethod
    def tensor(self, x: V) -> Tensor:
        """Return the value as a tensor of the graph; a known value becomes one."""

    @abstractmethod
    def made(self, tensor: Tensor, xs: Sequence[V]) -> V:
        """Return the value for a tensor that a node computes from other values."""

    @abstractmethod
    def converted(self, x: V, dtype: DType) -> V | None:
        """Return the value in another element type, if that takes no node."""

    @abstractmethod
    def kept(self, x: V, shape: Shape, move: Move | None, *, copied: bool) -> V | None:
        """Return a known value with its elements moved; None if that takes a node.

        Args:
            x: the value.
            shape: shape of the result.
            move: the move as a function of an array; None if unknown.
            copied: True if ``move`` makes a new array.
        """

    @abstractmethod
    def folded(
        self,
        name: str,
        xs: Sequence[V | Number],
        constants: Sequence[Constant],
        attrs: Mapping[str, Any],
    ) -> V:
        """Fold an element-wise op whose operands all are ``constants``."""

    @abstractmethod
    def error(self, code: str, text: str, hint: str = "") -> Exception:
        """Return the exception for an error at the current node."""

    def check(self, shape: Shape) -> None:
        """Raise an error for the shape of a result that is too large."""

    @property
    def origin(self) -> str:
        """Origin noted for every new tensor and node."""
        return self.pointer

    def names(self, op: str) -> tuple[str, str]:
        """Return the wanted names of a tensor and of its node."""
        label = self.node or op
        return label, f"{label}_{op}"

    def refuse(self) -> None:
        """Raise the findings, if any."""
        if len(self.findings):
            found, self.findings = self.findings, Findings(self.findings.document)
            found.raise_if_any()

    # nodes ------------------------------------------------------------------------------------

    def parameter(
        self,
        wanted: str,
        dtype: DType,
        shape: Shape,
        strides: Shape | None = None,
        offset: Expr | None = None,
    ) -> Tensor:
        """Add an input, called ``wanted`` if that name is free."""
        name = tensor_name(wanted, self.tensor_names)
        tensor = Tensor(name, dtype, shape, strides, offset, origin=self.origin)
        self.add_tensor(tensor)
        self.inputs.append(name)
        return tensor

    def emit(
        self, name: str, operands: Sequence[Tensor | Constant], attrs: Mapping[str, Any]
    ) -> Tensor:
        """Add a node and return its result.

        Raises:
            Exception: from :meth:`error`: AF1201 the registry has no such op; any refusal of the op.
        """
        row = self._row(name)
        result = self.infer(row, operands, attrs, self.pointer, node=self.node)
        self.refuse()
        assert result is not None
        dtype, shape = result
        self.check(shape)
        wanted, node = self.names(name)
        tensor = Tensor(tensor_name(wanted, self.tensor_names), dtype, shape, origin=self.origin)
        return self.add_node(node, row.name, operands, tensor, attrs, self.origin)

    def evaluated(
        self, name: str, constants: Sequence[Constant], attrs: Mapping[str, Any]
    ) -> tuple[Array, DType]:
        """Evaluate an element-wise op of constants by the row's reference; return the number and its element type."""
        row = self._row(name)
        if row.reference is None:
            raise self.error("AF1201", f"the op {name!r} has no reference implementation")
        dtypes = [c.dtype for c in constants if c.dtype is not None]
        try:
            dtype = row.dtype_rule(dtypes, attrs)
        except OpError as e:
            raise self.error(e.code, str(e), e.hint) from None
        with np.errstate(all="ignore"):
            given = with_source(attrs, row.attr_names(), dtypes[0].name if dtypes else "")
            value = row.reference([np.asarray(c.value) for c in constants], given)
            return np.asarray(value).astype(numpy_dtype(dtype)), dtype

    def _row(self, name: str) -> OpDef:
        row = registry.find(name)
        if row is None or not row.user:
            raise self.error("AF1201", f"needs the op {name!r}, which is not known")
        return row

    # ops --------------------------------------------------------------------------------------

    def op(self, name: str, /, *xs: V | Number, **attrs: Any) -> V:
        """Apply an element-wise op of the registry with NumPy's broadcasting, also to constants.

        A Python number takes the element type of the other operand.
        """
        operands = [Constant(x) if isinstance(x, int | float) else self.operand(x) for x in xs]
        constants = [o for o in operands if isinstance(o, Constant)]
        if len(constants) == len(operands):
            return self.folded(name, xs, constants, attrs)
        values = [x for x in xs if not isinstance(x, int | float)]
        found = self.made(self.emit(name, operands, attrs), values)
        return self.broadcast(found, self.together(values))

    def apply(self, name: str, /, *xs: V, **attrs: Any) -> V:
        """Apply an op that is not element-wise: operands are tensors, and the row determines the result's shape."""
        return self.made(self.emit(name, [self.tensor(x) for x in xs], attrs), xs)

    def together(self, xs: Sequence[V]) -> Shape:
        """Return the shape to which values broadcast."""
        shapes = [self.shape(x) for x in xs]
        try:
            return broadcast_shapes(shapes)
        except OpError:
            pass
        try:
            return broadcast_shapes([self.in_labels(s) for s in shapes])
        except OpError as e:
            raise self.error(e.code, str(e), e.hint) from None

    def cast(self, x: V, dtype: DType) -> V:
        """Cast the value to another element type; to bool: True if it is not 0."""
        known = self.converted(x, dtype)
        return self.op("Cast", x, dtype=dtype.name) if known is None else known

    def broadcast(self, x: V, shape: Shape) -> V:
        """Broadcast as NumPy's broadcast_to."""
        if self.shape(x) == shape:
            return x
        known = self.kept(x, shape, np.broadcast_to, copied=False)
        return self.apply("Broadcast", x, shape=shape) if known is None else known

    def reshape(self, x: V, shape: Shape) -> V:
        """Return a value with another shape: the same elements in the same order."""
        if self.shape(x) == shape:
            return x
        known = self.kept(x, shape, np.reshape, copied=True)
        return self.apply("Reshape", x, shape=shape) if known is None else known

    def transpose(self, x: V, perm: Sequence[int]) -> V:
        """Axis i of the result is axis perm[i] of the operand."""
        if list(perm) == sorted(perm):
            return x
        sizes = self.shape(x)
        shape = tuple(sizes[p] for p in perm)
        known = self.kept(x, shape, lambda a, _: np.transpose(a, perm), copied=False)
        if known is not None:
            return known
        moved = [p for p in perm if sizes[p] != 1]
        if moved == sorted(moved):  # only axes of size 1 move
            return self.reshape(x, shape)
        return self.apply("Transpose", x, perm=tuple(perm))

    def slice(
        self, x: V, starts: Sequence[Expr], shape: Shape, steps: Sequence[int] | None = None
    ) -> V:
        """Element j of the result along an axis is element start + j*step."""
        by = [1] * len(shape) if steps is None else steps
        if self.shape(x) == shape and all(s == 0 for s in starts) and all(s == 1 for s in by):
            return x
        at = fixed(starts)

        def move(a: Array, sizes: tuple[int, ...]) -> Array:
            found: Array = a[
                np.ix_(*(s + np.arange(n) * k for s, n, k in zip(at or (), sizes, by, strict=True)))
            ]
            return found

        known = self.kept(x, shape, None if at is None else move, copied=True)
        if known is not None:
            return known
        attrs = {} if steps is None else {"steps": tuple(steps)}
        return self.apply("Slice", x, starts=tuple(starts), shape=shape, **attrs)

    def part(self, x: V, axis: int, start: Expr | int, size: Expr | int, step: int = 1) -> V:
        """Return a range of one axis, and all of the others."""
        sizes = self.shape(x)
        starts = [Expr.of(start) if i == axis else const(0) for i in range(len(sizes))]
        shape = tuple(Expr.of(size) if i == axis else s for i, s in enumerate(sizes))
        return self.slice(x, starts, shape, [step if i == axis else 1 for i in range(len(sizes))])

    def concat(self, xs: Sequence[V], axis: int) -> V:
        """Concatenate along an axis; operands without elements are dropped."""
        full = [x for x in xs if self.shape(x)[axis] != 0] or list(xs[:1])
        return full[0] if len(full) == 1 else self.joined(full, axis)

    def joined(self, xs: Sequence[V], axis: int) -> V:
        """Concatenate several operands, all with elements."""
        return self.apply("Concat", *xs, axis=axis)

    def pad(self, x: V, low: Sequence[Expr], high: Sequence[Expr], value: float | int) -> V:
        """Pad with one value."""
        if all(v == 0 for v in (*low, *high)):
            return x
        return self.apply("Pad", x, low=tuple(low), high=tuple(high), value=value)

    def iota(self, shape: Shape, axis: int, dtype: DType, **line: int) -> V:
        """Return 0, 1, 2, ... along an axis; or from ``start`` in steps of ``step``."""
        return self.apply("Iota", shape=shape, axis=axis, dtype=dtype.name, **line)

    def reduce(self, kind: str, x: V, axes: Sequence[int], *, keepdims: bool) -> V:
        """Apply ``ReduceSum`` or the like; a reduction along no axis returns the operand."""
        return self.apply(kind, x, axes=tuple(axes), keepdims=keepdims) if axes else x

    def select(self, condition: V, a: V, b: V) -> V:
        """Return a where the condition holds, else b; both of one dtype."""
        chosen, shape = self.operand(condition), self.together([condition, a, b])
        if isinstance(chosen, Constant):
            return self.broadcast(a if chosen.value else b, shape)
        if all([isinstance(self.operand(x), Constant) for x in (a, b)]):
            # Two constants have no shape; the condition determines it.
            a, b = self.broadcast(a, shape), self.broadcast(b, shape)
        return self.op("Select", condition, a, b)


def fixed(shape: Sequence[Expr]) -> tuple[int, ...] | None:
    """Return a shape as numbers, if none of its sizes is symbolic."""
    out = [s.as_int() for s in shape]
    return None if any(n is None for n in out) else tuple(n for n in out if n is not None)


def is_moderate(e: Expr) -> bool:
    """Return True if factors and powers are small enough to compute with the expression quickly."""
    for monomial, factor in e.terms:
        if abs(factor) > _MAX_FACTOR or sum(power for _, power in monomial) > _MAX_DEGREE:
            return False
        for atom, _ in monomial:
            if isinstance(atom, Func) and not all(is_moderate(a) for a in atom.args):
                return False
    return True


def check_counts(data: Mapping[str, Any], keys: Sequence[str], findings: Findings) -> None:
    """Refuse lists and objects with too many elements before anything else reads them."""
    for key in keys:
        value = data.get(key)
        if isinstance(value, list | dict) and len(value) > MAX_NODES:
            text = f"{counted(len(value), 'element')} in {key!r}; at most {MAX_NODES} are allowed"
            findings.add("AF1109", text, f"/{key}")
    findings.raise_if_any()


def topological_order(edges: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Order nodes topologically; the given order is kept where possible.

    Args:
        edges: for each node, the nodes that it depends on.

    Returns:
        The order, and the nodes that are on a cycle or after one.
    """
    users: list[list[int]] = [[] for _ in edges]
    waiting = [0] * len(edges)
    for i, deps in enumerate(edges):
        for d in set(deps):
            users[d].append(i)
            waiting[i] += 1
    ready = [i for i, n in enumerate(waiting) if n == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for u in users[i]:
            waiting[u] -= 1
            if waiting[u] == 0:
                heapq.heappush(ready, u)
    return order, [i for i, n in enumerate(waiting) if n > 0]


def find_cycle(edges: Sequence[Sequence[int]], among: Sequence[int]) -> list[int]:
    """Return one cycle among nodes that each depend on another one; it begins at its first node."""
    left = set(among)
    path: list[int] = []
    at: dict[int, int] = {}
    i = min(left)
    while i not in at:
        at[i] = len(path)
        path.append(i)
        i = next(d for d in edges[i] if d in left)
    cycle = path[at[i] :][::-1]
    k = cycle.index(min(cycle))
    return cycle[k:] + cycle[:k]


def describe(value: object) -> str:
    """Describe a JSON value for a message: its value if short, and its JSON type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {quote(value, 40)}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, (list, tuple)) else "an object"
