"""``--flow akg -t cpu``: the library and its JSON, called with arrays of pointers, compute what the graph means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import akg_graphs
import pytest
from triton_checks import small

from autofuse import api
from autofuse.clients.akg import flow
from autofuse.machines.twin.oracle.sizes import shapes_for
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = pytest.mark.twin

REPO = Path(__file__).resolve().parents[3]
GALLERY = sorted((REPO / "examples" / "gallery").glob("*.json"))


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("akg_runtime:verify_library_job", workers=1) as found:
        yield found


def assert_right(pool: WorkerPool, folder: Path, bindings: Sequence[Mapping[str, int]]) -> None:
    outcome = pool.run({"folder": str(folder), "bindings": bindings, "seed": 4})
    assert outcome.ok, outcome.diagnostics
    assert outcome.value == []


@pytest.mark.parametrize("what", akg_graphs.FIXED)
def test_fixed_sizes(pool: WorkerPool, tmp_path: Path, what: str) -> None:
    flow.build(akg_graphs.FIXED[what], target="cpu").write(tmp_path / "out")
    assert_right(pool, tmp_path / "out", [{}])


@pytest.mark.parametrize("what", akg_graphs.SYMBOLIC)
def test_symbols(pool: WorkerPool, tmp_path: Path, what: str) -> None:
    result = flow.build(akg_graphs.SYMBOLIC[what], target="cpu", keys="document")
    result.write(tmp_path / "out")
    names = [s.name for s in result.built.graph.symbols]
    assert_right(pool, tmp_path / "out", [dict.fromkeys(names, n) for n in (1, 2, 31, 64)])
    doc = json.loads((tmp_path / "out" / result.json_file).read_text())
    assert doc["dynamic"] is True


def test_a_size_that_is_in_no_shape(pool: WorkerPool, tmp_path: Path) -> None:
    result = flow.build(akg_graphs.first_sum(), target="cpu")
    result.write(tmp_path / "out")
    doc = json.loads((tmp_path / "out" / result.json_file).read_text())
    assert doc["autofuse"]["given"] == ["n"]
    assert_right(pool, tmp_path / "out", [{"n": n} for n in (1, 37, 100)])


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_the_gallery(pool: WorkerPool, tmp_path: Path, path: Path) -> None:
    result = flow.build(small(api.read(path)), target="cpu")
    result.write(tmp_path / "out")
    bindings = shapes_for(result.built.graph, 3, 2, max_elements=1 << 12)
    assert_right(pool, tmp_path / "out", bindings)


def test_a_library_that_was_edited_is_not_overwritten(tmp_path: Path) -> None:
    result = flow.build(akg_graphs.FIXED["mul_tanh"], target="cpu")
    written = result.write(tmp_path / "out")
    library = "kernel_meta/Fused_Mul_Tanh.so"
    assert library in written.created
    assert result.write(tmp_path / "out").unchanged == tuple(sorted(result.files))
    (tmp_path / "out" / library).write_bytes(b"mine")
    with pytest.raises(api.AutofuseError, match="edited"):
        result.write(tmp_path / "out")
    assert (tmp_path / "out" / library).read_bytes() == b"mine"
    assert library in result.write(tmp_path / "out", force=True).updated
    assert flow.build(akg_graphs.FIXED["mul_tanh"], target="cpu").files == result.files
