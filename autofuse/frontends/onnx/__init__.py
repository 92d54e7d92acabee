"""Reader of ONNX models; needs the package ``onnx`` (the extra of the same name)."""

from __future__ import annotations

from pathlib import Path

from autofuse.frontends.onnx.loading import MAX_BYTES as MAX_FILE
from autofuse.frontends.onnx.loading import looks_like_onnx, model_of
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["MAX_FILE", "looks_like_onnx", "read_onnx"]


def read_onnx(data: bytes, path: str = "", *, folder: Path | None = None) -> FusionGraph:
    """Return the graph of a model that is one fused kernel.

    Initialisers with one value become constants of the kernel, others become inputs after those of the model.

    Args:
        data: the file.
        path: its name, for messages.
        folder: where it lies; None: data in other files are refused.

    Raises:
        AutofuseError: as ``reader.convert``; AF1204, there is nothing to compute.
    """
    from autofuse.base.diagnostics import AutofuseError, Where
    from autofuse.frontends.onnx.reader import convert

    found = convert(model_of(data, path, folder=folder), path=path)
    if found.graph is None:
        text = "all outputs of the model are known without a kernel"
        raise AutofuseError.of("AF1204", text, where=Where(path))
    return found.graph
