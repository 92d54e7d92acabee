"""Diagnostics are objects before they are text: terminal, JSON and HTML render the same object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["CODES", "AutofuseError", "Diagnostic", "Where"]

#: Most characters of a place, and of a text about it: names in a file may be as long as the file.
_MAX_PLACE, _MAX_TEXT = 512, 4096


def _shortened(text: str, limit: int) -> str:
    """Return the text, without its middle if it is too long."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - limit // 4 - 5]} ... {text[-(limit // 4) :]}"


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file, in its JSON, or in an IR; unknown fields are empty, long texts lose their middle.

    Attributes:
        path: path of the file.
        pointer: JSON pointer into it.
        line: from 1; 0 for unknown.
        column: from 1; 0 for unknown.
        node: name of a node of the graph, or of a tensor.
        axis: name of an axis.
    """

    path: str = ""
    pointer: str = ""
    line: int = 0
    column: int = 0
    node: str = ""
    axis: str = ""

    def __post_init__(self) -> None:
        for name in ("pointer", "node", "axis"):
            object.__setattr__(self, name, _shortened(getattr(self, name), _MAX_PLACE))
        object.__setattr__(self, "path", _shortened(self.path, _MAX_TEXT))

    def __str__(self) -> str:
        parts = []
        if self.path or self.line:
            parts.append(
                f"{self.path or '<input>'}:{self.line}:{self.column}" if self.line else self.path
            )
        if self.pointer:
            parts.append(f"at {self.pointer}")
        if self.node:
            parts.append(f"node {self.node}")
        if self.axis:
            parts.append(f"axis {self.axis}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding.

    Attributes:
        code: ``AF`` and four digits, a key of :data:`CODES`.
        message: the error, with numbers.
        where: the place.
        hint: the action to take.
        notes: further lines, such as a table of buffers.
        severity: ``error``, ``warning`` or ``note``.
        cut_after: nodes of the graph; cuts after them would give kernels that can be built.
    """

    code: str
    message: str
    where: Where = field(default_factory=Where)
    hint: str = ""
    notes: tuple[str, ...] = ()
    severity: str = "error"
    cut_after: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise KeyError(
                f"diagnostic code {self.code} is not registered in autofuse.base.diagnostics.CODES"
            )
        for name in ("message", "hint"):
            object.__setattr__(self, name, _shortened(getattr(self, name), _MAX_TEXT))

    def to_json(self) -> dict[str, object]:
        """Return every field, as a JSON-ready dict."""
        w = self.where
        place = {
            k: getattr(w, k)
            for k in ("path", "pointer", "line", "column", "node", "axis")
            if getattr(w, k)
        }
        out: dict[str, object] = {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
        }
        if place:
            out["where"] = place
        if self.hint:
            out["hint"] = self.hint
        if self.notes:
            out["notes"] = list(self.notes)
        if self.cut_after:
            out["cut_after"] = list(self.cut_after)
        return out

    def __str__(self) -> str:
        place = str(self.where)
        lines = [f"{self.severity} {self.code}: {self.message}"]
        if place:
            lines.append(f"  --> {place}")
        lines += [f"  | {n}" for n in self.notes]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class AutofuseError(Exception):
    """One or more diagnostics of severity ``error``; the one exception that autofuse raises deliberately.

    Attributes:
        diagnostics: a tuple of :class:`Diagnostic`; the text of the exception joins theirs.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(d) for d in self.diagnostics))

    @classmethod
    def of(
        cls,
        code: str,
        message: str,
        *,
        where: Where | None = None,
        hint: str = "",
        notes: Iterable[str] = (),
    ) -> AutofuseError:
        """Return an error with a single diagnostic; the arguments are the fields of :class:`Diagnostic`."""
        return cls((Diagnostic(code, message, where or Where(), hint, tuple(notes)),))


#: Every code with a one-line description.  1xxx reading, 2xxx graph and IR, 3xxx schedule,
#: 4xxx code generation, 5xxx build and twin, 6xxx verification, 9xxx internal.
CODES: dict[str, str] = {
    "AF1001": "the file cannot be read",
    "AF1002": "the file is not valid JSON",
    "AF1003": "the file is too large or nests too deep",
    "AF1004": "unknown file format",
    "AF1005": "invalid command line",
    "AF1006": "this kind of file needs a package that is not installed",
    "AF1101": "a required field is missing",
    "AF1102": "a field is not in the schema",
    "AF1103": "a field has the wrong type",
    "AF1104": "a field has a value that is not allowed",
    "AF1105": "a name is not legal",
    "AF1106": "a name is used twice",
    "AF1107": "a tensor is used but never defined",
    "AF1108": "an expression cannot be read",
    "AF1109": "a size is out of bounds",
    "AF1110": "an in-out parameter is not consistent with its input",
    "AF1111": "the strides or offset of an input are not supported",
    "AF1201": "the op is unknown",
    "AF1202": "the op has the wrong number of inputs or outputs",
    "AF1203": "the op does not take these dtypes",
    "AF1204": "the op does not take these shapes",
    "AF1205": "an attribute of the op is missing, unknown or wrong",
    "AF1206": "the nodes form a cycle",
    "AF1207": "a declared shape or dtype differs from the op's result",
    "AF1301": "a construct of CANN's Python interface is not supported",
    "AF1401": "a line of English is ambiguous or incomplete",
    "AF1402": "the PyTorch function is not a single graph",
    "AF1403": "a bundle or results file is implausible",
    "AF1404": "the gradient graph does not match the forward graph",
    "AF1405": "a custom target file is invalid",
    "AF2001": "the ImplGraph text cannot be parsed",
    "AF2002": "the graph breaks an invariant of the IR",
    "AF2101": "the shapes of one kernel have no common iteration space",
    "AF2102": "an in-place write conflicts with a read elsewhere in the graph",
    "AF2103": "the op cannot be compiled yet",
    "AF2104": "the graph exceeds the calls or workspaces of one kernel",
    "AF3001": "the op is not available on the target",
    "AF3002": "no template fits the graph",
    "AF3003": "the buffers do not fit UB",
    "AF3004": "the queue limits of the chip are exceeded",
    "AF3005": "a node cannot be scheduled",
    "AF3006": "data passed between kernels do not fit a workspace",
    "AF3007": "a tuning file does not match the graph, the target or a kernel",
    "AF3008": "no kernel can make the summation order independent of other sizes",
    "AF4001": "KernelIR breaks an invariant",
    "AF5001": "a compiler or runtime for kernels is missing",
    "AF5002": "the generated code does not compile",
    "AF5003": "the kernel or a host function returned an error",
    "AF5004": "a check of the twin failed",
    "AF5005": "the output folder cannot be written",
    "AF5006": "the target is not known",
    "AF5007": "the arguments of the call do not match the kernel",
    "AF5008": "an AUTOFUSE_* variable is unknown or has an invalid value",
    "AF5009": "the cache folder cannot be used",
    "AF5010": "the folder is not ready for this kernelgen stage",
    "AF5011": "the CANN toolkit is missing, or older than the kernel needs",
    "AF5012": "a call to the chip's runtime failed",
    "AF5013": "the CANN compiler rejects the kernel",
    "AF5014": "too few measurements to calibrate the cost model",
    "AF5015": "an edited file does not compile",
    "AF5016": "the generated text under an edited file changed",
    "AF6001": "an output differs from the reference",
    "AF6002": "an output element was not written, or an input was changed",
    "AF6003": "the verification is inconclusive: the reference is ill-conditioned",
    "AF9001": "internal error",
}
