"""Compare timed mode with the cost model: kernels of every template family, priced both ways.

    python benchmarks/model/timed_vs_model.py                 every case, as a Markdown table
    python benchmarks/model/timed_vs_model.py --case softmax  those with this in their name
    python benchmarks/model/timed_vs_model.py --every-key     all templates of a kernel, not only the chosen one
    python benchmarks/model/timed_vs_model.py --random 168    this many matrices of random sizes; lists those 10 % off
    python benchmarks/model/timed_vs_model.py --json

Both times are modelled, neither was measured: ``schedule/search/breakdown.py`` evaluates a formula for a template and
its tile, timed mode simulates the instructions of a run of the kernel.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import traffic
from traffic import Case, step

from autofuse.api import BuildResult, build, timed
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.cost.cost import NOTE
from autofuse.schedule.search.breakdown import Cost
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import best_tiling

#: Cases of ``benchmarks/model/traffic.py`` that are also priced here.
SHARED = (
    "element-wise 4096 x 1024",
    "broadcast of a row 4096 x 1024",
    "broadcast of a column 4096 x 1024",
    "broadcast of a long row 96 x 40000",
    "scale and shift of long rows 97 x 40009",
    "reduce AR 4096 x 1024",
    "reduce AR 4099 x 1021",
    "reduce RA 4096 x 1024",
    "reduce ARA 64 x 64 x 512",
    "reduce RAR 64 x 64 x 512",
    "softmax 4096 x 1024",
    "softmax 4099 x 1021",
    "softmax 96 x 20000",
    "softmax 96 x 40000",
    "layer norm 4096 x 1024",
    "layer norm 96 x 40000",
    "rms norm 4096 x 1024",
    "log-sum-exp 96 x 40000",
    "slice 4096 x 1024",
    "every third column 4096 x 1024",
    "rows from their end 4096 x 1024",
    "transpose 4096 x 1024",
    "transpose 4099 x 1021",
    "running sums of columns 4096 x 1024",
    "running sums of rows 4096 x 1024",
    "running sums of rows 4099 x 1021",
)


@dataclass(frozen=True)
class Priced:
    """A kernel at given sizes; microseconds by both models.

    Attributes:
        templates: templates of its groups.
        timed, model: time of the kernel.
        timed_vector, model_vector: time of the vector unit of the busiest core, with the gaps between calls.
    """

    case: Case
    templates: str
    timed: float
    model: float
    timed_vector: float
    model_vector: float

    @property
    def ratio(self) -> float:
        """Ratio of timed mode to the formula."""
        return self.timed / self.model


def cases() -> tuple[Case, ...]:
    """Return at least one case for every template family."""
    known = {c.name: c for c in traffic.cases()}
    out = [known[n] for n in SHARED]
    exp = [step("Exp", "x")]
    out.append(Case("exp of packed rows", "6007 x 77", {"x": (6007, 77)}, exp))
    row = [step("Add", "x", "r")]
    for rows, columns in ((40000, 64), (40000, 77), (96, 4096)):
        inputs = {"x": (rows, columns), "r": (columns,)}
        out.append(Case("broadcast of a row", f"{rows} x {columns}", inputs, row))
    out += _reductions()
    out += _short_rows()
    sizes = ((96, 40000, 1), (40000, 96, 0), (480, 200, 1), (141, 83, 1))
    for rows, columns, axis in sizes:
        steps = [step("CumSum", "x", axis=axis)]
        what = "columns" if axis == 0 else "rows"
        x = {"x": (rows, columns)}
        out.append(Case(f"running sums of {what}", f"{rows} x {columns}", x, steps))
    return tuple(out)


def _reductions() -> Iterator[Case]:
    x = {"x": (4096, 1024)}
    yield Case("product AR", "4096 x 1024", x, [step("ReduceProd", "x", axes=[1])])
    yield Case("sum AR", "40000 x 77", {"x": (40000, 77)}, [step("ReduceSum", "x", axes=[1])])
    yield Case("sum AR", "96 x 40000", {"x": (96, 40000)}, [step("ReduceSum", "x", axes=[1])])
    yield Case("sum RA", "1000 x 5000", {"x": (1000, 5000)}, [step("ReduceSum", "x", axes=[0])])


def _short_rows() -> Iterator[Case]:
    for rows, k in ((233_008, 2), (100_003, 3), (60_000, 4)):
        name, inputs = f"{rows} x {k}", {"x": (rows, k), "s": (rows, 1)}
        yield Case("number for each short row", name, inputs, [step("Mul", "x", "s")])
    yield Case(
        "sum of short rows", "200000 x 3", {"x": (200_000, 3)}, [step("ReduceSum", "x", axes=[1])]
    )
    to_last = [step("Transpose", "x", perm=(0, 2, 1))]
    yield Case("channels last", "8 x 3 x 50176", {"x": (8, 3, 50_176)}, to_last)
    yield Case("weights", "256 x 9 x 128", {"x": (256, 9, 128)}, to_last)
    columns = {n: (200_000, 1) for n in "abcd"}
    yield Case("side by side", "4 of 200000 x 1", columns, [step("Concat", *columns, axis=1)])
    half = {"shape": [4096, 64, 1], "steps": [1, 1, 1]}
    turn = [
        *(step("Slice", "x", starts=[0, 0, k], **half) for k in (0, 1)),
        *(step("Mul", k, angle) for k, angle in ((0, "c"), (1, "s"), (1, "c"), (0, "s"))),
        step("Sub", 2, 3),
        step("Add", 4, 5),
        step("Concat", 6, 7, axis=2),
    ]
    inputs = {"x": (4096, 64, 2), "c": (64, 1), "s": (64, 1)}
    yield Case("interleaved rotary embedding", "4096 x 128", inputs, turn)


def random_cases(count: int, seed: int) -> Iterator[Case]:
    """Yield matrices of 2 to 4,095 rows and 4 to 4,095 columns, log-uniform, with the operators in turn."""
    draw = random.Random(seed)
    forms: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("running sums of columns", "CumSum", {"axis": 0}),
        ("running sums of rows", "CumSum", {"axis": 1}),
        ("sums of columns", "ReduceSum", {"axes": (0,)}),
        ("sums of rows", "ReduceSum", {"axes": (1,)}),
        ("transpose", "Transpose", {"perm": (1, 0)}),
        ("broadcast of a row", "Add", {}),
        ("broadcast of a column", "Add", {}),
    )
    for what, op, attrs in itertools.islice(itertools.cycle(forms), count):
        rows, columns = int(2 ** draw.uniform(1, 12)), int(2 ** draw.uniform(2, 12))
        inputs: dict[str, tuple[int, ...]] = {"x": (rows, columns)}
        if op == "Add":
            inputs["y"] = (columns,) if what.endswith("row") else (rows, 1)
        yield Case(what, f"{rows} x {columns}", inputs, [step(op, *inputs, **attrs)])


def price(case: Case, built: BuildResult, key: int | None = None) -> Priced:
    """Price a kernel by both models.

    Args:
        case: sizes and inputs.
        built: its kernel.
        key: tiling key of a template; None for the choice of the tiling function.

    Raises:
        AutofuseError: the kernel cannot be compiled, or the twin found a broken rule.
    """
    rng = np.random.default_rng(0)
    arrays = {n: rng.uniform(0.5, 1.5, s).astype(np.float32) for n, s in case.inputs.items()}
    run = timed(built, arrays, key=key)
    report = run.report
    costs = model(built, run.run.key)
    head = built.target.kernel_head_us
    (slowest,) = (c for c in report["cores"] if c["core"] == report["slowest"])
    vector = slowest["pipes"]["V"]
    waits = vector["stalls_us"].get("barrier", 0.0)
    return Priced(
        case,
        traffic.templates(built, run.run.key),
        report["total_us"],
        head + sum(c.total - head for c in costs),
        vector["us"] + waits,
        sum(c.vector for c in costs),
    )


def model(built: BuildResult, key: int) -> tuple[Cost, ...]:
    """Return the formula's costs of the groups of a tiling key."""
    impls = tiling_keys(tuple(built.schedule))[key]
    first = 0
    for result in built.schedule:
        count = _keys(result)
        if key < first + count:
            groups = result.groups
            break
        first += count
    found = [
        best_tiling(impl, Costs(built.target), {}, barriers=int(g.sync_before))
        for impl, g in zip(impls, groups, strict=True)
    ]
    return tuple(t.cost for t in found if t is not None)


