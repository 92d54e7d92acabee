"""What a build of a model made, in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofuse.base import artifacts
from autofuse.frontends.onnx.pieces import ModelPieces
from autofuse.results import BuildResult, SplitResult
from autofuse.targets import TargetSpec

__all__ = ["Fallback", "ModelRegion", "ModelResult", "Step", "kernel_folder"]


@dataclass(frozen=True, slots=True)
class ModelRegion:
    """Nodes that run together.

    Attributes:
        nodes: their places in the list of nodes of the model.
        kernel: name of the kernel; empty for a view, which needs none.
        inputs: parameter of the kernel -> the tensor, as autofuse calls it; the manifest has the names of the model.
        outputs: the same for outputs.
        bytes_once: what it reads and writes, every tensor once, where symbols have typical sizes.
        bytes_modelled: what the kernel moves there, by the model of its template; None if it has none for these sizes.
        bytes_unfused: what the nodes read and write there one by one.
    """

    nodes: tuple[int, ...]
    kernel: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    bytes_once: int
    bytes_modelled: int | None
    bytes_unfused: int


@dataclass(frozen=True, slots=True)
class Fallback:
    """A node that no kernel holds.

    Attributes:
        node: its place in the list of nodes of the model.
        code: of the diagnostic that says why.
        reason: its words.
    """

    node: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """What runs.

    Attributes:
        kind: ``kernel`` or ``view``: a region; ``fallback``: a node that no kernel holds.
        index: its place in ``regions``, or in ``fallbacks``, of the result.
    """

    kind: str
    index: int


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What :func:`autofuse.models.build` made.

    Attributes:
        pieces: the model, read node by node.
        target: the chip.
        sha256: of the file.
        kernels: name -> the kernel.
        regions: those of the model.
        fallbacks: the other nodes that run.
        steps: in the order in which they run.
        files: path inside the output folder -> text.
        timings: stage -> seconds.
    """

    pieces: ModelPieces
    target: TargetSpec
    sha256: str
    kernels: Mapping[str, BuildResult | SplitResult]
    regions: tuple[ModelRegion, ...]
    fallbacks: tuple[Fallback, ...]
    steps: tuple[Step, ...]
    files: Mapping[str, str]
    timings: Mapping[str, float] = field(compare=False)

    @property
    def name(self) -> str:
        """The name of the model, as an identifier."""
        return self.pieces.name

    @property
    def manifest(self) -> dict[str, Any]:
        """What ``<name>.model.json`` says."""
        found: dict[str, Any] = json.loads(self.files[f"{self.name}.model.json"])
        return found

    def write(self, folder: str | Path, *, force: bool = False) -> artifacts.Written:
        """Write all files into a folder, all or none; what is the same stays as it is.

        Args:
            folder: is made if it is not there.
            force: overwrite files that were edited or that autofuse did not write.

        Returns:
            Which files were created, updated, left, and removed.

        Raises:
            AutofuseError: AF5005, the folder cannot be written, or holds such files.
        """
        return artifacts.write_files(self.files, folder, force=force)

    def summary(self) -> dict[str, Any]:
        """The build in numbers, ready for JSON."""
        manifest = self.manifest
        return {
            "name": self.pieces.label,
            "file": f"{self.name}.model.json",
            "target": self.target.name,
            "experimental": self.target.experimental,
            "regions": manifest["regions"],
            "fallbacks": manifest["fallbacks"],
            "kernels": [
                {"name": name, "folder": kernel_folder(name), "keys": _keys(k)}
                for name, k in self.kernels.items()
            ],
            "counts": manifest["counts"],
            "files": sorted(self.files),
            "seconds": dict(self.timings),
        }


def kernel_folder(name: str) -> str:
    """The folder of a kernel inside that of the model."""
    return f"kernels/{name}"


def _keys(kernel: BuildResult | SplitResult) -> int:
    """Tiling keys, over all parts."""
    from autofuse.schedule.axes.result import tiling_keys

    parts = kernel.parts if isinstance(kernel, SplitResult) else (kernel,)
    return sum(len(tiling_keys(p.schedule)) for p in parts)
