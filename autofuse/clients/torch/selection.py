"""Choose the regions of a PyTorch graph that become kernels, and build these."""

from __future__ import annotations

import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch.utils._pytree import tree_leaves

from autofuse import api
from autofuse.base import knobs
from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.wording import counted
from autofuse.clients.torch import report as reports
from autofuse.clients.torch.devices.cuda import with_gaps
from autofuse.clients.torch.devices.kernels import (
    Built,
    built_for,
    is_inside_inductor,
    is_triton,
    target_for,
    traffic,
)
from autofuse.clients.torch.devices.programs import check_launcher
from autofuse.clients.torch.lower import DEVICES, Lowered, lower, refusal
from autofuse.clients.torch.ops.row import Kind
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.partition import (
    Candidate,
    apart,
    candidates,
    cheapest_cut,
    kind_of,
    views_kept_for_strides,
)
from autofuse.clients.torch.places import Place, places_of
from autofuse.clients.torch.refusal import RefusedError
from autofuse.clients.torch.sizes import hint_of
from autofuse.failures import cut_around, internal_error, is_internal

__all__ = ["Made", "device_of", "select"]

#: Maximum attempts to cut a graph again after the library refuses a part of it.
_ROUNDS = 8
#: Errors of the machine or its settings, which affect every kernel: no compiler, a variable, the cache folder.
_ABOUT_THE_MACHINE = ("AF5001", "AF5008", "AF5009")
#: Maximum length of a reason in a report.
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Made:
    """A region with a kernel.

    Attributes:
        candidate: its nodes.
        lowered: their graph.
        built: the kernel.
        arguments: nodes whose results are the region's arguments.
        places: for every symbol, where to find it among these.
        bytes: bytes moved by the model, if known.
    """

    candidate: Candidate
    lowered: Lowered
    built: Built
    arguments: Sequence[torch.fx.Node]
    places: Sequence[Place]
    bytes: int | None


def select(
    gm: torch.fx.GraphModule,
    options: Options,
    kind: str,
    judge: Callable[[Made], tuple[bool, str]] = lambda m: (True, ""),
) -> tuple[list[Made], reports.GraphReport]:
    """Return the regions of a graph with their kernels, in graph order, and the recorded report.

    Args:
        gm: a functional graph from AOTAutograd; every node has its value in ``meta["val"]``.
        options: options of the backend.
        kind: ``forward``, ``backward`` or ``inference``, for the report.
        judge: returns False for a region that stays with PyTorch although it has a kernel, and the reason either way.

    Raises:
        AutofuseError: AF5001 no compiler, AF5008 an environment variable has a wrong value, AF5009 the cache folder
            cannot be used; with ``fallback="error"`` also the library's refusals.
    """
    refused: dict[torch.fx.Node, str] = {}
    fusible: list[torch.fx.Node] = []
    on_card = any(_holds_tensor(n) and device_of(n).type != "cpu" for n in gm.graph.nodes)
    for n in gm.graph.nodes:
        if n.op != "call_function" or not _holds_tensor(n):
            continue
        if on_card and device_of(n).type == "cpu":
            refused[n] = "on the CPU, next to tensors on a card: PyTorch computes such numbers"
        elif n.target is operator.getitem or (why := _refusal(n, options)) is None:
            fusible.append(n)
        else:
            refused[n] = why
    returned = _returned(gm, kind)
    refused = views_kept_for_strides(gm.graph.nodes, fusible, returned) | refused
    place = {n: i for i, n in enumerate(gm.graph.nodes)}
    judged = [(m, *judge(m)) for m in _regions(gm, fusible, refused, options)]
    judged.sort(key=lambda j: place[j[0].candidate.nodes[0]])
    for m, taken, why in judged:
        if not taken:
            refused.update(dict.fromkeys(m.candidate.nodes, why))
    made = [m for m, taken, _ in judged if taken]
    found = reports.record(
        kind,
        _targets(gm.graph.nodes, options),
        [_summary(m, why) for m, taken, why in judged if taken],
        _left_out(gm, made, refused, options.min_ops),
    )
    if options.report or knobs.REPORT.get():
        print(found, file=sys.stderr)  # noqa: T201 - what was asked for
    return made, found


def _returned(gm: torch.fx.GraphModule, kind: str) -> list[torch.fx.Node]:
    """Return the nodes whose results the caller gets; other outputs of a forward graph are saved for backward."""
    (results,) = gm.graph.output_node().args
    context = torch._guards.TracingContext.try_get()
    if kind == "forward" and context is not None and context.fw_metadata is not None:
        results = results[: context.fw_metadata.num_forward_returns]  # type: ignore[index]
    return [n for n in tree_leaves(results) if isinstance(n, torch.fx.Node)]


