"""Jobs of the kit's worker processes: compile a kernel, run or time one on the chip, probe the chip.

A failure on the chip is a regular result, with a state and a code. Messages of compilers and drivers may contain paths,
so they are shown on the user's screen but never put into a bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from autofuse.api import build
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.npu.acl import open_acl
from autofuse.machines.npu.building import compile_for_chip
from autofuse.machines.npu.cann import find_cann
from autofuse.machines.npu.codes import AclError, Kind
from autofuse.machines.npu.device import chip_at, parse_devices
from autofuse.machines.npu.kernel import NpuKernel
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.run.native import StatusError
from autofuse.measure.calibration.cases import Case
from autofuse.measure.calibration.folder import program_files, program_graph
from autofuse.measure.calibration.programs import checked_parameters, program_of
from autofuse.measure.silicon.comparing import compared
from autofuse.measure.silicon.graphs import Subject
from autofuse.measure.silicon.units import Unit, find_unit
from autofuse.results import BuildResult
from autofuse.schedule.axes.result import tiling_keys
from autofuse.targets import TargetSpec, load_target

__all__ = ["COMPILE", "PROBE", "RUN", "compile_job", "probe_job", "run_job", "unfinished_row"]

COMPILE, RUN, PROBE = (
    f"autofuse.measure.silicon.jobs:{n}_job" for n in ("compile", "run", "probe")
)
#: Time limit in seconds for an idle chip to answer.
_ANSWER_S = 10.0
_STATES = {Kind.TIMEOUT: "timeout", Kind.LOST: "lost"}


def compile_job(item: Mapping[str, Any]) -> None:
    """Compile the kernel of a unit ahead of its run; a failure is reported when it runs."""
    try:
        target = load_target(item["target"])
        files, graph = _kernel_of(find_unit(item["unit"], target), target)
        compile_for_chip(files, graph.name, target.npu_arch, find_cann())
    except AutofuseError:
        pass


def probe_job(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of the chip, if it answers.

    Raises:
        AutofuseError: AF5011 or AF5012, the chip does not answer; AF5007, it is missing, or ``device`` names several.
    """
    indices = parse_devices(item["device"])
    if len(indices) != 1:
        text = f"the kit runs on one chip, not on {item['device']}"
        raise AutofuseError.of("AF5007", text, hint="npu:0 is the first one")
    cann = find_cann()
    with open_acl(cann.library).device(indices[0]) as device:
        device.wait(_ANSWER_S)
    return chip_at(cann, indices[0]).to_json()


def run_job(item: Mapping[str, Any]) -> dict[str, Any]:
    """Run one unit on the chip.

    Args:
        item: ``unit``, ``target``, ``device``, ``limit`` (seconds of a launch), ``seed``, ``repeats``.

    Returns:
        ``rows`` as in a bundle, empty if the target does not claim the op; and after a failure ``text`` for the screen.
    """
    target = load_target(item["target"])
    unit = find_unit(item["unit"], target)
    if unit.subject is not None and not unit.subject.is_claimed(target):
        return {"rows": [], "text": ""}
    try:
        return {"rows": list(_rows(unit, target, item)), "text": ""}
    except AclError as e:
        state, code = _STATES.get(e.kind, "failed"), "AF5012"
        return {"rows": [unfinished_row(unit, target, state, code)], "text": str(e)}
    except AutofuseError as e:
        code = e.diagnostics[0].code
        return {"rows": [unfinished_row(unit, target, "failed", code)], "text": str(e)}


def unfinished_row(unit: Unit, target: TargetSpec, state: str, code: str | None) -> dict[str, Any]:
    """Return the row of a unit without a result."""
    code_of = {} if code is None else {"code": code}
    if unit.case is not None:
        return {**_about_case(unit.case, target), "state": state, **code_of}
    assert unit.subject is not None
    return {**_about(unit.subject, unit.name, unit.subject.about), "state": state, **code_of}


