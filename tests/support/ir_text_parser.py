"""Reads the text form of HintGraph and ImplGraph that ``printer.print_graph`` writes.

One line holds one thing, so a line that cannot be read costs only itself: its error is noted and
the next line is tried.  There is no recursion over lines; expressions are read by ``expr.parser.parse``,
which bounds its own depth.  ``Graph:`` comes first; the order of the other sections, and of the
keys of a node, is free.

One file: one class, with a short method for each kind of line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from ir_text_cursor import KEY, Line, LineError, strip_comment

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.implgraph.expr.expression import ZERO, ExprError
from autofuse.implgraph.expr.parser import ir_reader
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.implgraph.ir.graph import (
    SIZE_ATTRS,
    AllocType,
    Api,
    Attr,
    Axis,
    AxisType,
    BufferKind,
    BufferPlan,
    Condition,
    Hardware,
    HintGraph,
    ImplGraph,
    Mem,
    Node,
    Position,
    Queue,
    TensorView,
    TileLength,
    TilingSpec,
    TmpBuffer,
)
from autofuse.implgraph.ir.printer import POSITION

__all__ = ["MAX_ERRORS", "MAX_TEXT", "parse_as", "parse_graph"]

#: Largest text that is read, in characters.
MAX_TEXT = 16 << 20
#: Errors after which reading stops.
MAX_ERRORS = 50

_SECTIONS = ("Graph", "Schedule", "Sizes", "Axis", "Nodes", "Buffers", "Tiling")
_REQUIRED = ("Graph", "Sizes", "Axis", "Nodes")
_BLOCKS = {
    ".api": ("compute_type", "type", "unit"),
    ".y.mem": ("tensor_id", "alloc_type", "hardware", "position", "offset", "reuse_id"),
    ".y.que": ("id", "depth", "buf_num", "reuse_id"),
    ".y.buf": ("id", "reuse_id"),
}
_HINT = "compare with the output of 'autofuse dump'"

_G = TypeVar("_G", HintGraph, ImplGraph)
_T = TypeVar("_T")


@dataclass
class _RawNode:
    """A node's header and key lines, before they are put together; ``block`` is the open one."""

    name: str
    op: str
    line: int
    block: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    inputs: dict[int, str] = field(default_factory=dict)


