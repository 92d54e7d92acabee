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
