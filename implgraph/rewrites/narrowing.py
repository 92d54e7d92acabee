"""Integer arithmetic in the narrowest type that is exact: 64 bits in int32, and both in float32.

The chips compare float32 in one call, int32 in one to three, and compute 64-bit integers in dozens of calls on pairs of
words.  Frontends nevertheless write indices in 64 bits.  Where intervals
(:mod:`autofuse.implgraph.rewrites.value_ranges`) show that no number is too large, a chain of nodes is computed in the
narrower type.  Results that leave the chain in their own type are cast once, at the end.

The narrow form of an integer tensor ``x`` is ``r(x)``: in int32 the number itself, in float32 the number rounded to
nearest.  The rewriting relies on three facts:

* Integers of magnitude at most 2^24 are exact in float32, so sums and products with such operands and results are the
  same.  Sums of many elements are exact if the sum of absolute values is bounded by 2^24.
* ``r`` is monotone, so it commutes with moves, Select, Maximum and Minimum for any numbers.
* Let abs(c) < 2^24.  Then c - 1, c and c + 1 are floats, and x < c means r(x) <= r(c - 1) = c - 1 < c, x > c means
  r(x) >= c + 1 > c: x and c compare as r(x) and c do, for every x.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import product
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, Operand, Tensor
from autofuse.implgraph.ops.call_counts import cast_calls, op_calls
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.differences import COMPARISONS, without_differences
from autofuse.implgraph.rewrites.value_ranges import MOVES, Interval, Ranges, limits
from autofuse.targets import Architecture, TargetSpec

__all__ = ["narrowed"]

F32, I32 = BY_NAME["float32"], BY_NAME["int32"]

#: Ops that commute with rounding.
_CHOICES = MOVES | {
    *("Pad", "Select", "MaskedFill", "Maximum", "Minimum", "ClipByValue", "Relu"),
    *("ReduceMax", "ReduceMin"),
}
#: Ops that are exact if operands and result are; sums also need exact partial sums.
_SUMS = frozenset({"AddN", "ReduceSum", "CumSum"})
_ARITHMETIC = _SUMS | {"Iota", "Add", "Sub", "Mul", "Square", "Neg", "Abs", "Sign"}
_DIVISIONS = frozenset({"FloorDiv", "TruncDiv", "Remainder", "Fmod", "Mod"})
_ARGS = frozenset({"ArgMax", "ArgMin"})
#: Size assumed for a symbol without a hint when counting calls.
_TYPICAL = 1024


@dataclass(frozen=True, slots=True)
class _Way:
    """Narrow dtype ``to`` for the ``wide`` ones: ``exact`` bounds the integers that it holds."""

    to: DType
    wide: frozenset[str]
    exact: Interval
    ops: frozenset[str]


_WAYS = (
    _Way(
        I32,
        frozenset({"int64", "uint64"}),
        limits(I32),
        _CHOICES | _ARITHMETIC | _DIVISIONS | _ARGS,
    ),
    _Way(
        F32,
        frozenset({"int32", "int64", "uint32", "uint64"}),
        (-(1 << 24), 1 << 24),
        _CHOICES | _ARITHMETIC,
    ),
)


def narrowed(graph: FusionGraph, target: TargetSpec) -> FusionGraph:
    """Return the graph with integers computed in int32 or float32 where that is exact and takes fewer calls.

    Args:
        graph: a graph from a frontend; inputs and outputs keep their dtypes.
        target: determines the available casts.

    Returns:
        A graph with the same results for all inputs; ``graph`` itself if there is no gain.
    """
    graph = without_differences(graph)
    for way in _WAYS:
        if any(
            graph.tensors[x].dtype.name in way.wide
            for n in graph.nodes
            for x in (*n.outputs, *_names(n))
        ):
            graph = _Narrowing(graph, target.arch, way).result()
    return graph


def _names(n: FusionNode) -> list[str]:
    return [x for x in n.inputs if isinstance(x, str)]


def _inside(x: Interval | None, ends: Interval) -> bool:
    return x is not None and ends[0] <= x[0] and x[1] <= ends[1]


class _Narrowing:
    """One narrowing pass: candidates, demanded tensors, the gain of each part, and the new nodes."""

    def __init__(self, graph: FusionGraph, arch: Architecture, way: _Way) -> None:
        self.graph, self.arch, self.way = graph, arch, way
        self.tensors = graph.tensors
        self.ranges = Ranges(graph)
        self.makers = {n.outputs[0]: n for n in graph.nodes if len(n.outputs) == 1}
        self.outputs = {o.tensor for o in graph.outputs}
        sizes = {s.name: min(max(s.hint or _TYPICAL, s.min), s.max) for s in graph.symbols}
        self.typical = {name: (size, size) for name, size in sizes.items()}
        #: Tensors that a narrow node can produce, and all tensors that have a narrow form.
        self.made: set[str] = set()
        self.able: set[str] = {x for x in graph.inputs if self._castable(x)}
        self.roots: list[FusionNode] = []
        for n in graph.nodes:
            if len(n.outputs) == 1 and self._computable(n):
                self.made.update(n.outputs)
                self.able.update(n.outputs)
            self.able.update(x for x in n.outputs if self._castable(x))
            if self._is_root(n):
                self.roots.append(n)

    # candidates ---------------------------------------------------------------------------
    def _exact(self, n: FusionNode, x: Operand) -> bool:
        return _inside(self.ranges.of(n, x), self.way.exact)

    def _exact_tensor(self, x: str) -> bool:
        return _inside(self.ranges.tensor(x), self.way.exact)

    def _is_wide(self, x: str) -> bool:
        return self.tensors[x].dtype.name in self.way.wide

    def _castable(self, x: str) -> bool:
        """Return True if one Cast gives the narrow form; to float32 it may round, to int32 it must be exact."""
        d = self.tensors[x].dtype
        if not self._is_wide(x) or d.kind != "i":
            return False
        return (self.way.to is F32 or self._exact_tensor(x)) and cast_calls(
            self.arch, d, self.way.to
        ) is not None

    def _values(self, n: FusionNode) -> tuple[Operand, ...]:
        """Return the operands that are numbers, not conditions."""
        if n.op == "Select":
            return n.inputs[1:]
        if n.op == "MaskedFill":
            return (n.inputs[0], n.inputs[2])
        return n.inputs

    def _computable(self, n: FusionNode) -> bool:
        y = n.outputs[0]
        if not self._is_wide(y):
            return False
        if n.op == "Cast":
            return self._is_same_number(n)
        if n.op not in self.way.ops:
            return False
        if n.op in _ARGS:
            return self._exact_tensor(y) and self.tensors[y].dtype != I32
        for x in self._values(n):
            if isinstance(x, str):
                if x not in self.able:
                    return False
            elif not self._exact(n, x):
                return False
        if n.op in _CHOICES and self.way.to is F32:
            return self._rounds_alike(n)
        if n.op == "Pad" and not self._rounds_alike(n):
            return False
        exact = all(self._exact(n, x) for x in self._values(n)) and self._exact_tensor(y)
        return exact and (n.op not in _SUMS or self._sums_exactly(n))

    def _rounds_alike(self, n: FusionNode) -> bool:
        """Return True if a choice yields only elements of its operands, or an exact number."""
        if n.op == "Pad":
            attrs: Mapping[str, Any] = n.attrs
            value = int(attrs.get("value", 0))
            return _inside((value, value), self.way.exact)
        # The maximum of no elements is the lower end of the dtype, for floats an infinity.
        return n.op not in ("ReduceMax", "ReduceMin") or self.ranges.reduced(n)[0] >= 1

    def _sums_exactly(self, n: FusionNode) -> bool:
        """Return True if no partial sum can leave the exact range, in any order of summation."""
        xs = [self.ranges.of(n, x) for x in n.inputs]
        count = 1 if n.op == "AddN" else self.ranges.reduced(n)[1]
        total = count * sum(max(abs(x[0]), abs(x[1])) for x in xs if x is not None)
        return _inside((-total, total), self.way.exact)

    def _is_same_number(self, n: FusionNode) -> bool:
        """Return True if a Cast between integers changes no number, and its operand has a narrow form."""
        x, y = n.inputs[0], n.outputs[0]
        if not isinstance(x, str) or not _inside(
            self.ranges.tensor(x), limits(self.tensors[y].dtype)
        ):
            return False
        if x in self.able or self.tensors[x].dtype == self.way.to:
            return True
        d = self.tensors[x].dtype
        small = d.bits < self.way.to.bits and d.kind in "iub"
        return small and cast_calls(self.arch, d, self.way.to) is not None

    def _is_root(self, n: FusionNode) -> bool:
        """Return True if ``n`` leaves the wide dtypes and gives the same result for narrow operands."""
        xs = _names(n)
        if not xs or not all(x in self.able for x in xs):
            return False
        if n.op in COMPARISONS:
            if not all(isinstance(x, str) or self._exact(n, x) for x in n.inputs):
                return False
            if all(self._exact(n, x) for x in n.inputs):
                return True
            inner = (self.way.exact[0] + 1, self.way.exact[1] - 1)
            return self.way.to is F32 and any(
                _inside(self.ranges.of(n, x), inner) for x in n.inputs
            )
        if n.op != "Cast" or n.attrs.get("round"):
            return False
        to = self.tensors[n.outputs[0]].dtype
        if cast_calls(self.arch, self.way.to, to) is None:
            return False
        if to.kind == "b" or to == self.way.to:
            return True
        # The cast from the narrow type then rounds like the one from the wide type.
        return self._exact_tensor(xs[0]) and to.kind == "f"

    # gain -----------------------------------------------------------------------------
    def _weight(self, x: str) -> int:
        """Return the number of elements of a tensor at typical sizes."""
        return max(bounds(product(self.tensors[x].shape), self.typical)[0], 1)

    def _calls(self, n: FusionNode, narrow: bool) -> float:
        """Return the calls of a node, in its own type or in the narrow one, times elements."""
        y = self.tensors[n.outputs[0]].dtype
        x = next((self.tensors[o].dtype for o in _names(n)), y)
        weight = self._weight(n.outputs[0])
        if n.op == "Cast":
            if not narrow:
                return weight * (cast_calls(self.arch, x, y) or 0)
            source = (
                x if n.outputs[0] in self.made and not self._is_wide(_names(n)[0]) else self.way.to
            )
            to = self.way.to if n.outputs[0] in self.made else y
            return weight * (cast_calls(self.arch, source, to) or 0)
        if lookup(n.op).cost == "reduce":
            weight = max([weight, *(self._weight(o) for o in _names(n))])
        d = x if n.op in COMPARISONS else y
        return weight * op_calls(n.op, self.way.to if narrow else d)

    def _cast_cost(self, x: str, *, back: bool) -> float:
        pair = (
            (self.way.to, self.tensors[x].dtype) if back else (self.tensors[x].dtype, self.way.to)
        )
        calls = cast_calls(self.arch, *pair)
        return float("inf") if calls is None else self._weight(x) * calls

    def _demanded(self) -> set[str]:
        """Return the tensors whose narrow form is used."""
        asked = {x for n in self.roots for x in _names(n)}
        root_names = {n.name for n in self.roots}
        for n in reversed(self.graph.nodes):
            y = n.outputs[0]
            if (
                y in self.made
                and n.op not in MOVES
                and n.op not in ("Cast", "Iota")
                and self._exact_tensor(y)
            ):
                asked.add(y)
            if y in asked and y in self.made and n.name not in root_names:
                asked.update(x for x in map(str, self._tensors_of(n)) if self._is_wide(x))
        return asked

    def _tensors_of(self, n: FusionNode) -> list[str]:
        return [] if n.op in _ARGS else [x for x in self._values(n) if isinstance(x, str)]

    def _parts(self, asked: set[str]) -> list[tuple[set[str], list[FusionNode]]]:
        """Return the connected parts of tensors and roots; a part becomes narrow as a whole or not at all."""
        parent = {x: x for x in asked}

        def find(x: str) -> str:
            while parent[x] != x:
                parent[x] = parent[parent[x]]
                x = parent[x]
            return x

        def join(names: Iterable[str]) -> None:
            first: str | None = None
            for x in names:
                if x in parent:
                    if first is not None:
                        parent[find(x)] = find(first)
                    first = x

        for n in self.graph.nodes:
            if n.outputs[0] in asked and n.outputs[0] in self.made:
                join((n.outputs[0], *self._tensors_of(n)))
        for n in self.roots:
            join(_names(n))
        parts: dict[str, tuple[set[str], list[FusionNode]]] = {}
        for x in sorted(asked):
            parts.setdefault(find(x), (set(), []))[0].add(x)
        for n in self.roots:
            parts[find(_names(n)[0])][1].append(n)
        return list(parts.values())

    def _kept(self, part: set[str], roots: Iterable[FusionNode]) -> tuple[set[str], set[str]]:
        """Return tensors also needed in their own type: those cast back from the narrow one, those computed twice."""
        narrow_roots = {n.name for n in roots}
        needed = set(self.outputs)
        back: set[str] = set()
        twice: set[str] = set()
        for n in reversed(self.graph.nodes):
            y = n.outputs[0]
            if n.name in narrow_roots:
                continue
            if y in part and y in self.made:
                if y not in needed:
                    needed.update(x for x in _names(n) if x not in self._tensors_of(n))
                    continue
                if n.op != "Cast" and self._exact_tensor(y) and self._has_way_back(y):
                    back.add(y)
                    needed.update(x for x in _names(n) if x not in self._tensors_of(n))
                    continue
                twice.add(y)
            needed.update(_names(n))
        return back, twice

    def _has_way_back(self, x: str) -> bool:
        return cast_calls(self.arch, self.way.to, self.tensors[x].dtype) is not None

    def _gain(self, part: set[str], roots: list[FusionNode]) -> float:
        back, twice = self._kept(part, roots)
        gain = 0.0
        for x in sorted(part):
            if x in self.made:
                n = self.makers[x]
                gain += (0 if x in twice else self._calls(n, False)) - self._calls(n, True)
            else:
                gain -= self._cast_cost(x, back=False)
            if x in back:
                gain -= self._cast_cost(x, back=True)
        return gain + sum(self._calls(n, False) - self._calls(n, True) for n in roots)

    # the new graph --------------------------------------------------------------------------------
    def result(self) -> FusionGraph:
        """Return the graph with all gainful parts narrow."""
        taken: set[str] = set()
        roots: list[FusionNode] = []
        for part, its_roots in self._parts(self._demanded()):
            if self._gain(part, its_roots) > 0:
                taken |= part
                roots += its_roots
        if not taken:
            return self.graph
        back, twice = self._kept(taken, roots)
        return _Writer(self, taken, {n.name for n in roots}, back, twice).graph()

    def is_made(self, x: str) -> bool:
        """Return True if a narrow node produces ``x``; otherwise a Cast does."""
        return x in self.made

    def values(self, n: FusionNode) -> tuple[Operand, ...]:
        """Return the operands of a node that are numbers."""
        return self._values(n)


class _Writer:
    """Writes the nodes of a graph in which some tensors are narrow."""

    def __init__(
        self, plan: _Narrowing, taken: set[str], roots: set[str], back: set[str], twice: set[str]
    ) -> None:
        self.plan, self.to = plan, plan.way.to
        self.taken, self.roots, self.back, self.twice = taken, roots, back, twice
        self.old = plan.graph
        self.tensors: dict[str, Tensor] = dict(plan.graph.tensors)
        self.nodes: list[FusionNode] = []
        self.narrow: dict[str, str] = {}
        #: Narrow floats that may be -0, which no integer is.
        self.signed: set[str] = set()
        self._names = {n.name for n in self.old.nodes} | set(self.tensors)

    def graph(self) -> FusionGraph:
        """Return the graph."""
        for n in self.old.nodes:
            y = n.outputs[0]
            if n.name in self.roots:
                self._root(n)
            elif y in self.taken and self.plan.is_made(y):
                if y in self.twice:
                    self.nodes.append(n)
                self._make(n)
                if y in self.back:
                    self._emit(
                        "Cast", (self.narrow[y],), y, {"dtype": self.tensors[y].dtype.name}, n
                    )
            else:
                self.nodes.append(n)
        used = {x for n in self.nodes for x in (*_names(n), *n.outputs)}
        used |= {*self.old.inputs, *(o.tensor for o in self.old.outputs)}
        kept = {name: t for name, t in self.tensors.items() if name in used}
        return replace(self.old, nodes=tuple(self.nodes), tensors=kept)

    def _fresh(self, name: str) -> str:
        new, k = name, 1
        while new in self._names:
            k += 1
            new = f"{name}_{k}"
        self._names.add(new)
        return new

    def _emit(
        self, op: str, inputs: tuple[Operand, ...], y: str, attrs: Mapping[str, Any], n: FusionNode
    ) -> str:
        name = self._fresh(f"{n.name}_{op.lower()}")
        self.nodes.append(FusionNode(name, op, inputs, (y,), attrs, n.origin))
        return y

    def _result(self, like: str, n: FusionNode) -> str:
        """Add a tensor with the shape of ``like`` in the narrow type, and return its name."""
        name = self._fresh(f"{like}_{self.to.name}")
        self.tensors[name] = Tensor(name, self.to, self.tensors[like].shape, origin=n.origin)
        return name

    def _operand(self, x: Operand, n: FusionNode) -> Operand:
        """Return an operand in the narrow type."""
        if isinstance(x, Constant):
            value = float(x.value) if self.to is F32 else int(x.value)
            return Constant(value, self.to, x.expr)
        if x not in self.narrow:
            y = self._result(x, n)
            self.narrow[x] = self._emit("Cast", (x,), y, {"dtype": self.to.name}, n)
        return self.narrow[x]

    def _make(self, n: FusionNode) -> None:
        y = n.outputs[0]
        if n.op == "Cast":
            x = n.inputs[0]
            assert isinstance(x, str)
            if x not in self.taken and self.tensors[x].dtype == self.to:
                self.narrow[y] = x
            else:
                self.narrow[y] = str(self._operand(x, n))
            return
        numbers = self.plan.values(n)
        inputs = tuple(
            self._operand(x, n) if any(x is v for v in numbers) and n.op not in _ARGS else x
            for x in n.inputs
        )
        attrs: Mapping[str, Any] = n.attrs
        if "dtype" in attrs or n.op in _ARGS:
            attrs = {**attrs, "dtype": self.to.name}
        op = n.op
        if op == "Neg" and self.to is F32:  # 0 - 0 is 0, and -(0) is not
            op, inputs = "Sub", (Constant(0.0, F32), *inputs)
        made = self._result(y, n)
        name = n.name if y not in self.twice else self._fresh(f"{n.name}_{self.to.name}")
        self.nodes.append(FusionNode(name, op, inputs, (made,), attrs, n.origin))
        self.narrow[y] = made
        negative = op == "Mul" and any(self._may(n, x, lambda i: i[0] < 0) for x in n.inputs)
        if self.to is F32 and (
            (negative and self._may_be_zero(n)) or any(x in self.signed for x in inputs)
        ):
            self.signed.add(made)

    def _may(self, n: FusionNode, x: Operand, test: Any) -> bool:
        found = self.plan.ranges.of(n, x)
        return found is None or bool(test(found))

    def _may_be_zero(self, n: FusionNode) -> bool:
        return any(self._may(n, x, lambda i: i[0] <= 0 <= i[1]) for x in n.inputs)

    def _root(self, n: FusionNode) -> None:
        inputs = tuple(self._operand(x, n) for x in n.inputs)
        if n.op == "Cast" and self.tensors[n.outputs[0]].dtype.kind == "f":
            if inputs[0] in self.signed:
                name = self._result(str(n.inputs[0]), n)
                inputs = (self._emit("Add", (inputs[0], Constant(0.0, F32)), name, {}, n),)
            if self.tensors[n.outputs[0]].dtype == self.to:
                self.nodes.append(replace(n, op="Identity", inputs=inputs, attrs={}))
                return
        self.nodes.append(replace(n, inputs=inputs))
