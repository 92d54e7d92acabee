"""Compare loads, stores and register operations on Ascend 950: autofuse against ``bishengir-compile-a5``.

    pip install --target B ascendnpu-ir            its compiler for 950: B/ascendnpuir/bin/bishengir-compile-a5
    python benchmarks/peers/compare_a5.py --bishengir B/ascendnpuir/bin/bishengir-compile-a5
    python benchmarks/peers/compare_a5.py --bishengir ... --only norm --json

autofuse gets a graph directly, the vendor's compiler as linalg on tensors, an operation per node
(``peer_graphs.linalg``).  Only the front end of that compiler runs here: it stops before calling ``hivmc-a5``, which is
part of CANN and not of the wheel, and its last text on registers is counted (``a5_counts``).  For each graph, its mode
of fusing vector functions (:data:`MODES`) with the fewest UB accesses counts.

autofuse's operations are counted while the kernel runs on the CPU twin, over all cores: those executed by functions on
registers (``VectorFunction`` of KernelIR), and for each call on UB its operands and results, as if it loaded and stored
each once.  This is a lower bound for such a call; rows with such calls give their number.  All counts are per 64
elements of the largest tensor of the graph, a float32 register, whatever the dtype.  Nothing here is a time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))

from a5_counts import Accesses, TextError, a5_counts
from peer_graphs import linalg
from traffic import Step, step

from autofuse import api
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.run.record import ISSUE, CoreRecord
from autofuse.machines.twin.timed.clocks import Kind, Pipe

CHIP = "ascend950pr"
LIMIT_S = 300
#: float32 elements in a register, and its bytes.
LANES, BYTES = 64, 256
#: Modes of the vendor's compiler for fusing vector functions.
MODES: Mapping[str, Sequence[str]] = {
    "": (),
    "all-op": ("--enable-vf-fusion=true", "--vf-fusion-mode=all-op"),
    "max-parallel": ("--enable-vf-fusion=true", "--vf-fusion-mode=max-parallel"),
}
OPTIONS = (
    "--enable-hfusion-compile=true",
    "--enable-hivm-compile=true",
    "--target=Ascend950PR_9599",
    "--mlir-print-ir-after=ave-process-membar",
    "--mlir-disable-threading",
)
#: Maximum number of recorded events per core.
EVENTS = 200_000
_LOAD, _STORE = "LoadAlign", "StoreAlign"
_MASKS = frozenset({"CreateMask", "UpdateMask"})
_NO_OPERATION = frozenset({_LOAD, _STORE, "LocalMemBar", *_MASKS})
ROWS, COLUMNS = 1024, 256


@dataclass(frozen=True)
class Graph:
    """A graph of this comparison.

    Attributes:
        name: name in the table.
        steps: nodes, as in ``traffic``.
        inputs: name -> shape.
        dtype: dtype of all inputs.
    """

    name: str
    steps: Sequence[Step]
    inputs: Mapping[str, Sequence[int]]
    dtype: str = "float32"

    @property
    def elements(self) -> int:
        """Number of elements of the largest tensor."""
        return max(math.prod(s) for s in self.inputs.values())

    def document(self) -> dict[str, Any]:
        """Return the graph document."""

        def operand(x: Any) -> Any:
            if isinstance(x, float):
                return {"const": int(x) if self.dtype.startswith("int") else x}
            return f"t{x}" if isinstance(x, int) else x

        nodes = [
            {"name": f"n{k}", "op": op, "inputs": list(map(operand, xs)), "outputs": [f"t{k}"]}
            | ({"attrs": dict(attrs)} if attrs else {})
            for k, (op, xs, attrs) in enumerate(self.steps)
        ]
        inputs = [
            {"name": n, "dtype": self.dtype, "shape": list(s)} for n, s in self.inputs.items()
        ]
        head = {"schema": "autofuse.graph/1", "name": "compared"}
        return {**head, "inputs": inputs, "nodes": nodes, "outputs": [f"t{len(nodes) - 1}"]}


@dataclass(frozen=True)
class Row:
    """A graph with both counts, per 64 elements of its largest tensor; the vendor's mode, or why it has none."""

    name: str
    ours: Accesses
    theirs: Accesses | None
    mode: str = ""
    why: str = ""


