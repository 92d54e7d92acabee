"""``docs/support.md``: ops x dtypes x targets, found out by scheduling one-op graphs.

``python tools/pages/support.py`` prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from autofuse.implgraph.ops.definition import OpDef
from autofuse.implgraph.ops.registry import all_ops
from autofuse.report.op_support import DTYPES, realised
from autofuse.targets import TargetSpec, load_target

__all__ = ["support_page"]

#: One target per architecture; the chips of one architecture differ in sizes, not in calls.
TARGETS = ("ascend910b1", "ascend950pr", "ascend310p")


def support_page() -> str:
    """The page as Markdown."""
    rows = all_ops(user=True)
    lines = [
        "# Supported ops",
        "",
        "Made by `python tools/pages/support.py` from the op registry; do not edit.",
        "",
        "How a single op on tensors is realised: `call` one call of the chip's API, `calls` several, `wider` computed",
        "in a wider dtype and cast back (once per chain of such ops), `copy` moved only, `-` not available. `ulp` is",
        "the error of one application that is expected, in units of the last place of the result; beside it stand an",
        "absolute error where the function has zeros that are no numbers of the dtype, and what grows with the number",
        "n of operands of one result. 0 is exact; `verify` allows twice as much. It is what we assume of the chip's",
        "calls, and what was checked on the twin (docs/accuracy.md has the measured errors); it was not measured on a",
        "chip.",
        "",
        "NaN, infinities and signs of zero are NumPy's, integers wrap as NumPy's do, except where the op's text says",
        "otherwise. What holds for many ops:",
        "",
        *_DIFFERENCES,
        "",
        "A Load, Store, Reshape or Assign (an output that overwrites an input) works for every dtype.",
    ]
    for name in TARGETS:
        target = load_target(name)
        lines += ["", f"## {name} (architecture {target.arch.name})", ""]
        lines += _notes(target)
        since = ", ".join(f"`{call}` from {first} on" for call, first in sorted(target.arch.since))
        lines += [f"Functions that kernels may call and not every CANN has: {since}.", ""]
        lines += _table(rows, target)
    lines += [
        "",
        "## Where compositions come from",
        "",
        "| op | other names | source |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| {r.name} | {', '.join(r.aliases)} | {_text(r.source)} |"
        for r in rows
        if r.aliases or r.source
    ]
    return "\n".join(lines) + "\n"


def _notes(target: TargetSpec) -> list[str]:
    """Return the notes that hold for all ops of an architecture, a paragraph of one line each."""
    notes = []
    arch = target.arch
    if not arch.has_datacopypad:
        notes += [
            "Experimental: no DataCopyPad, so only rows of whole 32-byte units. The innermost dimension of every input "
            "and output has to be such a multiple for every size, as `16*n` float16 or 8 float32; what has one element "
            "for each row, as a sum, counts as a row of these, and the rows for a block of it have to fit UB together: "
            "those of 8 sums of float32. An input of one element can have any dtype."
        ]
    elif target.experimental:
        notes += ["Experimental."]
    if "bfloat16_t" in arch.lacks:
        notes += ["No tensor is bfloat16."]
    if not arch.meets_in_hardware:
        notes += ["Cores meet in software, by the form of `SyncAll` with operands."]
    if target.arch.flushes:
        calls = ", ".join(f"`{c}`" for c in sorted(target.arch.flushes))
        text = f"Subnormal float32 numbers are zeros to {calls}; float16 is computed in float32 for all of"
        notes += [f"{text} these but `Exp`, whose subnormal results are zeros."]
    return [line for note in notes for line in (note, "")]


#: Differences from NumPy, and what is refused, that no single row could state.
_DIFFERENCES = (
    "- A float becomes an integer as on the chip: out of range saturates, NaN becomes 0.",
    "- An index of a Gather or GatherElements outside of its dimension takes the nearest element, on every target;",
    "  a negative one counts from the end. Checked mode and `verify` report it (AF5007), with the node, the index and",
    "  where that stands.",
    "- The exponent of a Pow of floats may be an integer, every bit of which counts: (-1)^16777217 is -1, though",
    "  float32 has no 16777217. A whole number as exponent that the type of the base does not have is one.",
    "- int64 and uint64 are computed in pairs of 32-bit words, which wrap. A ReduceSum of them has at most 2^23",
    "  addends along each dimension, or 2^27 in all, which the limits of symbols must say; a ReduceProd has at most",
    "  64 factors, in known number.",
    "- Of subnormal float32 numbers the documentation of architectures 2201 and 2002 says nothing; the twin computes",
    "  them.",
    "- Degrees of polynomials must be constants. Frexp has one op per result.",
)


def _table(rows: Sequence[OpDef], target: TargetSpec) -> list[str]:
    head = ["op", "what", "ulp", *(d.name for d in DTYPES)]
    out = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [realised(row, d, target) for d in DTYPES]
        ulp = f"{row.ulp:g}" + (f", {row.absolute:g}" if row.absolute else "")
        ulp += f", and {row.addends}" if row.addends else ""
        out.append("| " + " | ".join([row.name, _text(row.doc), ulp, *cells]) + " |")
    return out


def _text(cell: str) -> str:
    return cell.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(support_page())
