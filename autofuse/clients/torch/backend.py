"""The backend that torch.compile calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._decomp import get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch.calls import compile_graph
from autofuse.clients.torch.devices.kernels import (
    device_among,
    is_inside_inductor,
    is_triton,
    target_of,
)
from autofuse.clients.torch.devices.npu import check_inductor
from autofuse.clients.torch.layouts import laid_out
from autofuse.clients.torch.ops.table import allocating
from autofuse.clients.torch.options import Options

__all__ = ["autofuse", "decompositions"]

#: Ops without Inductor's decomposition.  It decomposes the first into float64, which kernels do not support, the next
#: five into steps that round 16-bit floats differently from eager, index_select into an index that may be negative,
#: which eager refuses (the table of ops has these seven), and the others into its own primitives, in a module that is
#: loaded only when Inductor itself compiles.
_KEPT = (
    torch.ops.aten.softplus,
    torch.ops.aten.addcdiv,
    torch.ops.aten.addcmul,
    torch.ops.aten.lerp,
    torch.ops.aten.xlogy,
    torch.ops.aten.special_xlog1py,
    torch.ops.aten.index_select,
    torch.ops.aten.max_pool2d_with_indices,
    torch.ops.aten.max_pool3d_with_indices,
)
#: Ops that torch_npu's Inductor leaves whole, for its own lowerings and kernels; regions take their steps.
_OPENED = (
    torch.ops.aten.native_layer_norm,
    torch.ops.aten.nll_loss_forward,
    torch.ops.aten.nll_loss_backward,
    torch.ops.aten._log_softmax_backward_data,
)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of composite ops: Inductor's, except for a few ops that stay whole."""
    return {
        op: how
        for op, how in _of_inductor().items()
        if getattr(op, "overloadpacket", None) not in _KEPT
    }


def _of_inductor() -> dict[Any, Callable[..., Any]]:
    """Return Inductor's decompositions, also those that torch_npu's Inductor removes when it is loaded."""
    return _Decompositions({**get_decompositions(_OPENED), **select_decomp_table()})


class _Decompositions(dict[Any, Callable[..., Any]]):
    """A table that Inductor can pickle for the key of its cache, although many functions in it cannot be pickled."""

    def __reduce__(self) -> Any:
        return _of_inductor, ()


@functools.cache
def _laid_out() -> dict[Any, Callable[..., Any]]:
    """Return decompositions whose results have eager's memory layout."""
    return laid_out(decompositions(), allocating())


def autofuse(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend ``autofuse`` of ``torch.compile``.

    Args:
        gm: the graph captured by Dynamo.
        example_inputs: its inputs.
        options: see :class:`autofuse.torch.Options`.
        mode: where Inductor calls the kernels, a preset of it, as without a backend; refused for others.

    Raises:
        AutofuseError: AF5007, an option is unknown or has a wrong value; AF5001, the option ``inductor`` needs an
            Inductor for an NPU.
    """
    chosen = Options.of(options)
    inside = (n.meta.get("example_value") for n in gm.graph.nodes)
    device = device_among((*example_inputs, *gm.parameters(), *gm.buffers(), *inside))
    target = target_of(chosen, device)
    if is_inside_inductor(target, chosen):
        from autofuse.clients.torch.inductor.fusing import compile_with_inductor

        if device.type == "npu":
            check_inductor()
        if is_triton(target) and device.type != "cuda":
            # Around its kernels, PyTorch runs the graph node by node: a gain over Inductor says nothing.
            chosen = replace(chosen, choose="all")
        table = _of_inductor() if chosen.inductor else None
        return compile_with_inductor(gm, example_inputs, chosen, mode, table)
    if mode not in (None, "default"):
        raise AutofuseError.of(
            "AF5007",
            f"the autofuse backend has no mode {mode!r} for these tensors",
            hint="pass options={...}",
        )

    def compiler(kind: str) -> Callable[..., Any]:
        def compiled(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            return make_boxed_func(compile_graph(graph, chosen, kind).forward)

        return compiled

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=_laid_out(),
        # Recompute cheap values in the backward graph instead of saving them.
        partition_fn=functools.partial(min_cut_rematerialization_partition, compiler="inductor"),
    )(gm, example_inputs)
    return made
