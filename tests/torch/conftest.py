"""Tests that need PyTorch; without it each module is skipped before its imports run."""

from collections.abc import Iterator
from pathlib import Path

import draws
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
def _fresh() -> Iterator[None]:
    """No graphs of earlier tests, neither PyTorch's nor ours; and no op was left to PyTorch because its row failed.

    A row that raises is a mistake of ours, which eager results would hide.
    """
    import torch

    import autofuse.clients.torch

    torch._dynamo.reset()
    autofuse.clients.torch.reset()
    torch.manual_seed(draws.seed())
    yield
    failed = {
        why
        for g in autofuse.clients.torch.report().graphs
        for _, why in g.not_fused
        if "its arguments do not match" in why
    }
    assert not failed, failed
