"""Graphs for shape storms: one operator family each, any rank, size, dtype and axis, constant or symbolic sizes.

A case is a graph document (``autofuse.graph/1``), so that one that fails is its own reproducer.  Everything is drawn
from a ``random.Random``: a plain one makes volume (``benchmarks/fuzzing/storm.py``), one from hypothesis shrinks.

One file: a strategy per family, over parts that they share.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.codegen.verification import verify_schedule
from autofuse.compiler import Stages, schedule
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.expr.parser import parse
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.requirements import requirements
from autofuse.targets import load_target
from autofuse.twin.oracle.sizes import largest_tensor
from autofuse.twin.run.worker import WorkerPool
from autofuse.twin.verify.verify import verify_in_subprocess

FLOATS = ("float32", "float16", "bfloat16")
INTS = ("int32", "int16", "int64", "int8", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTS, "bool")
#: Elements that a tensor has at most.
BUDGET = 20_000
LARGEST = 300
AWKWARD = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 61, 63, 64, 65, 100, 127, 128, 129)
#: Other values of symbols: the ends, primes, and neighbours of whole blocks.
OTHER = (0, 1, 1, 2, 3, 5, 7, 11, 13, 17, 23, 31, 37, 53, 61, 97, 127, 211, 8, 16, 33, 64, 65, 300)

#: Why a legal graph of these families may be refused; ``docs/verification.md`` says more about each.
REFUSALS: tuple[tuple[str, str, str], ...] = (
    # (name in the documentation, code, text that the diagnostic or one of its notes has)
    (
        "products of many 64-bit numbers",
        "AF3001",
        r"there is no way for a product of .* numbers of u?int64",
    ),
    (
        "sums of many 64-bit numbers",
        "AF3001",
        r"there is no way for a sum of u?int64 over up to \d+ elements",
    ),
)

Dim = int | str


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, how to build it and with which sizes to run it."""

    family: str
    document: dict[str, Any]
    ub_bytes: int | None = None
    bindings: tuple[Mapping[str, int], ...] = ({},)
    check_seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """What :meth:`from_json` reads."""
        return {
            "family": self.family,
            "document": self.document,
            "ub_bytes": self.ub_bytes,
            "bindings": [dict(b) for b in self.bindings],
            "check_seed": self.check_seed,
        }

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> Case:
        """The inverse of :meth:`to_json`."""
        return cls(**{**d, "bindings": tuple(d["bindings"])})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case: ``passed``, ``refused`` with reason, ``unjustified`` refusal, ``wrong``, ``finding``,
    ``crash`` or ``illegal`` (the storm made a graph that is none)."""

    status: str
    reason: str = ""
    text: str = ""
    runs: int = 0

    @property
    def ok(self) -> bool:
        """True if nothing is to be done about it."""
        return self.status in ("passed", "refused")


# running --------------------------------------------------------------------------------------


def _refusal(found: Sequence[Diagnostic]) -> str:
    """Name of the documented reason; empty if there is none."""
    for name, code, pattern in REFUSALS:
        for d in found:
            if d.code == code and re.search(pattern, "\n".join((d.message, *d.notes))):
                return name
    return ""


def run_case(
    case: Case,
    pool: WorkerPool | None = None,
    seed: int = 1,
    target: str = api.DEFAULT_TARGET,
) -> Verdict:
    """Build, prove, compile and verify a case in checked mode."""
    try:
        built = api.build(case.document, target=target, ub_bytes=case.ub_bytes, verify_ir=True)
        bindings = fitted(built.graph, case.bindings) or None
        report = verify_in_subprocess(
            built.files,
            built.graph,
            pool=pool,
            bindings=bindings,
            seed=seed,
            check="all",
            check_seed=case.check_seed,
        )
    except AutofuseError as e:
        return _failed(e)
    if report.ok:
        return Verdict("passed", runs=report.passed)
    codes = {d.code for d in report.diagnostics if d.severity == "error"}
    text = "\n".join(map(str, report.diagnostics))
    kind = "wrong" if codes & {"AF6001", "AF6002"} else "finding" if "AF5004" in codes else "crash"
    return Verdict(kind, min(codes, default="nothing ran"), text)


def _failed(e: AutofuseError) -> Verdict:
    """A build that ended in diagnostics."""
    codes = {d.code for d in e.diagnostics}
    text = str(e)
    if codes <= {
        "AF2101",
        "AF2102",
        "AF2103",
        "AF2104",
        "AF3001",
        "AF3002",
        "AF3003",
        "AF3004",
    }:
        name = _refusal(e.diagnostics)
        return Verdict("refused" if name else "unjustified", name or min(codes), text)
    if all(c.startswith("AF1") for c in codes):
        return Verdict("illegal", min(codes), text)
    return Verdict("crash", min(codes), text)


def prove_case(case: Case, target: str = api.DEFAULT_TARGET) -> Verdict:
    """Schedule a case and prove its kernels, for which no compiler is needed.

    Returns:
        ``passed`` with the number of functions, the notes of what was neither proved nor refuted in ``text``, and in
        ``reason`` which of the template *narrow*, Stack and Lace it has; or as for :func:`run_case`.
    """
    chip = load_target(target)
    if case.ub_bytes is not None:
        chip = chip.with_ub(case.ub_bytes)
    try:
        # What is proved is KernelIR: the text that a build writes of it, a third of its time, nobody reads.
        with api.reporting_bugs(case.document, {"target": chip.name, "ub_bytes": case.ub_bytes}):
            graph = api.read(case.document)
            results = schedule(graph, chip, Stages())
            found = verify_schedule(graph, results, chip)
    except AutofuseError as e:
        return _failed(e)
    impls = [i for r in results for g in r.groups for i in g.impls]
    text = "\n".join(map(str, found))
    if any(d.severity == "error" for d in found):
        return Verdict("finding", "AF4001", text)
    ops = {n.op for i in impls for n in i.nodes}
    has = {"narrow": any("_narrow_" in i.name for i in impls), "Stack": "Stack" in ops}
    has["Lace"] = not ops.isdisjoint(("Lace", "Unlace", "UnlaceByMask"))
    return Verdict("passed", " ".join(k for k, v in has.items() if v), text, len(impls))


def fitted(graph: FusionGraph, bindings: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Those of the sizes for which the graph has a meaning, made smaller until no tensor has many elements."""
    needed = requirements(graph)
    found = [_fitted(graph, b) for b in bindings]
    return [b for b in found if all(r.holds(b) for r in needed)]


