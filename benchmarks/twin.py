"""How fast the CPU twin runs kernels: fast mode against single-threaded NumPy, checked mode against fast mode.

    python benchmarks/twin.py                  2^22 elements, median of 9
    python benchmarks/twin.py --log2 20 --json

One thread on both sides, times of one process, reported as ratios: what counts is not this machine. The twin's time is
that of the launch; NumPy's that of the same expression with its usual temporaries.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from autofuse.api import build, load

COLUMNS = 1024

#: name, whether it is a chain of four ops or more, nodes (op, inputs), NumPy on x and y.
CASES: tuple[tuple[str, bool, list[tuple[str, list[Any]]], Callable[..., Any]], ...] = (
    ("abs", False, [("Abs", ["x"])], lambda x, y: np.abs(x)),
    ("add", False, [("Add", ["x", "y"])], lambda x, y: x + y),
    ("mul scalar", False, [("Mul", ["x", 1.5])], lambda x, y: x * np.float32(1.5)),
    ("div", False, [("Div", ["x", "y"])], lambda x, y: x / y),
    ("sqrt", False, [("Sqrt", ["x"])], lambda x, y: np.sqrt(x)),
    ("exp", False, [("Exp", ["x"])], lambda x, y: np.exp(x)),
    (
        "add mul sub max",
        True,
        [("Add", ["x", "y"]), ("Mul", [0, "x"]), ("Sub", [1, "y"]), ("Maximum", [2, "x"])],
        lambda x, y: np.maximum((x + y) * x - y, x),
    ),
    (
        "8 adds and muls",
        True,
        [("Add", ["x", "y"])] + [(("Mul", "Add")[i % 2], [i, "y"]) for i in range(7)],
        lambda x, y: (((((((x + y) * y) + y) * y) + y) * y) + y) * y,
    ),
    (
        "sigmoid-like",
        True,
        [("Mul", ["x", -1.0]), ("Exp", [0]), ("Add", [1, 1.0]), ("Div", ["y", 2])],
        lambda x, y: y / (np.exp(x * np.float32(-1)) + np.float32(1)),
    ),
)


def graph(nodes: list[tuple[str, list[Any]]], rows: int) -> dict[str, Any]:
    """The graph of a case; an operand is an input's name, the number of a node, or (as a float) a constant."""

    def operand(x: Any) -> Any:
        return {"const": x} if isinstance(x, float) else f"t{x}" if isinstance(x, int) else x

    used = [i for i in ("x", "y") if any(i in n[1] for n in nodes)]
    return {
        "schema": "autofuse.graph/1",
        "name": "bench",
        "inputs": [{"name": i, "dtype": "float32", "shape": [rows, COLUMNS]} for i in used],
        "nodes": [
            {"name": f"n{k}", "op": op, "inputs": [operand(x) for x in xs], "outputs": [f"t{k}"]}
            for k, (op, xs) in enumerate(nodes)
        ],
        "outputs": [f"t{len(nodes) - 1}"],
    }


def launch_times(kernel: Any, arrays: list[Any], repeat: int) -> list[float]:
    """Seconds of each launch, without the making of outputs around it."""
    library, times = kernel.library, []

    class Timed:
        def __getattr__(self, name: str) -> Any:
            return getattr(library, name)

        def launch(self, *args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            found = library.launch(*args, **options)
            times.append(time.perf_counter() - start)
            return found

    kernel.library = Timed()
    for _ in range(repeat + 1):
        kernel(*arrays)
    return times[1:]


def measure(log2: int, repeat: int) -> list[dict[str, Any]]:
    """A row per case, with medians in seconds and the ratios that matter."""
    rng = np.random.default_rng(0)
    rows = (1 << log2) // COLUMNS
    x, y = (rng.uniform(0.5, 2.0, (rows, COLUMNS)).astype(np.float32) for _ in range(2))
    out = []
    for name, chain, nodes, reference in CASES:
        built = build(graph(nodes, rows))
        arrays = [{"x": x, "y": y}[i] for i in built.graph.inputs]
        plain: list[float] = []
        for _ in range(repeat + 1):
            start = time.perf_counter()
            reference(x, y)
            plain.append(time.perf_counter() - start)
        fast = statistics.median(launch_times(load(built), arrays, repeat))
        checked = statistics.median(launch_times(load(built, check="all"), arrays, 3))
        numpy_s = statistics.median(plain[1:])
        out.append(
            {
                "case": name,
                "chain": chain,
                "numpy_s": numpy_s,
                "fast_s": fast,
                "checked_s": checked,
                "fast_over_numpy": fast / numpy_s,
                "checked_over_fast": checked / fast,
            }
        )
    return out


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--log2", type=int, default=22, help="elements, as a power of two (default 22)"
    )
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    os.environ["AUTOFUSE_THREADS"] = "1"  # NumPy's element-wise ops have one thread anyway
    rows = measure(args.log2, args.repeat)
    if args.json:
        print(json.dumps({"schema": "autofuse.benchmark.twin/1", "rows": rows}, indent=2))
        return 0
    print("| case | numpy ms | fast / numpy | checked / fast |")
    print("| --- | --- | --- | --- |")
    for r in rows:
        figures = (
            f"{r['numpy_s'] * 1e3:.1f} | {r['fast_over_numpy']:.2f} | {r['checked_over_fast']:.1f}"
        )
        print(f"| {r['case']} | {figures} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
