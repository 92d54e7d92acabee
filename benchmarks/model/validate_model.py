"""Compare the cost model with times measured on silicon.

    python benchmarks/model/validate_model.py                 tables for both chips
    python benchmarks/model/validate_model.py --chip 910b2    one chip
    python benchmarks/model/validate_model.py --json

Figures of a chip that no source gives (status ``fitted`` in its target file) are fitted to the cases of
``npu_times.csv`` with a forced schedule.  The error is the mean of |ln(predicted / measured)|:

- ``in``: fitted and tested on all cases;
- ``5-fold``: fitted on four fifths, tested on the rest, five times; with the spread over ten partitions into fifths;
- ``without``: fitted without one op, tested on that op;
- ``bytes only``: the same for T0 + bytes / rate, with one rate up to the size of L2 and one beyond;
- ``no vector``: the same for the cost model without the vector unit.

The series of the asc-devkit examples is predicted with the figures in the target files.  Needs the folder ``facts`` of
../shared (or of AUTOFUSE_SHARED).  Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from measured_kernels import (
    CHIPS,
    Case,
    Point,
    chip_of_cases,
    facts_folder,
    forced,
    read_cases,
    series,
    work_of,
)

from autofuse.measure.calibration.written import Work, evaluate
from autofuse.targets import TargetSpec, load_chip

__all__ = [
    "Report",
    "fit",
    "fitted_names",
    "folds",
    "predict",
    "roofline",
    "validate",
]

#: Number of partitions into fifths for the spread.
DIVISIONS = 10

Values = Mapping[str, float]
#: A model: values of its parameters -> a case's work -> microseconds.
Model = Callable[[Values], Callable[[Work], float]]


def fitted_names(target: TargetSpec) -> tuple[str, ...]:
    """Return the fitted figures of a chip, as named by ``autofuse targets``."""
    return tuple(sorted(f.name for f in target.figures() if f.status == "fitted"))


def predict(target: TargetSpec) -> Model:
    """Return the cost model of a chip."""

    def at(values: Values) -> Callable[[Work], float]:
        chip = target.with_values(values)
        return lambda work: evaluate(work, chip).total

    return at


def roofline(target: TargetSpec) -> Model:
    """Return the model of bytes alone: a start, a rate for data that fits L2, and one beyond."""

    def at(values: Values) -> Callable[[Work], float]:
        def time(work: Work) -> float:
            total = work.nbytes
            hot = min(total, target.l2_bytes)
            return values["t0"] + hot / values["hot"] / 1e3 + (total - hot) / values["cold"] / 1e3

        return time

    return at


def error(model: Model, values: Values, cases: Sequence[tuple[Work, float]]) -> float:
    """Return the mean of |ln(predicted / measured)|."""
    time = model(values)
    return sum(abs(math.log(time(w) / us)) for w, us in cases) / len(cases)


def fit(
    model: Model, start: Values, cases: Sequence[tuple[Work, float]], *, rounds: int = 2
) -> dict[str, float]:
    """Return the values of least error, by the simplex method on their logarithms, from ``start``."""
    names = sorted(start)

    def at(point: Sequence[float]) -> float:
        return error(model, {n: math.exp(x) for n, x in zip(names, point, strict=True)}, cases)

    point = [math.log(start[n]) for n in names]
    for number in range(rounds):
        point = _simplex(at, point, 0.3 / 4**number)
    return {n: math.exp(x) for n, x in zip(names, point, strict=True)}


def _simplex(
    at: Callable[[Sequence[float]], float], start: Sequence[float], size: float
) -> list[float]:
    """Minimise by the Nelder-Mead method."""
    corners = [list(start)]
    corners += [[x + size * (i == k) for i, x in enumerate(start)] for k in range(len(start))]
    found = sorted((at(c), c) for c in corners)
    for _ in range(60 * len(start)):
        if found[-1][0] - found[0][0] < 1e-7:
            break
        worst = found[-1][1]
        middle = [sum(c[i] for _, c in found[:-1]) / (len(found) - 1) for i in range(len(start))]

        def along(
            t: float, middle: Sequence[float] = middle, worst: Sequence[float] = worst
        ) -> tuple[float, list[float]]:
            point = [m + t * (m - w) for m, w in zip(middle, worst, strict=True)]
            return at(point), point

        new = along(1.0)
        if new[0] < found[0][0]:
            new = min(new, along(2.0))
        elif new[0] >= found[-2][0]:
            new = min(along(-0.5), along(0.5))
        if new[0] < found[-1][0]:
            found[-1] = new
        else:
            best = found[0][1]
            near = [[(x + y) / 2 for x, y in zip(c, best, strict=True)] for _, c in found[1:]]
            found = [found[0]] + [(at(c), c) for c in near]
        found.sort()
    return found[0][1]


def folds(count: int, seed: int, parts: int = 5) -> list[list[int]]:
    """Split ``range(count)`` randomly into parts of about equal size."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return [order[k::parts] for k in range(parts)]


