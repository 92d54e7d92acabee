"""The flow for an Ascend chip: the project of ``build``, and AKG's JSON for a binary on the vector cores."""

from __future__ import annotations

from typing import Any

from autofuse.clients.akg.signature import Sizes, document_keys, signature
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import TargetSpec

__all__ = ["ascend_keys"]


def ascend_keys(
    graph: FusionGraph, target: TargetSpec, key_set: str, digest: str | None = None
) -> dict[str, Any]:
    """Return the JSON values for a key set.

    Args:
        graph: the graph as read.
        target: the chip; all its vector cores count as blocks, and the tiling function decides how many run.
        key_set: ``upstream`` or ``document``.
        digest: SHA-256 of the library that CMake built with CANN, or None before that build.
    """
    sizes = Sizes(graph)
    found: dict[str, Any] = {
        "autofuse": signature(graph, target, sizes),
        "kernelName": graph.name,
        "sha256": digest,
    }
    if key_set == "document":
        found |= document_keys(graph, sizes, target.npu_arch, target.soc)
        return found | {"blockDim": (target.aiv_cores, 1, 1)}
    return found | {
        "magic": "RT_DEV_BINARY_MAGIC_ELF_AIVEC",
        "coreType": "VectorCore",
        "blockDim": target.aiv_cores,
        "binFileSuffix": ".o" if digest is None else ".so",
        "binFileName": graph.name if digest is None else f"lib{graph.name}",
    }
