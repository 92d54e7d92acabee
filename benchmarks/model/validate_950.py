"""Compare the model with the vendor's published figures for Ascend 950, for the same form of function or kernel.

    python benchmarks/model/validate_950.py            a Markdown table, errors, and omitted figures
    python benchmarks/model/validate_950.py --fit      the same with the two assumed figures refitted
    python benchmarks/model/validate_950.py --json

Rows are in ``published_950.toml``, as steps of the vector unit.  Their cycles come from ``autofuse run --trace``
(``twin.timed.pricing.on_registers``); a whole kernel takes the cost model's time for these steps and its copies
(``autofuse.measure.calibration.written.evaluate``).  Columns:

- ``model``: with the start of loops within a function, operations that wait for the previous one, and two operations
  issued per cycle, according to the vendor's documents, with the figures of the same file;
- ``one at a time``: the same with one operation issued per cycle;
- ``counts``: one at a time without loops and waits, as timed mode prices generated kernels;
- ``counts in pairs``: the same with two at a time.

The two assumed figures, ``loop`` and ``chains``, are fitted to rows 1, 2, 5, 6, 9, 10 ... of the simulator, so that
both halves contain forms of most functions, and tested on the others.  The error is the mean of
|ln(model / published)|.  Nothing is measured here.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autofuse.machines.twin.timed.pricing import on_registers
from autofuse.measure.calibration.written import Body, Loop, Work, evaluate
from autofuse.schedule.cost.cost import Call, Copy, Reach
from autofuse.targets import TargetSpec, load_chip

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "COUNTS",
    "Copies",
    "Figures",
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
#: Fitted figures and the values to try; a dozen rows do not support a finer grid.
TRIED: Mapping[str, Sequence[float]] = {
    "loop": [x / 4 for x in range(33)],
    "chains": [1 + x / 10 for x in range(31)],
}
#: Operations that never issue together with another one, and those with the shorter latency.
_ALONE = frozenset({"Reduce", "LocalMemBar"})
_CHOICES = frozenset({"Max", "Maxs", "Min", "Mins", "Select"})
NOTE = "Simulator and silicon: published by the vendor. Model: nothing was measured."


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of functions on registers that timed mode does not model; see ``published_950.toml``."""

    loop: float = 0.0
    add: float = 0.0
    max: float = 0.0
    chains: float = 1.0
    issue: float = 1.0


#: Timed mode's model, and the same with two operations at a time.
COUNTS, PAIRS = Figures(), Figures(issue=2.0)


@dataclass(frozen=True, slots=True)
class Piece:
    """Steps of the vector unit that start after all steps of the previous piece have ended.

    Attributes:
        functions: number of functions started.
        moves: registers loaded and stored, by function.
        operations: the other operations, by name.
        loops: number of loop starts, except for the first of a function.
        alone: loads that cannot pair with another one, because both need the same banks.
        waits: operation -> how many of them need the previous result.
        chains: number of independent chains of these.
    """

    functions: int
    moves: Mapping[str, int]
    operations: Mapping[str, int]
    loops: int
    alone: int
    waits: Mapping[str, int]
    chains: int

    def cycles(self, chip: TargetSpec, f: Figures) -> float:
        """Return the modelled cycles."""
        head, moved = on_registers(self.moves.items(), chip)
        if f not in (COUNTS, PAIRS):
            _, both = on_registers({"LoadAlign": 2}.items(), chip)
            moved += both * self.alone / 2
        work = 0.0
        for one in self.operations.items():
            _, takes = on_registers([one], chip)
            work += takes / (1.0 if one[0] in _ALONE else f.issue)
        waits = sum(n * (f.max if api in _CHOICES else f.add) for api, n in self.waits.items())
        waits /= min(max(self.chains, 1), f.chains)
        return head * self.functions + max(max(work, moved) + f.loop * self.loops, waits)


