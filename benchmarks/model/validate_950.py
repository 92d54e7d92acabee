"""What the vendor published for Ascend 950 beside what the model says for the same form of a function on registers.

    python benchmarks/model/validate_950.py            a Markdown table, errors, and what is left out
    python benchmarks/model/validate_950.py --fit      the same with the two assumed figures fitted again
    python benchmarks/model/validate_950.py --json

Rows are in ``published_950.toml``, as steps of the vector unit.  Their cycles are those of ``autofuse run --trace``
(``autofuse.twin.timed.pricing.on_registers``), and for:

- ``two at a time``: the same where two operations begin in a cycle, as the vendor's documents say (the figure
  ``register_issue``, which is 1 in the target file);
- ``counts``: without loops that begin within a function and without operations that wait for the one before, which is
  what that mode knows of generated kernels.

The two figures of the target file that only these rows tell, ``register_loop`` and ``register_chains``, are fitted to
rows 1, 2, 5, 6, 9, 10 ... of the simulator, so that most functions have forms in both halves, and tested on the others.
The error is the mean of |ln(model / published)|.  Nothing is measured here.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autofuse.targets import TargetSpec, load_chip
from autofuse.twin.timed.pricing import Flow, on_registers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Left",
    "Published",
    "cycles",
    "error",
    "expressed",
    "fit",
    "halves",
    "read",
    "report",
    "summary",
    "table",
]

CHIP = "ascend950pr"
ROWS = Path(__file__).with_name("published_950.toml")
#: What is fitted, and the values that are tried: finer ones would say more than a dozen rows can.
TRIED: Mapping[str, Sequence[float]] = {
    "model.register_loop": [x / 4 for x in range(33)],
    "model.register_chains": [1 + x / 10 for x in range(31)],
}
NOTE = "Simulator and silicon: published by the vendor. Model: nothing was measured."


@dataclass(frozen=True, slots=True)
class Piece:
    """Steps of the vector unit of which none begins before those of the piece before have ended."""

    functions: int
    parts: Mapping[str, int]
    flow: Flow


@dataclass(frozen=True, slots=True)
class Published:
    """A figure with the steps of the vector unit behind it; see ``published_950.toml``."""

    name: str
    form: str
    source: str
    unit: str
    published: float
    section9: bool
    gaps: int
    scalars: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """Figures that no row expresses, and why."""

    name: str
    figures: int
    reason: str


def _number(of: int | str) -> int:
    """A count: a number, or sums and products of numbers."""

    def at(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
            a, b = at(node.left), at(node.right)
            return a + b if isinstance(node.op, ast.Add) else a * b
        raise ValueError(f"{of!r} is not a sum or product of numbers")

    return of if isinstance(of, int) else at(ast.parse(of, mode="eval").body)


def _piece(of: Mapping[str, Any]) -> Piece:
    operations = {api: _number(n) for api, n in of["operations"].items()}
    moved = {"LoadAlign": _number(of["loads"]), "StoreAlign": _number(of["stores"])}
    waits = {api: _number(n) for api, n in of.get("waits", {}).items()}
    flow = Flow(
        _number(of.get("loops", 0)), _number(of.get("alone", 0)), waits, of.get("chains", 1)
    )
    return Piece(_number(of["functions"]), {**moved, **operations}, flow)


def _pieces(row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The pieces of a row: stated, or one for each call, or the row itself."""
    if "calls" not in row:
        return list(row.get("piece", [row]))
    functions, n = row["functions"], _number(row["registers"])
    return [
        {"functions": functions, "loads": of * n, "stores": n, "operations": {api: n}}
        for api, of in row["calls"]
    ]


def _row(row: Mapping[str, Any], units: Mapping[str, str]) -> Published:
    return Published(
        row["name"],
        row["form"],
        row["source"],
        row.get("unit", units[row["source"]]),
        float(row["published"]),
        row.get("section9", True),
        _number(row.get("gaps", 0)),
        row.get("scalars", 0),
        tuple(map(_piece, _pieces(row))),
    )


