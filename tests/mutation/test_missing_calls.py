"""Calls that an architecture lacks: the static verifier refutes what a fault of the legalisation makes."""

from dataclasses import replace
from typing import Any

import pytest
from twin_graphs import graph

from autofuse.api import build
from autofuse.codegen.lower.kernel import lower_templates
from autofuse.codegen.passes import run_passes
from autofuse.codegen.verification import verify_schedule
from autofuse.targets import TargetSpec, load_target


def missing(target: TargetSpec, nodes: list[Any], dtype: str = "float32") -> list[str]:
    """What is refuted on a chip of a kernel that was made for another one."""
    built = build(graph({"x": (dtype, [64])}, nodes), target="ascend910b1", verify_ir=False)
    lowered = lower_templates(built.graph, built.schedule, built.target)
    functions = {name: run_passes(fn) for name, fn in lowered.items()}
    found = verify_schedule(built.graph, built.schedule, target, functions)
    return [d.message for d in found if d.severity == "error" and "architecture" in d.message]


@pytest.mark.parametrize(
    ("nodes", "dtype", "text"),
    [
        (
            [("y", "Cast", ["x"], {"dtype": "float16"})],
            "float32",
            "Cast from float32 to float16 with CAST_RINT is not in architecture 2002",
        ),
        (
            [("y", "Cast", ["x"], {"dtype": "float32"})],
            "int32",
            "Cast from int32 to float32 with CAST_RINT is not in architecture 2002",
        ),
        (
            [("y", "RShift", ["x", 3])],
            "int32",
            "architecture 2002 has no ShiftRight",
        ),
    ],
)
def test_calls_of_910b_on_310p(nodes: list[Any], dtype: str, text: str) -> None:
    chip = load_target("ascend910b1")
    assert missing(chip, nodes, dtype) == []
    # All but the calls is as on the chip that the kernel was made for.
    old = load_target("ascend310p").arch
    arch = replace(chip.arch, name=old.name, modes=old.modes, calls=old.calls, lacks=old.lacks)
    assert any(text in m for m in missing(replace(chip, arch=arch), nodes, dtype))
