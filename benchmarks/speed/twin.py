"""Time kernels on the CPU twin: fast mode against single-threaded NumPy, checked mode against fast mode.

    python benchmarks/speed/twin.py                  2^22 elements, 21 rounds
    python benchmarks/speed/twin.py --log2 20 --json

Both sides use one thread; results are ratios, which depend little on this machine.  A round runs NumPy, the kernel in
fast mode and, in every third round, the kernel in checked mode, one after the other, so that a busy machine affects the
caches and memory of all of them.  Times are processor time of the thread, which excludes the time of other processes;
ratios of wall time are given as well.  A kernel has two times: `launch` is the twin alone, `call` includes allocating
and filling the outputs and the surrounding Python.  NumPy's time is that of the same expression with its usual
temporaries.  Every result is compared with NumPy's, and checked mode's with fast mode's, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autofuse.api import build, load

COLUMNS = 1024
CHECKED_EVERY = 3


@dataclass(frozen=True)
class Case:
    """A graph and its NumPy expression.

    Attributes:
        name: name in the table.
        nodes: op and operands: name of an input, number of a node, or (as a float) a constant.
        numpy: the same expression on the arrays of :func:`inputs`.
        dtype: dtype of all tensors.
    """

    name: str
    nodes: Sequence[tuple[str, Sequence[Any]]]
    numpy: Callable[[dict[str, Any]], Any]
    dtype: str = "float32"

    @property
    def chain(self) -> bool:
        """True for four or more ops."""
        return len(self.nodes) >= 4

    @property
    def used(self) -> list[str]:
        """Inputs of the graph."""
        return [i for i in SHAPES if any(i in operands for _, operands in self.nodes)]


#: Inputs: x and y are whole tensors, r is a broadcast row and c a broadcast column.
SHAPES: dict[str, Callable[[int], tuple[int, int]]] = {
    "x": lambda rows: (rows, COLUMNS),
    "y": lambda rows: (rows, COLUMNS),
    "r": lambda rows: (1, COLUMNS),
    "c": lambda rows: (rows, 1),
}

CHAIN: Sequence[tuple[str, Sequence[Any]]] = [
    ("Add", ["x", "y"]),
    ("Mul", [0, "x"]),
    ("Sub", [1, "y"]),
    ("Maximum", [2, "x"]),
]

CASES: tuple[Case, ...] = (
    Case("abs", [("Abs", ["x"])], lambda a: np.abs(a["x"])),
    Case("add", [("Add", ["x", "y"])], lambda a: a["x"] + a["y"]),
    Case("mul scalar", [("Mul", ["x", 1.5])], lambda a: a["x"] * np.float32(1.5)),
    Case("div", [("Div", ["x", "y"])], lambda a: a["x"] / a["y"]),
    Case("sqrt", [("Sqrt", ["x"])], lambda a: np.sqrt(a["x"])),
    Case("exp", [("Exp", ["x"])], lambda a: np.exp(a["x"])),
    Case("ln", [("Ln", ["x"])], lambda a: np.log(a["x"])),
    Case("add row", [("Add", ["x", "r"])], lambda a: a["x"] + a["r"]),
    Case("mul column", [("Mul", ["x", "c"])], lambda a: a["x"] * a["c"]),
    Case(
        "add mul sub max",
        CHAIN,
        lambda a: np.maximum((a["x"] + a["y"]) * a["x"] - a["y"], a["x"]),
    ),
    Case(
        "8 adds and muls",
        [("Add", ["x", "y"]), *((("Mul", "Add")[i % 2], [i, "y"]) for i in range(7))],
        lambda a: (
            (((((((a["x"] + a["y"]) * a["y"]) + a["y"]) * a["y"]) + a["y"]) * a["y"]) + a["y"])
            * a["y"]
        ),
    ),
    Case(
        "sigmoid-like",
        [("Mul", ["x", -1.0]), ("Exp", [0]), ("Add", [1, 1.0]), ("Div", ["y", 2])],
        lambda a: a["y"] / (np.exp(a["x"] * np.float32(-1)) + np.float32(1)),
    ),
    Case(
        "scale and shift by row and column",
        [("Sub", ["x", "c"]), ("Mul", [0, "c"]), ("Mul", [1, "r"]), ("Add", [2, "r"])],
        lambda a: (a["x"] - a["c"]) * a["c"] * a["r"] + a["r"],
    ),
    Case(
        "norm of two",
        [("Mul", ["x", "x"]), ("Mul", ["y", "y"]), ("Add", [0, 1]), ("Sqrt", [2])],
        lambda a: np.sqrt(a["x"] * a["x"] + a["y"] * a["y"]),
    ),
    Case("add, float16", [("Add", ["x", "y"])], lambda a: a["x"] + a["y"], "float16"),
    Case("exp, float16", [("Exp", ["x"])], lambda a: np.exp(a["x"]), "float16"),
    Case(
        "add mul sub max, float16",
        CHAIN,
        lambda a: np.maximum((a["x"] + a["y"]) * a["x"] - a["y"], a["x"]),
        "float16",
    ),
)


def graph(case: Case, rows: int) -> dict[str, Any]:
    """Return the graph of a case."""

    def operand(x: Any) -> Any:
        return {"const": x} if isinstance(x, float) else f"t{x}" if isinstance(x, int) else x

    return {
        "schema": "autofuse.graph/1",
        "name": "bench",
        "inputs": [
            {"name": i, "dtype": case.dtype, "shape": list(SHAPES[i](rows))} for i in case.used
        ],
        "nodes": [
            {"name": f"n{k}", "op": op, "inputs": [operand(x) for x in xs], "outputs": [f"t{k}"]}
            for k, (op, xs) in enumerate(case.nodes)
        ],
        "outputs": [f"t{len(case.nodes) - 1}"],
    }


def inputs(case: Case, rows: int) -> dict[str, Any]:
    """Return random numbers from 0.5 to 2 for every input."""
    rng = np.random.default_rng(0)
    return {i: rng.uniform(0.5, 2.0, SHAPES[i](rows)).astype(case.dtype) for i in case.used}


class Times:
    """Processor and wall-clock seconds of ``with`` blocks."""

    def __init__(self) -> None:
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def __enter__(self) -> None:
        self._start = time.thread_time(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.cpu.append(time.thread_time() - self._start[0])
        self.wall.append(time.perf_counter() - self._start[1])

    def clear(self) -> None:
        """Clear the times."""
        self.cpu.clear()
        self.wall.clear()


class Timed:
    """A kernel that records the times of each launch and each call."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.launches = Times()
        self.calls = Times()
        library, launches = kernel.library, self.launches

        class Library:
            def __getattr__(self, name: str) -> Any:
                return getattr(library, name)

            def launch(self, *args: Any, **options: Any) -> Any:
                with launches:
                    return library.launch(*args, **options)

        kernel.library = Library()

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Run the kernel."""
        with self.calls:
            return self.kernel(*arrays)


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Return the smallest and the median time."""
    return {"min_s": min(seconds), "median_s": statistics.median(seconds)}


