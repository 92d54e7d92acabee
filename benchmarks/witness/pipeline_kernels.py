"""Kernels that test the cost model on a card: microbenchmarks, and generated kernels with various tilings.

Packing and evaluation build the same kernels from this module: a card is a chip with 132 cores and the UB of Ascend
910B1.
"""

from __future__ import annotations

import math
import random
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from autofuse import api
from autofuse.base.tiling import Shares
from autofuse.codegen.backends.ascendc.host.abi import tiling_fields
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.machines.twin.run.native import Tiling
from autofuse.results import BuildResult
from autofuse.schedule import realise
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.schedule.search.bound import Tiled, bind, chip_figures
from autofuse.schedule.search.breakdown import Cost, cost_of
from autofuse.schedule.search.candidates import candidates, searched
from autofuse.schedule.search.cost_form import cost_form
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.form import CostForm
from autofuse.schedule.search.given import GivenTile, GivenTiling, placed, take, templates_of
from autofuse.targets import TargetSpec, load_chip

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tiling"))

from choose_graphs import F16, F32, GRAPHS, graph_of

#: Concurrent blocks, one per multiprocessor, and L2 bytes of an NVIDIA H200; cycles are at its highest clock.
_CARD = {"aiv_cores": 132, "clock_mhz": 1980, "l2_bytes": 60 << 20}
#: Start values of a fit: guesses, none of them measured.
_BEGIN = {
    "kernel_head_us": 5.0,
    "sync_all": 3000.0,
    "model.core_start": 2.0,
    "model.tiling_load": 1.0,
    "model.load_issue": 200.0,
    "model.store_issue": 200.0,
    "model.load_latency": 1000.0,
    "model.row": 20.0,
    "model.load_core_rate": 15.0,
    "model.hot_core_rate": 25.0,
    "model.store_core_rate": 20.0,
    "model.read_gbs": 3500.0,
    "model.l2_read_gbs": 6000.0,
    "model.shared_gbs": 5000.0,
    "model.same_order_gbs": 5000.0,
    "model.write_gbs": 5000.0,
    "model.writeback_gbs": 3000.0,
    "model.conflict_sources": 1.02,
    "model.conflict_result": 1.02,
    "model.vector_gap": 40.0,
    "model.loop": 100.0,
    "model.scalar_read": 150.0,
}
_HEAD, _RATE = 60.0, 40.0
#: Sizes of graphs with one symbol; below, with two.
_ONE = (60_000, 1_000_000, 8_388_608)
_TWO = ((132, 500), (1000, 1024), (4096, 2048))
#: Number of tilings at each size, of a graph with its own buffers, and of one with single buffers.
TILINGS, SINGLE = 8, 4


@lru_cache(maxsize=1)
def machine() -> TargetSpec:
    """Return the card as a chip, with guessed figures."""
    chip = load_chip("ascend910b1")
    rows = [n for n, row in chip.vector.items() if row.rate32]
    vector = {f"vector.{n}.head": _HEAD for n in rows}
    vector |= {f"vector.{n}.rate{bits}": _RATE for n in rows for bits in (16, 32)}
    return chip.with_values({**_CARD, **_BEGIN, **vector})


