"""The functions of ``device_templates/``, by the name that rows of the op registry call them by."""

from __future__ import annotations

from autofuse.codegen.functions.broadcasts import BROADCAST
from autofuse.codegen.functions.definition import DeviceFunction
from autofuse.codegen.functions.laces import LACE, PLACES
from autofuse.codegen.functions.picks import OFFSETS, PICK
from autofuse.codegen.functions.reductions import REDUCE
from autofuse.codegen.functions.row_operands import WITH_ROWS
from autofuse.codegen.functions.scans import SCAN_ROWS
from autofuse.codegen.functions.stacks import STACK_ROWS
from autofuse.codegen.functions.transpositions import TRANSPOSE_ROWS
from autofuse.codegen.ir.kernel_ir import Call, Phases

__all__ = ["FUNCTIONS", "phases"]

_WORDS = DeviceFunction("words")

FUNCTIONS: dict[str, DeviceFunction] = {
    "Broadcast": BROADCAST,
    "WithRows": WITH_ROWS,
    "Reduce": REDUCE,
    "TransposeRows": TRANSPOSE_ROWS,
    "Scan": SCAN_ROWS,
    **dict.fromkeys(("PickByMask", "PickAhead", "PickBack"), PICK),
    **dict.fromkeys(("PickOffsets", "PairOffsets"), OFFSETS),
    **dict.fromkeys(("Lace", "Unlace", "UnlaceByMask"), LACE),
    "LaceOffsets": PLACES,
    "StackRows": STACK_ROWS,
    **dict.fromkeys(("LowWords", "HighWords", "JoinWords"), _WORDS),
}


def phases(s: Call) -> Phases:
    """What a call reads and writes, in parts between which it has a barrier of the vector pipe itself."""
    f = FUNCTIONS.get(s.api)
    return ((s.reads, s.writes),) if f is None else f.phases(s)
