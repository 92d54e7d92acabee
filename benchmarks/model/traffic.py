"""Count the bytes moved by the DMA of generated kernels on the CPU twin, relative to the compulsory bytes.

    python benchmarks/model/traffic.py                 every case, as a Markdown table
    python benchmarks/model/traffic.py --case softmax  those with this in their name
    python benchmarks/model/traffic.py --json

A kernel must read once every input byte that the result depends on, including the rest of its 32-byte sector for
scattered elements, and write every output byte once.  The count covers copies between GM and UB, without the padding of
rows to 32 bytes; workspaces count when written and read.  No time is taken.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofuse.api import BuildResult, build, load

#: A node: op, operands (name of an input, number of a node, or a float constant), attributes.
Step = tuple[str, Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Case:
    """A graph of float32 tensors.

    Attributes:
        family: family in the table.
        sizes: label that distinguishes it within its family.
        inputs: name -> shape.
        steps: nodes; the last one is the output.
        used: input elements that the result depends on, or that share a 32-byte sector with such an element; None: all.
    """

    family: str
    sizes: str
    inputs: Mapping[str, Sequence[int]]
    steps: Sequence[Step]
    used: int | None = None

    @property
    def name(self) -> str:
        """Family and sizes."""
        return f"{self.family} {self.sizes}"


@dataclass(frozen=True)
class Traffic:
    """Bytes moved by one launch.

    Attributes:
        templates: templates of the groups that ran.
        loaded: bytes loaded from GM.
        stored: bytes stored to GM.
        inputs: bytes of the inputs that the result depends on.
        outputs: bytes of the outputs.
    """

    case: Case
    templates: str
    loaded: int
    stored: int
    inputs: int
    outputs: int

    @property
    def ratio(self) -> float:
        """Ratio of moved to compulsory bytes."""
        return (self.loaded + self.stored) / (self.inputs + self.outputs)


def step(op: str, *operands: Any, **attrs: Any) -> Step:
    """Return a node."""
    return op, operands, attrs


def _norm() -> list[Step]:
    return [
        step("ReduceMean", "x", axes=[-1], keepdims=True),
        step("Sub", "x", 0),
        step("Mul", 1, 1),
        step("ReduceMean", 2, axes=[-1], keepdims=True),
        step("Add", 3, 1e-5),
        step("Rsqrt", 4),
        step("Mul", 1, 5),
    ]


def _layer_norm() -> list[Step]:
    return [*_norm(), step("Mul", 6, "scale"), step("Add", 7, "shift")]


def _log_sum_exp() -> list[Step]:
    return [
        step("ReduceMax", "x", axes=[-1], keepdims=True),
        step("Sub", "x", 0),
        step("Exp", 1),
        step("ReduceSum", 2, axes=[-1], keepdims=True),
        step("Ln", 3),
        step("Add", 4, 0),
    ]


def _rms_norm() -> list[Step]:
    return [
        step("Mul", "x", "x"),
        step("ReduceMean", 0, axes=[-1], keepdims=True),
        step("Add", 1, 1e-6),
        step("Rsqrt", 2),
        step("Mul", "x", 3),
        step("Mul", 4, "scale"),
    ]


def _two_dimensional(rows: int, columns: int) -> Iterator[Case]:
    sizes = f"{rows} x {columns}"
    x = (rows, columns)
    sums = [step("ReduceSum", "x", axes=[-1])]
    yield Case("element-wise", sizes, {"x": x, "y": x}, [step("Add", "x", "y"), step("Exp", 0)])
    yield Case("broadcast of a row", sizes, {"x": x, "r": (1, columns)}, [step("Add", "x", "r")])
    yield Case("broadcast of a column", sizes, {"x": x, "c": (rows, 1)}, [step("Mul", "x", "c")])
    yield Case("reduce AR", sizes, {"x": x}, sums)
    yield Case("reduce RA", sizes, {"x": x}, [step("ReduceMax", "x", axes=[0])])
    yield Case("softmax", sizes, {"x": x}, [step("Softmax", "x", axis=-1)])
    row = (columns,)
    affine = {"x": x, "scale": row, "shift": row}
    yield Case("layer norm", sizes, affine, _layer_norm())
    yield Case("rms norm", sizes, {"x": x, "scale": row}, _rms_norm())
    pair = {"x": x, "y": (rows, columns // 2)}
    yield Case("concat", sizes, pair, [step("Concat", "x", "y", axis=1)])
    half = {"shape": [rows, columns // 2], "steps": [1, 1]}
    turn = [
        *(step("Slice", "x", starts=[0, k], **half) for k in (0, columns // 2)),
        *(step("Mul", k, angle) for k, angle in ((0, "c"), (1, "s"), (1, "c"), (0, "s"))),
        step("Sub", 2, 3),
        step("Add", 4, 5),
        step("Concat", 6, 7, axis=1),
    ]
    angles = {"x": (rows, columns // 2 * 2), "c": (rows, columns // 2), "s": (rows, columns // 2)}
    yield Case("rotary embedding", sizes, angles, turn)
    pad = {"low": [0, 8], "high": [0, 24], "value": 0.0}
    yield Case("pad", sizes, {"x": x}, [step("Pad", "x", **pad)])
    part = {"starts": [16, 8], "shape": [rows - 32, columns - 24], "steps": [1, 1]}
    used = (rows - 32) * (columns - 24)
    yield Case("slice", sizes, {"x": x}, [step("Slice", "x", **part)], used)
    third = {"starts": [0, 0], "shape": [rows, -(-columns // 3)], "steps": [1, 3]}
    yield Case("every third column", sizes, {"x": x}, [step("Slice", "x", **third)])
    pair = {"shape": [rows, columns // 2], "steps": [1, 2]}
    two = [step("Slice", "x", starts=[0, k], **pair) for k in (0, 1)]
    used = rows * (columns // 2 * 2)
    yield Case("pairs of neighbours", sizes, {"x": x}, [*two, step("Mul", 0, 1)], used)
    back = {"starts": [0, columns - 1], "shape": [rows, columns], "steps": [1, -1]}
    yield Case("rows from their end", sizes, {"x": x}, [step("Slice", "x", **back)])
    turned = step("Transpose", "x", perm=[1, 0])
    yield Case("transpose", sizes, {"x": x}, [turned])
    both = {"x": x, "y": (columns, rows)}
    yield Case("add to a transpose", sizes, both, [turned, step("Add", 0, "y")])


def _three_dimensional(outer: int, middle: int, inner: int) -> Iterator[Case]:
    sizes = f"{outer} x {middle} x {inner}"
    x = {"x": (outer, middle, inner)}
    yield Case("reduce ARA", sizes, x, [step("ReduceSum", "x", axes=[1])])
    yield Case("reduce RAR", sizes, x, [step("ReduceSum", "x", axes=[0, 2])])


def cases() -> tuple[Case, ...]:
    """Return all cases: sizes that are multiples of 32 bytes, then others, then special ones."""
    out = [*_two_dimensional(4096, 1024), *_three_dimensional(64, 64, 512)]
    out += [*_two_dimensional(4099, 1021), *_three_dimensional(61, 67, 509)]
    for elements in (1 << 22, (1 << 22) + 77):
        out.append(
            Case("reduce R", f"{elements}", {"x": (elements,)}, [step("ReduceSum", "x", axes=[0])])
        )
    rows = {"x": (8192, 64)}
    out.append(Case("reduce RA, many cores", "8192 x 64", rows, [step("ReduceSum", "x", axes=[0])]))
    for columns in (4096, 6424, 11000, 12000, 20000, 40000):
        x = {"x": (96, columns)}
        out.append(Case("softmax", f"96 x {columns}", x, [step("Softmax", "x", axis=-1)]))
    for columns in (20000, 40000):
        out.append(Case("norm", f"96 x {columns}", {"x": (96, columns)}, _norm()))
    out.append(Case("log-sum-exp", "96 x 40000", {"x": (96, 40000)}, _log_sum_exp()))
    for columns in (40000, 60000):
        affine = {"x": (96, columns), "scale": (columns,), "shift": (columns,)}
        out.append(Case("layer norm", f"96 x {columns}", affine, _layer_norm()))
    for rows, columns in ((96, 40000), (97, 40009), (1021, 20000), (4096, 9999)):
        affine = {"x": (rows, columns), "scale": (columns,), "shift": (1, columns)}
        both = [step("Mul", "x", "scale"), step("Add", 0, "shift")]
        sizes = f"{rows} x {columns}"
        row = {"x": (rows, columns), "r": (1, columns)}
        out.append(Case("broadcast of a long row", sizes, row, [step("Add", "x", "r")]))
        out.append(Case("scale and shift of long rows", sizes, affine, both))
    few = {"x": (2, 500_009)}
    out.append(Case("softmax", "2 x 500009", few, [step("Softmax", "x", axis=-1)]))
    out.append(Case("norm", "2 x 500009", few, _norm()))
    out.append(Case("log-sum-exp", "2 x 500009", few, _log_sum_exp()))
    out.append(Case("running sums of rows", "2 x 500009", few, [step("CumSum", "x", axis=1)]))
    for size in ((4096, 1024), (4099, 1021)):
        text, x = " x ".join(map(str, size)), {"x": size}
        for what, axis in (("columns", 0), ("rows", 1)):
            steps = [step("CumSum", "x", axis=axis)]
            out.append(Case(f"running sums of {what}", text, x, steps))
    return tuple(out)


def graph(case: Case) -> dict[str, Any]:
    """Return the graph of a case."""

    def operand(x: Any) -> Any:
        return {"const": x} if isinstance(x, float) else f"t{x}" if isinstance(x, int) else x

    return {
        "schema": "autofuse.graph/1",
        "name": "traffic",
        "inputs": [
            {"name": n, "dtype": "float32", "shape": list(s)} for n, s in case.inputs.items()
        ],
        "nodes": [
            {
                "name": f"n{k}",
                "op": op,
                "inputs": [operand(x) for x in xs],
                "outputs": [f"t{k}"],
                "attrs": dict(attrs),
            }
            for k, (op, xs, attrs) in enumerate(case.steps)
        ],
        "outputs": [f"t{len(case.steps) - 1}"],
    }


def measure(case: Case) -> Traffic:
    """Build the kernel, run it on the twin and count.

    Raises:
        AutofuseError: the graph cannot be built, or the twin found a broken rule.
    """
    built = build(graph(case))
    rng = np.random.default_rng(0)
    arrays = {n: rng.uniform(0.5, 2.0, s).astype(np.float32) for n, s in case.inputs.items()}
    run = load(built).run(arrays)
    loaded, stored = importlib.import_module("autofuse._twin").moved_bytes()
    elements = sum(math.prod(s) for s in case.inputs.values())
    inputs = 4 * (elements if case.used is None else case.used)
    outputs = sum(a.nbytes for a in run.outputs.values())
    return Traffic(case, templates(built, run.key), loaded, stored, inputs, outputs)


def templates(built: BuildResult, key: int) -> str:
    """Return the templates of a tiling key, one per group."""
    named = {
        i.name: f"{i.template}_{i.suffix}" if i.suffix else i.template
        for r in built.schedule
        for g in r.groups
        for i in g.impls
    }
    (found,) = (k["functions"] for k in built.metadata["tilingKeys"] if k["key"] == key)
    return " + ".join(named[f] for f in found)


def table(rows: Sequence[Traffic]) -> str:
    """Return the rows as Markdown."""
    head = ("case", "templates", "read / inputs", "written / outputs", "moved / needed")
    out = [f"| {' | '.join(head)} |", "| --- | --- | --: | --: | --: |"]
    for r in rows:
        cells = (
            r.case.name,
            r.templates,
            f"{r.loaded / r.inputs:.3f}",
            f"{r.stored / r.outputs:.3f}",
            f"{r.ratio:.3f}",
        )
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out)


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", default="", help="only cases with this in their name")
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    args = parser.parse_args()
    wanted = [c for c in cases() if args.case in c.name]
    if not wanted:
        parser.error(f"no case has {args.case!r} in its name")
    rows = [measure(c) for c in wanted]
    if args.json:
        found = [
            {"case": r.case.name, "templates": r.templates, "loaded": r.loaded, "stored": r.stored}
            | {"inputs": r.inputs, "outputs": r.outputs, "ratio": r.ratio}
            for r in rows
        ]
        print(json.dumps({"schema": "autofuse.benchmark.traffic/1", "rows": found}, indent=2))
    else:
        print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
