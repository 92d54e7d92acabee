"""Compare the generation time of two checkouts, in processor time.

    python benchmarks/speed/versus.py ../before                     this checkout against another
    python benchmarks/speed/versus.py ../before --corpus 70 --turns 7

The graphs are those of ``examples/gallery`` and every n-th of the AKG corpus, if that is next to the checkout.  Each
checkout has one process, with the garbage collection of autofuse's commands; the two take turns on each graph, so that
other load on the machine affects both.  The fastest builds of a graph count.  Processes start without the import hook
of an editable install, which would direct both to one tree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("AUTOFUSE_SHARED") or REPO.parent / "shared") / "corpus" / "akg"


def main() -> int:
    """Measure and print; or run as one of the two processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--after", type=Path, default=REPO, help="default: this one")
    parser.add_argument("--corpus", type=int, default=70, help="graphs of the corpus (default 70)")
    parser.add_argument("--turns", type=int, default=5, help="builds of each graph (default 5)")
    parser.add_argument("--target", default="ascend910b1")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args.before, args.target)
    paths = sorted((REPO / "examples" / "gallery").glob("*.json"))
    others = sorted(CORPUS.rglob("*.json"))
    paths += others[:: max(1, len(others) // args.corpus)][: args.corpus]
    sides = [worker(tree, args.target) for tree in (args.before, args.after)]
    rows: list[tuple[str, float, float]] = []
    for path in paths:
        found = [[ask(side, path) for side in sides] for _ in range(args.turns)]
        before, after = (min(times) for times in zip(*found, strict=True))
        if before > 0 and after > 0:
            rows.append((path.stem, before, after))
    for side in sides:
        assert side.stdin is not None
        side.stdin.close()
        side.wait()
    show(rows)
    return 0


def worker(tree: Path, target: str) -> subprocess.Popen[str]:
    """Start the process of a checkout."""
    packages = [p for p in sys.path if p and "site-packages" in p]
    path = os.pathsep.join([str(tree.resolve() / "src"), *packages])
    environ = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-S", "-s", __file__, str(tree), "--worker", "--target", target]
    return subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def ask(side: subprocess.Popen[str], path: Path) -> float:
    """Return the milliseconds of a build there; 0 if the graph is refused."""
    assert side.stdin is not None
    assert side.stdout is not None
    side.stdin.write(f"{path}\n")
    side.stdin.flush()
    return float(json.loads(side.stdout.readline()))


def work(tree: Path, target: str) -> int:
    """Build the graphs named on standard input."""
    import autofuse
    from autofuse.base.collecting import collect_rarely

    if not Path(autofuse.__file__).is_relative_to(tree.resolve() / "src"):
        raise ImportError(f"{autofuse.__file__} is not of {tree}")
    # Compiled code comes from the checkout's environment, or else from the current one.
    installs = [*tree.resolve().glob(".venv/lib/python*/site-packages"), *map(Path, sys.path)]
    autofuse.__path__ += [str(p / "autofuse") for p in installs if (p / "autofuse").is_dir()]
    collect_rarely()
    for line in sys.stdin:
        took = 0.0
        try:
            graph = autofuse.read(line.strip())
            start = time.process_time()
            autofuse.build(graph, target=target)
            took = 1e3 * (time.process_time() - start)
        except autofuse.AutofuseError:
            took = 0.0
        print(took, flush=True)
    return 0


def show(rows: Sequence[tuple[str, float, float]]) -> None:
    """Print the ratios."""
    if not rows:
        sys.exit("no graph was built by both checkouts")
    ratios = sorted(before / after for _, before, after in rows)
    print(f"{len(rows)} graphs: {statistics.median(ratios):.2f} times as fast (median)")
    tenth = len(ratios) // 10
    print(
        f"  nine of ten at least {ratios[tenth]:.2f}, one of ten at least {ratios[-1 - tenth]:.2f}"
    )
    sides = {"before": [row[1] for row in rows], "after": [row[2] for row in rows]}
    for name, times in sides.items():
        print(f"  {name}: median {statistics.median(times):.2f} ms, all {sum(times):.0f} ms")
    for name, before, after in sorted(rows, key=lambda r: r[1] / r[2])[:3]:
        print(f"  least: {name}: {before:.1f} ms, {after:.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
