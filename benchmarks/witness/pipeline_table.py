"""Compare the cost model with times of kernels on a card: Markdown tables from the rows of ``pipeline.py run``.

Figures are fitted only to microbenchmarks.  The scheduler's cost model then predicts the time of each generated kernel,
and which of them it would choose.  Errors are of ln(model / measured).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from pipeline_kernels import Part, Subject, machine, parts_of, subjects, with_lines_of_a_card

from autofuse.measure.calibration.cases import calibration_cases
from autofuse.measure.calibration.fitting import Fit, Observation, fit, values_of
from autofuse.measure.calibration.parameters import fitting_figures
from autofuse.results import BuildResult
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.form import CostForm
from autofuse.schedule.search.given import GivenTile, GivenTiling, given_cycles
from autofuse.targets import TargetSpec, load_chip

__all__ = ["Kernel", "figures_of", "kernels_of", "tables"]

Values: TypeAlias = Mapping[str, float]
Parts: TypeAlias = tuple[Part, ...]
#: A model: values of its factors -> parts of a kernel -> microseconds.
Model: TypeAlias = Callable[[Values], Callable[[Parts], float]]

#: Factor -> figures that it scales together.
_FACTORS = {
    "start": ("kernel_head_us",),
    "heads of calls": ("head", "model.vector_gap"),
    "rates of calls": ("rate16", "rate32"),
    "rates of a core": ("model.load_core_rate", "model.hot_core_rate", "model.store_core_rate"),
    "rates of all cores": ("gbs",),
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A generated kernel with a tiling, and its time.

    Attributes:
        subject: the subject it belongs to.
        sizes: sizes of the symbols.
        given: the tiling.
        cores: number of cores used.
        us: median microseconds.
        parts: its groups.
        built: the kernel.
    """

    subject: Subject
    sizes: Mapping[str, int]
    given: GivenTiling
    cores: int
    us: float
    parts: Parts
    built: BuildResult

    @property
    def graph(self) -> str:
        """Name of the graph."""
        return str(self.subject.document["name"])

    @property
    def place(self) -> str:
        """Name of the graph and its sizes."""
        return f"{self.graph} {' x '.join(str(n) for n in self.sizes.values())}"

    @property
    def label(self) -> str:
        """Readable name of graph, sizes and tiling."""
        tiles = ", ".join(f"{g.template.split('_0_', 1)[-1]} x {g.tile}" for g in self.given.groups)
        return f"{self.place}{' single' * self.subject.single}: {tiles}, {self.cores} cores"


def figures_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Fit, TargetSpec]:
    """Return the figures of the card, from the microbenchmarks among the rows."""
    chip = with_lines_of_a_card(machine())
    cases = {c.name: c for c in calibration_cases(machine())}
    found, tells = [], {}
    for r in rows:
        if "micro" not in r or "us" not in r or r.get("wrong"):
            continue
        case, us = cases[r["micro"]], statistics.median(r["us"])
        spread = statistics.median(abs(t - us) for t in r["us"]) / us
        noise = 1.86 * spread / math.sqrt(len(r["us"]))
        kind = case.name.split(".")[0]
        tells[case.name] = case.figures
        found.append(Observation(case.name, case.program, kind, us, noise, case.model_us))
    figures = fitting_figures(chip)
    for name in 3 * [f.name for f in figures]:
        chip = _nearer(chip, name, [o for o in found if name in tells[o.name]])
    begin = [replace(f, value=_value(chip, f.name)) for f in figures]
    done = fit(found, chip, begin, limit=1.0)
    chip = chip.with_values(values_of(done))
    # No microbenchmark has a transposition: price it as a unary call.
    return done, replace(chip, vector={**chip.vector, "transpose": chip.vector["unary"]})


