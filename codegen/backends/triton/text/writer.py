"""Common parts of all kernels: indices, masks, loads and stores, and a statement per node.

Every value is a block with the dimensions of its kernel, of size 1 along those where it does not vary, so that values
broadcast without reshaping: a reduction keeps its dimension, and a broadcast needs no statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from autofuse.codegen.backends.triton.kernels import Form, Kernel
from autofuse.codegen.backends.triton.ops.reductions import accumulator, identity, reduction
from autofuse.codegen.backends.triton.ops.spelling import TRITON, TYPES, literal
from autofuse.codegen.backends.triton.python_text import Names, to_python
from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import unit_axis, varies, walk
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr, sym
from autofuse.implgraph.expr.remainders import tight_bounds
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["BLOCK", "COL", "ITEM", "PART", "ROW", "Value", "Writer"]

ITEM, PART, ROW, COL = "item", "part", "row", "col"
#: Block size constant of each dimension.
BLOCK = {ITEM: "BLOCK", PART: "PARTS", ROW: "ROWS", COL: "COLS"}
#: Number of elements from which offsets take 64 bits.
_WIDE = 1 << 31


@dataclass(frozen=True)
class Value:
    """A value in registers: its text, and the dimensions where its block has more than one element."""

    text: str
    dims: frozenset[str]


@dataclass
class Writer:
    """Writer of one kernel, statement by statement."""

    kernel: Kernel
    symbols: Mapping[str, str]
    ranges: Mapping[str, tuple[int, int]]
    #: Each program loops over some of the ``blocks``, whose number is a parameter.
    on_cores: bool = False
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    memory: dict[str, Memory] = field(default_factory=dict)
    sizes: dict[str, None] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    #: Axis -> its index.
    index: dict[int, Value] = field(default_factory=dict)
    #: Axes in row-major order -> the index over all of them.
    flat: dict[tuple[int, ...], Value] = field(default_factory=dict)
    #: Divisor of rows -> its reciprocal.
    inverses: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        k = self.kernel
        self.names = Names(self.symbols.values())
        self.memory |= {m.name: m for m in k.takes}
        memory = {m.name: m for m in (*k.takes, *k.buffers.values(), *k.targets.values())}
        self.pointers = {name: self.names.take(f"{name}_ptr") for name in memory}
        self.named = k.nest.by_name()
        if k.form is Form.ITEMS:
            self.dims: tuple[str, ...] = (ITEM,)
        else:
            shared = k.blocks is not None and k.blocks.parts > 1
            one = shared and k.blocks is not None and k.blocks.rows == 1
            self.dims = (PART, COL) if one else (PART, ROW, COL) if shared else (ROW, COL)
        #: Dimensions whose last block may be partial.
        self.partial = {d for d in self.dims if d != PART and not self._exact(d)}
        self.stored = [n for n in k.nest.nodes if n.op == "Store"]
        #: Offsets that may exceed 32 bits; the caller decides for short rows and single elements.
        self.reaches = self._reaches()
        known = any(e.is_const for e in self.reaches)
        self.asks_width = bool(self.reaches) and not known and k.form in (Form.ITEMS, Form.TILES)

    # pieces of text ---------------------------------------------------------------------------
    def say(self, text: str = "") -> None:
        """Write one line."""
        self.lines.append("    " * self.indent + text if text else "")

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """Open a loop; values computed in it are unknown after it."""
        self.say(head)
        self.indent += 1
        known, index, flat = dict(self.values), dict(self.index), dict(self.flat)
        inverses = dict(self.inverses)
        yield
        self.values, self.index, self.flat, self.inverses = known, index, flat, inverses
        self.indent -= 1

    def size(self, e: Expr, *, atomic: bool = False) -> str:
        """Return a size, and register its symbols as parameters."""
        for name in self.symbols:
            if name in e.symbols():
                self.sizes[name] = None
        return to_python(e, self.symbols, atomic=atomic)

    def unit(self) -> str:
        """Return the symbol that is the row length, if rows begin at multiples of it; empty if there is none.

        A row is a contiguous run of one of the largest tensors.
        """
        nest = self.kernel.nest
        moved = [n for n in nest.nodes if n.op in ("Load", "Store")]
        most = max((len(varies(n)) for n in moved), default=0)
        largest = [n for n in moved if len(varies(n)) == most]
        rows = [nest.sizes[a] for n in largest for a in (unit_axis(n),) if a is not None]
        steps = {s for n in largest for e in n.y.strides for s in e.symbols()}
        return next((name for name in self.sizes if name in steps and sym(name) in rows), "")

    def across(self, dim: str) -> str:
        """Return the subscript that places a 1-D index along a dimension."""
        if len(self.dims) == 1:
            return ""
        return "[" + ", ".join(":" if d == dim else "None" for d in self.dims) + "]"

    def axis_of(self, dim: str) -> int:
        """Return the position of a dimension in blocks."""
        return self.dims.index(dim)

    def spread(self, dim: str) -> frozenset[str]:
        """Return the block dimensions along which the index of a dimension varies; empty if it is a single number.

        Every part of a block has its own row indices.  Triton 3.6 would divide a block of ``[1, ROWS, 1]`` among the
        blocks of a cluster along its rows, and propagate that layout to values computed with it.
        """
        along = {dim} if dim == ITEM else {dim, PART}
        return frozenset(along & set(self.dims) if dim in self.dims else ())

    def shape(self, dims: Sequence[str]) -> str:
        """Return the shape of a block that varies along ``dims``."""
        return "[" + ", ".join(BLOCK[d] if d in dims else "1" for d in self.dims) + "]"

    def live(self, dims: frozenset[str], *, among: Sequence[str] = (ITEM, ROW, COL)) -> str:
        """Return the mask of in-bounds elements of a block; empty if all are."""
        found = [d for d in self.dims if d in dims and d in self.partial and d in among]
        return " & ".join(f"{d}_live" for d in found)

    def count(self, dim: str) -> Expr:
        """Return the number of elements of the nest along a dimension."""
        k = self.kernel
        axes = {ITEM: k.rows, ROW: k.rows, COL: k.cols}[dim]
        return k.nest.count(axes)

    def _exact(self, dim: str) -> bool:
        b, count = self.kernel.blocks, self.count(dim)
        if b is None or not count.is_const:
            return False
        if dim in (ITEM, ROW):
            return count.value % b.rows == 0
        if self.kernel.form is Form.ROWS:
            return count.value == b.cols * b.parts
        return count.value % (b.cols * b.parts * b.chunks) == 0

    def widened(self, index: str) -> str:
        """Return an index, with 64 bits if offsets may need them."""
        if not self.reaches:
            return index
        # Not a method of the index, which is a Python number for loops in the interpreter.
        return f"tl.cast({index}, {'tl.int64 if WIDE else tl.int32' if self.asks_width else 'tl.int64'})"

    def _reaches(self) -> tuple[Expr, ...]:
        """Return the offsets and element counts that may exceed 32 bits."""
        nest = self.kernel.nest
        found: dict[Expr, None] = {nest.count(nest.axes): None}
        for n in nest.nodes:
            if n.op in ("Load", "Store"):
                last = n.y.offset
                for a, stride in zip(n.y.axis, n.y.strides, strict=True):
                    last = last + (nest.sizes[a] - 1) * stride
                if "extent" in n.attrs:
                    last = last + n.size("extent") * n.size("stride")
                found[last] = None
        return tuple(e for e in found if tight_bounds(e, self.ranges)[1] >= _WIDE)

    # where a program is ----------------------------------------------------------------------
    def pointer(self, m: Memory) -> str:
        """Return the pointer parameter of a tensor."""
        return self.pointers[m.name]

    @property
    def goes_over_rows(self) -> bool:
        """Return True if the kernel has its own loop over rows that accumulates sums."""
        return self.kernel.blocks is not None and self.kernel.blocks.programs > 0

    @property
    def takes_blocks(self) -> bool:
        """Return True if the kernel has a loop over its blocks."""
        return self.on_cores and not self.goes_over_rows

    @contextmanager
    def place(self) -> Iterator[None]:
        """Open the scope of one block, with known indices along the grid and along rows."""
        if not self.takes_blocks:
            self._place("tl.program_id(0)")
            yield
            return
        turn = self.names.take("turn")
        with self.inside(f"for {turn} in range(tl.program_id(0), blocks, tl.num_programs(0)):"):
            self._place(turn)
            yield

    def _place(self, number: str) -> None:
        """Write the indices of block ``number``."""
        k = self.kernel
        block = self.widened(number)
        main = ITEM if k.form is Form.ITEMS else ROW
        if k.form is Form.TILES:
            self.say(f"block = {block}")
            col_blocks = f"tl.cdiv({self.size(self.count(COL))}, COLS)"
            self.say(f"col = (block % {col_blocks} * COLS + tl.arange(0, COLS)){self.across(COL)}")
            self.say(f"block = block // {col_blocks}")
            self.index_along(COL)
            block = "block"
        if k.grid:
            if block != "block":
                self.say(f"block = {block}")
            row_blocks = self.size(self.count(main), atomic=True)
            if main in self.dims:
                row_blocks = f"tl.cdiv({row_blocks}, {BLOCK[main]})"
            self.say(f"outer = block // {row_blocks}")
            self._decode("outer", k.grid, frozenset())
            block = f"block % {row_blocks}"
        if not self.goes_over_rows:
            self.index_rows(block)

    def index_rows(self, block: str) -> None:
        """Write the index along rows, or of items."""
        main = ITEM if self.kernel.form is Form.ITEMS else ROW
        name = BLOCK[main]
        if main in self.dims:
            line = f"tl.arange(0, {name}){self.across(main)}"
            if PART in self.dims:
                line = f"(tl.arange(0, PARTS){self.across(PART)} * ROWS + {line}) % ROWS"
            self.say(f"{main} = {block} * {name} + {line}")
        else:
            self.say(f"{main} = {block}")
        self.index_along(main)

    def index_along(self, dim: str) -> None:
        """Write the mask of in-bounds elements along a dimension, and the indices of its axes."""
        k = self.kernel
        if dim in self.partial:
            self.say(f"{dim}_live = {dim} < {self.size(self.count(dim))}")
        axes = {ITEM: k.rows, ROW: k.rows, COL: k.cols}[dim]
        self._decode(dim, axes, self.spread(dim))

    def _decode(self, flat: str, axes: Sequence[int], dims: frozenset[str]) -> None:
        """Write the index of every axis, from a row-major index over all of them."""
        among = tuple(axes)
        self.flat[among] = Value(flat, dims)
        used = {a for n in self.kernel.nest.nodes for a in self._indexed(n, among)}
        inner = ONE
        for k, a in reversed(list(enumerate(axes))):
            size = self.kernel.nest.sizes[a]
            if len(axes) == 1:
                self.index[a] = Value(flat, dims)
                return
            text = flat if inner == ONE else f"{flat} // {self.size(inner, atomic=True)}"
            if k:
                text = f"{text} % {self.size(size, atomic=True)}"
            inner = inner * size
            if a in used:
                name = self.names.take(f"i{self.kernel.nest.axes.index(a)}")
                self.say(f"{name} = {text}")
                self.index[a] = Value(name, dims)

    def _indexed(self, n: Node, among: tuple[int, ...]) -> frozenset[int]:
        """Return the axes whose index a node needs, besides the index over all of ``among``."""
        if n.op not in ("Load", "Store", "Iota"):
            return frozenset()
        whole = n.op != "Iota" and self._stride_over(n, among) is not None
        return varies(n) - frozenset(among if whole else ())

    def _stride_over(self, n: Node, axes: tuple[int, ...]) -> Expr | None:
        """Return the step in memory of a Load or Store per step of a row-major index over axes; None if it varies."""
        strides = dict(zip(n.y.axis, n.y.strides, strict=True))
        sizes = dict(zip(n.y.axis, n.y.repeats, strict=True))
        step = want = None
        for a in reversed(axes):
            size = self.kernel.nest.sizes[a]
            if size == ONE:
                continue
            if sizes.get(a) != size or strides[a] == ZERO or want not in (None, strides[a]):
                return None
            step = strides[a] if step is None else step
            want = strides[a] * size
        return step

    # nodes ------------------------------------------------------------------------------------
    def store_all(self) -> None:
        """Write a kernel without reductions."""
        self.need([n.name for n in self.stored])
        for n in self.stored:
            self.store(n)

    def need(self, targets: Sequence[str]) -> None:
        """Write the statements for the nodes that targets need and that are not yet known."""
        for n in walk(self.kernel.nest.nodes, targets, frozenset(self.values)):
            if n.op != "Store":
                self.node(n)

    def node(self, n: Node) -> None:
        """Write the statement of one node."""
        if n.op == "Scalar":
            self.values[n.name] = Value(self._scalar(n), frozenset())
        elif n.op == "Broadcast":
            self.values[n.name] = self.values[n.inputs[0]]
        elif n.op == "Load":
            self._load(n)
        elif n.op in REDUCES:
            x = self.values[n.inputs[0]]
            self.define(n, self.reduced(n, x), x.dims - {COL})
        elif n.op == "Scan":
            self.scan(n)
        elif n.op == "Iota":
            self._iota(n)
        else:
            xs = [self.values[i] for i in n.inputs]
            dtypes = [self.named[i].y.dtype for i in n.inputs]
            dims = frozenset().union(*(x.dims for x in xs))
            narrower = COL in xs[0].dims - xs[-1].dims and bool(xs[-1].dims)
            if n.op == "Div" and n.y.dtype.kind == "f" and narrower and "accuracy" not in n.attrs:
                self._scaled(n, xs[0], xs[1])
                return
            text = TRITON.spell(n.op, [x.text for x in xs], n.attrs, dtypes, n.y.dtype)
            self.define(n, text, dims)

    def scan(self, n: Node) -> None:
        """Write a running sum; only in :class:`RowWriter`, as forms without columns have none."""
        raise AssertionError(f"{n.name} runs along columns, and {self.kernel.form} has none")

    def _scaled(self, n: Node, x: Value, by: Value) -> None:
        """Emit the division of a row by one number as a product with its reciprocal."""
        inverse = self.inverses.get(by.text)
        if inverse is None:
            inverse = self.inverses[by.text] = self.names.take("inverse")
            self.say(f"{inverse} = 1.0 / {by.text}")
        self.define(n, f"{x.text} * {inverse}", x.dims | by.dims)

    def define(self, n: Node, text: str, dims: frozenset[str], base: str = "") -> str:
        """Assign a value; return the node's name in this scope."""
        name = self.names.take(base or n.name)
        self.say(f"{name} = {text}")
        self.values[n.name] = Value(name, dims)
        return name

    def _scalar(self, n: Node) -> str:
        if "expr" in n.attrs:
            return f"tl.cast({self.size(n.size('expr'))}, {TYPES[n.y.dtype.name]})"
        value = n.attrs["value"]
        assert isinstance(value, int | float)
        return literal(value, n.y.dtype)

    def _iota(self, n: Node) -> None:
        (a,) = varies(n) or (None,)
        start, step = n.size("start"), n.size("step")
        kind = TYPES[n.y.dtype.name]
        if a is None:
            self.values[n.name] = Value(f"tl.cast({self.size(start)}, {kind})", frozenset())
            return
        at = self.index[a]
        text = self._times(at, step)
        text = text if start == ZERO else f"{self.size(start)} + {text}"
        self.define(n, f"({text}).to({kind})", at.dims)

    def _offset(self, n: Node) -> tuple[str, frozenset[str]]:
        """Return the offset of the elements of a Load or Store, and the dimensions along which it varies."""
        terms: list[str] = []
        dims: frozenset[str] = frozenset()
        steps = {
            a: s for a, s, r in zip(n.y.axis, n.y.strides, n.y.repeats, strict=True) if r != ONE
        }
        for axes, at in self.flat.items():
            # One product in place of one per axis; and Triton sees what is contiguous, whatever the sizes are.
            if len(axes) > 1 and (step := self._stride_over(n, axes)) is not None:
                terms.append(self._times(at, step))
                dims |= at.dims
                steps = {a: s for a, s in steps.items() if a not in axes}
        for a, stride in steps.items():
            if stride != ZERO:
                terms.append(self._times(self.index[a], stride))
                dims |= self.index[a].dims
        if n.y.offset != ZERO:
            terms.append(self.size(n.y.offset, atomic=True))
        if "extent" in n.attrs:
            index = self.values[n.inputs[1]]
            place = self.names.take("place")
            extent = self.size(n.size("extent"), atomic=True)
            self.say(f"{place} = tl.where({index.text} < 0, {index.text} + {extent}, {index.text})")
            self.say(f"{place} = tl.minimum(tl.maximum({place}, 0), {extent} - 1).to(tl.int64)")
            stride = n.size("stride")
            terms.append(place if stride == ONE else f"{place} * {self.size(stride, atomic=True)}")
            dims |= index.dims
        return " + ".join(terms), dims

    def _times(self, at: Value, stride: Expr) -> str:
        return at.text if stride == ONE else f"{at.text} * {self.size(stride, atomic=True)}"

    def _load(self, n: Node) -> None:
        m = self.kernel.buffers[n.inputs[0]]
        self.memory[m.name] = m
        offset, dims = self._offset(n)
        live = self.live(dims)
        if "inside" in n.attrs:
            place = self.names.take("place")
            self.say(f"{place} = {offset}")
            inside = f"({place} >= 0) & ({place} < {self.size(n.size('inside'), atomic=True)})"
            offset, live = place, f"{live} & {inside}" if live else inside
        place = f"{self.pointer(m)} + {offset}" if offset else self.pointer(m)
        mask = f", mask={live}, other={literal(0, n.y.dtype)}" if live else ""
        self.define(n, f"tl.load({place}{mask})", dims, base=m.name)

    def store(self, n: Node) -> None:
        """Write the Store of a value."""
        m = self.kernel.targets[n.name]
        self.memory[m.name] = m
        offset, dims = self._offset(n)
        x = self.values[n.inputs[0]]
        main = ITEM if self.kernel.form is Form.ITEMS else ROW
        if not dims and main in self.dims:
            # A single element, but the value is a block; its index along rows is 0.
            offset, dims = f"{main} + {offset}" if offset else main, self.spread(main)
        if PART in x.dims - dims:
            # Every block of the cluster has the value, and stores it.
            offset = f"{offset} + 0 * part" if offset else "0 * part"
        place = f"{self.pointer(m)} + {offset}" if offset else self.pointer(m)
        live = self.live(dims)
        self.say(f"tl.store({place}, {x.text}{f', mask={live}' if live else ''})")

    def full(self, x: Value, dims: frozenset[str], dtype: DType) -> str:
        """Return a value broadcast along all of ``dims``."""
        if dims <= x.dims:
            return x.text
        shape = self.shape(sorted(dims))
        if not x.dims and not x.text.isidentifier():
            return f"tl.full({shape}, {x.text}, {TYPES[dtype.name]})"
        return f"tl.broadcast_to({x.text}, {shape})"

    def neutral(self, op: str, x: Value, dtype: DType) -> str:
        """Return a value along columns, with the neutral element of a reduction out of bounds."""
        dims = x.dims | ({COL, PART} & set(self.dims))
        live = self.live(frozenset({COL, *({PART} & set(self.dims))}), among=(COL,))
        text = self.full(x, frozenset(dims), dtype)
        held = accumulator(dtype)
        text = text if held == dtype else f"{text}.to({TYPES[held.name]})"
        return f"tl.where({live}, {text}, {identity(op, dtype)})" if live else text

    def reduced(self, n: Node, x: Value) -> str:
        """Return a reduction over the columns of a block."""
        return self.result(n, self.neutral(n.op, x, self.named[n.inputs[0]].y.dtype))

    def result(self, n: Node, block: str) -> str:
        """Return a block of accumulated values reduced along columns, in the type of the node."""
        dtype = self.named[n.inputs[0]].y.dtype
        text = self.reduce(n.op, block, dtype)
        return text if accumulator(dtype) == n.y.dtype else f"{text}.to({TYPES[n.y.dtype.name]})"

    def reduce(self, op: str, block: str, dtype: DType) -> str:
        """Return a block reduced along columns."""
        return reduction(op, dtype).of(block, self.axis_of(COL), keep_dims=True)

    def combine(self, op: str, a: str, b: str, dtype: DType) -> str:
        """Join two partial results of a reduction."""
        return reduction(op, dtype).joined(a, b)
