"""Plan of the code generator for an operator: Triton kernels with their blocks, or Ascend C templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autofuse import compiler
from autofuse.base.wording import counted
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.summary import plan_summary
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.report.explanation import explain
from autofuse.targets import Target, ascend_chip, gpu_target

__all__ = ["Part", "planned"]


@dataclass(frozen=True, slots=True)
class Part:
    """A Triton kernel, or the template chosen for an Ascend C group, at given sizes.

    Attributes:
        name: name of the kernel or the template.
        form: how it iterates over the tensors.
        over: rows and columns, in elements; empty for a template.
        block: elements that a program holds, or a core at a time.
        programs: programs of the grid, or cores with the tiles of each, in words.
        units: programs that fill the device: two per multiprocessor, or the cores.
        filled: number of programs, or of cores in use.
        warps: warps per block; 0 for Ascend C.
        passes: number of passes over the columns.
        scratch_bytes: bytes that kernels pass to each other.
        limit: bottleneck of the template by the model; empty for Triton.
        choices: tilings that the generated code chooses from at run time.
    """

    name: str
    form: str
    over: str
    block: str
    programs: str
    units: int
    filled: int
    warps: int
    passes: int
    scratch_bytes: int
    limit: str
    choices: int


def planned(graph: FusionGraph, target: Target, sizes: Mapping[str, int]) -> tuple[Part, ...]:
    """Return the parts that run at given sizes.

    Args:
        graph: the formula.
        target: target of the plan.
        sizes: sizes of the symbols, in elements.

    Raises:
        AutofuseError: AF2xxx, AF3xxx: no kernel exists for the graph.
    """
    run = compiler.Stages()
    return _PLANNED[target.backend](graph, target, sizes, run)


def _triton(
    graph: FusionGraph, planned_for: Target, sizes: Mapping[str, int], run: compiler.Stages
) -> tuple[Part, ...]:
    target = gpu_target(planned_for)
    masks = compiler.prepare(target, "launch", None)[0].capabilities.masks
    program = plan(graph, compiler.lower_to_plan(graph, run, masks=masks), target)
    factor = 2 if target.dialect == "cuda" else 1
    out = []
    for k in plan_summary(program, sizes):
        if not k["launched"]:
            continue
        flat = k["form"] == "items"
        over, block = [k["rows"], k["cols"]][: 1 if flat else 2], k["block"][: 1 if flat else 2]
        if k["cluster"] > 1:
            block = [k["cluster"], *block]
        out.append(
            Part(
                k["name"],
                k["form"] + (" in a cluster" if k["cluster"] > 1 else ""),
                " x ".join(map(str, over)),
                " x ".join(map(str, block)),
                f"{counted(k['programs'], 'program')}",
                factor * target.multiprocessors,
                k["programs"] * k["cluster"],
                k["warps"],
                k["passes"],
                k["scratch_bytes"],
                "",
                1,
            )
        )
    return tuple(out)


def _ascend(
    graph: FusionGraph, planned_for: Target, sizes: Mapping[str, int], run: compiler.Stages
) -> tuple[Part, ...]:
    target = ascend_chip(planned_for)
    found = explain(graph.label, compiler.schedule(graph, target, run), target, sizes, graph)
    out = []
    for r in found["results"]:
        for g in r["groups"] if r["chosen"] else ():
            legal = [t for t in g["templates"] if t["legal"]]
            for t in legal:
                if not t["chosen"]:
                    continue
                out.append(
                    Part(
                        t["title"],
                        t["template"],
                        "",
                        f"{t['tile_axis']} x {t['tile']}",
                        f"{counted(t['cores'], 'core')} x {counted(t['tiles_per_core'], 'tile')}",
                        target.aiv_cores,
                        t["cores"],
                        0,
                        1,
                        0,
                        t["limit"],
                        len(g["templates"]),
                    )
                )
    return tuple(out)


#: Planner by the target's backend.
_PLANNED = {"triton": _triton, "ascendc": _ascend}
