"""The scheduler: HintGraph -> groups -> templates -> memory plans -> ScheduleResult.

Every template that is dropped leaves its reason in ``ScheduleResult.rejected``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autofuse.diagnostics import AutofuseError
from autofuse.implgraph.expr import FloorDiv, const, product
from autofuse.implgraph.graph import (
    AllocType,
    BufferPlan,
    Condition,
    Hardware,
    HintGraph,
    ImplGraph,
    Mem,
    Node,
    Position,
    TilingSpec,
)
from autofuse.implgraph.lowering import group_order_hazards, groups
from autofuse.schedule.layout import BLOCK
from autofuse.schedule.legalize import legalize
from autofuse.schedule.memory import MemoryPlan, buffer_title, plan_memory
from autofuse.schedule.placement import Placed, alignment, place
from autofuse.schedule.rank import modelled_cycles, smallest_tile
from autofuse.schedule.rejection import TemplateRejectedError
from autofuse.schedule.result import Group, Rejected, ScheduleResult
from autofuse.schedule.templates import general, row
from autofuse.schedule.tiling_axes import Choice, GroupInput
from autofuse.targets import TargetSpec

__all__ = ["schedule"]

#: Templates kept per group when all sizes are known, and for a kernel of symbolic sizes.
MAX_STATIC, MAX_SYMBOLIC = 2, 5
#: Branches of one kernel at most; several groups multiply.
MAX_KEYS = 16


def schedule(hint: HintGraph, target: TargetSpec) -> tuple[ScheduleResult, ...]:
    """All ways to realise ``hint`` that are worth a branch in the kernel; at present one result.

    Args:
        hint: a canonical graph.
        target: the chip.

    Raises:
        AutofuseError: AF3001 an op is not available, AF3002/AF3003/AF3004 no template fits (the notes name each
            buffer and the tile that would fit).
    """
    parts = groups(hint)
    keep = _templates_per_group(hint, len(parts))
    late = {b for _, b in group_order_hazards(hint)}
    rejected: list[Rejected] = []
    out: list[Group] = []
    inputs = sum(1 for _ in hint.ops("Data"))
    next_tensor = inputs + sum(1 for _ in hint.ops("Output"))
    for index, nodes in enumerate(parts):
        legal = legalize(_with_ends(nodes, hint), hint, target)
        order = next(n.y.axis for n in legal if n.op == "Store")
        g = GroupInput(hint.name, 0, index, hint.symbols, hint.axes, order, legal, target, inputs)
        impls, dropped = _schedule_group(g, keep, next_tensor)
        rejected += dropped
        out.append(Group(index, impls, sync_before=index in late))
    return (ScheduleResult(0, hint, tuple(out), tuple(rejected)),)


def _templates_per_group(hint: HintGraph, count: int) -> int:
    """Templates per group so that all combinations stay within MAX_KEYS."""
    keep = MAX_SYMBOLIC if hint.symbols else MAX_STATIC
    while keep > 1 and keep**count > MAX_KEYS:
        keep -= 1
    return keep


def _with_ends(nodes: Sequence[Node], hint: HintGraph) -> list[Node]:
    """The group's nodes between the Data nodes that feed it and the Output nodes that it feeds."""
    inside = {n.name for n in nodes}
    used = {i for n in nodes for i in n.inputs}
    data = [n for n in hint.ops("Data") if n.name in used and n.name not in inside]
    outputs = [n for n in hint.ops("Output") if set(n.inputs) & inside and n.name not in inside]
    return [*data, *nodes, *outputs]


def _schedule_group(
    g: GroupInput, keep: int, next_tensor: int
) -> tuple[tuple[ImplGraph, ...], list[Rejected]]:
    rejected: list[Rejected] = []
    built: list[tuple[float, int, ImplGraph]] = []
    tries: list[tuple[GroupInput, Choice]] = [(g, c) for c in general.choices(g) + row.choices(g)]
    packed = row.packed_choice(g)
    if packed is not None:
        tries.append(packed)
    for number, (group, choice) in enumerate(tries):
        try:
            impl = _realise(group, choice, next_tensor)
        except TemplateRejectedError as why:
            rejected.append(Rejected(g.group, _title(group, choice), str(why), why.code))
            continue
        built.append((modelled_cycles(impl, g.target), number, impl))
    if not built:
        raise _nothing_fits(g, rejected)
    built.sort(key=lambda b: b[:2])
    chosen = _select(built, keep, bool(g.symbols))
    best = built[0][0]
    for cycles, _, impl in built:
        if impl not in chosen:
            rejected.append(
                Rejected(
                    g.group,
                    impl.name,
                    f"dominated: modelled {cycles:.0f} cycles at the sample size, "
                    f"{built[0][2].name} takes {best:.0f}",
                )
            )
    # The general template first: it is the one that is legal for every size.
    ordered = sorted(chosen, key=lambda i: (i.template != "general", bool(i.suffix)))
    return tuple(ordered), rejected


