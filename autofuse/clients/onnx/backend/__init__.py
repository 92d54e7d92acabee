"""autofuse as an ONNX backend, on the CPU twin; needs the package ``onnx`` (the extra of the same name).

``from autofuse.onnx_backend import AutofuseBackend`` imports a class with the interface of
``onnx.backend.base``: ``prepare``, ``run_model``, ``run_node``, ``supports_device``.
"""

from __future__ import annotations

from autofuse.clients.onnx.backend.backend import AutofuseBackend, PreparedModel

__all__ = ["AutofuseBackend", "PreparedModel"]
