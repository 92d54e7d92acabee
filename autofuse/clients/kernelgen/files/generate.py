"""Generator of the four files of an operator: kernels in Triton, baseline in PyTorch, and two tests."""

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
    """Return the files of an operator by name: kernels, baseline, accuracy test, performance test.

    Kernels and baseline have one function each, with the same name, parameters and results.  With ``kernelgen`` names
    the tests are functions for KernelGen's module ``bench``, and its converter takes the files unchanged; with
    ``document`` names, as in the write-up of its flow, they are scripts.  The files depend only on the definition, the
    arguments and the version.

    Args:
        definition: definition of the operator.
        names: ``kernelgen`` or ``document``.
        tuning: tuning of the kernels; None: blocks chosen by rules.

    Raises:
        AutofuseError: AF5007, the names are unknown, or Triton has no kernels for the device; AF2xxx, AF3xxx, the
            kernels or the baseline cannot be generated.
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
    """Return the kernel file; arguments and errors as for :func:`four_files`."""
    graph = definition.graph
    backend = Triton(tuning=tuning, call=definition.call)
    target = triton_target(definition.device)
    made = compiler.compile(graph, target, entry="plain", backend=backend)
    return made.files[module_file(graph)]


def triton_target(device: str) -> GpuTarget:
    """Return the target of the Triton kernels for a device.

    Args:
        device: name of a target; an Ascend chip means triton-ascend on that chip.

    Raises:
        AutofuseError: AF5006, there is no such target; AF5007, Triton has no kernels for it.
    """
    target: Target = find_target(device)
    if isinstance(target, GpuTarget):
        return target
    found = next((t for t in map(load_gpu, gpu_names()) if t.chip == target.name), None)
    if found is None:
        known = ", ".join(gpu_names())
        text = f"autofuse has no Triton kernels for {target.name}"
        raise AutofuseError.of("AF5007", text, hint=f"Triton targets: {known}")
    return found
