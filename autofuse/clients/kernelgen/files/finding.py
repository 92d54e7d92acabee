"""Findings from the check of the four files, and the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RULES", "Finding"]

#: Rule -> how to fix a violation.
RULES: Mapping[str, str] = {
    "file": "write all four files: kernels, baseline, accuracy test, performance test",
    "syntax": "make it a Python module",
    "kernel": "write a function with the decorator @triton.jit and a function that launches it",
    "one-name": "rename the kernel, for example by appending _kernel: the later definition hides the earlier one",
    "decorators": "write @triton.jit, and no other decorator except @triton.autotune or @triton.heuristics",
    "launch": "launch it with kernel[grid](...)",
    "name": "give the functions of kernels and baseline the same name",
    "parameters": "give both functions the same parameters, in the same order, with the same defaults",
    "annotations": "annotate every tensor with torch.Tensor, and both functions alike",
    "returns": "give both functions the same return annotation and number of results",
    "same-function": "make both functions compute the same result from the same inputs",
    "milliseconds": "multiply seconds by 1000 before they are printed as ms",
    "clock": "use time.perf_counter: time.time jumps when the clock is set",
    "memory": "use smaller shapes: all tensors live at once must fit in device memory",
    "data": "add another distribution: a factor as a parameter, or further random functions",
    "timed-input": "time both functions with the same tensors, not with ones converted for the reference",
    "import": "import what the other files define",
    "at-sign": "remove every @ from the baseline, even in comments and strings: the converter takes it for a decorator",
    "one-function": "leave one function in the file: the converter takes the first one, or renames all",
    "only-torch": "refer only to torch and to names inside the function: the converter drops all other lines",
    "label": 'write @label("NAME"), for times @label("NAME_benchmark"), and @parametrize("...", [...])',
    "test-name": "call the tests test_NAME and NAME_benchmark",
    "one-line": "write assert_close(a, b, dtype, ...) on one line, with dtype as a plain name and no calls after it",
    "device": "write device=device, and import DEVICE as device",
    "calls": "call bench.NAME(...) for the baseline and bench.triton.NAME(...) for the kernel",
    "reference": "write to_reference(input, True): the converter replaces it by input.cpu(), whatever its arguments",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """An error in the files.

    Attributes:
        rule: a key of :data:`RULES`.
        file: name of the file.
        line: from 1; 0 for the whole file.
        what: the error.
    """

    rule: str
    file: str
    line: int
    what: str

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise KeyError(f"there is no rule {self.rule}")

    @property
    def mend(self) -> str:
        """Hint for a fix."""
        return RULES[self.rule]

    def to_json(self) -> dict[str, object]:
        """Return the finding as a JSON-ready dict."""
        return {
            "rule": self.rule,
            "file": self.file,
            "line": self.line,
            "what": self.what,
            "mend": self.mend,
        }

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.what} ({self.rule})\n  hint: {self.mend}"
