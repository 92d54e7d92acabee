"""Which conversions ``Cast`` does in one call, per architecture, and routes for the others.

Source: the dtype table of Cast in the public Ascend C documentation.  A conversion that the chip lacks goes through
the cheapest chain of those that it has; int8, uint8 and bool only meet half.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

__all__ = ["cast_route"]

_BOTH = {
    ("int8", "float16"),
    ("uint8", "float16"),
    ("bool", "float16"),
    ("float16", "int8"),
    ("float16", "uint8"),
    ("float16", "bool"),
    ("float16", "int32"),
    ("float16", "float32"),
    ("int32", "float32"),
    ("float32", "float16"),
    ("float32", "int32"),
}
_ONE_CALL: dict[str, frozenset[tuple[str, str]]] = {
    "2201": frozenset(
        _BOTH
        | {
            ("int16", "float16"),
            ("int16", "float32"),
            ("float16", "int16"),
            ("float32", "int16"),
            ("bfloat16", "int32"),
            ("bfloat16", "float32"),
            ("float32", "bfloat16"),
            ("int32", "int16"),
            ("int32", "int64"),
            ("int64", "int32"),
            ("int64", "float32"),
            ("float32", "int64"),
        }
    ),
    "2002": frozenset(_BOTH),
}


@lru_cache(maxsize=512)
def cast_route(arch: str, src: str, dst: str) -> tuple[str, ...] | None:
    """Dtypes after ``src`` on the shortest chain of single calls to ``dst``; None if there is none.

    Chains prefer float32 as the step in between, which holds every half and 24-bit integer exactly.
    """
    edges = _ONE_CALL[arch]
    seen = {src: ""}
    queue = deque([src])
    while queue:
        at = queue.popleft()
        if at == dst:
            path: list[str] = []
            while at != src:
                path.append(at)
                at = seen[at]
            return tuple(reversed(path))
        for a, b in sorted(edges, key=lambda e: (e[1] != "float32", e)):
            if a == at and b not in seen:
                seen[b] = at
                queue.append(b)
    return None