def _fitted(graph: FusionGraph, binding: Mapping[str, int]) -> dict[str, int]:
    """The sizes, the largest made smaller until no tensor has many elements."""
    sizes = dict(binding)
    least = {s.name: s.min for s in graph.symbols}
    while True:
        try:
            if largest_tensor(graph, sizes) <= 3 * BUDGET:
                return sizes
        except ExprError:
            return dict(binding)
        name = max(sizes, key=lambda n: sizes[n] - least[n], default="")
        if not name or sizes[name] == least[name]:
            return sizes
        sizes[name] = max(least[name], sizes[name] * 2 // 3)


# making ---------------------------------------------------------------------------------------


@dataclass
class Maker:
    """A graph document under construction."""

    rng: Random
    symbolic: bool = False
    symbols: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    #: Symbols of which nothing is known: no hint, and large values.
    unknown: set[str] = field(default_factory=set)
    inputs: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    #: Tensor -> dtype and shape.
    tensors: dict[str, tuple[str, tuple[Dim, ...]]] = field(default_factory=dict)
    #: Bytes of UB to choose from; None: all of it.
    ub_bytes: tuple[int | None, ...] = (None, None, 60_000)

    def chance(self, percent: int) -> bool:
        return self.rng.randint(0, 99) < percent

    def size(self, most: int) -> int:
        """A size, small ones and awkward ones more often."""
        if self.chance(2):
            return 0
        kind = self.rng.randint(0, 9)
        if kind < 5:
            return self.rng.choice([s for s in AWKWARD if s <= most] or [1])
        if kind < 8:
            return self.rng.randint(1, max(1, min(most, 40)))
        return self.rng.randint(1, max(1, min(most, LARGEST)))

    def sizes(self, rank: int | None = None, budget: int = BUDGET) -> tuple[int, ...]:
        rank = rank or self.rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 6))
        out: list[int] = []
        left = budget
        for _ in range(rank):
            out.append(self.size(min(left, LARGEST)))
            left //= max(out[-1], 1)
        self.rng.shuffle(out)
        return tuple(out)

    def dim(self, value: int, least: int = 0) -> Dim:
        """The size, or a new symbol for it."""
        if not self.symbolic or len(self.symbols) >= 4 or value < 2 or not self.chance(50):
            return value
        name = f"s{len(self.symbols)}"
        self.symbols[name], self.least[name] = value, least
        return name

    def shape(self, rank: int | None = None, budget: int = BUDGET) -> tuple[Dim, ...]:
        return tuple(self.dim(s) for s in self.sizes(rank, budget))

    def value(self, d: Dim) -> int:
        """Size for the hints of the symbols."""
        if isinstance(d, int):
            return d
        return parse(d).evaluate(self.symbols)

    def count(self, shape: Sequence[Dim]) -> int:
        return math.prod(map(self.value, shape))

    def input(self, dtype: str, shape: Sequence[Dim]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append({"name": name, "dtype": dtype, "shape": list(shape)})
        self.tensors[name] = (dtype, tuple(shape))
        return name

    def node(
        self, op: str, xs: Sequence[Any], dtype: str, shape: Sequence[Dim], /, **attrs: Any
    ) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(
            {
                "name": f"n{len(self.nodes)}",
                "op": op,
                "inputs": [x if isinstance(x, str) else {"const": x} for x in xs],
                "outputs": [name],
                "attrs": attrs,
            }
        )
        self.tensors[name] = (dtype, tuple(shape))
        return name

    def elementwise(self, x: str) -> str:
        """An op that every chip has for the dtype, or that it is computed in a wider one for."""
        dtype, shape = self.tensors[x]
        if dtype == "bool":
            return self.node("LogicalNot", [x], dtype, shape)
        if dtype in FLOATS:
            op = self.rng.choice(("Abs", "Relu", "Neg", "Mul", "Add", "Maximum", "Tanh"))
        else:
            op = self.rng.choice(("Add", "Maximum", "Mul"))
        number: Any = 0.5 if dtype in FLOATS else 3
        xs = [x, number] if op in ("Mul", "Add", "Maximum") else [x]
        return self.node(op, xs, dtype, shape)

    def maybe(self, x: str, percent: int = 40) -> str:
        return self.elementwise(x) if self.chance(percent) else x

    def narrower(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """A shape that broadcasts to ``shape``."""
        kind = self.rng.randint(0, 4)
        if kind == 0:
            k = self.rng.randrange(len(shape)) if shape else 0
            out = tuple(d if i == k else 1 for i, d in enumerate(shape))
        else:
            out = tuple(1 if self.chance(45) else d for d in shape)
        lead = 0
        while lead < len(out) - 1 and out[lead] == 1 and self.chance(50):
            lead += 1
        return out[lead:]

    def case(self, family: str) -> Case:
        """The finished graph; sizes of symbols as hinted, and two others."""
        symbols = {
            n: {"min": self.least[n], "max": 1 << 22}
            if n in self.unknown
            else {"min": self.least[n], "max": 1000, "hint": v}
            for n, v in self.symbols.items()
        }
        document = {
            "schema": "autofuse.graph/1",
            "name": "storm",
            "symbols": symbols,
            "inputs": self.inputs,
            "nodes": self.nodes,
            "outputs": [
                {"name": f"o{i}", "tensor": t} for i, t in enumerate(dict.fromkeys(self.outputs))
            ],
        }
        bindings = [dict(self.symbols)]
        if self.symbols:
            bindings += [
                {n: max(self.least[n], self.rng.choice(OTHER)) for n in self.symbols}
                for _ in range(2)
            ]
        # With little UB, sizes that are known at run time only may have no legal tile.
        ub = None if self.symbols else self.rng.choice(self.ub_bytes)
        seed = self.rng.choice((0, 1, 2, 3))
        return Case(family, document, ub, tuple(bindings), seed)


# families -------------------------------------------------------------------------------------


def dtype_of(m: Maker, pool: Sequence[str] = DTYPES) -> str:
    return m.rng.choice(FLOATS) if pool is DTYPES and m.chance(40) else m.rng.choice(pool)


def reduced(shape: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    gone = set(axes) if axes else set(range(len(shape)))
    if keepdims:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def add_reduce(m: Maker, x: str) -> str:
    """A reduction of ``x``, of a kind that its dtype has."""
    dtype, shape = m.tensors[x]
    rank = len(shape)
    axes = sorted(m.rng.sample(range(rank), m.rng.randint(1, rank)))
    given = [a - rank if m.chance(20) else a for a in axes]
    if dtype == "bool":
        kind = m.rng.choice(("ReduceAny", "ReduceAll"))
    else:
        kinds = ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ArgMax", "ArgMin"]
        kinds += ["ReduceMean", "ReduceSum"] if dtype in FLOATS else []
        kind = m.rng.choice(kinds)
    nothing = any(m.value(shape[a]) == 0 for a in axes)
    if nothing and kind in ("ReduceMax", "ReduceMin", "ArgMax", "ArgMin"):
        kind = "ReduceSum"  # there is no largest of no elements
    keep = m.chance(50)
    if kind.startswith("Arg"):
        axis = axes[0]
        to = m.rng.choice(("int64", "int32"))
        want = reduced(shape, (axis,), keep)
        return m.node(kind, [x], to, want, axis=axis, keepdims=keep, dtype=to)
    if m.chance(10) and len(axes) == rank:
        given = []
    return m.node(kind, [x], dtype, reduced(shape, axes, keep), axes=given, keepdims=keep)


def reduce(m: Maker) -> None:
    """Reductions of every kind, with element-wise ops before and after."""
    dtype, shape = dtype_of(m), m.shape()
    x = m.input(dtype, shape)
    x = m.maybe(x)
    if m.chance(25) and dtype != "bool":
        other = m.input(dtype, m.narrower(shape))
        x = m.node("Add", [x, other], dtype, shape)
    y = add_reduce(m, x)
    m.outputs.append(m.maybe(y))
    ydtype, yshape = m.tensors[y]
    if len(yshape) == len(shape) and ydtype == dtype and m.chance(50):
        op = "LogicalAnd" if dtype == "bool" else m.rng.choice(("Sub", "Maximum"))
        both = m.node(op, [x, y], dtype, shape)
        m.outputs.append(both)
        if m.chance(50):
            m.outputs.append(add_reduce(m, both))
    elif yshape and m.chance(20) and 0 not in yshape:
        m.outputs.append(add_reduce(m, y))


def long_shape(m: Maker) -> tuple[tuple[Dim, ...], int]:
    """Sizes of which one is long, or a symbol that may be; and which one."""
    kept = m.sizes(m.rng.choice((1, 2)), budget=m.rng.choice((1, 8, 64, 400)))
    axis = m.rng.randint(0, len(kept))
    if m.symbolic:
        name = f"s{len(m.symbols)}"
        m.symbols[name], m.least[name] = m.rng.choice((1, 47, 48, 49, 97, 500, 6007)), 0
        m.unknown.add(name)
        size: Dim = name
    else:
        size = max(1, m.rng.choice((90_001, 131_072, 200_003)) // max(math.prod(kept), 1))
    return (*map(m.dim, kept[:axis]), size, *map(m.dim, kept[axis:])), axis


def long(m: Maker) -> None:
    """Reductions of much to little: the cores share what is reduced, as far as it is long in a call."""
    dtype = dtype_of(m, (*FLOATS, "int32", "int16", "bool"))
    shape, axis = long_shape(m)
    x = m.maybe(m.input(dtype, shape), 30)
    axes = sorted({axis, *(d for d in range(len(shape)) if m.chance(30))})
    if dtype in FLOATS and m.chance(50):
        m.outputs.append(m.maybe(add_norm(m, x, axes), 30))
        return
    keep = m.chance(50)
    kinds = ("ReduceAny", "ReduceAll") if dtype == "bool" else ("ReduceSum", "ReduceProd")
    if dtype != "bool" and all(m.value(shape[a]) for a in axes):
        kinds = (*kinds, "ReduceMax", "ReduceMin")
    want = reduced(shape, axes, keep)
    y = m.node(m.rng.choice(kinds), [x], dtype, want, axes=axes, keepdims=keep)
    m.outputs.append(m.maybe(y, 30))
    if keep and dtype != "bool" and m.chance(30):
        m.outputs.append(m.node("Maximum", [x, y], dtype, shape))


def norm(m: Maker) -> None:
    """Softmax and its logarithm, layer norm, RMS norm, log-sum-exp; also rows that do not fit UB."""
    dtype = m.rng.choice(FLOATS)
    shape = m.shape()
    rank = len(shape)
    m.ub_bytes = (None, 60_000, 16_000)
    x = m.maybe(m.input(dtype, shape), 25)
    first = m.rng.randrange(rank)
    y = add_norm(m, x, list(range(first, rank)) if m.chance(80) else [first])
    m.outputs.append(m.maybe(y, 25))


def add_norm(m: Maker, x: str, axes: list[int]) -> str:
    """What is made of the statistics of ``x`` along ``axes``, or along one of them."""
    dtype, shape = m.tensors[x]
    kind = m.rng.choice(("Softmax", "LogSoftmax", "layer", "rms", "log-sum-exp"))
    if kind in ("Softmax", "LogSoftmax"):
        axis = m.rng.choice(axes)
        return m.node(kind, [x], dtype, shape, axis=axis - m.rng.choice((0, len(shape))))
    one = reduced(shape, axes, True)
    if kind == "log-sum-exp" and all(m.value(d) for d in shape):
        top = m.node("ReduceMax", [x], dtype, one, axes=axes, keepdims=True)
        below = m.node("Sub", [x, top], dtype, shape)
        if m.chance(20):
            below = m.node("Mul", [below, 0.5], dtype, shape)
        power = m.node("Exp", [below], dtype, shape)
        if m.chance(20):
            power = m.node("Mul", [power, m.input(dtype, m.rng.choice((shape, one)))], dtype, shape)
            return m.node("ReduceSum", [power], dtype, one, axes=axes, keepdims=True)
        total = m.node("ReduceSum", [power], dtype, one, axes=axes, keepdims=True)
        y = m.node("Add", [m.node("Ln", [total], dtype, one), top], dtype, one)
        return m.node("Sub", [x, y], dtype, shape) if m.chance(50) else y
    if kind == "layer":
        mean = m.node("ReduceMean", [x], dtype, one, axes=axes, keepdims=True)
        x = m.node("Sub", [x, mean], dtype, shape)
    square = m.node("Mul", [x, x], dtype, shape)
    power = m.node("ReduceMean", [square], dtype, one, axes=axes, keepdims=True)
    root = m.node("Rsqrt", [m.node("Add", [power, 1e-3], dtype, one)], dtype, one)
    if m.chance(20):
        m.outputs.append(root)
    y = m.node("Mul", [x, root], dtype, shape)
    tail = shape[axes[0] :]
    if m.chance(70):
        y = m.node("Mul", [y, m.input(dtype, tail)], dtype, shape)
    if m.chance(50):
        y = m.node("Add", [y, m.input(dtype, tail)], dtype, shape)
    return y


def concat(m: Maker) -> None:
    """One to six pieces along any axis."""
    dtype, shape = dtype_of(m), m.shape(budget=BUDGET // 4)
    axis = m.rng.randrange(len(shape))
    pieces: list[str] = []
    rest = m.count([d for i, d in enumerate(shape) if i != axis])
    for _ in range(m.rng.randint(1, 6)):
        if pieces and m.chance(15):
            pieces.append(m.rng.choice(pieces))
            continue
        most = max(1, min(LARGEST, BUDGET // 4 // max(rest, 1)))
        d = shape[axis] if m.chance(30) else m.dim(m.size(most))
        pieces.append(m.maybe(m.input(dtype, (*shape[:axis], d, *shape[axis + 1 :])), 30))
    y = add_concat(m, pieces, axis)
    m.outputs.append(m.maybe(y, 30))
    if m.chance(20):
        m.outputs.append(m.rng.choice(pieces))


def add_concat(m: Maker, pieces: Sequence[str], axis: int) -> str:
    dtype, shape = m.tensors[pieces[0]]
    along = [m.tensors[p][1][axis] for p in pieces]
    total = sum(d for d in along if isinstance(d, int))
    names = [d for d in along if isinstance(d, str)]
    size: Dim = "+".join([*names, str(total)]) if names else total
    given = axis - len(shape) if m.chance(20) else axis
    whole = (*shape[:axis], size, *shape[axis + 1 :])
    return m.node("Concat", pieces, dtype, whole, axis=given)


def add_slice(m: Maker, x: str) -> str:
    """A regular part of ``x``; symbolic sizes lose a constant number of elements, or are taken whole."""
    dtype, shape = m.tensors[x]
    starts: list[Dim] = []
    sizes: list[Dim] = []
    steps: list[int] = []
    for d in shape:
        if m.value(d) == 0 or m.chance(35):
            starts, sizes, steps = [*starts, 0], [*sizes, d], [*steps, 1]
            continue
        if isinstance(d, str):
            # What is behind the last element that a start and a step of 1 take.
            first = 0 if d not in m.least else min(m.rng.choice((0, 1, 3)), m.value(d))
            if d in m.least:
                m.least[d] = max(m.least[d], first)
            starts, steps = [*starts, first], [*steps, 1]
            sizes.append(f"{d}-{first}" if first else d)
            continue
        step = m.rng.choice((1, 1, 1, 2, 3, 7, -1, -2))
        count = m.rng.randint(0 if m.chance(5) else 1, -(-d // abs(step)))
        reach = max(count - 1, 0) * abs(step)
        low = m.rng.randint(0, d - 1 - reach)
        starts.append(low + reach if step < 0 else low)
        sizes.append(count)
        steps.append(step)
    return m.node("Slice", [x], dtype, sizes, starts=starts, shape=sizes, steps=steps)


def slices(m: Maker) -> None:
    """Offsets and steps along any axes."""
    dtype = dtype_of(m)
    x = m.maybe(m.input(dtype, m.shape()), 25)
    for _ in range(m.rng.randint(1, 2)):
        m.outputs.append(m.maybe(add_slice(m, x)))


def add_transpose(m: Maker, x: str) -> str:
    dtype, shape = m.tensors[x]
    perm = list(range(len(shape)))
    m.rng.shuffle(perm)
    return m.node("Transpose", [x], dtype, [shape[p] for p in perm], perm=perm)


def transpose(m: Maker) -> None:
    """Any order of the axes, perhaps beside the tensor as it was or a broadcast one."""
    dtype = dtype_of(m)
    x = m.maybe(m.input(dtype, m.shape()), 30)
    y = add_transpose(m, x)
    shape = m.tensors[y][1]
    if m.chance(35):
        op = "LogicalOr" if dtype == "bool" else "Add"
        y = m.node(op, [y, m.input(dtype, m.narrower(shape))], dtype, shape)
    m.outputs.append(m.maybe(y))
    if m.chance(15):
        m.outputs.append(add_transpose(m, y))


def broadcast(m: Maker) -> None:
    """Operands with any pattern of ones, and of any lower rank."""
    dtype, shape = dtype_of(m), m.shape()
    y = m.input(dtype, m.narrower(shape) if m.chance(50) else shape)
    y = m.maybe(y, 30)
    if m.tensors[y][1] != shape:
        y = m.node("Broadcast", [y], dtype, shape, shape=list(shape))
    for _ in range(m.rng.randint(0, 3)):
        x = m.maybe(m.input(dtype, m.narrower(shape)), 30)
        op = "LogicalOr" if dtype == "bool" else m.rng.choice(("Add", "Maximum", "Mul", "Sub"))
        y = m.node(op, [y, x] if m.chance(50) else [x, y], dtype, shape)
    m.outputs.append(y)


def add_pad(m: Maker, x: str) -> str:
    dtype, shape = m.tensors[x]
    low, high = ([m.rng.choice((0, 0, 0, 1, 2, 5, 9)) for _ in shape] for _ in range(2))
    value = m.rng.choice((0.0, 1.0)) if dtype == "bool" else m.rng.choice((0.0, 1.0, 7.0))
    whole = tuple(
        a + d + b if isinstance(d, int) else f"{d}+{a + b}"
        for a, d, b in zip(low, shape, high, strict=True)
    )
    return m.node("Pad", [x], dtype, whole, low=low, high=high, value=value)


def pad(m: Maker) -> None:
    """Frames of any width around any axes."""
    x = m.maybe(m.input(dtype_of(m), m.shape(budget=BUDGET // 20)), 30)
    m.outputs.append(m.maybe(add_pad(m, x), 30))


def chain(m: Maker) -> None:
    """Two or three families one after the other."""
    x = m.input(dtype_of(m), m.shape(budget=BUDGET // 8))
    for _ in range(m.rng.randint(2, 3)):
        dtype, shape = m.tensors[x]
        kind = m.rng.choice(("reduce", "concat", "slice", "transpose", "pad", "broadcast"))
        if not shape or m.count(shape) == 0 or m.count(shape) > BUDGET:
            break
        if kind == "reduce":
            y = add_reduce(m, x)
            back = m.tensors[y]
            if back[0] == dtype and len(back[1]) == len(shape) and m.chance(60):
                y = m.node("LogicalOr" if dtype == "bool" else "Add", [x, y], dtype, shape)
            x = y
        elif kind == "concat":
            axis = m.rng.randrange(len(shape))
            other = m.elementwise(x) if m.chance(50) else m.input(dtype, shape)
            x = add_concat(m, m.rng.choice(([x, other], [other, x], [x, x])), axis)
        elif kind == "slice":
            x = add_slice(m, x)
        elif kind == "transpose":
            x = add_transpose(m, x)
        elif kind == "pad":
            x = add_pad(m, x)
        else:
            other = m.input(dtype, m.narrower(shape))
            x = m.node("LogicalOr" if dtype == "bool" else "Add", [x, other], dtype, shape)
        x = m.maybe(x, 25)
    m.outputs.append(x)


def add_gather(m: Maker, x: str) -> str:
    """Elements along an axis, by a tensor of up to two dimensions that is an input, or moved."""
    dtype, shape = m.tensors[x]
    axis = m.rng.randrange(len(shape))
    kind = m.rng.choice(("int32", "int64"))
    if m.chance(20):
        index = tuple(
            s if i == axis or isinstance(s, str) else m.rng.randint(1, s)
            for i, s in enumerate(shape)
        )
        if all(isinstance(s, str) or s > 0 for s in shape):
            i = m.input(kind, index)
            return m.node(
                "GatherElements", [x, i], dtype, index, axis=axis - m.rng.choice((0, len(shape)))
            )
    sizes = m.sizes(m.rng.choice((1, 1, 2)), budget=max(1, BUDGET // max(m.count(shape), 1)))
    places = tuple(m.dim(s) for s in sizes) if m.chance(90) else ()
    i = m.input(kind, places)
    if len(places) == 2 and m.chance(30):
        i = m.node("Transpose", [i], kind, places[::-1], perm=[1, 0])
        places = places[::-1]
    result = (*shape[:axis], *places, *shape[axis + 1 :])
    return m.node("Gather", [x, i], dtype, result, axis=axis - m.rng.choice((0, len(shape))))


def gather(m: Maker) -> None:
    """Elements at the places that a tensor says, of an input or of what is computed."""
    shape = tuple(m.dim(max(s, 1), least=1) for s in m.sizes(budget=BUDGET // 20))
    x = m.maybe(m.input(dtype_of(m), shape), 25)
    y = m.maybe(add_gather(m, x), 50)
    dtype, shape = m.tensors[y]
    if m.chance(25) and len(shape) > 1:
        y = add_transpose(m, y)
    elif m.chance(25) and shape:
        op = "LogicalOr" if dtype == "bool" else "Add"
        y = m.node(op, [y, m.input(dtype, m.narrower(shape))], dtype, shape)
    m.outputs.append(y)


def add_sum(m: Maker, x: str) -> str:
    dtype, shape = m.tensors[x]
    axis = m.rng.randrange(len(shape)) - m.rng.choice((0, len(shape)))
    flags = {"exclusive": m.chance(40), "reverse": m.chance(40)}
    return m.node("CumSum", [x], dtype, shape, axis=axis, **flags)


def running(m: Maker) -> None:
    """Running sums along any axis, with something before and after, perhaps of each other."""
    shape = long_shape(m)[0] if m.chance(30) else m.shape()
    x = m.input(m.rng.choice((*FLOATS, *INTS)), shape)
    y = m.maybe(add_sum(m, m.maybe(x, 30)), 40)
    if m.chance(20):
        y = add_sum(m, y)
    if m.chance(25):
        y = add_transpose(m, y)
    elif m.chance(25):
        dtype, shape = m.tensors[y]
        y = m.node("Add", [y, m.input(dtype, m.narrower(shape))], dtype, shape)
    m.outputs.append(y)


def short_rows(m: Maker) -> tuple[Dim, ...]:
    """A shape whose last size is small and whose size before it often is not."""
    width = m.rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 12, 16))
    rows = m.dim(m.rng.choice((*AWKWARD, 200, 300, 1000)))
    around = m.sizes(m.rng.choice((1, 1, 2)), budget=12) if m.chance(60) else ()
    return (*map(m.dim, around), rows, width)


def narrow(m: Maker) -> None:
    """Short rows that are long ones in UB: columns put side by side, taken apart, reduced, turned."""
    dtype, shape = dtype_of(m, (*FLOATS, "int32", "int16", "int8", "int64", "bool")), short_rows(m)
    last = len(shape) - 1
    x = m.maybe(m.input(dtype, shape))
    if m.chance(35):  # columns that are computed
        parts = [x]
        for _ in range(m.rng.randint(1, 4)):
            same = m.chance(70)
            size = shape[last] if same else m.rng.randint(1, 4)
            parts.append(m.maybe(m.input(dtype, (*shape[:last], size))))
        x = add_concat(m, parts, last)
    elif m.chance(50):  # one column of each, perhaps from one tensor
        size = shape[last]
        assert isinstance(size, int)
        one, parts = (*shape[:last], 1), []
        for c in m.rng.sample(range(size), min(size, 3)):
            start = [*(0 for _ in range(last)), c]
            y = m.node(
                "Slice", [x], dtype, one, starts=start, shape=list(one), steps=[1] * (last + 1)
            )
            parts.append(m.maybe(y, 60))
        x = add_concat(m, parts, last)
    elif m.chance(40):
        x = add_transpose(m, x)
    x = m.maybe(x, 25)
    dtype, shape = m.tensors[x]
    if m.chance(30):
        x = m.node(
            "LogicalOr" if dtype == "bool" else "Add",
            [x, m.input(dtype, m.narrower(shape))],
            dtype,
            shape,
        )
    if m.chance(45):
        if m.chance(30):
            m.outputs.append(x)
        x = add_reduce(m, x)
    m.outputs.append(m.maybe(x, 25))


FAMILIES: dict[str, Callable[[Maker], None]] = {
    "reduce": reduce,
    "long": long,
    "norm": norm,
    "concat": concat,
    "slice": slices,
    "transpose": transpose,
    "broadcast": broadcast,
    "pad": pad,
    "gather": gather,
    "running": running,
    "narrow": narrow,
    "chain": chain,
}


def random_case(rng: Random, family: str) -> Case:
    """A case of a family."""
    m = Maker(rng, symbolic=rng.randint(0, 99) < 40)
    FAMILIES[family](m)
    return m.case(family)
