"""The check of the four files: what is right has no finding, and each planted fault has its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from faulty_operator import FAULTY, GOOD

from autofuse import api
from autofuse.clients.kernelgen.defining.definition import Definition, define
from autofuse.clients.kernelgen.files.converter_rules import recognised
from autofuse.clients.kernelgen.files.finding import RULES, Finding
from autofuse.clients.kernelgen.files.generate import four_files
from autofuse.clients.kernelgen.files.interface import findings
from autofuse.targets import find_target

GALLERY = sorted((Path(__file__).resolve().parents[3] / "examples" / "gallery").glob("*.json"))
GIB = 1 << 30


def definition_of(graph: api.GraphLike, target: str = "nvidia-h100") -> Definition:
    return define(api.read(graph), find_target(target), requirement="a test")


@pytest.fixture(scope="module")
def scaled() -> dict[str, str]:
    """The files of a small operator with two inputs and two results."""
    graph = {
        "schema": "autofuse.graph/1",
        "name": "scaled",
        "symbols": {"n": {"min": 0, "max": 65536}},
        "inputs": [
            {"name": "x", "dtype": "float16", "shape": ["n", 40]},
            {"name": "w", "dtype": "float16", "shape": [40]},
        ],
        "nodes": [
            {"name": "p", "op": "Mul", "inputs": ["x", "w"], "outputs": ["y"]},
            {
                "name": "s",
                "op": "ReduceSum",
                "inputs": ["y"],
                "outputs": ["t"],
                "attrs": {"axes": [1]},
            },
        ],
        "outputs": ["y", "t"],
    }
    return four_files(definition_of(graph))


def rules(found: tuple[Finding, ...]) -> set[str]:
    return {f.rule for f in found}


@pytest.mark.parametrize("names", ["kernelgen", "document"])
@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_generated_files_have_no_finding(path: Path, names: str) -> None:
    assert findings(four_files(definition_of(path), names=names)) == ()


def test_a_good_set_that_was_written_by_hand() -> None:
    assert findings(GOOD) == ()


def test_a_set_with_all_known_mistakes() -> None:
    found = findings(FAULTY)
    assert rules(found) == {"one-name", "same-function", "milliseconds", "clock", "memory", "data"}
    by_rule = {f.rule: f for f in found}
    lines = {name: text.splitlines() for name, text in FAULTY.items()}

    def line(rule: str) -> str:
        f = by_rule[rule]
        return lines[f.file][f.line - 1].strip()

    assert line("one-name").startswith("def spread(rows_in")
    assert "calls itself" in by_rule["one-name"].what
    assert "rows_in" in by_rule["same-function"].what
    assert "ms" in line("milliseconds")
    assert "2048" in line("memory")
    assert "96.0 GiB" in by_rule["memory"].what or "64.0 GiB" in by_rule["memory"].what
    assert "randn" in line("data")


@pytest.mark.parametrize("memory", [8 * GIB, 2000 * GIB])
def test_memory_is_that_of_the_device(memory: int) -> None:
    assert ("memory" in rules(findings(FAULTY, memory_bytes=memory))) is (memory == 8 * GIB)


#: Fault -> file, what is replaced, by what, and the rule that finds it.
FAULTS: Mapping[str, tuple[str, str, str, str]] = {
    "kernel and function have one name": (
        "scaled_triton.py",
        "scaled_rows",
        "scaled",
        "one-name",
    ),
    "another decorator": ("scaled_triton.py", "@triton.jit", "@cached\n@triton.jit", "decorators"),
    "jit by another name": ("scaled_triton.py", "@triton.jit", "@jit", "decorators"),
    "no grid": (
        "scaled_triton.py",
        "def scaled(",
        "def other():\n    scaled_rows(1)\n\n\ndef scaled(",
        "launch",
    ),
    "another name": ("scaled_baseline.py", "def scaled(", "def scale(", "name"),
    "parameters in another order": (
        "scaled_baseline.py",
        "x: torch.Tensor, w: torch.Tensor",
        "w: torch.Tensor, x: torch.Tensor",
        "parameters",
    ),
    "a default": (
        "scaled_baseline.py",
        "w: torch.Tensor)",
        "w: torch.Tensor = None)",
        "parameters",
    ),
    "an annotation that is missing": (
        "scaled_baseline.py",
        "w: torch.Tensor)",
        "w)",
        "annotations",
    ),
    "another annotation": ("scaled_baseline.py", "w: torch.Tensor)", "w: object)", "annotations"),
    "another result": (
        "scaled_baseline.py",
        "-> tuple[torch.Tensor, torch.Tensor]",
        "-> torch.Tensor",
        "returns",
    ),
    "a result less": ("scaled_baseline.py", "return y, t", "return y", "returns"),
    "an operand that is not used": (
        "scaled_baseline.py",
        "y = x * w",
        "y = x * 2.0",
        "same-function",
    ),
    "an operand that is not loaded": (
        "scaled_triton.py",
        "tl.load(w_ptr",
        "tl.load(x_ptr",
        "same-function",
    ),
    "an @": ("scaled_baseline.py", "import torch\n", "import torch  # mail to a@b\n", "at-sign"),
    "a second function": (
        "scaled_baseline.py",
        "import torch\n",
        "import torch\n\n\ndef twice(x):\n    return x + x\n",
        "one-function",
    ),
    "a constant of the module": (
        "scaled_baseline.py",
        "y = x * w",
        "y = x * w * ONE",
        "only-torch",
    ),
    "another label": ("test_scaled_accuracy.py", '@label("scaled")', '@label("scale")', "label"),
    "a label that is computed": (
        "test_scaled_performance.py",
        '@label("scaled_benchmark")',
        '@label("scaled" + "_benchmark")',
        "label",
    ),
    "parameters that are computed": (
        "test_scaled_accuracy.py",
        '@parametrize("dtype", [torch.float16])',
        '@parametrize("dtype", DTYPES)',
        "label",
    ),
    "another test": (
        "test_scaled_accuracy.py",
        "def test_scaled(",
        "def check_scaled(",
        "test-name",
    ),
    "a comparison on two lines": (
        "test_scaled_accuracy.py",
        "assert_close(res, ref, dtype,",
        "assert_close(res, ref,\n            dtype,",
        "one-line",
    ),
    "a call in the comparison": (
        "test_scaled_accuracy.py",
        "dtype, reduce_dim=40",
        "dtype, reduce_dim=max(1, 40)",
        "one-line",
    ),
    "another device": ("test_scaled_accuracy.py", "device=device", 'device="cuda"', "device"),
    "another operator": ("test_scaled_performance.py", "bench.scaled(", "bench.scale(", "calls"),
    "a reference by another name": (
        "test_scaled_accuracy.py",
        "to_reference(input, True)",
        "to_reference(x, True)",
        "reference",
    ),
    "a helper": (
        "test_scaled_accuracy.py",
        '@label("scaled")',
        'def inputs_of(shape):\n    return shape\n\n\n@label("scaled")',
        "one-function",
    ),
    "one distribution": ("test_scaled_accuracy.py", "scale * torch", "torch", "data"),
    "the reference is timed": (
        "test_scaled_performance.py",
        "bench.scaled(*inputs)",
        "bench.scaled(*[to_reference(x, True) for x in inputs])",
        "timed-input",
    ),
    "too large": (
        "test_scaled_performance.py",
        '@parametrize("shape", [',
        '@parametrize("shape", [(1 << 30, 40), (2**30, 40), ',
        "memory",
    ),
    "not valid Python": ("scaled_triton.py", "return ", "return (", "syntax"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(scaled: dict[str, str], fault: str) -> None:
    file, old, new, rule = FAULTS[fault]
    assert findings(scaled) == ()
    assert old in scaled[file], scaled[file]
    found = findings({**scaled, file: scaled[file].replace(old, new)})
    assert rule in rules(found), [str(f) for f in found]
    (first, *_) = (f for f in found if f.rule == rule)
    assert first.file == file
    assert first.what
    assert first.mend == RULES[rule]
    assert first.to_json()["mend"] in str(first)


@pytest.mark.parametrize(
    "file", ["scaled_triton.py", "scaled_baseline.py", "test_scaled_accuracy.py"]
)
def test_a_file_that_is_missing(scaled: dict[str, str], file: str) -> None:
    found = findings({n: t for n, t in scaled.items() if n != file})
    assert [f.rule for f in found] == ["file"]


def test_a_fifth_file(scaled: dict[str, str]) -> None:
    (found,) = findings({**scaled, "notes.py": ""})
    assert (found.rule, found.file) == ("file", "notes.py")


def test_imports_of_what_is_not_there() -> None:
    changed = GOOD["spread_accuracy.py"].replace("import spread\n", "import spreads\n")
    (found,) = findings({**GOOD, "spread_accuracy.py": changed})
    assert (found.rule, found.file) == ("import", "spread_accuracy.py")
    changed = GOOD["spread_accuracy.py"].replace("from spread_baseline", "from other_baseline")
    (found,) = findings({**GOOD, "spread_accuracy.py": changed})
    assert found.rule == "import"


@pytest.mark.parametrize(
    ("file", "old", "new", "rule"),
    [
        ("spread_performance.py", "/ count * 1000", "/ count", "milliseconds"),
        ("spread_performance.py", "{slow:.4f} ms", "{slow / 7:.4f} ms", ""),
        ("spread_performance.py", "perf_counter", "time", "clock"),
    ],
)
def test_times(file: str, old: str, new: str, rule: str) -> None:
    found = findings({**GOOD, file: GOOD[file].replace(old, new)})
    assert rules(found) == ({rule} if rule else set())


#: A sum of many terms, and a product in a shape: trees as deep as they are long.
DEEP = f"def f(x):\n    return {' + '.join(['x'] * 3000)}\n\n\nSHAPES = [({' * '.join(['1'] * 3000)}, 2)]\n"


@pytest.mark.parametrize(
    "text", ["", "\x00", "def f(:", "(" * 5000, "x = " + "9" * 6000, "a" * 100_000, DEEP]
)
def test_files_that_are_anything(scaled: dict[str, str], text: str) -> None:
    for file in scaled:
        assert findings({**scaled, file: text})


def test_the_parts_are_told_apart_by_what_stands_in_them(scaled: dict[str, str]) -> None:
    assert recognised(scaled) == {
        "kernel": "scaled_triton.py",
        "baseline": "scaled_baseline.py",
        "accuracy": "test_scaled_accuracy.py",
        "performance": "test_scaled_performance.py",
    }
    with_at = {**scaled, "scaled_baseline.py": scaled["scaled_baseline.py"] + "# @\n"}
    assert "baseline" not in recognised(with_at)
