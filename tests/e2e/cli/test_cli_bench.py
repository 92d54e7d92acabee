"""``bench`` and ``import-msprof`` on the fake CANN: nothing of it may look like a measurement of a chip."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_canns import FakeCann

import autofuse
from autofuse.cli import main
from autofuse.measure.bench.results import read_results

pytestmark = pytest.mark.twin


class Done:
    """What a command left: its exit code, and what it printed."""

    def __init__(self, code: int, out: str) -> None:
        self.code, self.out = code, out

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def on_fake(
    fake_cann: FakeCann, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> Callable[..., Done]:
    """The command in this process, with the fake CANN in its environment."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Done:
        code = main([str(w) for w in words])
        return Done(code, capsys.readouterr().out)

    return run


def test_a_graph_is_measured_and_stored(on_fake: Callable, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    words = ("bench", graph, "-t", "ascend910b2", "--repeats", 9, "--out", out)
    done = on_fake(*words, "--shape", "n=64", "--shape", "n=4096", "--json")
    result = done.json()["result"]
    assert result["counts"] == {"measured": 2, "wrong": 0, "failed": 0}
    assert (result["fake"], result["devices"]) == (True, ["npu:0"])
    assert [r["sizes"] for r in result["rows"]] == [{"n": 64}, {"n": 4096}]
    for row in result["rows"]:
        assert row["state"] == "measured"
        assert row["samples"] == 9
        assert 0.3 < row["modelled_over_measured"] < 3
        assert "aiv_vec_time(us)" in row["record"]["counters"]
    records = read_results(out)
    assert [m.model_dump() for m in records] == [r["record"] for r in result["rows"]]
    m = records[1]
    assert (m.device.chip, m.device.fake, m.device.cann) == ("Ascend910B2", True, "8.5.0")
    assert m.compared is not None
    assert (m.compared.outputs, m.compared.elements) == (1, 4096 * 8)
    assert (m.kernel.target, m.kernel.edited, m.l2, len(m.parts)) == (
        "ascend910b2",
        False,
        "warm",
        1,
    )
    text = on_fake(*words, "--no-counters", "--l2", "clear").out
    assert "fake us" in text
    assert "measured us" not in text
    assert "not measurements of a chip" in text
    assert [m.l2 for m in read_results(out)] == ["warm", "warm", "clear"]
    saved = str(out.read_text())
    assert str(tmp_path) not in saved
    assert os.uname().nodename not in saved


def test_a_folder_is_measured_as_it_was_edited(
    on_fake: Callable, graph: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    autofuse.build(graph, target="ascend910b2").write(folder)
    kernel = folder / "device" / "add_one_kernel.cpp"
    text = kernel.read_text()
    quick = ("--repeats", 3, "--no-counters", "--json")
    assert "Adds(" in text
    kernel.write_text(text.replace("Adds(", "Muls("))
    done = on_fake("bench", folder, *quick)
    (row,) = done.json()["result"]["rows"]
    assert (done.code, row["state"], row["edited"], row["record"]) == (1, "wrong", True, None)
    assert [d["code"] for d in row["diagnostics"]] == ["AF6001"]
    kernel.write_text(text.replace("Adds(", "Addz("))
    (row,) = on_fake("bench", folder, *quick).json()["result"]["rows"]
    (d,) = row["diagnostics"]
    assert (row["state"], d["code"]) == ("failed", "AF5015")
    assert d["where"]["path"] == str(kernel)
    assert "Addz(" in kernel.read_text().splitlines()[d["where"]["line"] - 1]


def test_a_kernel_fails_on_the_chip_that_it_is_not_for(
    on_fake: Callable, fake_cann: FakeCann, graph: Path
) -> None:
    fake_cann.make(fail=("two-chips",))
    shapes = ("--shape", "n=64", "--shape", "n=128", "--shape", "n=256")
    words = ("bench", graph, "-t", "ascend910b2", "--device", "npu:0,1", "--no-counters", *shapes)
    found = on_fake(*words, "--repeats", 2, "--json").json()
    rows = found["result"]["rows"]
    assert len(rows) == 3
    assert {row["device"] for row in rows} == {"npu:0", "npu:1"}
    for row in rows:
        if row["device"] == "npu:0":
            assert (row["state"], row["record"]["device"]["chip"]) == ("measured", "Ascend910B2")
        else:
            assert (row["state"], row["diagnostics"][0]["code"]) == ("failed", "AF5007")


def test_a_chip_that_is_lost_is_a_failure_of_each_row(
    on_fake: Callable, fake_cann: FakeCann, graph: Path
) -> None:
    fake_cann.make(fail=("lost",))
    done = on_fake("bench", graph, "-t", "ascend910b2", "--shape", "n=64", "--json")
    (row,) = done.json()["result"]["rows"]
    assert (done.code, row["state"]) == (1, "failed")
    assert row["diagnostics"][0]["code"] == "AF5012"


def test_the_table_of_the_fake_profiler_is_imported_as_fake(
    on_fake: Callable, fake_cann: FakeCann, graph: Path, tmp_path: Path
) -> None:
    log = "add_one\t0\t1.0\t5.5\t8\t0.1\t1.0\t2.0\t3.0\n"
    writes = "import os; open(os.environ['AUTOFUSE_FAKE_PROFILE'], 'w').write(%r)" % (log * 3)
    msprof = fake_cann.root / "bin" / "msprof"
    subprocess.run(
        [str(msprof), f"--output={tmp_path}/prof", "python3", "-c", writes],
        check=True,
        capture_output=True,
    )
    (table,) = tmp_path.rglob("op_summary_*.csv")
    out = tmp_path / "results"
    out.mkdir()
    words = ("import-msprof", table, "-t", "ascend910b2", "-g", graph, "-o", out, "--json")
    result = on_fake(*words).json()["result"]
    assert (result["taken"], result["left"], result["fake"]) == (3, 0, True)
    (m,) = read_results(out)
    assert (m.times_us, m.device.fake, m.origin) == ([5.5] * 3, True, "msprof")
    assert m.counters["aiv_vec_time(us)"] == 1.0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("bench", "add_one.json", "--device", "gpu:0"), "AF5007"),
        (("bench", "add_one.json", "-t", "ascend950pr", "--device", "cuda:0"), "AF5007"),
        (("bench", "add_one.json", "-t", "nvidia-h100", "--device", "npu:0"), "AF5007"),
        (("bench", "add_one.json", "-t", "cpu"), "AF5007"),
        (("bench", "add_one.json", "--shape", "m=3"), "AF1005"),
        (("bench", "add_one.json", "--shape", "n=0"), "AF5007"),
        (("bench", "add_one.json", "--out", "add_one.json"), "AF1004"),
        (("bench", "none.json"), "AF1001"),
        (("import-msprof", "add_one.json", "-t", "ascend910b2"), "AF1004"),
        (("import-msprof", "add_one.json", "-t", "nvidia-h100"), "AF5007"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_runs(
    words: tuple[str, ...],
    code: str,
    graph: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(graph.parent)
    assert main([*words, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [d["code"] for d in found["diagnostics"]] == [code]


def test_without_cann_every_row_says_so(
    on_fake: Callable, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(graph.parent))
    done = on_fake("bench", graph, "--json")
    (row,) = done.json()["result"]["rows"]
    assert (done.code, row["state"]) == (1, "failed")
    assert row["diagnostics"][0]["code"] == "AF5011"
