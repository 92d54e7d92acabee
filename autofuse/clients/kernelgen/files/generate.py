"""The four files of an operator: kernels in Triton, the baseline in PyTorch, and two tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofuse import compiler
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.defining.shapes import accuracy_sizes, performance_sizes
from autofuse.clients.kernelgen.files.bench_tests import accuracy_test, performance_test
from autofuse.clients.kernelgen.files.cases import Cases
from autofuse.clients.kernelgen.files.naming import KERNELGEN, file_names, operator_name
from autofuse.clients.kernelgen.files.scripts import accuracy_script, performance_script
from autofuse.clients.kernelgen.pytorch.baseline import baseline_text
from autofuse.codegen.backends.triton.backend import Triton
from autofuse.codegen.backends.triton.tuning import Tuning
from autofuse.machines.gpu.loading import module_file
from autofuse.targets import GpuTarget, Target, find_target, gpu_names, load_gpu

if TYPE_CHECKING:
    from autofuse.clients.kernelgen.defining.definition import Definition

__all__ = ["four_files", "kernel_text", "triton_target"]


def four_files(
    definition: Definition, *, names: str = KERNELGEN, tuning: Tuning | None = None
) -> dict[str, str]:
    """The files of an operator, by name: kernels, baseline, accuracy test, performance test.

    Kernels and baseline have one function each, of the same name, parameters and results.  With the names of KernelGen
    the tests are functions for its module ``bench``, and its converter takes the files as they are; with those of the
    write-up of its flow they are scripts.  The files depend on the definition, the arguments and the version alone.

    Args:
        definition: of the operator.
        names: ``kernelgen`` or ``document``.
        tuning: of the kernels; None: blocks by rules.

    Raises:
        AutofuseError: AF5007, the names are not known, or Triton has no kernels for the device; AF2xxx, AF3xxx, the
            kernels or the baseline cannot be written.
    """
    graph = definition.graph
    called = file_names(operator_name(graph), names)
    target = triton_target(definition.device)
    kernel, baseline = kernel_text(definition, tuning), baseline_text(graph, definition.call)
    cases = Cases(graph, definition.call)
    small = accuracy_sizes(graph)
    large = performance_sizes(graph, definition.analysis.memory_bytes)
    if names == KERNELGEN:
        tests = accuracy_test(cases, small), performance_test(cases, large)
    else:
        device = "npu" if target.dialect == "ascend" else "cuda"
        tests = (
            accuracy_script(cases, small, large, device),
            performance_script(cases, small, large, device),
        )
    return dict(zip(called, (kernel, baseline, *tests), strict=True))


def kernel_text(definition: Definition, tuning: Tuning | None = None) -> str:
    """The file of the kernels; arguments and errors as for :func:`four_files`."""
    graph = definition.graph
    backend = Triton(tuning=tuning, call=definition.call)
    target = triton_target(definition.device)
    made = compiler.compile(graph, target, entry="plain", backend=backend)
    return made.files[module_file(graph)]


def triton_target(device: str) -> GpuTarget:
    """For what the kernels in Triton are written, where an operator is for a device.

    Args:
        device: the name of a target; for a chip of Ascend it is triton-ascend on that chip.

    Raises:
        AutofuseError: AF5006, there is no such target; AF5007, Triton has no kernels for it.
    """
    target: Target = find_target(device)
    if isinstance(target, GpuTarget):
        return target
    found = next((t for t in map(load_gpu, gpu_names()) if t.chip == target.name), None)
    if found is None:
        known = ", ".join(gpu_names())
        text = f"there are no kernels in Triton for {target.name}"
        raise AutofuseError.of("AF5007", text, hint=f"targets of Triton: {known}")
    return found
