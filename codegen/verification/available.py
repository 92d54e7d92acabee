"""Calls that the architecture has: for each node its call, its dtype and, for a Cast, its round mode.

Vendor headers also compile other calls: in a kernel for the chip these do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.codegen.ir.calls import Call, EnumArg
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.implgraph.ops.registry import find_call

__all__ = ["calls_are_available"]

_MODE = "RoundMode::CAST_"


def calls_are_available(kernel: Kernel) -> Iterator[Finding]:
    """Every call is in the tables of the architecture."""
    arch = kernel.arch
    for item in kernel.items:
        s = item.stmt
        node = kernel.maker(item, s.writes[0]) if isinstance(s, Call) else None
        if not isinstance(s, Call) or node is None:
            continue
        if s.api != "Cast":
            if s.api in arch.lacks or find_call(node.op, arch) is None:
                yield Finding(f"architecture {arch.name} has no {s.api}", node.name)
            continue
        source, to = kernel.nodes[node.inputs[0]].y.dtype, node.y.dtype
        modes = [a.text.removeprefix(_MODE) for a in s.args if isinstance(a, EnumArg)]
        for mode in modes:
            if (source.name, to.name, mode) not in arch.modes:
                yield Finding(
                    f"Cast from {source} to {to} with CAST_{mode} is not in architecture {arch.name}",
                    node.name,
                )
