"""Time a region and the ops around it twice: with kernels of autofuse, and compiled by Inductor alone."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.runtime.benchmarking import benchmarker
from torch._inductor.utils import BoxedBool
from torch.fx.node import map_arg

from autofuse.base import artifacts, cache
from autofuse.clients.torch.devices.programs import LoopsProgram, TritonProgram
from autofuse.clients.torch.inductor.neighbours import fuses, is_view, origin, read, siblings, users
from autofuse.clients.torch.inductor.regions import PLACE, write
from autofuse.clients.torch.inductor.sources import digest_of_sources
from autofuse.clients.torch.lower import TensorInput
from autofuse.clients.torch.ops.row import Kind
from autofuse.clients.torch.partition import kind_of
from autofuse.clients.torch.selection import Made, device_of
from autofuse.machines.gpu.timing import timed
from autofuse.machines.twin.oracle.indices import place_extents

__all__ = ["measured_gain"]

#: Measurements of each of both, in turns; the least counts.
_ROUNDS = 2
_KIND, _FILE = "choices", "times.json"
#: Microseconds, keys of the file of an entry.
_ALONE, _WITH = "inductor_us", "autofuse_us"


def measured_gain(made: Made) -> float | None:
    """Return the saved part of the time that Inductor needs for a region and the ops that it could fuse with it.

    The times are measured once and kept in the cache folder, by everything that they depend on.  Return None where they
    cannot be measured: for sizes that are known at run time only, without memory for the inputs, or if another device
    would run the kernels.

    Args:
        made: the region, in the graph of Inductor.
    """
    device = device_of(made.candidate.outputs[0])
    nodes = _piece(made)
    values = [n.meta.get("val") for x in nodes for n in (x, *x.all_input_nodes)]
    if any(_is_symbolic(v) for v in values):
        return None
    if isinstance(made.built.kernel, TritonProgram) and device.type != "cuda":
        return None
    program = made.built.kernel
    assert isinstance(program, TritonProgram | LoopsProgram)
    figures = [program.target.name, *(str(f.value) for f in program.target.figures())]
    around = [digest_of_sources(), *figures, *_around(device)]
    key = artifacts.digest(json.dumps([*around, *_described(nodes, made)]))
    found = cache.lookup(_KIND, key, _FILE)
    if found is None:
        try:
            # Before the entry is locked: kernels are entries, too.
            text = json.dumps(_times(made, nodes, device))
        except torch.OutOfMemoryError:
            return None
        found = cache.entry(_KIND, key, _FILE, lambda folder: _write(folder / _FILE, text))
    times = json.loads((found / _FILE).read_text(encoding="utf-8"))
    return 1.0 - float(times[_WITH]) / float(times[_ALONE])


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


# what is measured -----------------------------------------------------------------------------


def _piece(made: Made) -> list[torch.fx.Node]:
    """Return the nodes of a region and of its neighbours that Inductor could fuse with it, in graph order."""
    found = set(made.candidate.nodes)
    for n in read(made):
        if fuses(origin(n)) and not _reads_places(origin(n), found):
            found.update(_views_up_to(n, origin(n)))
    beside = [(o, u) for o in made.candidate.outputs for u in users(o) if fuses(u)]
    beside += [(origin(n), u) for n, others in siblings(made).items() for u in others]
    for shared, u in beside:
        if u not in found and not _reads_places(u, found):
            given = [v for x in u.all_input_nodes for v in _views_up_to(x, shared)]
            found.update([u, *(v for v in given if v is not shared)])
    return [n for n in made.candidate.nodes[0].graph.nodes if n in found]


def _views_up_to(n: torch.fx.Node, end: torch.fx.Node) -> list[torch.fx.Node]:
    """Return ``end`` and the views from it to ``n``; nothing if ``n`` is no view of it."""
    passed = [n]
    while passed[-1] is not end:
        if not is_view(passed[-1]):
            return []
        passed.append(passed[-1].all_input_nodes[0])
    return passed


def _reads_places(n: torch.fx.Node, inside: set[torch.fx.Node]) -> bool:
    """Return True if a neighbour reads integers from outside, whose valid values are not known."""
    values = [x.meta.get("val") for x in n.all_input_nodes if x not in inside]
    return any(
        isinstance(v, torch.Tensor) and not v.is_floating_point() and v.dtype is not torch.bool
        for v in values
    )


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(not isinstance(s, int) for s in (*value.shape, *value.stride()))
    if isinstance(value, list | tuple):
        return any(map(_is_symbolic, value))
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _around(device: torch.device) -> list[str]:
    """Return what times depend on besides the ops."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = f"{torch.backends.cpu.get_cpu_capability()} {torch.get_num_threads()}"
    tuned = (config.max_autotune, config.max_autotune_pointwise, config.coordinate_descent_tuning)
    return [torch.__version__, name, *map(str, tuned)]


