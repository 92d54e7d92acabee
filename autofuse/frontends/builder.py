"""What all frontends share: checks of shapes, dtypes and constants, and the order of nodes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any

from autofuse.frontends.json_positions import Findings, quote
from autofuse.frontends.names import identifier
from autofuse.implgraph.expr.expression import Expr, ExprError, Func, bounds, product
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import (
    AttrValue,
    Constant,
    FusionNode,
    Operand,
    Symbol,
    Tensor,
)
from autofuse.implgraph.ops.definition import OpDef, OpError
from autofuse.implgraph.ops.infer import infer_node, operand_dtypes

__all__ = [
    "MAX_ELEMENTS",
    "MAX_NODES",
    "MAX_RANK",
    "MAX_SIZE",
    "GraphBuilder",
    "check_counts",
    "describe",
    "find_cycle",
    "is_moderate",
    "shape_text",
    "topological_order",
]

#: A tensor has fewer elements than this, whatever its symbols are: byte offsets then fit int64.
MAX_ELEMENTS = 1 << 48
#: Largest size of one dimension.
MAX_SIZE = 1 << 31
MAX_RANK = 16
MAX_NODES = 10_000
# Far above what a size that fits int64 needs.
_MAX_FACTOR = 1 << 64
_MAX_DEGREE = 32

Shape = tuple[Expr, ...]


def shape_text(shape: Sequence[object]) -> str:
    """A shape for a message."""
    return "[" + ", ".join(str(s) for s in shape) + "]"


class GraphBuilder:
    """Tensors and nodes of a graph that is being read.  Names in it are identifiers already."""

    def __init__(self, findings: Findings, graph_name: str) -> None:
        self.findings = findings
        self.name = identifier(graph_name)
        self.taken = {self.name}
        self.node_names: set[str] = set()
        self.symbols: dict[str, Symbol] = {}
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[FusionNode] = []

    def ranges(self) -> dict[str, tuple[int, int]]:
        """Closed range of every symbol."""
        return {s.name: (s.min, s.max) for s in self.symbols.values()}

    def check_shape(self, shape: Shape, pointer: str, what: str) -> bool:
        """Rank and sizes within the limits, for every value of the symbols; notes AF1109."""
        if len(shape) > MAX_RANK:
            self.findings.add(
                "AF1109",
                f"{what} has {len(shape)} dimensions; at most {MAX_RANK} are allowed",
                pointer,
            )
            return False
        ranges = self.ranges()
        if not all(is_moderate(s) for s in shape):
            self.findings.add("AF1109", f"a size of {what} has too large numbers in it", pointer)
            return False
        try:
            for i, size in enumerate(shape):
                lo, hi = bounds(size, ranges)
                if lo < 0:
                    text = f"dimension {i} of {what} is {size}, which can be negative"
                    self.findings.add("AF1109", text, pointer, hint="raise the min of its symbols")
                    return False
                if size.is_const and hi > MAX_SIZE:
                    self.findings.add(
                        "AF1109",
                        f"dimension {i} of {what} is {hi}; at most {MAX_SIZE} is allowed",
                        pointer,
                    )
                    return False
            most = bounds(product(shape), ranges)[1]
        except ExprError as e:
            self.findings.add("AF1109", f"the shape of {what} has no bounds: {e}", pointer)
            return False
        if most >= MAX_ELEMENTS:
            names = sorted({n for s in shape for n in s.symbols()})
            amount = most if most < 1 << 64 else "2**64 or more"
            hint = f"give {', '.join(names)} a smaller max" if names else ""
            text = f"{what} {shape_text(shape)} has up to {amount} elements; the limit is 2**48 - 1"
            self.findings.add("AF1109", text, pointer, hint=hint)
            return False
        return True

    def infer(
        self,
        row: OpDef,
        operands: Sequence[Tensor | Constant],
        attrs: Mapping[str, Any],
        pointer: str,
        *,
        node: str = "",
        operand_pointers: Sequence[str] = (),
    ) -> tuple[DType, Shape] | None:
        """Dtype and shape of a node's result; None, with a finding, if the op refuses these."""
        integers = any(isinstance(x, Tensor) and x.dtype.kind in "iu" for x in operands)
        for o, p in zip(operands, operand_pointers, strict=False):
            if (
                not integers
                or isinstance(o, Tensor)
                or o.dtype is not None
                or math.isfinite(o.value)
            ):
                continue
            text = f"the constant {o.value} has no integer value"
            hint = "Cast the tensor to a float type first"
            self.findings.add("AF1203", text, p, hint=hint, node=node)
            return None
        try:
            dtype, shape = infer_node(row, operands, attrs)
            given = operand_dtypes(operands)
        except OpError as e:
            self.findings.add(e.code, str(e), pointer, hint=e.hint, node=node)
            return None
        except ExprError as e:
            self.findings.add(
                "AF1204", f"the shape of the result cannot be computed: {e}", pointer, node=node
            )
            return None
        ok = True
        for o, d, p in zip(operands, given, operand_pointers, strict=False):
            if isinstance(o, Constant) and not self.check_constant(o.value, d, p, node=node):
                ok = False
        return (dtype, shape) if ok else None

    def check_constant(
        self, value: int | float | bool, dtype: DType, pointer: str, *, node: str = ""
    ) -> bool:
        """The value exists in the dtype; notes AF1104."""
        if dtype.kind in "iu":
            lo = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
            hi = (1 << (dtype.bits - (dtype.kind == "i"))) - 1
            if not math.isfinite(value) or value != int(value) or not lo <= value <= hi:
                text = f"the constant {value} does not fit {dtype} ({lo} to {hi})"
                self.findings.add("AF1104", text, pointer, node=node)
                return False
        elif dtype.kind == "b" and value not in (0, 1):
            self.findings.add(
                "AF1104",
                f"the constant {value} is not a bool",
                pointer,
                hint="true, false",
                node=node,
            )
            return False
        return True

    def add_tensor(self, tensor: Tensor) -> None:
        """Register a tensor whose name is an identifier already."""
        self.tensors[tensor.name] = tensor

    def add_node(
        self,
        name: str,
        op: str,
        inputs: tuple[Operand, ...],
        output: Tensor,
        attrs: Mapping[str, AttrValue],
        origin: str,
    ) -> None:
        """Register a node with one result."""
        self.add_tensor(output)
        self.nodes.append(
            FusionNode(
                identifier(name, self.node_names), op, inputs, (output.name,), dict(attrs), origin
            )
        )

    def output_name(self, tensor: Tensor, wanted: str, used: set[str]) -> str:
        """Name of the parameter for an output: that of its tensor where it can be, else a new one.

        Args:
            tensor: the tensor that is written.
            wanted: the name that the file gives; empty for that of the tensor.
            used: parameters so far, inputs among them; the result is added.
        """
        name = tensor.name
        if wanted or name in used:
            name = identifier(wanted or f"{name}_out", self.taken)
        used.add(name)
        return name

    def element_count(self, shape: Shape) -> Expr | None:
        """Product of the sizes, or None if it grows too large to write down."""
        try:
            return product(shape)
        except ExprError:
            return None


