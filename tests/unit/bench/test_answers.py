"""Answers of workers of other hosts, which may be anything."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from autofuse import __version__
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.kernels.answers import checked_verification
from autofuse.machines.twin.run.worker import Outcome
from autofuse.measure.bench.bench import Case, _row
from autofuse.measure.bench.cluster import answer, on_cluster, read_answer
from autofuse.measure.bench.subjects import Choice, subject_of

ITEM = {"path": "a.json"}
COMPARISON = {
    "output": "y",
    "elements": 8,
    "wrong": 0,
    "max_abs": 0.0,
    "max_rel": 0.0,
    "max_ulp": 0.5,
    "ill_conditioned": 0,
    "unwritten": 0,
    "first": None,
    "got": "",
    "want": "",
    "tolerance": 0.0,
}
CASE = {
    "symbols": {"n": 1},
    "key": -1,
    "status": "passed",
    "reason": "",
    "block_dim": 1,
    "outputs": [COMPARISON],
    "seconds": 0.1,
}
ANSWER: dict[str, Any] = {
    "report": {
        "name": "a",
        "ok": True,
        "seed": 0,
        "compile_seconds": 1.0,
        "seconds": 2.0,
        "diagnostics": [],
        "cases": [CASE],
    },
    "code": None,
    "keys": 1,
    "shrunk": None,
    "seconds": 0.5,
    "parts": 1,
}


def _changed(path: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(ANSWER)
    at: Any = made
    *way, last = path.split("/")
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[int(last) if isinstance(at, list) else last] = value
    return made


def test_an_answer_of_verify_is_taken_as_it_is() -> None:
    assert checked_verification(ANSWER) is ANSWER


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("report", None),
        ("report/ok", "yes"),
        ("report/cases", []),
        ("report/cases/0/status", "failed"),
        ("report/cases/0/outputs/0/wrong", 3),
        ("report/cases/0/outputs/0/max_ulp", float("inf")),
        ("report/cases/0/symbols", {"n": "rm"}),
        ("report/diagnostics", [{"code": "XX1", "severity": "warning", "message": ""}]),
        ("report/diagnostics", [{"code": "AF6001", "severity": "error", "message": ""}]),
        ("code", "0" * 64),
        ("more", 1),
    ],
)
def test_an_answer_that_is_none_is_refused(path: str, value: Any) -> None:
    with pytest.raises(AutofuseError, match="AF1403"):
        checked_verification(_changed(path, value))


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"{}",
        "",
        "[]",
        "{}",
        '{"value": null, "diagnostics": [], "seconds": 0}',
        '{"value": 1, "diagnostics": 5, "seconds": 0}',
        '{"value": 1, "diagnostics": [{"code": "AF0", "message": ""}], "seconds": 0}',
        '{"value": 1, "diagnostics": [{"code": "AF5003", "message": 5}], "seconds": 0}',
        '{"value": 1, "diagnostics": [{"code": "AF5003", "message": "", "where": {"x": 1}}], "seconds": 0}',
        '{"value": 1, "diagnostics": [], "seconds": "soon"}',
        '{"value": NaN, "diagnostics": [], "seconds": 0}',
        "[" * 1000,
    ],
)
def test_an_answer_that_is_no_answer_is_a_finding(text: Any) -> None:
    found = read_answer(text, ITEM)
    assert [d.code for d in found.diagnostics] == ["AF1403"]
    assert found.item is ITEM


def test_an_answer_is_read() -> None:
    found = read_answer('{"value": [1], "diagnostics": [], "seconds": 2.5}', ITEM)
    assert (found.value, found.seconds, found.ok) == ([1], 2.5, True)
    d = {"code": "AF5003", "message": "lost", "severity": "error", "where": {"line": 3}}
    found = read_answer(json.dumps({"value": 1, "diagnostics": [d], "seconds": 0.0}), ITEM)
    assert (found.value, found.diagnostics[0].where.line) == (None, 3)


def test_another_version_refuses_the_job() -> None:
    found = read_answer(answer("no.such:job", "{}", "0.0.0", 1.0, 0), ITEM)
    assert found.diagnostics[0].code == "AF5007"
    assert __version__ in found.diagnostics[0].message


def test_a_measurement_that_is_none_is_a_finding(tmp_path: Path) -> None:
    graph = {
        "schema": "autofuse.graph/1",
        "name": "a",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [8]}],
        "nodes": [{"name": "n", "op": "Abs", "inputs": ["x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    file = tmp_path / "a.json"
    file.write_text(json.dumps(graph))
    case = Case(subject_of(file, "ascend910b1"), {})
    for value in (None, {}, {"record": {"times_us": [1]}, "notes": []}, {"record": 1}, "text"):
        row = _row(case, Outcome({"device": "npu:0"}, value), Choice())
        assert (row.state, row.record) == ("failed", None)
        assert row.diagnostics[0].code == "AF1403"


@pytest.mark.parametrize("address", ["", "host", "file:///etc", "tcp://a b:1", "tcp://h:1; ls"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(AutofuseError, match="AF5007"):
        list(on_cluster(address, "a.b:c", [], timeout_s=1.0, memory_mb=0))


def test_without_the_package_the_message_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AutofuseError) as e:
        list(on_cluster("tcp://127.0.0.1:1", "a.b:c", [], timeout_s=1.0, memory_mb=0))
    (d,) = e.value.diagnostics
    assert (d.code, d.hint) == ("AF5001", "pip install 'ascend-autofuse[cluster]'")
