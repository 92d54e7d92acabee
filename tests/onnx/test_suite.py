"""The node tests of the ONNX standard, each with the verdict that ``outcomes.json`` records.

By default a sample runs: one case of each operator for each verdict that its cases have.
``pytest tests/onnx --onnx-full`` runs all of them; ``benchmarks/clients/onnx_suite.py --write`` records new verdicts.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from draws import some
from extras import required

pytestmark = [required("onnx"), pytest.mark.twin, pytest.mark.slow]

import onnx
from pages.onnx_page import KERNEL, PLAIN, onnx_page

from autofuse.clients.onnx.backend import suite

#: The cases are dealt out to so many tests, which may run at the same time.
PARTS = 4
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


@pytest.fixture(scope="module")
def chosen(outcomes: Any, request: pytest.FixtureRequest) -> list[str]:
    """The cases that a run takes."""
    groups = [(op, names) for op, v in outcomes["cases"].items() for names in v.values()]
    full = request.config.getoption("--onnx-full", default=False)
    known = set(suite.case_names())
    found = []
    for k, (op, names) in enumerate(groups):
        taken = range(len(names)) if full else some(f"onnx {op} {k}", 1, len(names))
        found += [names[i] for i in taken if names[i] in known]
    assert len(found) >= len(outcomes["cases"])
    return sorted(found)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_ends_as_recorded(
    part: int, recorded: dict[str, str], chosen: list[str]
) -> None:
    verdicts = list(suite.run_cases(chosen[part::PARTS], workers=1))
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


def test_cases_end_the_same_on_ascend_950_in_checked_mode(
    recorded: dict[str, str], chosen: list[str]
) -> None:
    verdicts = suite.run_cases(chosen[::16], target="ascend950pr", check="all")
    changed = [f"{v.name}: {v.words} ({v.detail})" for v in verdicts if v.words != recorded[v.name]]
    assert not changed, "\n".join(changed)


@pytest.mark.triton
def test_cases_end_the_same_as_triton_kernels(recorded: dict[str, str], chosen: list[str]) -> None:
    verdicts = suite.run_cases(chosen, target="nvidia-h100")
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
