"""A backend that writes plain C: a loop nest per node, over plain arrays.

It knows the element-wise families and those that reduce rows.  There is no queue, no address and no barrier in it: the
target (``cpu.toml``) says that local memory is arrays, and how many bytes of them are to be used at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import groupby
from pathlib import Path

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.codegen.backends.interface import Backend, Capabilities, Job, Stage
from autofuse.codegen.ir.extents import Extents, actual_size
from autofuse.implgraph.expr.expression import (
    ZERO,
    Expr,
    FloorDiv,
    Func,
    Min,
    Mod,
    Sym,
    align_up,
    sym,
)
from autofuse.implgraph.expr.parser import parse
from autofuse.implgraph.ir.graph import Axis, AxisType, ImplGraph, Node, TensorView
from autofuse.implgraph.ops.rows.reductions import neutral
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.targets import read_chip

CPU = read_chip("cpu", {"cpu": Path(__file__).with_name("cpu.toml").read_text(encoding="utf-8")})

TYPES = {"float32": "float", "float16": "_Float16", "bool": "uint8_t"}
TYPES |= {f"{u}int{bits}": f"{u}int{bits}_t" for u in ("", "u") for bits in (8, 16, 32, 64)}
#: What a call computes of its operands.
FORMULAS = {
    "Abs": "{0} < 0 ? -{0} : {0}",
    "Add": "{0} + {1}",
    "Cast": "{0}",
    "Div": "{0} / {1}",
    "Duplicate": "{0}",
    "Exp": "expf({0})",
    "Ln": "logf({0})",
    "Maximum": "LARGER({0}, {1})",
    "Minimum": "SMALLER({0}, {1})",
    "Mul": "{0} * {1}",
    "Relu": "LARGER({0}, 0)",
    "Sqrt": "sqrtf({0})",
    "Sub": "{0} - {1}",
}
#: The same with a number, or an element per row, as operand; and moves, whose tensors say where their elements are.
ALIKE = {"Adds": "Add", "Muls": "Mul", "Maxs": "Maximum", "Mins": "Minimum"}
ALIKE |= {f"{op}Row": op for op in ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum")}
ALIKE |= dict.fromkeys(("Broadcast", "UbCopy", "UbTranspose"), "Duplicate")
REDUCES = {"ReduceSum": "Add", "ReduceMax": "Maximum", "ReduceMin": "Minimum", "ReduceProd": "Mul"}

PRELUDE = """\
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#define LARGER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
static int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b > 0); }
static int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t Mod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }
static int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }
"""


def c_text(e: Expr) -> str:
    """An expression of sizes, in int64."""

    def atom(a: Sym | Func) -> str:
        if isinstance(a, Sym):
            return a.name
        first, *others = map(c_text, a.args)
        return reduce(lambda text, x: f"{a.name}({text}, {x})", others, first)

    terms = [
        " * ".join([f"INT64_C({factor})", *(atom(a) for a, k in monomial for _ in range(k))])
        for monomial, factor in e.terms
    ]
    return f"({' + '.join(terms) or '0'})"


def let(name: str, value: Expr) -> str:
    """A constant of the C function."""
    return f"const int64_t {name} = {c_text(value)};"


def loop_head(name: str, end: str) -> str:
    """A loop that is still open."""
    return f"for (int64_t {name} = 0; {name} < {end}; {name}++) {{"


class Template:
    """One ImplGraph as a C function: ``name(symbols..., gm, local, tile)``, and ``name_tile``, which chooses a tile."""

    def __init__(self, impl: ImplGraph, arguments: str) -> None:
        self.impl, self.arguments = impl, arguments
        self.at, self.named = Extents(impl), impl.by_name()
        self.sinks = {i: n for n in impl.nodes if n.op in ("Output", "Workspace") for i in n.inputs}
        #: What all tiles of the kernel are counted by; one core takes them all.
        self.tiles = self.at.axes[self.at.block_out.origin[0]]

    def text(self) -> list[str]:
        """Both functions."""
        spec, t = self.impl.tiling, sym(self.impl.tiling.opened.symbol)
        nodes = [n for n in self.impl.nodes if n.api is not None]
        head = (
            f"static void {self.impl.name}({self.arguments}char **gm, char *local, int64_t {t}) {{"
        )
        out = [*self._chooser(), head, let("tiles", spec.tiles)]
        place = ZERO
        for b in self.impl.buffers:
            out.append(f"char *const buf{b.id} = local + {c_text(place)};")
            place += align_up(b.nbytes, 64)
        once = [n for n in nodes if n.loop_axis is None]
        out += [line for n in once for line in self._node(n)]
        out += [loop_head(self.tiles.name, "tiles"), *self._digits(self.tiles)]
        out += [let(actual_size(self.at.axes[a]), size) for a, size in self.at.tails.items()]
        if not spec.reduce_tiles:
            out.append(self._length())
        for (axis, _), run in groupby(nodes[len(once) :], key=lambda n: (n.loop_axis, n.loop_pass)):
            body = [line for n in run for line in self._node(n)]
            if axis != self.at.block_in.id:
                body = [*self._reduce_loop(self.at.axes[axis]), *body, "}"]
            out += body
        return [*out, "}", "}"]

    def _chooser(self) -> list[str]:
        """The longest tile that is legal and fits; 0 where there is none."""
        spec, t = self.impl.tiling, self.impl.tiling.opened.symbol
        arguments = self.arguments.removesuffix(", ") or "void"
        out = [f"static int64_t {self.impl.name}_tile({arguments}) {{"]
        for c in spec.conditions:
            limits = [] if c.at_least is None else [f"v >= {c.at_least}"]
            limits += [] if c.at_most is None else [f"v <= {c.at_most}"]
            holds = " && ".join([*limits, f"v % {c.multiple_of} == 0"])
            out.append(f"{{ {let('v', c.value)} if (!({holds})) return 0; }}")
        most = (
            spec.opened.longest
            if spec.opened.most is None
            else Min(spec.opened.longest, spec.opened.most)
        )
        fits = f"{c_text(spec.ub)} <= {spec.ub_limit}"
        return [
            *out,
            f"int64_t {t} = Max({c_text(most)}, 1);",
            f"if ({t} == Max({c_text(spec.opened.longest)}, 1) && {fits}) return {t};",
            f"for ({t} -= {t} % {spec.opened.granule}; {t} > 0; {t} = {t} / 2 - {t} / 2 % {spec.opened.granule})",
            f"if ({fits}) return {t};",
            "return 0;",
            "}",
        ]

    def _digits(self, loop: Axis) -> Iterable[str]:
        """The indices of what a loop axis was merged from."""
        rest = sym(loop.name)
        parts = [self.at.axes[a] for a in loop.origin] if loop.type is AxisType.MERGED else []
        for k, part in enumerate(reversed(parts)):
            yield let(part.name, rest if k == len(parts) - 1 else Mod(rest, part.size))
            rest = FloorDiv(rest, part.size)

    def _length(self) -> str:
        spec, t = self.impl.tiling, sym(self.impl.tiling.opened.symbol)
        return let(
            self.at.actual_name(), Min(t, spec.opened.extent - sym(self.at.tile_out.name) * t)
        )

    def _reduce_loop(self, loop: Axis) -> list[str]:
        head = loop_head(loop.name, c_text(self.at.of(loop.id, False)))
        return [head, *self._digits(loop), *[self._length()] * self.impl.tiling.reduce_tiles]

    # nodes ------------------------------------------------------------------------------------
    def _node(self, n: Node) -> list[str]:
        """The loops of a node; a reduction fills its result with the neutral value first."""
        around = self.impl.tiling.reduce_tiles and n.loop_axis == self.at.block_in.id
        whole = around or n.loop_axis is None
        sources = [self.named[x] for x in n.inputs]
        if n.op in ("Load", "Store"):
            if len(n.inputs) > 1:
                raise unavailable(n)
            there = self._in_gm(n)
            here = self._element(sources[0] if n.op == "Store" else n)
            copy = f"{there} = {here};" if n.op == "Store" else f"{here} = {there};"
            return self._loops(n.y.vectorized_axis, copy, whole=whole)
        target = self._element(n)
        axes = list(n.y.vectorized_axis)
        axes += [a for x in sources for a in x.y.vectorized_axis if a not in axes]
        operands = [self._operand(x) for x in sources]
        if n.op in REDUCES:
            first = f"{target} = {number(neutral(n.op, n.y.dtype))};"
            formula = FORMULAS[REDUCES[n.op]].format(target, operands[0])
            fill = self._loops(n.y.vectorized_axis, first, whole=whole)
            return [*fill, *self._loops(axes, f"{target} = {formula};", whole=whole)]
        op = ALIKE.get(n.op, n.op)
        lossy = op == "Cast" and sources[0].y.dtype.kind == "f" and n.y.dtype.kind != "f"
        if op not in FORMULAS or lossy:
            raise unavailable(n)
        return self._loops(axes, f"{target} = {FORMULAS[op].format(*operands)};", whole=whole)

    def _loops(self, axes: Sequence[int], body: str, *, whole: bool) -> list[str]:
        heads = [loop_head(f"i{a}", c_text(self.at.of(a, whole))) for a in axes]
        return [*heads, body, "}" * len(heads)]

    def _operand(self, x: Node) -> str:
        if x.op != "Scalar":
            return self._element(x)
        if x.attrs.get("expr"):
            return f"({ctype(x)}){c_text(parse(str(x.attrs['expr'])))}"
        if "value" not in x.attrs:
            raise unavailable(x)
        return f"({ctype(x)}){number(x.attrs['value'])}"

    def _element(self, n: Node) -> str:
        """An element of the array of a result."""
        at = ZERO
        for a, pitch in zip(n.y.vectorized_axis, n.y.vectorized_strides, strict=True):
            at += pitch * sym(f"i{a}")
        return f"(({ctype(n)} *)buf{n.y.buf})[{c_text(at)}]"

    def _in_gm(self, n: Node) -> str:
        end = self.named[n.inputs[0]] if n.op == "Load" else self.sinks[n.name]
        assert end.y.mem is not None
        base = "gm[WORKSPACE]" if end.op == "Workspace" else f"gm[{end.y.mem.tensor_id}]"
        first = c_text(parse(str(end.attrs.get("offset", 0))))
        return f"(({ctype(n)} *)({base} + {first}))[{c_text(self._place(n.y))}]"

    def _place(self, y: TensorView) -> Expr:
        at = y.offset
        for a, s, r in zip(y.axis, y.strides, y.repeats, strict=True):
            if r.number == 1 or a == self.at.block_out.id:
                continue
            if a == self.at.block_in.id:  # the number of the tile holds both
                at += s * sym(self.at.tile_out.name)
            else:
                at += s * sym(f"i{a}" if a in y.vectorized_axis else self.at.axes[a].name)
        return at


def number(value: object) -> str:
    """A literal."""
    return repr(value).replace("inf", "INFINITY")


def ctype(n: Node) -> str:
    """The C type of the elements of a result."""
    if n.y.dtype.name not in TYPES:
        raise unavailable(n)
    return TYPES[n.y.dtype.name]


def unavailable(n: Node) -> AutofuseError:
    """What this backend cannot write."""
    text = f"{n.op} on {n.y.dtype} is not available in plain C"
    return AutofuseError.of("AF3001", text, where=Where(pointer=n.origin, node=n.name))


def emit(job: Job, schedule: tuple[ScheduleResult, ...]) -> dict[str, str]:
    """``<g>.c``: ``int <g>(symbols..., char **tensors)``, 0 if there was a legal tile for every group."""
    symbols = [s.name for s in job.graph.symbols]
    arguments = "".join(f"int64_t {s}, " for s in symbols)
    values = "".join(f"{s}, " for s in symbols)
    count = len(job.graph.inputs) + len(job.graph.outputs)
    out = [PRELUDE, f"enum {{ WORKSPACE = {count} }};"]
    entry = [f"int {job.graph.name}({arguments}char **tensors) {{", f"char *gm[{count + 1}];"]
    entry.append(f"for (int i = 0; i < {count}; i++) gm[i] = tensors[i];")
    for r in schedule:
        legal, calls = [], []
        for g in r.groups:
            tile = f"tile{r.index}_{g.index}"
            entry.append(f"int64_t {tile} = 0; int key{tile} = -1;")
            for k, impl in enumerate(g.impls):
                out += Template(impl, arguments).text()
                choose = f"{impl.name}_tile({values.removesuffix(', ')})"
                entry.append(f"if ({tile} == 0 && ({tile} = {choose})) key{tile} = {k};")
                run = f"{impl.name}({values}gm, local, {tile});"
                calls.append(f"if (key{tile} == {k}) {run}")
            legal.append(f"{tile} > 0")
        room = job.target.ub_usable + 64 * max(len(i.buffers) for g in r.groups for i in g.impls)
        space = align_up(workspace_bytes(r.hint, job.target), 64) + 64
        entry.append(f"if ({' && '.join(legal)}) {{ char *local = aligned_alloc(64, {room});")
        entry += [f"gm[WORKSPACE] = aligned_alloc(64, {c_text(space)});", *calls]
        entry += ["free(local);", "free(gm[WORKSPACE]);", "return 0;", "}"]
    return {f"{job.graph.name}.c": "\n".join([*out, *entry, "return 1;", "}"]) + "\n"}


class PlainC(Backend):
    """Kernels in C; nothing lies between the schedule and the text."""

    name = "plain_c"
    capabilities = Capabilities(
        ("call",), queues=False, families=frozenset({"general", "row", "reduce", "reduce_all"})
    )

    def stages(self, job: Job) -> Sequence[Stage]:
        return [("emit", lambda schedule: emit(job, schedule))]


BACKEND = PlainC()
