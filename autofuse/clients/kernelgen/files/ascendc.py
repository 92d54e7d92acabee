"""The Ascend C variant: the project of the built operator, and a function with the kernels' signature that calls it.

It has its own folder, because KernelGen's converter accepts only folders with four Python files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autofuse import api
from autofuse.base.abi import ABI_VERSION
from autofuse.clients.kernelgen.files.naming import operator_name
from autofuse.codegen.backends.triton.call import Call
from autofuse.codegen.backends.triton.python_text import Names
from autofuse.codegen.backends.triton.signature import Signature
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.targets import find_target

if TYPE_CHECKING:
    from autofuse.clients.kernelgen.defining.definition import Definition

__all__ = ["FOLDER", "ascendc_files"]

#: Folder of the variant.
FOLDER = "ascendc"

_HEAD = '''\
"""{name}: an Ascend C kernel, called through the C functions of its library.

Build the library beside this file, on a machine with CANN for tensors on npu:

    cmake -S kernel -B build -DAUTOFUSE_BACKEND=ascend && cmake --build build

or for the CPU twin, which takes tensors on cpu:

    cmake -S kernel -B build -DAUTOFUSE_TWIN_DIR="$(autofuse doctor --twin-dir)" && cmake --build build
"""

import ctypes as _ctypes
from functools import lru_cache as _lru_cache
from pathlib import Path as _Path

import torch


@_lru_cache(maxsize=1)
def _library():
    """Load the library, and declare the types of its functions."""
    path = _Path(__file__).resolve().parent / "build" / "lib{library}.so"
    if not path.is_file():
        raise FileNotFoundError(f"{{path}} is not built: see the docstring of this file")
    found = _ctypes.CDLL(str(path))
    if not hasattr(found, "AutofuseAbiVersion") or found.AutofuseAbiVersion() != {abi}:
        raise ImportError(f"{{path}} does not have version {abi} of the C interface: build it again")
    found.GetTilingDataSize.restype = _ctypes.c_uint64
    found.AutofuseTiling.restype = _ctypes.c_int64
    found.AutofuseTiling.argtypes = [_ctypes.c_int64] * {symbols} + [_ctypes.c_void_p] * 4
    found.AutofuseLaunchArray.restype = _ctypes.c_int64
    found.AutofuseLaunchArray.argtypes = [_ctypes.c_uint32] + [_ctypes.c_void_p] * 3
    found.AutofuseErrorText.restype = _ctypes.c_char_p
    found.AutofuseErrorText.argtypes = [_ctypes.c_int64]
    return found


def _launch(sizes, pointers, device):
    """Compute the tiling and launch the kernel, on the current stream of an NPU."""
    library = _library()
    tiling = (_ctypes.c_uint64 * (library.GetTilingDataSize() // 8 + 1))()
    workspace, cores = _ctypes.c_uint32(0), _ctypes.c_uint32(0)
    status = library.AutofuseTiling(*sizes, tiling, _ctypes.byref(workspace), _ctypes.byref(cores), None)
    if status == 0:
        scratch = torch.empty(max(workspace.value, 1), dtype=torch.uint8, device=device)
        table = (_ctypes.c_void_p * (len(pointers) + 1))(*pointers, scratch.data_ptr())
        stream = torch.npu.current_stream().npu_stream if device.type == "npu" else None
        status = library.AutofuseLaunchArray(cores.value, stream, table, tiling)
    if status:
        raise RuntimeError(f"{name}: {{library.AutofuseErrorText(status).decode()}}")


'''


def ascendc_files(definition: Definition) -> dict[str, str]:
    """Return the files of the variant, path -> text: ``ascendc/NAME_ascendc.py`` and ``ascendc/kernel/``.

    A graph too large for one kernel becomes several and a driver, which is called like a single kernel.

    Args:
        definition: definition of the operator; for a device without Ascend C the variant is for Ascend 910B1.

    Raises:
        AutofuseError: AF2xxx, AF3xxx: no Ascend C kernel exists for the graph.
    """
    graph = definition.graph
    built = api.build_split(graph, target=_chip(definition.device))
    name = operator_name(graph)
    files = {f"{FOLDER}/kernel/{path}": text for path, text in built.files.items()}
    return {f"{FOLDER}/{name}_ascendc.py": _wrapper(graph, name, definition.call), **files}


def _chip(device: str) -> str:
    """Return the chip of a target; the default chip if it is not an Ascend target."""
    target = find_target(device)
    chip = getattr(target, "chip", None)  # only a Triton target has ``chip`` besides its name
    return device if chip is None else chip or api.DEFAULT_TARGET


def _wrapper(graph: FusionGraph, name: str, call: Call | None) -> str:
    signature = Signature.of(graph, Names(), call)
    head = _HEAD.format(name=name, library=graph.name, symbols=len(graph.symbols), abi=ABI_VERSION)
    lines = signature.head(name, annotated=True)
    body = "\n".join(f"    {line}" for line in _body(signature))
    return head + "\n".join((*lines, body, ""))


def _body(signature: Signature) -> Iterator[str]:
    graph = signature.graph
    device = f"{signature.inputs[0]}.device" if signature.inputs else "device"
    if not signature.inputs:
        yield 'device = torch.device(device or ("npu" if hasattr(torch, "npu") else "cpu"))'
    yield from signature.sizes(("_launch",))
    yield from signature.checks(any_layout=True)
    yield from signature.allocated(device)
    sizes = ", ".join(signature.symbols[s.name] for s in graph.symbols)
    tensors = [graph.tensors[x] for x in graph.inputs]
    pointers = []
    for n, t in zip(signature.inputs, tensors, strict=True):
        skipped = "" if t.offset is None else f" - {signature.python(t.offset * t.dtype.itemsize)}"
        pointers.append(f"{n}.data_ptr(){skipped}")
    # An output that overwrites an input shares its address.
    places = dict(zip(signature.inputs, pointers, strict=True))
    pointers += [places.get(n, f"{n}.data_ptr()") for n in signature.outputs]
    yield f"_launch([{sizes}], [{', '.join(pointers)}], {device})"
    yield signature.returned()
