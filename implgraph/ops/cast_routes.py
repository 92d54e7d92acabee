"""Routes for conversions that the ``Cast`` of an architecture cannot do in one call.

A route is the cheapest chain of supported casts; int8, uint8 and bool convert only to and from half.  An intermediate
type holds every value of one of the two ends.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from autofuse.targets import Architecture

__all__ = ["cast_route"]


_BYTES = frozenset({"bool", "int8", "uint8"})
#: Narrow intermediate type -> the ends between which it is lossless.
_BETWEEN = {"float16": _BYTES, "int16": _BYTES, **dict.fromkeys(_BYTES, frozenset[str]())}


@lru_cache(maxsize=512)
def cast_route(arch: Architecture, src: str, dst: str) -> tuple[str, ...] | None:
    """Return the dtypes after ``src`` on the shortest chain of single calls to ``dst``, or None if no chain exists.

    Chains prefer float32 as the intermediate type, which holds every half and 24-bit integer exactly.
    """
    seen = {src: ""}
    queue = deque([src])
    while queue:
        at = queue.popleft()
        if at not in (src, dst) and not _BETWEEN.get(at, {src}) & {src, dst}:
            continue
        if at == dst:
            path: list[str] = []
            while at != src:
                path.append(at)
                at = seen[at]
            return tuple(reversed(path))
        for a, b in sorted(arch.casts, key=lambda e: (e[1] != "float32", e)):
            if a == at and b not in seen:
                seen[b] = at
                queue.append(b)
    return None
