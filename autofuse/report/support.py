"""``docs/support.md``: ops x dtypes x targets, found out by scheduling one-op graphs.

``python -m autofuse.report.support`` prints the page.
"""

from __future__ import annotations

import sys
from typing import Any

from autofuse.diagnostics import AutofuseError
from autofuse.implgraph.canonicalise import canonicalise
from autofuse.implgraph.dtypes import BY_NAME, DType
from autofuse.implgraph.expr import const
from autofuse.implgraph.fusion import FusionGraph, FusionNode, GraphOutput, Tensor
from autofuse.implgraph.infer import infer_node
from autofuse.implgraph.lowering import lower
from autofuse.implgraph.ops import OpDef, OpError, all_ops
from autofuse.schedule.scheduler import schedule
from autofuse.targets import TargetSpec, load_target

__all__ = ["support_page"]

#: One target per architecture; the chips of one architecture differ in sizes, not in calls.
TARGETS = ("ascend910b1", "ascend310p")
DTYPES = tuple(d for d in BY_NAME.values() if d.kind != "m")
SHAPE = (const(64), const(64))
#: Nodes that move data and compute nothing.
_MOVES = frozenset({"Data", "Output", "Load", "Store", "Scalar"})

NATIVE, COMPOSED, WIDENED, COPIED, NONE = "call", "calls", "wider", "copy", "-"


def support_page() -> str:
    """The page as Markdown."""
    lines = [
        "# Supported ops",
        "",
        "Made by `python -m autofuse.report.support` from the op registry; do not edit.",
        "",
        "How a single op on tensors is realised: `call` one call of the chip's API, `calls` several, `wider` computed",
        "in a wider dtype and cast back, `copy` moved only, `-` not available. `ulp` is the error of one application,",
        "in units of the last place of the result, that `autofuse verify` allows; 0 is exact. It is what we assume of",
        "the chip's call, and what was checked on the twin; it was not measured on a chip.",
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
        lines += ["", f"## {name} (architecture {target.arch})", ""]
        lines += [note.strip(), ""] if note else []
        lines += _table(target)
    return "\n".join(lines) + "\n"


def _table(target: TargetSpec) -> list[str]:
    head = ["op", "what", "ulp", *(d.name for d in DTYPES)]
    out = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in all_ops(user=True):
        cells = [_cell(row, d, target) for d in DTYPES]
        out.append("| " + " | ".join([row.name, row.doc, f"{row.ulp:g}", *cells]) + " |")
    return out


def _cell(row: OpDef, dtype: DType, target: TargetSpec) -> str:
    try:
        graph = _graph(row, dtype)
        result = schedule(canonicalise(lower(graph)), target)
    except (AutofuseError, OpError):
        return NONE
    nodes = [n for n in result[0].groups[0].impls[0].nodes if n.op not in _MOVES]
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


def _graph(row: OpDef, dtype: DType) -> FusionGraph:
    """One op on fresh inputs of one dtype; the condition of a Select is bool."""
    kinds = [dtype] * min(row.arity[1], max(row.arity[0], 2 if row.name == "AddN" else 1))
    if row.name == "Select":
        kinds[0] = BY_NAME["bool"]
    shapes = [(SHAPE[0], const(1)) if row.name == "Broadcast" else SHAPE for _ in kinds]
    inputs = [Tensor(f"x{i}", k, s) for i, (k, s) in enumerate(zip(kinds, shapes, strict=True))]
    attrs: dict[str, Any] = {}
    if row.name == "Cast":
        attrs["dtype"] = "float16" if dtype.name == "float32" else "float32"
    if row.name in ("Broadcast", "Reshape"):
        attrs["shape"] = SHAPE if row.name == "Broadcast" else (SHAPE[0] * SHAPE[1],)
    kind, shape = infer_node(row, inputs, attrs)
    tensors = {t.name: t for t in (*inputs, Tensor("y", kind, shape))}
    names = tuple(t.name for t in inputs)
    node = FusionNode("op", row.name, names, ("y",), attrs)
    return FusionGraph("support", (), names, (node,), (GraphOutput("y", "y"),), tensors)


if __name__ == "__main__":
    sys.stdout.write(support_page())
