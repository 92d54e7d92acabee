"""Times autofuse from a parsed graph to the text of all files; ``peers.py`` starts it.

Standard input: an object with ``graph``, a graph document, and ``repeat``.  Standard output as JSON: the times, and
what the CPU twin counts in one launch of the kernel.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from autofuse import __version__
from autofuse.api import BuildResult, build, load, read
from autofuse.twin.run.record import core_bytes


def main() -> int:
    """Measure one graph."""
    asked = json.load(sys.stdin)
    graph = read(asked["graph"])
    times = []
    for _ in range(asked["repeat"] + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        built = build(graph)
        times.append([time.perf_counter() - wall, time.process_time() - cpu])
    found = {"version": f"autofuse {__version__}", "times_s": times}
    print(json.dumps(found | {"launch": launch(built, asked["graph"])}))
    return 0


def launch(built: BuildResult, doc: Mapping[str, Any]) -> dict[str, int]:
    """Run the kernel once on the twin: cores that copy something, bytes read from and written to GM."""
    shapes = {x["name"]: x["shape"] for x in doc["inputs"]}
    rng = np.random.default_rng(0)
    arrays = {n: rng.uniform(0.5, 2.0, s).astype(np.float32) for n, s in shapes.items()}
    run = load(built).run(arrays)
    moved = core_bytes()
    return {
        "available": built.target.aiv_cores,
        "cores": sum(any(m) for m in moved),
        "read": sum(m[0] for m in moved),
        "written": sum(m[1] for m in moved),
        "inputs": 4 * sum(math.prod(s) for s in shapes.values()),
        "outputs": sum(a.nbytes for a in run.outputs.values()),
    }


if __name__ == "__main__":
    sys.exit(main())
