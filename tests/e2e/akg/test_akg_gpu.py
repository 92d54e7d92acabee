"""``--flow akg -t gpu``: the PTX and its JSON launch what the module launches, and compute what the graph means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import akg_graphs
import akg_runtime
import pytest
from triton_checks import small
from triton_graphs import MOVES, REDUCTIONS, SUMS

from autofuse import api
from autofuse.clients.akg import flow
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.sizes import shapes_for
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import verify_with

pytestmark = [
    pytest.mark.sampled(2),
    pytest.mark.triton,
]

REPO = Path(__file__).resolve().parents[3]
GALLERY = sorted((REPO / "examples" / "gallery").glob("*.json"))
ELEMENTS = 1 << 12


@pytest.fixture(scope="module")
def interpreter() -> Iterator[WorkerPool]:
    with WorkerPool("akg_runtime:verify_job", workers=1) as pool:
        yield pool


@pytest.fixture(scope="module")
def recorder() -> Iterator[WorkerPool]:
    with WorkerPool("akg_runtime:launches_job", workers=1) as pool:
        yield pool


def written(graph: api.GraphLike, folder: Path, keys: str = "upstream") -> FusionGraph:
    """The graph; its files are in the folder."""
    result = flow.build(graph, target="gpu", keys=keys)
    result.write(folder)
    return result.built.graph


def assert_right(
    interpreter: WorkerPool,
    folder: Path,
    bindings: Sequence[Mapping[str, int]],
    *,
    top: bool = False,
) -> None:
    job = {"folder": str(folder), "target": "nvidia-h100", "bindings": bindings, "seed": 3}
    outcome = interpreter.run({**job, "top": top})
    assert outcome.ok, outcome.diagnostics
    assert outcome.value == []


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_the_gallery(
    interpreter: WorkerPool, recorder: WorkerPool, tmp_path: Path, path: Path
) -> None:
    graph = written(small(api.read(path)), tmp_path / "out")
    bindings = shapes_for(graph, 3, 1, max_elements=ELEMENTS)
    assert_right(interpreter, tmp_path / "out", bindings)
    job = {"folder": str(tmp_path / "out"), "target": "nvidia-h100", "bindings": bindings}
    outcome = recorder.run(job)
    assert outcome.ok, outcome.diagnostics
    assert outcome.value == []


@pytest.mark.parametrize("keys", ["upstream", "document"])
@pytest.mark.parametrize("what", akg_graphs.FIXED)
def test_a_run_time_that_knows_only_one_set_of_keys(
    interpreter: WorkerPool, tmp_path: Path, what: str, keys: str
) -> None:
    written(akg_graphs.FIXED[what], tmp_path / "out", keys)
    assert_right(interpreter, tmp_path / "out", [{}], top=True)


@pytest.mark.parametrize("what", akg_graphs.SYMBOLIC)
def test_one_ptx_serves_all_sizes(interpreter: WorkerPool, tmp_path: Path, what: str) -> None:
    graph = written(akg_graphs.SYMBOLIC[what], tmp_path / "out")
    bindings = [{s.name: size for s in graph.symbols} for size in (1, 2, 31, 37, 64)]
    assert_right(interpreter, tmp_path / "out", bindings)
    doc = json.loads((tmp_path / "out" / "kernel_meta" / f"{graph.name}.json").read_text())
    assert doc["is_dynamic"] is True
    assert doc["runtimeVars"] == []


def test_a_size_that_is_in_no_shape(interpreter: WorkerPool, tmp_path: Path) -> None:
    graph = written(akg_graphs.first_sum(), tmp_path / "out")
    doc = json.loads((tmp_path / "out" / "kernel_meta" / f"{graph.name}.json").read_text())
    assert [(s["input"], s["dim"]) for s in doc["autofuse"]["symbols"]] == [(None, None)]
    assert_right(interpreter, tmp_path / "out", [{"n": n} for n in (1, 37, 100)])


#: Kinds of work by what a launch of them needs.
NEEDS = {
    "a cluster with scratch of its own": ("softmax", 3, 50_000),
    "parts of columns": ("sum", 3, 50_000),
    "rows of any length": ("running sum of softmax", "rows", "cols"),
    "sums beside rows": ("norm backward", "rows", "cols"),
    "pieces": ("concatenation and frame", "rows", "cols"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", NEEDS)
def test_what_a_launch_needs_is_in_the_json(
    interpreter: WorkerPool, recorder: WorkerPool, tmp_path: Path, what: str
) -> None:
    work, *sizes = NEEDS[what]
    made = {**REDUCTIONS, **SUMS, **MOVES}[work](*sizes)
    graph = written(json.loads(json.dumps(made)), tmp_path / "out")
    bindings = shapes_for(graph, 3, 1, max_elements=ELEMENTS) if graph.symbols else [{}]
    assert_right(interpreter, tmp_path / "out", bindings)
    job = {"folder": str(tmp_path / "out"), "target": "nvidia-h100", "bindings": bindings}
    assert recorder.run(job).value == []


def test_several_launches_share_scratch(
    interpreter: WorkerPool, recorder: WorkerPool, tmp_path: Path
) -> None:
    graph = written(akg_graphs.long_sum(40, 4096), tmp_path / "out")
    doc = json.loads((tmp_path / "out" / "kernel_meta" / f"{graph.name}.json").read_text())
    assert [row["binFileName"] for row in doc["autofuse"]["launches"]] == [
        "long_sum_0",
        "long_sum_1",
    ]
    assert doc["autofuse"]["scratch"]
    assert not {"kernelName", "blockIdx.x", "sha256"} & set(doc)
    assert_right(interpreter, tmp_path / "out", [{}])


def test_on_a_card(tmp_path: Path) -> None:
    card = akg_runtime.card()
    if card is None:
        pytest.skip("there is no NVIDIA card, or no driver of one")
    made: dict[str, Any] = akg_graphs.FIXED | akg_graphs.SYMBOLIC
    made["long"] = akg_graphs.long_sum(40, 4096)
    for what, graph in made.items():
        read = written(graph, tmp_path / what)
        kernel = akg_runtime.Runtime(tmp_path / what, card)
        report = verify_with(kernel, count=3, seed=5, keys=())
        assert report.ok, f"{what}: {report.diagnostics}"
        assert report.cases
        if not read.symbols and "kernelName" in kernel.json:
            top = akg_runtime.Runtime(tmp_path / what, card, top=True)
            assert verify_with(top, count=1, seed=6, keys=()).ok


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    graph = akg_graphs.FIXED["mul_tanh"]
    first, second = (flow.build(graph, target="gpu") for _ in range(2))
    assert first.files == second.files
    ptx = first.files["kernel_meta/Fused_Mul_Tanh.ptx"]
    assert str(REPO) not in ptx
    assert "/tmp" not in ptx


def test_products_and_sums_round_apart_where_they_must() -> None:
    result = flow.build(akg_graphs.exact(), target="gpu")
    ptx = result.files[f"kernel_meta/{result.built.name}.ptx"]
    assert "mul.rn.f32" in ptx
    assert "fma.rn" not in ptx
