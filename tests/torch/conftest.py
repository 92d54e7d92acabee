"""Tests that need PyTorch; without it each module is skipped before its imports run."""

import sys
from collections.abc import Iterator
from pathlib import Path

import extras
import pytest

LACK = extras.lack("torch")


class _Skipped(pytest.Module):
    def collect(self) -> Iterator[pytest.Item]:  # type: ignore[override]
        pytest.skip(str(LACK), allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    return _Skipped.from_parent(parent, path=module_path) if LACK else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder: ``--extras`` selects them."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(extras.needs("torch"))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """No graphs of earlier tests, neither PyTorch's nor ours."""
    import torch

    import autofuse.clients.torch

    torch._dynamo.reset()
    autofuse.clients.torch.reset()
    seed = torch.seed() % 2**31
    sys.stdout.write(f"torch.manual_seed({seed})\n")
    torch.manual_seed(seed)
