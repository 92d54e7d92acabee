"""Whole ONNX models: fusible regions become kernels, ``onnx.reference`` runs the rest.

:func:`build` partitions a model and generates a kernel for every region, with a manifest of regions and fallbacks;
:func:`run` executes it and compares it with ``onnx.reference``.  ``docs/onnx.md`` describes the rules.
Needs the package ``onnx`` (the extra of the same name).
"""

from autofuse.clients.onnx.models.build import ModelLike, build, is_partitioned
from autofuse.clients.onnx.models.calls import Called, KernelCall
from autofuse.clients.onnx.models.result import Fallback, ModelRegion, ModelResult, ModelRun, Step
from autofuse.clients.onnx.models.run import run

__all__ = [
    "Called",
    "Fallback",
    "KernelCall",
    "ModelLike",
    "ModelRegion",
    "ModelResult",
    "ModelRun",
    "Step",
    "build",
    "is_partitioned",
    "run",
]