@dataclass(frozen=True, slots=True)
class Report:
    """Errors of one chip.

    Attributes:
        values: values fitted to all cases.
        inside: error on the fitted cases.
        five: held-out errors, one per partition into fifths.
        without: op -> error on it, fitted to the others.
        by: (op, dtype) -> number of cases and their held-out error in the first partition.
        roofline_five, roofline_without: held-out errors of ``bytes only``, for the first partition.
        no_vector_five: held-out error of the cost model without vector calls, for the first partition.
        counts: op -> number of cases.
    """

    chip: str
    cases: int
    values: dict[str, float]
    inside: float
    five: tuple[float, ...]
    without: dict[str, float]
    by: dict[tuple[str, str], tuple[int, float]]
    roofline_five: float
    roofline_without: dict[str, float]
    no_vector_five: float
    counts: dict[str, int]

    @property
    def held_out(self) -> float:
        """Mean held-out error over the partitions."""
        return sum(self.five) / len(self.five)

    def by_op(self, errors: Mapping[str, float]) -> float:
        """Return the mean over all cases of errors per op, such as ``without``."""
        return sum(errors[op] * n for op, n in self.counts.items()) / self.cases


def validate(chip: str, cases: Sequence[Case], *, divisions: int = DIVISIONS) -> Report:
    """Fit and test one chip.

    Args:
        chip: a key of ``CHIPS``.
        cases: measured cases with a forced schedule.
        divisions: number of partitions into fifths.
    """
    target = chip_of_cases(chip)
    model = predict(target)
    figures = {f.name: f.value for f in target.figures()}
    start = {n: figures[n] for n in fitted_names(target)}
    made = [(work_of(c, target), c.us) for c in cases]
    five: list[float] = []
    first: list[float] = []
    for seed in range(divisions):
        errors = _held_out(model, start, made, seed)
        first = first or errors
        five.append(sum(errors) / len(errors))
    plain = roofline(target)
    begin = {"t0": 3.0, "hot": 2000.0, "cold": 1100.0}
    flat = _held_out(plain, begin, made, 0)
    idle = _held_out(model, start, [(without_vector(w), us) for w, us in made], 0)
    groups = sorted({(c.op, c.dtype) for c in cases})
    by = {g: [e for c, e in zip(cases, first, strict=True) if (c.op, c.dtype) == g] for g in groups}
    values = fit(model, start, made)
    return Report(
        chip,
        len(cases),
        values,
        error(model, values, made),
        tuple(five),
        _without(model, start, cases, made),
        {g: (len(e), sum(e) / len(e)) for g, e in by.items()},
        sum(flat) / len(flat),
        _without(plain, begin, cases, made),
        sum(idle) / len(idle),
        dict(Counter(c.op for c in cases)),
    )


def without_vector(work: Work) -> Work:
    """Return the loads and stores of ``work``, without its vector calls."""
    loops = tuple(replace(x, body=replace(x.body, calls=())) for x in work.loops)
    return replace(work, loops=loops)


def _held_out(
    model: Model, start: Values, made: Sequence[tuple[Work, float]], seed: int
) -> list[float]:
    """Return the error of every case, fitted without its fifth."""
    out = [0.0] * len(made)
    for part in folds(len(made), seed):
        left = [m for i, m in enumerate(made) if i not in part]
        values = fit(model, start, left)
        for i in part:
            out[i] = error(model, values, [made[i]])
    return out


def _without(
    model: Model, start: Values, cases: Sequence[Case], made: Sequence[tuple[Work, float]]
) -> dict[str, float]:
    out = {}
    for op in sorted({c.op for c in cases}):
        rest = [m for c, m in zip(cases, made, strict=True) if c.op != op]
        own = [m for c, m in zip(cases, made, strict=True) if c.op == op]
        out[op] = error(model, fit(model, start, rest), own)
    return out


