"""Check of addresses in UB: every buffer starts in the half of the banks that the memory plan chose."""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.codegen.ir.kernel_ir import InitBuffer
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.implgraph.expr.expression import ZERO

__all__ = ["buffers_start_in_their_banks"]


def buffers_start_in_their_banks(kernel: Kernel) -> Iterator[Finding]:
    """Buffers, which a TPipe allocates consecutively in the plan's order, start where the plan says, for every tile."""
    plans = [
        (kernel.planned.get((b.kind, b.id), f"{b.kind} {b.id}"), b) for b in kernel.impl.buffers
    ]
    made = [i for i in kernel.items if isinstance(i.stmt, InitBuffer)]
    order = [i.stmt.name for i in made if isinstance(i.stmt, InitBuffer)]
    if order != [name for name, _ in plans]:
        planned = ", ".join(name for name, _ in plans)
        yield Finding(f"UB is handed out to {', '.join(order)}; the plan has {planned}")
        return
    address, period = ZERO, kernel.arch.bank_period
    for item, (name, b) in zip(made, plans, strict=True):
        nbytes = item.values[0]
        if b.bank is not None:
            yield from kernel.multiple(
                address - b.bank, period, f"bytes before {name}, without {b.bank}"
            )
            if b.buf_num > 1:
                yield from kernel.multiple(nbytes, period, f"bytes of each of the {name}")
        address = address + nbytes * b.buf_num