def _refusal(n: torch.fx.Node, options: Options) -> str | None:
    """Return why a node cannot be in a kernel, also if checking it fails; None if it can."""
    try:
        target_for(options, device_of(n))
        return refusal(n)
    except RefusedError as e:
        return str(e.args[0])
    except (AutofuseError, MemoryError):
        raise
    except Exception as e:
        error = internal_error(e, options={"nodes": [n.format_node()]})
        cut_around(error, "PyTorch")
        return _words(error.diagnostics[0])


def _holds_tensor(n: torch.fx.Node) -> bool:
    val = n.meta.get("val")
    return isinstance(val, torch.Tensor) or (
        isinstance(val, list | tuple) and any(isinstance(v, torch.Tensor) for v in val)
    )


# regions --------------------------------------------------------------------------------------


def _regions(
    gm: torch.fx.GraphModule,
    fusible: Sequence[torch.fx.Node],
    refused: dict[torch.fx.Node, str],
    options: Options,
) -> list[Made]:
    """Return regions with their kernels; nodes that the library refuses are added to ``refused``."""
    cuts: set[torch.fx.Node] = set()
    made: list[Made] = []
    numbers = _numbers(gm.graph.nodes)
    for _ in range(_ROUNDS + 1):
        made, again = [], False
        left = [n for n in fusible if n not in refused]
        for c in candidates(gm, left, options, cuts):
            if c.work() < options.min_ops:
                continue
            try:
                found = _made(c, options, numbers)
            except RefusedError as e:
                refused.update(_blamed(c, e))
                again = True
                continue
            except AutofuseError as e:
                if is_internal(e):
                    cut_around(e, "PyTorch")
                    refused.update(dict.fromkeys(c.nodes, _words(e.diagnostics[0])))
                    again = True
                    continue
                if options.fallback == "error" or e.diagnostics[0].code in _ABOUT_THE_MACHINE:
                    raise
                refused.update(_blamed_by_library(c, e))
                again = True
                continue
            if found.bytes is not None and found.bytes > apart(c):
                # The kernel reloads values that it could have kept; smaller kernels do not.
                if c.work() > options.min_ops:
                    cuts.add(c.nodes[cheapest_cut(c.nodes, len(c.nodes)) - 1])
                else:
                    why = f"its kernel would move {counted(found.bytes, 'byte')}, the ops by themselves {apart(c)}"
                    refused.update(dict.fromkeys(c.nodes, why))
                again = True
                continue
            made.append(found)
        if not again:
            break
    return made


def _made(c: Candidate, options: Options, numbers: Mapping[str, torch.fx.Node]) -> Made:
    try:
        return _kernel_of(c, options, numbers)
    except (AutofuseError, MemoryError, RefusedError):
        raise
    except Exception as e:
        raise internal_error(e, options={"nodes": [n.format_node() for n in c.nodes]}) from e


def _kernel_of(c: Candidate, options: Options, numbers: Mapping[str, torch.fx.Node]) -> Made:
    lowered = lower(c.nodes, c.outputs)
    arguments = _arguments(c, lowered)
    places = places_of(lowered, arguments, numbers)
    # Any tensor will do: a region is connected, and no node moves data to another device.
    device = device_of(c.outputs[0])
    hints = _hints(c, numbers)
    sizes = {
        s.name: min(max(hints.get(name, 1024), s.min), s.max)
        for name, s in zip(lowered.symbols, lowered.graph.symbols, strict=True)
    }
    target = target_for(options, device)
    if is_triton(target):
        check_launcher(lowered)
    if is_inside_inductor(target, options):
        lowered = with_gaps(lowered)
        hinted = tuple(replace(s, hint=sizes[s.name]) for s in lowered.graph.symbols)
        lowered = replace(lowered, graph=replace(lowered.graph, symbols=hinted))
    built = built_for(lowered.graph, options, device)
    return Made(c, lowered, built, arguments, places, traffic(built.result, sizes))


def device_of(n: torch.fx.Node) -> torch.device:
    """Return the device of a node's result."""
    val = n.meta["val"]
    tensors = val if isinstance(val, list | tuple) else (val,)
    return next(t.device for t in tensors if isinstance(t, torch.Tensor))


