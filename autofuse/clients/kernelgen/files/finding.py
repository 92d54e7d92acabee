"""Findings of the check of the four files, and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RULES", "Finding"]

#: Rule -> how to mend what breaks it.
RULES: Mapping[str, str] = {
    "file": "write all four files: kernels, baseline, accuracy test, performance test",
    "syntax": "make it a module of Python",
    "kernel": "write a function with the decorator @triton.jit and a function that launches it",
    "one-name": "give the kernel another name, as with _kernel behind it: the later definition hides the other one",
    "decorators": "write @triton.jit, and beside it nothing but @triton.autotune or @triton.heuristics",
    "launch": "launch it by kernel[grid](...)",
    "name": "give the functions of kernels and baseline one name",
    "parameters": "give both functions the same parameters, in one order, with the same defaults",
    "annotations": "annotate every tensor with torch.Tensor, and both functions alike",
    "returns": "give both functions the same annotation of the result, and as many results",
    "same-function": "compute the same of the same inputs in both functions",
    "milliseconds": "multiply seconds by 1000 before they are printed as ms",
    "clock": "take time.perf_counter: time.time jumps when the clock is set",
    "memory": "take smaller shapes: all tensors that live at once have to fit into the memory of the device",
    "data": "add another distribution: a factor as a parameter, or further random functions",
    "timed-input": "time both functions with the same tensors, not with ones that are converted for the reference",
    "import": "import what the other files define",
    "at-sign": "remove the @ from the baseline, also from comments and texts: the converter takes it for a decorator",
    "one-function": "leave one function in the file: the converter takes the first one, or renames all",
    "only-torch": "refer to nothing but torch and what is inside of the function: the converter takes no other line",
    "label": 'write @label("NAME"), for times @label("NAME_benchmark"), and @parametrize("...", [...])',
    "test-name": "call the tests test_NAME and NAME_benchmark",
    "one-line": "write assert_close(a, b, dtype, ...) on one line, with dtype as a word and no calls behind it",
    "device": "write device=device, and import DEVICE as device",
    "calls": "call bench.NAME(...) for the baseline and bench.triton.NAME(...) for the kernel",
    "reference": "write to_reference(input, True): the converter puts input.cpu() in its place, whatever stands there",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with the files.

    Attributes:
        rule: a key of :data:`RULES`.
        file: its name.
        line: from 1; 0 for the whole file.
        what: is wrong.
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
        """A JSON-ready dict."""
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
