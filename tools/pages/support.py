"""``docs/support.md``: ops x dtypes x targets, found out by scheduling one-op graphs.

``python tools/pages/support.py`` prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.ops.definition import OpDef, OpError
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import all_ops
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule.legal.legalize import legalize
from autofuse.schedule.scheduler import schedule
from autofuse.targets import TargetSpec, load_target

__all__ = ["NONE", "realised", "support_page"]

#: One target per architecture; the chips of one architecture differ in sizes, not in calls.
TARGETS = ("ascend910b1", "ascend310p")
DTYPES = tuple(d for d in BY_NAME.values() if d.kind != "m")
SHAPE = (const(64), const(64))
#: Nodes that move data and compute nothing.
_MOVES = frozenset({"Data", "Output", "Load", "Store", "Scalar"})

NATIVE, COMPOSED, WIDENED, COPIED, NONE = "call", "calls", "wider", "copy", "-"


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
        "the error of one application, in units of the last place of the result, that `autofuse verify` allows, and",
        "beside it an absolute error where the function has zeros that are no numbers of the dtype; 0 is exact. It is",
        "what we assume of the chip's calls, and what was checked on the twin (docs/accuracy.md has the measured",
        "errors); it was not measured on a chip.",
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
        note = (
            " Experimental: no DataCopyPad, so only rows of whole 32-byte units."
            if target.experimental
            else ""
        )
        lines += ["", f"## {name} (architecture {target.arch.name})", ""]
        lines += [note.strip(), ""] if note else []
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


#: Differences from NumPy, and what is refused, that no single row could state.
_DIFFERENCES = (
    "- A float becomes an integer as on the chip: out of range saturates, NaN becomes 0.",
    "- int64 and uint64 are computed in pairs of 32-bit words, which wrap. A ReduceSum of them has at most 2^23",
    "  addends along each dimension, or 2^27 in all, which the limits of symbols must say; a ReduceProd has at most",
    "  64 factors, in known number.",
    "- Of subnormal float32 numbers the chip's documentation says nothing; the twin computes them.",
    "- Degrees of polynomials must be constants. Frexp has one op per result.",
)


def _table(rows: Sequence[OpDef], target: TargetSpec) -> list[str]:
    head = ["op", "what", "ulp", *(d.name for d in DTYPES)]
    out = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [realised(row, d, target) for d in DTYPES]
        ulp = f"{row.ulp:g}" + (f", {row.absolute:g}" if row.absolute else "")
        out.append("| " + " | ".join([row.name, _text(row.doc), ulp, *cells]) + " |")
    return out


def _text(cell: str) -> str:
    return cell.replace("|", "\\|")


def realised(row: OpDef, dtype: DType, target: TargetSpec) -> str:
    """How an op on fresh tensors of a dtype is realised: a word of the page, :data:`NONE` if it is not."""
    try:
        graph = _graph(row, dtype)
        hint = canonicalise(lower(graph))
        if row.compute_type == "elewise":
            legal = legalize(hint.nodes, hint, target)
        else:
            legal = schedule(hint, target)[0].groups[0].impls[0].nodes
    except (AutofuseError, OpError):
        return NONE
    nodes = [n for n in legal if n.op not in _MOVES]
    if not nodes:
        return COPIED
    widened = (
        row.name != "Cast"
        and dtype.kind != "b"
        and all(n.op == "Cast" or n.y.dtype != dtype for n in nodes if n.y.dtype.kind not in "bm")
    )
    if widened and any(n.op == "Cast" for n in nodes):
        return WIDENED
    return NATIVE if len(nodes) == 1 else COMPOSED


#: The input that must be bool, where one must.
_CONDITION = {"Select": 0, "MaskedFill": 1}
#: Ops whose second input must be a constant.
_DEGREES = ("LaguerrePolynomialL", "LegendrePolynomialP")
#: Attributes of ops that move elements.
_MOVED: dict[str, dict[str, Any]] = {
    "Transpose": {"perm": (1, 0)},
    "Slice": {"starts": (const(0), const(8)), "shape": (SHAPE[0], const(16))},
    "Pad": {"low": (const(0), const(8)), "high": (const(0), const(8))},
}


def _graph(row: OpDef, dtype: DType) -> FusionGraph:
    """One op on fresh inputs of one dtype; the condition of a Select is bool."""
    kinds = [dtype] * min(row.arity[1], max(row.arity[0], 2 if row.name == "AddN" else 1))
    if row.name in _CONDITION:
        kinds[_CONDITION[row.name]] = BY_NAME["bool"]
    if row.compute_type == "gather":
        kinds[1] = BY_NAME["int32"]
    shapes = [(SHAPE[0], const(1)) if row.name == "Broadcast" else SHAPE for _ in kinds]
    inputs = [Tensor(f"x{i}", k, s) for i, (k, s) in enumerate(zip(kinds, shapes, strict=True))]
    attrs: dict[str, Any] = {}
    if row.name == "Cast":
        attrs["dtype"] = "float16" if dtype.name == "float32" else "float32"
    if row.name == "BitCast":
        attrs["dtype"] = next(
            d.name for d in reversed(DTYPES) if d.bits == dtype.bits and d.kind != "b"
        )
    if row.name in ("Broadcast", "Reshape"):
        attrs["shape"] = SHAPE if row.name == "Broadcast" else (SHAPE[0] * SHAPE[1],)
    attrs |= _MOVED.get(row.name, {})
    attrs |= {"n": 5} if "n" in row.attr_names() else {}
    if "axis" in row.attr_names():
        attrs["axis"] = 1
    if "axes" in row.attr_names():
        attrs["axes"] = (1,)
    if row.name == "Iota":
        attrs |= {"shape": SHAPE, "dtype": dtype.name}
    operands: list[Tensor | Constant] = list(inputs)
    if row.name in _DEGREES:
        operands[1] = Constant(5.0)
        del inputs[1]
    kind, shape = infer_node(row, operands, attrs)
    tensors = {t.name: t for t in (*inputs, Tensor("y", kind, shape))}
    names = tuple(t.name for t in inputs)
    given = tuple(o.name if isinstance(o, Tensor) else o for o in operands)
    node = FusionNode("op", row.name, given, ("y",), attrs)
    return FusionGraph("support", (), names, (node,), (GraphOutput("y", "y"),), tensors)


if __name__ == "__main__":
    sys.stdout.write(support_page())
