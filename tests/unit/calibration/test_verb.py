"""What the verb ``calibrate`` refuses, and what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from calibration_bundles import TARGET, bundle

from autofuse.cli import main
from autofuse.measure.bench.results import Measurement, results_text
from autofuse.measure.calibration.bundle import write_bundle
from autofuse.targets import read_target

FEW = (
    '{"schema": "autofuse.bundle/1", "autofuse": "1.0", "fake": false, "target": "ascend910b2",'
    ' "chip": {"soc": "Ascend910B2"}, "cann": "8.5.0", "complete": true}'
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def results() -> str:
    """A file of results with a record."""
    kernel = {"name": "g", "target": "ascend910b2", "graph_sha256": None, "kernel_sha256": None}
    record = {
        "origin": "bench",
        "generator": "autofuse 1.0",
        "device": {"kind": "npu", "chip": "Ascend910B2", "fake": False},
        "kernel": kernel,
        "sizes": {},
        "l2": "warm",
        "method": "events",
        "times_us": [3.0],
    }
    return results_text([Measurement.model_validate(record)])


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["few.json"], "AF5014", "0 kernels were measured"),
        (["few.json", "-o", "few.txt"], "AF1005", "ends in .toml"),
        (["few.toml", "-o", "few.toml"], "AF1005", "would overwrite the bundle"),
        (["other.json"], "AF1004", "this is not a bundle"),
        (["none.json"], "AF1001", "there is no such file"),
        # A name in a bundle opens no file.
        (["hostile.json"], "AF5006", "unknown target"),
        (["few.json", "-t", "nvidia-h100"], "AF5007", "no templates"),
        (["few.json", "results.json"], "AF5007", "--graphs"),
    ],
)
def test_refusals(
    words: list[str], code: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("few.json", "few.toml"):
        Path(name).write_text(FEW, encoding="utf-8")
    Path("other.json").write_text("{}", encoding="utf-8")
    Path("hostile.json").write_text(FEW.replace("ascend910b2", "mine.toml"), encoding="utf-8")
    Path("results.json").write_text(results(), encoding="utf-8")
    assert main(["calibrate", *words]) == 1
    err = capsys.readouterr().err
    assert code in err
    assert text in err
    assert {p.name for p in Path().glob("*.toml")} == {"few.toml"}


def test_the_file_and_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def only(case: object) -> bool:
        return str(getattr(case, "name", "")).startswith(("start.", "sync.", "load.memory"))

    write_bundle(bundle(fake=True, only=only), Path("bundle.json.gz"))
    assert main(["calibrate", "bundle.json.gz", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "fake: these times come from a simulated chip and are not measurements" in said
    assert "unchanged, since no kernel depends on them: model.tiling_load" in said
    assert not Path("ascend910b2_fake.toml").exists()

    assert main(["calibrate", "bundle.json.gz", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["result"]
    target = read_target(found["file"])
    assert found["file"] == "ascend910b2_fake.toml"
    assert found["fake"] is True
    fitted = {e["name"]: e["value"] for e in found["fitted"]}
    assert target.sync_all == pytest.approx(fitted["sync_all"], rel=1e-5)
    assert len(fitted) + len(found["unchanged"]) == len(
        [f for f in TARGET.figures() if f.name in fitted or f.name in str(found["unchanged"])]
    )

    assert main(["targets", "ascend910b2_fake.toml"]) == 0
    assert "fake CANN" in " ".join(capsys.readouterr().out.split())
