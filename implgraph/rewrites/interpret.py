"""Reference interpreter of a HintGraph in NumPy, which defines the meaning of the IR.

Used by tests and to find the pass that breaks a graph; it ignores schedules and is not fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from autofuse.implgraph.ir.dtypes import DType, numpy_dtype
from autofuse.implgraph.ir.graph import HintGraph, Node, TensorView
from autofuse.implgraph.ops.definition import ANY
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.movement import inside
from autofuse.implgraph.ops.rows.reductions import PART, REDUCES, reduce_array, running_sum
from autofuse.implgraph.ops.rules import with_source

__all__ = ["apply", "interpret"]


def interpret(
    hint: HintGraph, inputs: Sequence[np.ndarray], env: Mapping[str, int] | None = None
) -> list[np.ndarray]:
    """Run a graph.

    Args:
        hint: a graph as produced by :func:`~autofuse.implgraph.lowering.lowering.lower` and the passes.
        inputs: the memory of every input, 1-D, of the input's dtype; not changed.
        env: values of the symbols.

    Returns:
        The memory of every output, 1-D.  An output that overwrites an input starts as a copy of it.

    Raises:
        KeyError: an op without a reference (one introduced by legalisation).
        ExprError: a symbol without value.
    """
    run = _Run(hint, inputs, dict(env or {}))
    for n in hint.nodes:
        run.node(n)
    return run.results


class _Run:
    """Memory and values while a graph is executed."""

    def __init__(
        self, hint: HintGraph, inputs: Sequence[np.ndarray], env: Mapping[str, int]
    ) -> None:
        self.nodes = hint.by_name()
        self.env = env
        self.values: dict[str, np.ndarray] = {}
        #: The GM of every Data, Output and Workspace node, by name or index.
        self.inputs = [np.array(x) for x in inputs]
        self.workspaces: dict[str, np.ndarray] = {}
        #: Store -> Output or Workspace node.
        self.sinks: dict[str, Node] = {}
        outputs: dict[int, np.ndarray] = {}
        sizes: dict[int, int] = {}
        for out in hint.ops("Output", "Workspace"):
            self.sinks.update(dict.fromkeys(out.inputs, out))
            extents = [_extent(self.nodes[i].y, env) for i in out.inputs]
            dtype = numpy_dtype(out.y.dtype)
            if out.op == "Workspace":
                self.workspaces[out.name] = np.zeros(out.size("size").evaluate(env), dtype)
                continue
            index, alias = out.attrs["index"], out.attrs.get("inout")
            assert isinstance(index, int)
            assert alias is None or isinstance(alias, int)
            if alias is not None:
                outputs[index] = self.inputs[alias]
                continue
            sizes[index] = max(sizes.get(index, 0), *extents, 0)
            outputs[index] = np.zeros(sizes[index], dtype)
        self.results = [outputs[k] for k in sorted(outputs)]

    def node(self, n: Node) -> None:
        """Execute one node."""
        if n.op in ("Data", "Output", "Workspace"):
            return
        if n.op == "Store":
            self._store(n)
            return
        self.values[n.name] = self._value(n)

    def _store(self, n: Node) -> None:
        sink = self.sinks[n.name]
        index = sink.attrs["index"]
        assert isinstance(index, int)
        target = self.workspaces[sink.name] if sink.op == "Workspace" else self.results[index]
        value = self.values[n.inputs[0]]
        # Of a reduction in parts, one after the other.
        for k, part in enumerate(value if value.ndim > len(n.y.axis) else [value]):
            window = _window(target[k * part.size :], n.y, self.env)
            window[...] = np.broadcast_to(part, window.shape)

    def _value(self, n: Node) -> np.ndarray:
        operands = [self.values[i] for i in n.inputs if i in self.values]
        dtype = numpy_dtype(n.y.dtype)
        if n.op == "Load":
            source = self.nodes[n.inputs[0]]
            here = (
                self.workspaces[source.name]
                if source.op == "Workspace"
                else self.inputs[source.number("index")]
            )
            if len(operands) == 1:
                return self._indexed(here, n, operands[0])
            return np.array(_window(here, n.y, self.env))
        if n.op == "Scalar":
            given = n.size("expr").evaluate(self.env) if "expr" in n.attrs else n.attrs["value"]
            return np.full((1,) * len(n.y.axis), given).astype(dtype)
        if n.op == "Broadcast":
            return np.broadcast_to(operands[0], _sizes(n.y, self.env))
        if n.op == "Iota":
            sizes = _sizes(n.y, self.env)
            (axis,) = [i for i, s in enumerate(n.y.strides) if s != 0] or [0]
            line = n.size("start").evaluate(self.env) + n.size("step").evaluate(
                self.env
            ) * np.arange(sizes[axis])
            return line.astype(dtype).reshape(sizes)
        if n.op == "Scan":
            return self._scan(n, operands[0])
        if n.op in REDUCES:
            full = self.nodes[n.inputs[0]].y
            x = np.broadcast_to(operands[0], _sizes(full, self.env))
            pairs = zip(n.y.repeats, full.repeats, strict=True)
            over = tuple(i for i, (r, s) in enumerate(pairs) if r == 1 and s != 1)
            if PART in n.attrs:
                return self._in_parts(n, _wide(x), over)
            return np.asarray(reduce_array(n.op, _wide(x), over, n.y.dtype).astype(dtype))
        return apply(n.op, operands, n.attrs, n.y.dtype)

    def _in_parts(self, n: Node, x: np.ndarray, over: tuple[int, ...]) -> np.ndarray:
        """Reduce axes that together count as one dimension; the results of its parts get a new dimension, the first."""
        length = n.number(PART)
        rows = np.moveaxis(x, over, range(len(over))).reshape(-1, *_sizes(n.y, self.env))
        ends = range(0, len(rows), length)
        parts = [reduce_array(n.op, rows[i : i + length], (0,), n.y.dtype)[0] for i in ends]
        return np.array(parts).reshape(-1, *rows.shape[1:]).astype(numpy_dtype(n.y.dtype))

    def _scan(self, n: Node, x: np.ndarray) -> np.ndarray:
        """Compute running sums along axes that together count as one dimension."""
        axes = n.attrs["axes"]
        assert isinstance(axes, tuple)
        places = [n.y.axis.index(a) for a in axes]
        last = range(x.ndim - len(places), x.ndim)
        lined = np.moveaxis(_wide(np.broadcast_to(x, _sizes(n.y, self.env))), places, last)
        shape = lined.shape
        flat = lined.reshape((*shape[: x.ndim - len(places)], -1))
        out = running_sum(flat, -1, bool(n.attrs["exclusive"]), bool(n.attrs["reverse"]))
        back = np.moveaxis(out.reshape(shape), last, places)
        return np.array(back, dtype=numpy_dtype(n.y.dtype))

    def _indexed(self, memory: np.ndarray, n: Node, index: np.ndarray) -> np.ndarray:
        """Return the elements at the positions along one dimension that ``index`` holds."""
        extent, stride = (n.size(k).evaluate(self.env) for k in ("extent", "stride"))
        sizes = _sizes(n.y, self.env)
        at = np.asarray(n.y.offset.evaluate(self.env) + inside(index, extent) * stride)
        for i, s in enumerate(n.y.strides):
            line = s.evaluate(self.env) * np.arange(sizes[i])
            at = at + line.reshape([-1 if k == i else 1 for k in range(len(sizes))])
        return np.array(memory[np.broadcast_to(at, sizes)])


def apply(
    op: str, operands: Sequence[np.ndarray], attrs: Mapping[str, object], result: DType
) -> np.ndarray:
    """Apply one op by its reference, in float64 or exact integers, rounded to the dtype ``result``."""
    row = lookup(op)
    if row.reference is None:
        raise KeyError(f"{op} has no reference")
    if row.arity[1] == ANY and len(operands) > 2:
        # Like the kernel and the reference of the comparison: left to right, rounding each time.
        return reduce(lambda a, b: apply(op, (a, b), attrs, result), operands)
    with np.errstate(all="ignore"):
        given = with_source(attrs, row.attr_names(), operands[0].dtype.name if operands else "")
        return _held(np.asarray(row.reference([_wide(x) for x in operands], given)), result)


def _held(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Convert values to a dtype; as on the chip, float to integer saturates, and NaN becomes 0."""
    if dtype.kind not in "iu" or x.dtype.kind != "f":
        return x.astype(numpy_dtype(dtype))
    limits = np.iinfo(numpy_dtype(dtype))
    top, bottom = x >= float(limits.max), x <= float(limits.min)
    out = np.where(top | bottom | np.isnan(x), 0.0, x).astype(numpy_dtype(dtype))
    out[top], out[bottom] = limits.max, limits.min
    return out


