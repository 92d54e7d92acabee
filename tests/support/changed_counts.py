"""Checks of calls that see other counts than the calls have: every change of one is to be a finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest

from autofuse.codegen.verification import ranges

__all__ = ["change_counts"]


def change_counts(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    change: Callable[[Sequence[Any]], Sequence[Any]],
) -> list[Sequence[Any]]:
    """``name_covers`` and ``name_fits`` of a module get what ``change`` makes of counts; the counts that were seen."""
    seen: list[Sequence[Any]] = []
    covers, fits = (getattr(module, f"{name}_{what}") for what in ("covers", "fits"))

    def changed(counts: Sequence[Any]) -> Sequence[Any]:
        seen.append(counts)
        return change(counts)

    def changed_covers(kernel: Any, s: Any, n: Any, counts: Sequence[Any], extent: Any) -> Any:
        return covers(kernel, s, n, changed(counts), extent)

    def changed_fits(kernel: Any, s: Any, n: Any, counts: Sequence[Any]) -> Any:
        return fits(kernel, s, n, changed(counts))

    monkeypatch.setattr(ranges, f"{name}_covers", changed_covers)
    monkeypatch.setattr(ranges, f"{name}_fits", changed_fits)
    return seen
