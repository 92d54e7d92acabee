"""Functions on registers against calls on UB: a bounded run of ``benchmarks/model/registers_950.py``."""

from pathlib import Path

import pytest
import registers_950 as registers

from autofuse.targets import load_chip

pytestmark = [pytest.mark.twin, pytest.mark.slow]

GRAPHS = Path(__file__).resolve().parents[3] / "tests" / "snapshot" / "graphs"


def test_functions_are_not_slower_and_leave_ub_alone() -> None:
    (row,) = registers.rows([GRAPHS / "cast_chain.json"], load_chip("ascend950pr"))
    assert row.functions_us <= row.calls_us
    assert row.functions_accesses < row.calls_accesses
    text = registers.table([row])
    assert f"| {row.name} |" in text
    assert "1 graphs" in registers.summary([row])
    assert f"{row.ratio:.2f} at most" in registers.summary([row])


def test_graphs_of_a_folder_are_drawn(tmp_path, monkeypatch, capsys) -> None:
    text = (GRAPHS / "cast_chain.json").read_text(encoding="utf-8")
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    called = ["registers_950.py", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*called, "--max-elements", "9"])
    assert registers.main() == 1
    monkeypatch.setattr("sys.argv", [*called, "--limit", "1"])
    assert registers.main() == 0
    said = capsys.readouterr().out
    assert said.startswith("1 graphs, 1 of them with functions")
