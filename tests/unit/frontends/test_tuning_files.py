"""Tuning files of Ascend chips as somebody else may have written them: what is wrong is said, with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.tuning import Tilings
from autofuse.frontends.tuning import read_tuning, tuning_schema

ROW = {
    "sizes": {"rows": [1, 64], "cols": 8},
    "groups": [{"template": "f", "tile": 16, "cores": 4}],
}
TIMES = {
    "sizes": {"rows": 4},
    "us": 1.5,
    "default_us": 2.0,
    "noise": 0.01,
    "status": "measured",
    "on": "a chip",
}
FILE: dict[str, Any] = {
    "schema": "autofuse.tuning/1",
    "graph": "g",
    "digest": "0" * 64,
    "target": "ascend910b1",
    "tilings": [ROW],
    "times": [TIMES],
}


def _read(folder: Path, file: dict[str, Any]) -> Any:
    path = folder / "t.json"
    path.write_text(json.dumps(file))
    return read_tuning(path)


def test_what_a_file_says(tmp_path: Path) -> None:
    found = _read(tmp_path, FILE)
    assert isinstance(found, Tilings)
    (row,) = found.rows
    assert dict(row.sizes) == {"rows": (1, 64), "cols": (8, 8)}
    assert (row.groups[0].template, row.groups[0].tile, row.groups[0].cores) == ("f", 16, 4)
    assert found.times[0].fake is False
    assert json.loads(found.text())["tilings"] == FILE["tilings"]
    jsonschema.validate(FILE, tuning_schema())
    kernels = {k: v for k, v in FILE.items() if k != "tilings"} | {"kernels": []}
    jsonschema.validate(kernels, tuning_schema())


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"kernels": []}, "AF1102", "/kernels"),
        ({"digest": "x"}, "AF1104", "/digest"),
        ({"tilings": [ROW] * 257}, "AF1104", "/tilings"),
        ({"tilings": [ROW | {"groups": []}]}, "AF1104", "/tilings/0/groups"),
        ({"tilings": [ROW | {"sizes": {"rows": -1}}]}, "", "/tilings/0/sizes/rows"),
        ({"tilings": [ROW | {"sizes": {"rows": [1, 2, 3]}}]}, "", "/tilings/0/sizes/rows"),
        ({"tilings": [ROW | {"sizes": {"rows": 1.5}}]}, "", "/tilings/0/sizes/rows"),
        ({"tilings": [ROW | {"code": "system()"}]}, "AF1102", "/tilings/0/code"),
        ({"tilings": [ROW | {"groups": [{"template": "f", "tile": 0, "cores": 4}]}]}, "AF1104",
         "/tilings/0/groups/0/tile"),
        ({"tilings": [ROW | {"groups": [{"template": "f", "tile": 1 << 40, "cores": 4}]}]}, "AF1104",
         "/tilings/0/groups/0/tile"),
        ({"tilings": [ROW | {"groups": [{"template": "f", "tile": 8}]}]}, "AF1101",
         "/tilings/0/groups/0"),
        ({"times": [TIMES | {"us": -1.0}]}, "AF1104", "/times/0/us"),
        ({"times": [TIMES | {"status": "true"}]}, "AF1104", "/times/0/status"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    tmp_path: Path, change: dict[str, Any], code: str, pointer: str
) -> None:
    with pytest.raises(AutofuseError) as e:
        _read(tmp_path, FILE | change)
    first = e.value.diagnostics[0]
    assert first.code.startswith("AF11")
    assert first.code == code or not code
    assert first.where.pointer.startswith(pointer)
    assert first.where.line > 0