def is_moderate(e: Expr) -> bool:
    """Factors and powers are so small that computing with the expression is no matter of time."""
    for monomial, factor in e.terms:
        if abs(factor) > _MAX_FACTOR or sum(power for _, power in monomial) > _MAX_DEGREE:
            return False
        for atom, _ in monomial:
            if isinstance(atom, Func) and not all(is_moderate(a) for a in atom.args):
                return False
    return True


def check_counts(data: Mapping[str, Any], keys: Sequence[str], findings: Findings) -> None:
    """Refuse lists and objects of too many elements before anything else looks at them."""
    for key in keys:
        value = data.get(key)
        if isinstance(value, list | dict) and len(value) > MAX_NODES:
            text = f"{len(value)} elements in {key!r}; at most {MAX_NODES} are allowed"
            findings.add("AF1109", text, f"/{key}")
    findings.raise_if_any()


def topological_order(edges: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Order nodes so that each comes after those it depends on; otherwise the given order is kept.

    Args:
        edges: for each node, the nodes that it depends on.

    Returns:
        The order, and the nodes that are on a cycle or behind one.
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
    """One cycle among nodes of which each depends on another one; it begins at its first node."""
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
    """A JSON value for a message: its value if short, and its JSON type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {quote(value, 40)}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, (list, tuple)) else "an object"
