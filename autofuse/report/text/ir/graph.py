"""A FusionGraph as text."""

from __future__ import annotations

from autofuse.base.visible import visible
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.fusion import Constant, FusionGraph

__all__ = ["fusion_text"]


def fusion_text(graph: FusionGraph) -> str:
    """Return one line per symbol, parameter and op."""
    lines = [f"graph {visible(graph.label)}"]
    for s in graph.symbols:
        hint = f", hint {s.hint}" if s.hint is not None else ""
        lines.append(f"symbol {visible(s.label)}: {s.min}..{s.max}{hint}")
    lines += [f"input {_tensor_text(graph, name)}" for name in graph.inputs]
    for n in graph.nodes:
        operands = ", ".join(
            i if isinstance(i, str) else _constant_text(graph, i) for i in n.inputs
        )
        attrs = "".join(f", {k}={_attr_text(graph, v)}" for k, v in sorted(n.attrs.items()))
        results = ", ".join(_tensor_text(graph, o) for o in n.outputs)
        lines.append(f"{results} = {n.op}({operands}{attrs})")
    for o in graph.outputs:
        place = f" in place of {o.inout}" if o.inout else ""
        lines.append(f"output {o.name} = {o.tensor}{place}")
    return "\n".join(lines) + "\n"


def _tensor_text(graph: FusionGraph, name: str) -> str:
    t = graph.tensors[name]
    text = f"{name}: {t.dtype}{_attr_text(graph, t.shape)}"
    if t.strides is not None:
        text += f" strides {_attr_text(graph, t.strides)}"
    return text + (f" offset {_size_text(graph, t.offset)}" if t.offset is not None else "")


def _attr_text(graph: FusionGraph, value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_size_text(graph, v) for v in value)}]"
    return _size_text(graph, value)


def _constant_text(graph: FusionGraph, c: Constant) -> str:
    return _size_text(graph, c.value if c.expr is None else c.expr)


def _size_text(graph: FusionGraph, value: object) -> str:
    return visible(graph.in_words(value)) if isinstance(value, Expr) else str(value)
