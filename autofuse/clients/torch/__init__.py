"""``torch.compile(model, backend="autofuse")``: regions of a model become kernels.

The backend is found by its name where autofuse is installed; ``import autofuse.torch`` registers it as well::

    import torch
    import autofuse.clients.torch

    fast = torch.compile(model, backend="autofuse", options={"target": "ascend910b1"})
    fast(x)
    print(autofuse.torch.report())

Tensors on ``cpu`` are computed by the CPU twin, tensors on ``npu`` by the chip, tensors on ``cuda`` by Triton kernels.
``docs/torch.md`` has the details.
"""

from __future__ import annotations

try:
    import torch as _torch
except ModuleNotFoundError as e:
    if e.name != "torch":
        raise
    raise ModuleNotFoundError(
        "autofuse.torch needs PyTorch: pip install 'ascend-autofuse[torch]'", name="torch"
    ) from e

from autofuse.clients.torch.backend import autofuse
from autofuse.clients.torch.ops.table import claimed
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.report import FusedKernel, GraphReport, Report, report, reset

__all__ = [
    "FusedKernel",
    "GraphReport",
    "Options",
    "Report",
    "autofuse",
    "claimed",
    "report",
    "reset",
]

if "autofuse" not in _torch._dynamo.list_backends():
    _torch._dynamo.register_backend(autofuse, name="autofuse")
