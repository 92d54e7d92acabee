"""Bundles: written, read again, and refused where they are hostile or cannot be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.measure.calibration.bundle import (
    MAX_TIMES,
    SCHEMA,
    bundle_bytes,
    bundle_schema,
    parse_bundle,
    read_bundle,
    write_bundle,
)


def _value() -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "autofuse": "0.1.0",
        "fake": True,
        "target": "ascend910b2",
        "chip": {"soc": "Ascend910B2", "clock_mhz": 1800},
        "cann": "8.5.0",
        "complete": False,
        "calibration": [
            {
                "case": "start.c1",
                "program": "start",
                "parameters": {"cores": 1},
                "l2": "warm",
                "state": "measured",
                "times_us": [2.5, 2.6],
                "model_us": 2.4,
            },
            {
                "case": "sync.c2.x4",
                "program": "sync",
                "parameters": {"cores": 2, "barriers": 4},
                "l2": "warm",
                "state": "timeout",
                "code": "AF5012",
            },
        ],
        "conformance": [
            {
                "case": "op.Relu.float32",
                "kind": "op",
                "subject": "Relu",
                "dtype": "float32",
                "state": "differs",
                "elements": 64,
                "differing": 2,
                "wrong": 1,
                "differences": [{"at": [0, 3], "inputs": ["-0.0"], "got": "-0.0", "want": "0.0"}],
            }
        ],
    }


def _codes(value: object) -> set[str]:
    with pytest.raises(AutofuseError) as failed:
        parse_bundle(json.dumps(value).encode())
    return {d.code for d in failed.value.diagnostics}


@pytest.mark.parametrize("name", ["b.json", "b.json.gz"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    bundle = parse_bundle(json.dumps(_value()).encode())
    write_bundle(bundle, tmp_path / name)
    assert read_bundle(tmp_path / name) == bundle
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_equal_bundles_have_equal_bytes() -> None:
    bundle = parse_bundle(json.dumps(_value()).encode())
    packed = bundle_bytes(bundle, packed=True)
    assert packed == bundle_bytes(bundle, packed=True)
    assert gzip.decompress(packed) == bundle_bytes(bundle, packed=False)


def test_the_schema_names_every_field_with_its_meaning() -> None:
    schema = bundle_schema()
    assert schema["properties"]["schema"]["const"] == SCHEMA
    for kind in (schema, *schema["$defs"].values()):
        assert all(field["description"] for field in kind["properties"].values())


@pytest.mark.parametrize(
    ("where", "value", "code"),
    [
        (("schema",), "autofuse.bundle/9", "AF1004"),
        (("fake",), 1, "AF1103"),
        (("host",), "workstation", "AF1102"),
        (("target",), "../etc/passwd", "AF1104"),
        (("chip", "soc"), "a b", "AF1104"),
        (("chip", "clock_mhz"), 0, "AF1104"),
        (("calibration", 0, "case"), "a;b", "AF1104"),
        (("calibration", 0, "parameters", "cores"), -1, "AF1104"),
        (("calibration", 0, "times_us", 0), 0.0, "AF1104"),
        (("calibration", 0, "times_us"), [1.0] * (MAX_TIMES + 1), "AF1104"),
        (("calibration", 0, "times_us"), [], "AF1403"),
        (("calibration", 1, "times_us"), [1.0], "AF1403"),
        (("calibration", 1, "code"), None, "AF1403"),
        (("calibration", 1, "case"), "start.c1", "AF1403"),
        (("conformance", 0, "wrong"), 3, "AF1403"),
        (("conformance", 0, "wrong"), 0, "AF1403"),
        (("conformance", 0, "elements"), 0, "AF1403"),
        (("conformance", 0, "state"), "equal", "AF1403"),
        (("conformance", 0, "differences", 0, "got"), "<script>", "AF1104"),
    ],
)
def test_what_cannot_be_is_refused(where: tuple[Any, ...], value: object, code: str) -> None:
    bundle = _value()
    at: Any = bundle
    for step in where[:-1]:
        at = at[step]
    at[where[-1]] = value
    assert code in _codes(bundle)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "b.json.gz"
    path.write_bytes(gzip.compress(b" " * (40 << 20)))
    with pytest.raises(AutofuseError) as failed:
        read_bundle(path)
    assert failed.value.diagnostics[0].code == "AF1003"


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b", b"\x1f\x8bnonsense", gzip.compress(b"{}", mtime=0)[:-3]]
)
def test_a_torn_file_is_refused(data: bytes) -> None:
    with pytest.raises(AutofuseError) as failed:
        parse_bundle(data)
    assert failed.value.diagnostics[0].code == "AF1001"
