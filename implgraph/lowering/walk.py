"""Backward walk from the outputs of one group: the tensors it needs, and along which axes.

The walk starts at the stores and demands operands.  A demand is a tensor and a tuple of axes, in the order of the
tensor's dimensions; two demands of one tensor along different axes are two instances.  Transposes, slices and
concatenations create no instance: they pass the demand on with the axes in another order, with a window in place of an
axis, or to the piece that contains the window.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from autofuse.implgraph.expr.expression import ONE, ZERO, CeilDiv, Expr, const, product
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import Constant
from autofuse.implgraph.ir.iteration_space import (
    Axes,
    ConflictError,
    IterationSpace,
    contiguous_strides,
    stride_runs,
)
from autofuse.implgraph.lowering.normalise import (
    BROADCAST,
    CONCAT,
    FRAME,
    GATHER,
    INPUT,
    IOTA,
    OP,
    REDUCE,
    SCAN,
    SLICE,
    TRANSPOSE,
    Program,
    Step,
    Use,
)
from autofuse.implgraph.rewrites.frames import cut_to_inside

__all__ = [
    "MAX_INSTANCES",
    "RELOAD",
    "SCALAR",
    "STORE",
    "SUM",
    "BlockedError",
    "CrowdedError",
    "Inst",
    "Places",
    "Start",
    "StraddleError",
    "Walk",
]

#: Maximum instances of one group beyond the steps of the graph: a longer kernel is too long for compilers as well.
MAX_INSTANCES = 10_000
#: Further kinds of instances: a compile-time scalar, a store, the load of a workspace, the sum of two index lines.
SCALAR, STORE, RELOAD, SUM = range(10, 14)


class BlockedError(Exception):
    """The walk is blocked at a tensor; reading that tensor from a workspace unblocks it."""

    def __init__(self, tensor: int, reason: ConflictError | None = None) -> None:
        super().__init__("no common iteration space")
        self.tensor = tensor
        self.reason = reason


class CrowdedError(BlockedError):
    """The walk creates too many instances: a tensor is demanded along too many different axes."""


class StraddleError(Exception):
    """A window spans several pieces of a concatenation; cutting its base after ``at`` helps."""

    def __init__(self, tensor: int, base: Axes, at: Expr) -> None:
        super().__init__("a window over several pieces")
        self.tensor = tensor
        self.base = base
        self.at = at


@frozen
class Places:
    """Location of the elements of a Gather in GM, in elements of the tensor ``source``.

    Attributes:
        source: an input, or a tensor in a workspace.
        offset: offset of the first element of the tensor.
        parts: axes and stride of every dimension except the indexed one.  The index may vary along them, too.
        stride: from one element of the indexed dimension to the next.
        extent: size of the indexed dimension.
    """

    source: int
    offset: Expr
    parts: tuple[tuple[Axes, Expr], ...]
    stride: Expr
    extent: Expr


@dataclass(slots=True)
class Inst:
    """A step along particular axes.  ``tensor`` is an index; -1 for scalars.  ``line`` is an Iota's start and step."""

    kind: int
    tensor: int
    axes: Axes
    operands: list[int] = field(default_factory=list)
    uses: list[tuple[int, Axes]] = field(default_factory=list)
    constant: Constant | None = None
    output: int = -1
    origin: str = ""
    line: tuple[Expr, Expr] = (ZERO, ONE)
    places: Places | None = None


@frozen
class Start:
    """A store at which a walk begins: the output, the stored tensor, its axes, and its strided memory."""

    output: int
    tensor: int
    axes: Axes
    origin: str
    runs: tuple[Expr, ...] = ()


def sizes_of(shape: Sequence[Expr]) -> list[Expr]:
    """Return the dimensions that are not literally 1."""
    return [s for s in shape if s != 1]


def parts_of(space: IterationSpace, axes: Axes, shape: Sequence[Expr]) -> list[Axes]:
    """Return the axes of every dimension; none for a dimension that is literally 1.

    Raises:
        ConflictError: a dimension ends inside an axis that does not divide.
    """
    parts = iter(space.align(axes, sizes_of(shape)))
    return [() if s == 1 else next(parts) for s in shape]


def index_parts(step: Step, parts: Sequence[Axes]) -> list[Axes]:
    """Return the axes of every dimension of a Gather's index, given those of its result."""
    (axis,) = step.numbers
    own = len(step.uses[1].shape) - step.shared
    return [*parts[: step.shared], *parts[axis : axis + own]]


