"""The driver: stages in order, one KernelIR that is proved and emitted, backends by name."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from autofuse import api, compiler
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.interface import load_backend
from autofuse.codegen.passes import PIPELINE
from autofuse.targets import load_target

ROOT = Path(__file__).resolve().parents[2]
CHIP = load_target("ascend910b1")
GRAPH = ROOT / "tests" / "snapshot" / "graphs" / "softmax.json"


def seen(*, verify_ir: bool) -> list[tuple[str, str, Any, Any]]:
    calls: list[tuple[str, str, Any, Any]] = []
    api.observed(GRAPH, lambda *call: calls.append(call), verify_ir=verify_ir)
    return calls


def test_the_output_of_a_stage_is_the_input_of_the_next_one() -> None:
    stages = [c for c in seen(verify_ir=True) if not c[1]]
    names = ["read", "lower", "simplify", "schedule", "kernel", "passes", "check", "emit"]
    assert [c[0] for c in stages] == names
    for one, other in itertools.pairwise(stages[1:]):
        assert one[3] is other[2]


def test_what_is_proved_is_what_is_emitted() -> None:
    calls = {c[0]: c for c in seen(verify_ir=True) if not c[1]}
    assert calls["check"][2] is calls["check"][3] is calls["emit"][2]
    functions = calls["emit"][2].functions
    text = calls["emit"][3]["device/softmax_kernel.cpp"]
    assert functions
    assert all(f"inline __aicore__ void {name}(" in text for name in functions)


def test_every_template_is_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from autofuse.codegen.lower import kernel

    lowered: list[str] = []
    real = kernel.lower_kernel

    def counted(impl: Any, *others: Any) -> Any:
        lowered.append(impl.name)
        return real(impl, *others)

    monkeypatch.setattr(kernel, "lower_kernel", counted)
    built = api.build(GRAPH, verify_ir=True)
    assert lowered == [i.name for r in built.schedule for g in r.groups for i in g.impls]


def test_passes_are_observed_one_by_one() -> None:
    calls = [c for c in seen(verify_ir=False) if c[0] == "passes"]
    assert [c[1] for c in calls] == [*(type(p).__name__ for p in PIPELINE), ""]
    assert [c[3] for c in calls[:-2]] == [c[2] for c in calls[1:-1]]
    assert calls[-1][3] is calls[-2][3]


def test_backends_are_found_by_name() -> None:
    assert load_backend("ascendc").name == CHIP.backend == "ascendc"
    with pytest.raises(AutofuseError, match="there is no backend 'x'") as e:
        load_backend("x")
    assert "ascendc" in e.value.diagnostics[0].hint.removeprefix("backends: ").split(", ")


def test_the_backend_of_the_target_is_the_usual_one() -> None:
    graph = compiler.read(GRAPH)
    one = compiler.compile(graph, CHIP)
    assert one == compiler.compile(graph, CHIP, backend=load_backend("ascendc"))
    assert one == api.build(GRAPH)
