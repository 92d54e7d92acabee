"""Whole ONNX models: what can be fused becomes kernels, the rest is left to ``onnx.reference``.

:func:`build` partitions a model and generates a kernel for every region, with a manifest of regions and fallbacks;
:func:`run` executes it on the CPU twin and compares it with ``onnx.reference``.  ``docs/onnx.md`` has the rules.
Needs the package ``onnx`` (the extra of the same name).
"""

from autofuse.models.build import ModelLike, build, is_partitioned
from autofuse.models.calls import Called, KernelCall
from autofuse.models.result import Fallback, ModelRegion, ModelResult, Step
from autofuse.models.run import ModelRun, run

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
