"""Sums in parts: a float adds up a few elements, then goes into a total in double.

The rounding errors of a long sum in one accumulator grow with its length, and equal addends all round in one direction.
A partial sum over a short run has few of them, and costs no speed: vectors hold as many floats as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from autofuse.codegen.backends.cpu.writer import Writer
from autofuse.implgraph.ir.graph import Node

__all__ = ["Parts"]


class Parts:
    """Partial sums of one loop.

    Args:
        w: writer of the loop.
        totals: name of each total -> its node.
        lanes: number of adjacent sums; 0 for one.
    """

    def __init__(self, w: Writer, totals: Mapping[str, Node], lanes: int = 0) -> None:
        self.w, self.totals, self.lanes = w, totals, lanes
        #: Node -> name of its partial sum.
        self.by_node = {n.name: w.names.take(f"{total}_part") for total, n in totals.items()}
        self._along: int | None = None
        self._step = 0

    def __bool__(self) -> bool:
        return bool(self.totals)

    @contextmanager
    def of_a_run(self) -> Iterator[None]:
        """Write the statements around the loop over a run of elements."""
        w = self.w
        for n in self.totals.values():
            held, start = w.part(n)
            name = self.by_node[n.name]
            if self.lanes:
                w.say(f"{held} {name}[{self.lanes}];")
                w.say(f"std::fill_n({name}, lanes, {start});")
            else:
                w.say(f"{held} {name} = {start};")
        yield
        if not self.lanes:
            self._join("")
        elif self:
            w.say("#pragma omp simd")
            with w.inside("for (int64_t j = 0; j < lanes; ++j)"):
                self._join("[j]")

    def _join(self, at: str) -> None:
        for total, n in self.totals.items():
            self.w.accumulate(n, f"{total}{at}", f"{self.by_node[n.name]}{at}")

    def split(self, axes: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the axes of the loops outside and inside of :meth:`runs`.

        Args:
            axes: axes along which the elements of a sum follow each other, the innermost last.
        """
        if not self:
            return (), axes
        sizes, inner, count = self.w.nest.sizes, len(axes), 1
        while inner > 1 and sizes[axes[inner - 1]].is_const:
            longer = count * max(sizes[axes[inner - 1]].value, 1)
            if longer > self.w.loops.run:
                break
            inner, count = inner - 1, longer
        self._along, self._step = axes[inner - 1], self.w.loops.run // count
        return axes[: inner - 1], axes[inner:]

    @contextmanager
    def runs(self) -> Iterator[None]:
        """Open the loops over runs of the axis that :meth:`split` chose, and over the elements of each."""
        if self._along is None:
            yield
            return
        w, a = self.w, self._along
        i, size = w.variables[a], w.size(w.nest.sizes[a])
        run, end = w.names.take("run"), w.names.take("end")
        w.include("algorithm")
        with w.inside(f"for (int64_t {run} = 0; {run} < {size}; {run} += {self._step})"):
            w.say(f"const int64_t {end} = std::min<int64_t>({run} + {self._step}, {size});")
            with (
                self.of_a_run(),
                w.inside(f"for (int64_t {i} = {run}; {i} < {end}; ++{i})"),
            ):
                w.index[a] = i
                yield
