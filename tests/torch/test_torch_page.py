"""The Python of docs/torch.md works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FENCE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.mark.twin
def test_page(repo: Path, tmp_path: Path) -> None:
    blocks = FENCE.findall((repo / "docs" / "torch.md").read_text(encoding="utf-8"))
    assert len(blocks) == 2
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path,
        capture_output=True,
        # A graph from Inductor's cache has no report.
        env=os.environ | {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "forward 1 for cpu: " in done.stdout
    assert "not fused: aten.addmm: matrix multiplication" in done.stdout


def test_every_option_is_on_the_page(repo: Path) -> None:
    from dataclasses import fields

    from autofuse.clients.torch import Options

    text = (repo / "docs" / "torch.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", text, re.M)
    assert [name for name, _ in rows] == [f.name for f in fields(Options)]
    for (_, shown), f in zip(rows, fields(Options), strict=True):
        assert shown.strip("`") == (str(f.default) or "empty")
