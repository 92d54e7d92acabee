"""In-memory results of building and running a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autofuse.base import artifacts
from autofuse.base.diagnostics import Diagnostic
from autofuse.frontends.onnx.pieces import ModelPieces
from autofuse.results import BuildResult, SplitResult
from autofuse.targets import Target

__all__ = ["Fallback", "ModelRegion", "ModelResult", "ModelRun", "Step", "kernel_folder"]


@dataclass(frozen=True, slots=True)
class ModelRegion:
    """Nodes that run together.

    Attributes:
        nodes: their indices in the model's list of nodes.
        kernel: name of the kernel; empty for a view, which needs none.
        inputs: parameter of the kernel -> autofuse's name of the tensor; the manifest has the names of the model.
        outputs: parameter of the kernel -> tensor, for outputs.
        bytes_once: bytes read and written, every tensor once, at typical sizes of the symbols.
        bytes_modelled: bytes that the kernel moves at these sizes, by the model of its template; None if no template is
            legal for them.
        bytes_unfused: bytes that the nodes read and write at these sizes one by one.
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
    """A node outside all kernels.

    Attributes:
        node: its index in the model's list of nodes.
        code: code of the diagnostic that gives the reason.
        reason: message of the diagnostic.
    """

    node: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """Step of a run.

    Attributes:
        kind: ``kernel`` or ``view``: a region; ``fallback``: a node outside of all kernels.
        index: its index in ``regions``, or in ``fallbacks``, of the result.
    """

    kind: str
    index: int


@dataclass(frozen=True, slots=True)
class ModelResult:
    """Result of :func:`autofuse.models.build`.

    Attributes:
        pieces: the model, read node by node.
        target: the chip, the GPU or the CPU.
        sha256: digest of the file.
        kernels: name -> the kernel.
        regions: the regions of the model.
        fallbacks: the other nodes that run.
        steps: the steps in execution order.
        files: path inside the output folder -> text.
        timings: stage -> seconds.
    """

    pieces: ModelPieces
    target: Target
    sha256: str
    kernels: Mapping[str, BuildResult | SplitResult]
    regions: tuple[ModelRegion, ...]
    fallbacks: tuple[Fallback, ...]
    steps: tuple[Step, ...]
    files: Mapping[str, str]
    timings: Mapping[str, float] = field(compare=False)

    @property
    def name(self) -> str:
        """Name of the model, as an identifier."""
        return self.pieces.name

    @property
    def manifest(self) -> dict[str, Any]:
        """Contents of ``<name>.model.json``."""
        found: dict[str, Any] = json.loads(self.files[f"{self.name}.model.json"])
        return found

    def write(self, folder: str | Path, *, force: bool = False) -> artifacts.Written:
        """Write all files into a folder, or none; unchanged files are not rewritten.

        Args:
            folder: created if missing.
            force: overwrite files that were edited or that autofuse did not write.

        Returns:
            The files created, updated, left unchanged, and removed.

        Raises:
            AutofuseError: AF5005, the folder cannot be written, or contains such files.
        """
        return artifacts.write_files(self.files, folder, force=force)

    def summary(self) -> dict[str, Any]:
        """Return the figures of the build, ready for JSON."""
        manifest = self.manifest
        return {
            "name": self.pieces.label,
            "file": f"{self.name}.model.json",
            "target": self.target.name,
            "experimental": self.target.experimental,
            "checked": self.target.checked,
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


@dataclass(frozen=True, slots=True)
class ModelRun:
    """Results of :func:`autofuse.models.run`, and their differences from the reference.

    Attributes:
        outputs: outputs of the model by name, computed by kernels and fallbacks.
        symbols: the sizes used.
        regions: a row per region in the order of execution: ``region``, ``ops``, ``kernel``, ``state``,
            ``bytes_moved`` (counted by the twin), ``bytes_unfused`` (modelled: every node reads its operands and writes
            its results once), ``outputs`` (comparisons with ``onnx.reference`` on the region's own operands)
            and ``seconds``.  The state is ``ok``, ``differs``, ``failed``, ``by reference`` (the kernel does not
            accept these sizes) or ``not compared`` (the reference fails); ``why`` explains the last two.  ``rounding``
            is present if outputs agree only with a rounding error bound added to the tolerance.
        fallbacks: a row per node outside all kernels: ``node``, ``op``, ``code``, ``reason``, ``reference`` (the
            reference that ran it), ``seconds``, and ``state``: ``ok``, ``differs``, or ``not compared`` with
            onnxruntime.
        compared: a comparison per output of the model with the model run by ``onnx.reference`` alone.  If it differs
            and ``ill_conditioned`` is set, rounding errors dominate it, and it is inconclusive; so is one whose
            ``compared`` is false, because it depends on results that no reference computed.
        chosen: sizes chosen by default, by their names in the model.
        diagnostics: the errors.
    """

    outputs: Mapping[str, Any]
    symbols: Mapping[str, int]
    regions: tuple[Mapping[str, Any], ...]
    fallbacks: tuple[Mapping[str, Any], ...]
    compared: tuple[Mapping[str, Any], ...]
    diagnostics: tuple[Diagnostic, ...]
    chosen: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if every region and output was compared and agrees with the reference, and no references differ."""
        return (
            all(r["state"] in ("ok", "by reference") for r in self.regions)
            and all(f["state"] != "differs" for f in self.fallbacks)
            and all((c["ok"] or c["ill_conditioned"]) and c["compared"] for c in self.compared)
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything but the outputs, ready for JSON."""
        return {
            "symbols": dict(self.symbols),
            "chosen": dict(self.chosen),
            "regions": [dict(r) for r in self.regions],
            "fallbacks": [dict(r) for r in self.fallbacks],
            "outputs": [dict(c) for c in self.compared],
        }


def kernel_folder(name: str) -> str:
    """Return the folder of a kernel inside that of the model."""
    return f"kernels/{name}"


def _keys(kernel: BuildResult | SplitResult) -> int:
    """Return the number of tiling keys over all parts."""
    from autofuse.schedule.axes.result import tiling_keys

    parts = kernel.parts if isinstance(kernel, SplitResult) else (kernel,)
    return sum(len(tiling_keys(p.schedule)) for p in parts)
