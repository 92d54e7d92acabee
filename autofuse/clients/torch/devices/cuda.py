"""The card of a tensor as a target, and what Triton needs to compute on it."""

from __future__ import annotations

import functools
from dataclasses import replace
from importlib.util import find_spec

import torch

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch.lower import Lowered, TensorInput
from autofuse.implgraph.expr.expression import const
from autofuse.targets import GpuTarget, from_driver, load_gpu

__all__ = ["card", "check_triton", "with_gaps"]

#: Word in the name of a card -> its target.
_CARDS = {"H100": "nvidia-h100", "H200": "nvidia-h200"}


def card(device: torch.device) -> GpuTarget:
    """Return the target of a CUDA device: from the target file of such a card, else from the driver's figures."""
    return _card(torch.cuda.current_device() if device.index is None else device.index)


@functools.lru_cache(maxsize=64)
def _card(index: int) -> GpuTarget:
    properties = torch.cuda.get_device_properties(index)
    for word, name in _CARDS.items():
        target = load_gpu(name)
        # Cards with the same name differ: the PCIe board has fewer multiprocessors.
        same = properties.multi_processor_count == target.multiprocessors
        if word in properties.name and same:
            return target
    return from_driver(properties)


def check_triton(target: str, device: torch.device) -> None:
    """Check that Triton can compute tensors of a device here.

    Raises:
        AutofuseError: AF5001 Triton is missing, or the tensors are on ``cpu`` and Triton does not interpret.
    """
    if find_spec("triton") is None:
        raise AutofuseError.of(
            "AF5001",
            f"kernels for {target} need the package triton",
            hint="pip install 'ascend-autofuse[gpu]'",
        )
    from triton import knobs

    if device.type == "cpu" and not knobs.runtime.interpret:
        raise AutofuseError.of(
            "AF5001",
            f"kernels for {target} take CPU tensors only in Triton's interpreter, which is off",
            hint="set TRITON_INTERPRET=1 before Python starts, or move the tensors to cuda",
        )
    if device.type == "cpu":
        from autofuse.machines.gpu.interpreter import mend_interpreter

        mend_interpreter()


def with_gaps(lowered: Lowered) -> Lowered:
    """Return the graph with the strides of inputs that have gaps, such as half of a tensor, to read them in place.

    Inputs of unknown sizes, and those whose elements share memory, stay contiguous.
    """
    tensors = dict(lowered.graph.tensors)
    for name, how in zip(lowered.graph.inputs, lowered.inputs, strict=True):
        strides = _gaps(how) if isinstance(how, TensorInput) else None
        if strides is not None:
            tensors[name] = replace(tensors[name], strides=tuple(const(s) for s in strides))
    return replace(lowered, graph=replace(lowered.graph, tensors=tensors))


def _gaps(how: TensorInput) -> tuple[int, ...] | None:
    """Return the strides of a tensor with gaps between its elements; None for other tensors."""
    t = how.node.meta["val"] if how.perm is None else how.node.meta["val"].permute(how.perm)
    if not all(isinstance(n, int) and n > 1 for n in (*t.shape, *t.stride()[:-1])):
        return None
    least = 1
    for size, stride in zip(reversed(t.shape), reversed(t.stride()), strict=True):
        if not isinstance(stride, int) or stride < least:
            return None
        least = stride * size
    return None if t.is_contiguous() else tuple(t.stride())
