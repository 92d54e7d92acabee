"""The generated tiling function: table rows per template; the search is in a shipped header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier, int_literal, to_cpp
from autofuse.codegen.backends.ascendc.host.abi import (
    SymbolRow,
    all_impls,
    c_string,
    overflow_guards,
    symbol_arguments,
    symbol_expr_names,
    symbol_parameters,
    symbol_rows,
)
from autofuse.codegen.backends.ascendc.host.shared_terms import SharedTerms, shared_terms
from autofuse.codegen.backends.ascendc.provenance import banner
from autofuse.codegen.render import render
from autofuse.implgraph.expr.expression import Expr, Max, const
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Condition, ImplGraph
from autofuse.implgraph.ops.requirements import requirements
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.schedule.search.cost_form import (
    Affine,
    BodyForm,
    CallForm,
    CopyForm,
    Place,
    Route,
    ticks,
)
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import by_promise, choose
from autofuse.schedule.search.tile_cost import chip_table
from autofuse.targets import Architecture, TargetSpec

__all__ = ["condition_text", "render_tiling"]

#: Templates of which each gets code of its own that costs tiles.  That takes a third of the time off a search, and g++
#: some 0.1 s per template; without symbols nothing is searched unless less than the chip is granted.
MOST_UNROLLED = 12


@frozen
class _Term:
    """What several numbers of a template have in common."""

    name: str
    value: str


@frozen
class _Template:
    index: int
    function: str
    extent: str
    longest: str
    outer: str
    reduce_outer: str
    granule: str
    tile_max: str
    ub_limit: str
    looped: bool
    conditions: str
    ub: str
    lengths: tuple[int, ...]
    tables: tuple[str, ...]
    terms: tuple[_Term, ...]
    numbers: tuple[str, ...]
    guard: str
    fits: str
    turn: int
    tile_size: str
    block_size: str


@frozen
class _Group:
    first: int
    count: int
    first_core: str | None


@frozen
class _Result:
    first: int
    count: int
    key: int
    head: int


@frozen
class _Requirement:
    """What must hold of the sizes; ``index`` is among those of its kind."""

    kind: str
    index: int
    value: str
    least: int
    text: str


@frozen
class _Error:
    kind: str
    index: int
    text: str


@frozen
class _TilingView:
    banner: str
    graph: str
    symbols: tuple[SymbolRow, ...]
    requirements: tuple[_Requirement, ...]
    symbol_parameters: str
    symbol_arguments: str
    templates: tuple[_Template, ...]
    groups: tuple[_Group, ...]
    results: tuple[_Result, ...]
    result_count: int
    key_count: int
    chip: str
    form: str
    any_numbers: bool
    unrolled: bool
    folded: tuple[str, ...]
    errors: tuple[_Error, ...]
    workspace_size: str
    is_static: str


def render_tiling(graph: FusionGraph, results: tuple[ScheduleResult, ...], costs: Costs) -> str:
    """The text of ``host/<g>_tiling.cpp``."""
    target = costs.target
    turns = (i for r in results for g in r.groups for i, _ in by_promise(g.impls, costs))
    templates = tuple(
        _template(graph, i, turn, impl, costs)
        for i, (turn, impl) in enumerate(zip(turns, all_impls(results), strict=True))
    )
    most = map(max, zip(*(t.lengths for t in templates), strict=True))
    groups: list[_Group] = []
    rows: list[_Result] = []
    first = key = 0
    for r in results:
        # A single result is compared with nothing.
        barriers = sum(g.sync_before for g in r.groups) if len(results) > 1 else 0
        rows.append(_Result(len(groups), len(r.groups), key, barriers * ticks(target.sync_all)))
        key += len(tiling_keys((r,)))
        for g in r.groups:
            core = g.impls[0].tiling.first_core
            groups.append(_Group(first, len(g.impls), check_identifier(core) if core else None))
            first += len(g.impls)
    needed = tuple(_requirements(graph))
    view = _TilingView(
        banner=banner(graph, target.name),
        graph=check_identifier(graph.name),
        symbols=symbol_rows(graph),
        requirements=needed,
        symbol_parameters=symbol_parameters(graph),
        symbol_arguments=symbol_arguments(graph),
        templates=templates,
        groups=tuple(groups),
        results=tuple(rows),
        result_count=len(rows),
        key_count=key,
        chip=_chip_row(target),
        form=", ".join(str(max(n, 1)) for n in most),
        any_numbers=any(t.numbers for t in templates),
        unrolled=bool(graph.symbols) and len(templates) <= MOST_UNROLLED,
        folded=() if graph.symbols else _folded(results, costs),
        errors=tuple(_errors(graph, results, templates, needed)),
        workspace_size=workspace_text(graph, results, target.arch),
        is_static="false" if graph.symbols else "true",
    )
    return render("tiling.cpp.jinja", view)


@lru_cache(maxsize=16)
def _chip_row(target: TargetSpec) -> str:
    """The members of ``autofuse::Chip``."""
    return ", ".join(int_literal(v) for v in chip_table(target).row_of_header())


def workspace_text(
    graph: FusionGraph, results: Iterable[ScheduleResult], arch: Architecture
) -> str:
    """Bytes of workspace as C++, in the members of ``data``; empty for none."""
    sizes = [workspace_bytes(r.hint, arch) for r in results]
    most = Max(*sizes) if len(sizes) > 1 else sizes[0]
    return "" if most == 0 else to_cpp(most, symbol_expr_names(graph, "data"))


def condition_text(impl: ImplGraph) -> tuple[str, ...]:
    """The run-time conditions of a template in words."""
    return tuple(c.text() for c in impl.tiling.conditions)


def _template(
    graph: FusionGraph, index: int, turn: int, impl: ImplGraph, costs: Costs
) -> _Template:
    """The row of a template.

    Args:
        graph: all of it.
        index: of the template.
        turn: index in its group of the one that is searched in its place.
        impl: the template.
        costs: of the templates.
    """
    spec = impl.tiling
    names = symbol_expr_names(graph, "s") | {spec.tile_size: "t"}
    form = costs.form(impl)
    ranges = graph.symbol_ranges() | {spec.tile_size: (1, max(spec.granule, 1))}
    checked = [spec.longest, spec.outer, spec.longest * spec.outer, spec.row_elements]
    checked += [spec.reduce_outer, spec.ub, *(c.value for c in spec.conditions)]
    checked += [spec.tile_max] if spec.tile_max is not None else []
    checked += form.sizes()
    for e in (*checked, *form.exprs()):
        if not (e.is_const or e.symbols() <= names.keys()):
            odd = ", ".join(sorted(e.symbols() - names.keys()))
            raise AutofuseError.of("AF9001", f"the tiling of {impl.name} depends on {odd}")
    # Sizes are asked for with the smallest tile first, so that is where an overflow would be.
    smallest = _at_tile(dict.fromkeys(checked), spec.tile_size, max(spec.granule, 1))
    common = shared_terms([e for c in form.calls for e in c.exprs()], names)
    own = {**names, **{n: n for n in common.values}}
    guards = overflow_guards(smallest, ranges, names)
    numbers = _Numbers()
    rows, copies = _copy_rows(form.copies, names, numbers)
    calls = _call_rows(form.calls, common, own, numbers)
    tables = ([_body_row(b) for b in form.bodies], rows, copies, calls)
    return _Template(
        index=index,
        function=check_identifier(impl.name),
        extent=to_cpp(spec.extent, names),
        longest=to_cpp(Max(spec.longest, 1), names),
        outer=to_cpp(spec.outer, names),
        reduce_outer=to_cpp(spec.reduce_outer, names),
        granule=int_literal(spec.granule),
        tile_max="autofuse::kUnlimited" if spec.tile_max is None else to_cpp(spec.tile_max, names),
        ub_limit=int_literal(spec.ub_limit),
        looped=spec.reduce_tiles,
        conditions=" && ".join(_condition(c, names) for c in spec.conditions) or "true",
        ub=to_cpp(spec.ub, names),
        lengths=tuple(map(len, tables)),
        tables=tuple(map(",\n     ".join, tables)),
        terms=tuple(_Term(n, to_cpp(v, own)) for n, v in common.values.items()),
        numbers=tuple(numbers.found),
        guard=" && ".join(f"autofuse::ProductFits({g})" for g in guards),
        fits=f"&Fits{index}" if guards else "nullptr",
        turn=turn,
        tile_size=check_identifier(spec.tile_size),
        block_size=check_identifier(spec.block_size),
    )


def _at_tile(exprs: Iterable[Expr], symbol: str, tile: int) -> Iterator[Expr]:
    """Expressions with the length of a tile put in."""
    for e in exprs:
        if e.symbols() == {symbol}:
            yield const(e.evaluate({symbol: tile}))
        else:
            yield e.substitute({symbol: tile})


_PLACES = {Place.ONCE: "kOnce", Place.TILE: "kTile", Place.STEP: "kStep"}
_ROUTES = {
    Route.READ: "kRead",
    Route.AGAIN: "kAgain",
    Route.WRITE: "kWrite",
    Route.STREAM: "kStream",
}


def _braces(members: Iterable[str]) -> str:
    return f"{{{', '.join(members)}}}"


def _body_row(b: BodyForm) -> str:
    """The members of ``autofuse::Body``."""
    numbers = (f"autofuse::{_PLACES[b.place]}", str(b.heads), str(b.scalar), str(b.buffers))
    return _braces((*numbers, *map(_bool, (b.chained, b.loads, b.staggered))))


def _copy_rows(
    copies: Sequence[CopyForm], names: Mapping[str, str], numbers: _Numbers
) -> tuple[list[str], list[str]]:
    """The members of ``autofuse::Rows`` and of ``autofuse::Copies``; what depends on sizes goes to ``numbers``."""
    alike: dict[object, list[CopyForm]] = {}
    for c in copies:
        key = (c.body, c.commands, c.rows, c.row_bytes, c.aligned, c.tiled)
        alike.setdefault(key, []).append(c)
    rows: list[str] = []
    moved: list[str] = []
    for i, group in enumerate(alike.values()):
        first = group[0]
        stores = sum(c.count for c in group if c.route is Route.WRITE)
        fixed = [to_cpp(distance, names) for size, distance in first.aligned if size is None]
        fixed += [
            f"({to_cpp(size, names)} > 1 ? {to_cpp(distance, names)} : 0)"
            for size, distance in first.aligned
            if size is not None
        ]
        row = [
            str(first.body),
            str(sum(c.count for c in group) - stores),
            str(stores),
            numbers.line(first.commands, names),
            numbers.line(first.rows, names),
            numbers.line(first.row_bytes, names),
            numbers.one(_or(fixed)),
            numbers.one(_or([to_cpp(d, names) for d in first.tiled])),
        ]
        rows.append(_braces(row))
        for c in group:
            row = [
                str(i),
                f"autofuse::{_ROUTES[c.route]}",
                str(c.count),
                numbers.of(c.whole, names),
                numbers.of(c.each, names),
                numbers.of(c.distinct, names),
                numbers.line(c.footprint, names),
                numbers.one(_any_more_than_one(c.varying, names)),
                _bool(c.varies_by_tile),
            ]
            moved.append(_braces(row))
    return rows, moved


def _call_rows(
    calls: Sequence[CallForm], common: SharedTerms, names: Mapping[str, str], numbers: _Numbers
) -> list[str]:
    """The members of ``autofuse::Calls``."""
    rows = []
    for c in calls:
        cycles, along = (
            Affine(common.within(a.base), common.within(a.step)) for a in (c.cycles, c.along)
        )
        row = [str(c.body), numbers.line(cycles, names), numbers.line(along, names)]
        rows.append(_braces(row))
    return rows


#: A number that does not depend on sizes.
_CONSTANT = re.compile(r"-?\d+|INT64_C\(-?\d+\)")


class _Numbers:
    """The numbers of a form that depend on sizes, each of them once."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def one(self, text: str) -> str:
        """A constant, or what stands for the number."""
        if text.isdigit() or _CONSTANT.fullmatch(text):
            return text
        return f"Number({self.found.setdefault(text, len(self.found))})"

    def of(self, e: Expr, names: Mapping[str, str]) -> str:
        """The same for the text of an expression."""
        if e.number is not None and e.number >= 0:
            return int_literal(e.number)
        return self.one(to_cpp(e, names))

    def line(self, a: Affine, names: Mapping[str, str]) -> str:
        """Both numbers of an ``autofuse::Line``."""
        return f"{{{self.of(a.base, names)}, {self.of(a.step, names)}}}"


