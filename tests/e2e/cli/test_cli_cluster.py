"""``--scheduler``: jobs on worker processes of Dask, as on other hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from extras import needs
from fake_canns import FakeCann

import autofuse
from autofuse.cli import main

pytestmark = [
    pytest.mark.twin,
    pytest.mark.slow,
    needs("distributed"),
]


@pytest.fixture
def scheduler(fake_cann: FakeCann) -> Iterator[str]:
    """The address of a scheduler with a worker process, which has the fake CANN."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


def test_jobs_run_on_the_workers_of_a_scheduler(
    scheduler: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: object) -> Any:
        code = main([*map(str, words), "--scheduler", scheduler, "--json"])
        return code, json.loads(capsys.readouterr().out)

    folder = tmp_path / "graphs"
    folder.mkdir()
    graph.rename(folder / "a.json")
    autofuse.build(folder / "a.json").write(tmp_path / "out")
    broken = folder / "b.json"
    broken.write_text("{")
    code, found = run("verify", folder, tmp_path / "out", "--shapes", 1)
    rows = {Path(r["graph"]).name: r for r in found["result"]["graphs"]}
    assert (code, found["result"]["counts"]["passed"]) == (1, 2)
    for name in ("a.json", "out"):
        assert rows[name]["state"] == "passed"
        assert rows[name]["cases"] >= 1
    assert rows["b.json"]["codes"] == ["AF1002"]
    shapes = ("--shape", "n=64", "--shape", "n=128")
    code, found = run(
        "bench", folder / "a.json", "-t", "ascend910b2", "--no-counters", "--repeats", 4, *shapes
    )
    assert code == 0
    assert [r["state"] for r in found["result"]["rows"]] == ["measured"] * 2
    assert found["result"]["fake"]
    assert [r["record"]["sizes"] for r in found["result"]["rows"]] == [{"n": 64}, {"n": 128}]


def test_no_scheduler_is_an_error(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("autofuse.measure.bench.cluster._CONNECT_S", 1)
    assert main(["verify", str(graph), "--scheduler", "tcp://127.0.0.1:9", "--json"]) == 1
    (d,) = json.loads(capsys.readouterr().out)["diagnostics"]
    assert d["code"] == "AF5001"
    assert "no scheduler answers" in d["message"]
