"""One look-up finds what runs a kernel; nothing outside the machines asks for a class of target or a device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.machines import machine as machines
from autofuse.targets import find_target

#: Questions that may be asked outside of ``autofuse/machines``.
MOST = 10
CLASSES = {"TargetSpec", "GpuTarget", "CpuTarget"}
ATTRIBUTES = {"device", "backend"}


def questions(path: Path) -> Iterator[str]:
    """``isinstance`` against a class of target, and comparisons of a device or a backend."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            names = {x.id for x in ast.walk(node.args[1]) if isinstance(x, ast.Name)}
            if names & CLASSES:
                yield f"{path}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "startswith":
            assert isinstance(node.func, ast.Attribute)
            if _asked(node.func.value):
                yield f"{path}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            nothing = any(isinstance(x, ast.Constant) and x.value is None for x in sides)
            if any(map(_asked, sides)) and not nothing:
                yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def _asked(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) in ATTRIBUTES


def test_classes_of_targets_and_devices_are_asked_for_in_few_places(repo: Path) -> None:
    found = [
        q
        for room in ("autofuse", "implgraph", "schedule", "codegen")
        for p in sorted((repo / room).rglob("*.py"))
        if "machines" not in p.parts and not any(q.is_symlink() for q in p.parents)
        for q in questions(p)
    ]
    assert 0 < len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize(
    ("target", "device", "machine"),
    [
        ("ascend910b1", "cpu", "twin"),
        ("ascend310p", "npu:1", "npu"),
        ("ascend950pr", "cuda", "witness"),
        ("nvidia-h100", "cuda:0", "gpu"),
        ("triton-ascend910b1", "cpu", "gpu"),
        ("cpu", "cpu", "cpu"),
    ],
)
def test_a_backend_and_a_device_have_one_machine(target: str, device: str, machine: str) -> None:
    found = machines.machine_for(find_target(target).backend, device)
    assert type(found).__module__ == f"autofuse.machines.{machine}.machine"


@pytest.mark.parametrize(
    ("target", "device", "text"),
    [
        ("ascend910b1", "tpu", "Ascend C kernels run on the CPU twin, not on tpu"),
        ("ascend910b1", "cuda:01", "Ascend C kernels run on the CPU twin, not on cuda:01"),
        ("cpu", "cuda", "C\\+\\+ loops run on this machine's CPU, not on cuda"),
        ("nvidia-h100", "npu:0", "kernels run on cpu, cuda or cuda:N, not on 'npu:0'"),
        ("ascend910b1", "npu:0", "verify does not run kernels on npu:0"),
    ],
)
def test_a_device_that_a_machine_lacks_is_refused(target: str, device: str, text: str) -> None:
    with pytest.raises(AutofuseError, match=text) as e:
        machines.machine_for(find_target(target).backend, device).needs(device)
    assert e.value.diagnostics[0].code == "AF5007"


def test_options_that_a_machine_lacks_are_refused() -> None:
    loops = machines.machine_for("cpu")
    machines.refuse_others(loops, {"--check": None, "check_seed": 0, "--opt": "-O2"})
    with pytest.raises(AutofuseError, match="--check-seed is for the CPU twin"):
        machines.refuse_others(loops, {"--check": None, "--check-seed": 3})
    twin = machines.machine_for("ascendc")
    machines.refuse_others(twin, {"--check": "all", "--check-seed": 3, "--key": 1, "--trace": "x"})


def test_kernels_of_a_backend_without_a_machine_are_refused() -> None:
    with pytest.raises(AutofuseError, match="AF5007: no machine runs kernels of the backend 'x'"):
        machines.machine_for("x")
