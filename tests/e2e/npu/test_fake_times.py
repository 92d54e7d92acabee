"""Times of the fake CANN: those of timed mode for the figures that it is given, and what it adds to them."""

from typing import Any

import numpy as np
import pytest
from fake_canns import FakeCann

import autofuse
from autofuse.machines.npu.kernel import NpuKernel
from autofuse.results import BuildResult

pytestmark = pytest.mark.twin

#: The target's own figures, and nothing that the model lacks.
PLAIN = '"hidden.tensor_us" = 0.0'


def _graph(inputs: str) -> dict[str, Any]:
    """The sum of tensors."""
    nodes = [
        {"name": f"n{i}", "op": "Add", "inputs": [a, b], "outputs": [f"t{i}"]}
        for i, (a, b) in enumerate(
            zip(["x", *(f"t{k}" for k in range(9))], inputs[1:], strict=False)
        )
    ]
    return {
        "schema": "autofuse.graph/1",
        "name": f"sum_of_{len(inputs)}",
        "inputs": [{"name": n, "dtype": "float32", "shape": [256, 512]} for n in inputs],
        "nodes": nodes,
        "outputs": [nodes[-1]["outputs"][0]],
    }


def _inputs(names: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {n: rng.standard_normal((256, 512)).astype(np.float32) for n in names}


@pytest.fixture(scope="module")
def built() -> BuildResult:
    return autofuse.build(_graph("xyz"), target="ascend910b2")


def test_without_noise_times_are_those_of_timed_mode(
    fake_cann: FakeCann, built: BuildResult
) -> None:
    fake_cann.make(noise=0.0, figures=PLAIN)
    found = NpuKernel.load(built).time(_inputs("xyz"), repeats=3, l2="clear")
    modelled = autofuse.timed(built, _inputs("xyz")).report["total_us"]
    assert found == pytest.approx([modelled] * 3, rel=1e-3)


def test_a_tensor_more_costs_what_the_model_lacks(fake_cann: FakeCann, built: BuildResult) -> None:
    times = []
    for hidden in (0.0, 0.5):
        fake_cann.make(noise=0.0, figures=f'"hidden.tensor_us" = {hidden}')
        times += NpuKernel.load(built).time(_inputs("xyz"), repeats=1, l2="clear")
    # Three inputs and an output: two more than are free.
    assert times[1] - times[0] == pytest.approx(1.0, rel=1e-2)


def test_noise_has_outliers_and_no_bias(fake_cann: FakeCann, built: BuildResult) -> None:
    fake_cann.make(noise=0.0, figures=PLAIN)
    (exact,) = NpuKernel.load(built).time(_inputs("xyz"), repeats=1)
    fake_cann.make(noise=0.05, figures=PLAIN)
    found = np.array(NpuKernel.load(built).time(_inputs("xyz"), repeats=600)) / exact
    assert np.median(found) == pytest.approx(1.0, abs=0.01)
    assert 1 <= (found > 1.4).sum() <= 20
    assert np.std(found[found < 1.4]) == pytest.approx(0.05, abs=0.01)
    fake_cann.make(noise=0.05, figures=PLAIN, seed=2)
    assert NpuKernel.load(built).time(_inputs("xyz"), repeats=5) != list(found[:5] * exact)


def test_hidden_figures_change_times(fake_cann: FakeCann, built: BuildResult) -> None:
    times = set()
    for seed in (1, 2):
        fake_cann.make(noise=0.0, seed=seed)
        times |= set(NpuKernel.load(built).time(_inputs("xyz"), repeats=3, l2="clear"))
    assert len(times) == 2


def test_an_output_over_an_input_is_written_again_at_every_launch(fake_cann: FakeCann) -> None:
    graph = _graph("xy")
    graph["outputs"] = [{"tensor": "t0", "inout": "x"}]
    built = autofuse.build(graph, target="ascend910b2")
    kernel = NpuKernel.load(built)
    given = _inputs("xy")
    wanted = given["x"] + given["y"]
    kernel.time(given, repeats=2)
    np.testing.assert_array_equal(given["x"] + given["y"], wanted)
    assert kernel.run(given).outputs["t0"] is given["x"]
    np.testing.assert_array_equal(given["x"], wanted)
