"""The flow for an Ascend chip: the project of ``build``, and what AKG says of a binary for the vector cores."""

from __future__ import annotations

from typing import Any

from autofuse.clients.akg.signature import Sizes, document_keys, signature
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import TargetSpec

__all__ = ["ascend_keys"]


def ascend_keys(
    graph: FusionGraph, target: TargetSpec, key_set: str, digest: str | None = None
) -> dict[str, Any]:
    """The values of a set of keys.

    Args:
        graph: as it was read.
        target: the chip; all of its vector cores are the blocks, how many run is decided by the tiling function.
        key_set: ``upstream`` or ``document``.
        digest: sha256 of the library that CMake made with CANN; None where there is none.
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