# the graphs ---------------------------------------------------------------------------------------
def graphs() -> list[Graph]:
    """Return all graphs; rows are along the last dimension."""
    x = {"x": (ROWS, COLUMNS)}
    xy = {**x, "y": (ROWS, COLUMNS)}
    xyz = {**xy, "z": (ROWS, COLUMNS)}
    row, column = {"r": (COLUMNS,)}, {"c": (ROWS, 1)}
    half, short = "float16", "bfloat16"
    return [
        Graph("x + y", [step("Add", "x", "y")], xy),
        Graph("exp(x + y) x", [step("Add", "x", "y"), step("Exp", 0), step("Mul", 1, "x")], xy),
        Graph("chain of 8", _chain(), x),
        Graph("polynomial", _polynomial(8), x),
        Graph("sigmoid", _sigmoid("x"), x),
        Graph("SiLU", _silu(), x),
        Graph("SwiGLU", _swiglu(), xy),
        Graph("GELU by exp", _gelu(), x),
        Graph("GELU and five operations", [*_gelu(), *_five(8)], xy),
        Graph("GELU by Tanh", _gelu_tanh(), x),
        Graph("GELU by Erf", _gelu_erf(), x),
        Graph("max(x + y, 0)", [step("Add", "x", "y"), step("Relu", 0)], xy),
        Graph("between two numbers", [step("Minimum", "x", 1.0), step("Maximum", 0, -1.0)], x),
        Graph("a choice", _choice(), xy),
        Graph("leaky ReLU", _leaky(), x),
        Graph("choice by a third", _third(), xyz),
        Graph("Adam's quotient", _adam(), xyz),
        Graph("exp(x + y) x, float16", _chain16(), xy, half),
        Graph("through float32, float16", _widened(_sigmoid, half), x, half),
        Graph("SwiGLU, bfloat16", _bfloat_swiglu(), xy, short),
        Graph("GELU by exp, bfloat16", _widened(_gelu, short), x, short),
        Graph("float32 to float16", [step("Cast", "x", dtype=half)], x),
        Graph("integers", _integers(), xy, "int32"),
        Graph("x + row", [step("Add", "x", "r")], {**x, **row}),
        Graph("x + row, 16,384 rows", [step("Add", "x", "r")], {"x": (16 * ROWS, COLUMNS), **row}),
        Graph("x * column", [step("Mul", "x", "c")], {**x, **column}),
        Graph(
            "(x - column) row", [step("Sub", "x", "c"), step("Mul", 0, "r")], {**x, **column, **row}
        ),
        Graph("exp(x + row), bfloat16", _row16(), {**x, **row}, short),
        Graph("sum of a row", [_sum("x")], x),
        Graph("maximum of a row", [_max("x")], x),
        Graph(
            "sum of exponentials, float16",
            [step("Cast", "x", dtype="float32"), step("Exp", 0), _sum(1)],
            x,
            half,
        ),
        Graph("mean square", _mean_square(), x),
        Graph("sum over rows", [step("ReduceSum", "x", axes=[0], keepdims=True)], x),
        Graph("maximum over rows", [step("ReduceMax", "x", axes=[0], keepdims=True)], x),
        Graph("softmax", _softmax("x"), x),
        Graph("softmax of 64", _softmax("x"), {"x": (4096, 64)}),
        Graph("softmax of 250", _softmax("x"), {"x": (ROWS, 250)}),
        Graph("softmax of 1,000", _softmax("x"), {"x": (256, 1000)}),
        Graph("softmax of 4,096", _softmax("x"), {"x": (64, 4096)}),
        Graph("softmax, float16", _widened(_softmax, half), x, half),
        Graph(
            "softmax of x / 8 + mask",
            [step("Mul", "x", 0.125), step("Add", 0, "y"), *_softmax(1, 2)],
            xy,
        ),
        Graph("log-softmax", _log_softmax(), x),
        Graph("log-sum-exp", [*_log_sum_exp()], x),
        Graph("cross-entropy of a row", _cross_entropy(), xy),
        Graph("layer norm", _layer_norm(), x),
        Graph("layer norm of x + y", [step("Add", "x", "y"), *_layer_norm(0, 1)], xy),
        Graph("layer norm, weights", _affine(_layer_norm()), {**x, **row, "s": (COLUMNS,)}),
        Graph("layer norm, bfloat16", _widened(_layer_norm, short), x, short),
        Graph("layer norm of 1,000", _layer_norm(), {"x": (256, 1000)}),
        Graph("RMS norm", _rms_norm(), x),
        Graph("RMS norm, weight", [*_rms_norm(), step("Mul", 4, "r")], {**x, **row}),
        Graph("RMS norm, float16", _widened(_rms_norm, half), x, half),
        Graph(
            "by its norm", [step("Mul", "x", "x"), _sum(0), step("Sqrt", 1), step("Div", "x", 2)], x
        ),
        Graph("from 0 to 1", _from_0_to_1(), x),
        Graph("gradient of softmax", _gradient(), xy),
    ]


