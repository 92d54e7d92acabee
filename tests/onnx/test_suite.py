"""The node tests of the ONNX standard, each with the verdict that ``outcomes.json`` records.

By default a sample runs: one of sixteen cases that pass, one of eight others.
``pytest tests/onnx --onnx-full`` runs all of them; ``benchmarks/clients/onnx_suite.py --write`` records new verdicts.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from draws import WHOLE, some
from extras import required

pytestmark = [required("onnx"), pytest.mark.twin, pytest.mark.slow]

import onnx
from pages.onnx_page import KERNEL, PLAIN, onnx_page

from autofuse.clients.onnx.backend import suite

#: The cases are dealt out to so many tests, which may run at the same time.
PARTS = 2
PASSED_STEP, OTHER_STEP = 16, 8
#: So many pass at the least.
AT_LEAST = 800


@pytest.fixture(scope="module")
def outcomes() -> Any:
    path = Path(__file__).with_name("outcomes.json")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def recorded(outcomes: Any) -> dict[str, str]:
    """Case -> verdict."""
    cases = outcomes["cases"].values()
    return {n: verdict for op in cases for verdict, names in op.items() for n in names}


def chosen(recorded: dict[str, str], full: bool) -> list[str]:
    names = sorted(recorded)
    if full or WHOLE:
        return names
    good = [n for n in names if recorded[n] == KERNEL]
    other = [n for n in names if recorded[n] != KERNEL]
    (first,) = some("onnx", 1, PASSED_STEP)
    return sorted(good[first::PASSED_STEP] + other[first % OTHER_STEP :: OTHER_STEP])


@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_ends_as_recorded(
    part: int,
    recorded: dict[str, str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = request.config.getoption("--onnx-full", default=False)
    known = set(suite.case_names())
    names = [n for n in chosen(recorded, full)[part::PARTS] if n in known]
    assert names
    verdicts = list(suite.run_cases(names, workers=1))
    print(Counter(v.words for v in verdicts))  # noqa: T201 - shown with -s
    changed = [
        f"{v.name}: {v.words} ({v.detail}); recorded: {recorded[v.name]}"
        for v in verdicts
        if v.words != recorded[v.name]
    ]
    assert not changed, (
        "\n".join(changed)
        + "\n\nif it is meant so: python benchmarks/clients/onnx_suite.py --write"
    )


def test_cases_end_the_same_on_ascend_950_in_checked_mode(recorded: dict[str, str]) -> None:
    known = set(suite.case_names())
    names = [n for n in chosen(recorded, False)[::8] if n in known]
    verdicts = suite.run_cases(names, target="ascend950pr", check="all")
    changed = [f"{v.name}: {v.words} ({v.detail})" for v in verdicts if v.words != recorded[v.name]]
    assert not changed, "\n".join(changed)


@pytest.mark.triton
def test_cases_end_the_same_as_triton_kernels(
    recorded: dict[str, str], request: pytest.FixtureRequest
) -> None:
    full = request.config.getoption("--onnx-full", default=False)
    known = set(suite.case_names())
    names = [n for n in chosen(recorded, full) if n in known]
    verdicts = suite.run_cases(names, target="nvidia-h100")
    changed = [f"{v.name}: {v.words} ({v.detail})" for v in verdicts if v.words != recorded[v.name]]
    assert not changed, "\n".join(changed)


def test_no_case_is_missing(outcomes: Any, recorded: dict[str, str]) -> None:
    if outcomes["onnx"] != onnx.__version__:
        pytest.skip(f"recorded with onnx {outcomes['onnx']}; this is {onnx.__version__}")
    assert sorted(recorded) == suite.case_names()


def test_enough_pass_and_none_is_wrong(recorded: dict[str, str]) -> None:
    assert sum(v in (KERNEL, PLAIN) for v in recorded.values()) >= AT_LEAST
    assert [n for n, v in recorded.items() if v.startswith("FAILED")] == []


def test_page_is_up_to_date(outcomes: Any, repo: Path) -> None:
    page = (repo / "docs" / "onnx.md").read_text(encoding="utf-8")
    assert page == onnx_page(outcomes), "run: python benchmarks/clients/onnx_suite.py --write"
