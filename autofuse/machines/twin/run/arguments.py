"""Arguments of a call of a kernel: NumPy arrays by name, and the sizes that follow from their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.arguments import symbol_sizes
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.overlap import written_overlaps
from autofuse.machines.twin.run.values import as_array, misfit, wrong_dtype

__all__ = ["checked_inputs", "named_inputs", "solve_symbols"]

Array: TypeAlias = npt.NDArray[Any]

#: Used if the range of a symbol is unknown.
_MAX_SIZE = 1 << 40


def named_inputs(
    graph: FusionGraph, arrays: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the inputs by name, of a call that passes the first ones by position.

    Raises:
        AutofuseError: AF5007, there are too many, one is given twice, or a name is not an input.
    """
    names = graph.inputs
    if len(arrays) > len(names):
        raise misfit(
            f"{graph.label} takes {counted(len(names), 'input')}, {counted(len(arrays), 'was', 'were')} given"
        )
    given = dict(zip(names, arrays, strict=False))
    for name, value in named.items():
        if name in given or name not in names:
            why = (
                "is given twice"
                if name in given
                else f"is not an input; these are: {', '.join(names)}"
            )
            raise misfit(f"{name} {why}")
        given[name] = value
    return given


def checked_inputs(
    graph: FusionGraph, inputs: Mapping[str, Any], symbols: Mapping[str, int]
) -> tuple[dict[str, Array], dict[str, int]]:
    """Return arrays with the dtype and shape of each input, and the size of each symbol.

    Args:
        graph: the graph.
        inputs: an array per input, a number for a scalar.
        symbols: sizes that the shapes do not determine.

    Raises:
        AutofuseError: AF5007, they do not fit the graph, or two elements share memory that the kernel overwrites.
        TypeError: they are not given by name, or a size is not an integer.
    """
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs are given by name, in a dict, not {type(inputs).__name__}")
    problems: list[Diagnostic] = []
    arrays: dict[str, Array] = {}
    for name in graph.inputs:
        if name not in inputs:
            problems += misfit(f"input {name} is missing").diagnostics
            continue
        try:
            arrays[name] = as_array(graph.tensors[name], inputs[name])
        except AutofuseError as e:
            problems += e.diagnostics
            continue
        problems += wrong_dtype(graph.tensors[name], arrays[name])
    for name in inputs:
        if name not in graph.inputs:
            problems += misfit(f"{name} is not an input of {graph.label}").diagnostics
    if problems:
        raise AutofuseError(problems)
    sizes = solve_symbols(graph, {n: a.shape for n, a in arrays.items()}, symbols)
    for name in (o.inout for o in graph.outputs if o.inout is not None):
        if not isinstance(inputs[name], np.ndarray):
            text = f"{name} is overwritten by the kernel and must be an array, not a number"
            problems += misfit(text).diagnostics
        elif not inputs[name].flags.writeable:
            text = f"{name} is overwritten by the kernel, but the array is read-only"
            problems += misfit(text).diagnostics
    problems += written_overlaps(graph, arrays)
    if problems:
        raise AutofuseError(problems)
    return arrays, sizes


def solve_symbols(
    graph: FusionGraph, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int]
) -> dict[str, int]:
    """Solve for the sizes of all symbols, exactly, from the shapes of the inputs.

    Args:
        graph: the graph.
        shapes: shape of every input.
        given: symbols that the caller sets; they must agree with the shapes.

    Raises:
        AutofuseError: AF5007: a rank or size that does not fit, a symbol out of range or not
            determined.
    """
    labels = graph.symbol_labels()
    sizes = symbol_sizes(graph.label, labels, given)
    equations: list[tuple[Expr, int, str]] = []
    problems: list[Diagnostic] = []
    for name, shape in shapes.items():
        want = graph.tensors[name].shape
        if len(want) != len(shape):
            text = f"input {name} has rank {len(shape)}, the kernel takes [{', '.join(map(graph.in_words, want))}]"
            problems += misfit(text).diagnostics
            continue
        equations += [
            (e, n, f"dimension {i} of {name}")
            for i, (e, n) in enumerate(zip(want, shape, strict=True))
        ]
    if problems:
        raise AutofuseError(problems)
    ranges = graph.symbol_ranges()
    progress = True
    while progress:
        progress = False
        for e, n, _ in equations:
            unknown = e.symbols() - sizes.keys()
            if len(unknown) == 1:
                (name,) = unknown
                value = _solve(e.substitute(sizes), name, n, ranges.get(name, (0, _MAX_SIZE)))
                if value is not None:
                    sizes[name] = value
                    progress = True
    for e, n, where in equations:
        if e.symbols() <= sizes.keys() and e.evaluate(sizes) != n:
            at = ", ".join(f"{labels[s]}={sizes[s]}" for s in sorted(e.symbols()))
            text = f"{where} is {n}, the kernel needs {graph.in_words(e)} = {e.evaluate(sizes)}" + (
                f" ({at})" if at else ""
            )
            problems += misfit(text).diagnostics
    for s in graph.symbols:
        if s.name not in sizes and (value := _unbounded(s.name, equations, sizes)) is not None:
            text = f"{s.label} = {value} is outside [{s.min}, {s.max}]"
            problems += misfit(text).diagnostics
        elif s.name not in sizes:
            text = f"the size {s.label} does not follow from the shapes of the inputs"
            problems += misfit(text, hint=f"pass symbols={{{s.label!r}: ...}}").diagnostics
        elif not s.min <= sizes[s.name] <= s.max:
            text = f"{s.label} = {sizes[s.name]} is outside [{s.min}, {s.max}]"
            problems += misfit(text).diagnostics
    if problems:
        raise AutofuseError(problems)
    return {s.name: sizes[s.name] for s in graph.symbols}


def _unbounded(
    name: str, equations: Sequence[tuple[Expr, int, str]], sizes: Mapping[str, int]
) -> int | None:
    """Return the size that the shapes determine if the range of the symbol is ignored."""
    for e, n, _ in equations:
        if e.symbols() - sizes.keys() == {name}:
            value = _solve(e.substitute(sizes), name, n, (0, _MAX_SIZE))
            if value is not None:
                return value
    return None


def _solve(e: Expr, symbol: str, n: int, bounds: tuple[int, int]) -> int | None:
    """Return the value of the symbol for which e == n, or None unless exactly one value fits.

    Shapes grow with their symbols, so the solution is found by bisection.
    """
    low, high = max(bounds[0], 0), max(bounds[1], 0)
    first = _first_reaching(e, symbol, n, low, high)
    if e.evaluate({symbol: first}) != n:
        return None
    if first < high and e.evaluate({symbol: first + 1}) == n:
        return None
    return first


def _first_reaching(e: Expr, symbol: str, n: int, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        if e.evaluate({symbol: middle}) >= n:
            high = middle
        else:
            low = middle + 1
    return low
