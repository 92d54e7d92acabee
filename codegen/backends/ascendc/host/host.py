"""The host files of a kernel: tiling data, tiling, shape inference, device binary, launcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import counted
from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier, int_literal, to_cpp
from autofuse.codegen.backends.ascendc.host.abi import (
    Field,
    SymbolRow,
    overflow_guards,
    pointer_parameters,
    symbol_arguments,
    symbol_expr_names,
    symbol_parameters,
    symbol_rows,
    tiling_fields,
)
from autofuse.codegen.backends.ascendc.host.tiling import render_tiling
from autofuse.codegen.backends.ascendc.provenance import banner, in_comment
from autofuse.codegen.render import render
from autofuse.implgraph.expr.expression import Expr, Sym
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import GivenTiling
from autofuse.targets import TargetSpec

__all__ = ["Solution", "data_text", "host_files", "infer_shape_file", "launch_text", "solve"]

MAX_RANK = 16


@frozen
class _DataView:
    banner: str
    fields: tuple[Field, ...]


@frozen
class _Shape:
    index: int
    name: str
    dims: str


@frozen
class Solution:
    """``inputs[input].dims[dim] == factor * symbol + plus``."""

    symbol: str
    input: int
    dim: int
    factor: str
    plus: str


@frozen
class _InferView:
    banner: str
    graph: str
    symbols: tuple[SymbolRow, ...]
    symbol_parameters: str
    symbol_values: str
    inputs: tuple[_Shape, ...]
    outputs: tuple[_Shape, ...]
    input_count: int
    output_count: int
    made_count: int
    guards: tuple[str, ...]
    solutions: tuple[Solution, ...]
    unsolved: tuple[int, ...]


@frozen
class _KernelView:
    banner: str
    graph: str


@frozen
class _LaunchView:
    banner: str
    graph: str
    kernel_parameters: str
    pointer_parameters: tuple[str, ...]
    pointer_list: str
    pointer_names: str
    pointer_indices: tuple[int, ...]


def host_files(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    costs: Costs,
    given: Sequence[GivenTiling] = (),
) -> dict[str, str]:
    """Return the host files by path, relative to the output folder; ``given``: tilings tried before the search.

    Raises:
        AutofuseError: a name is used twice, or a tensor has too many dimensions.
    """
    name = check_identifier(graph.name)
    target = costs.target
    head = banner(graph, target.name)
    return {
        "autofuse_tiling_data.h": data_text(head, tiling_fields(graph, results)),
        f"host/{name}_tiling.cpp": render_tiling(graph, results, costs, given),
        f"host/{name}_infer_shape.cpp": infer_shape_file(graph, target),
        f"host/{name}_get_kernel.cpp": render("get_kernel.cpp.jinja", _KernelView(head, name)),
        f"host/{name}_launch.cpp": launch_text(graph, head),
    }


def data_text(head: str, fields: tuple[Field, ...]) -> str:
    """Return the text of ``autofuse_tiling_data.h``; ``head`` is its leading comment."""
    return render("tiling_data.h.jinja", _DataView(head, fields))


def infer_shape_file(graph: FusionGraph, target: TargetSpec) -> str:
    """Return the text of ``host/<g>_infer_shape.cpp``.

    Raises:
        AutofuseError: AF1109, a tensor has too many dimensions.
    """
    return render("infer_shape.cpp.jinja", _infer_view(graph, banner(graph, target.name)))


def launch_text(graph: FusionGraph, head: str) -> str:
    """Return the text of ``host/<g>_launch.cpp``; ``head`` is its leading comment."""
    pointers = pointer_parameters(graph)
    view = _LaunchView(
        banner=head,
        graph=graph.name,
        kernel_parameters=", ".join([f"GM_ADDR {p}" for p in pointers] + ["AutofuseTilingData t"]),
        pointer_parameters=pointers,
        pointer_list=", ".join(pointers),
        pointer_names=", ".join(pointers),
        pointer_indices=tuple(range(len(pointers))),
    )
    return render("launch.cpp.jinja", view)


def _infer_view(graph: FusionGraph, head: str) -> _InferView:
    inputs = [(n, graph.tensors[n].shape) for n in graph.inputs]
    outputs = [(o.name, graph.tensors[o.tensor].shape) for o in graph.outputs]
    for tensor, shape in (*inputs, *outputs):
        if len(shape) > MAX_RANK:
            text = (
                f"{tensor} has {counted(len(shape), 'dimension')}; at most {MAX_RANK} are supported"
            )
            raise AutofuseError.of("AF1109", text, where=Where(node=tensor))
    members = symbol_expr_names(graph, "s")
    solutions = tuple(solve(graph))
    solved = {s.symbol for s in solutions}
    dims = (d for _, shape in (*inputs, *outputs) for d in shape)
    return _InferView(
        banner=head,
        graph=graph.name,
        symbols=symbol_rows(graph),
        symbol_parameters=symbol_parameters(graph),
        symbol_values=symbol_arguments(graph).removesuffix(", "),
        inputs=_shapes(inputs, members),
        outputs=_shapes(outputs, members),
        input_count=len(inputs),
        output_count=len(outputs),
        made_count=max(len(outputs), 1),
        guards=overflow_guards(dims, graph.symbol_ranges(), members),
        solutions=solutions,
        unsolved=tuple(i for i, s in enumerate(graph.symbols) if s.name not in solved)[:1],
    )


def _shapes(
    tensors: list[tuple[str, tuple[Expr, ...]]], members: dict[str, str]
) -> tuple[_Shape, ...]:
    return tuple(
        _Shape(i, in_comment(name), ", ".join(to_cpp(d, members) for d in shape))
        for i, (name, shape) in enumerate(tensors)
    )


def solve(graph: FusionGraph) -> Iterator[Solution]:
    """Yield, for every symbol that has one, the simplest input dimension that determines it."""
    for s in graph.symbols:
        best: Solution | None = None
        for i, name in enumerate(graph.inputs):
            for d, dim in enumerate(graph.tensors[name].shape):
                line = _linear(dim, s.name)
                if line is None:
                    continue
                found = Solution(s.name, i, d, int_literal(line[0]), int_literal(line[1]))
                if best is None or (line == (1, 0) and (best.factor, best.plus) != ("1", "0")):
                    best = found
        if best is not None:
            yield best


def _linear(dim: Expr, symbol: str) -> tuple[int, int] | None:
    """Return ``(a, b)`` if ``dim`` is ``a * symbol + b`` with a > 0, else None."""
    plus = factor = 0
    for monomial, c in dim.terms:
        if not monomial:
            plus = c
        elif monomial == ((Sym(symbol), 1),):
            factor = c
        else:
            return None
    return (factor, plus) if factor > 0 else None
