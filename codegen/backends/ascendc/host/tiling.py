"""The generated tiling function: describes each template by name; the loop over tiles is in a shipped header."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier, int_literal, to_cpp
from autofuse.codegen.backends.ascendc.host.abi import (
    SymbolRow,
    all_impls,
    c_string,
    log_sizes,
    overflow_guards,
    symbol_arguments,
    symbol_expr_names,
    symbol_parameters,
    symbol_rows,
)
from autofuse.codegen.backends.ascendc.host.shared_terms import shared_terms
from autofuse.codegen.backends.ascendc.host.tiling_example import example_lines
from autofuse.codegen.backends.ascendc.host.tuned import TunedView, tuned_view
from autofuse.codegen.backends.ascendc.provenance import banner, in_comment
from autofuse.codegen.lower.names import Names, parameter_names
from autofuse.codegen.render import render
from autofuse.implgraph.expr.bounds import settled
from autofuse.implgraph.expr.expression import Expr, Max, const, sym
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Condition, ImplGraph
from autofuse.implgraph.ops.requirements import requirements
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.schedule.search.bound import Chip, chip_figures
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.form import (
    Affine,
    BodyForm,
    CallForm,
    CopyForm,
    CostForm,
    Place,
    Route,
)
from autofuse.schedule.search.given import GivenTiling
from autofuse.schedule.search.solver import choose
from autofuse.targets import TargetSpec

__all__ = ["condition_text", "render_tiling"]


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
    loops: int
    copies: int
    scans: int
    lines: tuple[str, ...]
    guard: str
    fits: str
    again: str
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
    barriers: str


@frozen
class _Requirement:
    """Condition on the sizes; ``index`` counts conditions of one kind."""

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
    log_sizes: str
    templates: tuple[_Template, ...]
    groups: tuple[_Group, ...]
    results: tuple[_Result, ...]
    result_count: int
    key_count: int
    target: str
    chip: tuple[str, ...]
    example: tuple[str, ...]
    folded: tuple[str, ...]
    errors: tuple[_Error, ...]
    workspace_size: str
    is_static: str
    tuned: TunedView | None


def render_tiling(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    costs: Costs,
    given: Sequence[GivenTiling] = (),
) -> str:
    """Return the text of ``host/<g>_tiling.cpp``; ``given``: tilings of a tuning file, tried before the search."""
    target = costs.target
    templates = tuple(_template(graph, i, impl, costs) for i, impl in enumerate(all_impls(results)))
    groups: list[_Group] = []
    rows: list[_Result] = []
    first = key = 0
    for r in results:
        # With a single result there is nothing to compare.
        barriers = sum(g.sync_before for g in r.groups) if len(results) > 1 else 0
        took = _number(barriers * target.sync_all) if barriers else ""
        rows.append(_Result(len(groups), len(r.groups), key, took))
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
        log_sizes=log_sizes(graph),
        templates=templates,
        groups=tuple(groups),
        results=tuple(rows),
        result_count=len(rows),
        key_count=key,
        target=target.name,
        chip=_chip_lines(chip_figures(target)),
        example=tuple(
            [f"// {in_comment(x)}".rstrip() for x in example_lines(graph, results, costs)]
        ),
        folded=() if graph.symbols else _folded(results, costs),
        errors=tuple(_errors(graph, results, templates, needed)),
        workspace_size=workspace_text(graph, results, target),
        is_static="false" if graph.symbols else "true",
        tuned=tuned_view(graph, results, given, symbol_arguments(graph).removesuffix(", ")),
    )
    return render("tiling.cpp.jinja", view)


#: Units of the chip's figures, by member of ``autofuse::Chip``.
_UNITS = {
    "cores": "",
    "ub": "bytes of UB that a kernel may use",
    "l2": "bytes",
    "line": "bytes of a cache line",
    "short_row": "bytes that a row shorter than 32 bytes counts as",
    "core_start": "cycles that every core adds to the start",
    "load_issue": "cycles per load command",
    "store_issue": "cycles per store command",
    "row": "cycles per further row of a command",
    "load_latency": "cycles to the first byte of a load",
    "load_core": "bytes per cycle of one core: from memory",
    "l2_core": "... from L2",
    "store_core": "... stores",
    "read": "bytes per cycle of all cores: from memory",
    "l2_read": "... from L2",
    "same_order": "... one tensor that all cores load in the same order",
    "shared": "... one tensor, each core starting at a different place",
    "write": "... stores",
    "writeback": "... from L2 to memory",
}


@lru_cache(maxsize=16)
def _chip_lines(chip: Chip) -> tuple[str, ...]:
    """Return the assignments to the members of ``autofuse::Chip``, with their units."""
    out = []
    for name, unit in _UNITS.items():
        value = getattr(chip, name)
        text = int_literal(value) if isinstance(value, int) else _number(value)
        out.append(f"chip.{name} = {text};{'  // ' + unit if unit else ''}")
    return tuple(out)


def _number(value: float) -> str:
    """Return a literal of type double."""
    return repr(float(value))


def workspace_text(
    graph: FusionGraph, results: Iterable[ScheduleResult], target: TargetSpec
) -> str:
    """Return the bytes of workspace as C++, in terms of the members of ``data``; empty for none."""
    sizes = [workspace_bytes(r.hint, target) for r in results]
    most = Max(*sizes) if len(sizes) > 1 else sizes[0]
    return "" if most == 0 else to_cpp(most, symbol_expr_names(graph, "data"))


def condition_text(impl: ImplGraph) -> tuple[str, ...]:
    """Describe the run-time conditions of a template."""
    return tuple(c.text() for c in _conditions(impl))


def _conditions(impl: ImplGraph) -> list[Condition]:
    """Return the conditions that some sizes of the graph violate."""
    ranges = {s.name: (s.min, s.max) for s in impl.symbols}
    return [c for c in impl.tiling.conditions if c.may_fail(ranges)]


def _template(graph: FusionGraph, index: int, impl: ImplGraph, costs: Costs) -> _Template:
    """Return the row of a template, and its functions.

    Args:
        graph: the whole graph.
        index: index of the template.
        impl: template.
        costs: costs of the templates.
    """
    spec = impl.tiling
    names = symbol_expr_names(graph, "s") | {spec.opened.symbol: "t"}
    form = costs.form(impl)
    sizes = graph.symbol_ranges()
    ranges = sizes | {spec.opened.symbol: (1, max(spec.opened.granule, 1))}
    # The number of tiles needs no guard: every tile moves at least a byte, and traffic is guarded.
    checked = [spec.opened.longest, spec.outer, spec.row_elements]
    checked += [spec.reduce_outer, spec.ub, *(c.value for c in spec.conditions)]
    checked += [spec.opened.most] if spec.opened.most is not None else []
    checked += form.sizes()
    for e in (*checked, *form.exprs()):
        if not (e.is_const or e.symbols() <= names.keys()):
            odd = ", ".join(sorted(e.symbols() - names.keys()))
            raise AutofuseError.of("AF9001", f"the tiling of {impl.name} depends on {odd}")
    # Sizes are evaluated with the smallest tile first, so an overflow would occur there.
    smallest = _at_tile(dict.fromkeys(checked), spec.opened.symbol, max(spec.opened.granule, 1))
    guards = overflow_guards(smallest, ranges, names)
    work = _WorkText(graph, impl, form, names, fused=bool(costs.target.model.vector_fused))
    return _Template(
        index=index,
        function=check_identifier(impl.name),
        extent=to_cpp(spec.opened.extent, names),
        longest=to_cpp(settled(Max(spec.opened.longest, 1), sizes), names),
        outer=to_cpp(spec.outer, names),
        reduce_outer=to_cpp(spec.reduce_outer, names),
        granule=int_literal(spec.opened.granule),
        tile_max="" if spec.opened.most is None else to_cpp(spec.opened.most, names),
        ub_limit=int_literal(spec.ub_limit),
        looped=spec.reduce_tiles,
        conditions=" && ".join(_condition(c, names) for c in _conditions(impl)),
        ub=to_cpp(spec.ub, names),
        loops=len(form.bodies),
        copies=len(form.copies),
        scans=sum(not _plain(c) for c in form.calls),
        lines=tuple([f"    {x}" if x else "" for x in work.lines()]),
        guard=" && ".join(f"autofuse::ProductFits({g})" for g in guards),
        fits=f"&Fits{index}" if guards else "autofuse::kAlwaysFits",
        again="autofuse::kLoadsAgain" if form.reads_again else "autofuse::kLoadsOnce",
        tile_size=check_identifier(spec.opened.symbol),
        block_size=check_identifier(spec.block_size),
    )


def _at_tile(exprs: Iterable[Expr], symbol: str, tile: int) -> Iterator[Expr]:
    """Substitute the length of a tile into expressions."""
    for e in exprs:
        if e.symbols() == {symbol}:
            yield const(e.evaluate({symbol: tile}))
        else:
            yield e.substitute({symbol: tile})


_PLACES = {Place.ONCE: "kOnce", Place.TILE: "kTile", Place.STEP: "kStep"}
_ROUTES = {Route.READ: "kRead", Route.AGAIN: "kAgain", Route.STREAM: "kStream"}
#: Comments on a loop, and on a load.
_LOOPS = {
    Place.ONCE: "Before the tiles",
    Place.TILE: "For each tile",
    Place.STEP: "For each step of the reduce loop",
}
_COMES = {Route.READ: "", Route.AGAIN: ", again", Route.STREAM: ", bypasses L2 when full"}


def _plain(call: CallForm) -> bool:
    """Return True if the instructions of a call are issued once."""
    return call.along.base.number == 1 and call.along.step.number == 0


class _WorkText:
    """The function that describes the work of a template, as statements.

    Args:
        graph: gives the names of tensors.
        impl: the template.
        form: work of the template.
        names: C++ spelling of the symbols.
        fused: the calls of a loop start together.
    """

    def __init__(
        self,
        graph: FusionGraph,
        impl: ImplGraph,
        form: CostForm,
        names: Mapping[str, str],
        *,
        fused: bool,
    ) -> None:
        self.starts = "the longest start of a call" if fused else "the starts of all calls"
        self.form, self.t = form, sym(impl.tiling.opened.symbol)
        self.tensors, self.nodes = Names(impl, parameter_names(graph)), impl.by_name()
        self.ranges = graph.symbol_ranges()
        self.common = shared_terms([settled(e, self.ranges) for e in form.exprs()], names)
        self.names = {**names, **{n: n for n in self.common.values}}

    def lines(self) -> Iterator[str]:
        for name, value in self.common.values.items():
            yield f"const int64_t {name} = {to_cpp(value, self.names)};"
        numbers = itertools.count(), itertools.count()
        for i, body in enumerate(self.form.bodies):
            loop = f"loop{i}"
            yield ""
            yield from self._body(loop, i, body)
            for c in self.form.copies:
                if c.body == i:
                    stored = c.route is Route.WRITE
                    name = f"{'store' if stored else 'load'}{next(numbers[stored])}"
                    yield from self._copy(name, loop, c)

    def _body(self, name: str, index: int, body: BodyForm) -> Iterator[str]:
        ops = ", ".join(self._called(op) for op in body.ops)
        yield f"// {_LOOPS[body.place]}: {ops or 'copies only'}."
        place = f"autofuse::{_PLACES[body.place]}"
        yield f"autofuse::Body& {name} = work.Loop({place}, {body.buffers});"
        if body.heads:
            yield f"{name}.heads = {_number(body.heads)};  // cycles: {self.starts}"
        yield f"{name}.scalar = {_number(body.scalar)};  // cycles of the scalar unit"
        if body.held:
            yield f"{name}.held = {_number(body.held)};  // cycles until the first position is read"
        for weight, times in body.places:
            yield f"{name}.places.Add({_number(weight)}, {self._affine(times)});"
        sums = (f"sum{index}{f'_{k}' if k else ''}" for k in itertools.count())
        for call in self.form.calls:
            if call.body != index:
                continue
            cycles = f"{name}.vector"
            if not _plain(call):
                cycles = f"work.Sum({name}, {self._affine(call.along)}).vector"
                if len(call.cycles) > 1:
                    total = next(sums)
                    yield f"autofuse::Cycles& {total} = {cycles};"
                    cycles = total
            for weight, times in call.cycles:
                if (text := self._affine(times)) != "0":
                    yield f"{cycles}.Add({_number(weight)}, {text});"
        for member in ("chained", "staggered"):
            if getattr(body, member):
                yield f"{name}.{member} = true;"

    def _copy(self, name: str, body: str, c: CopyForm) -> Iterator[str]:
        stored = c.route is Route.WRITE
        tensors = ", ".join(self._called(self.nodes[n].inputs[0] if stored else n) for n in c.nodes)
        if stored:
            yield f"autofuse::Copy& {name} = work.Store({body}, {c.count});  // {tensors}"
        else:
            given = f"{body}, {c.count}, autofuse::{_ROUTES[c.route]}"
            yield f"autofuse::Copy& {name} = work.Load({given});  // {tensors}{_COMES[c.route]}"
        apart = [self._text(distance) for size, distance in c.apart if size is None]
        apart += [
            f"({self._text(size)} > 1 ? {self._text(distance)} : 0)"
            for size, distance in c.apart
            if size is not None
        ]
        for member, text, usual in (
            ("commands", self._affine(c.commands), "1"),
            ("rows", self._affine(c.rows), "1"),
            ("row_bytes", self._affine(c.row_bytes), "0"),
            ("apart", _or(apart), "0"),
            ("tiles_apart", _or([self._text(d) for d in c.tiles_apart]), "0"),
            ("distinct", self._text(c.distinct), "0"),
            ("table", self._text(c.table), "0"),
            ("names", self._text(c.names), "0"),
            ("varies", self._any_more_than_one(c.varying), "false"),
            ("varies_by_tile", _bool(c.varies_by_tile), "false"),
        ):
            if text != usual:
                yield f"{name}.{member} = {text};"
        for weight, count in c.cycles:
            yield f"{name}.own.Add({_number(weight)}, {self._affine(count)});"

    def _called(self, node: str) -> str:
        return in_comment(self.tensors.called(self.nodes[node]))

    def _named(self, e: Expr) -> Expr:
        return self.common.within(settled(e, self.ranges))

    def _affine(self, a: Affine) -> str:
        """Return a C++ expression of type ``Line``."""
        base, step = self._named(a.base), self._named(a.step)
        return to_cpp(base + step * self.t, self.names)

    def _text(self, e: Expr) -> str:
        return to_cpp(self._named(e), self.names)

    def _any_more_than_one(self, sizes: Sequence[Expr]) -> str:
        """Return a C++ condition that is true if any of these sizes is more than 1."""
        if any([s.number is not None and s.number > 1 for s in sizes]):
            return "true"
        names = self.names
        texts = [
            f"{to_cpp(self._named(s), names, atomic=True)} > 1" for s in sizes if s.number is None
        ]
        return " || ".join(texts) or "false"


def _or(distances: Sequence[str]) -> str:
    """Or the distances: the lowest set bit of the result is the largest power of two that divides them all."""
    parts = list(dict.fromkeys([d for d in distances if d != "0"]))
    if len(parts) == 1:
        return parts[0]
    return " | ".join([f"({p})" if " " in p else p for p in parts]) or "0"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _folded(results: tuple[ScheduleResult, ...], costs: Costs) -> tuple[str, ...]:
    """Return the assignments to the tiling data of a graph without symbols, with the whole chip granted."""
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
        if conditions := condition_text(impl):
            broken = " and ".join(map(graph.in_words, conditions))
            yield _Error("kCondition", row.index, c_string(f"{where}requires that {broken}"))
        if row.guard:
            yield _Error("kOverflow", row.index, c_string(f"{where}the sizes do not fit 64 bits"))
        limit = f"{impl.tiling.ub_limit} bytes of UB, or the granted bytes"
        if impl.tiling.opened.most is not None:
            limit += f", or is longer than {graph.in_words(impl.tiling.opened.most)}"
        text = f"{where}even the smallest tile does not fit {limit}"
        yield _Error("kNoTile", row.index, c_string(text))
    for r in needed:
        yield _Error(r.kind, r.index, c_string(r.text))
    for i, name in enumerate(graph.inputs):
        shape = ", ".join(map(graph.in_words, graph.tensors[name].shape))
        yield _Error("kInputShape", i, c_string(f"input {name} does not have the shape [{shape}]"))
