"""Calibration cases: what each says of itself holds for the model, without running a kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.timed.pricing import kind_of
from autofuse.measure.calibration.cases import Case, calibration_cases, case_work
from autofuse.measure.calibration.folder import program_files
from autofuse.measure.calibration.instructions import INSTRUCTIONS, Instruction
from autofuse.measure.calibration.programs import PROGRAMS, checked_parameters, program_of
from autofuse.measure.calibration.written import evaluate
from autofuse.targets import TargetSpec, VectorCost, load_target, target_names

CHIP = load_target("ascend910b2")


def _changed(target: TargetSpec, figure: str) -> TargetSpec:
    """The chip with a figure half as large again."""
    group, _, name = figure.rpartition(".")
    if group == "model":
        model = replace(target.model, **{name: 1.5 * getattr(target.model, name)})
        return replace(target, model=model)
    if group:
        kind = group.removeprefix("vector.")
        row = target.vector[kind]
        values = {"head": row.head, "rate16": row.rate16, "rate32": row.rate32}
        values[name] *= 1.5
        return replace(target, vector={**target.vector, kind: VectorCost(**values)})
    return replace(target, **{name: 1.5 * getattr(target, name)})


@pytest.mark.parametrize("case", calibration_cases(CHIP), ids=lambda c: c.name)
def test_a_case_depends_on_the_figures_that_it_tells(case: Case) -> None:
    usual = case.model_us(CHIP)
    for figure in case.figures:
        changed = case.model_us(_changed(CHIP, figure))
        assert abs(changed / usual - 1) > 0.004, figure


def test_all_figures_of_the_model_are_told_but_for_these() -> None:
    told = {f for c in calibration_cases(CHIP) for f in c.figures}
    known = {f.name for f in CHIP.figures()}
    assert told <= known
    left = {n for n in known if n.startswith(("model.", "vector."))} - told
    assert left == {
        "model.tiling_load",
        "model.vector_issue",
        "model.vector_fused",
        *(f"vector.{k}.{p}" for k in ("none", "transpose") for p in ("head", "rate16", "rate32")),
    }


@pytest.mark.parametrize("call", INSTRUCTIONS, ids=lambda c: c.name)
def test_a_call_tells_the_row_by_which_generated_kernels_are_priced(call: Instruction) -> None:
    assert kind_of(call.text.partition("(")[0]) == call.kind


@pytest.mark.parametrize("name", target_names())
def test_names_are_unique_and_sizes_fit_every_chip(name: str) -> None:
    target = load_target(name)
    cases = calibration_cases(target)
    assert len({c.name for c in cases}) == len(cases)
    assert [c.risk for c in cases] == sorted(c.risk for c in cases)
    for case in cases:
        checked_parameters(PROGRAMS[case.program], case.parameters, target)


@pytest.mark.parametrize(
    "change", [{"cores": 0}, {"cores": 1000}, {"tiles": 1 << 20, "row": 1 << 15}, {"rows": 1}]
)
def test_sizes_that_cannot_be_are_refused(change: dict[str, int]) -> None:
    case = next(c for c in calibration_cases(CHIP) if c.program == "store")
    with pytest.raises(AutofuseError) as failed:
        case_work(case.program, {**case.parameters, **change}, CHIP)
    assert failed.value.diagnostics[0].code == "AF1403"


def test_a_kernel_of_another_version_is_refused() -> None:
    with pytest.raises(AutofuseError) as failed:
        program_of("__import__")
    assert failed.value.diagnostics[0].code == "AF1403"


def test_the_time_is_that_of_the_work() -> None:
    case = calibration_cases(CHIP)[0]
    assert case.model_us(CHIP) == evaluate(case.work(CHIP), CHIP).total


def test_a_chip_without_padding_copies_whole_blocks() -> None:
    files = program_files(PROGRAMS["load"], load_target("ascend310p"))
    kernel = files["device/calibration_load_kernel.cpp"]
    assert "DataCopyPad" not in kernel
    assert "SetL2CacheHint" not in kernel
