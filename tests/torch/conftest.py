"""These tests need PyTorch: without it they are left out, or everything fails where AUTOFUSE_REQUIRE_TORCH=1."""

import importlib.util
import sys

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None

collect_ignore_glob = [] if HAS_TORCH else ["test_torch_*.py"]


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