def _sum(x: Any) -> Step:
    return step("ReduceSum", x, axes=[-1], keepdims=True)


def _max(x: Any) -> Step:
    return step("ReduceMax", x, axes=[-1], keepdims=True)


def _chain() -> list[Step]:
    return [
        step("Abs", "x"),
        step("Add", 0, 1.0),
        step("Ln", 1),
        step("Mul", 2, 0.5),
        step("Exp", 3),
        step("Sqrt", 4),
        step("Sub", 5, "x"),
        step("Neg", 6),
    ]


def _polynomial(degree: int) -> list[Step]:
    found = [step("Mul", "x", 0.5)]
    for k in range(degree - 1):
        found += [step("Add", 2 * k, 0.25 + k), step("Mul", 2 * k + 1, "x")]
    return found


def _sigmoid(x: Any, at: int = 0) -> list[Step]:
    one = [step("Mul", x, -1.0), step("Exp", at), step("Add", at + 1, 1.0)]
    return [*one, step("Reciprocal", at + 2)]


def _silu() -> list[Step]:
    return [step("Mul", "x", -1.0), step("Exp", 0), step("Add", 1, 1.0), step("Div", "x", 2)]


def _swiglu() -> list[Step]:
    return [*_silu(), step("Mul", 3, "y")]


def _gelu(x: Any = "x", at: int = 0) -> list[Step]:
    return [
        step("Mul", x, x),
        step("Mul", at, x),
        step("Mul", at + 1, 0.044715),
        step("Add", at + 2, x),
        step("Mul", at + 3, -1.5957691),
        step("Exp", at + 4),
        step("Add", at + 5, 1.0),
        step("Div", x, at + 6),
    ]


def _five(at: int) -> list[Step]:
    return [
        step("Mul", at - 1, "y"),
        step("Add", at, "y"),
        step("Maximum", at + 1, 0.0),
        step("Sub", at + 2, "y"),
        step("Mul", at + 3, 0.5),
    ]


def _gelu_tanh() -> list[Step]:
    return [
        step("Mul", "x", "x"),
        step("Mul", 0, "x"),
        step("Mul", 1, 0.044715),
        step("Add", 2, "x"),
        step("Mul", 3, 0.79788456),
        step("Tanh", 4),
        step("Add", 5, 1.0),
        step("Mul", 6, "x"),
        step("Mul", 7, 0.5),
    ]


def _gelu_erf() -> list[Step]:
    half = [step("Mul", "x", 0.70710678), step("Erf", 0), step("Add", 1, 1.0)]
    return [*half, step("Mul", 2, "x"), step("Mul", 3, 0.5)]


def _choice() -> list[Step]:
    return [step("Mul", "x", 2.0), step("Greater", "x", "y"), step("Select", 1, 0, "y")]


def _leaky() -> list[Step]:
    return [step("Mul", "x", 0.01), step("Greater", "x", 0.0), step("Select", 1, "x", 0)]


def _third() -> list[Step]:
    return [step("Less", "z", 0.5), step("Select", 0, "x", "y"), step("Exp", 1)]


def _adam() -> list[Step]:
    return [
        step("Mul", "y", 0.9),
        step("Mul", "x", "x"),
        step("Mul", 1, 0.1),
        step("Add", 0, 2),
        step("Sqrt", 3),
        step("Add", 4, 1e-5),
        step("Div", "z", 5),
        step("Mul", 6, 0.001),
        step("Sub", "x", 7),
    ]


def _chain16() -> list[Step]:
    return [step("Add", "x", "y"), step("Exp", 0), step("Mul", 1, "x")]


def _widened(steps: Any, dtype: str) -> list[Step]:
    """Return steps in float32 on a 16-bit tensor with a 16-bit result."""
    found = [step("Cast", "x", dtype="float32"), *steps(0, 1)]
    return [*found, step("Cast", len(found) - 1, dtype=dtype)]


def _bfloat_swiglu() -> list[Step]:
    return [
        step("Cast", "x", dtype="float32"),
        step("Cast", "y", dtype="float32"),
        step("Mul", 0, -1.0),
        step("Exp", 2),
        step("Add", 3, 1.0),
        step("Div", 0, 4),
        step("Mul", 5, 1),
        step("Cast", 6, dtype="bfloat16"),
    ]


