"""Vector calls as functions on registers: which exist, the elements they cover, and the registers they need."""

from __future__ import annotations

from collections.abc import Sequence

from autofuse.codegen.ir.calls import Call, Count, EnumArg, LocalArg
from autofuse.implgraph.expr.expression import CeilDiv, Expr, align_up
from autofuse.implgraph.ir.dtypes import DType
from autofuse.targets import Architecture

__all__ = [
    "BITWISE",
    "WHOLE",
    "cast_mode",
    "constants",
    "in_registers",
    "registers_needed",
    "stated_count",
]

#: Bitwise operations: on data they count in units of 16 bits, on masks in units of 16 elements.
BITWISE = frozenset({"And", "Or", "Not"})
#: Calls with a count rounded up to whole repeats.
WHOLE = frozenset({"Compare", "CompareScalar", "Select"})


def in_registers(s: Call, dtypes: dict[str, DType], arch: Architecture) -> bool:
    """Return True if a call with tensors of these dtypes has a function on registers."""
    if not s.args or not isinstance(s.args[-1], Count) or len(s.writes) != 1:
        return False
    of = [dtypes.get(a.local) for a in s.args if isinstance(a, LocalArg)]
    known = [d for d in of if d is not None]
    if len(known) < len(of) or any([d.itemsize > 4 for d in known]):
        return False
    if s.api == "Cast":
        return _has_cast(known[1], known[0], cast_mode(s), arch)
    data = [d for d in known if d.kind != "m"]
    if not data:
        return s.api in BITWISE
    if any([d is not data[0] for d in data]):
        return False
    return arch.takes_in_registers(s.api, data[0].name)


def _has_cast(source: DType, result: DType, mode: str, arch: Architecture) -> bool:
    if source is result:
        return mode != "NONE" and arch.takes_in_registers("Truncate", source.name)
    return (source.name, result.name, mode) in arch.register_casts


def cast_mode(s: Call) -> str:
    """Return the round mode of a cast."""
    (mode,) = [a.text for a in s.args if isinstance(a, EnumArg)]
    return mode.rpartition("_")[2]


def constants(calls: Sequence[Call]) -> int:
    """Return the number of registers filled before the loop: constants, and scalars that need a register."""
    other = [s for s in calls if s.api == "Select" and not isinstance(s.args[3], LocalArg)]
    return len(other) + len([s for s in calls if s.api == "Duplicate"])


def registers_needed(calls: Sequence[Call], dtypes: dict[str, DType]) -> tuple[int, int]:
    """Return how many vector and mask registers are live at once, with constants and the mask of the loop."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    whole: set[str] = set()
    for k, s in enumerate(calls):
        for x in (*s.reads, *s.writes):
            first.setdefault(x, k)
            last[x] = k
        if s.api == "Duplicate":
            whole |= {*s.writes}
    most = [0, 0]
    for k in range(len(calls)):
        live = [x for x in first if first[x] <= k <= last[x] and x not in whole]
        masks = len([x for x in live if dtypes[x].kind == "m"])
        most = [max(most[0], len(live) - masks), max(most[1], masks)]
    return most[0] + constants(calls), most[1] + 1


def stated_count(s: Call, count: Expr, dtypes: dict[str, DType], arch: Architecture) -> Expr:
    """Return the count that a call states to cover ``count`` elements."""
    of = [dtypes[a.local] for a in s.args if isinstance(a, LocalArg)]
    data = [d for d in of if d.kind != "m"]
    if not data:
        bits = 8 * arch.block_bytes
        return CeilDiv(count, bits) * (bits // 16)
    if s.api in BITWISE:
        return count * (data[0].itemsize // 2)
    return align_up(count, arch.vector_bytes // data[0].itemsize) if s.api in WHOLE else count
