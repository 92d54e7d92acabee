"""Kernels on an NPU: built with CANN, called through the C functions of the generated library; what they need there."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from autofuse import api
from autofuse.base import abi, artifacts, cache, programs
from autofuse.base.cann import first_failure
from autofuse.base.diagnostics import AutofuseError

__all__ = ["NpuKernel", "check_inductor", "requirements"]

_INT64, _POINTER = ctypes.c_int64, ctypes.c_void_p


def requirements() -> list[str]:
    """Return what is missing here for building and running kernels on an NPU; empty if nothing is."""
    missing = []
    if importlib.util.find_spec("torch_npu") is None:
        missing.append("the package torch_npu")
    home = os.environ.get("ASCEND_HOME_PATH", "")
    if not home or not Path(home).is_dir():
        missing.append("CANN (ASCEND_HOME_PATH names its folder)")
    if programs.program("cmake") is None:
        missing.append("cmake")
    return missing


def check_inductor() -> None:
    """Load torch_npu's Inductor if it is there and not loaded yet.

    Raises:
        AutofuseError: AF5001, no Inductor is registered for tensors on an NPU.
    """
    from torch._inductor.codegen.common import get_scheduling_for_device, init_backend_registration

    init_backend_registration()
    if get_scheduling_for_device("npu") is None and importlib.util.find_spec("torch_npu"):
        # It registers itself when it is imported: the first compilation with the backend "inductor" does that.
        importlib.import_module("torch_npu._inductor")
    if get_scheduling_for_device("npu") is None:
        raise AutofuseError.of(
            "AF5001",
            "no Inductor is registered for tensors on an NPU, as the option inductor needs",
            hint="torch_npu brings one, which needs triton-ascend; without the option, no Inductor is needed",
        )


class NpuKernel:
    """A kernel on the current NPU stream.

    Args:
        result: the library's result for the graph.

    Raises:
        AutofuseError: AF5001 CANN, torch_npu or cmake is missing, AF5002 the code does not compile,
            AF5007 the library has another interface.
    """

    def __init__(self, result: api.SplitResult) -> None:
        missing = requirements()
        if missing:
            raise AutofuseError.of(
                "AF5001",
                f"kernels on an NPU need {' and '.join(missing)}",
                hint="on this machine, use tensors on cpu, which run on the twin",
            )
        path = str(_library(result))
        library = ctypes.CDLL(path)
        abi.check_library(library, path)
        library.GetTilingDataSize.restype = _INT64
        self._bytes = int(library.GetTilingDataSize())
        self._tiling = library.AutofuseTiling
        self._tiling.restype = _INT64
        self._tiling.argtypes = [
            *(_INT64 for _ in result.graph.symbols),
            *(_POINTER for _ in range(4)),
        ]
        self._launch = library.AutofuseLaunchArray
        self._launch.restype = _INT64
        self._launch.argtypes = [ctypes.c_uint32, _POINTER, _POINTER, _POINTER]
        self._text = library.AutofuseErrorText
        self._text.restype = ctypes.c_char_p
        self._text.argtypes = [_INT64]
        self._local = threading.local()

    def run(
        self,
        symbols: Sequence[int],
        pointers: Sequence[int],
        threads: int,
        sizes: Sequence[int],
        inputs: int,
    ) -> tuple[int, str]:
        """Compute the tiling and launch on the current stream, without waiting for the kernel.

        Args:
            symbols: sizes in the order of the graph.
            pointers: device addresses of inputs and outputs.
            threads: unused.
            sizes: unused: the chip does not check accesses.
            inputs: unused.

        Returns:
            (0, ""), or a status and its text.
        """
        data = (ctypes.c_uint64 * (self._bytes // 8 + 1))()
        workspace, cores = ctypes.c_uint32(0), ctypes.c_uint32(0)
        status = self._tiling(*symbols, data, ctypes.byref(workspace), ctypes.byref(cores), None)
        if status:
            return status, (self._text(status) or b"").decode()
        # Returned to PyTorch's allocator immediately: it orders reuse by stream.
        scratch = torch.empty(max(workspace.value, 1), dtype=torch.uint8, device="npu")
        table = (_POINTER * (len(pointers) + 1))(*pointers, scratch.data_ptr())
        npu: Any = torch.npu  # type: ignore[attr-defined]
        status = self._launch(cores.value, npu.current_stream().npu_stream, table, data)
        return status, f"the launch function returned {status}" if status else ""


def _library(result: api.SplitResult) -> Path:
    """Return the library, from the cache if present."""
    name = f"lib{result.name}.so"
    home = os.environ["ASCEND_HOME_PATH"]
    key = artifacts.digest(json.dumps([home, sorted(result.files.items())]))

    def make(folder: Path) -> None:
        result.write(folder / "source")
        source, build = folder / "source", folder / "build"
        failure = first_failure(
            (
                ["cmake", "-S", str(source), "-B", str(build), "-DAUTOFUSE_BACKEND=ascend"],
                ["cmake", "--build", str(build)],
            ),
            folder,
        )
        if failure is not None:
            raise AutofuseError.of(
                "AF5002",
                f"compiling {result.name} with CANN: `{failure.command}` failed: {failure.why}",
                notes=failure.lines,
            )
        shutil.copy(build / name, folder / name)

    return cache.entry("kernels", key, name, make) / name
