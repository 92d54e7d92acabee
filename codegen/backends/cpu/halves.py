"""Conversion of 16-bit floats in whole runs along the lanes, which processors have instructions for.

In a loop over single elements compilers do not use them, and emit a dozen instructions instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from autofuse.codegen.backends.cpu.parts import Parts
from autofuse.codegen.backends.cpu.writer import Writer
from autofuse.codegen.nests.nest import varies
from autofuse.implgraph.expr.expression import ONE
from autofuse.implgraph.ir.graph import Node

__all__ = ["Halves", "along", "unrounded"]

#: Lanes of a run, if the loop has no blocks of its own.
_RUN = 256


def unrounded(w: Writer, s: Node) -> Node | None:
    """Return the float32 value that a Store of float16 rounds; None for other Stores."""
    value = w.named[s.inputs[0]]
    if s.y.dtype.name != "float16" or value.op != "Cast":
        return None
    source = w.named[value.inputs[0]]
    return source if source.y.dtype.name == "float32" else None


class Halves:
    """Loads and Stores of float16 that are contiguous along the lanes of one innermost loop.

    Args:
        w: writer of the loop.
        stores: Stores of the loop.
        others: other nodes needed in the loop, by name.
        able: True if the loop runs forwards and its iterations are independent.
        rows: buffers of whole rows, by the name of the buffered value.
    """

    def __init__(
        self,
        w: Writer,
        stores: Sequence[Node],
        others: Sequence[str] = (),
        *,
        able: bool = True,
        rows: Mapping[str, str] | None = None,
    ) -> None:
        self.w, self.lanes, self._rows = w, w.loops.lanes, rows or {}
        able = able and bool(w.long([self.lanes]))
        self._narrowed = {s.name: s for s in stores if able and self._narrows(s)}
        #: Values that the loop computes.
        self.targets = [
            *others,
            *(
                w.named[s.inputs[0]].inputs[0] if s.name in self._narrowed else s.name
                for s in stores
            ),
        ]
        self._widened = [n for n in w.needed(self.targets) if able and self._widens(n)]
        self._out: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._narrowed or self._widened)

    @contextmanager
    def runs(self, directive: str, parts: Parts | None = None) -> Iterator[None]:
        """Open the loop along the lanes, run by run; ``parts``: sums that each run computes a partial sum of."""
        w, run = self.w, self.w.loops.run or _RUN
        w.include("algorithm")
        size = w.size(w.nest.sizes[self.lanes])
        with w.names.block():
            first, count = w.names.take("first"), w.names.take("count")
            stack = w.inside(f"for (int64_t {first} = 0; {first} < {size}; {first} += {run})")
        with stack, parts.of_a_run() if parts else nullcontext():
            w.say(f"const int64_t {count} = std::min<int64_t>({run}, {size} - {first});")
            with self.over(first, count, w.names.take("k"), run, directive):
                yield

    @contextmanager
    def over(
        self, first: str, count: str, k: str, most: int, directive: str = "#pragma omp simd"
    ) -> Iterator[None]:
        """Open the loop over one run.

        Args:
            first: index of its first lane.
            count: number of lanes, at most ``most``.
            k: loop variable.
            most: a number.
            directive: OpenMP directive for the loop.
        """
        w = self.w
        w.index[self.lanes] = first
        wide: dict[str, str] = {}
        for n in self._widened:
            load = w.named[n.inputs[0]]
            m = w.buffers[load.inputs[0]]
            if n.name in self._rows:
                place = f"&{self._rows[n.name]}[{first}]"
                wide[n.name] = f"{self._rows[n.name]}[{w.variables[self.lanes]}]"
            else:
                place = self._declared(f"{m.name}_wide", most)
                wide[n.name] = f"{place}[{k}]"
            w.say(f"simd::widen(&{m.name}[{w.offset(load)}], {place}, {count});")
        for s in self._narrowed.values():
            self._out[s.name] = self._declared(f"{w.targets[s.name].name}_wide", most)
        if directive:
            w.say(directive)
        with w.inside(f"for (int64_t {k} = 0; {k} < {count}; ++{k})"):
            i = w.variables[self.lanes]
            w.say(f"const int64_t {i} = {first} + {k};")
            w.index[self.lanes] = i
            w.values |= wide
            self._k = k
            yield
        for s in self._narrowed.values():
            place = f"&{w.targets[s.name].name}[{w.offset(s)}]"
            w.say(f"simd::narrow({self._out[s.name]}, {place}, {count});")

    def store(self, n: Node) -> None:
        """Write a value, or put it into the buffer that the run is stored from."""
        if n.name in self._narrowed:
            value = self.w.values[self.w.named[n.inputs[0]].inputs[0]]
            self.w.say(f"{self._out[n.name]}[{self._k}] = {value};")
        else:
            self.w.store(n)

    def _declared(self, name: str, count: int) -> str:
        taken = self.w.names.take(name)
        self.w.say(f"alignas(64) float {taken}[{count}];")
        return taken

    def _widens(self, n: Node) -> bool:
        if n.op != "Cast" or n.y.dtype.name != "float32":
            return False
        source = self.w.named[n.inputs[0]]
        if source.op != "Load" or not self._contiguous(source):
            return False
        # A scalar index that is the same for all rows is read inside the loop only.
        return "extent" not in source.attrs or bool(varies(self.w.named[source.inputs[1]]))

    def _narrows(self, s: Node) -> bool:
        return unrounded(self.w, s) is not None and self._contiguous(s)

    def _contiguous(self, n: Node) -> bool:
        """Return True if neighbouring lanes are neighbouring float16 elements in memory."""
        if n.y.dtype.name != "float16" or self.lanes not in varies(n):
            return False
        if "extent" in n.attrs and self.lanes in varies(self.w.named[n.inputs[1]]):
            return False
        return n.y.strides[n.y.axis.index(self.lanes)] == ONE


@contextmanager
def along(
    w: Writer,
    halves: Halves,
    directive: str,
    *,
    backwards: bool = False,
    parts: Parts | None = None,
) -> Iterator[None]:
    """Write the innermost loop, in runs if it converts 16-bit floats or splits sums into parts."""
    parts = parts or Parts(w, {})
    size = w.nest.sizes[w.loops.lanes]
    if halves or (parts and not (size.is_const and size.value <= w.loops.run)):
        with halves.runs(directive, parts):
            yield
        return
    with parts.of_a_run():
        if directive and w.long([w.loops.lanes]):
            w.say(directive)
        with w.loop(w.loops.lanes, backwards=backwards):
            yield
