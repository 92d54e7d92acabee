"""Modelled costs of rows in registers and of the same calls on UB; calls that are cheaper stay calls.

A row that is not a whole number of registers wastes lanes of its last one, whereas a call covers all rows at once.  The
cost of calls is a lower bound: it assumes as many rows per tile as fit, so that instruction heads matter little.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from autofuse.codegen.functions import FUNCTIONS
from autofuse.codegen.ir.calls import Call, RowLoop, RowStep
from autofuse.codegen.passes.row_calls import RowCalls, row_operation
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ops.registry import all_ops
from autofuse.schedule.cost.cost import Call as Cost
from autofuse.schedule.cost.cost import call_cycles
from autofuse.targets import TargetSpec

__all__ = ["PORTS", "calls_take", "kinds_of_calls", "rows_take"]

#: UB cycles per register: two loads issue together, or a load with a store.
PORTS = {"load": 0.5, "store": 1.0}
#: Rows of the vector table for steps that are not calls.
_STEPS = {
    "start": "duplicate",
    "fill": "select",
    "join": "binary",
    "reduce": "reduce",
    "spread": "duplicate",
}


@cache
def kinds_of_calls() -> dict[str, str]:
    """Map calls of Ascend C to rows of a target's vector table."""
    found: dict[str, str] = {}
    for row in all_ops():
        call = row.call
        if call is not None and call.api not in FUNCTIONS and row.cost != "none":
            found.setdefault(call.api, row.cost)
    return found


def _kind(s: Call) -> str:
    if s.api == "Reduce":
        return "block_reduce"
    if s.api == "Broadcast":
        return "broadcast"
    name = row_operation(s)[0] if s.api == "WithRows" else s.api
    return kinds_of_calls().get(name, "unary")


def _cycles(kind: str, count: float, bits: int, chip: TargetSpec) -> float:
    return call_cycles(Cost(kind, count, bits), chip)[1]


def _head(rows: float, chip: TargetSpec) -> float:
    """Return a row's share of an instruction's head, and of the gap before it."""
    return (chip.vector["unary"].head + chip.model.vector_gap) / max(rows, 1)


def rows_take(
    steps: Sequence[RowStep | RowLoop], calls: Sequence[Call], rows: float, chip: TargetSpec
) -> float:
    """Return the cycles of a row in registers: the larger of its serial operations, and its loads and stores.

    Args:
        steps: steps of a row.
        calls: calls that the steps belong to.
        rows: most rows of a tile.
        chip: target.
    """
    lanes = chip.arch.vector_bytes // 4
    work = ports = 0.0
    for s in steps:
        times, here = (s.times, s.steps) if isinstance(s, RowLoop) else (1, (s,))
        for x in here:
            if x.op in PORTS:
                ports += times * PORTS[x.op]
            elif x.op in ("stores_wait", "loads_wait"):
                work += times * chip.model.vector_gap
            else:
                kind = _STEPS[x.op] if x.op in _STEPS else _kind(calls[x.call])
                work += times * _cycles(kind, lanes, 32, chip)
    return max(work, ports) + _head(rows, chip)


def calls_take(
    r: RowCalls,
    calls: Sequence[Call],
    stores: Sequence[str],
    dtypes: dict[str, DType],
    rows: float,
    chip: TargetSpec,
) -> float:
    """Return a lower bound of a row's cycles for calls on UB; adjacent ones on the same elements are one function.

    Args:
        r: how the calls relate to rows.
        calls: calls, in order.
        stores: results needed later.
        dtypes: dtypes of all tensors.
        rows: most rows of a tile.
        chip: target.
    """
    found, before = 0.0, ""
    for s in calls:
        tensors = [s.writes[0], *s.reads]
        if s.writes[0] in r.shared:
            continue
        bits = max([8 * dtypes[x].itemsize for x in tensors if dtypes[x].kind != "m"], default=8)
        wide = any([x in r.full for x in tensors])
        found += _cycles(_kind(s), r.pitch if wide else 1, bits, chip)
        now = s.api if s.api in FUNCTIONS else "wide" if wide else "single"
        if now not in FUNCTIONS:
            found += _head(rows, chip) * (now != before)
        else:
            found += _beside(s, r, bits, rows, chip)
        before = now
    # They load external inputs, and store results that are needed later.
    made = {s.writes[0] for s in calls} | r.constants
    loaded = {x for s in calls for x in s.reads if x in r.full} - made
    size = max(dtypes[x].itemsize for x in r.full if dtypes[x].kind != "m")
    registers = r.pitch * size / chip.arch.vector_bytes
    ports = PORTS["load"] * len(loaded) + PORTS["store"] * len(r.full.intersection(stores))
    return max(found, ports * registers + _head(rows, chip))


def _beside(s: Call, r: RowCalls, bits: int, rows: float, chip: TargetSpec) -> float:
    """Return the extra cost of a function of ``device_templates/``, over one pass over the row."""
    block, lanes = 8 * chip.arch.block_bytes // bits, 8 * chip.arch.vector_bytes // bits
    most = chip.arch.repeats_max

    def heads(elements: int) -> float:
        """Return the head cycles of instructions that cover 256 bytes of each row, or one row at a time."""
        registers = -(-elements // lanes)
        return _head(1, chip) * min(registers / min(rows, most), -(-registers // most))

    if s.form == "Outer":
        return _head(rows, chip)
    if s.api != "Reduce":
        # The row's element is broadcast to a block, and the blocks are operands of the computation.
        return _cycles("broadcast", block, bits, chip) + heads(r.pitch)
    # Reduce blocks to elements repeatedly.
    found, left = heads(r.length), -(-r.length // block)
    while left > 1:
        found += _cycles("block_reduce", left, bits, chip) + heads(left)
        left = -(-left // block)
    return found
