"""Cost model figures of a chip, beyond those of :class:`~autofuse.targets.spec.TargetSpec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields

__all__ = ["UNITS", "CostTable"]


@dataclass(frozen=True, slots=True)
class CostTable:
    """Figures of the table ``model`` of a target file.  Cycles are those of the vector core's clock.

    Attributes:
        core_start: cycles that every further core adds to the start of a kernel.
        tiling_load: cycles to read tiling data from GM, for the entry that keeps them there.
        load_issue, store_issue: cycles per DMA command beside its bytes, even if others are queued.
        load_latency: cycles from a load to its first byte, if not overlapped.
        dims_issue, dims_rate: cycles of a load with several dimensions beside its bytes, and bytes per cycle; absent
            for architectures without such loads.
        row: cycles of one row of a strided copy beside its bytes.
        short_row: bytes charged for a row of less than 32 bytes.
        load_core_rate, hot_core_rate, store_core_rate: most bytes per cycle that one core reads from memory, reads from
            L2, and writes.
        read_gbs: 1e9 B/s that all cores together read from memory.
        l2_read_gbs: the same from L2, if each core reads its own data.
        shared_gbs, same_order_gbs: the same if all cores read one tensor, each starting at a different place, or all at
            the same place.
        write_gbs: the same for writes that stay in L2.
        writeback_gbs: the same for write-backs from L2 to memory.
        conflict_sources, conflict_result: factors on the elements of a vector call if its two operands, or an operand
            and its result, have a bank conflict in UB.
        vector_gap: cycles between two dependent vector calls.
        vector_issue: vector instructions that run concurrently.
        vector_fused: 1 if a chain of calls in one loop body is one call on registers, with one head.
        loop: scalar-unit cycles per loop iteration.
        scalar_read: cycles to read one UB element into a scalar register.
    """

    core_start: float
    tiling_load: float
    load_issue: float
    store_issue: float
    load_latency: float
    row: float
    short_row: float
    load_core_rate: float
    hot_core_rate: float
    store_core_rate: float
    read_gbs: float
    l2_read_gbs: float
    shared_gbs: float
    same_order_gbs: float
    write_gbs: float
    writeback_gbs: float
    conflict_sources: float
    conflict_result: float
    vector_gap: float
    vector_issue: float
    vector_fused: float
    loop: float
    scalar_read: float
    dims_issue: float = 0.0
    dims_rate: float = 0.0

    @classmethod
    def read(cls, values: Mapping[str, float]) -> CostTable:
        """Return the table of a target file.

        Raises:
            ValueError: a figure is missing, unknown, or not positive where it must be.
        """
        names = {f.name for f in fields(cls)}
        needed = {f.name for f in fields(cls) if f.default is MISSING}
        if not needed <= values.keys() <= names:
            odd = ", ".join(sorted((needed - values.keys()) | (values.keys() - names)))
            raise ValueError(f"table model: missing or unknown {odd}")
        for name, value in values.items():
            least = 0.0 if UNITS[name] == "cycles" or name == "vector_fused" else 1e-9
            if not least <= value < float("inf"):
                raise ValueError(f"table model: {name} is {value}")
        return cls(**{k: float(v) for k, v in values.items()})


#: Unit of every figure.
UNITS: Mapping[str, str] = {
    "core_start": "cycles",
    "tiling_load": "cycles",
    "load_issue": "cycles",
    "store_issue": "cycles",
    "load_latency": "cycles",
    "row": "cycles",
    "short_row": "B",
    "load_core_rate": "B/cycle",
    "hot_core_rate": "B/cycle",
    "store_core_rate": "B/cycle",
    "read_gbs": "GB/s",
    "l2_read_gbs": "GB/s",
    "shared_gbs": "GB/s",
    "same_order_gbs": "GB/s",
    "write_gbs": "GB/s",
    "writeback_gbs": "GB/s",
    "conflict_sources": "",
    "conflict_result": "",
    "vector_gap": "cycles",
    "vector_issue": "",
    "vector_fused": "",
    "loop": "cycles",
    "scalar_read": "cycles",
    "dims_issue": "cycles",
    "dims_rate": "B/cycle",
}
