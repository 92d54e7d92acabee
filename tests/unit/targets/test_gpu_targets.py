"""Targets of Triton kernels: complete, sourced, found by name; and cards that no file is about."""

import pickle
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.targets import (
    GpuTarget,
    ascend_chip,
    find_target,
    from_driver,
    gpu,
    gpu_names,
    load_chip,
    load_gpu,
    load_target,
    target_names,
)
from autofuse.targets.figures import STATUSES

#: What torch.cuda.get_device_properties says about a card.
CARD = SimpleNamespace(
    name="NVIDIA A100-SXM4-80GB",
    major=8,
    minor=0,
    multi_processor_count=108,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    shared_memory_per_multiprocessor=167936,
    L2_cache_size=41943040,
    clock_rate=1410000,
    memory_clock_rate=1593000,
    memory_bus_width=5120,
)


def test_names_are_those_of_the_files() -> None:
    folder = Path(gpu.__file__).parent
    assert set(gpu_names()) == {p.stem for p in folder.glob("*.toml")}
    assert {"nvidia-h100", "nvidia-h200", "triton-ascend910b1"} <= set(gpu_names())
    assert not set(gpu_names()) & set(target_names())


@pytest.mark.parametrize("name", gpu_names())
def test_every_figure_is_a_field_with_status_and_source(name: str) -> None:
    target = load_gpu(name)
    assert target.name == name
    assert target.backend == "triton"
    for f in target.figures():
        assert f.status in STATUSES
        assert f.source
        assert getattr(target, f.name) == f.value > 0
    figures = {f.name for f in target.figures()}
    numbers = {f.name for f in fields(target) if f.type in ("int", "float")}
    assert figures == {n for n in numbers if getattr(target, n)}
    assert pickle.loads(pickle.dumps(target)) == target
    assert load_gpu(name) is target


def test_an_nvidia_card_has_all_but_ub() -> None:
    for name in ("nvidia-h100", "nvidia-h200"):
        target = load_gpu(name)
        assert (target.dialect, target.capability, target.multiprocessors) == ("cuda", 90, 132)
        assert target.registers == 64 << 10
        assert target.shared_bytes == 228 << 10
        assert target.ub_bytes == 0
        assert len(target.figures()) == 16


def test_what_triton_knows_of_an_ascend_chip_is_what_its_file_says() -> None:
    target, chip = load_gpu("triton-ascend910b1"), load_chip("ascend910b1")
    assert (target.dialect, target.experimental) == ("ascend", True)
    assert (target.multiprocessors, target.ub_bytes) == (chip.aiv_cores, chip.ub_bytes)
    assert (target.l2_bytes, target.launch_us) == (chip.l2_bytes, chip.kernel_head_us)
    assert target.fp32_lanes == chip.vector["binary"].rate32
    rates = 2 / (1 / chip.model.read_gbs + 1 / chip.model.writeback_gbs)
    assert target.copy_gbs == pytest.approx(rates, abs=1)


def test_targets_of_every_kind_are_found_by_name() -> None:
    for name in target_names():
        assert find_target(name) is load_target(name)
        assert ascend_chip(find_target(name)) is load_target(name)
    for name in gpu_names():
        assert find_target(name) is load_gpu(name)


def test_the_error_for_an_unknown_name_lists_both_kinds() -> None:
    with pytest.raises(AutofuseError, match="AF5006: unknown target 'nvidia-h10'") as e:
        find_target("nvidia-h10")
    hint = e.value.diagnostics[0].hint
    assert hint.startswith("did you mean 'nvidia-h100'?")
    assert all(name in hint for name in (*target_names(), *gpu_names()))
    with pytest.raises(AutofuseError, match="unknown target 'ascend910b1'"):
        load_gpu("ascend910b1")
    with pytest.raises(TypeError):
        find_target(3)  # type: ignore[arg-type]


def test_what_needs_an_ascend_chip_says_so() -> None:
    with pytest.raises(AutofuseError, match="AF5007: nvidia-h100 has no templates"):
        ascend_chip(load_gpu("nvidia-h100"))


def test_a_card_without_a_file_has_the_figures_of_its_driver() -> None:
    target = from_driver(CARD)
    assert target.name == "nvidia-a100-sxm4-80gb"
    assert (target.capability, target.multiprocessors, target.clock_mhz) == (80, 108, 1410)
    assert target.fp32_lanes == 64
    assert target.shared_bytes == CARD.shared_memory_per_multiprocessor
    # 1,593 MHz, twice a clock, 640 bytes.
    assert target.copy_gbs == pytest.approx(0.9 * 2039, rel=1e-3)
    assert {f.status for f in target.figures()} == {"assumed"}
    names = {f.name for f in load_gpu("nvidia-h100").figures()}
    assert {f.name for f in target.figures()} == names


def test_the_rule_for_unknown_cards_gives_what_was_measured_on_an_h100() -> None:
    h100 = SimpleNamespace(**{**vars(CARD), "memory_clock_rate": 2619000, "memory_bus_width": 5120})
    measured = load_gpu("nvidia-h100")
    assert from_driver(h100).copy_gbs == pytest.approx(measured.copy_gbs, rel=0.02)
    assert from_driver(h100).l2_gbs == pytest.approx(measured.l2_gbs, rel=0.02)


def test_a_target_is_plain_data() -> None:
    target = load_gpu("nvidia-h100")
    assert isinstance(target, GpuTarget)
    assert hash(target) == hash(load_gpu("nvidia-h100"))
    with pytest.raises(AttributeError):
        target.registers = 1  # type: ignore[misc]
