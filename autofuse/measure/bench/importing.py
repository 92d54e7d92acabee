"""Imports operator tables of a user's profile as measurements of autofuse's kernels."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from autofuse import __version__
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.names import legal_name
from autofuse.machines.twin.run.arguments import solve_symbols
from autofuse.measure.bench.profiles import Profile, ProfileRow
from autofuse.measure.bench.results import MAX_TIMES, Measurement
from autofuse.measure.bench.subjects import Choice, Subject, chosen

__all__ = ["Imported", "imported"]

#: Prefixes of names of kernels whose graphs a compiler generated.
_OURS = "autofuse_"
#: Suffixes that runtimes add to the name of a kernel.
_ADDED = re.compile(r"_mix_aiv|_mix_aic|_[0-9a-f]{32,64}|_[0-9]{1,20}")
_Key: TypeAlias = tuple[str, "tuple[tuple[int, ...], ...] | None", int]


@dataclass(frozen=True, slots=True)
class Imported:
    """Measurements imported from a table.

    Attributes:
        records: a measurement per kernel, input shapes and number of cores.
        graphs: the path of the graph of each record; empty if not given.
        total: rows of the table.
        taken: rows of autofuse kernels.
    """

    records: tuple[Measurement, ...]
    graphs: tuple[str, ...]
    total: int
    taken: int


@dataclass(slots=True)
class _Group:
    """Runs of one kernel with the same shapes and cores."""

    name: str
    subject: Subject | None
    shapes: tuple[tuple[int, ...], ...] | None
    cores: int
    times: list[float] = field(default_factory=list)
    counters: dict[str, list[float]] = field(default_factory=dict)


def imported(profile: Profile, subjects: Sequence[Subject], *, chip: str, target: str) -> Imported:
    """Return the measurements in an operator table.

    A row is taken if it names a kernel of the graphs, or its name has the prefix of kernels whose graphs a compiler
    generated.

    Args:
        profile: the table.
        subjects: kernels that may occur in it.
        chip: the chip of the measurements, which tables do not name.
        target: the target of kernels whose graph is not given.
    """
    known = {s.graph.name: s for s in subjects}
    groups: dict[_Key, _Group] = {}
    taken = 0
    for row in profile.rows:
        name = _name_of(row, known)
        if name is None:
            continue
        taken += 1
        key = (name, row.shapes, row.cores)
        group = groups.setdefault(key, _Group(name, known.get(name), row.shapes, row.cores))
        if len(group.times) < MAX_TIMES:
            group.times.append(row.us)
            for counter, value in row.counters.items():
                group.counters.setdefault(counter, []).append(value)
    made = [_record(g, chip, target, profile.fake) for g in groups.values()]
    graphs = tuple("" if g.subject is None else g.subject.path for g in groups.values())
    return Imported(tuple(made), graphs, profile.total, taken)


def _name_of(row: ProfileRow, known: Mapping[str, Subject]) -> str | None:
    """Return the kernel name of a row; None if it is not one of autofuse's."""
    for text in (row.name, row.kind):
        for name in _spellings(text):
            if name in known:
                return name
    return next((t for t in _spellings(row.name) if t.startswith(_OURS) and legal_name(t)), None)


def _spellings(text: str) -> Iterator[str]:
    """Yield a name as it is, and without runtimes' suffixes."""
    yield text
    m = re.fullmatch(rf"(?P<name>[A-Za-z_][A-Za-z0-9_]*?)(?:{_ADDED.pattern})+", text)
    if m is not None:
        yield m["name"]


def _record(group: _Group, chip: str, target: str, fake: bool) -> Measurement:
    subject = group.subject
    sizes = None if subject is None else _sizes(subject, group.shapes)
    choice = Choice()
    if subject is not None and sizes is not None:
        choice = chosen(subject.built, sizes)
    kernel: dict[str, Any] = {
        "name": group.name,
        "target": target,
        "graph_sha256": None,
        "kernel_sha256": None,
    }
    called = {}
    if subject is not None:
        # The table does not identify the text that ran.
        kernel = {**subject.facts(), "kernel_sha256": None}
        called = {s.label: sizes[s.name] for s in subject.graph.symbols} if sizes else {}
    counters = {n: statistics.median(v) for n, v in sorted(group.counters.items())[:256]}
    return Measurement.model_validate(
        {
            "origin": "msprof",
            "generator": f"autofuse {__version__}",
            "device": {"kind": "npu", "chip": chip, "fake": fake},
            "kernel": kernel,
            "sizes": called,
            "cores": group.cores or None,
            "l2": "unknown",
            "method": "profiler",
            "times_us": group.times,
            "modelled_us": choice.us,
            "counters": counters,
        }
    )


def _sizes(subject: Subject, shapes: tuple[tuple[int, ...], ...] | None) -> dict[str, int] | None:
    """Return the sizes by symbol determined by the shapes of a row; None if they do not determine them."""
    graph = subject.graph
    if not graph.symbols:
        return {}
    if shapes is None or len(shapes) < len(graph.inputs):
        return None
    # The reported shape of a scalar differs between flows.
    given = {
        n: shape
        for n, shape in zip(graph.inputs, shapes, strict=False)
        if not graph.tensors[n].scalar
    }
    try:
        return solve_symbols(graph, given, {})
    except AutofuseError:
        return None
