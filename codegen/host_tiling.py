"""The generated tiling function: table rows per template; the search is in a shipped header."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autofuse.codegen.abi import (
    SymbolRow,
    all_impls,
    c_string,
    overflow_guards,
    symbol_arguments,
    symbol_expr_names,
    symbol_parameters,
    symbol_rows,
    tile_symbol,
)
from autofuse.codegen.expr_cpp import check_identifier, int_literal, to_cpp
from autofuse.codegen.provenance import banner
from autofuse.codegen.render import render
from autofuse.diagnostics import AutofuseError
from autofuse.implgraph.expr import ONE, ZERO, Expr, Max, const, product
from autofuse.implgraph.fusion import FusionGraph
from autofuse.implgraph.graph import Condition, ImplGraph, Node
from autofuse.implgraph.infer import nonempty_sizes
from autofuse.schedule.result import ScheduleResult, tiling_keys
from autofuse.schedule.transposition import ROW_BYTES, moves_rows
from autofuse.schedule.workspace import workspace_bytes
from autofuse.targets import TargetSpec

__all__ = ["condition_text", "moved_bytes", "render_tiling"]


@dataclass(frozen=True, slots=True)
class _Template:
    index: int
    function: str
    extent: str
    outer: str
    granule: str
    tile_max: str
    row_elements: str
    ub_limit: str
    head: str
    looped: bool
    conditions: str
    ub: str
    bytes: str
    guard: str
    fits: str
    tile_size: str
    block_size: str


@dataclass(frozen=True, slots=True)
class _Group:
    first: int
    count: int
    first_core: str | None


@dataclass(frozen=True, slots=True)
class _Result:
    first: int
    count: int
    key: int
    head: int


@dataclass(frozen=True, slots=True)
class _Size:
    """A size that must not be 0."""

    size: str
    index: int


@dataclass(frozen=True, slots=True)
class _Error:
    kind: str
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class _TilingView:
    banner: str
    graph: str
    symbols: tuple[SymbolRow, ...]
    nonempty: tuple[_Size, ...]
    symbol_parameters: str
    symbol_arguments: str
    templates: tuple[_Template, ...]
    groups: tuple[_Group, ...]
    results: tuple[_Result, ...]
    result_count: int
    key_count: int
    machine: str
    errors: tuple[_Error, ...]
    workspace_size: str
    is_static: str


def render_tiling(
    graph: FusionGraph, results: tuple[ScheduleResult, ...], target: TargetSpec
) -> str:
    """The text of ``host/<g>_tiling.cpp``."""
    templates = tuple(
        _template(graph, i, impl, target) for i, impl in enumerate(all_impls(results))
    )
    groups: list[_Group] = []
    rows: list[_Result] = []
    first = key = 0
    for r in results:
        # A single result is compared with nothing.
        barriers = sum(g.sync_before for g in r.groups) if len(results) > 1 else 0
        rows.append(_Result(len(groups), len(r.groups), key, round(barriers * target.sync_all)))
        key += len(tiling_keys((r,)))
        for g in r.groups:
            core = g.impls[0].tiling.first_core
            groups.append(_Group(first, len(g.impls), check_identifier(core) if core else None))
            first += len(g.impls)
    view = _TilingView(
        banner=banner(graph, target.name),
        graph=check_identifier(graph.name),
        symbols=symbol_rows(graph),
        nonempty=_nonempty(graph),
        symbol_parameters=symbol_parameters(graph),
        symbol_arguments=symbol_arguments(graph),
        templates=templates,
        groups=tuple(groups),
        results=tuple(rows),
        result_count=len(rows),
        key_count=key,
        machine=f"{target.aiv_cores}, {target.ub_usable}, {_rate(target)}",
        errors=tuple(_errors(graph, results, templates)),
        workspace_size=workspace_text(graph, results),
        is_static="false" if graph.symbols else "true",
    )
    return render("tiling.cpp.jinja", view)


def workspace_text(graph: FusionGraph, results: Iterable[ScheduleResult]) -> str:
    """Bytes of workspace as C++, in the members of ``data``; empty for none."""
    sizes = [workspace_bytes(r.hint) for r in results]
    most = Max(*sizes) if len(sizes) > 1 else sizes[0]
    return "" if most == 0 else to_cpp(most, symbol_expr_names(graph, "data"))


def condition_text(impl: ImplGraph) -> tuple[str, ...]:
    """The run-time conditions of a template in words."""
    return tuple(c.text() for c in impl.tiling.conditions)


def moved_bytes(impl: ImplGraph, loop_head: int = 0) -> Expr:
    """Bytes that loads and stores move per tile, in the tile symbol and the graph's symbols.

    ``loop_head``: what every iteration of a reduce loop costs beside its bytes, in bytes.
    """
    looped = [n for n in impl.nodes if n.loop_axis is not None and n.loop_axis == impl.r_axis]
    once = _bytes_of(impl, [n for n in impl.nodes if n not in looped])
    if not looped:
        return once
    return once + (_bytes_of(impl, looped) + loop_head) * impl.tiling.reduce_steps


def _bytes_of(impl: ImplGraph, nodes: Iterable[Node]) -> Expr:
    known = {s.name for s in impl.symbols} | {impl.tiling.tile_size}
    by_name = impl.by_name()
    by_rows = moves_rows(impl)
    total = ZERO
    for node in nodes:
        if node.op not in ("Load", "Store"):
            continue
        view = node.y
        if not view.vectorized_axis and node.inputs:
            view = by_name[node.inputs[0]].y
        repeats = dict(zip(view.axis, view.repeats, strict=True))
        elements = product(repeats.get(a, impl.axes[a].size) for a in view.vectorized_axis)
        if not elements.symbols() <= known:
            elements = tile_symbol(impl) * impl.tiling.row_elements
        total = total + elements * node.y.dtype.itemsize
        if by_rows:
            single = view.vectorized_strides[-1:] not in ((), (ONE,))
            axes = view.vectorized_axis if single else view.vectorized_axis[:-1]
            total = total + product(repeats.get(a, impl.axes[a].size) for a in axes) * ROW_BYTES
    return total


def _template(graph: FusionGraph, index: int, impl: ImplGraph, target: TargetSpec) -> _Template:
    spec = impl.tiling
    names = symbol_expr_names(graph, "s") | {spec.tile_size: "t"}
    looped = [n for n in impl.nodes if n.loop_axis is not None and n.loop_axis == impl.r_axis]
    moved = moved_bytes(impl, _head(looped, target) * _rate(target))
    ranges = graph.symbol_ranges() | {spec.tile_size: (1, max(spec.granule, 1))}
    checked = [spec.longest, spec.outer, spec.longest * spec.outer, spec.row_elements]
    checked += [spec.reduce_outer, spec.ub, moved, *(c.value for c in spec.conditions)]
    checked += [spec.tile_max] if spec.tile_max is not None else []
    for e in checked:
        if not e.symbols() <= names.keys():
            odd = ", ".join(sorted(e.symbols() - names.keys()))
            raise AutofuseError.of("AF9001", f"the tiling of {impl.name} depends on {odd}")
    # Sizes are asked for with the smallest tile first, so that is where an overflow would be.
    smallest = {spec.tile_size: const(max(spec.granule, 1))}
    guards = overflow_guards((e.substitute(smallest) for e in checked), ranges, names)
    return _Template(
        index=index,
        function=check_identifier(impl.name),
        extent=to_cpp(spec.longest, names),
        outer=to_cpp(spec.outer, names),
        granule=int_literal(spec.granule),
        tile_max="autofuse::kUnlimited" if spec.tile_max is None else to_cpp(spec.tile_max, names),
        row_elements=to_cpp(spec.row_elements, names),
        ub_limit=int_literal(spec.ub_limit),
        head=int_literal(_head((n for n in impl.nodes if n not in looped), target)),
        looped=spec.reduce_tiles,
        conditions=" && ".join(_condition(c, names) for c in spec.conditions) or "true",
        ub=to_cpp(spec.ub, names),
        bytes=to_cpp(moved, names),
        guard=" && ".join(f"autofuse::ProductFits({g})" for g in guards),
        fits=f"&Fits{index}" if guards else "nullptr",
        tile_size=check_identifier(spec.tile_size),
        block_size=check_identifier(spec.block_size),
    )


def _nonempty(graph: FusionGraph) -> tuple[_Size, ...]:
    names = symbol_expr_names(graph, "data")
    sizes = (to_cpp(size, names, atomic=True) for _, size in nonempty_sizes(graph))
    return tuple(_Size(size, i) for i, size in enumerate(sizes))


def _condition(c: Condition, names: Mapping[str, str]) -> str:
    value = to_cpp(c.value, names, atomic=True)
    parts = [f"{value} >= {int_literal(c.at_least)}"] if c.at_least is not None else []
    parts += [f"{value} <= {int_literal(c.at_most)}"] if c.at_most is not None else []
    if c.multiple_of != 1:
        parts.append(f"autofuse::Mod({to_cpp(c.value, names)}, {int_literal(c.multiple_of)}) == 0")
    return " && ".join(parts)


def _head(nodes: Iterable[Node], target: TargetSpec) -> int:
    """Cycles of the DMA commands of a tile before their first byte."""
    heads = {"Load": target.load_head, "Store": target.store_head}
    return round(sum(heads.get(n.op, 0.0) for n in nodes))


def _rate(target: TargetSpec) -> int:
    """Bytes per cycle that GM gives to one core when all are at work."""
    per_core = target.gm_bandwidth_gbs * 1e3 / (target.clock_mhz * target.aiv_cores)
    return max(round(per_core), 1)


def _errors(
    graph: FusionGraph, results: tuple[ScheduleResult, ...], templates: tuple[_Template, ...]
) -> Iterable[_Error]:
    for i, s in enumerate(graph.symbols):
        yield _Error("kSymbolRange", i, c_string(f"{s.name} is not in [{s.min}, {s.max}]"))
        yield _Error("kUnsolved", i, c_string(f"{s.name} does not follow from the input shapes"))
    for row, impl in zip(templates, all_impls(results), strict=True):
        where = f"template {row.function}: "
        if impl.tiling.conditions:
            broken = " and ".join(condition_text(impl))
            yield _Error(
                "kCondition", row.index, c_string(f"{where}it does not hold that {broken}")
            )
        if row.guard:
            yield _Error("kOverflow", row.index, c_string(f"{where}the sizes do not fit 64 bits"))
        limit = f"{impl.tiling.ub_limit} bytes of UB"
        if impl.tiling.tile_max is not None:
            limit += f" or is longer than {impl.tiling.tile_max}"
        text = f"{where}even the smallest tile does not fit {limit}"
        yield _Error("kNoTile", row.index, c_string(text))
    for i, (node, size) in enumerate(nonempty_sizes(graph)):
        text = f"{node.name} is an {node.op} along a dimension of {size}, which must not be 0"
        yield _Error("kNoElements", i, c_string(text))
    for i, name in enumerate(graph.inputs):
        shape = ", ".join(str(d) for d in graph.tensors[name].shape)
        yield _Error("kInputShape", i, c_string(f"input {name} does not have the shape [{shape}]"))
