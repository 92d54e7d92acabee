"""Compile a graph with Inductor, with kernels of autofuse in place of the regions that are worth it."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch._inductor import config, list_mode_options
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.fx_passes.post_grad import post_grad_passes
from torch._inductor.pattern_matcher import stable_topological_sort
from torch._inductor.virtualized import V

from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch.devices.cuda import card
from autofuse.clients.torch.devices.kernels import device_among, is_triton, target_of
from autofuse.clients.torch.inductor.choice import Chooser
from autofuse.clients.torch.inductor.regions import PLACE, insert
from autofuse.clients.torch.inductor.sources import digest_of_sources
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.selection import select
from autofuse.failures import cut_around
from autofuse.targets import find_target

__all__ = ["FusionPass", "compile_with_inductor"]

#: Kind of the graph that Inductor compiles now, for the report; None while regions are left to it.
_KIND: ContextVar[str | None] = ContextVar("autofuse_graph_kind", default="graph")


def compile_with_inductor(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    mode: str | None,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """Return a compiled graph, forward and backward.

    Where Triton's interpreter or another machine would run the kernels, Inductor's passes make the graph, and PyTorch
    runs it node by node; everything else goes through Inductor to the end.

    Args:
        gm: the graph captured by Dynamo.
        example_inputs: its inputs.
        options: options of the backend.
        mode: a preset of Inductor, as for ``torch.compile``; None for none.
        decompositions: those of composite ops; None for Inductor's.
    """
    before = getattr(config, PLACE)
    passes = [*before] if isinstance(before, list | tuple) else [before] if before else []
    patches: dict[str, Any] = dict(list_mode_options(mode)) if mode else {}
    patches[PLACE] = FusionPass(options, passes)
    made: Callable[..., Any] = compile_fx(
        gm,
        example_inputs,
        inner_compile=functools.partial(_inner, options),
        config_patches=patches,
        decompositions=decompositions,
    )
    return made


class FusionPass(CustomGraphPass):  # type: ignore[misc]
    """Put kernels in place of regions of a graph, in place.

    Args:
        options: options of the backend.
        before: passes of the user at this position, which run first.
    """

    def __init__(self, options: Options, before: Sequence[Any] = ()) -> None:
        self._options, self._before = options, tuple(before)

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Change the graph."""
        for other in self._before:
            other(graph)
        kind = _KIND.get()
        if kind is None:
            return
        gm = graph.owning_module
        chooser = Chooser(gm, self._options, is_inference=kind == "inference")
        made, _ = select(gm, self._options, kind, chooser.judge)
        if made:
            insert(graph, made)
            stable_topological_sort(graph)
            graph.lint()

    def uuid(self) -> Any:
        """Return what the kernels depend on besides the graph; None, for no caching, if a pass of the user has none."""
        others = [getattr(other, "uuid", lambda: None)() for other in self._before]
        if None in others:
            return None
        target = find_target(self._options.target) if self._options.target else None
        if target is None and torch.cuda.is_available():
            target = card(torch.device("cuda"))
        figures = [] if target is None else [target.name, *(str(f.value) for f in target.figures())]
        around = [str(k.get()) for k in knobs.KNOBS]
        return json.dumps(
            [digest_of_sources(), repr(self._options), figures, around, *map(repr, others)]
        )


@contextmanager
def _compiling(kind: str | None) -> Iterator[None]:
    token = _KIND.set(kind)
    try:
        yield
    finally:
        _KIND.reset(token)


def _inner(
    options: Options, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **how: Any
) -> Any:
    """Compile one graph, forward or backward; the last arguments are those of Inductor's function of this name."""
    kind = "backward" if how.get("is_backward") else "forward"
    if how.get("is_inference"):
        kind = "inference"
    device = device_among(n.meta.get("val") for n in gm.graph.nodes)
    if device.type != "cuda" and is_triton(target_of(options, device)):
        return _node_by_node(gm, example_inputs, kind)
    again = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    try:
        with _compiling(kind):
            return compile_fx_inner(gm, example_inputs, **how)
    except AutofuseError:
        raise
    except Exception as e:
        # A compiler fails on a kernel in many ways.  Whether it was one of ours shows without them.
        with _compiling(None):
            found = compile_fx_inner(again, example_inputs, **how)
        why = f"a kernel is rejected: {type(e).__name__}: {e}"
        cut_around(AutofuseError.of("AF5002", why), "Inductor")
        return found


def _node_by_node(
    gm: torch.fx.GraphModule, example_inputs: Sequence[Any], kind: str
) -> Callable[..., Any]:
    """Return the graph after Inductor's passes, as a function that PyTorch runs node by node."""
    from functorch.compile import make_boxed_func

    fake = torch._guards.detect_fake_mode(example_inputs)
    with V.set_fake_mode(fake), _compiling(kind):
        post_grad_passes(gm, kind == "inference")
    return make_boxed_func(gm.forward)
