"""The C++ text of a graph for each form of loops, byte by byte; ``make snapshots`` accepts the present one."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from text_snapshots import check

from autofuse import api

REPO = Path(__file__).resolve().parents[2]
GALLERY, GRAPHS = REPO / "examples" / "gallery", Path(__file__).parent / "graphs"
SNAPSHOTS = Path(__file__).parent / "__snapshots__" / "test_cpu_text"
#: Graph -> words of what it shows.
SHOWN: dict[Path, str] = {
    GALLERY / "embedding_gather.json": "std::clamp",
    GALLERY / "kv_cache_transpose.json": "simd::turn",
    GALLERY / "layer_norm.json": "widen_row",
    GALLERY / "masked_softmax.json": "reduction(largest",
    GALLERY / "layer_norm_backward.json": "omp parallel for reduction",
    GRAPHS / "running_sum.json": "_total[j] +=",
}

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")


@pytest.mark.parametrize("path", SHOWN, ids=lambda p: p.stem)
def test_text(path: Path, snapshot: SnapshotAssertion) -> None:
    built = api.build(path, target="cpu")
    text = built.files[f"{built.graph.name}.cpp"]
    assert SHOWN[path] in text
    check(snapshot, f"{path.stem}.cpp", text)


def test_no_file_is_left_over() -> None:
    assert {p.name for p in SNAPSHOTS.iterdir()} == {f"{path.stem}.cpp" for path in SHOWN}
