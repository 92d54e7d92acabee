"""``docs/support.md``: ops x dtypes x targets, determined by scheduling one-op graphs.

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
    """Return the page as Markdown."""
    rows = all_ops(user=True)
    lines = [
        "# Supported ops",
        "",
        "Made by `python tools/pages/support.py` from the op registry; do not edit.",
        "",
        "Implementation of a single op on tensors: `call` one call of the chip's API, `calls` several, `wider`",
        "computed in a wider dtype and cast back (once per chain of such ops), `copy` only moved, `-` not available.",
        "`ulp` is the expected error of one application, in units in the last place of the result; it is followed by",
        "an absolute error if the function has zeros that the dtype cannot represent, and by terms that grow with the",
        "number n of operands of one result. 0 is exact; `verify` allows twice as much. The errors are assumptions",
        "about the chip's calls, checked on the twin (docs/accuracy.md lists the measured errors), but not measured on",
        "a chip.",
        "",
        "NaN, infinities, signs of zero and integer overflow follow NumPy, unless the op's text says otherwise. Rules",
        "for many ops:",
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
        lines += [f"Functions that kernels may call but that some CANN releases lack: {since}.", ""]
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
    """Return the notes that apply to all ops of an architecture, each a paragraph of one line."""
    notes = []
    arch = target.arch
    if not arch.has_datacopypad:
        notes += [
            "Experimental: no DataCopyPad, so only rows of whole 32-byte units. The innermost dimension of every "
            "input and output must be such a multiple for every size, such as `16*n` float16 or 8 float32. A "
            "tensor with one element per row, such as a sum, counts as a row of these elements, and the rows for "
            "one block of it must fit UB together: those of 8 float32 sums. An input of one element can have any "
            "dtype."
        ]
    elif target.experimental:
        notes += ["Experimental."]
    if "bfloat16_t" in arch.lacks:
        notes += ["No tensor is bfloat16."]
    if not arch.meets_in_hardware:
        notes += ["Cores synchronise in software, with the form of `SyncAll` that takes operands."]
    if target.arch.flushes:
        calls = ", ".join(f"`{c}`" for c in sorted(target.arch.flushes))
        text = f"{calls} flush subnormal float32 numbers to zero; float16 is computed in float32 for all of"
        notes += [f"{text} these but `Exp`, whose subnormal results are zeros."]
    return [line for note in notes for line in (note, "")]


#: Differences from NumPy, and refusals, that do not belong to a single row.
_DIFFERENCES = (
    "- A float is converted to an integer as on the chip: out-of-range values saturate, NaN becomes 0.",
    "- An out-of-bounds index of a Gather or GatherElements selects the nearest element, on every target; a negative",
    "  one counts from the end. Checked mode and `verify` report it (AF5007), with the node, the index and its",
    "  position.",
    "- The exponent of a float Pow may be an integer, all of whose bits count: (-1)^16777217 is -1, although float32",
    "  cannot represent 16777217. A whole-number exponent that the base's dtype cannot represent is such an integer.",
    "- int64 and uint64 are computed in pairs of 32-bit words, which wrap. A ReduceSum of them has at most 2^23",
    "  addends along each dimension, or 2^27 in all, which the limits of symbols must guarantee; a ReduceProd has at",
    "  most 64 factors, in known number.",
    "- The documentation of architectures 2201 and 2002 does not mention subnormal float32 numbers; the twin computes",
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
