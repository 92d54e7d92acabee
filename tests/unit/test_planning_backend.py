"""A backend that plans its kernels gets the HintGraph, for a GPU, and no schedule."""

from typing import Any

import pytest

from autofuse import api, compiler, splitting
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.interface import Backend, Capabilities, Job, Stage, load_backend
from autofuse.compiler import Stages
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.implgraph.lowering.lowering import lower_undivided
from autofuse.implgraph.simplify.canonicalise import UNMERGED, canonicalise
from autofuse.targets import GpuTarget, load_gpu, load_target

GPU = load_gpu("nvidia-h100")
CHIP = load_target("ascend910b1")
GRAPH = {
    "schema": "autofuse.graph/1",
    "name": "soft",
    "symbols": {"rows": {"min": 0, "max": 100000}},
    "inputs": [{"name": "x", "dtype": "float16", "shape": ["rows", 96]}],
    "nodes": [
        {"name": "n", "op": "Softmax", "inputs": ["x"], "outputs": ["y"], "attrs": {"axis": -1}}
    ],
    "outputs": ["y"],
}


class Planner(Backend):
    """Writes down what it is given."""

    name = "planner"
    capabilities = Capabilities(entries=("launch",), queues=False, plans=GpuTarget)

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.hints: list[HintGraph] = []

    def stages(self, job: Job) -> list[Stage]:
        self.jobs.append(job)

        def plan(hint: HintGraph) -> list[str]:
            self.hints.append(hint)
            return [n.op for n in hint.nodes]

        def emit(ops: list[str]) -> dict[str, str]:
            return {f"{job.graph.name}.txt": "\n".join(ops)}

        return [("plan", plan), ("emit", emit)]


def test_it_gets_the_simplified_hint_graph() -> None:
    graph, planner = compiler.read(GRAPH), Planner()
    built = compiler.compile(graph, GPU, backend=planner)
    (hint,), (job,) = planner.hints, planner.jobs
    assert built.hint is hint == canonicalise(lower_undivided(graph), passes=UNMERGED)
    assert (job.graph, job.aimed(GpuTarget), job.costs) == (graph, GPU, None)
    assert built.schedule == ()
    assert built.target is GPU
    assert set(built.files) == {"soft.txt", "soft.graph.json"}
    assert list(built.timings) == ["lower", "simplify", "plan", "emit"]
    found = built.summary()
    assert found["target"] == "nvidia-h100"
    assert found["templates"] == found["rejected"] == []
    with pytest.raises(AutofuseError, match="AF5007"):
        _ = job.chip


def test_stages_are_observed_and_checked() -> None:
    calls: list[tuple[str, str]] = []

    def observe(stage: str, name: str, before: object, after: Any) -> None:
        calls.append((stage, name))

    run = Stages(observe, check_ir=True)
    compiler.compile(compiler.read(GRAPH), GPU, backend=Planner(), run=run)
    assert [s for s, name in calls if not name] == ["lower", "simplify", "plan", "emit"]
    assert ("lower", "loops") in calls


def test_a_split_is_one_result() -> None:
    graph, planner = compiler.read(GRAPH), Planner()
    options: dict[str, Any] = {"entry": "launch", "run": Stages(), "backend": planner}
    whole = splitting.compile_split(graph, GPU, cut_after=None, **options)
    assert whole.split is None
    assert whole.parts == (compiler.compile(graph, GPU, backend=Planner()),)
    with pytest.raises(AutofuseError, match="AF5007: graphs are not cut for nvidia-h100"):
        splitting.compile_split(graph, GPU, cut_after=["n"], **options)


def test_targets_and_backends_have_to_fit() -> None:
    graph = compiler.read(GRAPH)
    with pytest.raises(AutofuseError, match="planner does not write kernels for ascend910b1"):
        compiler.compile(graph, CHIP, backend=Planner())
    with pytest.raises(AutofuseError, match="ascendc does not write kernels for nvidia-h100"):
        compiler.compile(graph, GPU, backend=load_backend("ascendc"))
    with pytest.raises(AutofuseError, match="unknown entry 'op-package'"):
        compiler.compile(graph, GPU, entry="op-package", backend=Planner())


def test_a_loop_level_graph_is_that_of_the_target() -> None:
    graph = compiler.read(GRAPH)
    hint = api.hint_of(graph, target=GPU)
    assert hint == canonicalise(lower_undivided(graph), passes=UNMERGED)
    with pytest.raises(AutofuseError, match="AF5007: bytes of UB"):
        api.build(graph, target=GPU, ub_bytes=65536)
