"""Every graph of the gallery, the examples and the snapshots agrees with NumPy as C++ loops."""

from pathlib import Path

import draws
import pytest
from triton_checks import found_wrong, small

from autofuse import api
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = pytest.mark.twin

REPO = Path(__file__).resolve().parents[3]
GALLERY = [*sorted((REPO / "examples" / "gallery").glob("*.json")), REPO / "examples" / "demo.json"]
SMALL = sorted((REPO / "tests" / "snapshot" / "graphs").glob("*.json"))


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_the_gallery_in_vectors(loops: WorkerPool, path: Path) -> None:
    """Optimised as a user has it."""
    seed = draws.seed()
    wrong = found_wrong(loops, small(api.read(path)), seed=seed, target="cpu", opt="-O3")
    assert not wrong, f"seed {seed}: {wrong}"


@pytest.mark.parametrize("path", SMALL, ids=lambda p: p.stem)
def test_small_graphs(loops: WorkerPool, path: Path) -> None:
    seed = draws.seed()
    wrong = found_wrong(loops, small(api.read(path)), seed=seed, target="cpu")
    assert not wrong, f"seed {seed}: {wrong}"