def _select(
    built: list[tuple[float, int, ImplGraph]], keep: int, symbolic: bool
) -> list[ImplGraph]:
    """The best ``keep`` templates; with symbols the one that is always legal stays among them."""
    chosen = [impl for _, _, impl in built[:keep]]
    if symbolic and not any(_always_legal(i) for i in chosen):
        always = next((impl for _, _, impl in built if _always_legal(impl)), None)
        if always is not None:
            chosen[-1] = always
    return chosen


def _always_legal(impl: ImplGraph) -> bool:
    return impl.template == "general" and not impl.suffix


def _title(g: GroupInput, c: Choice) -> str:
    tiled = next(a.name for a in g.axes if a.id == g.order[c.position])
    return f"{c.template}{'_' + c.suffix if c.suffix else ''} (tile {tiled})"


def _realise(g: GroupInput, choice: Choice, next_tensor: int) -> ImplGraph:
    """One template with its memory plan; single buffers where two of each do not fit.

    Raises:
        TemplateRejectedError: with the reason.
    """
    placed = place(g, choice)
    if not g.target.has_datacopypad:
        _check_block_copies(g, placed)
    try:
        return _planned(g, choice, placed, next_tensor, buf_num=2)
    except TemplateRejectedError:
        return _planned(g, choice, placed, next_tensor, buf_num=1)


def _planned(
    g: GroupInput, choice: Choice, placed: Placed, next_tensor: int, buf_num: int
) -> ImplGraph:
    plan = plan_memory(placed, g.target, buf_num)
    impl = _assemble(g, choice, placed, plan, next_tensor)
    _check_budget(impl)
    return impl


def _check_block_copies(g: GroupInput, placed: Placed) -> None:
    """Chips without DataCopyPad move whole 32-byte units: every row, and so every tail, must be such a multiple.

    Tiles are multiples of 256 bytes, so a row that is a multiple of 32 bytes leaves such a tail.
    """
    for n in (*placed.hoisted, *placed.looped):
        if n.op not in ("Load", "Store"):
            continue
        axes = n.y.vectorized_axis
        row = g.size(g.order[-1]) if axes and axes[-1] == placed.split.vector[-1] else const(1)
        elements = row.as_int()
        if elements is None or elements * n.y.dtype.itemsize % BLOCK:
            raise TemplateRejectedError(
                f"{g.target.name} has no DataCopyPad: rows of {row} {n.y.dtype} in {n.name} are not known "
                f"to be a multiple of {BLOCK} bytes"
            )


def _assemble(
    g: GroupInput, choice: Choice, placed: Placed, plan: MemoryPlan, next_tensor: int
) -> ImplGraph:
    split = placed.split
    nodes = _number_tensors(g, placed, plan, next_tensor)
    conditions: list[Condition] = []
    last = g.size(g.order[-1])
    align = alignment(g.nodes, g.order[-1])
    packed = choice.y_axis is not None
    if split.inner and not choice.padded and not packed and not last.is_const:
        conditions.append(Condition(last, align))
    middle = product(placed.layout.split.sizes[a] for a in split.inner[:-1])
    rows_limited = bool(split.inner) and not packed
    tile_max = FloorDiv(g.target.dma_block_count_max, middle) if rows_limited else None
    row_elements = product(placed.layout.extent(a) for a in split.inner)
    tiling = TilingSpec(
        tile_axis=split.tiled,
        tile_size=str(split.t),
        block_size=str(split.b),
        extent=split.sizes[split.tiled],
        outer=product(split.sizes[a] for a in split.outer),
        granule=1 if split.inner else _granule(g),
        tile_max=tile_max,
        row_elements=row_elements,
        ub=plan.ub,
        ub_limit=g.target.ub_usable,
        conditions=tuple(conditions),
    )
    return ImplGraph(
        graph=g.graph,
        result=g.result,
        group=g.group,
        template=choice.template,
        suffix=choice.suffix,
        y_axis=choice.y_axis if choice.y_axis is not None else split.tiled,
        symbols=g.symbols,
        axes=split.axes,
        nodes=nodes,
        buffers=plan.buffers,
        tiling=tiling,
    )


