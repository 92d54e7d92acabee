"""Random FusionGraphs of every op, dtype and kind of shape.

Everything is drawn from a ``random.Random``: a plain one makes volume, one from hypothesis
(``st.randoms(use_true_random=False)``) shrinks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import Expr, const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.definition import OpError
from autofuse.implgraph.ops.infer import infer_node, operand_dtypes
from autofuse.implgraph.ops.registry import lookup

SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200)
LARGE = (255, 256, 257, 1000, 2047, 2048, 4095, 4096, 4097, 8200, 20_000)
WIDE = ("float32", "float16", "bfloat16", "int32", "int16", "bool", "int8", "uint8", "int64")

UNARY = ("Abs", "Exp", "Ln", "Sqrt", "Relu", "Tanh", "Erf", "Sin", "Cos", "Rsqrt", "Reciprocal")
UNARY += ("Sigmoid", "Square", "Floor", "Ceil", "Round", "Trunc", "Neg", "Identity", "LogicalNot")
EASY_UNARY = ("Abs", "Relu", "Neg", "Identity", "Square", "Floor", "Tanh", "Sigmoid")
BINARY = ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum", "Pow")
COMPARE = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
LOGICAL = ("LogicalAnd", "LogicalOr")
#: Steps of a graph, the frequent ones several times.
KINDS = ("unary", "unary", "binary", "binary", "binary", "binary", "compare", "select", "logical")
KINDS += ("cast", "cast", "broadcast", "reshape", "addn", "truth")
#: Further steps, where ``Options.moves`` allows them.
MOVES = ("reduce", "reduce", "reduce", "transpose", "slice", "concat", "pad", "iota", "composed")
MOVES += ("reduce", "cumsum", "gather")
REDUCE = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd")
#: Codes with which a legal graph may be refused.
REFUSALS = frozenset({"AF2101", "AF2102", "AF3001", "AF3002", "AF3003", "AF3004"})

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Options:
    """What graphs may contain."""

    max_elements: int = 40_000
    max_rank: int = 5
    max_ops: int = 14
    max_inputs: int = 6
    dtypes: tuple[str, ...] = WIDE
    strides: bool = True
    inout: bool = True
    zero: bool = True
    moves: bool = False


@dataclass
class GraphMaker:
    """A graph under construction."""

    rng: Random
    options: Options = field(default_factory=Options)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    nodes: list[FusionNode] = field(default_factory=list)

    def chance(self, percent: int) -> bool:
        return self.rng.randint(0, 99) < percent

    # shapes -----------------------------------------------------------------------------------
    def full_shape(self) -> Shape:
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5))
        rank = min(rank, self.options.max_rank)
        shape: list[int] = []
        left = self.options.max_elements
        for _ in range(rank):
            pool = LARGE if self.chance(6) else SIZES
            fitting = [s for s in pool if s <= left] or [1]
            shape.append(self.rng.choice(fitting))
            left //= shape[-1]
        self.rng.shuffle(shape)
        if shape and self.options.zero and self.chance(2):
            shape[self.rng.randrange(len(shape))] = 0
        return tuple(shape)

    def narrower(self, shape: Shape) -> Shape:
        """A shape that broadcasts to ``shape``."""
        kind = self.rng.randint(0, 5)
        if kind == 0:
            return self.rng.choice(((), (1,), tuple(1 for _ in shape)))
        if kind == 1 and shape:  # varies along one axis only
            k = self.rng.randrange(len(shape))
            out = tuple(s if i == k else 1 for i, s in enumerate(shape))
        elif kind == 2 and shape:  # all but one
            k = self.rng.randrange(len(shape))
            out = tuple(1 if i == k else s for i, s in enumerate(shape))
        else:
            out = tuple(1 if self.chance(45) else s for s in shape)
        lead = 0
        while lead < len(out) and out[lead] == 1 and self.chance(50):
            lead += 1
        return out[lead:]

    def reshaped(self, shape: Shape) -> Shape:
        """Another shape with as many elements."""
        out = list(shape)
        for _ in range(self.rng.randint(1, 3)):
            kind = self.rng.randint(0, 3)
            if kind == 0 and len(out) > 1:
                k = self.rng.randrange(len(out) - 1)
                out[k : k + 2] = [out[k] * out[k + 1]]
            elif kind == 1 and out:
                k = self.rng.randrange(len(out))
                parts = [d for d in (2, 3, 4, 5, 8, 16) if out[k] % d == 0 and out[k] > d]
                if parts:
                    d = self.rng.choice(parts)
                    out[k : k + 1] = [d, out[k] // d] if self.chance(50) else [out[k] // d, d]
            elif kind == 2:
                out.insert(self.rng.randint(0, len(out)), 1)
            elif 1 in out:
                out.remove(1)
        return tuple(out)

    # parts ------------------------------------------------------------------------------------
    def add_input(self, dtype: DType, shape: Shape, *, scalar: bool = False) -> str:
        name = f"x{len(self.inputs)}"
        strides: tuple[Expr, ...] | None = None
        offset: Expr | None = None
        if self.options.strides and shape and not scalar and self.chance(8):
            steps = [1]
            for s in reversed(shape[1:]):
                steps.append(steps[-1] * max(s, 1) + self.rng.choice((0, 0, 1, 3, 8)))
            strides = tuple(const(s) for s in reversed(steps))
            offset = const(self.rng.choice((0, 1, 5, 16)))
        dims = tuple(const(s) for s in shape)
        self.tensors[name] = Tensor(name, dtype, dims, strides, offset, scalar)
        self.inputs.append(name)
        return name

    def add(
        self, op: str, operands: list[str | Constant], attrs: dict[str, Any] | None = None
    ) -> str:
        """Name of the result; empty if the op does not take these operands."""
        values = [o if isinstance(o, Constant) else self.tensors[o] for o in operands]
        try:
            dtype, shape = infer_node(lookup(op), values, attrs or {})
            given = operand_dtypes(values)
        except (OpError, OverflowError, ValueError):
            return ""
        total = math.prod(s.value for s in shape)
        if total > 4 * self.options.max_elements:
            return ""
        for o, d in zip(operands, given, strict=True):
            if isinstance(o, Constant) and not _fits(o.value, d):
                return ""
        name = f"t{len(self.nodes)}"
        self.tensors[name] = Tensor(name, dtype, shape)
        node = f"{op.lower()}_{len(self.nodes)}"
        at = f"/nodes/{len(self.nodes)}"
        self.nodes.append(FusionNode(node, op, tuple(operands), (name,), attrs or {}, at))
        return name

    def named(self, dtype: DType | None = None, kinds: str = "") -> list[str]:
        """Tensors of a dtype, or of dtypes of some kinds; later ones more often."""
        found = [
            t.name
            for t in self.tensors.values()
            if (dtype is None or t.dtype is dtype) and (not kinds or t.dtype.kind in kinds)
        ]
        return found + found[-3:]

    def constant(self, dtype: DType) -> Constant:
        rng = self.rng
        if dtype.kind == "f":
            pool = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 1e-5, 0.1, 4.0, 100.0)
            odd = (math.inf, -math.inf, math.nan)
            value: float | int | bool = rng.choice(odd) if self.chance(8) else rng.choice(pool)
            if self.chance(20):
                value = rng.choice((0, 1, 2, 3, -1, 7))
        elif dtype.kind == "b":
            value = self.chance(50)
        else:
            value = rng.choice((0, 1, 2, 3, 5, 7, 100) + ((-1, -3) if dtype.kind == "i" else ()))
        return Constant(value, dtype if self.chance(20) else None)

    def operand(self, like: str) -> str | Constant:
        """A second operand beside ``like``: same dtype, broadcastable shape wherever there is one."""
        t = self.tensors[like]
        if self.chance(18):
            return self.constant(t.dtype)
        if self.chance(5):
            return like
        shape = _shape(t)
        found = [n for n in self.named(t.dtype) if _broadcasts(shape, _shape(self.tensors[n]))]
        other = [n for n in found if n != like]
        if other and self.chance(85):
            return self.rng.choice(other)
        if len(self.inputs) < 4 * self.options.max_inputs and self.chance(60):
            return self.add_input(t.dtype, self.narrower(shape) if self.chance(70) else shape)
        return self.constant(t.dtype)

    def step(self) -> None:
        """Try to add one op."""
        rng = self.rng
        kind = rng.choice(KINDS + 2 * MOVES if self.options.moves else KINDS)
        any_of = self.named()
        if kind in MOVES:
            self.move(kind, rng.choice(any_of))
        elif kind == "unary":
            floats = self.named(kinds="f") or any_of
            op = rng.choice(EASY_UNARY) if self.chance(60) else rng.choice(UNARY)
            self.add(op, [rng.choice(floats)])
        elif kind in ("binary", "compare"):
            pool = self.named(kinds="fiu") or any_of
            a = rng.choice(pool if kind == "binary" or self.chance(80) else any_of)
            b = self.operand(a)
            op = rng.choice(BINARY if kind == "binary" else COMPARE)
            if op == "Pow" and (isinstance(b, str) or not self.chance(50)):
                op = "Mul"
            self.add(op, [a, b] if self.chance(60) else [b, a])
        elif kind == "select":
            bools = self.named(BY_NAME["bool"])
            if not bools:
                return
            cond = rng.choice(bools)
            a = rng.choice(any_of)
            b = self.operand(a)
            self.add("Select", [cond, a, b] if self.chance(60) else [cond, b, a])
        elif kind in ("logical", "truth"):
            bools = self.named(BY_NAME["bool"])
            if not bools or kind == "truth":
                a = rng.choice(any_of)
                self.add(rng.choice(COMPARE), [a, self.operand(a)])
                return
            a = rng.choice(bools)
            self.add(rng.choice(LOGICAL), [a, self.operand(a)])
        elif kind == "cast":
            a, to = rng.choice(any_of), BY_NAME[rng.choice(self.options.dtypes)]
            if not _narrows(self.tensors[a].dtype, to):
                self.add("Cast", [a], {"dtype": to.name})
        elif kind == "broadcast":
            a = rng.choice(any_of)
            want = _shape(self.tensors[rng.choice(any_of)])
            self.add("Broadcast", [a], {"shape": tuple(map(const, want))})
        elif kind == "reshape":
            a = rng.choice(any_of)
            want = self.reshaped(_shape(self.tensors[a]))
            self.add("Reshape", [a], {"shape": tuple(map(const, want))})
        else:
            a = rng.choice(self.named(kinds="fiu") or any_of)
            self.add("AddN", [a, *(self.operand(a) for _ in range(rng.randint(0, 4)))])

    def move(self, kind: str, x: str) -> None:
        """A reduction, or an op that puts elements elsewhere."""
        rng, t = self.rng, self.tensors[x]
        shape = _shape(t)
        rank = len(shape)
        if rank == 0:
            return
        if kind == "reduce":
            self.reduction(x, rank)
        elif kind == "composed":
            op = rng.choice(("Softmax", "LogSoftmax", "ArgMax", "ArgMin"))
            self.add(op, [x], {"axis": rng.randrange(rank)})
        elif kind == "transpose":
            perm = list(range(rank))
            rng.shuffle(perm)
            self.add("Transpose", [x], {"perm": tuple(perm)})
        elif kind == "iota":
            dtype = rng.choice(("float32", "int32"))
            attrs = {"shape": t.shape, "axis": rng.randrange(rank), "dtype": dtype}
            self.add("Iota", [], attrs)
        elif kind == "pad":
            low, high = (tuple(const(rng.choice((0, 0, 1, 3))) for _ in shape) for _ in range(2))
            self.add("Pad", [x], {"low": low, "high": high, "value": rng.choice((0.0, 1.0))})
        elif kind == "slice" and 0 not in shape:
            self.slice(x, shape)
        elif kind == "cumsum" and t.dtype.kind != "b":
            flags = {"exclusive": self.chance(40), "reverse": self.chance(40)}
            self.add("CumSum", [x], {"axis": rng.randrange(rank), **flags})
        elif kind == "gather":
            places = self.named(BY_NAME["int32"])
            axis = rng.randrange(rank)
            if places and shape[axis]:
                self.add("Gather", [x, rng.choice(places)], {"axis": axis})
        elif kind == "concat":
            axis = rng.randrange(rank)
            found = [
                n
                for n in self.named(t.dtype)
                if _shape(self.tensors[n])[:axis] == shape[:axis]
                and _shape(self.tensors[n])[axis + 1 :] == shape[axis + 1 :]
                and len(_shape(self.tensors[n])) == rank
            ]
            more = [rng.choice(found) for _ in range(rng.randint(1, 2))]
            self.add("Concat", [x, *more], {"axis": axis})

    def reduction(self, x: str, rank: int) -> None:
        """A reduction; half of them are brought back to what was reduced."""
        axes = tuple(self.rng.sample(range(rank), self.rng.randint(1, rank)))
        if self.tensors[x].dtype.kind == "b":
            op = self.rng.choice(("ReduceAny", "ReduceAll"))
        else:
            op = self.rng.choice(REDUCE if self.chance(40) else REDUCE[:3])
        keep = self.chance(50)
        y = self.add(op, [x], {"axes": axes, "keepdims": keep})
        if y and keep:
            self.add(self.rng.choice(("Sub", "Add", "Maximum")), [x, y])

    def slice(self, x: str, shape: Shape) -> None:
        """A regular part."""
        starts, sizes, steps = [], [], []
        for n in shape:
            step = self.rng.choice((1, 1, 1, 2, 3, -1))
            whole = self.chance(40)
            count = n if whole else self.rng.randint(1, -(-n // abs(step)))
            step = 1 if whole else step
            reach = (count - 1) * abs(step)
            first = self.rng.randint(0, n - 1 - reach)
            starts.append(const(first + reach if step < 0 else first))
            sizes.append(const(count))
            steps.append(step)
        attrs = {"starts": tuple(starts), "shape": tuple(sizes), "steps": tuple(steps)}
        self.add("Slice", [x], attrs)

    # graph ------------------------------------------------------------------------------------
    def graph(self, name: str = "g") -> FusionGraph:
        """The graph."""
        rng, options = self.rng, self.options
        full = self.full_shape()
        palette = [
            rng.choice(options.dtypes[:2]) if self.chance(55) else rng.choice(options.dtypes)
        ]
        palette += [rng.choice(options.dtypes) for _ in range(rng.randint(0, 2))]
        many = self.chance(6)
        for _ in range(rng.randint(8, 14) if many else rng.randint(1, options.max_inputs // 2 + 1)):
            dtype = BY_NAME[rng.choice(palette)]
            if self.chance(8):
                self.add_input(dtype, rng.choice(((), (1,))), scalar=True)
            else:
                self.add_input(dtype, full if self.chance(50) else self.narrower(full))
        wanted = rng.randint(1, options.max_ops)
        for _ in range(3 * wanted):
            if len(self.nodes) >= wanted:
                break
            self.step()
        if many:
            self._use_all()
        return FusionGraph(
            name, (), tuple(self.inputs), tuple(self.nodes), self._outputs(), self.tensors
        )

    def _use_all(self) -> None:
        """Uses every input twice, far apart: all of them are alive at once."""
        for _ in range(2):
            total = self.inputs[0]
            for n in self.inputs[1:]:
                if self.tensors[n].dtype is self.tensors[total].dtype:
                    total = self.add(self.rng.choice(("Add", "Maximum")), [total, n]) or total

    def _outputs(self) -> tuple[GraphOutput, ...]:
        rng = self.rng
        names = list(self.tensors)
        count = rng.choice((1, 1, 1, 2, 2, 3, 4, 6, 9))
        picked = [names[-1]]
        for _ in range(count - 1):
            pool = names[-6:] if self.chance(70) else names
            picked.append(rng.choice(pool))
        if not self.chance(10):
            picked = list(dict.fromkeys(picked))
        taken: set[str] = set()
        out: list[GraphOutput] = []
        for i, t in enumerate(picked):
            inout = None
            if self.options.inout and self.chance(6):
                same = [
                    x
                    for x in self.inputs
                    if x not in taken
                    and _shape(self.tensors[x]) == _shape(self.tensors[t])
                    and self.tensors[x].dtype is self.tensors[t].dtype
                    and not self.tensors[x].scalar
                ]
                if same:
                    inout = rng.choice(same)
                    taken.add(inout)
            out.append(GraphOutput(f"o{i}", t, inout))
        return tuple(out)


def _shape(t: Tensor) -> Shape:
    return tuple(s.value for s in t.shape)


def _narrows(have: DType, to: DType) -> bool:
    """True between integers where values may not fit: the chip saturates, NumPy wraps."""
    if have.kind not in "iu" or to.kind not in "iu":
        return False
    return to.bits < have.bits or (to.bits == have.bits and to.kind != have.kind) or to.kind == "u"


def _broadcasts(a: Shape, b: Shape) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(x == y or 1 in (x, y) for x, y in pairs)


def _fits(value: float | int | bool, d: DType) -> bool:
    if d.kind == "f":
        return True
    if not math.isfinite(value):
        return False
    if d.kind == "b":
        return value in (0, 1)
    low = -(1 << (d.bits - 1)) if d.kind == "i" else 0
    return value == int(value) and low <= value < (1 << (d.bits - (d.kind == "i")))


def random_graph(rng: Random, name: str = "g", options: Options | None = None) -> FusionGraph:
    """A random graph."""
    return GraphMaker(rng, options or Options()).graph(name)


def refused(e: AutofuseError) -> bool:
    """True if the error is one that a legal graph may meet."""
    return {d.code for d in e.diagnostics} <= REFUSALS
