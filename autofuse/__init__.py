"""autofuse: fused Ascend C and Triton kernels from operator graphs.

The names that this module exports are the stable Python interface, described in ``docs/api.md``. ``import autofuse`` is
light: an exported name is loaded on first use (PEP 562), so ``autofuse --help`` does not pay for sympy, networkx or
pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autofuse.api import (
        DEFAULT_TARGET,
        GraphLike,
        TuningLike,
        build,
        build_split,
        load,
        read,
        read_tuning,
        timed,
        verify,
    )
    from autofuse.base.artifacts import Written
    from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
    from autofuse.codegen.backends.ascendc.tuning import Tiling, Tilings
    from autofuse.codegen.backends.triton.tuning import KernelTuning, Tuning
    from autofuse.implgraph.ir.fusion import FusionGraph
    from autofuse.machines.cpu.kernel import CpuKernel
    from autofuse.machines.gpu.kernel import TritonKernel
    from autofuse.machines.npu.kernel import NpuKernel
    from autofuse.machines.twin.oracle.compare import Comparison
    from autofuse.machines.twin.run.kernel import TwinKernel
    from autofuse.machines.twin.verify.verify import Case, VerifyReport
    from autofuse.results import BuildResult, Run, SplitResult, TimedRun
    from autofuse.schedule.search.given import GivenTile
    from autofuse.targets import (
        CpuTarget,
        GpuTarget,
        TargetSpec,
        cpu_names,
        gpu_names,
        load_cpu,
        load_gpu,
        load_target,
        target_names,
    )

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_TARGET",
    "AutofuseError",
    "BuildResult",
    "Case",
    "Comparison",
    "CpuKernel",
    "CpuTarget",
    "Diagnostic",
    "FusionGraph",
    "GivenTile",
    "GpuTarget",
    "GraphLike",
    "KernelTuning",
    "NpuKernel",
    "Run",
    "SplitResult",
    "TargetSpec",
    "Tiling",
    "Tilings",
    "TimedRun",
    "TritonKernel",
    "Tuning",
    "TuningLike",
    "TwinKernel",
    "VerifyReport",
    "Where",
    "Written",
    "__version__",
    "build",
    "build_split",
    "cpu_names",
    "gpu_names",
    "load",
    "load_cpu",
    "load_gpu",
    "load_target",
    "read",
    "read_tuning",
    "target_names",
    "timed",
    "verify",
]

_HOME_OF = {
    "DEFAULT_TARGET": "autofuse.api",
    "AutofuseError": "autofuse.base.diagnostics",
    "BuildResult": "autofuse.results",
    "Case": "autofuse.machines.twin.verify.verify",
    "Comparison": "autofuse.machines.twin.oracle.compare",
    "CpuKernel": "autofuse.machines.cpu.kernel",
    "CpuTarget": "autofuse.targets",
    "Diagnostic": "autofuse.base.diagnostics",
    "FusionGraph": "autofuse.implgraph.ir.fusion",
    "GivenTile": "autofuse.schedule.search.given",
    "GpuTarget": "autofuse.targets",
    "GraphLike": "autofuse.api",
    "KernelTuning": "autofuse.codegen.backends.triton.tuning",
    "NpuKernel": "autofuse.machines.npu.kernel",
    "Run": "autofuse.results",
    "SplitResult": "autofuse.results",
    "TargetSpec": "autofuse.targets",
    "Tiling": "autofuse.codegen.backends.ascendc.tuning",
    "Tilings": "autofuse.codegen.backends.ascendc.tuning",
    "TimedRun": "autofuse.results",
    "TritonKernel": "autofuse.machines.gpu.kernel",
    "Tuning": "autofuse.codegen.backends.triton.tuning",
    "TuningLike": "autofuse.api",
    "TwinKernel": "autofuse.machines.twin.run.kernel",
    "VerifyReport": "autofuse.machines.twin.verify.verify",
    "Where": "autofuse.base.diagnostics",
    "Written": "autofuse.base.artifacts",
    "build": "autofuse.api",
    "build_split": "autofuse.api",
    "cpu_names": "autofuse.targets",
    "gpu_names": "autofuse.targets",
    "load": "autofuse.api",
    "load_cpu": "autofuse.targets",
    "load_gpu": "autofuse.targets",
    "load_target": "autofuse.targets",
    "read": "autofuse.api",
    "read_tuning": "autofuse.api",
    "target_names": "autofuse.targets",
    "timed": "autofuse.api",
    "verify": "autofuse.api",
}


def __getattr__(name: str) -> object:
    """Load an exported name on first use."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
