"""Replace regions of a graph with calls of kernels that take addresses: on the twin, a chip, or a second witness."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.torch import report as reports
from autofuse.clients.torch.devices.programs import LoopsProgram, OperatorProgram, TritonProgram
from autofuse.clients.torch.options import Options
from autofuse.clients.torch.partition import Candidate, kind_of
from autofuse.clients.torch.region import Region
from autofuse.clients.torch.selection import Made, select
from autofuse.failures import cut_around
from autofuse.frontends.builder import topological_order

__all__ = ["compile_graph"]


def compile_graph(
    gm: torch.fx.GraphModule, options: Options, kind: str = "graph"
) -> torch.fx.GraphModule:
    """Return the graph with a kernel in place of every region that can have one.

    Args:
        gm: a functional graph from AOTAutograd; every node has its value in ``meta["val"]``.
        options: options of the backend.
        kind: ``forward``, ``backward`` or ``inference``, for the report.

    Raises:
        AutofuseError: as :func:`autofuse.clients.torch.selection.select`.
    """
    made, found = select(gm, options, kind)
    return _assembled(gm, made, options, found)


def _assembled(
    gm: torch.fx.GraphModule,
    made: Sequence[Made],
    options: Options,
    found: reports.GraphReport,
) -> torch.fx.GraphModule:
    """Return the graph with calls of the regions."""
    nodes = list(gm.graph.nodes)
    at = {n: i for i, n in enumerate(nodes)}
    owner = {n: m for m in made for n in m.candidate.nodes}
    written = {n for m in made for n in m.candidate.outputs}
    outside = {n for m in made for n in m.candidate.outside}
    # A step is a region, or a node that PyTorch runs.
    steps: list[Made | torch.fx.Node] = [*made]
    steps += [n for n in nodes if n not in owner or n in outside]
    steps.sort(key=lambda s: at[s.candidate.nodes[0] if isinstance(s, Made) else s])
    place = {id(s): i for i, s in enumerate(steps)}

    def maker(n: torch.fx.Node) -> int:
        """Return the step that provides a node's result to others."""
        m = owner.get(n)
        return place[id(m if m is not None and n in written else n)]

    edges = [
        [maker(n) for n in (s.arguments if isinstance(s, Made) else s.all_input_nodes)]
        for s in steps
    ]
    order, stuck = topological_order(edges)
    assert not stuck, "regions form a cycle"
    graph = torch.fx.Graph()
    env: dict[torch.fx.Node, torch.fx.Node] = {}
    root = torch.nn.Module()
    for i in order:
        step = steps[i]
        if not isinstance(step, Made):
            # Outputs of a region already exist.
            copy = graph.node_copy(step, lambda n: env[n])
            env[step] = copy
            continue
        name = f"region_{len(root._modules)}"
        how = (
            step.lowered,
            step.arguments,
            step.places,
            _eager(step.candidate, step.arguments),
            functools.partial(_refused_call, found, options),
        )
        kernel = step.built.kernel
        assert not isinstance(kernel, TritonProgram | LoopsProgram | OperatorProgram)
        root.add_module(name, Region(*how, kernel, options.threads))
        call = graph.call_module(name, tuple(env[n] for n in step.arguments))
        outputs = step.lowered.outputs
        if len(outputs) == 1:
            env[outputs[0].node] = call
            continue
        for k, o in enumerate(outputs):
            env[o.node] = graph.call_function(operator.getitem, (call, k))
    for n in graph.nodes:
        if n.op in ("get_attr", "call_module") and not hasattr(root, n.target.split(".")[0]):
            top = n.target.split(".")[0]
            setattr(root, top, getattr(gm, top))
    graph.eliminate_dead_code(is_impure_node=_impure)
    graph.lint()
    out = torch.fx.GraphModule(root, graph)
    # Python looks here first: the search for submodules would take longer than a region's call should.
    vars(out).update(out.named_children())
    out.meta = dict(getattr(gm, "meta", {}))
    return out


def _impure(n: torch.fx.Node) -> bool:
    """Return True if an unused node must stay: placeholders, outputs, and impure calls outside the table."""
    if n.op in ("placeholder", "output"):
        return True
    return n.op == "call_function" and kind_of(n) is None and n.is_impure()


def _refused_call(found: reports.GraphReport, options: Options, why: str, wrong: str) -> None:
    """Record that a kernel refused the sizes of a call, or that autofuse is at fault: the code says how."""
    found.at_run_time.append(why)
    if wrong:
        cut_around(AutofuseError.of(wrong, why), "PyTorch")
    if options.fallback == "error":
        raise AutofuseError.of("AF5003", why)


def _eager(c: Candidate, read: Sequence[torch.fx.Node]) -> torch.fx.GraphModule:
    """Return the nodes of a region as a separate graph, for PyTorch."""
    graph = torch.fx.Graph()
    env = {n: graph.placeholder(f"a{i}") for i, n in enumerate(read)}

    def operand(n: torch.fx.Node) -> Any:
        if n not in env:
            env[n] = graph.node_copy(n, operand)
        return env[n]

    for n in c.nodes:
        operand(n)
    results = tuple(env[n] for n in c.outputs)
    graph.output(results[0] if len(results) == 1 else results)
    return torch.fx.GraphModule(torch.nn.Module(), graph)
