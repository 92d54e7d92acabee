"""Index inputs: random ones that stay in bounds, and detection of out-of-bounds ones.

An index may be computed: a label that is replaced where it is to be ignored, a coordinate that is scaled, rounded and
clamped, a row times a width plus a column. Ops cannot be inverted in general. So the index subgraph is evaluated, input
elements that lead out of bounds are redrawn from typical components of indices, and in-bounds ones are kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.diagnostics import Diagnostic, Where
from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import Expr, Min
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.oracle.oracle import evaluate, numbers, shape_of
from autofuse.machines.twin.oracle.parts import elements, sources, up_to

__all__ = [
    "bring_inside",
    "computed_places",
    "indexing_inputs",
    "outside",
    "place_extents",
    "rounded_places",
]

Array: TypeAlias = npt.NDArray[Any]

#: Ops whose results are elements of their operands.
_MOVED = frozenset({"view", "broadcast", "transpose", "slice", "concat", "gather"})
#: Most redraws, elements computed for them, and constants of the graph that are used.
_TURNS, _WORK, _CONSTANTS = 48, 1 << 26, 8
#: Constants beyond this are neither indices nor near one.
_LARGEST = 1 << 32
#: Bytes of an integer that can hold every index.
_INDEX_BYTES = 4
#: Share of elements that are constants of the graph, or next to one.
_SPECIAL = 0.1
#: Origins of an element that is not from the input, or from several of its elements.
_NONE, _SEVERAL = -1, -2


def indexing_inputs(graph: FusionGraph) -> dict[str, Expr]:
    """Return the inputs whose elements are used directly as indices, and the smallest indexed dimension.

    They are found backwards from the ops that take an index, through ops that only move elements.
    """
    known: dict[str, Expr] = {}
    for node in reversed(graph.nodes):
        row = lookup(node.op)
        for index, extent in _asked(graph, node):
            known[index] = Min(known[index], extent) if index in known else extent
        if not _moves(graph, node):
            continue
        for name in node.outputs:
            if name in known:
                moved = node.inputs[:1] if row.compute_type == "gather" else node.inputs
                for x in moved:
                    if isinstance(x, str):
                        known[x] = Min(known[x], known[name]) if x in known else known[name]
    return {x: e for x, e in known.items() if x in graph.inputs and _is_index(graph, x)}


def computed_places(graph: FusionGraph) -> frozenset[str]:
    """Return the inputs from which arithmetic computes an index; inputs that are only moved do not count."""
    return _before(graph, lambda n: not _moves(graph, n))


def rounded_places(graph: FusionGraph) -> frozenset[str]:
    """Return the float inputs that are cast to an index; a NaN there gives no valid index."""
    return _before(graph, lambda n: lookup(n.op).name == "Cast" and not _moves(graph, n))


def _before(graph: FusionGraph, stands: Callable[[FusionNode], bool]) -> frozenset[str]:
    """Return the inputs with a path to an index through a node of a kind."""
    part = up_to(graph, {index for n in graph.nodes for index, _ in _asked(graph, n)})
    found: set[str] = set()
    for n in reversed(part.nodes):
        if set(n.outputs) & found or stands(n):
            found |= {x for x in n.inputs if isinstance(x, str)}
    return frozenset(found & set(graph.inputs))


def place_extents(graph: FusionGraph) -> dict[str, Expr]:
    """Return the integer inputs that indices are moved or computed from, with the smallest indexed dimension.

    For data that are drawn without evaluating the graph.
    """
    found: dict[str, Expr] = {}
    for node in graph.nodes:
        for index, extent in _asked(graph, node):
            for x in sources(up_to(graph, {index})):
                found[x] = Min(found[x], extent) if x in found else extent
    return {x: e for x, e in {**found, **indexing_inputs(graph)}.items() if _is_index(graph, x)}


def bring_inside(
    graph: FusionGraph,
    inputs: Mapping[str, Array],
    symbols: Mapping[str, int],
    seed: int,
    *,
    fixed: Collection[str] = (),
    fitting: Callable[[str, Array], Array] = lambda _, x: x,
    drawn: bool = True,
) -> None:
    """Change elements of inputs, in place, so that the indices computed from them are in bounds.

    Args:
        graph: whose inputs.
        inputs: an array for each of them.
        symbols: a value per symbol.
        seed: seed of the random numbers.
        fixed: inputs that stay unchanged.
        fitting: converts numbers to values that the input may hold.
        drawn: the elements are random, so some of them become indices, or constants that the graph compares with.
    """
    names = sorted(computed_places(graph) - set(fixed))
    if not names:
        return
    search = _Search(graph, symbols)
    rng = np.random.Generator(np.random.SFC64([seed, *(zlib.crc32(n.encode()) for n in names)]))

    def put(name: str, at: Array, values: Array) -> None:
        x = inputs[name]
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            values = np.clip(values, limits.min, limits.max)
        found = fitting(name, values.astype(x.dtype).reshape(x.shape))
        np.copyto(x, found, where=at.reshape(x.shape))

    if drawn:
        # Random floats are kept if they lead in bounds.
        for name in (n for n in names if _is_index(graph, n)):
            size = inputs[name].size
            extent = search.extent(name)
            chance = rng.random(size)
            put(name, chance < 0.5, rng.integers(-extent, extent, size))
            special = [float(s) for c in search.constants for s in (c - 1, c, c + 1)]
            if special:
                put(name, chance > 1 - _SPECIAL, rng.choice(special, size))
    wrong = search.wrong(inputs)
    for turn in range(min(_TURNS, _WORK // max(search.work, 1))):
        if not any(w.any() for w in wrong.values()):
            return
        # One input at a time, and occasionally all of them: a sum may need both terms to be small.
        chosen = names if turn % 3 == 2 else [names[turn % len(names)]]
        before = {n: inputs[n].copy() for n in chosen}
        suspects = {n: search.feeding(n, wrong, inputs) for n in chosen}
        for n in chosen:
            put(n, suspects[n], search.candidates(n, turn, inputs[n], rng))
        wrong = search.wrong(inputs)
        for n in chosen:
            still = search.feeding(n, wrong, inputs) & suspects[n]
            np.copyto(inputs[n], before[n], where=still.reshape(inputs[n].shape))
        wrong = search.wrong(inputs)


def outside(
    graph: FusionGraph, inputs: Mapping[str, Array], symbols: Mapping[str, int]
) -> tuple[Diagnostic, ...]:
    """Return AF5007 for every op with an out-of-bounds index, with an input that it comes from.

    Args:
        graph: whose inputs.
        inputs: an array for each of them.
        symbols: a value per symbol.
    """
    search = _Search(graph, symbols)
    if not search.asked:
        return ()
    with np.errstate(all="ignore"):
        values = evaluate(search.part, inputs, symbols)
    found = []
    for n in graph.nodes:
        for index, extent in _asked(graph, n):
            size, place = extent.evaluate(symbols), values[index].value
            wrong = _outside(place, size)
            if (unsure := values[index].tolerance) is not None:
                wrong &= unsure == 0
            bad = np.flatnonzero(wrong)
            if not bad.size:
                continue
            at = int(bad[0])
            data = n.inputs[0]
            more = f", and {bad.size - 1} more" if bad.size > 1 else ""
            text = (
                f"invalid input data: {_place(index, at, place)} is {place.reshape(-1)[at]}{more}, and "
                f"{data} has {counted(size, 'place')} along dimension {_axis(graph, n)}"
            )
            one = np.zeros(place.shape, np.bool_)
            one.reshape(-1)[at] = True
            notes = []
            for x in sources(search.part):
                if x == index:
                    continue
                feeding = np.flatnonzero(search.feeding(x, {index: one}, inputs))
                if feeding.size == 1:
                    value = inputs[x].reshape(-1)[feeding[0]]
                    notes.append(f"computed from {_place(x, int(feeding[0]), inputs[x])} = {value}")
                elif feeding.size:
                    notes.append(f"computed from several elements of {x}")
            found.append(Diagnostic("AF5007", text, Where(node=n.label), notes=tuple(notes)))
    return tuple(found)


def _place(name: str, at: int, x: Array) -> str:
    return name + "".join(f"[{i}]" for i in np.unravel_index(at, x.shape))


def _asked(graph: FusionGraph, node: FusionNode) -> Iterator[tuple[str, Expr]]:
    """Yield the index tensor of an op that takes one, and the indexed dimension."""
    if lookup(node.op).compute_type == "gather":
        data, index = node.inputs
        if isinstance(data, str) and isinstance(index, str):
            yield index, graph.tensors[data].shape[_axis(graph, node)]


def _axis(graph: FusionGraph, node: FusionNode) -> int:
    """Return the dimension of its data that an op indexes."""
    return int(node.attrs["axis"]) % len(graph.tensors[str(node.inputs[0])].shape)  # type: ignore[arg-type]


def _moves(graph: FusionGraph, node: FusionNode) -> bool:
    """Return True if the result consists of elements of operands, as far as they are indices."""
    row = lookup(node.op)
    if row.name == "Cast":
        kinds = [
            graph.tensors[x].dtype for x in (*node.inputs, *node.outputs) if isinstance(x, str)
        ]
        return all(d.kind in "iu" and d.itemsize >= _INDEX_BYTES for d in kinds)
    return row.compute_type in _MOVED or row.cost == "none"


def _is_index(graph: FusionGraph, name: str) -> bool:
    return graph.tensors[name].dtype.kind in "iu"


def _outside(index: Array, extent: int) -> Array:
    return np.asarray((index < -extent) | (index >= extent))


@dataclass(slots=True)
class _Search:
    """The subgraph that computes indices, with symbols replaced by sizes."""

    graph: FusionGraph
    symbols: Mapping[str, int]
    part: FusionGraph
    asked: dict[str, int]
    work: int
    constants: tuple[float, ...]
    _origins: dict[str, dict[str, Array]]

    def __init__(self, graph: FusionGraph, symbols: Mapping[str, int]) -> None:
        self.graph, self.symbols = graph, symbols
        self.asked, self._origins = {}, {}
        for n in graph.nodes:
            for index, extent in _asked(graph, n):
                size = extent.evaluate(symbols)
                self.asked[index] = min(size, self.asked.get(index, size))
        self.part = up_to(graph, self.asked)
        self.work = elements(self.part, symbols)
        found = {
            float(x.value)
            for n in self.part.nodes
            for x in n.inputs
            if isinstance(x, Constant) and abs(x.value) <= _LARGEST
        }
        self.constants = tuple(sorted(found, key=lambda c: (abs(c), c))[:_CONSTANTS])

    def extent(self, name: str) -> int:
        """Return the smallest dimension, at least 1, that is indexed by values from an input."""
        fed = {name}
        for n in self.part.nodes:
            if not fed.isdisjoint(x for x in n.inputs if isinstance(x, str)):
                fed.update(n.outputs)
        return max(min((e for i, e in self.asked.items() if i in fed), default=1), 1)

    def values(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the indices."""
        with np.errstate(all="ignore"):
            found = evaluate(self.part, inputs, self.symbols)
        return {name: found[name].value for name in self.asked}

    def wrong(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return a mask of out-of-bounds indices, and of those at an end that rounding might move out of bounds."""
        with np.errstate(all="ignore"):
            found = evaluate(self.part, inputs, self.symbols)
        out = {}
        for name, extent in self.asked.items():
            index, unsure = found[name].value.astype(np.int64), found[name].tolerance
            bad = _outside(index, extent)
            if unsure is not None:
                near = _outside(index - 1, extent) | _outside(index + 1, extent)
                bad |= near & (unsure > 0)
            out[name] = bad
        return out

    def feeding(self, name: str, wrong: Mapping[str, Array], inputs: Mapping[str, Array]) -> Array:
        """Return the flat elements of an input that the marked indices depend on."""
        out = np.zeros(inputs[name].size, np.bool_)
        origins = self.origins(name, inputs)
        for index, bad in wrong.items():
            if index in origins:
                at = np.unique(origins[index][bad])
                out[at[at >= 0]] = True
                out |= _SEVERAL in at
        return out

    def origins(self, name: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return, for every tensor that depends on an input, the flat position there that each element comes from."""
        if name in self._origins:
            return self._origins[name]
        found = {name: np.arange(inputs[name].size).reshape(inputs[name].shape)}
        looked_up = any(lookup(n.op).compute_type == "gather" for n in self.part.nodes)
        values = self.values(inputs) if looked_up else {}
        for n in self.part.nodes:
            operands = [found.get(x) if isinstance(x, str) else None for x in n.inputs]
            if all(o is None for o in operands):
                continue
            shape = shape_of(self.graph.tensors[n.outputs[0]].shape, self.symbols)
            found[n.outputs[0]] = self._through(n, operands, shape, values)
        if not looked_up:
            self._origins[name] = found
        return found

    def _through(
        self,
        n: FusionNode,
        operands: Sequence[Array | None],
        shape: tuple[int, ...],
        values: Mapping[str, Array],
    ) -> Array:
        row = lookup(n.op)
        kind = row.compute_type
        known = [o for o in operands if o is not None]
        if kind == "view":
            return known[0].reshape(shape)
        if kind == "broadcast":
            return np.broadcast_to(known[0], shape)
        if kind == "gather" and operands[1] is None:
            assert row.reference is not None
            return np.asarray(row.reference([known[0], values[str(n.inputs[1])]], n.attrs))
        if kind in ("transpose", "slice", "concat", "pad"):
            assert row.reference is not None
            attrs = numbers(n.attrs, self.symbols)
            moved = [
                np.full(shape_of(self.graph.tensors[str(x)].shape, self.symbols), _NONE)
                if o is None
                else o
                for x, o in zip(n.inputs, operands, strict=True)
            ]
            return np.asarray(row.reference(moved, {**attrs, "value": _NONE}))
        if kind != "elewise":
            return np.full(shape, _SEVERAL)
        out = np.full(shape, _NONE)
        for o in known:
            other = np.broadcast_to(o, shape)
            out = np.where(
                (out == other) | (other == _NONE), out, np.where(out == _NONE, other, _SEVERAL)
            )
        return out

    def candidates(self, name: str, turn: int, x: Array, rng: np.random.Generator) -> Array:
        """Return candidates of one kind of index component, one per element of an input."""
        extent, size = self.extent(name), x.size
        top = rng.integers(-extent, extent, size).astype(np.float64)
        real = self.graph.tensors[name].dtype.kind == "f"
        if real:
            top += rng.random(size)
        #: Sign restriction, factor and offset of the candidates.
        kinds = [(False, 1.0, 0.0), (True, 1.0, 0.0)]
        if real:
            kinds.append((True, 1 / extent, 0.0))
        for c in self.constants:
            kinds += [(False, 1.0, c), (False, 1.0, -c), (False, 0.0, c)]
            if c not in (0, 1, -1):
                kinds += [(False, 1 / c, 0.0), (False, c, 0.0)]
        reach = extent
        while reach > 1:
            reach //= 2
            kinds.append((True, reach / extent, 0.0))
        kinds += [(False, 0.0, 0.0), (False, 0.0, 1.0)]
        positive, factor, more = kinds[turn % len(kinds)]
        found = np.asarray((np.abs(top) if positive else top) * factor + more)
        return found if real else np.floor(found)
