"""Print processor milliseconds per node, for families of graphs at several sizes; a refusal is shown by its code.

python benchmarks/speed/scaling.py
python benchmarks/speed/scaling.py --sizes 10 1000 --families exps softmaxes
python benchmarks/speed/scaling.py --ops Pad ArgMax --sizes 300 1000     an op in a chain, used twice, and side by side
python benchmarks/speed/scaling.py --ops all --sizes 300
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from op_steps import OPS, add_op
from storm_maker import Maker

from autofuse.api import build, read
from autofuse.base.collecting import collect_rarely
from autofuse.base.diagnostics import AutofuseError

#: Family -> op, its attributes per node, and True if a node takes the previous result.
FAMILIES: dict[str, tuple[str, tuple[dict[str, Any], ...], bool]] = {
    "exps": ("Exp", ({},), False),
    "chain": ("Exp", ({},), True),
    "lgammas": ("Lgamma", ({},), True),
    "softmaxes": ("Softmax", ({"axis": 0}, {"axis": 1}), True),
    "sums": ("CumSum", ({"axis": 0}, {"axis": 1}), True),
}


def main() -> int:
    """Print a table: a row per family, a column per size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--ops", nargs="+", choices=("all", *OPS), help="ops, instead of families")
    args = parser.parse_args()
    collect_rarely()
    if args.ops:
        return _ops(OPS if "all" in args.ops else args.ops, args.sizes)
    print(f"{'nodes':<12}" + "".join(f"{n:>10}" for n in args.sizes))
    for family in args.families:
        print(f"{family:<12}", end="")
        for nodes in args.sizes:
            print(f"{_per_node(family, nodes):>10}", end="", flush=True)
        print()
    return 0


def _ops(ops: Any, sizes: list[int]) -> int:
    """Print a table: a row per op and pattern, a column per size."""
    print(f"{'nodes':<40}" + "".join(f"{n:>10}" for n in sizes))
    for op in ops:
        for pattern in ("chain", "twice", "side"):
            print(f"{op + ', ' + pattern:<40}", end="")
            for nodes in sizes:
                made = _of_op(op, pattern, nodes)
                print(f"{'' if made is None else _timed(made, nodes):>10}", end="", flush=True)
            print()
    return 0


def _of_op(op: str, pattern: str, nodes: int) -> Mapping[str, Any] | None:
    """Return about ``nodes`` nodes of an op, chained or side by side; None if it accepts no 64 x 64 tensor."""
    m = Maker(Random(f"{op} {nodes}"))
    dtype = next((d for d in ("float32", "int32", "bool") if _takes(op, d)), None)
    if dtype is None:
        return None
    if pattern == "side":
        m.outputs = [add_op(m, op, m.input(dtype, (64, 64))) or "" for _ in range(nodes)]
        return m.case(op).document
    x = m.input(dtype, (64, 64))
    while len(m.nodes) < nodes:
        y = add_op(m, op, x)
        if y is None:
            break
        if m.tensors[y][0] != dtype:
            y = m.node("Cast", [y], dtype, m.tensors[y][1], dtype=dtype)
        small = 1 in m.tensors[y][1]
        if small or (pattern == "twice" and m.tensors[x] == m.tensors[y]):
            how = "LogicalXor" if dtype == "bool" else "Add"
            y = m.node(how, [y, x], dtype, m.tensors[x][1])
        x = y
    m.outputs = [x]
    return m.case(op).document if m.nodes else None


def _takes(op: str, dtype: str) -> bool:
    m = Maker(Random(op))
    return add_op(m, op, m.input(dtype, (64, 64))) is not None


def _per_node(family: str, nodes: int) -> str:
    return _timed(_graph(family, nodes), nodes)


def _timed(document: Mapping[str, Any], nodes: int) -> str:
    graph = read(document)
    start = time.process_time()
    try:
        build(graph)
    except AutofuseError as e:
        return e.diagnostics[0].code
    return f"{1e3 * (time.process_time() - start) / nodes:.1f}"


def _graph(family: str, count: int) -> dict[str, Any]:
    op, attrs, chained = FAMILIES[family]
    inputs = ["x"] if chained else [f"x{i}" for i in range(count)]
    made = [f"y{i}" for i in range(count)]
    taken = ["x", *made] if chained else inputs
    return {
        "schema": "autofuse.graph/1",
        "name": family,
        "symbols": {},
        "inputs": [{"name": n, "dtype": "float32", "shape": [64, 64]} for n in inputs],
        "nodes": [
            {
                "name": f"n{i}",
                "op": op,
                "inputs": [taken[i]],
                "outputs": [made[i]],
                "attrs": attrs[i % len(attrs)],
            }
            for i in range(count)
        ],
        "outputs": made[-1:] if chained else made,
    }


if __name__ == "__main__":
    sys.exit(main())