class _GraphParser:
    def __init__(self, text: str) -> None:
        self.errors: list[Diagnostic] = []
        self.graph = ""
        self.sections: dict[str, list[Line]] = {}
        self.symbols: list[Symbol] = []
        self.known: set[str] = set()
        self.reader = ir_reader(self.known.__contains__)
        self.axes: list[Axis] = []
        self.ids: dict[str, int] = {}
        self.last_line = 1
        self.split(text)

    # errors ---------------------------------------------------------------------------------------
    def error(self, message: str, line: int, column: int = 0) -> None:
        where = Where(line=line, column=column + 1)
        self.errors.append(Diagnostic("AF2001", message, where, _HINT))
        if len(self.errors) >= MAX_ERRORS:
            raise AutofuseError(self.errors)

    def guard(self, action: Callable[[_T], None], item: _T) -> None:
        """Run ``action`` on a line or a node; its problem becomes a diagnostic."""
        try:
            action(item)
        except LineError as err:
            self.error(str(err), err.line, err.column)

    # sections -------------------------------------------------------------------------------------
    def split(self, text: str) -> None:
        """Cut the text into sections; needs no knowledge of what is inside them."""
        current: list[Line] | None = None
        for number, raw in enumerate(text.split("\n"), 1):
            line = Line(number, strip_comment(raw).rstrip())
            if line.at_end():
                continue
            self.last_line = number
            head, _, rest = line.text.strip().partition(":")
            if head == "Graph" and not self.sections:
                line.accept("Graph")
                line.accept(":")
                self.sections[head] = [line]
            elif head in _SECTIONS and not rest:
                if head in self.sections:
                    self.error(f"section {head} occurs twice", number, line.i)
                current = self.sections[head] = []
            elif current is None:
                self.error(f"expected a section ({', '.join(_SECTIONS)})", number, line.i)
            else:
                current.append(line)

    def parse(self) -> HintGraph | ImplGraph:
        missing = [s for s in _REQUIRED if s not in self.sections]
        if missing:
            self.error(f"section {', '.join(missing)} is missing", self.last_line)
            raise AutofuseError(self.errors)
        for line in self.sections["Graph"]:
            self.guard(self.read_graph, line)
        for line in self.sections["Sizes"]:
            self.guard(self.read_size, line)
        self.read_axis_names()
        for line in self.sections["Axis"]:
            self.guard(self.read_axis, line)
        nodes = self.read_nodes()
        if "Schedule" not in self.sections:
            for extra in ("Buffers", "Tiling"):
                if extra in self.sections:
                    self.error(f"section {extra} needs a section Schedule", self.last_line)
            self.finish()
            return HintGraph(self.graph, tuple(self.symbols), tuple(self.axes), nodes)
        return self.read_impl(nodes)

    def finish(self) -> None:
        if self.errors:
            raise AutofuseError(self.errors)

    def read_graph(self, line: Line) -> None:
        self.graph = line.word("the name of the graph")
        line.end()

    def read_size(self, line: Line) -> None:
        start = line.i
        name = line.word("the name of a symbol")
        if name in self.known:
            raise line.fail(f"symbol {name} occurs twice", start)
        self.known.add(name)
        line.expect(":")
        line.expect("VAR")
        if not line.at_end():
            line.field("min")
            low = line.integer()
            line.field("max")
            high = line.integer()
            hint = None
            if not line.at_end():
                line.field("hint")
                hint = line.integer()
            self.symbols.append(Symbol(name, low, high, hint))
        line.end()

    # axes -----------------------------------------------------------------------------------------
    def axis_head(self, line: Line) -> tuple[str, int]:
        name = line.word("the name of an axis")
        line.expect("(")
        number = line.integer()
        line.expect(")")
        line.expect(":")
        return name, number

    def read_axis_names(self) -> None:
        """Fill ``ids`` first: an axis may refer to one that comes later."""
        counts: dict[str, int] = {}
        for line in self.sections["Axis"]:
            start = line.i
            try:
                name, number = self.axis_head(line)
            except LineError:
                continue  # read_axis reports it
            finally:
                line.i = start
            counts[name] = counts.get(name, 0) + 1
            self.ids[name] = number
        for name, count in counts.items():
            if count > 1:
                del self.ids[name]

    def read_axis(self, line: Line) -> None:
        name, number = self.axis_head(line)
        size = line.expression(self.reader)
        line.expect(",")
        kind = line.enum(AxisType)
        origin: tuple[int, ...] = ()
        line.expect(",")
        if line.accept("from"):
            line.expect(":")
            origin = self.axis_list(line)
            line.expect(",")
        line.expect("align")
        line.expect(":")
        align = line.integer()
        line.field("allow_oversize_axis")
        oversize = line.flag()
        line.field("allow_unaligned_tail")
        tail = line.flag()
        line.end()
        self.axes.append(Axis(number, name, size, kind, origin, align, oversize, tail))

    def axis_ref(self, line: Line) -> int:
        if line.accept("#"):
            return line.integer()
        start = line.i
        name = line.word("an axis")
        if name not in self.ids:
            raise line.fail(f"axis {name!r} is not defined, or is defined twice", start)
        return self.ids[name]

    def axis_or_nil(self, line: Line) -> int | None:
        return None if line.accept_word("nil") else self.axis_ref(line)

    def axis_list(self, line: Line) -> tuple[int, ...]:
        return tuple(line.listing(lambda: self.axis_ref(line)))

    # nodes ----------------------------------------------------------------------------------------
    def node_ref(self, line: Line) -> str:
        """``graph/node``; the graph's name is the same everywhere and is cut off."""
        start = line.i
        return self.local(line, line.word("the name of a node"), start)

    def local(self, line: Line, name: str, start: int) -> str:
        prefix = f"{self.graph}/"
        if not name.startswith(prefix):
            raise line.fail(f"the name of a node starts with {prefix!r}, not {name!r}", start)
        return name[len(prefix) :]

    def read_nodes(self) -> tuple[Node, ...]:
        raw: list[_RawNode] = []
        for line in self.sections["Nodes"]:
            self.guard(lambda x: self.node_line(x, raw), line)
        nodes: list[Node] = []
        if not self.errors:
            for r in raw:
                self.guard(lambda x: nodes.append(_build_node(x)), r)
        return tuple(nodes)

    def node_line(self, line: Line, raw: list[_RawNode]) -> None:
        if line.text.startswith("...", line.i):
            raise line.fail("parts of the graph are left out ('...')")
        if not line.text.startswith(".", line.i):
            self.node_head(line, raw)
        elif raw:
            raw[-1].block = self.node_key(line, raw[-1], raw[-1].block)
        else:
            raise line.fail("expected a node, such as 'graph/abs_0: Abs (0)'")

    def node_head(self, line: Line, raw: list[_RawNode]) -> None:
        # Appended before the rest is read: the keys that follow must not go to the node before.
        node = _RawNode("", "", line.number)
        raw.append(node)
        node.name = self.node_ref(line)
        line.expect(":")
        node.op = line.word("the op")
        line.expect("(")
        start = line.i
        index = line.integer()
        if index != len(raw) - 1:
            raise line.fail(f"node {node.name} has index {index}, but is at {len(raw) - 1}", start)
        line.expect(")")
        line.end()

    def node_key(self, line: Line, node: _RawNode, block: str) -> str:
        """Read one key line; returns the block that is open after it."""
        start = line.i
        key = line.match(KEY)
        if key is None:
            raise line.fail(f"expected a key, found {line.found()}")
        if line.accept(":"):
            if key not in _BLOCKS:
                raise line.fail(f"unknown block {key}", start)
            line.end()
            self.put(line, node, key, True, start)
            return key
        line.expect("=")
        if block and key[1:] in _BLOCKS[block]:
            value = self.block_value(line, block, key[1:])
            reuse = key == ".reuse_id"
            self.put(line, node, ".reuse_id" if reuse else f"{block}{key}", value, start)
        elif re.fullmatch(r"\.x[0-9]{0,6}", key):
            name = self.input_ref(line)
            place = int(key[2:] or "1")
            if place in node.inputs:
                raise line.fail(f"key {key} occurs twice", start)
            node.inputs[place] = name
            block = ""
        else:
            self.put(line, node, key, self.plain_value(line, key, start), start)
            block = ""
        line.end()
        return block

    @staticmethod
    def put(line: Line, node: _RawNode, key: str, value: Any, start: int) -> None:
        if key in node.values:
            raise line.fail(f"key {key} occurs twice", start)
        node.values[key] = value

    def input_ref(self, line: Line) -> str:
        start = line.i
        name = line.string()
        if name is not None:
            line.expect(".y")
        else:
            name = line.word("an input, such as graph/abs_0.y")
            if not name.endswith(".y"):
                raise line.fail(f"an input ends in '.y', not {name!r}", start)
            name = name[:-2]
        return self.local(line, name, start)

    def block_value(self, line: Line, block: str, key: str) -> Any:
        if block == ".api":
            return line.word("a word")
        kinds: dict[str, type[Enum]] = {
            "alloc_type": AllocType,
            "hardware": Hardware,
            "position": Position,
        }
        kind = kinds.get(key)
        if kind is not None:
            return line.enum(kind, POSITION if kind is Position else "")
        if key == "offset":
            return line.expression(self.reader)
        return line.integer()

    def plain_value(self, line: Line, key: str, start: int) -> Any:
        if key in (".axis", ".y.axis", ".y.vectorized_axis"):
            return self.axis_list(line)
        if key in (".y.repeats", ".y.strides", ".y.vectorized_strides"):
            return tuple(line.listing(lambda: line.expression(self.reader)))
        if key == ".loop_axis":
            return self.axis_or_nil(line)
        if key == ".loop_pass":
            return line.integer()
        if key in (".joins", ".over"):
            return self.node_ref(line)
        if key == ".y.dtype":
            at = line.i
            name = line.word("a dtype")
            if name not in BY_NAME:
                raise line.fail(f"unknown dtype {name!r}; known: {', '.join(BY_NAME)}", at)
            return BY_NAME[name]
        if key == ".y.offset":
            return line.expression(self.reader)
        if key == ".origin":
            return line.word("a string")
        if key == ".attrs":
            return dict(line.listing(lambda: self.attr(line)))
        if key == ".tmp_buffers":
            return tuple(line.listing(lambda: self.tmp_buffer(line)))
        raise line.fail(f"unknown key {key}", start)

    def attr(self, line: Line) -> tuple[str, Attr]:
        name = line.word("the name of an attribute")
        line.expect(":")
        start, value = line.i, line.value()
        if name not in SIZE_ATTRS or not isinstance(value, str):
            return name, value
        try:
            return name, self.reader.read(value)
        except ExprError as err:
            raise line.fail(str(err), start) from None

    def tmp_buffer(self, line: Line) -> TmpBuffer:
        number = line.integer()
        line.expect(":")
        return TmpBuffer(number, line.expression(self.reader))

    # ImplGraph ------------------------------------------------------------------------------------
    def read_impl(self, nodes: tuple[Node, ...]) -> ImplGraph:
        for name in ("Buffers", "Tiling"):
            if name not in self.sections:
                self.error(f"section {name} is missing", self.last_line)
        header = self.read_table("Schedule", self.schedule_value, _SCHEDULE, ("suffix",))
        buffers: list[BufferPlan] = []
        for line in self.sections.get("Buffers", ()):
            self.guard(lambda x: buffers.append(self.buffer(x)), line)
        conditions: list[Condition] = []
        tiling = self.read_table(
            "Tiling",
            lambda x, key: self.tiling_value(x, key, conditions),
            _TILING,
            _TILING_OPTIONAL,
        )
        self.finish()
        return ImplGraph(
            graph=self.graph,
            symbols=tuple(self.symbols),
            axes=tuple(self.axes),
            nodes=nodes,
            buffers=tuple(buffers),
            tiling=_tiling(tiling, tuple(conditions)),
            **{"suffix": "", **header},
        )

    def read_table(
        self,
        section: str,
        value: Callable[[Line, str], Any],
        keys: tuple[str, ...],
        optional: tuple[str, ...],
    ) -> dict[str, Any]:
        """The ``.key = value`` lines of a section."""
        out: dict[str, Any] = {}

        def read(line: Line) -> None:
            start = line.i
            key = (line.match(KEY) or "")[1:]
            if key not in (*keys, *optional, "condition"):
                raise line.fail(f"expected one of .{', .'.join((*keys, *optional))}", start)
            if key in out:
                raise line.fail(f"key .{key} occurs twice", start)
            line.expect("=")
            got = value(line, key)
            line.end()
            if key != "condition":
                out[key] = got

        for line in self.sections.get(section, ()):
            self.guard(read, line)
        lacking = [k for k in keys if k not in out]
        if lacking and not self.errors:
            self.error(f"section {section} lacks .{', .'.join(lacking)}", self.last_line)
        return out

    def schedule_value(self, line: Line, key: str) -> Any:
        if key in ("result", "group"):
            return line.integer()
        if key in ("x_axis", "r_axis"):
            return self.axis_or_nil(line)
        if key == "y_axis":
            return self.axis_ref(line)
        if key == "condition":
            raise line.fail("a condition belongs to the section Tiling", 0)
        return line.word(f"the {key}")

    def tiling_value(self, line: Line, key: str, conditions: list[Condition]) -> Any:
        if key == "tile_axis":
            return self.axis_ref(line)
        if key in ("tile_size", "block_size", "first_core"):
            return line.word("a symbol")
        if key in ("granule", "ub_limit"):
            return line.integer()
        if key in ("rounded", "reduce_tiles"):
            return line.flag()
        if key == "staggered":
            return tuple(line.listing(line.integer))
        if key == "tile_max" and line.accept_word("nil"):
            return None
        e = line.expression(self.reader)
        if key == "condition":
            line.field("multiple_of")
            multiple = line.integer()
            ends: dict[str, int] = {}
            while line.accept(","):
                end = line.word("at_least or at_most")
                if end not in ("at_least", "at_most") or end in ends:
                    raise line.fail(f"expected at_least or at_most, each once, found {end}")
                line.expect(":")
                ends[end] = line.integer()
            conditions.append(Condition(e, multiple, ends.get("at_least"), ends.get("at_most")))
        return e

    def buffer(self, line: Line) -> BufferPlan:
        kind = line.enum(BufferKind)
        line.expect("(")
        number = line.integer()
        line.expect(")")
        line.expect(":")
        nbytes = line.expression(self.reader)
        line.expect(",")
        position = line.enum(Position, POSITION)
        line.field("depth")
        depth = line.integer()
        line.field("buf_num")
        buf_num = line.integer()
        line.field("copy")
        copy = line.flag()
        line.field("bank")
        bank = None if line.accept_word("nil") else line.integer()
        line.field("tensors")
        tensors = tuple(line.listing(lambda: self.node_ref(line)))
        line.end()
        return BufferPlan(kind, number, position, depth, buf_num, nbytes, tensors, copy, bank)