@dataclass(frozen=True, slots=True)
class Copies:
    """Parts of a kernel besides the steps of its cores' vector units.

    Attributes:
        cores: number of cores used.
        tiles: tiles per core; each is loaded, computed and stored.
        load, store: bytes of a tile.
        rows: rows of a tile, possibly not adjacent in GM.
        buffers: buffers of each queue.
        once: bytes that each core loads before its tiles, the same for all cores.
        again: bytes loaded from L2 with each tile.
    """

    cores: int
    tiles: int
    load: int
    store: int
    rows: int = 1
    buffers: int = 2
    once: int = 0
    again: int = 0

    def cycles(self, vector: float, chip: TargetSpec) -> float:
        """Return the cycles of a kernel, including the start, if its cores' vector units take ``vector`` cycles."""
        # The steps are already priced: use a call with as many elements as take that long.
        taken = Call(
            "unary", vector / self.tiles * chip.vector["unary"].rate32, 32, calls=0, waits=0
        )
        loads = [Copy(1, self.rows, self.load // self.rows)]
        loads += [Copy(1, 1, self.again, reach=Reach.L2)] if self.again else []
        store = Copy(1, self.rows, self.store // self.rows)
        same = Body((Copy(1, 1, self.once, reach=Reach.SAME_ORDER),)) if self.once else None
        body = Body(tuple(loads), (taken,), (store,), self.buffers)
        work = Work(self.cores, (Loop(body, self.tiles),), same)
        return evaluate(work, chip).total * chip.clock_mhz


@dataclass(frozen=True, slots=True)
class Published:
    """A figure with the steps of its core; see ``published_950.toml``.  ``copies``: for a whole kernel."""

    name: str
    form: str
    source: str
    unit: str
    published: float
    listed: bool
    gaps: int
    scalars: int
    pieces: tuple[Piece, ...]
    copies: Copies | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """Figures that no row can express, and the reason."""

    name: str
    figures: int
    reason: str


def _number(of: int | str) -> int:
    """Parse a count: a number, or sums and products of numbers."""

    def at(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
            a, b = at(node.left), at(node.right)
            return a + b if isinstance(node.op, ast.Add) else a * b
        raise ValueError(f"{of!r} is not a sum or product of numbers")

    return of if isinstance(of, int) else at(ast.parse(of, mode="eval").body)


def _piece(of: Mapping[str, Any]) -> Piece:
    return Piece(
        _number(of["functions"]),
        {"LoadAlign": _number(of["loads"]), "StoreAlign": _number(of["stores"])},
        {api: _number(n) for api, n in of["operations"].items()},
        _number(of.get("loops", 0)),
        _number(of.get("alone", 0)),
        {api: _number(n) for api, n in of.get("waits", {}).items()},
        of.get("chains", 1),
    )


def _pieces(row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the pieces of a row: the listed ones and one for each call, or the row itself."""
    if "calls" not in row:
        return list(row.get("piece", [row]))
    functions, n = row["functions"], _number(row["registers"])
    calls = [
        {"functions": functions, "loads": of * n, "stores": n, "operations": {api: n}}
        for api, of in row["calls"]
    ]
    return [*row.get("piece", []), *calls]


def _row(
    row: Mapping[str, Any], figure: Mapping[str, Any], units: Mapping[str, str], *sizes: str
) -> Published:
    """Return a figure with the steps of a row; ``sizes`` are the figure's data on copies."""
    return Published(
        row["name"],
        row["form"],
        figure["source"],
        figure.get("unit", units[figure["source"]]),
        float(figure["published"]),
        figure.get("listed", True),
        _number(row.get("gaps", 0)),
        _number(row.get("scalars", 0)),
        tuple(map(_piece, _pieces(row))),
        Copies(**{x: _number(figure[x]) for x in sizes}) if sizes else None,
    )


def read(path: Path = ROWS) -> tuple[list[Published], list[Left], Figures]:
    """Return the rows of a file, kernels last, the figures it omits, and its own figures."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    units = {s["name"]: s["unit"] for s in found["source"]}
    figures = Figures(**{name: f["value"] for name, f in found["figures"].items()})
    rows = [_row(r, r, units) for r in found["row"] if "published" in r]
    for r in found["row"]:
        if "kernel" in r:
            sizes = r["kernel"].keys() - {"published", "source"}
            rows.append(_row(r, r["kernel"], units, *sizes))
    return rows, [Left(**x) for x in found["left"]], figures


def cycles(row: Published, chip: TargetSpec, figures: Figures) -> float:
    """Return the modelled time, in the unit of the row."""
    m = chip.model
    found = m.vector_gap * row.gaps + m.scalar_read * row.scalars
    found += sum(piece.cycles(chip, figures) for piece in row.pieces)
    found = row.copies.cycles(found, chip) if row.copies else found
    return found / chip.clock_mhz if row.unit == "us" else found


def error(rows: Sequence[Published], chip: TargetSpec, figures: Figures) -> float:
    """Return the mean of |ln(model / published)|."""
    found = [abs(math.log(cycles(r, chip, figures) / r.published)) for r in rows]
    return sum(found) / len(found)


def halves(rows: Sequence[Published]) -> tuple[list[Published], list[Published]]:
    """Return the simulator's rows for fitting, and the others: alternating pairs, in file order."""
    simulated = list(enumerate(r for r in rows if r.source == "simulator"))
    return [r for i, r in simulated if i % 4 < 2], [r for i, r in simulated if i % 4 > 1]


def fit(rows: Sequence[Published], chip: TargetSpec, figures: Figures) -> Figures:
    """Return the figures with the values of least error among those tried."""
    points = [
        replace(figures, **dict(zip(TRIED, x, strict=True)))
        for x in itertools.product(*TRIED.values())
    ]
    return min(points, key=lambda f: error(rows, chip, f))


def one_at_a_time(rows: Sequence[Published], chip: TargetSpec, figures: Figures) -> Figures:
    """Return the figures for one issue per cycle, fitted likewise."""
    return fit(halves(rows)[0], chip, replace(figures, issue=1))


def report(
    rows: Sequence[Published], chip: TargetSpec, figures: Figures
) -> dict[str, dict[str, float]]:
    """Return the errors of the models, by kind of rows: vector units, and whole kernels."""
    fitted, tested = halves(rows)
    parts = {
        "simulator": [*fitted, *tested],
        "fitted half": fitted,
        "other half": tested,
        "silicon": [r for r in rows if r.source == "silicon"],
        "kernels": [r for r in rows if r.copies],
    }
    models = {
        "model": figures,
        "one at a time": one_at_a_time(rows, chip, figures),
        "counts": COUNTS,
        "counts in pairs": PAIRS,
    }
    found = {m: {k: error(part, chip, f) for k, part in parts.items()} for m, f in models.items()}
    for m in ("model", "one at a time"):
        # The error on the fitted half when the other half is fitted.
        found[m]["halves exchanged"] = error(fitted, chip, fit(tested, chip, models[m]))
    return found


def expressed(rows: Sequence[Published], left: Sequence[Left]) -> tuple[int, int]:
    """Return the number of listed figures with rows, and the number of all figures."""
    listed = sum(r.listed for r in rows)
    return listed, listed + sum(x.figures for x in left)


def table(rows: Sequence[Published], chip: TargetSpec, figures: Figures) -> str:
    """Return the rows as Markdown."""
    fitted, _ = halves(rows)
    single = one_at_a_time(rows, chip, figures)
    lines = [
        "| function | form | published | of | model | off | one at a time | off | fitted |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        whole = r.unit == "cycles" or r.published >= 1000
        digits = 0 if whole else 2 if r.published < 10 else 1
        shown = [f"{r.published:.{digits}f} {r.unit}", r.source]
        for found in (cycles(r, chip, figures), cycles(r, chip, single)):
            shown += [f"{found:.{digits}f}", f"{100 * (found / r.published - 1):+.0f} %"]
        half = "yes" if r in fitted else ""
        lines.append(f"| {r.name} | {r.form} | {' | '.join(shown)} | {half} |")
    return "\n".join(lines)


def summary(
    rows: Sequence[Published], left: Sequence[Left], chip: TargetSpec, figures: Figures
) -> str:
    """Return the errors, and the omitted figures with reasons."""
    found = report(rows, chip, figures)
    lines = [
        f"| mean of abs(ln(model / published)) | {' | '.join(found)} |",
        f"| --- |{' --- |' * len(found)}",
    ]
    for part in found["model"]:
        shown = [f"{of[part]:.3f}" if part in of else "" for of in found.values()]
        lines.append(f"| {part} | {' | '.join(shown)} |")
    have, of = expressed(rows, left)
    lines += ["", f"{have} of {of} listed figures are expressed. Not:"]
    lines += [f"- {x.name} ({x.figures}): {x.reason}" for x in left]
    return "\n".join(lines)


def main() -> int:
    """Run the script and return the exit status."""
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
    rows, left, figures = read()
    if args.fit:
        figures = fit(halves(rows)[0], chip, figures)
        print("".join(f"{name} = {getattr(figures, name):g}\n" for name in TRIED))
    if args.json:
        made = [{**asdict(r), "model": cycles(r, chip, figures)} for r in rows]
        print(json.dumps({"rows": made, "report": report(rows, chip, figures)}, indent=1))
    else:
        print(f"{table(rows, chip, figures)}\n\n{summary(rows, left, chip, figures)}\n\n{NOTE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
