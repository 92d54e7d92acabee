"""Kernels of regions: built once for equal graphs, and called with addresses and sizes."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from autofuse import api
from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch.devices.cuda import card, check_triton
from autofuse.clients.torch.devices.programs import LoopsProgram, OperatorProgram, TritonProgram
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.refusal import RefusedError
from autofuse.clients.torch.region import Runnable
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import json_text, to_json
from autofuse.targets import CpuTarget, GpuTarget, Target, ascend_chip, find_target

__all__ = [
    "Built",
    "built_for",
    "device_among",
    "is_inside_inductor",
    "is_triton",
    "key_of",
    "target_for",
    "target_of",
    "traffic",
]

#: Backend of the target -> types of devices on which its kernels can run.
_ABLE = {"ascendc": ("cpu", "npu"), "triton": ("cpu", "cuda", "npu"), "cpu": ("cpu",)}
#: Maximum number of kernels kept in a process; others are in the cache folder.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel of a region.

    Attributes:
        kernel: the loaded kernel, called with addresses, or a program that Inductor runs.
        parts: number of kernels.
        result: the library's result for the graph; None for a program of Inductor's.
    """

    kernel: Runnable | TritonProgram | LoopsProgram | OperatorProgram
    parts: int = 1
    result: api.SplitResult | None = None


