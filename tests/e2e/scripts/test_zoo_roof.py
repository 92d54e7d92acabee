"""benchmarks/zoo/roof.py: rows, the worst first, a histogram, causes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import roof

GALLERY = Path(__file__).resolve().parents[3] / "examples" / "gallery"


def test_kernels_are_compared_with_their_roofs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.json").write_text("{}")
    files = [str(GALLERY / f"{n}.json") for n in ("layer_norm", "embedding_gather", "adamw")]
    kept = tmp_path / "rows.json"
    monkeypatch.setattr(
        sys, "argv", ["roof.py", *files, str(tmp_path), "--lines", "2", "--json", str(kept)]
    )
    assert roof.main() == 0
    shown = capsys.readouterr().out
    assert shown.startswith("All times are the model's.")
    assert "roof above 10 us: 3 kernels" in shown
    assert "3 kernels, 1 AF" in shown
    rows = [r for r in json.loads(kept.read_text()) if "times" in r]
    assert len(rows) == 3
    for r in rows:
        assert r["times"] == pytest.approx(r["us"] / r["roof_us"])
    worst = max(rows, key=lambda r: r["times"])
    first = next(line for line in shown.splitlines() if " groups, " in line and "roof " in line)
    assert worst["name"] in first or "times the roof" in first
    assert shown.count(" bytes: ") == 2


def test_a_sample_is_drawn_by_its_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def drawn(seed: int) -> str:
        argv = ["roof.py", str(GALLERY), "--sample", "2", "--seed", str(seed)]
        monkeypatch.setattr(sys, "argv", argv)
        assert roof.main() == 0
        return capsys.readouterr().out

    assert drawn(1) == drawn(1)
    assert any(drawn(1) != drawn(seed) for seed in (2, 3, 4))
