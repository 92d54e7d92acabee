"""Milliseconds of processor time per node, for families of graphs at several sizes; a refusal is shown by its code.

python benchmarks/speed/scaling.py
python benchmarks/speed/scaling.py --sizes 10 1000 --families exps softmaxes
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from autofuse.api import build, read
from autofuse.base.collecting import collect_rarely
from autofuse.base.diagnostics import AutofuseError

#: Family -> op, its attributes per node, whether a node takes the result of the one before.
FAMILIES: dict[str, tuple[str, tuple[dict[str, Any], ...], bool]] = {
    "exps": ("Exp", ({},), False),
    "chain": ("Exp", ({},), True),
    "lgammas": ("Lgamma", ({},), True),
    "softmaxes": ("Softmax", ({"axis": 0}, {"axis": 1}), True),
}


def main() -> int:
    """Print a table: a row per family, a column per size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    args = parser.parse_args()
    collect_rarely()
    print(f"{'nodes':<12}" + "".join(f"{n:>10}" for n in args.sizes))
    for family in args.families:
        print(f"{family:<12}", end="")
        for nodes in args.sizes:
            print(f"{_per_node(family, nodes):>10}", end="", flush=True)
        print()
    return 0


def _per_node(family: str, nodes: int) -> str:
    graph = read(_graph(family, nodes))
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
