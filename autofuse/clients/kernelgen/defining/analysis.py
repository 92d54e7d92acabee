"""Cost of an operator from its formula and the figures of its target: bytes, operations, roofline, data flow.

Counts depend only on the graph.  Times come from a roofline model: the maximum of moving all bytes once at the memory
bandwidth and of all operations at the float32 rate of the vector lanes.  Kernels need not reach it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofuse.clients.kernelgen.defining.ceilings import Ceilings, ceilings_of, steps
from autofuse.clients.kernelgen.defining.shapes import (
    ASSUMED_MEMORY,
    ShapeCase,
    accuracy_shapes,
    performance_shapes,
)
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, product, total
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ops.infer import operand_dtypes
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import reduced_axes
from autofuse.implgraph.rewrites.decompose import decompose
from autofuse.targets import Target

__all__ = ["Analysis", "Operations", "Point", "Step", "analyse"]

#: Compute types of ops that only move elements.
_MOVES = frozenset(
    ("view", "transpose", "slice", "concat", "pad", "frame", "gather", "broadcast", "iota")
)
#: Rows of the cost table -> kind of operation; every other element-wise op is arithmetic.
_KINDS = {
    "exp": "functions",
    "tanh": "functions",
    "erf": "functions",
    "pow": "functions",
    "div": "divisions",
    "compare": "comparisons and selections",
    "select": "comparisons and selections",
    "cast": "conversions",
}


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of one kind.

    Attributes:
        kind: ``arithmetic``, ``functions``, ``divisions``, ``comparisons and selections``, ``conversions``,
            ``reductions``, ``running sums``.
        count: one per element and op of the formula.
        steps: the count with multi-step functions expanded.
        is_flop: True for operations on floats, which count as floating-point operations.
    """

    kind: str
    count: Expr
    steps: Expr
    is_flop: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A node of the formula in the data flow.

    Attributes:
        node: its name.
        op: op of the registry.
        reads: names of tensors, and constants.
        writes: name of the result.
        dtype: element type of the result.
        shape: shape of the result, in elements.
    """

    node: str
    op: str
    reads: tuple[str, ...]
    writes: str
    dtype: str
    shape: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """The operator at one of the test shapes; times come from the model.

    Attributes:
        case: the sizes, and the bytes of all inputs and outputs.
        moved_bytes: bytes read and written.
        flops: floating-point operations.
        intensity: floating-point operations per byte moved.
        memory_us: time of all bytes at the memory bandwidth.
        compute_us: time of all steps at the rate of the lanes.
        attainable_us: the larger of the two, plus the start of a kernel.
        bottleneck: the longest of ``memory bandwidth``, ``vector lanes`` and ``start of the kernel``.
    """

    case: ShapeCase
    moved_bytes: int
    flops: int
    intensity: float
    memory_us: float
    compute_us: float
    attainable_us: float
    bottleneck: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """Cost of an operator.

    Attributes:
        read_bytes: bytes of the inputs, each element once.
        written_bytes: bytes of the outputs.
        operations: operations by kind.
        flops: floating-point operations.
        ceilings: peak rates of the target.
        memory_bytes: memory of the device, which limits the test shapes.
        points: the operator at the test shapes.
        bottleneck: bottleneck at the largest shape.
        rows: elements that are not reduced, ``P``.
        columns: elements that are reduced or scanned, else the last dimension of the largest tensor, ``D``.
        time_complexity: in P and D.
        space_complexity: in P and D.
        steps: the nodes in data-flow order.
    """

    read_bytes: Expr
    written_bytes: Expr
    operations: tuple[Operations, ...]
    flops: Expr
    ceilings: Ceilings
    memory_bytes: int
    points: tuple[Point, ...]
    bottleneck: str
    rows: Expr
    columns: Expr
    time_complexity: str
    space_complexity: str
    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the analysis, ready for JSON; sizes are texts in the symbols of the graph."""
        return {
            "read_bytes": str(self.read_bytes),
            "written_bytes": str(self.written_bytes),
            "operations": [
                {"kind": o.kind, "count": str(o.count), "steps": str(o.steps), "flop": o.is_flop}
                for o in self.operations
            ],
            "flops": str(self.flops),
            "rows": str(self.rows),
            "columns": str(self.columns),
            "time_complexity": self.time_complexity,
            "space_complexity": self.space_complexity,
            "ceilings": self.ceilings.to_json(),
            "memory_bytes": self.memory_bytes,
            "bottleneck": self.bottleneck,
            "times": "model",
            "points": [
                {
                    "use": p.case.use,
                    "sizes": dict(p.case.sizes),
                    "tensor_bytes": p.case.bytes,
                    "note": p.case.note,
                    "moved_bytes": p.moved_bytes,
                    "flops": p.flops,
                    "intensity": p.intensity,
                    "memory_us": p.memory_us,
                    "compute_us": p.compute_us,
                    "attainable_us": p.attainable_us,
                    "bottleneck": p.bottleneck,
                }
                for p in self.points
            ],
            "data_flow": [
                {
                    "node": s.node,
                    "op": s.op,
                    "reads": list(s.reads),
                    "writes": s.writes,
                    "dtype": s.dtype,
                    "shape": [str(e) for e in s.shape],
                }
                for s in self.steps
            ],
        }


