"""The loops of short rows: blocks of them are transposed, so that the lanes are rows and each element is a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from autofuse.codegen.backends.cpu.ops.spelling import stored
from autofuse.codegen.backends.cpu.reducing import Columns
from autofuse.codegen.backends.cpu.writer import Writer
from autofuse.codegen.nests.nest import unit_axis, varies
from autofuse.implgraph.ir.graph import Node

__all__ = ["Turned"]


class Turned(Columns):
    """Columns of transposed blocks.

    float16 becomes float32 on the way, a whole block at once where rows follow each other in memory.
    """

    def __init__(self, w: Writer) -> None:
        super().__init__(w)
        across = w.loops.across
        assert across is not None
        self.across, self.count = across, w.nest.sizes[across].value
        moved = [n for n in w.nest.nodes if n.op in ("Load", "Store") and self._is_turned(n)]
        self._loads = [n for n in moved if n.op == "Load"]
        self._stores = {n.name: n for n in moved if n.op == "Store"}
        #: Store -> its transposed block.
        self._out: dict[str, str] = {}

    def _is_turned(self, n: Node) -> bool:
        return unit_axis(n) == self.across and self.loops.lanes in varies(n)

    def block_begins(self) -> None:
        """Write the copies of what is read, transposed."""
        for n in self._loads:
            m = self.w.buffers[n.inputs[0]]
            casts = [c for c in self.w.nest.nodes if c.op == "Cast" and n.name in c.inputs]
            wide = n.y.dtype.name == "float16" and all(c.y.dtype.name == "float32" for c in casts)
            kind = "float" if wide and casts else stored(m.dtype)
            turned = self._declared(f"{m.name}_turned", kind)
            source = self._widened(n) if wide and casts else None
            with self._elements():
                value = f"{m.name}[{self.w.offset(n)}]" if source is None else self._flat(source)
                self.w.say(f"{self._at(turned)} = {value};")
            for known in casts if source is not None else (n,):
                self.w.values[known.name] = self.w.read(m, self._at(turned))
        for n in self._stores.values():
            m = self.w.targets[n.name]
            kind = "float" if self._single(n) is not None else stored(m.dtype)
            self._out[n.name] = self._declared(f"{m.name}_turned", kind)

    def held_back(self, stores: Sequence[Node]) -> dict[str, str]:
        """Return the Stores that are transposed, each with its value, which is not rounded to float16 yet."""
        found = {}
        for n in stores:
            if n.name in self._out:
                single = self._single(n)
                found[n.name] = n.inputs[0] if single is None else single.name
        return found

    def hold_back(self, n: Node, value: str) -> None:
        """Write a value into its transposed block."""
        self.w.say(f"{self._at(self._out[n.name])} = {value};")

    def block_ends(self) -> None:
        """Write the copies of the results, transposed back."""
        w = self.w
        for name, turned in self._out.items():
            n = self._stores[name]
            m = w.targets[name]
            if self._single(n) is None:
                with self._elements(rows_first=True):
                    w.say(f"{m.name}[{w.offset(n)}] = {self._at(turned)};")
                continue
            rows = self._declared(f"{m.name}_wide", "float")
            with self._elements(rows_first=True):
                w.say(f"{self._flat(rows)} = {self._at(turned)};")
            self._converted("narrow", n, rows, m.name)

    # pieces -----------------------------------------------------------------------------------
    def _single(self, n: Node) -> Node | None:
        """Return the float32 value that a Store of float16 rounds, if it does."""
        value = self.w.named[n.inputs[0]]
        if n.y.dtype.name != "float16" or value.op != "Cast":
            return None
        source = self.w.named[value.inputs[0]]
        return source if source.y.dtype.name == "float32" else None

    def _declared(self, name: str, kind: str) -> str:
        taken = self.w.names.take(name)
        self.w.say(f"alignas(64) {kind} {taken}[{self.count * self.loops.block}];")
        return taken

    def _at(self, block: str) -> str:
        """Return an element of a transposed block."""
        return f"{block}[{self.w.variables[self.across]} * {self.loops.block} + j]"

    def _flat(self, block: str) -> str:
        """Return an element of a block in the order of memory."""
        return f"{block}[j * {self.count} + {self.w.variables[self.across]}]"

    @contextmanager
    def _elements(self, *, rows_first: bool = False) -> Iterator[None]:
        """Open the loops over a block."""
        w, i = self.w, self.w.variables[self.across]
        heads = [f"for (int64_t {i} = 0; {i} < {self.count}; ++{i})"]
        heads.insert(0 if rows_first else 1, "for (int64_t j = 0; j < lanes; ++j)")
        with w.inside(heads[0]):
            w.say("#pragma omp simd")
            with w.inside(heads[1]):
                w.index |= {self.across: i, self.loops.lanes: "(start + j)"}
                yield

    def _widened(self, n: Node) -> str:
        """Write the conversion of a block of float16, and return its name."""
        name = self.w.buffers[n.inputs[0]].name
        rows = self._declared(f"{name}_wide", "float")
        self._converted("widen", n, rows, name)
        return rows

    def _converted(self, how: str, n: Node, rows: str, memory: str) -> None:
        """Write the conversion between memory and a block in its order: at once if its rows follow each other."""
        w, lanes = self.w, self.loops.lanes
        stride = n.y.strides[n.y.axis.index(lanes)]
        at_once = stride.is_const and stride.value == self.count

        def call(row: str, block: str, count: str) -> None:
            w.index |= {self.across: "0", lanes: row}
            place = f"&{memory}[{w.offset(n)}]"
            ends = (place, block) if how == "widen" else (block, place)
            w.say(f"simd::{how}({', '.join(ends)}, {count});")

        before = dict(w.index)
        if at_once:
            call("start", rows, f"lanes * {self.count}")
        else:
            with w.inside("for (int64_t j = 0; j < lanes; ++j)"):
                call("(start + j)", f"&{rows}[j * {self.count}]", str(self.count))
        w.index = before
