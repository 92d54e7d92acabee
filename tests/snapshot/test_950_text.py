"""Kernels for Ascend 950, byte by byte: calls on memory, and of each family of rows the template with one function."""

from pathlib import Path

import pytest
from register_functions import made
from row_graphs import FAMILIES, Graph, shifted_softmax, weighed_layer_norm
from syrupy.assertion import SnapshotAssertion
from text_snapshots import check

from autofuse import api
from autofuse.codegen.backends.ascendc.emit_cpp import emit_function

REPO = Path(__file__).resolve().parents[2]
TARGETS = ("ascend950pr", "ascend950dt")

#: Rows of 500 numbers, whose last register is not full; weights of a sample; rows that are streamed, stored in place.
ROWS: dict[str, Graph] = {
    **{name: make(6400, 500) for name, make in FAMILIES.items()},
    "weights_of_samples": weighed_layer_norm(100, 500, batches=64),
    "streamed_in_place": shifted_softmax(6400, 2100),
}

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")


def test_text(snapshot: SnapshotAssertion) -> None:
    built = api.build(
        REPO / "examples" / "gallery" / "rms_norm_residual.json",
        target=TARGETS[0],
        verify_ir=True,
    )
    check(snapshot, "rms_norm_residual.cpp", built.files[f"device/{built.name}_kernel.cpp"])


def test_loads_of_several_dimensions(snapshot: SnapshotAssertion) -> None:
    path = REPO / "tests" / "snapshot" / "graphs" / "transpose_64_bits.json"
    built = api.build(path, target=TARGETS[0], verify_ir=True)
    check(snapshot, f"{built.name}.cpp", built.files[f"device/{built.name}_kernel.cpp"])


@pytest.mark.parametrize("name", ROWS)
def test_rows(snapshot: SnapshotAssertion, name: str) -> None:
    template = "row_0" if name == "gelu_chain" else "reduce_all"
    check(snapshot, f"rows.{name}.cpp", emit_function(made(ROWS[name], template=template)[0]))


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
