"""``torch.compile(model, backend="autofuse")``: regions of a model become kernels.

PyTorch finds the backend by name if autofuse is installed; ``import autofuse.torch`` also registers it::

    import torch
    import autofuse.clients.torch

    fast = torch.compile(model, backend="autofuse", options={"target": "ascend910b1"})
    fast(x)
    print(autofuse.torch.report())

The CPU twin computes tensors on ``cpu``, the chip tensors on ``npu``, and Triton kernels tensors on ``cuda``.
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
