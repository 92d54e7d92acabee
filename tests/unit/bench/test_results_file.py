"""Files of results: what is written is read, and what is hostile or makes no sense is refused with its place."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.measure.bench.results import (
    Measurement,
    parse_results,
    read_results,
    results_schema,
    results_text,
)
from autofuse.measure.bench.store import append_results

DIGEST = "0123456789abcdef" * 4
RECORD: dict[str, Any] = {
    "origin": "bench",
    "when": "2026-11-27T21:00:00Z",
    "generator": "autofuse 0.1.0",
    "device": {
        "kind": "npu",
        "chip": "Ascend910B1",
        "fake": True,
        "driver": "24.1.0",
        "cann": "8.3.RC1",
        "clocks_mhz": {"aicore": 1850.0},
    },
    "kernel": {
        "name": "softmax",
        "target": "ascend910b1",
        "graph_sha256": DIGEST,
        "kernel_sha256": None,
    },
    "sizes": {"rows": 4096},
    "key": 1,
    "cores": 48,
    "parts": [{"name": "softmax_0_row", "template": "row", "tile": {"z0t_size": 15}}],
    "l2": "warm",
    "method": "events",
    "warm_up": 5,
    "times_us": [11.0, 10.0, 12.5, 10.5],
    "modelled_us": 9.75,
    "compared": {"outputs": 1, "elements": 4096, "max_ulp": 0.5},
    "counters": {"aiv_vec_ratio": 0.25},
}


def _text(**changed: Any) -> str:
    return json.dumps({"schema": "autofuse.results/1", "records": [{**RECORD, **changed}]})


def _codes(text: str) -> list[tuple[str, str]]:
    with pytest.raises(AutofuseError) as e:
        parse_results(text)
    return [(d.code, d.where.pointer) for d in e.value.diagnostics]


def test_what_is_written_is_read_again() -> None:
    (found,) = parse_results(_text())
    assert found.median_us == 10.75
    assert 0 < found.spread_us <= 2.5
    assert found.device.fake
    text = results_text([found, found])
    assert parse_results(text) == (found, found)
    assert len(text.splitlines()) == 4
    assert parse_results(results_text([])) == ()


def test_the_schema_accepts_what_is_written_and_refuses_what_is_not() -> None:
    schema = results_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    checks = jsonschema.Draft202012Validator(schema)
    checks.validate(json.loads(_text()))
    checks.validate(json.loads(results_text(parse_results(_text()))))
    for changed in ({"times_us": []}, {"origin": "guess"}, {"host": "machine"}):
        assert not checks.is_valid(json.loads(_text(**changed)))


@pytest.mark.parametrize(
    ("changed", "code", "pointer"),
    [
        ({"times_us": [1.0, -1.0]}, "AF1403", "/records/0/times_us/1"),
        ({"times_us": []}, "AF1403", "/records/0/times_us"),
        ({"times_us": [1.0] * 10_001}, "AF1403", "/records/0/times_us"),
        ({"times_us": [1.0, 1.0, 5e6]}, "AF1403", "/records/0/times_us"),
        ({"times_us": [1e12]}, "AF1403", "/records/0/times_us/0"),
        ({"modelled_us": 0.0}, "AF1403", "/records/0/modelled_us"),
        ({"sizes": {"rows": -1}}, "AF1403", "/records/0/sizes/rows"),
        ({"sizes": {"rows": 1 << 60}}, "AF1403", "/records/0/sizes/rows"),
        ({"cores": 0}, "AF1403", "/records/0/cores"),
        ({"origin": "msprof"}, "AF1403", "/records/0/method"),
        ({"counters": {"$(reboot)": 1.0}}, "AF1104", "/records/0/counters/$(reboot)"),
        ({"times_us": "12"}, "AF1103", "/records/0/times_us"),
        ({"when": "yesterday"}, "AF1104", "/records/0/when"),
        ({"user": "me"}, "AF1102", "/records/0/user"),
        (
            {"device": {**RECORD["device"], "chip": "../../etc"}},
            "AF1104",
            "/records/0/device/chip",
        ),
        (
            {"device": {**RECORD["device"], "clocks_mhz": {"aicore": 1e7}}},
            "AF1403",
            "/records/0/device/clocks_mhz/aicore",
        ),
        ({"device": {**RECORD["device"], "kind": "cuda"}}, "AF1403", "/records/0/device/fake"),
        (
            {"kernel": {**RECORD["kernel"], "graph_sha256": "abc"}},
            "AF1104",
            "/records/0/kernel/graph_sha256",
        ),
    ],
)
def test_what_no_device_gives_is_refused(changed: dict[str, Any], code: str, pointer: str) -> None:
    assert (code, pointer) in _codes(_text(**changed))


def test_other_files_are_refused() -> None:
    assert _codes('{"schema": "autofuse.graph/1"}')[0][0] == "AF1004"
    assert _codes("[]")[0][0] == "AF1004"
    assert _codes("{")[0][0] == "AF1002"
    assert _codes(_text().replace("9.75", "NaN"))[0][0] == "AF1002"
    assert _codes('{"schema": "autofuse.results/1", "records": ' + "[" * 99 + "]" * 99 + "}")[0][
        0
    ] == ("AF1003")


def _record(time: float) -> Measurement:
    return parse_results(_text(times_us=[time]))[0]


def test_a_file_grows(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    assert append_results(file, [_record(1.0)]) == file
    append_results(file, [_record(2.0), _record(3.0)])
    assert [m.times_us[0] for m in read_results(file)] == [1.0, 2.0, 3.0]
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_a_folder_gets_a_file_of_each_run(tmp_path: Path) -> None:
    first = append_results(tmp_path, [_record(1.0)])
    again = append_results(tmp_path, [_record(1.0)])
    append_results(tmp_path, [_record(2.0)])
    assert first == again
    assert sorted(m.times_us[0] for m in read_results(tmp_path)) == [1.0, 2.0]


def test_threads_append_at_once(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    threads = [
        threading.Thread(target=append_results, args=(file, [_record(float(k + 1))]))
        for k in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(m.times_us[0] for m in read_results(file)) == [float(k + 1) for k in range(8)]


def test_what_is_no_file_of_results_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text('{"schema": "autofuse.graph/1"}')
    with pytest.raises(AutofuseError) as e:
        append_results(file, [_record(1.0)])
    assert e.value.diagnostics[0].code == "AF1004"
    assert file.read_text() == '{"schema": "autofuse.graph/1"}'
    with pytest.raises(AutofuseError) as e:
        append_results(Path("/dev/null"), [_record(1.0)])
    assert e.value.diagnostics[0].code == "AF5005"
    with pytest.raises(AutofuseError) as e:
        append_results(tmp_path / "missing" / "results.json", [_record(1.0)])
    assert e.value.diagnostics[0].code == "AF5005"
