"""Kernels of regions: made once for equal graphs, and called with addresses and sizes."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from autofuse import api
from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import ExprError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import json_text, to_json
from autofuse.torch.options import Options

__all__ = ["Built", "Runnable", "built_for", "traffic"]

#: Kernels that a process keeps at hand; others are found in the cache folder.
_KEPT = 1024


class Runnable(Protocol):
    """A kernel that can be called."""

    def run(
        self,
        symbols: Sequence[int],
        pointers: Sequence[int],
        threads: int,
        sizes: Sequence[int],
        inputs: int,
    ) -> tuple[int, str]:
        """Tiling and launch.

        Args:
            symbols: sizes in the order of the graph.
            pointers: addresses of inputs and outputs in the order of the graph.
            threads: that the twin may use; 0 for one per CPU.
            sizes: bytes that each pointer may be followed by; the twin checks every access.
            inputs: how many of the pointers are only read; they come first.

        Returns:
            (0, ""), or a status and a text: words, or what the twin found, as JSON.
        """


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel of a region.

    Attributes:
        result: what the library made of the graph.
        kernel: the loaded kernel.
        device: ``cpu`` for the twin, or ``npu``.
    """

    result: api.SplitResult
    kernel: Runnable
    device: str


class _Cache:
    """Kernels by graph and options; equal ones are made once, also when several threads ask."""

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


def built_for(graph: FusionGraph, options: Options, device: str) -> Built:
    """The kernel of a graph.

    Raises:
        AutofuseError: the library refuses the graph, or it cannot be compiled.
    """
    # The name of a compiler may change while a process runs, as in tests.
    around = [options.target, options.opt, device, *(str(k.get()) for k in knobs.KNOBS)]
    key = json.dumps([json_text(to_json(graph), indent=0), around])
    return _CACHE.get(key, lambda: _built(graph, options, device))


def _built(graph: FusionGraph, options: Options, device: str) -> Built:
    result = api.build_split(graph, target=options.target)
    if device == "npu":
        from autofuse.torch.npu import NpuKernel

        return Built(result, NpuKernel(result), device)
    import importlib

    path = _library(result, options)
    try:
        # The extension module has no stub in the source tree.
        kernel: Runnable = importlib.import_module("autofuse._twin").Kernel(str(path))
    except (ImportError, RuntimeError) as e:
        raise AutofuseError.of("AF5003", f"the library cannot be loaded: {e}") from e
    return Built(result, kernel, device)


def _library(result: api.SplitResult, options: Options) -> Path:
    from autofuse.twin.run.compile import compile_kernel
    from autofuse.twin.verify.split import load_split, read_parts

    opt = options.opt or None
    parts = read_parts(result.files, result.name)
    if parts:
        return load_split(result.files, result.graph, parts, opt=opt).path
    return compile_kernel(result.files, result.name, opt=opt)


def traffic(result: api.SplitResult, sizes: Mapping[str, int]) -> int | None:
    """Bytes that the kernel moves between GM and UB by the model; None where no template is legal.

    Args:
        result: what was built.
        sizes: a value for every symbol.
    """
    from autofuse.schedule.search.costs import Costs

    total = 0
    for part in result.parts:
        own = {s.name: sizes[s.name] for s in part.graph.symbols}
        costs = Costs(result.target)
        for group in part.schedule[0].groups:
            moved = [_moved(impl, costs, own) for impl in group.impls]
            known = [m for m in moved if m is not None]
            if not known:
                return None
            total += min(known)
    return total


def _moved(impl: Any, costs: Any, sizes: Mapping[str, int]) -> int | None:
    from autofuse.schedule.search.solver import solve_template
    from autofuse.schedule.search.workload import workload

    try:
        found = solve_template(impl, costs, sizes)
        if found is None:
            return None
        t = workload(impl, costs.target, sizes, found.tile, per_core=found.per_core).traffic
    except ExprError:
        return None
    return t.read + t.reread + t.written
