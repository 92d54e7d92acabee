"""Tests that must run do: what is missing for them is an error, not a silence."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_run_without_pytorch_fails_where_pytorch_is_required(repo: Path, tmp_path: Path) -> None:
    """Whatever of the tests is asked for: the folder with those of PyTorch is read late."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "AUTOFUSE_REQUIRE_TORCH": "1"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:xdist",
            "tests/unit/twin",
        ],
        cwd=repo,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "AUTOFUSE_REQUIRE_TORCH=1, but PyTorch is not installed" in done.stderr + done.stdout