def _integers() -> list[Step]:
    return [step("Add", "x", "y"), step("Mul", 0, "x"), step("Maximum", 1, "y")]


def _row16() -> list[Step]:
    return [
        step("Cast", "x", dtype="float32"),
        step("Cast", "r", dtype="float32"),
        step("Add", 0, 1),
        step("Exp", 2),
        step("Cast", 3, dtype="bfloat16"),
    ]


def _mean_square() -> list[Step]:
    return [step("Mul", "x", "x"), _sum(0), step("Mul", 1, 1.0 / COLUMNS)]


def _softmax(x: Any, at: int = 0) -> list[Step]:
    return [
        _max(x),
        step("Sub", x, at),
        step("Exp", at + 1),
        _sum(at + 2),
        step("Div", at + 2, at + 3),
    ]


def _log_softmax() -> list[Step]:
    return [*_softmax("x")[:-1], step("Ln", 3), step("Sub", 1, 4)]


def _log_sum_exp() -> list[Step]:
    return [*_softmax("x")[:-1], step("Ln", 3), step("Add", 4, 0)]


def _cross_entropy() -> list[Step]:
    return [*_log_sum_exp(), step("Mul", "x", "y"), _sum(6), step("Sub", 5, 7)]


def _layer_norm(x: Any = "x", at: int = 0) -> list[Step]:
    return [
        step("ReduceMean", x, axes=[-1], keepdims=True),
        step("Sub", x, at),
        step("Mul", at + 1, at + 1),
        step("ReduceMean", at + 2, axes=[-1], keepdims=True),
        step("Add", at + 3, 1e-5),
        step("Rsqrt", at + 4),
        step("Mul", at + 1, at + 5),
    ]


def _affine(steps: list[Step]) -> list[Step]:
    n = len(steps)
    return [*steps, step("Mul", n - 1, "r"), step("Add", n, "s")]


def _rms_norm(x: Any = "x", at: int = 0) -> list[Step]:
    return [
        step("Mul", x, x),
        step("ReduceMean", at, axes=[-1], keepdims=True),
        step("Add", at + 1, 1e-5),
        step("Rsqrt", at + 2),
        step("Mul", x, at + 3),
    ]


def _from_0_to_1() -> list[Step]:
    return [
        step("ReduceMin", "x", axes=[-1], keepdims=True),
        _max("x"),
        step("Sub", 1, 0),
        step("Sub", "x", 0),
        step("Div", 3, 2),
    ]


def _gradient() -> list[Step]:
    return [step("Mul", "x", "y"), _sum(0), step("Sub", "x", 1), step("Mul", "y", 2)]


# counting -----------------------------------------------------------------------------------------
def ours(graph: Graph, target: str = CHIP) -> Accesses:
    """Return the counts of autofuse's kernel.

    Raises:
        AutofuseError: it cannot be built, or the twin reports an error.
    """
    built = api.build(graph.document(), target=target)
    library = compile_kernel(built.files, built.graph.name, checked=True, opt="-O0")
    kernel = TwinKernel(library, built.graph, chip=built.target)
    inputs = random_inputs(built.graph, {}, 0)
    _, recorded = kernel.record(
        inputs, lambda moved: [i for i, m in enumerate(moved) if sum(m)], EVENTS
    )
    if any(r.cut for r in recorded.records):
        raise TextError(f"{graph.name}: a core does more than is recorded")
    found = [_executed(r) for r in recorded.records]
    total = [sum(x[0][k] for x in found) for k in range(4)]
    functions = max(x[1] for x in found)
    calls = {name for x in found for name in x[2]}
    return Accesses(functions, *total, tuple(sorted(calls)))


def _executed(record: CoreRecord) -> tuple[list[float], int, set[str]]:
    """Return a core's loads, stores, operations and masks; the number of register functions; calls on UB by name."""
    e = record.events
    loads = stores = operations = masks = 0.0
    functions: set[int] = set()
    calls: set[str] = set()
    kinds, pipes = e["kind"].tolist(), e["pipe"].tolist()
    for i, kind in enumerate(kinds):
        api_name = record.apis[e["api"][i]]
        n = float(e["count"][i])
        if list(Kind)[kind] is Kind.PART:
            loads += n * (api_name == _LOAD)
            stores += n * (api_name == _STORE)
            masks += n * (api_name in _MASKS)
            operations += n * (api_name not in _NO_OPERATION)
        elif kind == ISSUE and list(Pipe)[pipes[i]] is Pipe.V:
            if i + 1 < len(kinds) and list(Kind)[kinds[i + 1]] is Kind.PART:
                functions.add(int(e["line"][i]))
                continue
            calls.add(api_name)
            most = math.ceil(n * int(e["bytes"][i]) / BYTES)
            operations += most
            for k in range(e["spans"][i]):
                span = int(e["hi"][i][k]) - int(e["lo"][i][k])
                registers = min(most, math.ceil(span / BYTES))
                if e["writes"][i] >> k & 1:
                    stores += registers
                else:
                    loads += registers
    return [loads, stores, operations, masks], len(functions), calls


