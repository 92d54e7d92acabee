"""Snapshots that are files of their own, named by the test: generated text is read and compared in them."""

from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

__all__ = ["check"]


class _TextFile(SingleFileSnapshotExtension):
    """A file of its own, with the name that the assertion gives: ``abs_test.kernel.cpp``."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: Any = 0) -> str:
        return str(index)


# One class per ending: syrupy finds snapshots that no test uses by their ending.
_KINDS = {
    ending: type(f"_{ending.capitalize()}File", (_TextFile,), {"file_extension": ending})
    for ending in ("cpp", "h", "json", "py", "sh", "txt")
}


def check(snapshot: SnapshotAssertion, file: str, text: str, hint: str = "") -> None:
    """``text`` is what the snapshot ``file`` holds."""
    base, _, ending = file.rpartition(".")
    expected = snapshot(name=base, extension_class=_KINDS[ending])
    hint = hint and f"; {hint}"
    assert text == expected, f"{file} differs{hint}; if that is on purpose: make snapshots"
