"""Table from CANN's op names to the ops of the registry; no other module knows both.

Element-wise ops with the same name (or an alias) and the same inputs in the registry need no row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from autofuse.implgraph.ops import registry
from autofuse.implgraph.ops.definition import OpDef

__all__ = ["CannOp", "find_op", "op_names", "suggest_op"]


@dataclass(frozen=True, slots=True)
class CannOp:
    """One op of CANN.

    Attributes:
        name: CANN's name.
        kind: how the op is read: ``data scalar load store output workspace`` as in the graph's text; ``broadcast
            transpose cast concat gather reduce position elewise`` yield values.
        op: name in the registry; empty for nodes without an op there.
        inputs: names of its inputs, in the registry's order.
        attrs: accepted ``ir_attr`` -> the registry's attribute; empty if the reader of its kind handles it.
    """

    name: str
    kind: str
    op: str = ""
    inputs: tuple[str, ...] = ("x",)
    attrs: Mapping[str, str] = field(default_factory=dict)

    @property
    def row(self) -> OpDef:
        """Its row of the registry."""
        return registry.lookup(self.op)


_SLOTS = {1: ("x",), 2: ("x1", "x2"), 3: ("x1", "x2", "x3")}

_ROWS = (
    CannOp("Data", "data", inputs=(), attrs={"index": ""}),
    CannOp("Scalar", "scalar", inputs=(), attrs={"value": "", "index": ""}),
    CannOp("Load", "load", attrs={"offset": ""}),
    CannOp("Store", "store", attrs={"offset": ""}),
    CannOp("Output", "output", attrs={"index": ""}),
    CannOp("Workspace", "workspace"),
    CannOp("Broadcast", "broadcast", "Broadcast"),
    CannOp("Transpose", "transpose", "Transpose"),
    CannOp("Concat", "concat", "Concat"),
    CannOp("Cast", "cast", "Cast"),
    CannOp("Sum", "reduce", "ReduceSum"),
    CannOp("Max", "reduce", "ReduceMax"),
    CannOp("Min", "reduce", "ReduceMin"),
    CannOp("Prod", "reduce", "ReduceProd"),
    CannOp("Mean", "reduce", "ReduceMean"),
    CannOp("Any", "reduce", "ReduceAny"),
    CannOp("All", "reduce", "ReduceAll"),
    CannOp("ArgMax", "position", "ArgMax"),
    # The registry always accepts negative indices, so the second attribute has no effect.
    CannOp("Gather", "gather", "Gather", ("x1", "x2"), {"axis": "", "negative_index_support": ""}),
    CannOp("Nop", "elewise", "Identity"),
    CannOp("Ub2ub", "elewise", "Identity"),
    CannOp("MaskedFill", "elewise", "MaskedFill", ("x", "mask", "value")),
    # The result has the sign of the dividend, as with C's fmod and %; that of Remainder has the divisor's.
    CannOp("Mod", "elewise", "Fmod", ("x1", "x2")),
)
_BY_NAME = {r.name: r for r in _ROWS}


@lru_cache(maxsize=1024)
def find_op(name: str) -> CannOp | None:
    """Return the op that CANN calls ``name``, or None if autofuse does not support it."""
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    row = registry.find(name)
    if row is None or not row.user or row.compute_type != "elewise" or row.arity[1] not in _SLOTS:
        return None
    attrs = {a.name: a.name for a in row.attrs if a.name != "dtype"}
    return CannOp(name, "elewise", row.name, _SLOTS[row.arity[1]], attrs)


@lru_cache(maxsize=1)
def op_names() -> tuple[str, ...]:
    """Return all names, sorted."""
    names = {n for r in registry.all_ops() for n in (r.name, *r.aliases)} | set(_BY_NAME)
    return tuple(sorted(n for n in names if find_op(n) is not None))


def suggest_op(name: str) -> str:
    """Return a known name similar to ``name``, or an empty string."""
    import difflib

    low = {n.lower(): n for n in op_names()}
    close = difflib.get_close_matches(name.lower(), low, n=1, cutoff=0.8)
    return low[close[0]] if close else ""
