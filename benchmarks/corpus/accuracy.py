"""Largest error of every op of floats, on the twin, over the whole range of each dtype.

    python benchmarks/corpus/accuracy.py [--ops A,B] [--runs 4] [--out docs/accuracy.md]

With ``--ops`` the other rows of the file stay.

Each op becomes a kernel with one output per float dtype.  For ops of one operand, float16 and bfloat16 inputs cover all
65,536 bit patterns.  float32 inputs are random bit patterns, numbers around 1 and around the op's own scale, powers of
two with their neighbours, and special values.  Errors are relative to the float64 reference of the row, in units of the
last place of the exact result (of the smallest normal number below it).  Formulas that replace a call are measured for
an architecture that has them (Ascend 950).  On a chip, Exp, Ln, Sqrt, Div and the advanced calls may differ from the
twin's; ops built on them then add that error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autofuse import api
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.ops.definition import OpDef, OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import all_ops, lookup
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel

FLOATS = ("float32", "float16", "bfloat16")
#: Significand digits, exponent of the smallest normal number, largest number.
FORMATS = {
    "float32": (24, -126, 3.4028234663852886e38),
    "float16": (11, -14, 65504.0),
    "bfloat16": (8, -126, 3.3895313892515355e38),
}
LENGTH = 1 << 16
#: Attributes required by a row.
ATTRS = {f"ShiftedChebyshevPolynomial{x}": {"n": 5} for x in "TUVW"}
#: (low, high) of random inputs, for ops with a restricted documented range.
RANGES = {
    "AiryAi": (-20.0, 20.0),
    "BesselJ0": (-100.0, 100.0),
    "BesselJ1": (-100.0, 100.0),
    "BesselY0": (0.0, 100.0),
    "BesselY1": (0.0, 100.0),
    "Digamma": (0.0, 100.0),
    "Lgamma": (0.0, 100.0),
    "Igamma": (0.0, 120.0),
    "Igammac": (0.0, 120.0),
    "Zeta": (1.01, 30.0),
    **{f"ShiftedChebyshevPolynomial{x}": (0.0, 1.0) for x in "TUVW"},
}


@dataclass(frozen=True)
class Worst:
    """The largest error of one op in one dtype.

    Attributes:
        ulp: error in units of the last place; if the row allows an absolute error, only for results above 0.1.
        absolute: largest absolute error of results below 1, for rows that allow one.
        at: the inputs.
        wrong: number of results that are NaN or infinite where the reference is not, or vice versa.
    """

    ulp: float
    absolute: float
    at: tuple[float, ...]
    wrong: int


def float_ops() -> list[OpDef]:
    """Return the rows with one to three float inputs and a float result."""
    out = []
    for row in all_ops(user=True):
        if row.compute_type != "elewise" or row.arity[1] > 3 or row.name in ("Cast", "Identity"):
            continue
        try:
            kind, _ = infer_node(row, _inputs(row, "float32"), ATTRS.get(row.name, {}))
        except OpError:
            continue
        if kind.name == "float32" and not row.name.endswith(("PolynomialL", "PolynomialP")):
            out.append(row)
    return out


def _inputs(row: OpDef, dtype: str) -> list[Tensor]:
    shape = (const(LENGTH),)
    return [Tensor(f"x{i}_{dtype}", BY_NAME[dtype], shape) for i in range(row.arity[0])]


def graph_of(row: OpDef, dtypes: Sequence[str]) -> FusionGraph:
    """Return a graph with the op in every dtype."""
    tensors: dict[str, Tensor] = {}
    names: list[str] = []
    nodes, outputs = [], []
    attrs = ATTRS.get(row.name, {})
    for d in dtypes:
        inputs = _inputs(row, d)
        kind, shape = infer_node(row, inputs, attrs)
        y = Tensor(f"y_{d}", kind, shape)
        tensors |= {t.name: t for t in (*inputs, y)}
        names += [t.name for t in inputs]
        nodes.append(FusionNode(d, row.name, tuple(t.name for t in inputs), (y.name,), attrs))
        outputs.append(GraphOutput(y.name, y.name))
    name = f"{row.name.lower()}_accuracy"
    return FusionGraph(name, (), tuple(names), tuple(nodes), tuple(outputs), tensors)


def _singles(rng: np.random.Generator, limits: tuple[float, float] | None) -> np.ndarray:
    quarter = LENGTH // 4
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0, 3.0, 88.7, -88.7])
    powers = np.ldexp(1.0, np.arange(-149, 128))
    near = 1.0 + np.ldexp(1.0, -np.arange(1, 25))
    fixed = np.concatenate([special, powers, -powers, near, 2.0 - near]).astype(np.float32)
    bits = rng.integers(0, 1 << 32, quarter, dtype=np.uint64).astype(np.uint32).view(np.float32)
    scaled = np.ldexp(rng.uniform(-1, 1, quarter), rng.integers(-20, 20, quarter))
    middle = rng.uniform(-2, 2, quarter)
    wide = rng.uniform(-120, 120, LENGTH - 3 * quarter - fixed.size)
    with np.errstate(all="ignore"):
        parts = [v.astype(np.float32) for v in (fixed, bits, scaled, middle, wide)]
    x = np.concatenate(parts)
    if limits is None:
        return x
    low, high = limits
    inside = rng.uniform(low, high, LENGTH).astype(np.float32)
    return np.where((x >= low) & (x <= high), x, inside)


def operands(row: OpDef, dtype: str, seed: int) -> list[np.ndarray]:
    """Return arrays of LENGTH elements, for every input."""
    out = []
    limits = RANGES.get(row.name)
    for i in range(row.arity[0]):
        rng = np.random.default_rng([seed, i, FLOATS.index(dtype)])
        if dtype == "float32":
            x = _singles(rng, limits)
        else:
            x = np.arange(LENGTH, dtype=np.uint16).view(numpy_dtype(BY_NAME[dtype]))
            if limits is not None:
                with np.errstate(all="ignore"):
                    f = x.astype(np.float64)
                inside = rng.uniform(*limits, LENGTH)
                x = np.where((f >= limits[0]) & (f <= limits[1]), f, inside).astype(x.dtype)
        out.append(x if row.arity[0] == 1 else rng.permutation(x))
    return out


def errors(row: OpDef, dtype: str, inputs: Sequence[np.ndarray], got: np.ndarray) -> Worst:
    """Compare one result with the reference."""
    assert row.reference is not None
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) for x in inputs]
        exact = np.asarray(row.reference(wide, ATTRS.get(row.name, {})), np.float64)
        value = got.astype(np.float64)
        digits, normal, largest = FORMATS[dtype]
        limit = largest * (1 + 2.0**-digits)
        expected = np.where(np.abs(exact) >= limit, np.copysign(np.inf, exact), exact)
        odd = ~np.isfinite(expected) | ~np.isfinite(value)
        same = (expected == value) | (np.isnan(expected) & np.isnan(value))
        # At the limit of the range, infinity and the largest number are interchangeable.
        edge = (np.abs(exact) > largest * (1 - 2.0 ** (3 - digits))) & (
            np.sign(exact) == np.sign(value)
        )
        wrong = odd & ~same & ~edge
        _, exponent = np.frexp(np.maximum(np.abs(exact), 2.0**normal))
        size = np.where(odd, 0.0, np.abs(exact))
        off = np.where(odd, 0.0, np.abs(value - exact))
        ulps = off / np.ldexp(1.0, exponent - digits)
    # Treat subnormals as zero; near a zero, count an allowed absolute error in absolute terms, not in ulps.
    counted = (size >= (0.1 if row.absolute else 2.0**normal)) | (off > 2.0**normal) & (
        not row.absolute
    )
    ulps = np.where(counted, ulps, 0.0)
    worst = int(np.argmax(ulps))
    at = tuple(float(x[worst]) for x in inputs)
    absolute = float(np.max(off, where=size < 1.0, initial=0.0)) if row.absolute else 0.0
    return Worst(float(ulps[worst]), absolute, at, int(wrong.sum()))


def target_of(row: OpDef) -> str:
    """Return the target that computes an op by formula: one without its call if it has both call and formula."""
    return "ascend950pr" if row.call and row.short else "ascend910b1"


def measure(row: OpDef, runs: int, dtypes: Sequence[str] = FLOATS) -> dict[str, Worst]:
    """Build, run and compare one op."""
    graph = graph_of(row, dtypes)
    built = api.build(graph, target=target_of(row))
    kernel = TwinKernel(compile_kernel(built.files, graph.name), graph)
    out: dict[str, Worst] = {}
    for run in range(runs):
        inputs = {d: operands(row, d, run) for d in dtypes}
        flat = {
            t: a
            for d in dtypes
            for t, a in zip((t.name for t in _inputs(row, d)), inputs[d], strict=True)
        }
        results: Any = kernel(**flat)
        results = results if isinstance(results, tuple) else (results,)
        for d, y in zip(dtypes, results, strict=True):
            w = errors(row, d, inputs[d], np.asarray(y))
            have = out.get(d)
            if have is None:
                out[d] = w
                continue
            best = w if w.ulp > have.ulp else have
            out[d] = Worst(best.ulp, max(w.absolute, have.absolute), best.at, w.wrong + have.wrong)
    return out


def page(results: Sequence[tuple[OpDef, dict[str, Worst]]]) -> str:
    """Return the page as Markdown."""
    lines = [
        "# Accuracy",
        "",
        "Made by `python benchmarks/corpus/accuracy.py --out docs/accuracy.md`; do not edit.",
        "",
        *(__doc__ or "").split("\n\n")[2].strip().splitlines(),
        "",
        "`bound` is the expected error (in ulp, and absolute where stated). `autofuse verify` allows twice as much,",
        "but never a wrong sign. `wrong` counts results that are NaN or infinite where the reference is not, or the",
        "reverse. With an absolute bound, the ulp columns leave out results below 0.1. Zero may replace a subnormal",
        "result and is not counted. float16 and bfloat16 results are mostly rounded from float32, so their error is at",
        "least 0.5. Extremes of polynomials and waves are 0.1 to 1, so their error in ulp is that of the largest term",
        "of the sum.",
        "",
        "The table has no sums: their error grows with the number n of addends. Besides the rounding of the result,",
        f"it is at most {lookup('ReduceSum').addends};",
        "`autofuse ops ReduceSum` prints this, and `autofuse ops NAME` prints the bound of any other op. For a sum of",
        "4,800 times 0.1, a kernel for an Ascend chip loses 0.2 ulp on the twin, Triton in its interpreter 1.8, loops",
        "for a CPU 2.8, NumPy 1.8.",
        "",
        "| op | bound | float32 | at | float16 | bfloat16 | wrong | source |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row, w in results:
        bound = f"{row.ulp:g}" + (f", {row.absolute:g}" if row.absolute else "")
        single = w["float32"]
        cell = f"{single.ulp:.2f}" + (f" ({single.absolute:.1e} absolute)" if row.absolute else "")
        at = ", ".join(f"{x:.7g}" for x in single.at)
        rest = [f"{w[d].ulp:.2f}" if d in w else "-" for d in FLOATS[1:]]
        wrong = sum(x.wrong for x in w.values())
        source = row.source.replace("|", "\\|")
        cells = [row.name, bound, cell, at, *rest, str(wrong), source]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def merged(old: str, new: str) -> str:
    """Return the page ``old`` with the rows of the page ``new`` replaced or appended."""
    found = {_op(line): line for line in new.splitlines() if line.startswith("| ")}
    lines = [found.pop(_op(line), line) for line in old.splitlines()]
    return "\n".join([*lines, *found.values()]) + "\n"


def _op(line: str) -> str:
    return line.split(" | ")[0]


def main() -> int:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--ops", default="", help="names, by commas; all if left out")
    parser.add_argument("--runs", type=int, default=4, help="of 65,536 elements each")
    parser.add_argument(
        "--out",
        default="",
        help="file to write, of which --ops keeps the other rows",
    )
    args = parser.parse_args()
    rows = [lookup(n) for n in args.ops.split(",")] if args.ops else float_ops()
    results = []
    for row in rows:
        sys.stderr.write(f"{row.name}\n")
        results.append((row, measure(row, args.runs)))
    text = page(results)
    if args.out:
        path = Path(args.out)
        if args.ops and path.exists():
            text = merged(path.read_text(encoding="utf-8"), text)
        path.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
