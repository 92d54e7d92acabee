"""The extension of PyTorch around a small graph and its gradient; ``make snapshots`` accepts the present one."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from text_snapshots import check

from autofuse import api

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "torch"
SNAPSHOTS = Path(__file__).parent / "__snapshots__" / "test_torch_text"
#: Path in the project -> snapshot.  The headers of all extensions are files of ``host_templates/torch``.
FILES = {
    "csrc/swish_op.h": "swish_op.h",
    "csrc/swish_backward_op.h": "swish_backward_op.h",
    "csrc/swish_ops.cpp": "swish_ops.cpp",
    "csrc/swish_npu.cpp": "swish_npu.cpp",
    "autofuse_swish/__init__.py": "init.py",
    "setup.py": "setup.py",
    "tests/test_swish.py": "its_test.py",
    "pyproject.toml": "pyproject.toml.txt",
}

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")


def test_text(snapshot: SnapshotAssertion) -> None:
    backward = EXAMPLES / "swish_backward.json"
    files = api.build(EXAMPLES / "swish.json", entry="torch", backward=backward).files
    for path, file in FILES.items():
        check(snapshot, file, files[path])


def test_no_file_is_left_over() -> None:
    assert {p.name for p in SNAPSHOTS.iterdir() if p.is_file()} == set(FILES.values())
