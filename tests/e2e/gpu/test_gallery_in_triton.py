"""Every graph of the gallery, the examples and the snapshots agrees with NumPy in Triton's interpreter."""

from pathlib import Path

import pytest
from triton_checks import assert_right, small

from autofuse import api
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = [pytest.mark.sampled(2), pytest.mark.triton]

REPO = Path(__file__).resolve().parents[3]
FOLDERS = ("examples", "examples/gallery", "tests/snapshot/graphs")
GRAPHS = [path for folder in FOLDERS for path in sorted((REPO / folder).glob("*.json"))]


def computes_in_half(graph: FusionGraph) -> bool:
    """Whether ops other than casts and moves have results in float16: kernels hold these in float32."""
    made = (
        graph.tensors[n.outputs[0]].dtype.name
        for n in graph.nodes
        if lookup(n.op).cost != "none" and n.op != "Cast"
    )
    return "float16" in made


@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
@pytest.mark.parametrize("path", GRAPHS, ids=lambda p: p.stem)
def test_the_graph_verifies(interpreter: WorkerPool, path: Path, special: bool) -> None:
    graph = api.read(path)
    if special and computes_in_half(graph):
        pytest.skip("float32 holds what float16 would make infinite")
    assert_right(interpreter, small(graph), special=special)