def _wide(x: np.ndarray) -> np.ndarray:
    """Return the values in float64 or 64-bit integers; bool stays."""
    if x.dtype.kind in "iu":
        return x.astype(np.int64 if x.dtype.kind == "i" else np.uint64)
    return x if x.dtype.kind == "b" else x.astype(np.float64)


def _sizes(y: TensorView, env: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(r.evaluate(env) for r in y.repeats)


def _extent(y: TensorView, env: Mapping[str, int]) -> int:
    """Return the number of elements from the start of the memory to the last element of the tensor."""
    sizes = _sizes(y, env)
    if 0 in sizes:
        return 0
    steps = [(r - 1) * s.evaluate(env) for r, s in zip(sizes, y.strides, strict=True)]
    start = y.offset.evaluate(env)
    if start + sum(min(s, 0) for s in steps) < 0:
        raise IndexError("a tensor begins before its memory")
    return start + 1 + sum(max(s, 0) for s in steps)


def _window(memory: np.ndarray, y: TensorView, env: Mapping[str, int]) -> np.ndarray:
    """Return the elements of a tensor in GM, one dimension per axis."""
    sizes = _sizes(y, env)
    extent = _extent(y, env)
    if extent > memory.size:
        raise IndexError(f"a tensor ends at element {extent}, its memory at {memory.size}")
    if not extent:
        return np.zeros(sizes, memory.dtype)
    steps = tuple(s.evaluate(env) * memory.itemsize for s in y.strides)
    return np.lib.stride_tricks.as_strided(memory[y.offset.evaluate(env) :], sizes, steps)
