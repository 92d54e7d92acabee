"""The loops of short rows: blocks of them are transposed, so that the lanes are rows and each element is a step."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.codegen.backends.cpu.halves import unrounded
from autofuse.codegen.backends.cpu.ops.spelling import stored
from autofuse.codegen.backends.cpu.reducing import Columns
from autofuse.codegen.backends.cpu.writer import Writer
from autofuse.codegen.nests.memory import Memory
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
        #: Store -> its blocks, in the order of memory and transposed.
        self._out: dict[str, tuple[str, str]] = {}

    def _is_turned(self, n: Node) -> bool:
        return unit_axis(n) == self.across and self.loops.lanes in varies(n)

    def block_begins(self) -> None:
        """Write the copies of what is read, transposed."""
        for n in self._loads:
            m = self.w.buffers[n.inputs[0]]
            casts = [c for c in self.w.nest.nodes if c.op == "Cast" and n.name in c.inputs]
            is_half = n.y.dtype.name == "float16" and {c.y.dtype.name for c in casts} == {"float32"}
            rows, turned = self._declared(m, "float" if is_half else stored(m.dtype))
            with self.w.inside(f"if (lanes < {self.loops.block})"):
                self.w.say(f"std::fill_n({rows}, {self.count * self.loops.block}, 0);")
            self._moved("simd::widen" if is_half else "std::copy_n", n, rows, m.name)
            self.w.say(f"simd::turn<{self.count}>({rows}, {turned});")
            for known in casts if is_half else (n,):
                self.w.values[known.name] = self.w.read(m, self._at(turned))
        for n in self._stores.values():
            m = self.w.targets[n.name]
            is_half = unrounded(self.w, n) is not None
            self._out[n.name] = self._declared(m, "float" if is_half else stored(m.dtype))

    def held_back(self, stores: Sequence[Node]) -> dict[str, tuple[str, str]]:
        """Return the Stores that are transposed; their values are not rounded to float16 yet."""
        found = {}
        for n in stores:
            if n.name in self._out:
                single = unrounded(self.w, n)
                value = n.inputs[0] if single is None else single.name
                found[n.name] = (value, self._at(self._out[n.name][1]))
        return found

    def block_ends(self) -> None:
        """Write the copies of the results, transposed back."""
        for name, (rows, turned) in self._out.items():
            n = self._stores[name]
            self.w.say(f"simd::turn_back<{self.count}>({turned}, {rows});")
            how = "std::copy_n" if unrounded(self.w, n) is None else "simd::narrow"
            self._moved(how, n, rows, self.w.targets[name].name)

    # pieces -----------------------------------------------------------------------------------
    def _declared(self, m: Memory, kind: str) -> tuple[str, str]:
        """Declare two blocks: one in the order of memory, one transposed."""
        names = [self.w.names.take(f"{m.name}_{what}") for what in ("rows", "turned")]
        size = self.count * self.loops.block
        for name in names:
            self.w.say(f"alignas(64) {kind} {name}[{size}];")
        return names[0], names[1]

    def _at(self, block: str) -> str:
        """Return an element of a transposed block."""
        return f"{block}[{self.w.variables[self.across]} * {self.loops.block} + j]"

    def _moved(self, how: str, n: Node, rows: str, memory: str) -> None:
        """Write the move between memory and a block in its order: at once if its rows follow each other."""
        w, lanes = self.w, self.loops.lanes
        stride = n.y.strides[n.y.axis.index(lanes)]
        at_once = stride.is_const and stride.value == self.count

        def move(row: str, block: str, count: str) -> None:
            w.index |= {self.across: "0", lanes: row}
            ends = [f"&{memory}[{w.offset(n)}]", block]
            source, target = ends if n.op == "Load" else reversed(ends)
            given = (source, count, target) if how == "std::copy_n" else (source, target, count)
            w.say(f"{how}({', '.join(given)});")

        before = dict(w.index)
        if at_once:
            move("start", rows, f"lanes * {self.count}")
        else:
            with w.inside("for (int64_t j = 0; j < lanes; ++j)"):
                move("(start + j)", f"&{rows}[j * {self.count}]", str(self.count))
        w.index = before
