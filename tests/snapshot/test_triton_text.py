"""The Triton text of a graph for each form of kernel, byte by byte; ``make snapshots`` accepts the present one."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from text_snapshots import check

from autofuse import api

TARGET = "nvidia-h100"
REPO = Path(__file__).resolve().parents[2]
GALLERY, GRAPHS = REPO / "examples" / "gallery", Path(__file__).parent / "graphs"
SNAPSHOTS = Path(__file__).parent / "__snapshots__" / "test_triton_text"
#: Graph -> what it shows, and words of that.
SHOWN: dict[Path, tuple[str, str]] = {
    GALLERY / "swiglu.json": ("items: runs of elements", "BLOCK"),
    GALLERY / "embedding_gather.json": ("a gather", "place"),
    GALLERY / "kv_cache_transpose.json": ("tiles of a transposition", "tiles"),
    GALLERY / "rms_norm_residual.json": ("rows in registers", "residual_rows"),
    GALLERY / "masked_softmax.json": ("rows or a loop, by the size of a call", "row_blocks"),
    GALLERY / "layer_norm_backward.json": ("sums over rows beside them", "num_programs(0)"),
    GRAPHS / "log_sum_exp.json": ("parts of columns, and what joins them", "num_programs(1)"),
    GRAPHS / "norm_online.json": ("a row over the blocks of a cluster", "meet_cluster"),
}

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")


@pytest.mark.parametrize("path", SHOWN, ids=lambda p: p.stem)
def test_text(path: Path, snapshot: SnapshotAssertion) -> None:
    built = api.build(path, target=TARGET)
    text = built.files[f"{built.graph.name}_triton.py"]
    assert SHOWN[path][1] in text
    check(snapshot, f"{path.stem}.py", text)


def test_no_file_is_left_over(request: pytest.FixtureRequest) -> None:
    expected = {f"{path.stem}.py" for path in SHOWN}
    found = {p.name for p in SNAPSHOTS.iterdir()}
    if request.config.getoption("update_snapshots"):
        for file in found - expected:
            (SNAPSHOTS / file).unlink()
    else:
        assert found == expected
