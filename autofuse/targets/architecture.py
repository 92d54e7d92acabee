"""Properties of an architecture that plans and kernels depend on: limits, calls and casts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autofuse.targets.figures import Figure, figure, made, parsed, read_dtypes, read_figures

__all__ = ["Architecture", "read_architecture"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """The cores of a chip.

    Attributes:
        name: 2002, 2201, 3510.
        npu_arch: value of the compiler's ``--npu-arch``.
        family: name of the product line, as CMake presets have it.
        has_datacopypad: False if only whole blocks can be moved.
        has_l2_hint: whether a GlobalTensor can bypass L2 (SetL2CacheHint).
        zero_is_nothing: whether a vector call with zero elements, or zero repeats, does nothing.
        has_card_headers: whether there are headers that implement its calls for NVIDIA cards.
        block_bytes: bytes of a block, to which addresses in UB are aligned.
        vector_bytes: bytes of one repeat of a vector instruction.
        repeats_max: repeats of one instruction.
        ub_bank_groups: groups of banks of UB, each as wide as a block.
        ub_bank_bytes: bytes of UB after which the next bank of a group begins.
        cache_line_bytes: granularity of GM accesses, in bytes.
        event_ids: number of event ids per kind of event between two pipes.
        queue_buffers_per_position: buffers of all queues in one TPosition.
        buffers_total: buffers of one TPipe.
        dma_block_count_max: most rows of a DMA command.
        dma_block_len_max: most bytes of such a row.
        dma_blocks_max: most blocks of a row, and between two rows, of a command that moves whole blocks.
        dma_gap_max: largest gap between two rows, in bytes of GM or blocks of UB.
        dma_dims: dimensions of a load with separate strides in GM and in UB; 0: there is no such load.
        dma_dim_max: most elements along one of them, and largest stride in UB.
        dma_dim_stride_max: largest stride in GM, in elements.
        cores_max: most cores of a launch.
        vector_registers: registers of ``vector_bytes`` bytes that generated functions can use; 0: none.
        mask_registers: mask registers, with one bit per byte of a vector register.
        control_register: bits of the control register at kernel start; 0: results do not depend on it.
        calls: op -> dtypes that its call takes, if fewer than in the op's row; empty: there is no such call.
        casts: (source, result) dtypes of a single ``Cast``.
        modes: the round modes of each, with source and result; a call with another mode does nothing on the chip.
        lacks: functions of the vendor's interface that compile but do nothing on the chip.
        since: function -> the first CANN release that has it, if known and if kernels may need it.
        register_calls: register function -> dtypes that it takes.
        register_casts: (source, result, round mode) of casts on registers.
        register_saturates: (source, result) of register casts that can saturate.
        flushes: functions that flush subnormal operands and results to zero.
    """

    name: str
    npu_arch: str
    family: str
    has_datacopypad: bool
    has_l2_hint: bool
    zero_is_nothing: bool
    has_card_headers: bool
    block_bytes: int
    vector_bytes: int
    repeats_max: int
    ub_bank_groups: int
    ub_bank_bytes: int
    cache_line_bytes: int
    event_ids: int
    queue_buffers_per_position: int
    buffers_total: int
    dma_block_count_max: int
    dma_block_len_max: int
    dma_blocks_max: int
    dma_gap_max: int
    dma_dims: int
    dma_dim_max: int
    dma_dim_stride_max: int
    cores_max: int
    vector_registers: int
    mask_registers: int
    control_register: int
    calls: tuple[tuple[str, frozenset[str]], ...]
    casts: frozenset[tuple[str, str]]
    modes: frozenset[tuple[str, str, str]]
    lacks: frozenset[str]
    since: tuple[tuple[str, str], ...]
    register_calls: tuple[tuple[str, frozenset[str]], ...]
    register_casts: frozenset[tuple[str, str, str]]
    register_saturates: frozenset[tuple[str, str]]
    flushes: frozenset[str]
    figures: tuple[Figure, ...]

    def takes_in_registers(self, call: str, dtype: str) -> bool:
        """Return True if a register function takes elements of a dtype."""
        return any(name == call and dtype in found for name, found in self.register_calls)

    @property
    def meets_in_hardware(self) -> bool:
        """True if ``SyncAll()`` is a barrier of all cores; else kernels use its form with a workspace in GM."""
        return "SyncAll()" not in self.lacks

    @property
    def bank_period(self) -> int:
        """Bytes after which the bank groups repeat: addresses that differ by a multiple share a group."""
        return self.ub_bank_groups * self.block_bytes

    @property
    def bank_halves(self) -> bool:
        """True if two operands of a vector call can lie in disjoint groups of banks."""
        return self.bank_period >= 2 * self.vector_bytes

    def __hash__(self) -> int:
        return hash(self.name)


@lru_cache(maxsize=16)
def read_architecture(text: str) -> Architecture:
    """Return the architecture of a base file.

    Raises:
        ValueError: a figure is missing or unknown, or lacks its status or its source.
    """
    doc = parsed(text)
    limits = tuple(read_figures(doc["limits"]))
    calls, casts = doc.get("calls", {}), doc.get("casts", {})
    values: dict[str, object] = {
        "vector_registers": 0,
        "mask_registers": 0,
        "control_register": 0,
        "dma_dims": 0,
        "dma_dim_max": 0,
        "dma_dim_stride_max": 0,
        "has_card_headers": False,
    }
    values |= {**doc["architecture"], **{f.name: f.value for f in limits}}
    values["calls"] = _dtypes_of(calls)
    values["modes"] = _modes_of(casts)
    values["casts"] = frozenset((x, y) for x, row in casts.items() for y in row["dtypes"] if x != y)
    on_registers, of_registers = doc.get("register_calls", {}), doc.get("register_casts", {})
    values["register_calls"] = _dtypes_of(on_registers)
    modes = _modes_of(of_registers)
    values["register_casts"] = frozenset(m for m in modes if m[2] != _SATURATES)
    values["register_saturates"] = frozenset((x, y) for x, y, mode in modes if mode == _SATURATES)
    apis = doc.get("apis", {})
    lacks = frozenset(name for name, row in apis.items() if row.get("lacks"))
    padded = frozenset() if values["has_datacopypad"] else frozenset({"DataCopyPad"})
    values["lacks"] = lacks | padded
    values["since"] = tuple((name, row["since"]) for name, row in apis.items() if "since" in row)
    values["flushes"] = frozenset(name for name, row in apis.items() if row.get("flushes"))
    texts = {name: _said(row) for name, row in apis.items()}
    values["figures"] = (
        *limits,
        *read_dtypes(calls, "calls."),
        *read_dtypes(casts, "casts."),
        *read_dtypes(on_registers, "register_calls."),
        *read_dtypes(of_registers, "register_casts."),
        *(
            figure(f"apis.{name}", text, "" if apis[name].get("flushes") else "CANN", apis[name])
            for name, text in texts.items()
        ),
    )
    return made(Architecture, values, f"architecture {values['name']}")


#: Entry among the modes of a cast that can saturate.
_SATURATES = "SAT"


def _dtypes_of(rows: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple((name, frozenset(row["dtypes"])) for name, row in rows.items())


def _modes_of(rows: Mapping[str, Mapping[str, Any]]) -> frozenset[tuple[str, str, str]]:
    pairs = ((x, y, m) for x, row in rows.items() for y, m in row["dtypes"].items())
    return frozenset((x, y, mode) for x, y, names in pairs for mode in names.split())


def _said(row: Mapping[str, Any]) -> str:
    """Return the row of a function as the text of a figure."""
    if row.get("flushes"):
        return "flushes subnormal numbers"
    return str(row.get("since") or "none")