def ratio(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """Return the ratio of the medians, that of the smallest times, and the quartiles of the ratios per round."""
    pairs = [a / b for a, b in zip(above, below, strict=True)]
    low, _, high = statistics.quantiles(pairs, n=4) if len(pairs) > 1 else pairs * 3
    return {
        "median": statistics.median(above) / statistics.median(below),
        "of_min": min(above) / min(below),
        "quartile_low": low,
        "quartile_high": high,
    }


def measure(case: Case, log2: int, repeat: int) -> dict[str, Any]:
    """Return a row: times in seconds and the relevant ratios.

    Raises:
        SystemExit: a kernel gives a wrong result.
    """
    rows = (1 << log2) // COLUMNS
    arrays = inputs(case, rows)
    built = build(graph(case, rows))
    ordered = [arrays[i] for i in built.graph.inputs]
    fast, checked = Timed(load(built)), Timed(load(built, check="all"))
    # The first run of each loads code and touches memory; its results are compared.
    want, have = case.numpy(arrays), fast(ordered)
    relative, absolute = (1e-2, 1e-3) if case.dtype == "float16" else (1e-5, 1e-6)
    alike = have.dtype == want.dtype and have.shape == want.shape
    if not alike or not np.allclose(have, want, rtol=relative, atol=absolute):
        raise SystemExit(f"{case.name}: fast mode and NumPy differ")
    if checked(ordered).tobytes() != have.tobytes():
        raise SystemExit(f"{case.name}: checked mode and fast mode differ")
    del want, have
    for times in (fast.launches, fast.calls, checked.launches):
        times.clear()
    plain = Times()
    for i in range(repeat):
        with plain:
            case.numpy(arrays)
        fast(ordered)
        if i % CHECKED_EVERY == 0:
            checked(ordered)
    return {
        "case": case.name,
        "dtype": case.dtype,
        "chain": case.chain,
        "numpy": summary(plain.cpu),
        "fast": summary(fast.launches.cpu),
        "checked": summary(checked.launches.cpu),
        "fast_over_numpy": ratio(fast.launches.cpu, plain.cpu),
        "fast_over_numpy_wall": ratio(fast.launches.wall, plain.wall),
        "call_over_numpy": ratio(fast.calls.cpu, plain.cpu),
        "checked_over_fast": ratio(checked.launches.cpu, fast.launches.cpu[::CHECKED_EVERY]),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""
    columns = (
        *("case", "numpy ms", "fast / numpy", "quartiles", "of minima", "on the wall"),
        *("call / numpy", "checked / fast"),
    )
    out = [f"| {' | '.join(columns)} |", f"| --- |{' --: |' * (len(columns) - 1)}"]
    for r in rows:
        fast = r["fast_over_numpy"]
        cells = (
            r["case"],
            f"{r['numpy']['median_s'] * 1e3:.1f}",
            f"{fast['median']:.2f}",
            f"{fast['quartile_low']:.2f} to {fast['quartile_high']:.2f}",
            f"{fast['of_min']:.2f}",
            f"{r['fast_over_numpy_wall']['median']:.2f}",
            f"{r['call_over_numpy']['median']:.2f}",
            f"{r['checked_over_fast']['median']:.1f}",
        )
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--log2", type=int, default=22, help="elements, as a power of two (default 22)"
    )
    parser.add_argument("--repeat", type=int, default=21, help="rounds (default 21)")
    parser.add_argument("--case", action="append", help="a case by name; may be repeated")
    parser.add_argument("--json", action="store_true", help="numbers instead of tables")
    args = parser.parse_args()
    if args.log2 < 10 or args.repeat < 1:
        parser.error("--log2 is at least 10, --repeat at least 1")
    names = [c.name for c in CASES]
    for name in args.case or ():
        if name not in names:
            parser.error(f"there is no case {name!r}; these are: {', '.join(names)}")
    os.environ["AUTOFUSE_THREADS"] = "1"  # NumPy's element-wise ops are single-threaded anyway
    cases = [c for c in CASES if not args.case or c.name in args.case]
    rows = [measure(c, args.log2, args.repeat) for c in cases]
    if args.json:
        found = {"elements": 1 << args.log2, "repeat": args.repeat, "rows": rows}
        print(json.dumps({"schema": "autofuse.benchmark.twin/2", **found}, indent=2))
    else:
        print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
