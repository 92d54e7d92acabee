"""What is predicted: of every graph of the gallery, marked as such, and with bottlenecks that have an answer."""

from pathlib import Path

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.definition import define
from autofuse.clients.kernelgen.operator import Operator
from autofuse.clients.kernelgen.tuning.tables import BOTTLENECKS, FAMILIES
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.targets import GpuTarget, load_gpu

GALLERY = sorted((Path(__file__).parents[3] / "examples" / "gallery").glob("*.json"))
TARGET = load_gpu("nvidia-h100")
CORES = load_gpu("triton-ascend910b1")


def operator(path: Path, target: GpuTarget = TARGET) -> Operator:
    return Operator(define(api.read(path), target, requirement="a test"), "kernelgen")


@pytest.mark.parametrize("target", [TARGET, CORES], ids=lambda t: t.name)
@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_every_number_of_a_prediction_is_marked(path: Path, target: GpuTarget) -> None:
    one = operator(path, target)
    sizes = one.sizes()
    moved = [one.model.needed_bytes(s) for s in sizes]
    assert moved == sorted(moved)
    for s in sizes[-2:]:
        speed = one.model.speed({}, s)
        assert speed.bottleneck in BOTTLENECKS
        for record in (speed.kernel, speed.baseline, speed.speedup, speed.bandwidth):
            assert record is not None
            assert (record.status, record.when) == ("predicted", "")
            assert record.by["model"] == f"kernel times of {target.name}"
            assert record.value > 0
        assert speed.kernel is not None
        assert speed.baseline is not None
        # The formula fused moves no more than its operators one after another.
        assert speed.baseline.value >= 0.95 * speed.kernel.value
        assert speed.parallelism is not None
        assert 0 < speed.parallelism.value <= 100
        share = 100 * one.model.needed_bytes(s) / speed.kernel.value / 1e3 / target.copy_gbs
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


def test_each_bottleneck_has_two_answers() -> None:
    for name, row in BOTTLENECKS.items():
        assert len(set(row.families)) == 2, name
        assert set(row.families) <= set(FAMILIES)


def test_a_copy_on_cores_takes_what_its_bytes_take() -> None:
    """Large: at the rate of a copy; small: the start of a kernel; few rows: the cores that have one."""
    shape = {"n": {"min": 1, "max": 1 << 28}}
    graph = {
        "schema": "autofuse.graph/1",
        "name": "doubled",
        "symbols": shape,
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["n"]}],
        "nodes": [{"name": "d", "op": "Add", "inputs": ["x", "x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    model = Operator(define(api.read(graph), CORES, requirement="a test"), "kernelgen").model
    large, small = (model.speed({}, {"n": n}) for n in (1 << 27, 1))
    assert large.kernel is not None
    assert small.kernel is not None
    at_rate = (1 << 30) / CORES.copy_gbs / 1e3
    assert at_rate + CORES.launch_us <= large.kernel.value <= 1.1 * at_rate + CORES.launch_us
    assert (large.bottleneck, small.bottleneck) == ("bandwidth", "launch")
    assert CORES.launch_us <= small.kernel.value <= 2 * CORES.launch_us


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"cols": 1 << 20}, "cols"),
        ({"rows": 3}, "rows"),
        ({"warps": 4}, "warps"),
        ({"stages": 2}, "stages"),
    ],
)
def test_what_cores_do_not_take(settings: dict[str, int], wrong: str) -> None:
    model = operator(next(p for p in GALLERY if p.stem == "log_sum_exp"), CORES).model
    (kernel,) = (k.name for k in model.program({}).kernels)
    with pytest.raises(AutofuseError) as error:
        model.program({kernel: settings})
    assert error.value.diagnostics[0].code == "AF3007"
    assert wrong in error.value.diagnostics[0].message


def test_larger_blocks_of_a_core_have_fewer_turns() -> None:
    """Half as many elements in a block: twice as many loads to wait for."""
    model = operator(next(p for p in GALLERY if p.stem == "log_sum_exp"), CORES).model
    sizes = model.graph.symbols and {s.name: 4096 for s in model.graph.symbols}
    (kernel,) = (k.name for k in model.program({}).kernels)
    own = dict(Tuning.of(model.program({}), CORES).kernels[0].sizes)
    assert set(own) == {"rows", "cols"}
    whole, half = (
        model.speed(s, sizes or {}).kernel for s in ({}, {kernel: {"cols": own["cols"] // 4}})
    )
    assert whole is not None
    assert half is not None
    assert half.value > whole.value
