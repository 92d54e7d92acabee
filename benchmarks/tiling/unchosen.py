"""Count the templates that the host function never chooses.

    python benchmarks/tiling/unchosen.py                        the gallery, and 100 graphs of the AKG corpus
    python benchmarks/tiling/unchosen.py GRAPH ... --sizes 1000 --target ascend950pr

Sizes are random and log-uniform over each symbol's range, a third of them powers of two and a third multiples of 16;
they are independent of the grid by which the scheduler keeps templates (``schedule.search.grid``).  All cores and all
of UB are available.  Graphs of known sizes first get symbols for their largest dimensions.

Exit status 1: more than ``--most`` percent of the templates are never chosen.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.cutting.dimensions import symbolize
from autofuse.implgraph.ir.fusion import Symbol
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.solver import choose
from autofuse.targets import TargetSpec

REPO = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("AUTOFUSE_SHARED") or REPO.parent / "shared") / "corpus" / "akg"


def main(argv: Sequence[str] | None = None) -> int:
    """Count, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("graphs", nargs="*", type=Path)
    parser.add_argument("--target", default="ascend910b1")
    parser.add_argument("--sizes", type=int, default=300, help="drawn per graph (default 300)")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--most", type=float, default=5.0, help="per cent (default 5)")
    args = parser.parse_args(argv)
    corpus = sorted(CORPUS.rglob("*.json"))
    gallery = sorted((REPO / "examples" / "gallery").glob("*.json"))
    paths = args.graphs or gallery + corpus[:: max(1, len(corpus) // 100)][:100]
    emitted = unchosen = 0
    for path in paths:
        try:
            count, left = counted(path, args.target, args.sizes, random.Random(args.seed))
        except AutofuseError as e:
            print(f"{path.stem}: {e.diagnostics[0].code}")
            continue
        emitted += count
        unchosen += len(left)
        if left:
            print(f"{path.stem}: {len(left)} of {count} never chosen: {', '.join(left)}")
    share = 100 * unchosen / max(emitted, 1)
    print(f"{unchosen} of {emitted} templates ({share:.1f} %) are never chosen")
    return int(share > args.most)


def counted(path: Path, target: str, sizes: int, rng: random.Random) -> tuple[int, list[str]]:
    """Return the number of templates of a graph, and the names of those never chosen."""
    graph = api.read(path)
    if not graph.symbols:
        graph = symbolize(graph)
    built = api.build(graph, target=target)
    assert isinstance(built.target, TargetSpec)
    costs, keys = Costs(built.target), tiling_keys(built.schedule)
    left = {i.name: None for choice in keys for i in choice}
    count = len(left)
    for _ in range(sizes):
        found = choose(built.schedule, costs, {s.name: drawn(rng, s) for s in graph.symbols})
        for impl in () if found is None else keys[found.key]:
            left.pop(impl.name, None)
    return count, list(left)


def drawn(rng: random.Random, s: Symbol) -> int:
    """Return a size in the range of a symbol, at least 1."""
    least = max(s.min, 1)
    n = round(math.exp(rng.uniform(math.log(least), math.log(max(s.max, 1)))))
    n = rng.choice([n, 1 << (n.bit_length() - 1), max(n // 16, 1) * 16])
    return min(max(n, least), s.max)


if __name__ == "__main__":
    sys.exit(main())
