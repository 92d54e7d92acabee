"""A cache of its own for every test."""

from pathlib import Path

import pytest


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, empty."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(folder))
    return folder