def theirs(graph: Graph, program: Path, folder: Path) -> tuple[Accesses | None, str, str]:
    """Return the counts of the vendor's kernel, its mode with the fewest accesses, and the reason if it has none."""
    source = folder / "graph.mlir"
    source.write_text(linalg(graph.document(), "HOST"), encoding="utf-8")
    stand_in = folder / "bin" / "hivmc-a5"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    stand_in.chmod(0o755)
    env = os.environ | {"PATH": f"{stand_in.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    found: list[tuple[Accesses, str]] = []
    why = ""
    for mode, options in MODES.items():
        done = subprocess.run(
            [program, source, *OPTIONS, *options, "-o", folder / "out.o"],
            env=env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        # It may end in an assertion of its host part, after the counted device part.
        text = done.stdout + done.stderr
        try:
            found.append((a5_counts(text), mode))
        except TextError as e:
            errors = [
                line.partition("error: ")[2] for line in text.splitlines() if "error: " in line
            ]
            why = errors[0] if errors else str(e)
    if not found:
        return None, "", why
    best = min(found, key=lambda f: (f[0].accesses, f[0].operations))
    return best[0], best[1], ""


def rows(wanted: Sequence[Graph], program: Path, folder: Path) -> Iterator[Row]:
    """Yield a row per graph."""
    for graph in wanted:
        registers = graph.elements / LANES
        found, mode, why = theirs(graph, program, folder)
        per = found.per(registers) if found else None
        yield Row(graph.name, ours(graph).per(registers), per, mode, why)


# printing -----------------------------------------------------------------------------------------
def table(found: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| graph | loads | stores | operations | functions"
        " | loads (vendor) | stores | operations | functions | vendor / ours |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in found:
        mine = f"{_cells(r.ours)} + {len(r.ours.others)} calls" if r.ours.others else _cells(r.ours)
        if r.theirs is None:
            lines.append(f"| {r.name} | {mine} | | | | {r.why} | |")
            continue
        ratio = r.theirs.accesses / r.ours.accesses
        lines.append(f"| {r.name} | {mine} | {_cells(r.theirs)} | {ratio:.2f} |")
    return "\n".join(lines)


def _cells(a: Accesses) -> str:
    return f"{a.loads:.2f} | {a.stores:.2f} | {a.operations:.1f} | {a.functions}"


def summary(found: Sequence[Row]) -> str:
    """Return how often either side has fewer accesses, in words."""
    both = [(r.name, r.theirs.accesses / r.ours.accesses) for r in found if r.theirs]
    fewer = [f"{name} ({ratio:.2f})" for name, ratio in both if ratio < 0.995]
    more = sum(ratio > 1.005 for _, ratio in both)
    middle = math.exp(sum(math.log(r) for _, r in both) / len(both)) if both else math.nan
    return (
        f"{len(both)} graphs: the vendor's kernels have more accesses to UB in {more}, fewer in {len(fewer)}"
        f"{': ' + ', '.join(fewer) if fewer else ''}; geometric mean of the ratio {middle:.2f}"
    )


def version(program: Path) -> str:
    """Return the first line of the program's version output."""
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return " ".join(done.stdout.split("\n")[0].split())


def main() -> int:
    """Run the script; return 1 if the vendor needs fewer UB accesses for a graph."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bishengir", type=Path, required=True, help="bishengir-compile-a5")
    parser.add_argument("--only", default="", help="graphs with this in their name")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    wanted = [g for g in graphs() if args.only in g.name]
    if not wanted:
        parser.error(f"no graph has {args.only!r} in its name")
    with tempfile.TemporaryDirectory() as folder:
        found = list(rows(wanted, args.bishengir.resolve(), Path(folder)))
    if args.json:
        print(json.dumps([asdict(r) for r in found], indent=1))
    else:
        print(f"{table(found)}\n\n{summary(found)}\n{version(args.bishengir.resolve())}")
    return int(any(r.theirs and r.theirs.accesses < 0.995 * r.ours.accesses for r in found))


if __name__ == "__main__":
    raise SystemExit(main())
