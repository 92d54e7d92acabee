"""Cache of groups that stay the same when one more tensor is cut.

Every cut restarts the grouping.  A group depends only on the tensors that its walks reached: an outcome that did not
reach the newly cut tensor stays valid, whether it is a group or a blocked walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from autofuse.implgraph.lowering.group import Group, Result
from autofuse.implgraph.lowering.walk import BlockedError

__all__ = ["Cuts", "Remembered"]


class Cuts(frozenset[int]):
    """Tensors that come from workspaces.

    Attributes:
        asked: the tensors that were looked up.
    """

    def __init__(self, _: Iterable[int]) -> None:
        self.asked: set[int] = set()

    def __contains__(self, tensor: Any) -> bool:
        self.asked.add(tensor)
        return super().__contains__(tensor)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Outcome for a result: its groups or the point at which its walks were blocked, and the tensors they reached."""

    asked: set[int]
    groups: tuple[Group, ...]
    blocked: BlockedError | None


class Remembered:
    """The groups of single results, kept over all attempts at one graph."""

    def __init__(self) -> None:
        self._known: dict[Result, _Outcome] = {}

    def forget(self, cut: int) -> None:
        """Forget the outcomes that a new cut changes."""
        self._known = {r: o for r, o in self._known.items() if cut not in o.asked}

    def groups(
        self, result: Result, cuts: Cuts, make: Callable[[Result], list[Group]]
    ) -> list[Group]:
        """Return the groups of a single result, as ``make`` forms them with these cuts.

        Raises:
            BlockedError: there are none.
        """
        found = self._known.get(result)
        if found is None:
            cuts.asked = set()
            try:
                found = _Outcome(cuts.asked, tuple(make(result)), None)
            except BlockedError as e:
                found = _Outcome(cuts.asked, (), type(e)(e.tensor, e.reason))
            self._known[result] = found
        if found.blocked is not None:
            # A new error, since it collects the frames of all callers.
            raise type(found.blocked)(found.blocked.tensor, found.blocked.reason)
        return [g.again(cuts) for g in found.groups]
