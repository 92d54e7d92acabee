"""Propagation of a group's axes to other tensors through the ops that link them."""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.implgraph.ir.iteration_space import Axes, ConflictError, IterationSpace
from autofuse.implgraph.lowering.normalise import (
    BROADCAST,
    GATHER,
    INPUT,
    OP,
    REDUCE,
    SCAN,
    TRANSPOSE,
    Program,
    Step,
)
from autofuse.implgraph.lowering.walk import (
    RELOAD,
    STORE,
    Walk,
    index_parts,
    parts_of,
    sizes_of,
    source_of_reduce,
)

__all__ = ["reachable"]


#: Kinds of instances whose axes determine those of other tensors.
_FOLLOWED = (INPUT, OP, REDUCE, GATHER, SCAN, RELOAD, STORE)


def reachable(program: Program, space: IterationSpace, walk: Walk) -> dict[int, Axes]:
    """Return the axes of every tensor that is linked to those of a walk.

    The known axes of a tensor determine those of its operands and of its users.  On passing the group's first
    reduction, the space gets its reduced axes.

    Args:
        program: the graph.
        space: the axes; may be split, so pass a copy.
        walk: the known instances.
    """
    known: dict[int, Axes] = {}
    queue: list[int] = []
    for inst in walk.insts:
        fits = inst.kind in _FOLLOWED and inst.tensor not in known
        if fits and not space.has_windows(inst.axes):
            known[inst.tensor] = inst.axes
            queue.append(inst.tensor)
    done = 0
    while done < len(queue):
        tensor = queue[done]
        done += 1
        for other, axes in _neighbours(program, space, tensor, known[tensor]):
            if other not in known:
                known[other] = axes
                queue.append(other)
    return known


def _neighbours(
    program: Program, space: IterationSpace, tensor: int, axes: Axes
) -> Iterator[tuple[int, Axes]]:
    step = program.steps[tensor]
    for k, use in enumerate(step.uses):
        if use.constant is None:
            try:
                found = _operand(program, space, tensor, k, space.resolve(axes))
            except ConflictError:
                continue
            if found is not None:
                yield use.tensor, found
    for user in program.users[tensor]:
        for k, use in enumerate(program.steps[user].uses):
            if use.tensor == tensor and use.constant is None:
                try:
                    found = _result(program, space, user, k, space.resolve(axes))
                except ConflictError:
                    continue
                if found is not None:
                    yield user, found
    for other in program.slices_alike(tensor):
        yield other, axes


def _operand(
    program: Program, space: IterationSpace, tensor: int, k: int, axes: Axes
) -> Axes | None:
    """Return the axes of an operand of a tensor along ``axes``."""
    step = program.steps[tensor]
    use = step.uses[k]
    if step.kind in (OP, BROADCAST, SCAN):
        if use.runs is None:
            return axes if program.counts[use.tensor] == program.counts[tensor] else None
        return space.kept(axes, use.runs) if use.runs else None
    if step.kind == REDUCE and (step.part > 0) in space.reduced:
        return source_of_reduce(space, step, axes)
    if step.kind == TRANSPOSE:
        parts = parts_of(space, axes, step.tensor.shape)
        order = sorted(range(len(parts)), key=lambda i: step.numbers[i])
        return tuple(a for d in order for a in parts[d])
    if step.kind == GATHER and k == 1:
        parts = parts_of(space, axes, step.tensor.shape)
        return tuple(a for part in index_parts(step, parts) for a in part)
    return None


def _result(program: Program, space: IterationSpace, user: int, k: int, axes: Axes) -> Axes | None:
    """Return the axes of a result computed from an operand along ``axes``."""
    step = program.steps[user]
    use = step.uses[k]
    if step.kind == TRANSPOSE:
        parts = parts_of(space, axes, use.shape)
        return tuple(a for d in step.numbers for a in parts[d])
    if step.kind == REDUCE:
        return _reduced(space, step, parts_of(space, axes, use.shape))
    if step.kind not in (OP, BROADCAST, SCAN):
        return None
    if use.runs is None:
        return axes if program.counts[use.tensor] == program.counts[user] else None
    reduced = space.reduced_axes()
    if not program.after_reduce[use.tensor] or set(reduced) & set(axes):
        return None
    # A reduction's result is broadcast back into the reduced space.
    runs = use.runs or tuple((size, False) for size in sizes_of(step.tensor.shape))
    known = iter(space.align(axes, [size for size, keep in runs if keep]))
    fill = iter(space.align_any(reduced, [size for size, keep in runs if not keep]))
    return tuple(a for _, keep in runs for a in next(known if keep else fill))


def _reduced(space: IterationSpace, step: Step, parts: list[Axes]) -> Axes | None:
    gone, parted = step.numbers, step.part > 0
    over = {a for d in gone for a in parts[d]}
    kept = tuple(a for d, part in enumerate(parts) if d not in gone for a in part)
    if parted not in space.reduced:
        if over | set(kept) != set(space.axes()):
            return None
        space.reduced[parted] = tuple(a for a in space.axes() if a in over)
    return kept if over == set(space.reduced_axes(parted)) else None