_SCHEDULE = ("result", "template", "group", "x_axis", "y_axis", "r_axis")


def _tiling(found: dict[str, Any], conditions: tuple[Condition, ...]) -> TilingSpec:
    length = TileLength(
        found.pop("tile_axis"),
        found.pop("tile_size"),
        found.pop("extent"),
        found.pop("granule"),
        found.pop("tile_max"),
        found.pop("rounded", False),
    )
    return TilingSpec(lengths=(length,), conditions=conditions, **found)


_TILING = (
    "tile_axis",
    "tile_size",
    "block_size",
    "extent",
    "outer",
    "granule",
    "tile_max",
    "row_elements",
    "ub",
    "ub_limit",
)
_TILING_OPTIONAL = ("rounded", "reduce_tiles", "reduce_outer", "first_core", "staggered")


def _build_node(r: _RawNode) -> Node:
    v = r.values
    required = [".axis", ".y.dtype", ".y.axis", ".y.repeats", ".y.strides"]
    for block in _BLOCKS:
        if block in v:
            keys = [k for k in _BLOCKS[block] if k not in ("offset", "reuse_id")]
            required += [f"{block}.{k}" for k in keys]
    lacking = [k for k in required if k not in v]
    if sorted(r.inputs) != list(range(1, len(r.inputs) + 1)):
        lacking.append(".x1, .x2, ... without a gap")
    if lacking:
        raise LineError(f"node {r.name} lacks {', '.join(lacking)}", r.line, 0)
    if ".reuse_id" in v and ".y.mem" not in v:
        raise LineError(f"node {r.name} has .reuse_id, but no .y.mem", r.line, 0)
    mem = que = api = None
    if ".y.mem" in v:
        mem = Mem(
            v[".y.mem.tensor_id"],
            v[".y.mem.alloc_type"],
            v[".y.mem.hardware"],
            v[".y.mem.position"],
            v.get(".y.mem.offset"),
            v.get(".reuse_id", -1),
        )
    if ".y.que" in v:
        que = Queue(v[".y.que.id"], v[".y.que.depth"], v[".y.que.buf_num"])
    if ".api" in v:
        api = Api(v[".api.type"], v[".api.compute_type"], v[".api.unit"])
    y = TensorView(
        v[".y.dtype"],
        v[".y.axis"],
        v[".y.repeats"],
        v[".y.strides"],
        v.get(".y.offset", ZERO),
        v.get(".y.vectorized_axis", ()),
        v.get(".y.vectorized_strides", ()),
        mem,
        que,
        v.get(".y.buf.id"),
    )
    return Node(
        r.name,
        r.op,
        tuple(r.inputs[i] for i in sorted(r.inputs)),
        y,
        v.get(".attrs", {}),
        v[".axis"],
        v.get(".loop_axis"),
        api,
        v.get(".tmp_buffers", ()),
        v.get(".origin", ""),
        v.get(".loop_pass", 0),
        v.get(".joins"),
        v.get(".over"),
    )


def parse_graph(text: str) -> HintGraph | ImplGraph:
    """Read the text form of a graph; one with a section ``Schedule:`` is an ImplGraph.

    Args:
        text: at most 16 Mi characters, as ``printer.print_graph`` writes them.

    Raises:
        AutofuseError: AF2001, one diagnostic per line that cannot be read, with line and column.
    """
    if len(text) > MAX_TEXT:
        raise AutofuseError.of(
            "AF2001",
            f"the text has {len(text)} characters; the limit is {MAX_TEXT}",
            where=Where(line=1, column=1),
        )
    return _GraphParser(text).parse()


def parse_as(kind: type[_G], text: str) -> _G:
    """Like :func:`parse_graph`, for a graph of one kind.

    Raises:
        AutofuseError: AF2001, also when the text is a graph of the other kind.
    """
    g = parse_graph(text)
    if not isinstance(g, kind):
        raise AutofuseError.of(
            "AF2001",
            f"the text is a {type(g).__name__}, not {kind.__name__}",
            where=Where(line=1, column=1),
            hint="an ImplGraph has a section 'Schedule:', a HintGraph has none",
        )
    return g
