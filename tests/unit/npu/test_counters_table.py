"""Tables of operators that the profiler writes, of several releases, and what is none."""

from pathlib import Path

import pytest

from autofuse.base.reading import TooLargeError
from autofuse.machines.npu.counters import read_table

_PIPES = "aiv_vec_time(us),aiv_scalar_time(us),aiv_mte2_time(us),aiv_mte3_time(us)"


@pytest.mark.parametrize(
    "head", ["Op Name,Task Duration(us),Block Dim", "Name,Duration(us),Block Num"]
)
def test_rows(tmp_path: Path, head: str) -> None:
    path = tmp_path / "op_summary_1.csv"
    rows = [
        "add,12.5,48,1,2,3,4",
        "MatMul,7,24,N/A,N/A,N/A,N/A",
        "odd,inf,48,1,2,3,4",
        "short,1",
        "neg,-1,48,1,2,3,4",
    ]
    path.write_text(f"\ufeff{head},{_PIPES}\n" + "\n".join(rows) + "\n", encoding="utf-8")
    pipes = {"scalar": 2.0, "V": 1.0, "MTE2": 3.0, "MTE3": 4.0}
    assert list(read_table(path)) == [("add", 12.5, 48, pipes)]


def test_what_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "op_summary_1.csv"
    path.write_bytes(b"\x00\xff" * 100)
    assert list(read_table(path)) == []
    with path.open("wb") as f:
        f.truncate(1 << 27)
    with pytest.raises(TooLargeError):
        list(read_table(path))
