"""The index space of one group of tensors: a linear space of n elements, factored into axes.

A tensor inside a group is described by the axes along which it varies, in the order of its dimensions.  Its elements
are numbered row-major over these axes, so a Reshape changes nothing, a Transpose reorders the axes and a Broadcast adds
axes.  Where a tensor's dimensions do not coincide with the axes, an axis is split exactly; if that is impossible,
:class:`ConflictError` is raised.

An entry of such a tuple may be a :class:`Window` in place of an axis: the group visits a regular part of the tensor's
``extent`` elements along it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, divide_exact, product
from autofuse.implgraph.ir.frozen import frozen

__all__ = [
    "Axes",
    "ConflictError",
    "IterationSpace",
    "Runs",
    "Window",
    "broadcast_runs",
    "contiguous_strides",
    "stride_runs",
]

Axes: TypeAlias = tuple[int, ...]
#: Runs of neighbouring dimensions, outermost first: (number of elements, kept by the operand).
Runs: TypeAlias = tuple[tuple[Expr, bool], ...]


#: Maximum number of axes to try in every order.
_MAX_PERMUTED = 4


class ConflictError(Exception):
    """A boundary between dimensions falls inside an axis that does not divide exactly."""

    def __init__(self, have: tuple[Expr, ...], want: tuple[Expr, ...]) -> None:
        super().__init__("no common iteration space")
        self.have = have
        self.want = want


@frozen
class Window:
    """A regular part of a dimension: element ``offset + step * i`` of ``extent``, i numbered over ``base``."""

    extent: Expr
    offset: Expr
    step: int
    base: Axes


class IterationSpace:
    """Axes of one group while its splits are being found.

    Ids of axes and windows are local.  :attr:`roots` are the starting axes in order; :attr:`reduced` are the roots that
    the group's reductions run over, those in parts (key True) and the others (key False), once a reduction is met.
    """

    def __init__(self, sizes: Sequence[Expr]) -> None:
        self.sizes: list[Expr] = list(sizes)
        self.roots: Axes = tuple(range(len(self.sizes)))
        self.reduced: dict[bool, Axes] = {}
        #: (axes of the group's running sums, True if the sums run from the end).
        self.scanned: tuple[Axes, bool] | None = None
        self._parts: dict[int, tuple[int, int]] = {}
        self._windows: dict[int, Window] = {}
        self._ids: dict[Window, int] = {}
        self._kept: dict[tuple[Axes, Runs], Axes] = {}

    def copy(self) -> IterationSpace:
        """Return an independent copy."""
        out = IterationSpace(())
        out.sizes, out.roots, out.reduced = list(self.sizes), self.roots, dict(self.reduced)
        out.scanned = self.scanned
        out._parts, out._windows, out._ids = dict(self._parts), dict(self._windows), dict(self._ids)
        return out

    @property
    def splits(self) -> int:
        """Number of splits so far; fixing the reduced axes counts as one."""
        return len(self._parts) + len(self.reduced)

    def axes(self) -> Axes:
        """The current axes, outermost first."""
        return self.resolve(self.roots)

    def levels(self) -> list[set[int]]:
        """The axes along which results may vary: all, and those that one kind of reductions keeps."""
        whole = set(self.axes())
        return [whole, *(whole.difference(self.reduced_axes(parted)) for parted in self.reduced)]

    def reduced_axes(self, parted: bool = False) -> Axes:
        """The axes reduced as a whole, or in parts; empty without such a reduction."""
        return self.resolve(self.reduced.get(parted, ()))

    def add_axes(self, sizes: Sequence[Expr]) -> Axes:
        """Append starting axes, innermost, and return them."""
        new = tuple(range(len(self.sizes), len(self.sizes) + len(sizes)))
        self.sizes += sizes
        self.roots += new
        return new

    # windows ----------------------------------------------------------------------------------

    def window(self, extent: Expr, offset: Expr, step: int, base: Axes) -> Axes:
        """Return the entry for a part of a dimension: ``base`` itself if the part is everything."""
        base = self.resolve(base)
        count = product(self.sizes[a] for a in base)
        if step == 1 and offset == ZERO and count == extent:
            return base
        w = Window(extent, offset, step, base)
        n = self._ids.get(w)
        if n is None:
            n = self._ids[w] = len(self.sizes)
            self.sizes.append(extent)
            self._windows[n] = w
        return (n,)

    def window_of(self, entry: int) -> Window | None:
        """Return the window of an entry, or None for an axis."""
        return self._windows.get(entry)

    def flatten(self, axes: Axes) -> Axes:
        """Return the axes that a tensor varies along, with windows replaced by their base axes."""
        windows = self._windows
        if not windows or not any(a in windows for a in axes):
            return axes
        return tuple(
            b for a in axes for b in (self.resolve(windows[a].base) if a in windows else (a,))
        )

    def has_windows(self, axes: Axes) -> bool:
        """Return True if an entry is a window."""
        return bool(self._windows) and any(a in self._windows for a in axes)

    # splitting --------------------------------------------------------------------------------

    def resolve(self, axes: Axes) -> Axes:
        """Return ``axes`` with every split axis replaced by its parts, also inside windows."""
        parts, windows = self._parts, self._windows
        if not (parts and any(a in parts or a in windows for a in axes)):
            return axes
        out: list[int] = []
        stack = list(reversed(axes))
        while stack:
            a = stack.pop()
            if a in parts:
                outer, inner = parts[a]
                stack += (inner, outer)
            elif a in windows:
                w = windows[a]
                out += self.window(w.extent, w.offset, w.step, w.base)
            else:
                out.append(a)
        return tuple(out)

    def align(self, axes: Axes, runs: Sequence[Expr]) -> list[Axes]:
        """Distribute ``axes`` over runs of dimensions, splitting axes where a run ends inside one.

        Args:
            axes: unsplit axes whose product of sizes equals that of the runs.
            runs: sizes, outermost first; none is literally 1.

        Raises:
            ConflictError: when an axis cannot be split exactly.
        """
        work = list(axes)
        out: list[Axes] = []
        for run in reversed(runs):
            need = run
            taken: list[int] = []
            while need != ONE:
                if not work:
                    raise ConflictError(tuple(self.sizes[a] for a in axes), tuple(runs))
                a = work.pop()
                size = self.sizes[a]
                rest = divide_exact(need, size)
                if rest is not None:
                    taken.append(a)
                    need = rest
                    continue
                outer = None if a in self._windows else divide_exact(size, need)
                if outer is None:
                    raise ConflictError(tuple(self.sizes[i] for i in axes), tuple(runs))
                n = len(self.sizes)
                self.sizes += (outer, need)
                self._parts[a] = (n, n + 1)
                work.append(n)
                taken.append(n + 1)
                need = ONE
            out.append(tuple(reversed(taken)))
        if work:
            raise ConflictError(tuple(self.sizes[a] for a in axes), tuple(runs))
        out.reverse()
        return out

    def kept(self, axes: Axes, runs: Runs) -> Axes:
        """Return the axes of an operand whose dimensions are the kept ones of ``runs``."""
        if not runs:
            return ()
        # Cached: walks repeat this query for one broadcast after another, but never for axes split since.
        found = self._kept.get((axes, runs))
        if found is None:
            groups = self.align(axes, [size for size, _ in runs])
            found = self._kept[axes, runs] = tuple(
                a for group, (_, keep) in zip(groups, runs, strict=True) if keep for a in group
            )
        return found

    def align_any(self, axes: Axes, runs: Sequence[Expr]) -> list[Axes]:
        """Like :meth:`align`, with the axes in any order that fits.

        Raises:
            ConflictError: when no order does.
        """
        if 1 < len(axes) <= _MAX_PERMUTED and len(runs) > 1:
            for order in itertools.permutations(axes):
                found = self._aligned(order, runs)
                if found is not None:
                    return found
        return self.align(self.resolve(axes), runs)

    def _aligned(self, axes: Axes, runs: Sequence[Expr]) -> list[Axes] | None:
        try:
            return self.align(self.resolve(axes), runs)
        except ConflictError:
            return None


def broadcast_runs(source: Sequence[Expr], target: Sequence[Expr]) -> Runs:
    """Return the runs by which ``source`` broadcasts to ``target``; ``()`` for a source of one element.

    Dimensions of the target that are literally 1 are dropped, so a broadcast that moves no data has one kept run.
    """
    runs: list[tuple[Expr, bool]] = []
    lead = len(target) - len(source)
    for i, size in enumerate(target):
        if size == 1:
            continue
        keep = i >= lead and source[i - lead] != 1
        if runs and runs[-1][1] == keep:
            runs[-1] = (runs[-1][0] * size, keep)
        else:
            runs.append((size, keep))
    return tuple(runs) if any(keep for _, keep in runs) else ()


def stride_runs(shape: Sequence[Expr], strides: Sequence[Expr]) -> tuple[tuple[Expr, Expr], ...]:
    """Return the runs of dimensions that are contiguous among themselves, as (size, stride of the innermost)."""
    runs: list[tuple[Expr, Expr]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == stride * size:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return tuple(runs)


def contiguous_strides(sizes: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return row-major strides in elements."""
    out: list[Expr] = []
    step = ONE
    for size in reversed(sizes):
        out.append(step)
        step = step * size
    return tuple(reversed(out))
