"""Passes over KernelIR: frozen dataclasses with a ``name`` and ``__call__(fn) -> fn``."""

from __future__ import annotations

from collections.abc import Callable

from autofuse.codegen.ir.kernel_ir import KernelFn
from autofuse.codegen.passes.barriers import InsertBarriers
from autofuse.codegen.passes.name_copies import NameCopies
from autofuse.codegen.passes.syncs import InsertSyncs
from autofuse.codegen.passes.unused import RemoveUnused
from autofuse.codegen.passes.vector_functions import FormVectorFunctions

__all__ = ["PIPELINE", "run_passes"]

#: Passes between lowering and emission, in order.
PIPELINE: tuple[Callable[[KernelFn], KernelFn], ...] = (
    InsertSyncs(),
    FormVectorFunctions(),
    InsertBarriers(),
    NameCopies(),
    RemoveUnused(),
)


def run_passes(fn: KernelFn) -> KernelFn:
    """Return the function after all passes."""
    for p in PIPELINE:
        fn = p(fn)
    return fn
