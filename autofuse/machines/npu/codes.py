"""Error codes of CANN's runtime, as numbered in its public headers, and their meaning for a caller."""

from __future__ import annotations

from enum import Enum

from autofuse.base.diagnostics import AutofuseError

__all__ = ["ALREADY_INITIALISED", "CODES", "AclError", "Kind"]


class Kind(Enum):
    """Kind of a failed call, by its consequence for the chip."""

    TIMEOUT = "timeout"
    LOST = "device lost"
    MEMORY = "out of memory"
    KERNEL = "kernel stopped"
    OTHER = "failed"


_HINTS = {
    Kind.TIMEOUT: "the kernel timed out and may hang; end this process before using the chip again",
    Kind.LOST: "the chip does not respond: check `npu-smi info`, and restart in a new process",
    Kind.MEMORY: "the chip is out of memory: use smaller shapes, or end other processes on it (`npu-smi info`)",
    Kind.KERNEL: "the kernel broke a rule of the chip; `autofuse run DIR --check all` may show which on the CPU twin",
    Kind.OTHER: "see CANN's log: plog files in ~/ascend/log, or ASCEND_SLOG_PRINT_TO_STDOUT=1",
}

#: Result of ``aclInit`` if it was called before.
ALREADY_INITIALISED = 100002

#: Number -> name without the common prefix, and kind.
CODES: dict[int, tuple[str, Kind]] = {
    100000: ("ACL_ERROR_INVALID_PARAM", Kind.OTHER),
    100001: ("ACL_ERROR_UNINITIALIZE", Kind.OTHER),
    100002: ("ACL_ERROR_REPEAT_INITIALIZE", Kind.OTHER),
    100039: ("ACL_ERROR_REPEAT_FINALIZE", Kind.OTHER),
    107000: ("ACL_ERROR_RT_PARAM_INVALID", Kind.OTHER),
    107001: ("ACL_ERROR_RT_INVALID_DEVICEID", Kind.OTHER),
    107002: ("ACL_ERROR_RT_CONTEXT_NULL", Kind.OTHER),
    107003: ("ACL_ERROR_RT_STREAM_CONTEXT", Kind.OTHER),
    107006: ("ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID", Kind.OTHER),
    107007: ("ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL", Kind.OTHER),
    107008: ("ACL_ERROR_RT_ADDR_UNALIGNED", Kind.OTHER),
    107017: ("ACL_ERROR_RT_INVALID_HANDLE", Kind.OTHER),
    107019: ("ACL_ERROR_RT_WAIT_TIMEOUT", Kind.TIMEOUT),
    107020: ("ACL_ERROR_RT_TASK_TIMEOUT", Kind.TIMEOUT),
    107022: ("ACL_ERROR_RT_DEVICE_TASK_ABORT", Kind.LOST),
    107023: ("ACL_ERROR_RT_STREAM_ABORT", Kind.LOST),
    200000: ("ACL_ERROR_BAD_ALLOC", Kind.MEMORY),
    200001: ("ACL_ERROR_API_NOT_SUPPORT", Kind.OTHER),
    200002: ("ACL_ERROR_INVALID_DEVICE", Kind.OTHER),
    207000: ("ACL_ERROR_RT_FEATURE_NOT_SUPPORT", Kind.OTHER),
    207001: ("ACL_ERROR_RT_MEMORY_ALLOCATION", Kind.MEMORY),
    207002: ("ACL_ERROR_RT_MEMORY_FREE", Kind.OTHER),
    207004: ("ACL_ERROR_RT_NO_DEVICE", Kind.OTHER),
    207005: ("ACL_ERROR_RT_RESOURCE_ALLOC_FAIL", Kind.OTHER),
    207006: ("ACL_ERROR_RT_NO_PERMISSION", Kind.OTHER),
    207018: ("ACL_ERROR_RT_DEVICE_OOM", Kind.MEMORY),
    300000: ("ACL_ERROR_STORAGE_OVER_LIMIT", Kind.MEMORY),
    500000: ("ACL_ERROR_INTERNAL_ERROR", Kind.OTHER),
    500001: ("ACL_ERROR_FAILURE", Kind.OTHER),
    507000: ("ACL_ERROR_RT_INTERNAL_ERROR", Kind.OTHER),
    507001: ("ACL_ERROR_RT_TS_ERROR", Kind.LOST),
    507008: ("ACL_ERROR_RT_SOC_VERSION", Kind.OTHER),
    507010: ("ACL_ERROR_RT_LOST_HEARTBEAT", Kind.LOST),
    507012: ("ACL_ERROR_RT_REPORT_TIMEOUT", Kind.TIMEOUT),
    507014: ("ACL_ERROR_RT_AICORE_TIMEOUT", Kind.TIMEOUT),
    507015: ("ACL_ERROR_RT_AICORE_EXCEPTION", Kind.KERNEL),
    507016: ("ACL_ERROR_RT_AICORE_TRAP_EXCEPTION", Kind.KERNEL),
    507033: ("ACL_ERROR_RT_DEV_SETUP_ERROR", Kind.LOST),
    507034: ("ACL_ERROR_RT_VECTOR_CORE_TIMEOUT", Kind.TIMEOUT),
    507035: ("ACL_ERROR_RT_VECTOR_CORE_EXCEPTION", Kind.KERNEL),
    507036: ("ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION", Kind.KERNEL),
    507042: ("ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW", Kind.KERNEL),
    507043: ("ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW", Kind.KERNEL),
    507044: ("ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW", Kind.KERNEL),
    507045: ("ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW", Kind.KERNEL),
    507046: ("ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", Kind.TIMEOUT),
    507047: ("ACL_ERROR_RT_EVENT_SYNC_TIMEOUT", Kind.TIMEOUT),
    507053: ("ACL_ERROR_RT_DEVICE_MEM_ERROR", Kind.LOST),
    507054: ("ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR", Kind.LOST),
    507899: ("ACL_ERROR_RT_DRV_INTERNAL_ERROR", Kind.LOST),
    507901: ("ACL_ERROR_RT_SOCKET_CLOSE", Kind.LOST),
}


class AclError(AutofuseError):
    """AF5012: a call of the runtime returned an error.

    Attributes:
        function: the call.
        code: its return value.
        name: the name of the code; empty for one that is not known.
        kind: the consequence for the chip.
    """

    function: str
    code: int
    name: str
    kind: Kind

    @classmethod
    def make(cls, function: str, code: int, said: str = "") -> AclError:
        """Make the error of a call.

        Args:
            function: the call.
            code: its return value.
            said: the runtime's own error text.
        """
        name, kind = CODES.get(code, ("", Kind.OTHER))
        notes = [f"CANN says: {line}" for line in said.splitlines()[:_LINES] if line.strip()]
        text = f"{kind.value}: {function} returned {code}{f' ({name})' if name else ''}"
        error = cls(AutofuseError.of("AF5012", text, hint=_HINTS[kind], notes=notes).diagnostics)
        error.function, error.code, error.name, error.kind = function, code, name, kind
        return error


_LINES = 6