def _or(distances: Sequence[str]) -> str:
    """Distances or-ed: what divides all of them shows in their lowest bit."""
    parts = list(dict.fromkeys([d for d in distances if d != "0"]))
    if len(parts) == 1:
        return parts[0]
    return " | ".join([f"({p})" if " " in p else p for p in parts]) or "0"


def _any_more_than_one(sizes: Sequence[Expr], names: Mapping[str, str]) -> str:
    """1 if one of these sizes is more than 1, else 0."""
    texts = []
    for s in sizes:
        if s.number is None:
            texts.append(f"{to_cpp(s, names, atomic=True)} > 1")
        elif s.number > 1:
            return "1"
    return " || ".join(texts) or "0"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _folded(results: tuple[ScheduleResult, ...], costs: Costs) -> tuple[str, ...]:
    """Assignments to the tiling data of a graph without symbols, where all of the chip is granted."""
    found = choose(results, costs)
    if found is None:
        return ()
    fields = {"tiling_key": found.key, "block_dim": found.cores, **found.fields}
    return tuple(f"{check_identifier(name)} = {int_literal(v)}" for name, v in fields.items())


_KINDS = {"empty": "kNoElements", "relation": "kRelation"}


def _requirements(graph: FusionGraph) -> Iterator[_Requirement]:
    names = symbol_expr_names(graph, "data")
    count = dict.fromkeys(_KINDS, 0)
    for r in requirements(graph):
        value = to_cpp(r.value, names, atomic=True)
        yield _Requirement(_KINDS[r.kind], count[r.kind], value, r.least, r.text)
        count[r.kind] += 1


