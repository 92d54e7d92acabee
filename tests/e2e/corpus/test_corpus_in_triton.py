"""Graphs of ``shared/corpus/akg`` as Triton kernels: all are written, a sample runs in the interpreter.

Graphs are shrunk to small tensors.  Of graphs with the same ops one runs, and of these 150; all with ``CORPUS=all``.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from draws import WHOLE
from triton_checks import TARGET, found_wrong, small

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = [pytest.mark.corpus, pytest.mark.triton, pytest.mark.slow]

#: Graphs in scope, and of these those that run unless all do.
IN_SCOPE, SAMPLE = 2035, 80
#: Elements of a tensor, at most.
ELEMENTS = 1 << 11


@pytest.fixture(scope="module")
def graphs(shared_dir: Path) -> dict[Path, FusionGraph]:
    """The graphs whose ops are all supported."""
    found = {}
    for path in sorted((shared_dir / "corpus" / "akg").rglob("*.json")):
        try:
            found[path] = api.read(path)
        except AutofuseError:  # noqa: PERF203
            continue
    return found


def test_every_graph_is_written(graphs: dict[Path, FusionGraph]) -> None:
    assert len(graphs) == IN_SCOPE
    failures = []
    for path, graph in graphs.items():
        try:
            ast.parse(api.build(graph, target=TARGET).files[f"{graph.name}_triton.py"])
        except (AutofuseError, SyntaxError) as e:  # noqa: PERF203
            failures.append(f"{path.name}: {e}")
    assert not failures, "\n".join(failures)


def unlike(graphs: dict[Path, FusionGraph]) -> Iterator[Path]:
    """One graph of each list of ops, in an order that is the same in every run."""
    paths = list(graphs)
    random.Random("triton").shuffle(paths)
    seen = set()
    for path in paths:
        ops = tuple(n.op for n in graphs[path].nodes)
        if ops not in seen:
            yield path
        seen.add(ops)


def test_graphs_are_verified(interpreter: WorkerPool, graphs: dict[Path, FusionGraph]) -> None:
    paths = list(graphs) if WHOLE else list(unlike(graphs))[:SAMPLE]
    assert len(paths) >= SAMPLE
    failures = []
    for path in paths:
        wrong = found_wrong(interpreter, small(graphs[path], ELEMENTS), count=1, seed=3)
        if wrong:
            failures.append(f"{path.name}: {wrong}")
    assert not failures, "\n".join(failures)
