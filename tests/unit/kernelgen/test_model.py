"""What is predicted: of every graph of the gallery, marked as such, and with bottlenecks that have an answer."""

from pathlib import Path

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.kernelgen.defining.definition import define
from autofuse.kernelgen.operator import Operator
from autofuse.kernelgen.tuning.model import Model
from autofuse.kernelgen.tuning.tables import BOTTLENECKS, FAMILIES
from autofuse.targets import load_gpu

GALLERY = sorted((Path(__file__).parents[3] / "examples" / "gallery").glob("*.json"))
TARGET = load_gpu("nvidia-h100")


def operator(path: Path) -> Operator:
    return Operator(define(api.read(path), TARGET, requirement="a test"), "kernelgen")


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_every_number_of_a_prediction_is_marked(path: Path) -> None:
    one = operator(path)
    sizes = one.sizes()
    moved = [one.model.needed_bytes(s) for s in sizes]
    assert moved == sorted(moved)
    for s in sizes[-2:]:
        speed = one.model.speed({}, s)
        assert speed.bottleneck in BOTTLENECKS
        for record in (speed.kernel, speed.baseline, speed.speedup, speed.bandwidth):
            assert record is not None
            assert (record.status, record.when) == ("predicted", "")
            assert record.by["model"] == "kernel times of nvidia-h100"
            assert record.value > 0
        assert speed.kernel is not None
        assert speed.baseline is not None
        # The formula fused moves no more than its operators one after another.
        assert speed.baseline.value >= 0.95 * speed.kernel.value
        assert speed.parallelism is not None
        assert 0 < speed.parallelism.value <= 100
        share = 100 * one.model.needed_bytes(s) / speed.kernel.value / 1e3 / TARGET.copy_gbs
        assert speed.bandwidth is not None
        assert speed.bandwidth.value == pytest.approx(share, rel=1e-3)


def test_settings_change_the_kernels_alone() -> None:
    one = operator(next(p for p in GALLERY if p.stem == "layer_norm"))
    kernel = one.model.program({}).kernels[0].name
    plain, tuned = one.files({}), one.files({kernel: {"warps": 8}})
    changed = [n for n in plain if plain[n] != tuned[n]]
    assert changed == [one.called.kernel]
    assert "num_warps=8" in tuned[one.called.kernel]
    assert one.model.tuning({}) is None
    tuning = one.model.tuning({kernel: {"warps": 8}})
    assert isinstance(tuning, Tuning)
    with pytest.raises(AutofuseError) as error:
        one.model.program({kernel: {"warps": 3}})
    assert error.value.diagnostics[0].code == "AF3007"
    with pytest.raises(AutofuseError):
        one.model.program({"no_such_kernel": {"warps": 4}})


def test_a_target_without_a_model_predicts_no_time() -> None:
    target = load_gpu("triton-ascend910b1")
    graph = api.read(next(p for p in GALLERY if p.stem == "swiglu"))
    model = Model(define(graph, target, requirement="a test"), target)
    speed = model.speed({}, {s.name: 64 for s in graph.symbols})
    assert (speed.kernel, speed.baseline, speed.speedup, speed.bandwidth) == (None,) * 4
    assert speed.parallelism is not None
    assert speed.bottleneck == ""


def test_each_bottleneck_has_two_answers() -> None:
    for name, row in BOTTLENECKS.items():
        assert len(set(row.families)) == 2, name
        assert set(row.families) <= set(FAMILIES)
