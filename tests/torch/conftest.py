"""These tests need PyTorch: without it they are skipped, or fail where AUTOFUSE_REQUIRE_TORCH=1 says they must run."""

import importlib.util
import os
import sys

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
REQUIRED = os.environ.get("AUTOFUSE_REQUIRE_TORCH") == "1"

collect_ignore_glob = [] if HAS_TORCH else ["test_torch_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    if REQUIRED and not HAS_TORCH:
        raise pytest.UsageError("AUTOFUSE_REQUIRE_TORCH=1, but PyTorch is not installed")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """No graphs of earlier tests, neither PyTorch's nor ours."""
    if HAS_TORCH:
        import torch

        import autofuse.torch

        torch._dynamo.reset()
        autofuse.torch.reset()
        seed = torch.seed() % 2**31
        sys.stdout.write(f"torch.manual_seed({seed})\n")
        torch.manual_seed(seed)