def _condition(c: Condition, names: Mapping[str, str]) -> str:
    value = to_cpp(c.value, names, atomic=True)
    parts = [f"{value} >= {int_literal(c.at_least)}"] if c.at_least is not None else []
    parts += [f"{value} <= {int_literal(c.at_most)}"] if c.at_most is not None else []
    if c.multiple_of != 1:
        parts.append(f"autofuse::Mod({to_cpp(c.value, names)}, {int_literal(c.multiple_of)}) == 0")
    return " && ".join(parts)


def _errors(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    templates: tuple[_Template, ...],
    needed: tuple[_Requirement, ...],
) -> Iterable[_Error]:
    for i, s in enumerate(graph.symbols):
        yield _Error("kSymbolRange", i, c_string(f"{s.label} is not in [{s.min}, {s.max}]"))
        yield _Error("kUnsolved", i, c_string(f"{s.label} does not follow from the input shapes"))
    for row, impl in zip(templates, all_impls(results), strict=True):
        where = f"template {row.function}: "
        if impl.tiling.conditions:
            broken = " and ".join(condition_text(impl))
            yield _Error(
                "kCondition", row.index, c_string(f"{where}it does not hold that {broken}")
            )
        if row.guard:
            yield _Error("kOverflow", row.index, c_string(f"{where}the sizes do not fit 64 bits"))
        limit = f"{impl.tiling.ub_limit} bytes of UB, or those that are granted"
        if impl.tiling.tile_max is not None:
            limit += f", or is longer than {impl.tiling.tile_max}"
        text = f"{where}even the smallest tile does not fit {limit}"
        yield _Error("kNoTile", row.index, c_string(text))
    for r in needed:
        yield _Error(r.kind, r.index, c_string(r.text))
    for i, name in enumerate(graph.inputs):
        shape = ", ".join(map(graph.in_words, graph.tensors[name].shape))
        yield _Error("kInputShape", i, c_string(f"input {name} does not have the shape [{shape}]"))