def _keys(result: ScheduleResult) -> int:
    return math.prod(len(g.impls) for g in result.groups)


def measure(case: Case, *, every_key: bool = False) -> Iterator[Priced]:
    """Yield the rows of a case."""
    built = build(traffic.graph(case))
    if not every_key:
        yield price(case, built)
        return
    for key, impls in enumerate(tiling_keys(tuple(built.schedule))):
        if all(best_tiling(i, Costs(built.target), {}) is not None for i in impls):
            yield price(case, built, key)


def table(rows: Sequence[Priced]) -> str:
    """Return the rows as Markdown."""
    head = ("case", "templates", "timed", "formula", "timed / formula")
    head += ("vector unit, timed", "formula")
    out = [f"| {' | '.join(head)} |", "|---|---|--:|--:|--:|--:|--:|"]
    for r in rows:
        numbers = f"{r.timed:.2f} | {r.model:.2f} | {r.ratio:.3f}"
        vector = f"{r.timed_vector:.2f} | {r.model_vector:.2f}"
        out.append(f"| {r.case.name} | {r.templates} | {numbers} | {vector} |")
    return "\n".join(out)


def is_off(row: Priced) -> bool:
    """Return True if the two models differ by more than 10 %."""
    return abs(math.log(row.ratio)) > math.log(1.1)


def summary(rows: Sequence[Priced]) -> str:
    """Return a line on the difference between the two models."""
    off = sorted(abs(math.log(r.ratio)) for r in rows)
    worst = max(rows, key=lambda r: abs(math.log(r.ratio)))
    return (
        f"mean |ln ratio| {statistics.fmean(off):.3f}, worst {worst.ratio:.3f} "
        f"({worst.case.name}, {worst.templates}), {sum(map(is_off, rows))} of "
        f"{len(rows)} beyond 10 %"
    )


def main() -> int:
    """Price and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", default="", help="only cases with this in their name")
    parser.add_argument("--every-key", action="store_true", help="all templates of each kernel")
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    parser.add_argument(
        "--random", type=int, metavar="N", help="so many random sizes instead of the cases"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random sizes (default 1)")
    args = parser.parse_args()
    known = random_cases(args.random, args.seed) if args.random else cases()
    wanted = [c for c in known if args.case in c.name]
    if not wanted:
        parser.error(f"no case has {args.case!r} in its name")
    rows = [r for c in wanted for r in measure(c, every_key=args.every_key)]
    if args.json:
        found = [
            {"case": r.case.name, "templates": r.templates, "timed_us": r.timed}
            | {"model_us": r.model, "timed_vector_us": r.timed_vector}
            | {"model_vector_us": r.model_vector}
            for r in rows
        ]
        document = {"schema": "autofuse.benchmark.timed_vs_model/1", "note": NOTE, "rows": found}
        print(json.dumps(document, indent=2))
    else:
        print("Microseconds of two models; none was measured.\n")
        print(table([r for r in rows if not args.random or is_off(r)]))
        print(f"\n{summary(rows)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