def _targets(nodes: Iterable[torch.fx.Node], options: Options) -> str:
    """Return the names of the targets of a graph's kernels, for the report."""
    found: dict[str, None] = {}
    for n in nodes:
        if _holds_tensor(n) and device_of(n).type in DEVICES:
            with suppress(RefusedError):
                found[target_for(options, device_of(n)).name] = None
    return ", ".join(found) or options.target or api.DEFAULT_TARGET


def _hints(c: Candidate, numbers: Mapping[str, torch.fx.Node]) -> dict[str, int]:
    """Return the values of the symbols, and of sizes computed from them, when the graph was traced."""
    known = {name: hint_of(n.meta["val"]) for name, n in numbers.items()}
    out = {name: hint for name, hint in known.items() if hint is not None}
    for n in c.nodes:
        for x in (n, *n.all_input_nodes):
            val = x.meta.get("val")
            for size in val.shape if isinstance(val, torch.Tensor) else ():
                if not isinstance(size, int):
                    hint = hint_of(size)
                    if hint is not None:
                        out[str(size.node.expr)] = hint
    return out


def _blamed(c: Candidate, e: RefusedError) -> dict[torch.fx.Node, str]:
    why = str(e.args[0])
    nodes = [e.args[1]] if len(e.args) > 1 else list(c.nodes)
    return dict.fromkeys(nodes, why)


def _blamed_by_library(c: Candidate, e: AutofuseError) -> dict[torch.fx.Node, str]:
    """Return the nodes that the library names, or else all, with its message."""
    lowered = lower(c.nodes, c.outputs)
    out: dict[torch.fx.Node, str] = {}
    for d in e.diagnostics:
        node = lowered.sources.get(d.where.node)
        if node is not None:
            out[node] = _words(d)
    return out or dict.fromkeys(c.nodes, _words(e.diagnostics[0]))


def _words(d: Diagnostic) -> str:
    text = f"{d.message} ({d.code})"
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


# the report -----------------------------------------------------------------------------------


def _summary(m: Made, why: str) -> reports.FusedKernel:
    ops = tuple(_op(n) for n in m.candidate.nodes if n.target is not operator.getitem)
    ours = (s.name for s in m.lowered.graph.symbols)
    theirs = (f"-{n}" if n in m.lowered.negative else n for n in m.lowered.symbols)
    return reports.FusedKernel(
        m.lowered.graph.name,
        ops,
        m.built.parts,
        dict(zip(theirs, ours, strict=True)),
        m.bytes,
        apart(m.candidate),
        why,
    )


def _op(n: torch.fx.Node) -> str:
    return str(n.target).removesuffix(".default")


def _left_out(
    gm: torch.fx.GraphModule,
    made: Iterable[Made],
    refused: Mapping[torch.fx.Node, str],
    min_ops: int,
) -> Counter[tuple[str, str]]:
    """Count the ops that PyTorch runs, with reasons; views are free and omitted."""
    inside = {n for m in made for n in m.candidate.nodes}
    free = (Kind.VIEW, Kind.CREATE)
    out: Counter[tuple[str, str]] = Counter()
    for n in gm.graph.nodes:
        if n.op != "call_function" or n in inside or not _holds_tensor(n):
            continue
        if n.target is operator.getitem:  # an item of several results, not an op
            continue
        if n in refused:
            out[(_op(n), refused[n])] += 1
        elif kind_of(n) not in free:
            out[
                (_op(n), f"its region has fewer than {counted(min_ops, 'op')} (option min_ops)")
            ] += 1
    return out


def _numbers(nodes: Iterable[torch.fx.Node]) -> dict[str, torch.fx.Node]:
    """Return the arguments of the graph that are plain symbols."""
    out: dict[str, torch.fx.Node] = {}
    for n in nodes:
        val = n.meta.get("val")
        if n.op == "placeholder" and isinstance(val, torch.SymInt) and val.node.expr.is_Symbol:
            out.setdefault(val.node.expr.name, n)
    return out


def _arguments(c: Candidate, lowered: Lowered) -> list[torch.fx.Node]:
    """Return the arguments of a region: those that the kernel reads, then those that only the eager fallback reads."""
    out = dict.fromkeys(i.node for i in lowered.inputs if i.node is not None)
    inside = set(c.nodes)
    waiting = list(c.nodes)
    while waiting:
        for x in waiting.pop().all_input_nodes:
            if x in inside or x in out:
                continue
            if kind_of(x) is Kind.CREATE:
                inside.add(x)
                waiting.append(x)
            else:
                out[x] = None
    return list(out)
