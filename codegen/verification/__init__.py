"""Static verification of KernelIR: proofs about every template before a compiler sees it.

:data:`CHECKS` lists the checks; each is a generator of findings over a :class:`Kernel`, a function with its template in
terms of a few variables.  A finding is an obligation that fails (with sizes for which it does, if found) or one without
a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.codegen.ir.kernel_ir import KernelFn
from autofuse.codegen.lower.kernel import lower_templates
from autofuse.codegen.passes import run_passes
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.codegen.verification.accumulators import (
    accumulators_are_read_in_order,
    elements_are_counted,
    sums_go_on_in_order,
)
from autofuse.codegen.verification.available import calls_are_available
from autofuse.codegen.verification.banks import buffers_start_in_their_banks
from autofuse.codegen.verification.cover import (
    copies_move_their_region,
    cores_share_the_tiles,
    in_place_regions_agree,
    indices_are_their_operands,
    loads_are_inside_their_tensor,
    stores_cover_their_output,
    tensors_are_their_parameters,
)
from autofuse.codegen.verification.groups import (
    cores_have_a_place_to_meet,
    cores_meet_between_groups,
    outputs_have_one_writer,
)
from autofuse.codegen.verification.integers import divisors_are_positive, integers_do_not_overflow
from autofuse.codegen.verification.order import (
    barriers_and_events,
    buffers_hold_their_tensors,
    event_ids_suffice,
    queue_protocol,
    queues_are_within_limits,
)
from autofuse.codegen.verification.pieces import pieces_cover_their_output
from autofuse.codegen.verification.ranges import (
    buffers_equal_the_plan,
    calls_cover_the_tile,
    calls_fit_their_buffers,
    calls_match_their_nodes,
    copies_fit_their_buffers,
    dma_fields_do_not_truncate,
    ub_is_within_its_limit,
)
from autofuse.codegen.verification.registers import functions_on_registers_are_whole
from autofuse.codegen.verification.staggered import steps_have_no_order
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.targets import TargetSpec

__all__ = [
    "CHECKS",
    "GROUP_CHECKS",
    "check_kernel",
    "check_schedule",
    "verify_kernel",
    "verify_schedule",
]

#: All checks, in the order of their findings.
CHECKS: tuple[Callable[[Kernel], Iterator[Finding]], ...] = (
    queue_protocol,
    queues_are_within_limits,
    event_ids_suffice,
    buffers_hold_their_tensors,
    barriers_and_events,
    buffers_equal_the_plan,
    ub_is_within_its_limit,
    buffers_start_in_their_banks,
    calls_match_their_nodes,
    calls_are_available,
    functions_on_registers_are_whole,
    calls_cover_the_tile,
    calls_fit_their_buffers,
    accumulators_are_read_in_order,
    elements_are_counted,
    steps_have_no_order,
    cores_share_the_tiles,
    sums_go_on_in_order,
    tensors_are_their_parameters,
    indices_are_their_operands,
    copies_move_their_region,
    copies_fit_their_buffers,
    dma_fields_do_not_truncate,
    stores_cover_their_output,
    loads_are_inside_their_tensor,
    in_place_regions_agree,
    divisors_are_positive,
    integers_do_not_overflow,
)

#: All checks of the groups of a kernel, which run before those of its functions.
GROUP_CHECKS: tuple[Callable[[FusionGraph, ScheduleResult], Iterator[Finding]], ...] = (
    outputs_have_one_writer,
    pieces_cover_their_output,
    cores_meet_between_groups,
)


def verify_kernel(
    fn: KernelFn, impl: ImplGraph, graph: FusionGraph | None, target: TargetSpec
) -> list[Diagnostic]:
    """Return all findings on one function, as AF4001.

    Args:
        fn: function after all passes.
        impl: its template.
        graph: graph of the kernel, which gives the sizes of its tensors; without it, GM bounds are not checked.
        target: chip.

    Returns:
        Errors, for obligations that fail, and notes, for those neither proved nor refuted; empty if everything is
        proved.
    """
    kernel = Kernel(fn, impl, graph, target)
    return [_diagnostic(fn, one.__name__, f) for one in CHECKS for f in one(kernel)]


def check_kernel(
    fn: KernelFn, impl: ImplGraph, graph: FusionGraph | None, target: TargetSpec
) -> None:
    """Raise the errors of :func:`verify_kernel`.

    Raises:
        AutofuseError: AF4001, if an obligation fails.
    """
    errors = [d for d in verify_kernel(fn, impl, graph, target) if d.severity == "error"]
    if errors:
        raise AutofuseError(errors)


def verify_schedule(
    graph: FusionGraph,
    results: Iterable[ScheduleResult],
    target: TargetSpec,
    functions: Mapping[str, KernelFn] | None = None,
) -> list[Diagnostic]:
    """Return all findings on the functions of a kernel, and on the interaction of its groups.

    Args:
        graph: graph of the kernel.
        results: its schedule.
        target: chip.
        functions: emitted functions, by the name of the template; None: generate them here, for a schedule that is not
            emitted.
    """
    results = tuple(results)
    if functions is None:
        lowered = lower_templates(graph, results, target)
        functions = {name: run_passes(fn) for name, fn in lowered.items()}
    found: list[Diagnostic] = []
    for r in results:
        for check in GROUP_CHECKS:
            found += [_between(graph, check.__name__, f) for f in check(graph, r)]
        meets = cores_have_a_place_to_meet
        found += [_between(graph, meets.__name__, f) for f in meets(graph, r, target)]
        for impl in (i for g in r.groups for i in g.impls):
            found += verify_kernel(functions[impl.name], impl, graph, target)
    return found


def check_schedule(
    graph: FusionGraph,
    results: Iterable[ScheduleResult],
    target: TargetSpec,
    functions: Mapping[str, KernelFn] | None = None,
) -> None:
    """Raise the errors of :func:`verify_schedule`.

    Raises:
        AutofuseError: AF4001, if an obligation fails.
    """
    found = verify_schedule(graph, results, target, functions)
    errors = [d for d in found if d.severity == "error"]
    if errors:
        raise AutofuseError(errors)


def _between(graph: FusionGraph, check: str, f: Finding) -> Diagnostic:
    notes = (f"kernel {graph.name}", f"check {check}")
    return Diagnostic("AF4001", f.message, Where(node=f.node), notes=notes)


def _diagnostic(fn: KernelFn, check: str, f: Finding) -> Diagnostic:
    notes: Iterable[str] = (f"function {fn.name}", f"check {check}")
    if f.values is not None:
        values = ", ".join(f"{k.removeprefix('%')} = {v}" for k, v in f.values.items())
        notes = (*notes, f"fails for {values}" if values else "fails for all sizes")
    message = f.message if f.refuted else f"not proved: {f.message}"
    return Diagnostic(
        "AF4001",
        message,
        Where(node=f.node),
        notes=tuple(notes),
        severity="error" if f.refuted else "note",
    )