def _granule(g: GroupInput) -> int:
    """Elements of the narrowest tensor in 256 bytes: tiles then start at 256-byte distances in GM."""
    return 8 * alignment(g.nodes, g.order[-1])


def _number_tensors(
    g: GroupInput, placed: Placed, plan: MemoryPlan, next_tensor: int
) -> tuple[Node, ...]:
    """All nodes in execution order with tensor ids: inputs and outputs of the kernel first, then in order."""
    out: list[Node] = []
    number = next_tensor
    for n in placed.structural:
        if n.op == "Data":
            mem = Mem(int(str(n.attrs["index"])), AllocType.GLOBAL, Hardware.GM, Position.GM)
            out.append(replace(n, y=replace(n.y, mem=mem)))
        else:
            out.append(n)
    outs = {o.inputs[0]: o for o in placed.outputs}
    for n in plan.nodes:
        if n.op == "Store":
            index = int(str(outs[n.name].attrs["index"]))
            mem = Mem(g.inputs + index, AllocType.GLOBAL, Hardware.GM, Position.GM)
            out.append(replace(n, y=replace(n.y, mem=mem)))
            continue
        assert n.y.mem is not None
        out.append(replace(n, y=replace(n.y, mem=replace(n.y.mem, tensor_id=number))))
        number += 1
    for o in placed.outputs:
        mem = Mem(g.inputs + int(str(o.attrs["index"])), AllocType.GLOBAL, Hardware.GM, Position.GM)
        out.append(replace(o, y=replace(o.y, mem=mem)))
    return tuple(out)


def _check_budget(impl: ImplGraph) -> None:
    """The smallest legal tile must fit UB, at the smallest sizes that symbols may have.

    With two buffers per queue, a symbolic axis is taken as long: where one granule of it does not fit, single buffers
    do better.
    """
    spec = impl.tiling
    env = {s.name: max(s.min, 1) for s in impl.symbols}
    if spec.tile_max is not None and spec.tile_max.evaluate(env) < 1:
        raise TemplateRejectedError(
            f"one tile takes more rows than a DMA command moves: {spec.tile_max} tiles of them fit"
        )
    double = any(b.buf_num > 1 for b in impl.buffers)
    tile = spec.granule if impl.symbols and double else smallest_tile(spec, env)
    env[spec.tile_size] = tile
    used = spec.ub.evaluate(env)
    if used <= spec.ub_limit:
        return
    buffers = "; ".join(_buffer_line(b, env) for b in impl.buffers)
    env[spec.tile_size] = 0
    fits = next((t for t in range(tile, 0, -1) if _bytes_at(spec, env, t) <= spec.ub_limit), 0)
    raise TemplateRejectedError(
        f"the smallest tile, {tile}, needs {used} bytes of UB and {spec.ub_limit} are usable "
        f"({f'a tile of {fits} would fit' if fits else 'not even a tile of 1 fits'}): {buffers}",
        "AF3003",
    )


def _bytes_at(spec: TilingSpec, env: dict[str, int], tile: int) -> int:
    return spec.ub.evaluate({**env, spec.tile_size: tile})


def _buffer_line(b: BufferPlan, env: dict[str, int]) -> str:
    return f"{buffer_title(b)} {b.buf_num} x {b.nbytes.evaluate(env)} bytes"


_HINTS = {
    "AF3002": "another target may have what is missing here; the notes say what that is",
    "AF3003": "split the graph into smaller groups, or cut it where the fewest tensors are alive",
    "AF3004": "split the graph into smaller groups, or cut it where the fewest tensors are alive",
}


def _nothing_fits(g: GroupInput, rejected: Sequence[Rejected]) -> AutofuseError:
    """The error has the code of the first template, which asks for the least."""
    return AutofuseError.of(
        rejected[0].code,
        f"no template fits group {g.group} of {g.graph} on {g.target.name}",
        hint=_HINTS[rejected[0].code],
        notes=[f"{r.template}: {r.reason}" for r in rejected],
    )