def _nearer(chip: TargetSpec, name: str, told: Sequence[Observation]) -> TargetSpec:
    """Return the chip with the value of a figure that best fits its dedicated kernels, as start of a fit."""
    if not told:
        return chip
    value = _value(chip, name)
    chips = [chip.with_values({name: value * math.exp(x / 10)}) for x in range(-15, 16)]
    return min(chips, key=lambda c: sum(abs(math.log(o.predict(c) / o.us)) for o in told))


def kernels_of(rows: Iterable[Mapping[str, Any]]) -> list[Kernel]:
    """Return the generated kernels among the rows with a time and correct results."""
    known = {s.name: s for s in subjects()}
    built: dict[str, BuildResult] = {}
    out = []
    for r in rows:
        if "groups" not in r or "us" not in r or r.get("wrong"):
            continue
        name = r["case"]
        if name not in built:
            built[name] = known[name].build()
        given = GivenTiling({}, tuple(GivenTile(*g) for g in r["groups"]))
        parts = parts_of(built[name], given, r["sizes"])
        if parts is not None:
            us = statistics.median(r["us"])
            about = (r["sizes"], given, r["cores"], us, tuple(parts), built[name])
            out.append(Kernel(known[name], *about))
    return out


def _us(
    parts: Parts, chip: TargetSpec, change: Callable[[CostForm], CostForm] | None = None
) -> float:
    """Return the modelled time of a kernel whose groups share its start."""
    totals = [p.cost(chip, change).total for p in parts]
    return sum(totals) - (len(totals) - 1) * chip.kernel_head_us


def _scaled(chip: TargetSpec, values: Values) -> TargetSpec:
    """Return the chip with figures multiplied by factors."""
    ends = {e: values[n] for n, names in _FACTORS.items() for e in names}
    names = [f.name for f in chip.figures() if f.name.startswith(("model.", "vector."))]
    now = {n: _value(chip, n) for n in names} | {"kernel_head_us": chip.kernel_head_us}
    new = {
        n: v * factor
        for n, v in now.items()
        for end, factor in ends.items()
        if n == end or n.endswith(("." + end, "_" + end))
    }
    return chip.with_values(new)


def _value(chip: TargetSpec, name: str) -> float:
    table, _, rest = name.partition(".")
    if not rest:
        return float(getattr(chip, name))
    if table == "model":
        return float(getattr(chip.model, rest))
    kind, _, part = rest.partition(".")
    return float(getattr(chip.vector[kind], part))


def _models(chip: TargetSpec) -> dict[str, tuple[Model, Values]]:
    """Return the model, and others that lack a part of its structure, with initial factors."""

    def with_loops(change: Callable[[CostForm], CostForm]) -> Model:
        def at(values: Values) -> Callable[[Parts], float]:
            here = _scaled(chip, values)
            return lambda parts: _us(parts, here, change)

        return at

    def with_bodies(**members: Any) -> Model:
        return with_loops(
            lambda f: replace(f, bodies=tuple(replace(b, **members) for b in f.bodies))
        )

    def without_calls(form: CostForm) -> CostForm:
        bodies = tuple(replace(b, heads=0.0) for b in form.bodies)
        return replace(form, bodies=bodies, calls=())

    def by_bytes(values: Values) -> Callable[[Parts], float]:
        def time(parts: Parts) -> float:
            out = values["start"]
            for p in parts:
                at = p.shares(chip)
                out += at.bytes / min(values["rate"], values["core"] * at.cores) / 1e3
            return out

        return time

    ones = dict.fromkeys(_FACTORS, 1.0)
    return {
        "the model": (with_bodies(), ones),
        "pipes in turns: no overlap": (with_bodies(buffers=1, chained=True), ones),
        "one buffer for each queue": (with_bodies(buffers=1), ones),
        "no vector calls": (with_loops(without_calls), ones),
        "bytes, a start, and two rates": (by_bytes, {"start": 8.0, "rate": 2000.0, "core": 25.0}),
    }


