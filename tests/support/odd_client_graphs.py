"""Graphs of clients of CANN's interface that are odd somewhere: built as a client builds them, by a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from autofuse.clients.cann.pyautofuse import ascir

__all__ = ["odd_graph"]

_TYPES = [getattr(ascir.dtypes, n) for n in ("float16", "float32", "int32", "uint8", "bfloat16")]
_VALUES = ["Load", "Scalar", "Exp", "Abs", "LogicalNot", "Add", "Maximum", "Equal", "Sum", "Any"]
_VALUES += ["ArgMax", "Cast", "Broadcast", "Transpose", "Concat", "Gather", "Where"]
_TAKES = {
    "Load": ("Data", "Workspace"),
    "Store": tuple(_VALUES),
    "Workspace": ("Store",),
    "Output": ("Store",),
}
_NUMBERS = ["0", "1.5", "nan", "-inf", "1e400", "x", 3, 10**30, 10**400, None, ""]


class _Maker:
    """Nodes of one HintGraph; ``odd`` is how often something is not as it should be."""

    def __init__(self, rng: Random, odd: float) -> None:
        self.rng, self.odd = rng, odd
        self.graph = g = ascir.HintGraph("g")
        self.symbols = [g.create_size(f"s{k}") for k in range(rng.randint(0, 2))]
        self.axes = [g.create_axis(f"z{k}", self.size()) for k in range(rng.randint(0, 3))]

    def is_odd(self, share: float = 0.2) -> bool:
        return self.rng.random() < share * self.odd

    def size(self) -> Any:
        if self.is_odd():
            return self.rng.choice([0, -1, 1 << 40])
        return self.rng.choice([1, 2, 7, 64, *self.symbols, *(s * 2 for s in self.symbols)])

    def node(self, kind: str) -> Any:
        name = "same" if self.is_odd(0.05) else f"n{len(self.graph.operators)}"
        return getattr(ascir.ops, kind)(name, self.graph)

    def source(self, kind: str) -> Any:
        nodes = self.graph.operators[:-1]
        fits = [n for n in nodes if n.type in _TAKES.get(kind, _TAKES["Store"])]
        if not nodes:
            return None
        n = self.rng.choice(nodes if self.is_odd() or not fits else fits[-4:])
        return self.rng.choice([None, 3, n.y[1], [n.y]]) if self.is_odd(0.1) else n.y

    def lay_out(self, n: Any, shrunk: bool = False) -> None:
        axes = list(self.axes)
        if self.is_odd():
            axes = self.rng.choice([axes[::-1], axes[1:], axes + axes[:1]])
        sizes = [1 if shrunk and self.rng.random() < 0.6 else a.size for a in axes]
        strides: list[Any] = []
        for k in range(len(sizes)):
            step: Any = 1
            for s in sizes[k + 1 :]:
                step = step * s
            strides.append(self.size() if self.is_odd(0.1) else step)
        if self.is_odd(0.1):
            return
        n.y.axis, n.y.size = axes, sizes
        n.y.strides = strides[1:] if self.is_odd(0.1) else strides
        if self.is_odd(0.1):
            n.y.offset = self.size()

    def add(self, kind: str) -> Any:
        n = self.node(kind)
        slots = {"Add": 2, "Maximum": 2, "Equal": 2, "Gather": 2, "Where": 3}
        if kind == "Data":
            n.y.dtype = self.rng.choice(_TYPES[:2])
        elif kind == "Scalar":
            n.attr.ir_attr.value = self.rng.choice(_NUMBERS if self.is_odd(1) else ["2", 3])
            n.y.dtype = self.rng.choice(_TYPES)
        elif kind == "Concat":
            n.x = [self.source(kind) for _ in range(self.rng.randint(0, 2))]
        elif kind in slots:
            for k in range(slots[kind]):
                setattr(n, f"x{k + 1}", self.source(kind))
        else:
            n.x = self.source(kind)
        if kind in ("Data", "Output") and self.is_odd():
            n.attr.ir_attr.index = self.rng.choice([0, 1, -1, "0", None, 1.5])
        if kind == "Gather":
            n.attr.ir_attr.axis = self.rng.choice([0, -1, 5] if self.is_odd() else [0])
        if kind == "Cast" or self.is_odd(0.1):
            n.y.dtype = self.rng.choice(_TYPES)
        if kind not in ("Data", "Scalar", "Workspace", "Output"):
            self.lay_out(n, kind in ("Sum", "Any", "ArgMax"))
        return n

    def made(self) -> Any:
        for _ in range(self.rng.randint(1, 3)):
            self.add("Data")
            self.add("Load")
        for _ in range(self.rng.randint(0, 8)):
            self.add(self.rng.choice(_VALUES))
        # Stores that end in an Output, in a Workspace that is loaded or not, or nowhere.
        ends = ["Output", "Output", "Workspace", ""]
        for end in self.rng.choices(ends, k=self.rng.randint(0, 3)):
            self.add("Store")
            if end:
                self.add(end)
            if end == "Workspace" and self.rng.random() < 0.5:
                self.add("Load")
        if self.is_odd(0.1):
            a, b = self.rng.choices(self.graph.operators, k=2)
            a.x = b.y
        self.graph.infer_dtypes()
        return self.graph


def odd_graph(seed: int) -> Any:
    """A HintGraph, or a FusedGraph of some."""
    rng = Random(seed)
    odd = rng.choice([0, 0.1, 0.5, 1])
    if rng.random() < 0.7:
        return _Maker(rng, odd).made()
    f = ascir.FusedGraph("f")
    buffers = [ascir.ops.Data(f"d{k}", f) for k in range(rng.randint(1, 3))]
    for d in buffers:
        d.y.dtype = rng.choice(_TYPES[:2])
    for k in range(rng.randint(0, 2)):
        inner = _Maker(rng, odd).made()
        run = ascir.ops.AscBackend(f"b{k}", inner, f)
        count = inner.get_input_num() + (rng.random() < 0.2 * odd)
        run.x = [rng.choice(buffers).y for _ in range(count)]
        buffers.append(run)
    for k in range(rng.randint(0, 2)):
        out = ascir.ops.Output(f"o{k}", f)
        out.x = rng.choice(buffers[-2:]).y[int(rng.random() < 0.2)]
    return f
