"""Tunings drawn at random for a graph: blocks that are legal, others than the rules choose."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from triton_checks import TARGET

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.blocks import power
from autofuse.codegen.backends.triton.kernels import Form, Kernel, Program
from autofuse.codegen.backends.triton.plan import plan
from autofuse.codegen.backends.triton.tuning import KernelTuning, Tuning
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph
from autofuse.targets import load_gpu

__all__ = ["random_tuning"]

GPU = load_gpu(TARGET)
#: What is drawn for a size of a kernel; rows and columns of blocks are drawn as a share of what there is.
_DRAWN: dict[str, tuple[int, ...]] = {
    "parts": (1, 2, 16),
    "warps": (1, 2, 8, 32),
    "programs": (1, 3, 16),
    "chunks": (1, 2, 3, 32),
    "stages": (1, 2, 3),
}


def _drawn(rng: Random, k: Kernel, given: KernelTuning) -> dict[str, int]:
    """Some of the sizes of a kernel."""
    keys = rng.sample(list(given.sizes), rng.randint(1, len(given.sizes)))
    sizes = {key: rng.choice(_DRAWN[key]) for key in keys if key in _DRAWN}
    for key, axes in (("rows", k.rows), ("cols", k.cols)):
        if key in keys:
            share = 1 if (key, k.form) == ("cols", Form.ROWS) else rng.choice((1, 2, 8))
            sizes[key] = max(1, power(k.nest.count(axes).value) // share)
    return sizes


def random_tuning(rng: Random, source: api.GraphLike) -> tuple[Tuning, Program]:
    """Blocks for all kernels, and the plan with them; which kernels come next may depend on the blocks before."""
    built = api.build(source, target=GPU)
    graph, hint = built.graph, built.hint
    tuning = replace(Tuning.of(plan(graph, hint, GPU), GPU), kernels=())
    number = 0
    while True:
        program = plan(graph, hint, GPU, tuning)
        if number == len(program.kernels):
            return tuning, program
        k = program.kernels[number]
        number += 1
        given = next(g for g in Tuning.of(program, GPU).kernels if g.name == k.name)
        for _ in range(20):
            one = KernelTuning(k.name, _drawn(rng, k, given))
            wanted = replace(tuning, kernels=(*tuning.kernels, one))
            if _is_taken(graph, hint, wanted):
                tuning = wanted
                break


def _is_taken(graph: FusionGraph, hint: HintGraph, tuning: Tuning) -> bool:
    try:
        plan(graph, hint, GPU, tuning)
    except AutofuseError as e:
        if any(d.code != "AF3007" for d in e.diagnostics):
            raise
        return False
    return True