def predicted(point: Point) -> float:
    """Return the model's figure for a point of a series, with the unmodified target file."""
    return float(getattr(evaluate(point.work, load_chip(CHIPS[point.chip])), point.what))


def tables(reports: Sequence[Report]) -> str:
    """Return all tables as Markdown."""
    out = [
        "| chip | cases | fitted figures | in | 5-fold (spread) | no vector, 5-fold | bytes only, 5-fold |"
    ]
    out += ["| --- | --: | --: | --: | --: | --: | --: |"]
    for r in reports:
        spread = f"{_percent(r.held_out)} ({_percent(min(r.five))} to {_percent(max(r.five))})"
        held = (spread, _percent(r.no_vector_five), _percent(r.roofline_five))
        cells = (r.chip, r.cases, len(r.values), _percent(r.inside), *held)
        out.append(f"| {' | '.join(map(str, cells))} |")
    out += ["", "| chip | left out | model | bytes only |", "| --- | --- | --: | --: |"]
    for r in reports:
        for op, e in r.without.items():
            out.append(f"| {r.chip} | {op} | {_percent(e)} | {_percent(r.roofline_without[op])} |")
        model, plain = r.by_op(r.without), r.by_op(r.roofline_without)
        out.append(f"| {r.chip} | each in turn | {_percent(model)} | {_percent(plain)} |")
    out += ["", "| chip | op | dtype | cases | held out |", "| --- | --- | --- | --: | --: |"]
    for r in reports:
        for (op, dtype), (count, e) in r.by.items():
            out.append(f"| {r.chip} | {op} | {dtype} | {count} | {_percent(e)} |")
    out += [
        "",
        "| chip | fitted figure | of all cases | in the target file |",
        "| --- | --- | --: | --: |",
    ]
    for r in reports:
        figures = {f.name: f.value for f in load_chip(CHIPS[r.chip]).figures()}
        for name, value in r.values.items():
            out.append(f"| {r.chip} | {name} | {value:.4g} | {figures[name]:.4g} |")
    return "\n".join(out)


def series_table(chips: Sequence[str]) -> str:
    """Return the documented series as Markdown."""
    out = [
        "| chip | kernel | measured us | model us | error | fixes |",
        "| --- | --- | --: | --: | --: | --- |",
    ]
    for p in series():
        if p.chip in chips:
            us = predicted(p)
            cells = (p.chip, p.name, f"{p.us:.1f}", f"{us:.1f}", f"{us / p.us - 1:+.1%}", p.sets)
            out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def main() -> int:
    """Fit, test and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--chip", choices=sorted(CHIPS), help="only this one")
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    args = parser.parse_args()
    chips = [args.chip] if args.chip else sorted(CHIPS)
    path = facts_folder() / "npu_times.csv"
    if not path.is_file():
        parser.error(f"there is no {path} (AUTOFUSE_SHARED names another folder)")
    reports = [validate(c, [k for k in read_cases(path, c) if forced(k)]) for c in chips]
    if args.json:
        print(json.dumps(_json(reports, chips), indent=2))
    else:
        print(f"Mean of |ln(model / measured)|.\n\n{tables(reports)}\n\n{series_table(chips)}")
    return 0


def _json(reports: Sequence[Report], chips: Sequence[str]) -> dict[str, Any]:
    return {
        "schema": "autofuse.benchmark.model/1",
        "chips": [
            {
                "chip": r.chip,
                "cases": r.cases,
                "values": r.values,
                "in": r.inside,
                "held_out": r.held_out,
                "held_out_by_division": list(r.five),
                "without": r.without,
                "each_in_turn": r.by_op(r.without),
                "by": [
                    {"op": o, "dtype": d, "cases": n, "held_out": e}
                    for (o, d), (n, e) in r.by.items()
                ],
                "bytes_only": {"held_out": r.roofline_five, "without": r.roofline_without},
                "no_vector": {"held_out": r.no_vector_five},
            }
            for r in reports
        ],
        "series": [
            {
                "chip": p.chip,
                "kernel": p.name,
                "measured_us": p.us,
                "model_us": predicted(p),
                "fixes": p.sets,
            }
            for p in series()
            if p.chip in chips
        ],
    }


if __name__ == "__main__":
    raise SystemExit(main())
