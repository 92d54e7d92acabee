"""Executes a HintGraph with NumPy, element by element as the nodes say: the meaning of the IR.

For tests and for finding the pass that breaks a graph; it knows nothing of schedules and is not
fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autofuse.implgraph.dtypes import DType, numpy_dtype
from autofuse.implgraph.graph import HintGraph, Node, TensorView
from autofuse.implgraph.ops import lookup

__all__ = ["apply", "interpret"]


def interpret(
    hint: HintGraph, inputs: Sequence[np.ndarray], env: Mapping[str, int] | None = None
) -> list[np.ndarray]:
    """Run a graph.

    Args:
        hint: a graph as :func:`~autofuse.implgraph.lowering.lower` and the passes make it.
        inputs: the memory behind every input, 1-D, of the input's dtype; not changed.
        env: values of the symbols.

    Returns:
        The memory behind every output, 1-D.  An output that overwrites an input starts as a copy of
        it.

    Raises:
        KeyError: an op without a reference (those that legalisation introduces).
        ExprError: a symbol without value.
    """
    memory = [np.array(x) for x in inputs]
    sinks: dict[str, tuple[int, int | None]] = {}
    for out in hint.ops("Output"):
        index, alias = out.attrs["index"], out.attrs.get("inout")
        assert isinstance(index, int)
        assert alias is None or isinstance(alias, int)
        sinks[out.inputs[0]] = (index, alias)
    results: list[np.ndarray] = [np.zeros(0)] * len(sinks)
    values: dict[str, np.ndarray] = {}
    values_env = dict(env or {})
    for n in hint.nodes:
        if n.op in ("Data", "Output"):
            continue
        if n.op == "Load":
            index = _input_index(n)
            values[n.name] = np.array(_window(memory[index], n.y, values_env))
        elif n.op == "Store":
            index, alias = sinks[n.name]
            size = _extent(n.y, values_env)
            target = np.zeros(size, numpy_dtype(n.y.dtype)) if alias is None else memory[alias]
            window = _window(target, n.y, values_env)
            window[...] = np.broadcast_to(values[n.inputs[0]], window.shape)
            results[index] = target
        elif n.op == "Scalar":
            shape = (1,) * len(n.y.axis)
            values[n.name] = np.full(shape, n.attrs["value"]).astype(numpy_dtype(n.y.dtype))
        elif n.op == "Broadcast":
            values[n.name] = np.broadcast_to(values[n.inputs[0]], _sizes(n.y, values_env))
        else:
            values[n.name] = apply(n.op, [values[i] for i in n.inputs], n.attrs, n.y.dtype)
    return results


def _input_index(load: Node) -> int:
    """Index of the input that a Load reads; Data nodes are named by it."""
    return int(load.inputs[0].removeprefix("Data_"))


def apply(
    op: str, operands: Sequence[np.ndarray], attrs: Mapping[str, object], result: DType
) -> np.ndarray:
    """One op by its reference, in float64 or exact integers, rounded to the dtype ``result``."""
    row = lookup(op)
    if row.reference is None:
        raise KeyError(f"{op} has no reference")
    wide = [
        x.astype(np.int64 if x.dtype.kind == "i" else np.uint64) if x.dtype.kind in "iu" else x
        for x in operands
    ]
    wide = [x if x.dtype.kind in "iub" else x.astype(np.float64) for x in wide]
    with np.errstate(all="ignore"):
        return np.asarray(row.reference(wide, attrs)).astype(numpy_dtype(result))


def _sizes(y: TensorView, env: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(r.evaluate(env) for r in y.repeats)


def _extent(y: TensorView, env: Mapping[str, int]) -> int:
    """Elements from the start of the memory to the last element of the tensor."""
    sizes = _sizes(y, env)
    if 0 in sizes:
        return 0
    return (
        y.offset.evaluate(env)
        + 1
        + sum((r - 1) * s.evaluate(env) for r, s in zip(sizes, y.strides, strict=True))
    )


def _window(memory: np.ndarray, y: TensorView, env: Mapping[str, int]) -> np.ndarray:
    """The elements of a tensor in GM, one dimension per axis."""
    sizes = _sizes(y, env)
    extent = _extent(y, env)
    if extent > memory.size:
        raise IndexError(f"a tensor ends at element {extent}, its memory at {memory.size}")
    if not extent:
        return np.zeros(sizes, memory.dtype)
    steps = tuple(s.evaluate(env) * memory.itemsize for s in y.strides)
    return np.lib.stride_tricks.as_strided(memory[y.offset.evaluate(env) :], sizes, steps)
