"""Report of the fused ops, the unfused ones, and the reasons."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autofuse.base.wording import counted

__all__ = ["FusedKernel", "GraphReport", "Report", "record", "report", "reset"]

#: Maximum number of graphs kept in a process.
_KEPT = 256
#: Maximum number of ops listed for a kernel.
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """A region with a kernel.

    Attributes:
        name: name of the kernel.
        ops: PyTorch's ops in it, in order.
        kernels: number of kernels it was split into.
        symbols: sizes known only at run time, as ``PyTorch's name -> the kernel's``.
        bytes: bytes moved by the kernel according to the model, at the sizes of the first call; None if unknown.
        bytes_apart: bytes that the ops would read and write one by one.
        why: reason to take the region; empty where every one is taken.
    """

    name: str
    ops: tuple[str, ...]
    kernels: int
    symbols: Mapping[str, str]
    bytes: int | None
    bytes_apart: int
    why: str = ""


@dataclass(slots=True)
class GraphReport:
    """One compiled graph.

    Attributes:
        name: ``forward`` or ``backward`` or ``inference``, and a number.
        target: the chip.
        fused: its kernels.
        not_fused: (op, reason) -> count.
        at_run_time: reasons for which kernels refused calls, which PyTorch then ran.
    """

    name: str
    target: str
    fused: tuple[FusedKernel, ...]
    not_fused: Counter[tuple[str, str]]
    at_run_time: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The report, ready for JSON."""
        return {
            "graph": self.name,
            "target": self.target,
            "fused": [
                {
                    "kernel": k.name,
                    "ops": list(k.ops),
                    "kernels": k.kernels,
                    "symbols": dict(k.symbols),
                    "bytes": k.bytes,
                    "bytesApart": k.bytes_apart,
                    "why": k.why,
                }
                for k in self.fused
            ],
            "notFused": [
                {"op": op, "reason": why, "count": n}
                for (op, why), n in sorted(self.not_fused.items())
            ],
            "refusedAtRunTime": list(self.at_run_time),
        }

    def __str__(self) -> str:
        ops = sum(len(k.ops) for k in self.fused)
        left = sum(self.not_fused.values())
        lines = [
            f"{self.name} for {self.target}: {counted(ops, 'op')} in "
            f"{counted(len(self.fused), 'kernel')}, {left} with PyTorch"
        ]
        for k in self.fused:
            lines.append(f"  fused: {k.name}: {_listed(k.ops)}")
            if k.kernels > 1:
                lines.append(f"    cut into {counted(k.kernels, 'kernel')}, which run in sequence")
            if k.symbols:
                named = ", ".join(f"{n} ({ours})" for n, ours in k.symbols.items())
                lines.append(f"    sizes at run time: {named}")
            if k.why:
                lines.append(f"    {k.why}")
            if k.bytes is not None:
                lines.append(f"    bytes moved (model): {k.bytes}; op by op: {k.bytes_apart}")
        for why, named in sorted(self._by_reason().items(), key=lambda r: r[1]):
            lines.append(f"  not fused: {named}: {why}")
        lines += [f"  at run time: {why}" for why in self.at_run_time]
        return "\n".join(lines)

    def _by_reason(self) -> dict[str, str]:
        """Return reason -> ops with this reason."""
        ops: dict[str, list[str]] = {}
        for (op, why), n in sorted(self.not_fused.items()):
            ops.setdefault(why, []).append(f"{op} (x{n})" if n > 1 else op)
        return {why: ", ".join(named) for why, named in ops.items()}


def _listed(ops: Iterable[str]) -> str:
    """Return the ops in order, with repeated ones as a count."""
    out: list[tuple[str, int]] = []
    for op in ops:
        if out and out[-1][0] == op:
            out[-1] = (op, out[-1][1] + 1)
        else:
            out.append((op, 1))
    words = [op if n == 1 else f"{op} x{n}" for op, n in out]
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f", and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Report:
    """Report of the backend in this process, latest graph last; ``print(report())`` shows it."""

    graphs: tuple[GraphReport, ...]

    def as_dict(self) -> dict[str, Any]:
        """The report, ready for JSON."""
        return {"graphs": [g.as_dict() for g in self.graphs]}

    def __str__(self) -> str:
        if not self.graphs:
            return (
                "the autofuse backend has compiled no graph in this process; Inductor takes graphs from its cache "
                "without a report, unless TORCHINDUCTOR_FORCE_DISABLE_CACHES=1"
            )
        return "\n".join(map(str, self.graphs))


_LOCK = threading.Lock()
_GRAPHS: deque[GraphReport] = deque(maxlen=_KEPT)
_COUNT = Counter[str]()


def record(
    kind: str, target: str, fused: Iterable[FusedKernel], not_fused: Counter[tuple[str, str]]
) -> GraphReport:
    """Record a graph."""
    with _LOCK:
        _COUNT[kind] += 1
        found = GraphReport(f"{kind} {_COUNT[kind]}", target, tuple(fused), not_fused)
        _GRAPHS.append(found)
    return found


def report() -> Report:
    """Return the fused ops of this process, the unfused ones and the reasons, for the last 256 graphs."""
    with _LOCK:
        return Report(tuple(_GRAPHS))


def reset() -> None:
    """Forget all graphs."""
    with _LOCK:
        _GRAPHS.clear()
        _COUNT.clear()