def _fit(model: Model, start: Values, kernels: Sequence[Kernel]) -> dict[str, float]:
    """Return the factors of least mean absolute error, by reweighted least squares on their logarithms."""
    names = list(start)

    def errors(point: Any) -> Any:
        time = model({n: math.exp(x) for n, x in zip(names, point, strict=True)})
        return np.array([math.log(time(k.parts) / k.us) for k in kernels])

    point = np.log([start[n] for n in names])
    here = errors(point)
    for _ in range(6):
        slopes = np.array([(errors(point + s) - here) / 0.02 for s in 0.02 * np.eye(len(names))]).T
        weights = 1.0 / np.maximum(np.abs(here), 0.02)
        whole = slopes.T @ (slopes * weights[:, None]) + 1e-3 * np.eye(len(names))
        step = np.clip(-np.linalg.solve(whole, slopes.T @ (weights * here)), -0.7, 0.7)
        for _ in range(3):
            there = errors(point + step)
            if np.abs(there).mean() < np.abs(here).mean():
                point, here = point + step, there
                break
            step = step / 3
        else:
            break
    return {n: math.exp(x) for n, x in zip(names, point, strict=True)}


def _held_out(model: Model, start: Values, kernels: Sequence[Kernel]) -> tuple[list[float], str]:
    """Return the error of each kernel with factors fitted to the other half of the graphs, and these factors."""
    graphs = sorted({k.graph for k in kernels})
    random.Random(1).shuffle(graphs)
    first = set(graphs[: len(graphs) // 2])
    out = [0.0] * len(kernels)
    said = []
    for half in (True, False):
        values = _fit(model, start, [k for k in kernels if (k.graph in first) is half])
        said.append(", ".join(f"{n} {values[n]:.2f}" for n in start))
        time = model(values)
        for i, k in enumerate(kernels):
            if (k.graph in first) is not half:
                out[i] = math.log(time(k.parts) / k.us)
    return out, "; ".join(said)


def _searched(kernels: Sequence[Kernel], chip: TargetSpec) -> list[float]:
    """Return the cycles by which the tile search chooses."""
    costs: dict[int, Costs] = {}
    out = []
    for k in kernels:
        own = costs.setdefault(id(k.built), Costs(chip))
        found = given_cycles(k.given, k.built.schedule, own, k.sizes)
        out.append(math.inf if isinstance(found, str) else found)
    return out


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean([*values] or [math.nan])


def _part(values: Sequence[float]) -> str:
    """Return mean and median of absolute errors, and the signed median."""
    sizes = [abs(v) for v in values]
    if not sizes:
        return "- | - | -"
    signed = statistics.median(values)
    return f"{_mean(sizes):.3f} | {statistics.median(sizes):.3f} | {signed:+.3f}"


def tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return all tables."""
    done, chip = figures_of(rows)
    kernels = kernels_of(rows)
    plain = [math.log(_us(k.parts, chip) / k.us) for k in kernels]
    models = _models(chip)
    held = {n: _held_out(model, start, kernels) for n, (model, start) in models.items()}
    card = next((r["card"] for r in rows if "card" in r), "?")
    wrong = sum(bool(r.get("wrong") or "failed" in r) for r in rows)
    bits = [
        f"{card}: {len(done.observations)} microbenchmarks, {len(kernels)} kernels of "
        f"{len({k.graph for k in kernels})} graphs; {wrong} rows wrong or failed, left out.",
        _figures(done, chip),
        _families(kernels, plain, held["the model"][0]),
        _structures(kernels, plain, models, held),
        _causes(kernels, plain, chip),
        _pairs(kernels, chip),
        _choices(kernels, chip),
    ]
    return "\n\n".join(bits)


def _table(title: str, head: str, left: int, lines: Iterable[str]) -> str:
    count = head.count("|") + 1
    rule = " | ".join(["---"] * left + ["--:"] * (count - left))
    return "\n".join([f"**{title}**", "", *(f"| {x} |" for x in (head, rule, *lines))])


def _figures(done: Fit, chip: TargetSpec) -> str:
    lines = [
        f"{e.figure.name} | {e.value:.4g} | {e.error:.0%} | {e.kernels}"
        for e in done.estimates
        if e.why is None
    ]
    kinds: dict[str, list[float]] = {}
    for o, x in zip(done.observations, done.after, strict=True):
        kinds.setdefault(o.kind, []).append(x)
    unknown = ", ".join(e.figure.name for e in done.estimates if e.why is not None)
    head = _table("Figures", "figure | value | +- | microbenchmarks", 1, lines)
    left = [f"{n} | {len(v)} | {_part(v)}" for n, v in kinds.items()]
    title = "Microbenchmarks: what the fit leaves"
    own = _table(title, "kind | number | mean abs ln | median abs | median ln", 1, left)
    clock = f"Cycles are of {chip.clock_mhz} MHz. Not determined: {unknown or 'none'}."
    return f"{head}\n\n{clock}\n\n{own}"


def _families(kernels: Sequence[Kernel], plain: Sequence[float], held: Sequence[float]) -> str:
    lines = []
    for name in [*sorted({k.subject.family for k in kernels}), "all"]:
        at = [i for i, k in enumerate(kernels) if name in (k.subject.family, "all")]
        graphs = len({kernels[i].graph for i in at})
        cells = f"{name} | {graphs} | {len(at)} | {_part([plain[i] for i in at])}"
        lines.append(f"{cells} | {_mean(abs(held[i]) for i in at):.3f}")
    head = "family | graphs | kernels | mean abs ln | median abs | median ln | five factors, held out: mean"
    return _table("Model against measured, figures of microbenchmarks alone", head, 1, lines)


def _structures(
    kernels: Sequence[Kernel],
    plain: Sequence[float],
    models: Mapping[str, tuple[Model, Values]],
    held: Mapping[str, tuple[list[float], str]],
) -> str:
    lines = []
    for name, (model, start) in models.items():
        errors: Sequence[float] = plain
        if name != "the model":
            time = model(start)
            errors = [math.log(time(k.parts) / k.us) for k in kernels]
        first = "- | -" if "bytes" in name else f"{_mean(map(abs, errors)):.3f} | "
        first += "" if "bytes" in name else f"{statistics.median(errors):+.3f}"
        lines.append(f"{name} | {first} | {_mean(map(abs, held[name][0])):.3f}")
    head = (
        "structure | mean abs ln | median ln | fitted to half of the graphs, tested on the others"
    )
    factors = f"Factors of the model, from each half: {held['the model'][1]}."
    return _table("What each part of the structure is worth", head, 1, lines) + f"\n\n{factors}"


def _causes(kernels: Sequence[Kernel], plain: Sequence[float], chip: TargetSpec) -> str:
    groups: dict[str, list[float]] = {}
    for k, x in zip(kernels, plain, strict=True):
        slowest = max((p.cost(chip) for p in k.parts), key=lambda c: c.total - c.start)
        cores = "all" if k.cores > 120 else "half" if k.cores > 60 else "fewer"
        elements = math.prod(k.sizes.values())
        size = "small" if elements < 1 << 17 else "large" if elements > 1 << 21 else "middle"
        for name in (
            f"limit by the model: {slowest.limit}",
            f"cores: {cores}",
            f"sizes: {size}",
            f"buffers: {'one' if k.subject.single else 'as scheduled'}",
            f"groups: {'several' if len(k.parts) > 1 else 'one'}",
            f"last tile longer: {'yes' if any(p.shares(chip).last for p in k.parts) else 'no'}",
        ):
            groups.setdefault(name, []).append(x)
    lines = [f"{n} | {len(v)} | {_part(v)}" for n, v in sorted(groups.items())]
    head = "kernels | number | mean abs ln | median abs | median ln"
    return _table("Where the error is", head, 1, lines)


def _pairs(kernels: Sequence[Kernel], chip: TargetSpec) -> str:
    """Return a table of the same tilings with one buffer per queue and with two."""
    double = {(k.place, k.given.groups): k for k in kernels if not k.subject.single}
    lines = []
    found = [(k, double[k.place, k.given.groups]) for k in kernels if k.subject.single]
    depths = [(a, b) for a, b in found if min(_depth(b, chip)) > 1]
    for name in [*sorted({a.subject.family for a, _ in depths}), "all"]:
        some = [(a, b) for a, b in depths if name in (a.subject.family, "all")]
        measured = [math.log(a.us / b.us) for a, b in some]
        model = [math.log(_us(a.parts, chip) / _us(b.parts, chip)) for a, b in some]
        off = _mean(abs(x - y) for x, y in zip(measured, model, strict=True))
        ratios = f"{math.exp(_mean(measured)):.2f} | {math.exp(_mean(model)):.2f}"
        lines.append(f"{name} | {len(some)} | {ratios} | {off:.3f}")
    head = "family | pairs | measured | model | mean abs difference of ln"
    return _table("Time with one buffer over that with two, same tiles and cores", head, 1, lines)


def _depth(k: Kernel, chip: TargetSpec) -> list[int]:
    return [b.buffers for p in k.parts for b in p.form(chip).bodies]


def _choices(kernels: Sequence[Kernel], chip: TargetSpec) -> str:
    """Return a table of the loss of the model's choice among the measured tilings."""
    npu = with_lines_of_a_card(load_chip("ascend910b1").with_values({"aiv_cores": 132}))
    by = {
        "the model, figures of the card": _searched(kernels, chip),
        "the model, figures of Ascend 910B1": _searched(kernels, npu),
    }
    pools: dict[str, list[int]] = {}
    for i, k in enumerate(kernels):
        pools.setdefault(k.place, []).append(i)
    pools = {p: at for p, at in pools.items() if len(at) > 2}
    least = {p: min(kernels[i].us for i in at) for p, at in pools.items()}
    lines = []
    for name, cycles in by.items():
        picks = {p: min(at, key=lambda i: cycles[i]) for p, at in pools.items()}
        costs = [kernels[i].us / least[p] for p, i in picks.items()]
        lines.append(_choice(name, costs))
    costs = [_mean(kernels[i].us for i in at) / least[p] for p, at in pools.items()]
    lines.append(_choice("any of them, on average", costs))
    costs = [max(kernels[i].us for i in at) / least[p] for p, at in pools.items()]
    lines.append(_choice("the worst of them", costs))
    head = "choice | places | mean | median | worst | within 5 %"
    title = "Time of the choice over that of the best measured tiling"
    return _table(title, head, 1, lines) + "\n\n" + _templates(kernels, by, pools)


def _choice(name: str, costs: Sequence[float]) -> str:
    near = _mean(c <= 1.05 for c in costs)
    parts = f"{_mean(costs):.3f} | {statistics.median(costs):.3f} | {max(costs):.2f}"
    return f"{name} | {len(costs)} | {parts} | {near:.0%}"


def _templates(
    kernels: Sequence[Kernel],
    by: Mapping[str, Sequence[float]],
    pools: Mapping[str, Sequence[int]],
) -> str:
    """Return the ratio of the best tile of the model's template to the best of all."""
    cycles = next(iter(by.values()))
    costs, many = [], 0
    for at in pools.values():
        best: dict[tuple[str, ...], float] = {}
        for i in at:
            names = tuple(g.template for g in kernels[i].given.groups)
            best[names] = min(kernels[i].us, best.get(names, math.inf))
        if len(best) > 1:
            many += 1
            pick = min(at, key=lambda i: cycles[i])
            taken = tuple(g.template for g in kernels[pick].given.groups)
            costs.append(best[taken] / min(best.values()))
    same = sum(c == 1.0 for c in costs)
    return (
        f"Of {many} places with several templates the model takes the one that measurement takes at {same}; the best "
        f"tile of its template takes {_mean(costs):.3f} times as long as the best of all, at worst "
        f"{max(costs, default=math.nan):.2f}."
    )
