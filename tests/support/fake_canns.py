"""The fake CANN of the tests of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class FakeCann:
    """A folder that is laid out like CANN.

    Attributes:
        root: the folder, what ASCEND_HOME_PATH is to be.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: dict[str, Any] | None = None

    def make(self, **options: Any) -> None:
        """Write the folder, again where it is another than before.

        Args:
            options: of ``fake_cann.layout.Options``, such as ``fail=("timeout:add",)``.
        """
        from fake_cann.layout import Options, make

        if options != self._made:
            make(self.root, Options(**options))
            self._made = options

    def figures(self, target: str = "ascend910b2") -> dict[str, float]:
        """What the times of a chip are made of: the figures that a calibration has to find."""
        from fake_cann.figures import read_figures

        return read_figures((self.root / "figures" / f"{target}.toml").read_text(encoding="utf-8"))