def analyse(graph: FusionGraph, target: Target, memory_bytes: int = ASSUMED_MEMORY) -> Analysis:
    """Return the cost of an operator on a target.

    Args:
        graph: its formula.
        target: the target, whose figures are the ceilings.
        memory_bytes: memory of the device, which limits the test shapes.
    """
    ceilings = ceilings_of(target)
    simple = decompose(graph, native_integers=True)
    work = [w for n in simple.nodes if (w := _work(simple, n, target)) is not None]
    operations = _by_kind(work)
    read = total([_read_bytes(graph, t) for t in graph.inputs])
    written = total([_bytes(graph, o.tensor) for o in graph.outputs])
    flops = total([o.count for o in operations if o.is_flop])
    cases = performance_shapes(graph, memory_bytes)
    if graph.symbols:
        cases = (*accuracy_shapes(graph), *cases)
    points = tuple(_point(c, read + written, flops, work, ceilings) for c in cases)
    rows, columns = _rows_and_columns(graph)
    return Analysis(
        read,
        written,
        operations,
        flops,
        ceilings,
        memory_bytes,
        points,
        points[-1].bottleneck,
        rows,
        columns,
        _order(rows, columns),
        _order(rows, columns),
        tuple(_step(graph, n) for n in graph.nodes),
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """Work of a primitive op.

    Attributes:
        kind: as in :class:`Operations`.
        is_flop: True for operations on floats.
        count: number of elements.
        calls: row of the cost table -> uses per element.
    """

    kind: str
    is_flop: bool
    count: Expr
    calls: Mapping[str, int]


def _work(graph: FusionGraph, n: FusionNode, target: Target) -> _Work | None:
    """Return the work of a node; None for one that only moves elements."""
    row, result = lookup(n.op), graph.tensors[n.outputs[0]]
    tensors = [graph.tensors[x] for x in n.inputs if isinstance(x, str)]
    operand = tensors[0] if tensors else result
    is_float = result.dtype.kind == "f"
    if row.compute_type in _MOVES or row.cost == "none":
        return None
    if row.compute_type == "reduce" or n.op in ("ArgMax", "ArgMin"):
        # Long rows are accumulated element-wise and folded once at the end.
        return _Work("reductions", is_float, product(operand.shape), {"binary": 1})
    if row.compute_type == "scan":
        return _Work("running sums", is_float, product(result.shape), {row.cost: 1})
    kind = _KINDS.get(row.cost, "arithmetic")
    given = [graph.tensors[x] if isinstance(x, str) else x for x in n.inputs]
    values = [None if isinstance(x, Tensor) else x.value for x in given]
    operands = list(zip(operand_dtypes(given), values, strict=True))
    calls = steps(row, operands, dict(n.attrs), target)
    if len(calls) > 1 and kind == "arithmetic":
        kind = "functions"
    counted = is_float and kind not in ("conversions", "comparisons and selections")
    times = max(len(n.inputs) - 1, 1) if n.op == "AddN" else 1
    return _Work(kind, counted, times * product(result.shape), calls)


def _by_kind(work: Sequence[_Work]) -> tuple[Operations, ...]:
    keys = dict.fromkeys((w.kind, w.is_flop) for w in work)
    out = []
    for kind, is_flop in keys:
        own = [w for w in work if (w.kind, w.is_flop) == (kind, is_flop)]
        count = total([w.count for w in own])
        out.append(
            Operations(kind, count, total([w.count * sum(w.calls.values()) for w in own]), is_flop)
        )
    return tuple(out)


def _read_bytes(graph: FusionGraph, name: str) -> Expr:
    """Return the bytes of an input that the formula needs: each element once, only those read by slices and gathers."""
    t = graph.tensors[name]
    users = [n for n in graph.nodes if name in n.inputs]
    copied = any(o.tensor == name for o in graph.outputs)
    if users and not copied and all(_takes_a_part(n, name) for n in users):
        return total([product(graph.tensors[n.outputs[0]].shape) for n in users]) * t.dtype.itemsize
    if not users and not copied:
        return ZERO
    strides = t.strides or (ONE,) * len(t.shape)
    held = [e for e, s in zip(t.shape, strides, strict=True) if s != ZERO]
    return product(held) * t.dtype.itemsize


def _takes_a_part(n: FusionNode, name: str) -> bool:
    row = lookup(n.op)
    return row.compute_type in ("slice", "gather") and name not in n.inputs[1:]


def _bytes(graph: FusionGraph, name: str) -> Expr:
    t = graph.tensors[name]
    return product(t.shape) * t.dtype.itemsize


def _point(case: ShapeCase, moved: Expr, flops: Expr, work: Sequence[_Work], c: Ceilings) -> Point:
    """Return the operator's cost at given sizes; rates are per microsecond."""
    nbytes, count = moved.evaluate(case.sizes), flops.evaluate(case.sizes)
    memory_us = nbytes / (float(c.bandwidth.value) * 1e3)
    lanes: Counter[str] = Counter()
    for w in work:
        elements = w.count.evaluate(case.sizes)
        for cost, calls in w.calls.items():
            lanes[cost] += calls * elements
    compute_us = sum(n / (c.rate(cost) * 1e3) for cost, n in sorted(lanes.items()) if c.rate(cost))
    start = float(c.start.value)
    named = {
        "memory bandwidth": memory_us,
        "vector lanes": compute_us,
        "start of the kernel": start,
    }
    return Point(
        case,
        nbytes,
        count,
        count / nbytes if nbytes else 0.0,
        memory_us,
        compute_us,
        max(memory_us, compute_us) + start,
        max(named, key=lambda k: named[k]),
    )


def _rows_and_columns(graph: FusionGraph) -> tuple[Expr, Expr]:
    """Return the elements of the largest operand as rows and columns."""
    for n in graph.nodes:
        row = lookup(n.op)
        operand = next((graph.tensors[x] for x in n.inputs if isinstance(x, str)), None)
        if operand is None or (row.compute_type not in ("reduce", "scan") and row.cost != "reduce"):
            continue
        if "axes" in row.attr_names():
            axes = reduced_axes(n.attrs.get("axes", ()), len(operand.shape))  # type: ignore[arg-type]
        else:
            axes = (int(n.attrs["axis"]) % max(len(operand.shape), 1),)  # type: ignore[arg-type]
        rows = [e for k, e in enumerate(operand.shape) if k not in axes]
        return product(rows), product([operand.shape[k] for k in axes if k < len(operand.shape)])
    shapes = [t.shape for t in graph.tensors.values()]
    hints = {s.name: max(s.min, min(s.max, s.hint or 1024)) for s in graph.symbols}
    largest = max(shapes, key=lambda s: product(s).evaluate(hints), default=())
    return product(largest[:-1]), largest[-1] if largest else ONE


def _order(rows: Expr, columns: Expr) -> str:
    """Return the order of growth in P and D, without dimensions of size 1."""
    parts = [name for name, size in (("P", rows), ("D", columns)) if size != ONE]
    return f"O({' x '.join(parts) or '1'})" if ZERO not in (rows, columns) else "O(0)"


def _step(graph: FusionGraph, n: FusionNode) -> Step:
    result = graph.tensors[n.outputs[0]]
    reads = tuple(x if isinstance(x, str) else str(x.value) for x in n.inputs)
    return Step(n.label, n.op, reads, result.name, result.dtype.name, result.shape)
