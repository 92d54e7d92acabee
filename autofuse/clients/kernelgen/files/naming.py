"""Names of the four files, in two conventions, and of the operator's function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.triton.signature import entry_point
from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["DOCUMENT", "KERNELGEN", "FileNames", "file_names", "operator_name"]

#: The conventions of KernelGen and of the write-up of its flow.
KERNELGEN, DOCUMENT = "kernelgen", "document"


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names of four files.

    Attributes:
        kernel: kernels in Triton, and the function that launches them.
        baseline: the same function in PyTorch.
        accuracy: compares the two.
        performance: times the two.
    """

    kernel: str
    baseline: str
    accuracy: str
    performance: str

    def __iter__(self) -> Iterator[str]:
        return iter((self.kernel, self.baseline, self.accuracy, self.performance))


def operator_name(graph: FusionGraph) -> str:
    """Return the name of the function in all files, and of the files: an identifier without another meaning."""
    return entry_point(graph)


def file_names(operator: str, names: str = KERNELGEN) -> FileNames:
    """Return the names of the files of an operator.

    Args:
        operator: its name.
        names: ``kernelgen`` or ``document``.

    Raises:
        AutofuseError: AF5007, unknown naming convention.
    """
    if names not in (KERNELGEN, DOCUMENT):
        text = f"unknown file names {names!r}"
        raise AutofuseError.of("AF5007", text, hint=f"{KERNELGEN} or {DOCUMENT}")
    test = "test_" if names == KERNELGEN else ""
    return FileNames(
        f"{operator}_triton.py",
        f"{operator}_baseline.py",
        f"{test}{operator}_accuracy.py",
        f"{test}{operator}_performance.py",
    )