def read(path: Path = ROWS) -> tuple[list[Published], list[Left]]:
    """The rows of a file, and what it says is left out."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    units = {s["name"]: s["unit"] for s in found["source"]}
    return [_row(r, units) for r in found["row"]], [Left(**x) for x in found["left"]]


def cycles(row: Published, chip: TargetSpec, *, counts: bool = False) -> float:
    """What the model says, in the unit of the row.

    Args:
        row: the form.
        chip: a target with registers.
        counts: without loops and waits.
    """
    m = chip.model
    found = m.vector_gap * row.gaps + m.scalar_read * row.scalars
    for piece in row.pieces:
        flow = Flow() if counts else piece.flow
        head, work = on_registers(piece.parts.items(), chip, flow)
        found += head * piece.functions + work
    return found / chip.clock_mhz if row.unit == "us" else found


def error(rows: Sequence[Published], chip: TargetSpec, *, counts: bool = False) -> float:
    """Mean of |ln(model / published)|."""
    found = [abs(math.log(cycles(r, chip, counts=counts) / r.published)) for r in rows]
    return sum(found) / len(found)


def halves(rows: Sequence[Published]) -> tuple[list[Published], list[Published]]:
    """The rows of the simulator that are fitted, and the others: pairs by turns, in the order of the file."""
    simulated = list(enumerate(r for r in rows if r.source == "simulator"))
    return [r for i, r in simulated if i % 4 < 2], [r for i, r in simulated if i % 4 > 1]


def fit(rows: Sequence[Published], chip: TargetSpec) -> dict[str, float]:
    """The values of least error, of those that are tried."""
    points = [dict(zip(TRIED, x, strict=True)) for x in itertools.product(*TRIED.values())]
    return min(points, key=lambda values: error(rows, chip.with_values(values)))


def two_at_a_time(rows: Sequence[Published], chip: TargetSpec) -> TargetSpec:
    """The chip where two operations begin in a cycle, fitted like the target file."""
    pair = chip.with_values({"model.register_issue": 2})
    return pair.with_values(fit(halves(rows)[0], pair))


def exchanged(rows: Sequence[Published], chip: TargetSpec) -> float:
    """The error of the half that is fitted otherwise, where the other one is fitted."""
    fitted, tested = halves(rows)
    return error(fitted, chip.with_values(fit(tested, chip)))


def report(rows: Sequence[Published], chip: TargetSpec) -> dict[str, dict[str, float]]:
    """Errors of the three models, by the rows that they are of."""
    fitted, tested = halves(rows)
    parts = {
        "simulator": [*fitted, *tested],
        "fitted half": fitted,
        "other half": tested,
        "silicon": [r for r in rows if r.source == "silicon"],
    }
    pair = two_at_a_time(rows, chip)
    found = {
        "model": {k: error(part, chip) for k, part in parts.items()},
        "two at a time": {k: error(part, pair) for k, part in parts.items()},
        "counts": {k: error(part, chip, counts=True) for k, part in parts.items()},
    }
    found["model"]["halves exchanged"] = exchanged(rows, chip)
    found["two at a time"]["halves exchanged"] = exchanged(rows, pair)
    return found


def expressed(rows: Sequence[Published], left: Sequence[Left]) -> tuple[int, int]:
    """How many figures of section 9 there are rows for, and how many there are."""
    listed = sum(r.section9 for r in rows)
    return listed, listed + sum(x.figures for x in left)


def table(rows: Sequence[Published], chip: TargetSpec) -> str:
    """Markdown."""
    fitted, _ = halves(rows)
    pair = two_at_a_time(rows, chip)
    lines = [
        "| function | form | published | of | model | off | two at a time | off | fitted |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        digits = 0 if r.unit == "cycles" else 2 if r.published < 10 else 1
        shown = [f"{r.published:.{digits}f} {r.unit}", r.source]
        for found in (cycles(r, chip), cycles(r, pair)):
            shown += [f"{found:.{digits}f}", f"{100 * (found / r.published - 1):+.0f} %"]
        half = "yes" if r in fitted else ""
        lines.append(f"| {r.name} | {r.form} | {' | '.join(shown)} | {half} |")
    return "\n".join(lines)


def summary(rows: Sequence[Published], left: Sequence[Left], chip: TargetSpec) -> str:
    """Errors, and what is left out with the reasons."""
    found = report(rows, chip)
    lines = [
        f"| mean of abs(ln(model / published)) | {' | '.join(found)} |",
        f"| --- |{' --- |' * len(found)}",
    ]
    for part in found["model"]:
        shown = [f"{of[part]:.3f}" if part in of else "" for of in found.values()]
        lines.append(f"| {part} | {' | '.join(shown)} |")
    have, of = expressed(rows, left)
    lines += ["", f"{have} of {of} figures of section 9 are expressed. Not:"]
    lines += [f"- {x.name} ({x.figures}): {x.reason}" for x in left]
    return "\n".join(lines)


def main() -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default=CHIP, help=f"{CHIP} unless told")
    parser.add_argument("--fit", action="store_true", help="fit the two figures again")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    chip = load_chip(args.target)
    if not chip.arch.vector_registers:
        parser.error(f"{chip.name} has no functions on registers")
    rows, left = read()
    if args.fit:
        values = fit(halves(rows)[0], chip)
        print("".join(f"{name} = {value:g}\n" for name, value in values.items()))
        chip = chip.with_values(values)
    if args.json:
        made = [{**asdict(r), "model": cycles(r, chip)} for r in rows]
        print(json.dumps({"rows": made, "report": report(rows, chip)}, indent=1))
    else:
        print(f"{table(rows, chip)}\n\n{summary(rows, left, chip)}\n\n{NOTE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