def _about_case(case: Case, target: TargetSpec) -> dict[str, Any]:
    return {
        "case": case.name,
        "program": case.program,
        "parameters": dict(case.parameters),
        "l2": case.l2,
        "model_us": case.model_us(target),
    }


def _about(subject: Subject, name: str, about: str) -> dict[str, Any]:
    return {"case": name, "kind": subject.kind, "subject": about, "dtype": subject.dtype}


def _rows(unit: Unit, target: TargetSpec, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if unit.case is not None:
        yield _timed(unit.case, target, item)
        return
    assert unit.subject is not None
    yield from _compared(unit.subject, target, item)


def _kernel_of(unit: Unit, target: TargetSpec) -> tuple[Mapping[str, str], FusionGraph]:
    if unit.case is not None:
        program = program_of(unit.case.program)
        return program_files(program, target), program_graph(program)
    assert unit.subject is not None
    built = build(unit.subject.graph(), target=target)
    return built.files, built.graph


@lru_cache(maxsize=1)
def _calibration_kernel(program: str, target: TargetSpec, device: str, limit: float) -> NpuKernel:
    """Cache one kernel: cases of a kernel follow each other."""
    found = program_of(program)
    files = program_files(found, target)
    return NpuKernel(files, program_graph(found), device, timeout=limit)


def _timed(case: Case, target: TargetSpec, item: Mapping[str, Any]) -> dict[str, Any]:
    """Time a calibration kernel; a wrong result has no time."""
    program = program_of(case.program)
    sizes = checked_parameters(program, case.parameters, target)
    kernel = _calibration_kernel(case.program, target, item["device"], item["limit"])
    row = _about_case(case, target)
    here = kernel.chip.cores
    if here is not None and sizes["cores"] > here:
        return {**row, "state": "skipped"}
    source = program.input(sizes)
    # Inputs at one address are one tensor on the chip as well.
    inputs = {} if source is None else {n: source.copy() for n in program.inputs}
    run = kernel.run(inputs, symbols=sizes)
    if not program.is_right(run.outputs["y"], source, sizes):
        return {**row, "state": "wrong", "code": "AF6001"}
    times = kernel.time(inputs, repeats=item["repeats"], l2=case.l2, symbols=sizes)
    return {**row, "state": "measured", "times_us": times}


def _compared(
    subject: Subject, target: TargetSpec, item: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Compare a generated kernel with NumPy: a template family with every tiling key, others with the host's choice."""
    built = build(subject.graph(), target=target)
    kernel = NpuKernel.load(built, item["device"], timeout=item["limit"])
    sizes = subject.sizes()
    for ending, inputs in subject.inputs(built.graph, item["seed"]):
        reference = evaluate(built.graph, inputs, sizes, flushes=bool(target.arch.flushes))
        for key, about in _keys(subject, built):
            try:
                run = kernel.run({k: x.copy() for k, x in inputs.items()}, symbols=sizes, key=key)
            except StatusError as e:
                if key is None or not e.not_applicable:
                    raise
                continue
            for o in built.graph.outputs:
                dtype = built.graph.tensors[o.tensor].dtype
                name = f"{subject.name}{ending}" + ("" if key is None else f".key{key}")
                found = compared(run.outputs[o.name], reference[o.name], dtype, inputs)
                yield {**_about(subject, name, about), **found}


def _keys(subject: Subject, built: BuildResult) -> list[tuple[int | None, str]]:
    """Return the tiling keys to run, each with the subject of its row."""
    if subject.kind != "template":
        return [(None, subject.about)]
    out: list[tuple[int | None, str]] = []
    for key, choice in enumerate(tiling_keys(built.schedule)):
        names = dict.fromkeys(
            f"{i.template}_{i.suffix}" if i.suffix else i.template for i in choice
        )
        out.append((key, "_and_".join(names)[:120]))
    return out