class _Cache:
    """Kernels by graph and options; equal ones are built once, even if several threads request them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[str, Built] = OrderedDict()
        self._busy: dict[str, threading.Lock] = {}

    def get(self, key: str, make: Any) -> Built:
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
                return found
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            with self._lock:
                found = self._made.get(key)
            if found is None:
                found = make()
                with self._lock:
                    self._made[key] = found
                    while len(self._made) > _KEPT:
                        self._made.popitem(last=False)
            with self._lock:
                self._busy.pop(key, None)
            return found


_CACHE = _Cache()


def target_for(options: Options, device: torch.device) -> Target:
    """Return the target whose kernels compute tensors of a device.

    Raises:
        RefusedError: the target of the options has no kernels for that device.
    """
    target = target_of(options, device)
    if options.target and device.type not in {"cpu", target.home} & set(_ABLE[target.backend]):
        raise RefusedError(f"{target.name} has no kernels for tensors on {device.type}")
    return target


def device_among(values: Iterable[Any]) -> torch.device:
    """Return the device of some tensors that computes kernels: the first that is no CPU, else the CPU."""
    devices = (x.device for x in values if isinstance(x, torch.Tensor))
    return next((d for d in devices if d.type not in ("cpu", "meta")), torch.device("cpu"))


def target_of(options: Options, device: torch.device) -> Target:
    """Return the target of the options, or else that of a device."""
    if options.target:
        return find_target(options.target)
    if device.type == "cuda":
        return card(device)
    return find_target("cpu" if device.type == "cpu" else api.DEFAULT_TARGET)


def is_triton(target: Target) -> bool:
    """Return True if kernels for a target are written in Triton."""
    return isinstance(target, GpuTarget)


def is_inside_inductor(target: Target, options: Options) -> bool:
    """Return True if Inductor calls the kernels for a target."""
    return options.inductor or isinstance(target, GpuTarget | CpuTarget)


def built_for(graph: FusionGraph, options: Options, device: torch.device) -> Built:
    """Return the kernel of a graph.

    Raises:
        AutofuseError: the library refuses the graph, it cannot be compiled, or a prerequisite is missing.
        RefusedError: as :func:`target_for`.
    """
    target = target_for(options, device)
    key = key_of(graph, options, device)
    return _CACHE.get(key, lambda: _built(graph, target, options, device))


def key_of(graph: FusionGraph, options: Options, device: torch.device) -> str:
    """Return everything on which a kernel depends in this process, as text.

    Raises:
        RefusedError: as :func:`target_for`.
    """
    target = target_for(options, device)
    # The name of a compiler may change while a process runs, as in tests.
    # Two target files of the user may have the same name.
    figures = [str(f.value) for f in target.figures()] if "." in options.target else []
    how = [options.opt, str(options.inductor), device.type]
    around = [target.name, *figures, *how, *(str(k.get()) for k in knobs.KNOBS)]
    return json.dumps([json_text(to_json(graph), indent=0), around])


def _built(graph: FusionGraph, target: Target, options: Options, device: torch.device) -> Built:
    if isinstance(target, CpuTarget):
        return Built(LoopsProgram(graph, target))
    if isinstance(target, GpuTarget):
        check_triton(target.name, device)
        program = TritonProgram(graph, target)
        return Built(program, len(program.program.kernels))
    result = api.build_split(graph, target=target)
    kernel = _loaded(result, options, device)
    if options.inductor:
        return Built(
            OperatorProgram(graph, target, options, device, kernel), len(result.parts), result
        )
    return Built(kernel, len(result.parts), result)


def _loaded(result: api.SplitResult, options: Options, device: torch.device) -> Runnable:
    """Return the kernel, compiled for the machine that runs it."""
    if device.type == "npu":
        from autofuse.clients.torch.devices.npu import NpuKernel

        return NpuKernel(result)
    if knobs.DEVICE.get() != knobs.DEVICE.default:
        from autofuse.clients.torch.devices.witness import CardKernel

        return CardKernel(result)
    import importlib

    path = _library(result, options)
    try:
        # The extension module has no type stub in the source tree.
        kernel: Runnable = importlib.import_module("autofuse._twin").Kernel(str(path))
    except (ImportError, RuntimeError) as e:
        raise AutofuseError.of("AF5003", f"the library cannot be loaded: {e}") from e
    return kernel


def _library(result: api.SplitResult, options: Options) -> Path:
    from autofuse.machines.twin.run.compile import compile_kernel
    from autofuse.machines.twin.verify.split import load_split, read_parts

    opt = options.opt or None
    parts = read_parts(result.files, result.name)
    if parts:
        return load_split(result.files, result.graph, parts, opt=opt).path
    return compile_kernel(result.files, result.name, opt=opt)


def traffic(result: api.SplitResult | None, sizes: Mapping[str, int]) -> int | None:
    """Return the modelled bytes that a kernel moves between GM and UB, without loads that all cores share.

    Return None if no template is legal, or the kernel has no templates.

    Args:
        result: the build result; None if there are no templates.
        sizes: a value for every symbol.
    """
    from autofuse.schedule.search.costs import Costs

    if result is None:
        return None
    target = ascend_chip(result.target)
    total = 0
    for part in result.parts:
        own = {s.name: sizes[s.name] for s in part.graph.symbols}
        costs = Costs(target)
        for group in part.schedule[0].groups:
            moved = [_moved(impl, costs, own) for impl in group.impls]
            known = [m for m in moved if m is not None]
            if not known:
                return None
            total += min(known)
    return total


def _moved(impl: Any, costs: Any, sizes: Mapping[str, int]) -> int | None:
    from autofuse.implgraph.ir.frozen import replace
    from autofuse.schedule.placement.picking import beyond, is_run
    from autofuse.schedule.search.solver import solve_template

    found = solve_template(impl, costs, sizes)
    if found is None:
        return None
    # An unfused op, too, loads blocks for short rows: the ops by themselves are counted without.
    short = {n.name for n in impl.nodes if beyond(n) and "behind" in n.attrs and not is_run(n)}
    if short:
        rows = [
            replace(n, attrs={**n.attrs, "beyond": 0}) if n.name in short else n for n in impl.nodes
        ]
        impl = replace(impl, nodes=tuple(rows))
    form, _ = costs.bound(impl, sizes, None)
    shares = form.shares(costs.chip, found.tile, found.per_core)
    # L2 serves tensors that all cores load; an unfused op loads each of them once.
    return round(shares.bytes - shares.common)