def source_of_reduce(space: IterationSpace, step: Step, axes: Axes) -> Axes:
    """Return the axes of the operand of a reduction whose result varies along ``axes``.

    The first reduction of its kind determines the reduced axes: those along which its result does not vary, or new ones
    if it varies along all.

    Raises:
        ConflictError: the operand's dimensions do not fit these.
    """
    shape, parted = step.uses[0].shape, step.part > 0
    gone = set(step.numbers)
    kept = iter(space.align(axes, sizes_of([s for i, s in enumerate(shape) if i not in gone])))
    axes = space.resolve(axes)
    sizes = sizes_of([shape[i] for i in step.numbers])
    fresh = False
    if parted not in space.reduced:
        used = set(space.flatten(axes))
        others = tuple(a for a in space.axes() if a not in used)
        fresh = not others
        space.reduced[parted] = others or space.add_axes(sizes)
    reduced = space.reduced_axes(parted)
    if set(reduced) & set(space.flatten(axes)):
        raise ConflictError(tuple(space.sizes[a] for a in reduced), tuple(sizes))
    over = iter(space.align_any(reduced, sizes))
    out: Axes = ()
    for i, s in enumerate(shape):
        if s != 1:
            out += next(over) if i in gone else next(kept)
    if fresh:
        space.roots = space.flatten(out)
    return out


