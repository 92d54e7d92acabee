"""The index space of one group of tensors: a linear space of n elements, factored into axes.

A tensor inside a group is known by the axes along which it varies.  Its elements are numbered
row-major over these axes, so a Reshape is nothing and a Broadcast adds axes.  Where a tensor's
dimensions do not coincide with the axes, an axis is split exactly; what cannot be split exactly is
a :class:`ConflictError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from autofuse.implgraph.expr import ONE, Expr, divide_exact

__all__ = [
    "Axes",
    "ConflictError",
    "IterationSpace",
    "Runs",
    "broadcast_runs",
    "contiguous_strides",
    "stride_runs",
]

Axes: TypeAlias = tuple[int, ...]
#: Neighbouring dimensions taken together, outermost first: (number of elements, kept by the
#: operand).
Runs: TypeAlias = tuple[tuple[Expr, bool], ...]


class ConflictError(Exception):
    """A boundary between dimensions falls inside an axis that does not divide exactly."""

    def __init__(self, have: tuple[Expr, ...], want: tuple[Expr, ...]) -> None:
        super().__init__("no common iteration space")
        self.have = have
        self.want = want


class IterationSpace:
    """Axes of one group while its splits are being found.

    Axis ids are local; :attr:`roots` are the starting axes, and :meth:`axes` the final ones in
    order.
    """

    def __init__(self, sizes: Sequence[Expr]) -> None:
        self.sizes: list[Expr] = list(sizes)
        self.roots: Axes = tuple(range(len(self.sizes)))
        self._parts: dict[int, tuple[int, int]] = {}

    @property
    def splits(self) -> int:
        """Number of splits so far."""
        return len(self._parts)

    def axes(self) -> Axes:
        """The current axes, outermost first."""
        return self.resolve(self.roots)

    def resolve(self, axes: Axes) -> Axes:
        """``axes`` with every split axis replaced by its parts."""
        parts = self._parts
        if not parts or not any(a in parts for a in axes):
            return axes
        out: list[int] = []
        stack = list(reversed(axes))
        while stack:
            a = stack.pop()
            if a in parts:
                outer, inner = parts[a]
                stack += (inner, outer)
            else:
                out.append(a)
        return tuple(out)

    def align(self, axes: Axes, runs: Sequence[Expr]) -> list[Axes]:
        """Distribute ``axes`` over runs of dimensions, splitting axes where a run ends inside one.

        Args:
            axes: axes whose product of sizes is that of the runs; none of them is split already.
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
                outer = divide_exact(size, need)
                if outer is None:
                    raise ConflictError(tuple(self.sizes[i] for i in axes), tuple(runs))
                n = len(self.sizes)
                self.sizes += (outer, need)
                self._parts[a] = (n, n + 1)
                work.append(n)
                taken.append(n + 1)
                need = ONE
            out.append(tuple(reversed(taken)))
        out.reverse()
        return out

    def kept(self, axes: Axes, runs: Runs) -> Axes:
        """The axes along which an operand varies whose dimensions are the kept ones of ``runs``."""
        if not runs:
            return ()
        groups = self.align(axes, [size for size, _ in runs])
        return tuple(
            a for group, (_, keep) in zip(groups, runs, strict=True) if keep for a in group
        )


def broadcast_runs(source: Sequence[Expr], target: Sequence[Expr]) -> Runs:
    """How ``source`` broadcasts to ``target``; ``()`` for a source of one element.

    Dimensions of the target that are literally 1 are left out, so a broadcast that moves no data
    has one kept run.
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
    """Dimensions that are contiguous among themselves, as (size, stride of the innermost)."""
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
    """Row-major strides in elements."""
    out: list[Expr] = []
    step = ONE
    for size in reversed(sizes):
        out.append(step)
        step = step * size
    return tuple(reversed(out))