def _described(nodes: Sequence[torch.fx.Node], made: Made) -> Iterator[str]:
    """Yield the ops, equal for equal pieces: nodes and arguments by their position, tensors by what they look like."""
    place = {n: str(i) for i, n in enumerate(nodes)}
    inside = set(made.candidate.nodes) - set(made.candidate.outside)
    given: dict[torch.fx.Node, str] = {}

    def named(x: torch.fx.Node) -> str:
        if x in place:
            return place[x]
        return given.setdefault(x, f"given {len(given)} {_looks(x.meta.get('val'))}")

    for n in nodes:
        args, kwargs = map_arg((n.args, n.kwargs), named)
        seen = any(u not in place for u in n.users)
        yield f"{n.target} {args} {kwargs} {_looks(n.meta.get('val'))} {seen} {n in inside}"


def _looks(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)}{list(value.stride())}"
    return [_looks(v) for v in value] if isinstance(value, list | tuple) else value


# both ways ------------------------------------------------------------------------------------


def _times(made: Made, nodes: Sequence[torch.fx.Node], device: torch.device) -> dict[str, float]:
    """Return the microseconds of both ways."""
    ways = {_ALONE: _Copy(nodes, None), _WITH: _Copy(nodes, made)}
    calls = {name: way.compiled() for name, way in ways.items()}
    tops = _tops(made)
    named = dict.fromkeys(n for way in ways.values() for n in way.given)
    data = {n: _data(n.meta["val"], tops.get(n)) for n in named}
    found = dict.fromkeys(ways, float("inf"))
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            given = [data[n] for n in way.given]
            # A function that Inductor has compiled empties the list of its arguments.
            call = functools.partial(lambda f, own: f(list(own)), calls[name], given)
            found[name] = min(found[name], _us(call, device))
    return found


def _us(call: Any, device: torch.device) -> float:
    if device.type == "cuda":
        return timed(call, device).us
    return 1e3 * float(benchmarker.benchmark_cpu(call))


def _tops(made: Made) -> dict[torch.fx.Node, int]:
    """Return the number of valid values of every input that holds indices."""
    graph = made.lowered.graph
    extents = place_extents(graph)
    return {
        how.node: max(int(extents[name].value), 1)
        for name, how in zip(graph.inputs, made.lowered.inputs, strict=True)
        if name in extents and isinstance(how, TensorInput)
    }


def _data(value: torch.Tensor, top: int | None) -> torch.Tensor:
    """Return a tensor like another one that is valid for every op: numbers above 0, or indices below ``top``."""
    length = 1 + sum(max(n - 1, 0) * s for n, s in zip(value.shape, value.stride(), strict=True))
    if value.is_floating_point():
        flat = torch.rand(length, device=value.device).add_(0.125)
    else:
        low, top = (0, top) if top is not None else (0, 2) if value.dtype is torch.bool else (1, 2)
        flat = torch.randint(low, top, (length,), device=value.device)
    return flat.to(value.dtype).as_strided(value.shape, value.stride())


class _Copy:
    """A graph of some nodes of another one.

    Args:
        nodes: the nodes, in graph order.
        made: a region among them that kernels compute; None for none.
    """

    def __init__(self, nodes: Sequence[torch.fx.Node], made: Made | None) -> None:
        self.graph = torch.fx.Graph()
        self.given: list[torch.fx.Node] = []
        self._now: dict[torch.fx.Node, torch.fx.Node] = {}
        inside = set(nodes)
        region: set[torch.fx.Node] = set()
        if made is not None:
            region = set(made.candidate.nodes) - set(made.candidate.outside)
        later = _behind(nodes, region)
        for n in nodes:
            if n not in region and n not in later:
                self._copy(n)
        if made is not None:
            for x in made.arguments:
                self._find(x)
            written = write(self.graph, made, self._now)
            self._now.update(
                (o.node, y) for o, y in zip(made.lowered.outputs, written, strict=True)
            )
        for n in nodes:
            if n in later:
                self._copy(n)
        seen = [n for n in nodes if any(u not in inside for u in n.users)]
        self.graph.output([self._now[n] for n in seen])

    def compiled(self) -> Any:
        """Return the graph compiled by Inductor, without further regions."""
        gm = torch.fx.GraphModule({}, self.graph)
        fakes = [n.meta["val"] for n in self.given]
        # The graph outside is being compiled: what is noted about its strides is not about this one.
        with torch._guards.tracing(None), config.patch({PLACE: None}):
            return compile_fx_inner(gm, fakes, cudagraphs=BoxedBool(False), is_inference=True)

    def _copy(self, n: torch.fx.Node) -> None:
        self._now[n] = self.graph.node_copy(n, self._find)

    def _find(self, n: torch.fx.Node) -> torch.fx.Node:
        """Return what stands for a node; an argument of the graph for one from outside that is no constant."""
        if n not in self._now:
            if kind_of(n) is Kind.CREATE:
                self._copy(n)
                return self._now[n]
            with self.graph.inserting_before(next(iter(self.graph.nodes), None)):
                made = self.graph.placeholder(f"given_{len(self.given)}")
            made.meta["val"] = n.meta["val"]
            self.given.insert(0, n)
            self._now[n] = made
        return self._now[n]


def _behind(nodes: Sequence[torch.fx.Node], region: set[torch.fx.Node]) -> set[torch.fx.Node]:
    """Return the nodes that need results of a region."""
    found: set[torch.fx.Node] = set()
    for n in nodes:
        if n not in region and any(x in region or x in found for x in n.all_input_nodes):
            found.add(n)
    return found
