"""Checks of calls that see other counts than the calls have: every change of one is to be a finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.functions.definition import Proof

__all__ = ["change_counts"]


def change_counts(
    monkeypatch: pytest.MonkeyPatch,
    names: Sequence[str],
    change: Callable[[Sequence[Any]], Sequence[Any]],
) -> list[Sequence[Any]]:
    """The proofs of device functions get what ``change`` makes of counts; the counts that were seen."""
    seen: list[Sequence[Any]] = []

    def changed(counts: Sequence[Any]) -> Sequence[Any]:
        seen.append(counts)
        return change(counts)

    for name in names:
        f = FUNCTIONS[name]

        def covers(p: Proof, f: Any = f) -> Any:
            return f.covers(replace(p, counts=changed(p.counts)))

        def fits(p: Proof, f: Any = f) -> Any:
            return f.fits(replace(p, counts=changed(p.counts)))

        monkeypatch.setitem(FUNCTIONS, name, replace(f, covers=covers, fits=fits))
    return seen
