"""A sample of ``shared/corpus/akg`` through ``--flow akg``: as it is to every binary, and shrunk in a run of PTX.

The run is by the JSON alone, in Triton's interpreter where there is no card.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import akg_runtime
import pytest
from draws import some
from triton_checks import small

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.akg import flow
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.triton,
    pytest.mark.slow,
]

SAMPLE = 16


@pytest.fixture(scope="module")
def graphs(shared_dir: Path) -> list[FusionGraph]:
    """The sample, without graphs whose ops are not supported."""
    paths = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))
    found = []
    for i in some("akg flow", SAMPLE, len(paths)):
        with suppress(AutofuseError):
            found.append(api.read(paths[i]))
    assert found
    return found


def test_at_their_own_sizes(graphs: list[FusionGraph], tmp_path: Path) -> None:
    for i, graph in enumerate(graphs):
        for target in flow.TARGET_WORDS:
            result = flow.build(graph, target=target, keys=("upstream", "document")[i % 2])
            result.write(tmp_path / f"{target}{i}")
        # Digest, entry, parameters and blocks agree with the binary.
        akg_runtime.Library(tmp_path / f"cpu{i}", None)
        kernel = akg_runtime.Runtime(tmp_path / f"gpu{i}", None)
        assert kernel.launches


def test_shrunk_and_launched_by_the_json(graphs: list[FusionGraph], tmp_path: Path) -> None:
    wrong = []
    with WorkerPool("akg_runtime:verify_job", workers=1) as pool:
        for i, graph in enumerate(graphs):
            folder = tmp_path / str(i)
            flow.build(small(graph), target="gpu").write(folder)
            job = {"folder": str(folder), "target": "nvidia-h100", "bindings": [{}], "seed": i}
            outcome = pool.run({**job, "top": False})
            wrong += [f"{graph.name}: {w}" for w in (outcome.value or outcome.diagnostics)]
    assert not wrong, "\n".join(map(str, wrong))
