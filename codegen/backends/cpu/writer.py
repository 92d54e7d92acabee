"""Common parts of all forms of a function: loops, loads and stores, and a statement per node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from autofuse.codegen.backends.cpu.cpp_text import CppNames, size_text
from autofuse.codegen.backends.cpu.loops import Form, Loops
from autofuse.codegen.backends.cpu.ops.reductions import accumulator, first, reduction
from autofuse.codegen.backends.cpu.ops.spelling import CPP, TYPES, literal, stored
from autofuse.codegen.nests.language import bare
from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import varies, walk
from autofuse.implgraph.expr.expression import ONE, ZERO, Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.graph import Node

__all__ = ["Writer"]

#: Elements from which starting threads pays off.
_SHARED = 1 << 15
#: Divides the sum of a mean: from the unrounded total, so that it rounds once.
_ONE_ROUNDING = frozenset({"Div", "Mul"})


@dataclass
class Writer:
    """Writer of one function, statement by statement."""

    loops: Loops
    symbols: Mapping[str, str]
    buffers: Mapping[str, Memory]
    targets: Mapping[str, Memory]
    #: Products and sums must round separately.
    exact: bool = False
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    memory: dict[str, Memory] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    sizes: dict[str, None] = field(default_factory=dict)
    headers: dict[str, None] = field(default_factory=dict)
    #: Node -> text of its value in this scope.
    values: dict[str, str] = field(default_factory=dict)
    #: Reduction -> text of its ``double``.
    totals: dict[str, str] = field(default_factory=dict)
    #: Axis -> its index.
    index: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nest = self.nest = self.loops.nest
        self.names = CppNames(self.symbols.values())
        self.named = nest.by_name()
        self.stores = [n for n in nest.nodes if n.op == "Store"]
        found = {}
        for n in nest.nodes:
            if n.op == "Load":
                found[self.buffers[n.inputs[0]].name] = self.buffers[n.inputs[0]]
            elif n.op == "Store":
                found[self.targets[n.name].name] = self.targets[n.name]
                self.written.add(self.targets[n.name].name)
        self.memory = found
        for name in found:
            self.names.take(name)
        #: Axis -> its loop variable.
        self.variables = {a: self.names.take(f"i{k}") for k, a in enumerate(nest.axes)}

    # pieces of text ---------------------------------------------------------------------------
    def say(self, text: str) -> None:
        """Write one line."""
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """Open a block; values computed in it are unknown after it."""
        self.say(f"{head} {{" if head else "{")
        self.indent += 1
        values, index = dict(self.values), dict(self.index)
        with self.names.block():
            yield
        self.values, self.index = values, index
        self.indent -= 1
        self.say("}")

    def size(self, e: Expr, *, atomic: bool = False) -> str:
        """Return a size, and register its symbols as parameters."""
        for name in self.symbols:
            if name in e.symbols():
                self.sizes[name] = None
        return size_text(e, self.symbols, atomic=atomic)

    @contextmanager
    def loop(self, axis: int, *, backwards: bool = False) -> Iterator[None]:
        """Open a loop along an axis; none for size 1."""
        size = self.nest.sizes[axis]
        if size == ONE:
            with nullcontext():
                yield
            return
        i = self.variables[axis]
        head = f"for (int64_t {i} = 0; {i} < {self.size(size)}; ++{i})"
        if backwards:
            head = f"for (int64_t {i} = {self.size(size)} - 1; {i} >= 0; --{i})"
        with self.inside(head):
            self.index[axis] = i
            yield

    @contextmanager
    def nested(self, axes: Sequence[int], *, backwards: bool = False) -> Iterator[None]:
        """Open loops along axes, the outermost first."""
        if not axes:
            yield
            return
        with self.loop(axes[0], backwards=backwards), self.nested(axes[1:], backwards=backwards):
            yield

    def long(self, axes: Iterable[int]) -> list[int]:
        """Return the axes that have a loop."""
        return [a for a in axes if self.nest.sizes[a] != ONE]

    def share(self, directive: str, loops: int, clauses: str = "") -> bool:
        """Write an OpenMP directive for loops that threads share; return False if there is too little work.

        Args:
            directive: ``parallel for``, or a combined directive.
            loops: number of nested loops that it covers.
            clauses: additional clauses.
        """
        work = self.nest.count(self.nest.axes)
        if loops == 0 or (work.is_const and work.value < _SHARED):
            return False
        text = f"#pragma omp {directive}"
        text += f" collapse({loops})" if loops > 1 else ""
        text += clauses + " schedule(static)"
        if not work.is_const:
            text += f" if ({self.size(work, atomic=True)} >= {_SHARED})"
        self.say(text)
        return True

    # nodes ------------------------------------------------------------------------------------
    def needed(self, targets: Sequence[str]) -> list[Node]:
        """Return the nodes that ``targets`` need and that are not yet known, in execution order, without Stores."""
        found = walk(self.nest.nodes, targets, frozenset(self.values))
        return [n for n in found if n.op != "Store"]

    def emit(self, nodes: Iterable[Node]) -> None:
        """Write the statements of nodes."""
        for n in nodes:
            if n.name not in self.values:
                self.node(n)

    def node(self, n: Node) -> None:
        """Write the statement of one node, if it needs one."""
        if n.op == "Scalar":
            self.values[n.name] = self._scalar(n)
        elif n.op == "Broadcast":
            self.values[n.name] = self.values[n.inputs[0]]
        elif n.op == "Load":
            m = self.buffers[n.inputs[0]]
            self.define(n, self.read(m, f"{m.name}[{self.offset(n)}]"), base=f"{m.name}_value")
        elif n.op == "Iota":
            self._iota(n)
        else:
            dtypes = [self.named[i].y.dtype for i in n.inputs]
            held = self.totals if n.op in _ONE_ROUNDING else {}
            args = [held.get(i, self.values[i]) for i in n.inputs]
            self.define(n, CPP.spell(n.op, args, dtypes, n.y.dtype))

    def define(self, n: Node, text: str, base: str = "") -> None:
        """Define a constant with the value of a node."""
        name = self.names.take(base or n.name)
        self.say(f"const {TYPES[n.y.dtype.name]} {name} = {bare(text)};")
        self.values[n.name] = name

    def _scalar(self, n: Node) -> str:
        if "expr" in n.attrs:
            return f"static_cast<{TYPES[n.y.dtype.name]}>({self.size(n.size('expr'))})"
        value = n.attrs["value"]
        assert isinstance(value, int | float)
        return literal(value, n.y.dtype)

    def _iota(self, n: Node) -> None:
        (a,) = varies(n) or (None,)
        start, step = n.size("start"), n.size("step")
        text = self.size(start)
        if a is not None and a in self.index:
            i = self.index[a]
            text = i if step == ONE else f"{i} * {self.size(step, atomic=True)}"
            text = text if start == ZERO else f"{self.size(start)} + {text}"
        self.define(n, f"static_cast<{TYPES[n.y.dtype.name]}>({text})")

    def offset(self, n: Node) -> str:
        """Return the offset of the element that a Load or Store accesses."""
        terms: list[str] = []
        for a, stride, repeat in zip(n.y.axis, n.y.strides, n.y.repeats, strict=True):
            if repeat == ONE or stride == ZERO:
                continue
            i = self.index[a]
            terms.append(i if stride == ONE else f"{i} * {self.size(stride, atomic=True)}")
        if n.y.offset != ZERO:
            terms.append(self.size(n.y.offset, atomic=True))
        if "extent" in n.attrs:
            terms.append(self._place(n))
        return " + ".join(terms) or "0"

    def _place(self, n: Node) -> str:
        """Return the part of the offset that an index tensor gives: wrapped if negative, then clamped in-bounds."""
        extent = self.size(n.size("extent"), atomic=True)
        at, place = self.names.take("at"), self.names.take("place")
        self.include("algorithm")
        self.say(f"const int64_t {at} = static_cast<int64_t>({self.values[n.inputs[1]]});")
        self.say(
            f"const int64_t {place} = "
            f"std::clamp<int64_t>({at} < 0 ? {at} + {extent} : {at}, 0, {extent} - 1);"
        )
        stride = n.size("stride")
        return place if stride == ONE else f"{place} * {self.size(stride, atomic=True)}"

    def read(self, m: Memory, element: str) -> str:
        """Return the value of an element of memory."""
        return f"{element} != 0" if m.dtype.kind == "b" else element

    def store(self, n: Node) -> None:
        """Write the Store of a value."""
        self.say(f"{self.targets[n.name].name}[{self.offset(n)}] = {self.values[n.inputs[0]]};")

    def include(self, header: str) -> None:
        """Include an optional header of the C++ library."""
        self.headers[header] = None

    # reductions -------------------------------------------------------------------------------
    def accumulate(self, n: Node, into: str, value: str = "") -> None:
        """Write a step of a reduction, with the current value of its operand or another one."""
        how = reduction(n.op, self.named[n.inputs[0]].y.dtype)
        self.say(how.step.format(a=into, x=value or self.values[n.inputs[0]]))

    def scan(self, n: Node, total: str) -> None:
        """Write a step of a running sum, and define its value."""
        x = self.values[n.inputs[0]]
        if not n.attrs["exclusive"]:
            self.say(f"{total} += {x};")
        self.define(n, self.result(n, total))
        if n.attrs["exclusive"]:
            self.say(f"{total} += {x};")

    def result(self, n: Node, text: str) -> str:
        """Return the value of a reduction or running sum in its own type, from an accumulator."""
        if self.accumulated(n) == TYPES[n.y.dtype.name]:
            return text
        return f"static_cast<{TYPES[n.y.dtype.name]}>({text})"

    def reduced(self, n: Node, text: str) -> None:
        """Set the value of a reduction to that of an accumulator."""
        self.values[n.name] = self.result(n, text)
        if self.accumulated(n) == "double" and not self.exact:
            self.totals[n.name] = text

    def accumulated(self, n: Node) -> str:
        """Return the accumulator type of a reduction or running sum."""
        return accumulator(*self._summed(n))

    def start(self, n: Node) -> str:
        """Return the initial value of the accumulator of a node."""
        return first(*self._summed(n))

    def _summed(self, n: Node) -> tuple[str, DType, bool]:
        """Return the op of a reduction or running sum, its element type, and whether one result takes many elements."""
        count = self.nest.count(self.nest.cols)
        few = self._by_lanes and count.is_const and count.value <= self.loops.run
        return n.op, self.named[n.inputs[0]].y.dtype, n.op == "Scan" or not few

    def in_parts(self, n: Node) -> bool:
        """Return True if the accumulator of a sum takes partial sums, one for each run of elements.

        Products do not: the rounding errors of their parts would add up.
        """
        return n.op == "ReduceSum" and self.accumulated(n) == "double"

    def part(self, n: Node) -> tuple[str, str]:
        """Return the type of a part of such a reduction, and its initial value."""
        dtype = self.named[n.inputs[0]].y.dtype
        if not self._by_lanes:
            return "simd::part", first(n.op, dtype, False)
        return accumulator(n.op, dtype, False), first(n.op, dtype, False)

    @property
    def _by_lanes(self) -> bool:
        """Return True if each lane has its own sum."""
        return self.loops.form in (Form.COLUMNS, Form.TURNED)

    def clauses(self, accumulators: Mapping[str, Node]) -> str:
        """Return the reduction clauses for accumulators by name."""
        found: dict[str, list[str]] = {}
        for name, n in accumulators.items():
            how = reduction(n.op, self.named[n.inputs[0]].y.dtype)
            found.setdefault(how.clause, []).append(name)
        return "".join(f" reduction({how} : {', '.join(names)})" for how, names in found.items())

    def parameters(self) -> list[str]:
        """Return the parameters of the function: pointers, then sizes."""
        pointers = [
            f"{'' if name in self.written else 'const '}{stored(m.dtype)}* __restrict {name}"
            for name, m in self.memory.items()
        ]
        return [*pointers, *(f"int64_t {self.symbols[s]}" for s in self.sizes)]