def with_lines_of_a_card(chip: TargetSpec) -> TargetSpec:
    """Return the chip with cache lines of 128 bytes; only for the model, because kernels assume lines of 512."""
    return replace(chip, arch=replace(chip.arch, cache_line_bytes=128))


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel: its family, its graph, and a flag for one buffer per queue, against the scheduler's choice."""

    name: str
    family: str
    document: Mapping[str, Any]
    single: bool

    def build(self) -> BuildResult:
        """Build the kernel."""
        if not self.single:
            return api.build(self.document, target=machine())
        ways = {"_BUFFERING": ((1, False),), "_BUFFERING_OF_ROWS": ((1, False), (1, True))}
        with patch.multiple(realise, **ways):
            return api.build(self.document, target=machine())

    def sizes(self) -> list[dict[str, int]]:
        """Return the values of the symbols."""
        names = sorted(self.document["symbols"])
        shapes = [x["shape"] for x in self.document["inputs"]]
        more = max(math.prod(d for d in shape if isinstance(d, int)) for shape in shapes)
        given = [(n,) for n in _ONE] if len(names) == 1 else _TWO
        return [dict(zip(names, (s[0] // more, *s[1:]), strict=True)) for s in given]


def _more() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield graphs in addition to those that test the choice."""

    def chain(name: str, dtype: str, *ops: str) -> dict[str, Any]:
        steps = [(f"t{i}", op, [f"t{i - 1}" if i else "x"], {}) for i, op in enumerate(ops)]
        return graph_of(name, {"x": (dtype, ["n"])}, steps, [steps[-1][0]])

    yield "element-wise", chain("chain_half", F16, "Abs", "Sqrt", "Exp", "Neg", "Relu", "Exp")
    yield "element-wise", chain("sigmoid", F32, "Sigmoid")
    yield "element-wise", chain("long_chain", F32, *("Abs", "Exp", "Neg", "Relu") * 3)
    xz = {"x": (F32, ["m", "n"]), "z": (F32, ["n"])}
    steps = [("a", "Mul", ["x", "z"], {}), ("b", "Exp", ["a"], {}), ("y", "Add", ["b", "x"], {})]
    yield "broadcast", graph_of("row_chain", xz, steps, ["y"])
    for name, dtype, op in (
        ("max_columns", F32, "ReduceMax"),
        ("sum_columns_half", F16, "ReduceSum"),
    ):
        node = ("y", op, ["x"], {"axes": [0], "keepdims": True})
        yield "columns", graph_of(name, {"x": (dtype, ["m", "n"])}, [node], ["y"])
    node = ("y", "Transpose", ["x"], {"perm": [1, 0]})
    yield "move", graph_of("transposition_half", {"x": (F16, ["m", "n"])}, [node], ["y"])


def subjects() -> list[Subject]:
    """Return all kernels."""
    known = [(kind, g) for kind, graphs in GRAPHS.items() for g in graphs.values()]
    out = []
    for kind, g in (*known, *_more()):
        family = {"sum_columns": "columns", "running_sum": "running sum"}.get(g["name"], kind)
        out += [Subject(g["name"] + ("_single" if s else ""), family, g, s) for s in (False, True)]
    return out


def tilings_of(built: BuildResult, sizes: Mapping[str, int], name: str) -> list[GivenTiling]:
    """Return tilings for given sizes: those the search prefers, and others of every template, long and short."""
    costs = Costs(machine())
    results = built.schedule
    first = [g for r in results if (g := searched(r, costs, sizes)) is not None]
    best = [GivenTiling({}, g) for g in first] + candidates(results, costs, sizes, 1)
    rest: list[GivenTiling] = []
    for r in results:
        start = searched(r, costs, sizes)
        for i, g in enumerate(r.groups if start else ()):
            assert start is not None
            tiles = (t for impl in g.impls for t in _tiles(impl, costs, sizes))
            rest += [GivenTiling({}, (*start[:i], t, *start[i + 1 :])) for t in tiles]
    random.Random(name + str(sorted(sizes.items()))).shuffle(rest)
    found: dict[Any, GivenTiling] = {}
    for t in (*best[: TILINGS // 2], *rest):
        choice = take(t, results, costs, sizes)
        if not isinstance(choice, str) and len(found) < TILINGS:
            found.setdefault((choice.key, choice.cores, tuple(choice.fields.items())), t)
    return list(found.values())


def _tiles(impl: ImplGraph, costs: Costs, sizes: Mapping[str, int]) -> Iterator[GivenTile]:
    try:
        form, _ = costs.bound(impl, sizes, None)
    except (ExprError, OverflowError):
        return
    known = form.lengths(costs.chip) if form.largest else []
    for tile in known[::3]:
        for cores in (132, 66, 24):
            yield GivenTile(impl.name, tile, cores)


def packed_tiling(built: BuildResult, given: GivenTiling, sizes: Mapping[str, int]) -> Tiling:
    """Return the tiling data as filled by the host function.

    Raises:
        ValueError: the tiling is not legal for these sizes.
    """
    choice = take(given, built.schedule, Costs(machine()), sizes)
    if isinstance(choice, str):
        raise ValueError(choice)
    values = {"tiling_key": choice.key, "block_dim": choice.cores, **sizes, **choice.fields}
    fields = tiling_fields(built.graph, built.schedule)
    data = b"".join(
        struct.pack("<I" if f.ctype == "uint32_t" else "<q", values.get(f.name, f.default))
        for f in fields
    )
    most = max(workspace_bytes(r.hint, machine()).evaluate(sizes) for r in built.schedule)
    return Tiling(data, most, choice.cores)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A group of a kernel with a tiling.

    Attributes:
        impl: its template.
        sizes: sizes of the symbols.
        tile, per_core: the tiling.
        barriers: number of barriers over all cores before it.
    """

    impl: ImplGraph
    sizes: Mapping[str, int]
    tile: int
    per_core: int
    barriers: int

    def form(self, chip: TargetSpec) -> CostForm:
        """Return the cost form of its template, cached for the last chip."""
        if _FORMS.get("chip") is not chip:
            _FORMS.clear()
            _FORMS["chip"] = chip
        if id(self.impl) not in _FORMS:
            _FORMS[id(self.impl)] = self.impl, cost_form(self.impl, chip)
        return _FORMS[id(self.impl)][1]

    def shares(self, chip: TargetSpec) -> Shares:
        """Return the breakdown of its cycles."""
        form = bind(self.form(chip), self.impl.tiling, self.sizes)
        return form.shares(chip_figures(chip), self.tile, self.per_core)

    def cost(self, chip: TargetSpec, change: Callable[[CostForm], CostForm] | None = None) -> Cost:
        """Return its modelled time, optionally with other loops."""
        form = self.form(chip) if change is None else change(self.form(chip))
        bound = bind(form, self.impl.tiling, self.sizes)
        return cost_of(bound, chip, self.tile, self.per_core, barriers=self.barriers)


#: The last chip, and the costs of templates on it by identity.
_FORMS: dict[Any, Any] = {}


def parts_of(built: BuildResult, given: GivenTiling, sizes: Mapping[str, int]) -> list[Part] | None:
    """Return the groups of a kernel; None if the tiling is not legal."""
    where = templates_of(given, built.schedule)
    if where is None:
        return None
    costs = Costs(machine())
    parts = []
    result = built.schedule[where[0]]
    for g, number, one in zip(result.groups, where[1], given.groups, strict=True):
        impl = g.impls[number]
        at = placed(impl, costs, sizes, one)
        if not isinstance(at, Tiled):
            return None
        parts.append(Part(impl, sizes, at.tile, at.per_core, int(g.sync_before)))
    return parts


def single_like(
    built: BuildResult, others: Sequence[GivenTiling], sizes: Mapping[str, int]
) -> list[GivenTiling]:
    """Return a few tilings of a kernel with two buffers that are also legal for this one."""
    costs = Costs(machine())
    legal = [t for t in others if not isinstance(take(t, built.schedule, costs, sizes), str)]
    return legal[:SINGLE]