def _elements_before(offset: Expr, stride: int, end: Expr) -> Expr | None:
    """Return how many of ``offset``, ``offset + stride``, ... lie on the near side of ``end``; None if unknown."""
    if stride == 1:
        return end - offset
    if stride == -1:
        return offset - end + 1
    if not (end.is_const and offset.is_const):
        return None
    if stride > 0:
        return CeilDiv(end - offset, stride)
    return const((offset.value - end.value) // -stride + 1)


class Walk:
    """All instances that the stores of a group need.

    Args:
        program: the graph.
        space: the group's axes; the walk splits them where necessary and must then be repeated.
        starts: the stores.
        cuts: tensors read from a workspace.

    Raises:
        BlockedError: an operand does not fit the axes.
        CrowdedError: there are too many instances.
        StraddleError: a demand covers several pieces of a concatenation.
    """

    def __init__(
        self,
        program: Program,
        space: IterationSpace,
        starts: Sequence[Start],
        cuts: Collection[int],
    ) -> None:
        self.program = program
        self.space = space
        self.cuts = cuts
        self.insts: list[Inst] = []
        self.stores: list[int] = []
        self._keys: dict[tuple[object, ...], int] = {}
        self._reloads: frozenset[int] | None = None
        self._current = starts[0].tensor
        self._most = MAX_INSTANCES + len(program.steps)
        try:
            self._walk(starts)
        except ConflictError as e:
            raise BlockedError(self._current, e) from None

    def _walk(self, starts: Sequence[Start]) -> None:
        for s in starts:
            if s.runs:
                self._current = s.tensor
                self.space.align(self.space.resolve(s.axes), s.runs)
            inst = Inst(
                STORE, s.tensor, self.space.resolve(s.axes), output=s.output, origin=s.origin
            )
            self.stores.append(self._new(inst))
        done = 0
        while done < len(self.insts):
            inst = self.insts[done]
            done += 1
            self._current = inst.tensor
            axes = self.space.resolve(inst.axes)
            if inst.kind == STORE:
                empty = self.program.counts[inst.tensor] == 0
                make = self._nothing if empty else self._stored
                inst.operands = [make(inst.tensor, axes)]
            elif inst.kind == BROADCAST:
                inst.operands = [
                    self._demand(t, self.space.resolve(a)) for t, a in inst.uses
                ] or inst.operands
            elif inst.kind == OP:
                self._expand_op(inst, axes)
            elif inst.kind == SCAN:
                inst.operands = [self._scanned(inst.tensor, axes)]
            elif inst.kind == REDUCE:
                if self.space.scanned is not None:
                    raise BlockedError(inst.tensor)
                step = self.program.steps[inst.tensor]
                source = source_of_reduce(self.space, step, axes)
                inst.operands = [self._demand(step.uses[0].tensor, source)]
            elif inst.kind in (INPUT, RELOAD):
                t = self.program.steps[inst.tensor].tensor
                strided = inst.kind == INPUT and t.strides is not None
                if strided and axes:
                    assert t.strides is not None
                    self.space.align(axes, [size for size, _ in stride_runs(t.shape, t.strides)])
                self._reads(inst.tensor, axes, dense=not strided)

    def _stored(self, tensor: int, axes: Axes) -> int:
        return self._demand(tensor, axes, make=True)

    def _nothing(self, tensor: int, axes: Axes) -> int:
        """Return an instance of an empty tensor, which needs no operands of the graph."""
        step = self.program.steps[tensor]
        n = self._new(Inst(BROADCAST, tensor, axes, origin=step.origin))
        zero = False if step.tensor.dtype.kind == "b" else 0
        self.insts[n].operands = [self._scalar(Constant(zero, step.tensor.dtype), step.origin)]
        return n

    def _expand_op(self, inst: Inst, axes: Axes) -> None:
        operands: list[int] = []
        for use in self.program.steps[inst.tensor].uses:
            self._current = inst.tensor
            if use.constant is not None:
                operands.append(self._scalar(use.constant, inst.origin))
                continue
            axes = self.space.resolve(axes)
            have = self._operand_axes(use, axes)
            # One element is used directly, unless it must be computed in UB.
            uniform = not have and not self.program.after_reduce[use.tensor]
            if use.runs is None or have == axes or uniform:
                operands.append(self._demand(use.tensor, have))
            else:
                operands.append(self._broadcast(use.tensor, have, axes, inst.origin))
        inst.operands = operands

    def _operand_axes(self, use: Use, axes: Axes) -> Axes:
        if use.runs is None or not axes:
            return axes
        return self.space.kept(self.space.resolve(axes), use.runs)

    def _new(self, inst: Inst) -> int:
        if len(self.insts) >= self._most:
            raise CrowdedError(self._current)
        self.insts.append(inst)
        return len(self.insts) - 1

    def _demand(self, tensor: int, axes: Axes, *, make: bool = False) -> int:
        """Return the instance of a tensor along ``axes``; ``make``: compute it even if it is in a workspace."""
        while True:
            key = (tensor, axes)
            found = self._keys.get(key)
            step = self.program.steps[tensor]
            if found is not None:
                return found
            if tensor in self.cuts and not make:
                n = self._keys[key] = self._new(Inst(RELOAD, tensor, axes, origin=step.origin))
                return n
            make = False
            self._current = tensor
            if step.kind in (TRANSPOSE, SLICE, CONCAT):
                tensor, axes = self._moved(step, tensor, axes)
            elif step.kind == FRAME:
                within = self._framed(step, tensor, axes)
                if within is None:
                    n = self._keys[key] = self._nothing(tensor, axes)
                    return n
                tensor, axes = within
            elif step.kind == IOTA:
                n = self._keys[key] = self._iota(tensor, step, axes)
                return n
            elif step.kind == GATHER:
                n = self._keys[key] = self._gather(tensor, step, axes)
                return n
            elif step.kind != BROADCAST:
                n = self._keys[key] = self._new(Inst(step.kind, tensor, axes, origin=step.origin))
                return n
            else:
                use = step.uses[0]
                if use.constant is not None:
                    n = self._keys[key] = self._new(
                        Inst(BROADCAST, tensor, axes, origin=step.origin)
                    )
                    self.insts[n].operands = [self._scalar(use.constant, step.origin)]
                    return n
                have = self._operand_axes(use, axes)
                if have != axes:
                    return self._broadcast(use.tensor, have, axes, step.origin)
                tensor = use.tensor

    def _broadcast(self, tensor: int, have: Axes, axes: Axes, origin: str) -> int:
        key = (tensor, have, axes)
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = self._new(
                Inst(BROADCAST, tensor, axes, uses=[(tensor, have)], origin=origin)
            )
        return found

    def _scalar(self, c: Constant, origin: str) -> int:
        assert c.dtype is not None
        value = repr(c.value) if c.expr is None else c.expr
        key = ("scalar", c.dtype.name, type(c.value).__name__, value)
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = self._new(Inst(SCALAR, -1, (), constant=c, origin=origin))
        return found

    # moves ------------------------------------------------------------------------------------

    def _moved(self, step: Step, tensor: int, axes: Axes) -> tuple[int, Axes]:
        """Return the operand, and its axes, that a demand for a moved tensor demands."""
        parts = parts_of(self.space, axes, step.tensor.shape)
        if step.kind == CONCAT:
            return self._piece(step, tensor, parts)
        use = step.uses[0]
        out: Axes = ()
        if step.kind == TRANSPOSE:
            for d in sorted(range(len(parts)), key=lambda i: step.numbers[i]):
                out += parts[d]
            return use.tensor, out
        for part, size, start, stride in zip(
            parts, use.shape, step.starts, step.numbers, strict=True
        ):
            if size != 1:
                out += self._part(part, size, start, stride, tensor)
        return use.tensor, out

    def _line(self, part: Axes, tensor: int) -> tuple[Expr, int, Axes]:
        """Return a dimension's axes as (offset, step, base).

        Raises:
            BlockedError: it mixes windows and axes.
        """
        if len(part) == 1 and (w := self.space.window_of(part[0])) is not None:
            return w.offset, w.step, w.base
        if self.space.has_windows(part):
            raise BlockedError(tensor)
        return ZERO, 1, part

    def _part(self, part: Axes, size: Expr, start: Expr, stride: int, tensor: int) -> Axes:
        """Return the entry for elements ``start + stride * i`` of a dimension of ``size``."""
        offset, step, base = self._line(part, tensor)
        return self.space.window(size, start + offset * stride, step * stride, base)

    def _piece(self, step: Step, tensor: int, parts: list[Axes]) -> tuple[int, Axes]:
        """Return the operand of a Concat that contains the demanded elements."""
        self._reads(tensor, tuple(a for part in parts for a in part), dense=False)
        (axis,) = step.numbers
        offset, stride, base = self._line(parts[axis], tensor)
        count = product(self.space.sizes[a] for a in base)
        last = offset + (count - 1) * stride
        # The elements have indices low <= index < high.
        low, high = (offset, last + 1) if stride > 0 else (last, offset + 1)
        at_least = self.program.at_least
        ends = self.program.ends(tensor)
        first = 0
        if ends is not None and low.is_const and high.is_const and low.value < high.value:
            # Skip the pieces that end before the elements.
            first = bisect_right(ends, low.value)
        begin = const(ends[first - 1]) if ends is not None and first else ZERO
        for use in step.uses[first:]:
            size = use.shape[axis]
            end = begin + size
            if at_least(low, begin) and at_least(end, high):
                window = () if size == 1 else self.space.window(size, offset - begin, stride, base)
                out: Axes = ()
                for d, part in enumerate(parts):
                    out += window if d == axis else part
                return use.tensor, out
            inside = end not in (low, high) and at_least(end, low) and at_least(high, end)
            cut = _elements_before(offset, stride, end) if inside else None
            if cut is not None:
                raise self._straddles(tensor, base, cut)
            begin = end
        raise BlockedError(tensor)

    def _straddles(self, tensor: int, base: Axes, at: Expr) -> Exception:
        """Return the error that gets a piece cut; BlockedError along the axis of a running sum, which has no pieces."""
        scanned = self.space.scanned
        if scanned is not None and set(base) & set(self.space.resolve(scanned[0])):
            return BlockedError(tensor)
        return StraddleError(tensor, base, at)

    def _framed(self, step: Step, tensor: int, axes: Axes) -> tuple[int, Axes] | None:
        """Return the framed operand and its axes, which may reach beyond it; None for a demand outside it."""
        axis, low = step.numbers
        (use,) = step.uses
        size = use.shape[axis]
        parts = parts_of(self.space, axes, step.tensor.shape)
        offset, stride, base = self._line(parts[axis], tensor)
        offset = offset - low
        last = offset + (product(self.space.sizes[a] for a in base) - 1) * stride
        at_least = self.program.at_least
        near, far = (offset, last) if stride > 0 else (last, offset)
        if at_least(const(-1), far) or at_least(near, size):
            return None
        inside = at_least(near, ZERO) and at_least(size - 1, far)
        if not inside and (size == 1 or (stride != 1 and not self.program.masks)):
            behind = at_least(offset, ZERO) if stride > 0 else not at_least(size - 1, offset)
            end = size if behind else ZERO
            cut = _elements_before(offset, stride, end)
            if cut is None:
                raise BlockedError(tensor)
            raise self._straddles(tensor, base, cut)
        window = () if size == 1 else self.space.window(size, offset, stride, base)
        out = tuple(a for d, p in enumerate(parts) for a in (window if d == axis else p))
        return use.tensor, out

    def _reads(self, tensor: int, axes: Axes, *, dense: bool = True) -> None:
        """Ensure that unmasked reads stay inside a tensor's memory.

        Raises:
            BlockedError: a running sum would have to be cut.
            StraddleError: a piece must be cut.
        """
        if self.program.masks and dense:
            return
        found = cut_to_inside(self.space, axes, dense=dense)
        if found is not None:
            raise self._straddles(tensor, *found)

    def _scanned(self, tensor: int, axes: Axes) -> int:
        """Return the instance that a running sum adds up.  All running sums of a group share axes and direction.

        Raises:
            BlockedError: the group has other running sums or reductions, or takes a part of the sums.
        """
        step = self.program.steps[tensor]
        assert step.node is not None
        parts = parts_of(self.space, axes, step.tensor.shape)
        along = parts[step.numbers[0]]
        have = self.space.scanned
        mine = (along, bool(step.node.attrs.get("reverse", False)))
        same = have is None or (self.space.resolve(have[0]), have[1]) == mine
        if self.space.has_windows(along) or self.space.reduced or not same:
            raise BlockedError(tensor)
        self.space.scanned = mine
        return self._demand(step.uses[0].tensor, self.space.resolve(axes))

    def _gather(self, tensor: int, step: Step, axes: Axes) -> int:
        """Return a load from GM at positions given by another tensor of the group.

        Raises:
            BlockedError: the indexed tensor is not in GM as the op sees it.
        """
        data, index = step.uses
        (axis,) = step.numbers
        given = self.program.steps[data.tensor]
        strides, offset = contiguous_strides(data.shape), ZERO
        if data.tensor not in self.cuts:
            t = given.tensor
            if given.kind != INPUT or (t.strides is not None and t.shape != data.shape):
                raise BlockedError(data.tensor)
            strides = strides if t.strides is None else t.strides
            offset = ZERO if t.offset is None else t.offset
        parts = parts_of(self.space, axes, step.tensor.shape)
        after = axis + len(index.shape) - step.shared
        direct = [*zip(parts[:axis], strides[:axis], strict=True)]
        direct += zip(parts[after:], strides[axis + 1 :], strict=True)
        self._reads(tensor, tuple(a for part in parts for a in part), dense=False)
        places = Places(data.tensor, offset, tuple(direct), strides[axis], data.shape[axis])
        n = self._new(Inst(GATHER, tensor, axes, origin=step.origin, places=places))
        at: Axes = tuple(a for part in index_parts(step, parts) for a in part)
        self.insts[n].operands = [self._demand(index.tensor, self.space.resolve(at))]
        return n

    def _iota(self, tensor: int, step: Step, axes: Axes) -> int:
        """Return a line of numbers: one Iota per axis, added up; a scalar if it varies along none."""
        offset, stride, base = self._line(axes, tensor)
        start, each = step.numbers
        begin, slope = const(start) + offset * each, each * stride
        dtype = step.tensor.dtype
        if not base:
            value = begin.value if begin.is_const else 0
            expr = None if begin.is_const else begin
            n = self._new(Inst(BROADCAST, tensor, (), origin=step.origin))
            self.insts[n].operands = [self._scalar(Constant(value, dtype, expr), step.origin)]
            return n
        inner = contiguous_strides([self.space.sizes[a] for a in base])
        made: int | None = None
        for a, stretch in zip(base, inner, strict=True):
            line = Inst(IOTA, tensor, (a,), origin=step.origin, line=(begin, stretch * slope))
            n = self._new(line)
            begin = ZERO
            if made is not None:
                both = (*self.insts[made].axes, a)
                lines = [
                    self._new(Inst(BROADCAST, tensor, both, [x], origin=step.origin))
                    for x in (made, n)
                ]
                n = self._new(Inst(SUM, tensor, both, lines, origin=step.origin))
            made = n
        assert made is not None
        return made

    # results ----------------------------------------------------------------------------------

    def loads(self) -> Iterator[tuple[int, int, Axes | None]]:
        """Yield (input index, tensor, axes) of every load of an input; no axes where a tensor selects the elements."""
        for inst in self.insts:
            if inst.kind == INPUT:
                yield self.program.steps[inst.tensor].index, inst.tensor, inst.axes
            elif inst.places is not None and inst.places.source not in self.cuts:
                source = inst.places.source
                yield self.program.steps[source].index, source, None

    def reloads(self) -> frozenset[int]:
        """Return the tensors read from workspaces."""
        if self._reloads is None:  # group merging queries this repeatedly
            found = {i.tensor for i in self.insts if i.kind == RELOAD}
            given = {i.places.source for i in self.insts if i.places is not None}
            self._reloads = frozenset(found | (given & set(self.cuts)))
        return self._reloads
