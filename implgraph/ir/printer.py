"""The text form of HintGraph and ImplGraph.

It is lossless: tests read it back.  Sections come in this order::

    Graph: abs_test
    Schedule:        (ImplGraph only) the parts of the template function's name
    Sizes:           graph symbols with their range, then the symbols that the host's tiling chooses
    Axis:            one axis a line
    Nodes:           one node after another, in execution order, with its index
    Buffers:         (ImplGraph only) every TQue and TBuf
    Tiling:          (ImplGraph only) the TilingSpec

Names, words and axis references are bare where they are plain identifiers and JSON strings everywhere else; an axis
without a unique name (a bad id, a name used twice) is written ``#7``.  ``nil`` is None.  ``//`` starts a comment.
Indentation has no meaning.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from autofuse.implgraph.expr.expression import ZERO, Expr
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import (
    Attr,
    Axis,
    BufferPlan,
    HintGraph,
    ImplGraph,
    Node,
    TensorView,
    TilingSpec,
)

__all__ = ["POSITION", "free_symbols", "print_graph", "quote"]

#: Prefix of a position.
POSITION = "TPosition::"

#: Words written without quotes.  They cannot contain ``//``, which would start a comment.
_PLAIN = re.compile(r"[A-Za-z_]\w*(?:[/.-]\w+)*", re.ASCII)
_RESERVED = frozenset({"nil", "true", "false", "inf", "nan"})


def quote(text: str) -> str:
    """Return ``text`` unchanged if it is a plain word, else as a JSON string."""
    if _PLAIN.fullmatch(text) and text not in _RESERVED:
        return text
    return json.dumps(text)


def print_graph(g: HintGraph | ImplGraph) -> str:
    """Return the text form of a graph, ending in a newline; a pure function of the graph."""
    return "".join(f"{line}\n" for line in _Printer(g).lines())


def free_symbols(g: HintGraph | ImplGraph) -> list[str]:
    """Return the symbols that the graph uses without declaring a range: the tile symbols of an ImplGraph.

    Order: sizes of tile and block axes in axis order, then the others in order of occurrence.
    """
    known = {s.name for s in g.symbols}
    names: list[str] = []
    if isinstance(g, ImplGraph):
        wanted = (g.tiling.opened.symbol, g.tiling.block_size)
        for a in g.axes:
            names += [s for s in sorted(a.size.symbols()) if s in wanted]
        names += wanted
    for e in _expressions(g):
        names += sorted(e.symbols())
    return [n for n in dict.fromkeys(names) if n not in known]


def _expressions(g: HintGraph | ImplGraph) -> Iterator[Expr]:
    """Yield every expression of the graph, in printing order."""
    for a in g.axes:
        yield a.size
    for n in g.nodes:
        yield from (t.nbytes for t in n.tmp_buffers)
        yield from n.y.repeats
        yield from n.y.strides
        yield n.y.offset
        yield from n.y.vectorized_strides
        if n.y.mem is not None and n.y.mem.offset is not None:
            yield n.y.mem.offset
        yield from (v for v in n.attrs.values() if isinstance(v, Expr))
    if isinstance(g, ImplGraph):
        yield from (b.nbytes for b in g.buffers)
        t = g.tiling
        yield from (t.opened.extent, t.outer, t.row_elements, t.ub, t.reduce_outer)
        if t.opened.most is not None:
            yield t.opened.most
        yield from (c.value for c in t.conditions)


def _braces(items: Iterable[object]) -> str:
    return "{" + "".join(f"{i}, " for i in items) + "}"


def _value(v: Attr) -> str:
    """Return the text of an attribute value; it determines the type."""
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, str | Expr):
        return json.dumps(str(v))
    if isinstance(v, tuple):
        return _braces(_value(x) for x in v)
    return repr(v)


class _Printer:
    """Prints one graph, with the names of its axes and nodes."""

    def __init__(self, g: HintGraph | ImplGraph) -> None:
        self.g = g
        self.graph = g.graph if isinstance(g, ImplGraph) else g.name
        self.full = isinstance(g, ImplGraph)
        ids = Counter(a.id for a in g.axes)
        names = Counter(a.name for a in g.axes)
        self.axis_names = {
            a.id: quote(a.name) for a in g.axes if ids[a.id] == 1 and names[a.name] == 1
        }

    def lines(self) -> Iterator[str]:
        g = self.g
        if isinstance(g, ImplGraph):
            yield f"// {json.dumps(g.name)[1:-1]}"
        yield f"Graph: {quote(self.graph)}"
        if isinstance(g, ImplGraph):
            yield from self.schedule(g)
        yield "Sizes:"
        yield from (f"  {self.symbol(s)}" for s in g.symbols)
        yield from (f"  {quote(s)}: VAR" for s in free_symbols(g))
        yield "Axis:"
        yield from (f"  {self.axis_line(a)}" for a in g.axes)
        yield "Nodes:"
        for i, n in enumerate(g.nodes):
            yield f"  {self.node_name(n.name)}: {quote(n.op)} ({i})"
            yield from (f"    {line}" for line in self.node(n))
        if isinstance(g, ImplGraph):
            yield "Buffers:"
            yield from (f"  {self.buffer(b)}" for b in g.buffers)
            yield "Tiling:"
            yield from (f"  {line}" for line in self.tiling(g.tiling))

    # names ----------------------------------------------------------------------------------------
    def axis(self, axis: int | None) -> str:
        if axis is None:
            return "nil"
        return self.axis_names.get(axis, f"#{axis}")

    def axes(self, axes: Iterable[int]) -> str:
        return _braces(self.axis(a) for a in axes)

    def node_name(self, name: str) -> str:
        return quote(f"{self.graph}/{name}")

    # sections -------------------------------------------------------------------------------------
    def schedule(self, g: ImplGraph) -> Iterator[str]:
        yield "Schedule:"
        yield f"  .result = {g.result}"
        yield f"  .template = {quote(g.template)}"
        yield f"  .group = {g.group}"
        yield f"  .x_axis = {self.axis(g.x_axis)}"
        yield f"  .y_axis = {self.axis(g.y_axis)}"
        yield f"  .r_axis = {self.axis(g.r_axis)}"
        if g.suffix:
            yield f"  .suffix = {quote(g.suffix)}"

    @staticmethod
    def symbol(s: Symbol) -> str:
        hint = "" if s.hint is None else f", hint: {s.hint}"
        return f"{quote(s.name)}: VAR, min: {s.min}, max: {s.max}{hint}"

    def axis_line(self, a: Axis) -> str:
        origin = f", from: {self.axes(a.origin)}" if a.origin else ""
        return (
            f"{quote(a.name)}({a.id}) : {a.size}, {a.type.value}{origin}, align: {a.align}, "
            f"allow_oversize_axis: {a.allow_oversize_axis:d}, "
            f"allow_unaligned_tail: {a.allow_unaligned_tail:d}"
        )

    def node(self, n: Node) -> Iterator[str]:
        yield f".axis = {self.axes(n.axis)}"
        if self.full or n.loop_axis is not None:
            yield f".loop_axis = {self.axis(n.loop_axis)}"
        if n.loop_pass:
            yield f".loop_pass = {n.loop_pass}"
        if n.joins is not None:
            yield f".joins = {self.node_name(n.joins)}"
        if n.over is not None:
            yield f".over = {self.node_name(n.over)}"
        if n.api is not None:
            yield ".api:"
            yield f"  .compute_type = {quote(n.api.compute_type)}"
            yield f"  .type = {quote(n.api.type)}"
            yield f"  .unit = {quote(n.api.unit)}"
        if n.attrs:
            yield f".attrs = {_braces(f'{quote(k)}: {_value(v)}' for k, v in n.attrs.items())}"
        if n.tmp_buffers:
            yield f".tmp_buffers = {_braces(f'{t.id}: {t.nbytes}' for t in n.tmp_buffers)}"
        for i, name in enumerate(n.inputs, 1):
            place = ".x" if len(n.inputs) == 1 else f".x{i}"
            yield f"{place} = {self.node_name(name)}.y"
        yield from self.tensor(n.y)
        if n.origin:
            yield f".origin = {json.dumps(n.origin)}"

    def tensor(self, y: TensorView) -> Iterator[str]:
        yield f".y.dtype = {y.dtype}"
        yield f".y.axis = {self.axes(y.axis)}"
        yield f".y.repeats = {_braces(y.repeats)}"
        yield f".y.strides = {_braces(y.strides)}"
        if y.offset != ZERO:
            yield f".y.offset = {y.offset}"
        if self.full or y.vectorized_axis or y.vectorized_strides:
            yield f".y.vectorized_axis = {self.axes(y.vectorized_axis)}"
            yield f".y.vectorized_strides = {_braces(y.vectorized_strides)}"
        # The reuse id belongs to the memory, but the source document shows it last.
        if y.mem is not None:
            yield ".y.mem:"
            yield f"  .tensor_id = {y.mem.tensor_id}"
            yield f"  .alloc_type = {y.mem.alloc_type.value}"
            yield f"  .hardware = {y.mem.hardware.value}"
            yield f"  .position = {POSITION}{y.mem.position.value}"
            if y.mem.offset is not None:
                yield f"  .offset = {y.mem.offset}"
        if y.que is not None:
            yield ".y.que:"
            yield f"  .id = {y.que.id}"
            yield f"  .depth = {y.que.depth}"
            yield f"  .buf_num = {y.que.buf_num}"
        if y.buf is not None:
            yield ".y.buf:"
            yield f"  .id = {y.buf}"
        placed = y.que is not None or y.buf is not None
        if y.mem is not None and (placed or y.mem.reuse_id != -1):
            yield f"  .reuse_id = {y.mem.reuse_id}"

    def buffer(self, b: BufferPlan) -> str:
        return (
            f"{b.kind.value}({b.id}) : {b.nbytes}, {POSITION}{b.position.value}, depth: {b.depth}, "
            f"buf_num: {b.buf_num}, copy: {b.copy:d}, bank: {'nil' if b.bank is None else b.bank}, "
            f"tensors: {_braces(self.node_name(t) for t in b.tensors)}"
        )

    def tiling(self, t: TilingSpec) -> Iterator[str]:
        yield f".tile_axis = {self.axis(t.opened.axis)}"
        yield f".tile_size = {quote(t.opened.symbol)}"
        yield f".block_size = {quote(t.block_size)}"
        yield f".extent = {t.opened.extent}"
        yield f".outer = {t.outer}"
        yield f".granule = {t.opened.granule}"
        yield f".tile_max = {'nil' if t.opened.most is None else t.opened.most}"
        yield f".row_elements = {t.row_elements}"
        yield f".ub = {t.ub}"
        yield f".ub_limit = {t.ub_limit}"
        if t.opened.rounded:
            yield ".rounded = 1"
        if t.reduce_tiles:
            yield ".reduce_tiles = 1"
        if t.reduce_outer != 1:
            yield f".reduce_outer = {t.reduce_outer}"
        if t.first_core is not None:
            yield f".first_core = {quote(t.first_core)}"
        if t.staggered:
            yield f".staggered = {_braces(map(str, t.staggered))}"
        for c in t.conditions:
            low = "" if c.at_least is None else f", at_least: {c.at_least}"
            high = "" if c.at_most is None else f", at_most: {c.at_most}"
            yield f".condition = {c.value}, multiple_of: {c.multiple_of}{low}{high}"
