"""The flow for a CPU: a shared library for this machine, and AKG's JSON for it."""

from __future__ import annotations

import platform
from typing import Any

from autofuse.clients.akg.signature import Sizes, document_keys, signature
from autofuse.codegen.backends.cpu.backend import entry_point
from autofuse.codegen.backends.cpu.sizes import unsolved
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import Target

__all__ = ["cpu_keys"]


def cpu_keys(graph: FusionGraph, target: Target, key_set: str, digest: str) -> dict[str, Any]:
    """Return the JSON values for a key set.

    Args:
        graph: the graph as read.
        target: the CPU.
        key_set: ``upstream`` or ``document``.
        digest: SHA-256 of the library.
    """
    sizes = Sizes(graph)
    given = tuple(sizes.names[s] for s in unsolved(graph))
    found: dict[str, Any] = {
        "autofuse": signature(graph, target, sizes) | {"given": given},
        "kernelName": entry_point(graph),
        "sha256": digest,
    }
    if key_set == "document":
        return found | document_keys(graph, sizes, None, platform.machine())
    # AKG writes a string here; the process sets the number of OpenMP threads.
    return found | {"threadNumber": "null"}
