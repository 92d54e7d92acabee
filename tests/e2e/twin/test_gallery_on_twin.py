"""Every graph of the gallery agrees with NumPy on the twin, at several sizes, in checked mode."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.twin

GALLERY = Path(__file__).resolve().parents[3] / "examples" / "gallery"


@pytest.mark.parametrize("path", sorted(GALLERY.glob("*.json")), ids=lambda p: p.stem)
def test_the_graph_verifies(autofuse: Callable, path: Path) -> None:
    done = autofuse("verify", path, "--check", "all", "--json")
    assert done.code == 0, done.out + done.err
    (found,) = done.json()["result"]["graphs"]
    assert found["state"] == "passed"
    assert len(found["shapes"]) >= 3, "the sizes are symbolic: several are tried"
