"""Graphs of shape storms under construction: shapes, dtypes and symbols that are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from storm_cases import BUDGET, Case

from autofuse.implgraph.expr.parser import parse

FLOATS = ("float32", "float16", "bfloat16")
INTS = ("int32", "int16", "int64", "int8", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTS, "bool")
LARGEST = 300
AWKWARD = (1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 61, 63, 64, 65, 100, 127, 128, 129)
#: Other values of symbols: the ends, primes, and neighbours of whole blocks.
OTHER = (0, 1, 1, 2, 3, 5, 7, 11, 13, 17, 23, 31, 37, 53, 61, 97, 127, 211, 8, 16, 33, 64, 65, 300)


Dim = int | str


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
    #: The dtypes to choose from.
    dtypes: frozenset[str] = frozenset(DTYPES)
    #: Bytes of what rows are multiples of; 1: rows are of any length.
    block: int = 1
    #: Elements of what rows are multiples of.
    unit: int = 1

    def of(self, pool: Sequence[str]) -> str:
        """One of the dtypes that the chip has."""
        return self.rng.choice([d for d in pool if d in self.dtypes])

    def whole(self, size: int) -> int:
        """The size, or the next multiple of what rows are multiples of."""
        return -(-size // self.unit) * self.unit

    def in_rows(self, sizes: Sequence[int], budget: int) -> tuple[int, ...]:
        """The sizes, of which one or two inner ones are made multiples and outer ones smaller for it."""
        if self.unit == 1:
            return tuple(sizes)
        inner = min(len(sizes), self.rng.choice((1, 2, 2)))
        out = [*sizes[:-inner], *map(self.whole, sizes[-inner:])]
        for i in range(len(out) - inner):
            if math.prod(out) > max(budget, self.unit):
                out[i] = min(out[i], 2)
        return tuple(out)

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
        return self.in_rows(out, budget)

    def dim(self, value: int, least: int = 0) -> Dim:
        """The size, or a new symbol for it."""
        if not self.symbolic or len(self.symbols) >= 4 or value < 2 or not self.chance(50):
            return value
        name = f"s{len(self.symbols)}"
        if self.unit > 1 and value % self.unit == 0:
            self.symbols[name], self.least[name] = value // self.unit, least
            return f"{self.unit}*{name}"
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
        # Rows of whole blocks are no longer than others.
        most = {n: (1 << 22 if n in self.unknown else 1000) // self.unit for n in self.symbols}
        symbols = {
            n: {"min": self.least[n], "max": most[n]}
            if n in self.unknown
            else {"min": self.least[n], "max": most[n], "hint": min(v, most[n])}
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
        bindings = [{n: min(v, most[n]) for n, v in self.symbols.items()}]
        if self.symbols:
            bindings += [
                {n: min(max(self.least[n], self.rng.choice(OTHER)), most[n]) for n in self.symbols}
                for _ in range(2)
            ]
        # With little UB, sizes that are known at run time only may have no legal tile.
        ub = None if self.symbols else self.rng.choice(self.ub_bytes)
        seed = self.rng.choice((0, 1, 2, 3))
        return Case(family, document, ub, tuple(bindings), seed)
