"""A kernel for Ascend 950, byte by byte: calls on memory, float16 widened where calls flush subnormal numbers."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from text_snapshots import check

from autofuse import api

REPO = Path(__file__).resolve().parents[2]
TARGETS = ("ascend950pr", "ascend950dt")

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")


def test_text(snapshot: SnapshotAssertion) -> None:
    built = api.build(
        REPO / "examples" / "gallery" / "rms_norm_residual.json",
        target=TARGETS[0],
        verify_ir=True,
    )
    check(snapshot, "rms_norm_residual.cpp", built.files[f"device/{built.name}_kernel.cpp"])


@pytest.mark.parametrize("target", TARGETS)
def test_the_project_is_for_the_architecture(target: str) -> None:
    files = api.build(
        REPO / "tests" / "snapshot" / "graphs" / "short_rows.json", target=target
    ).files
    assert '"CMAKE_ASC_ARCHITECTURES": "dav-3510"' in files["CMakePresets.json"]
    assert '"name": "ascend950"' in files["CMakePresets.json"]
    assert 'set(CMAKE_ASC_ARCHITECTURES "dav-3510"' in files["CMakeLists.txt"]
    for path, text in files.items():
        assert "2201" not in text, path
        # The compiler refuses the intrinsic on this architecture; the function of the interface it takes.
        assert "pipe_barrier(" not in text, path
