"""Interface of an operator: its kind, its parameters, and the constraints on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autofuse.codegen.backends.triton.call import Call
from autofuse.codegen.backends.triton.python_text import Names, to_python
from autofuse.implgraph.expr.expression import Expr, product, sym
from autofuse.implgraph.ir.fusion import FusionGraph, FusionNode, Tensor
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.requirements import requirements
from autofuse.targets import Target

__all__ = ["KINDS", "Parameter", "constraints_of", "inputs_of", "kind_of", "outputs_of"]

#: Kinds of operators, in order of precedence.
KINDS = ("Scan", "Normalization", "Reduction", "Indexing", "Movement", "Pointwise")
_MOVES = frozenset(("view", "transpose", "slice", "concat", "pad", "broadcast", "iota"))


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input or an output.

    Attributes:
        name: name of the tensor in the graph, or of the output.
        dtype: name of its element type.
        shape: sizes in elements, in the symbols of the graph, outermost first.
        description: its description.
        constraints: constraints on this parameter alone.
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    description: str = ""
    constraints: tuple[str, ...] = ()


def kind_of(graph: FusionGraph) -> str:
    """Return the kind of an operator, one of :data:`KINDS`.

    A Normalization reduces, and has a result with as many elements as the reduced operand; a Reduction does not.
    """
    types = {lookup(n.op).compute_type for n in graph.nodes}
    if "scan" in types:
        return "Scan"
    reduced = [n for n in graph.nodes if _is_reduction(n)]
    if reduced:
        return "Normalization" if _comes_back(graph, reduced) else "Reduction"
    if "gather" in types:
        return "Indexing"
    return "Movement" if types <= _MOVES else "Pointwise"


def _is_reduction(n: FusionNode) -> bool:
    row = lookup(n.op)
    return row.compute_type == "reduce" or row.cost == "reduce"


def _comes_back(graph: FusionGraph, reduced: Sequence[FusionNode]) -> bool:
    """Return True if an output has as many elements as a reduction's operand and depends on the reduction."""
    sizes = {
        product(graph.tensors[x].shape) for n in reduced for x in n.inputs if isinstance(x, str)
    }
    if all(e == 1 for e in sizes):
        return False
    behind = {x for n in reduced for x in n.outputs}
    for n in graph.nodes:
        if behind.intersection(x for x in n.inputs if isinstance(x, str)):
            behind.update(n.outputs)
    outputs = [o.tensor for o in graph.outputs if o.tensor in behind]
    return any(product(graph.tensors[t].shape) in sizes for t in outputs)


def inputs_of(graph: FusionGraph) -> tuple[Parameter, ...]:
    """Return the inputs, in the order of the graph."""
    written = {o.inout: o.name for o in graph.outputs if o.inout is not None}
    out = []
    for name in graph.inputs:
        t = graph.tensors[name]
        what = "a number known at run time" if t.scalar else f"input, {len(t.shape)}-D"
        if name in written:
            what += f", overwritten by {written[name]}"
        out.append(Parameter(name, t.dtype.name, t.shape, what, tuple(_layout(graph, t))))
    return tuple(out)


def outputs_of(graph: FusionGraph) -> tuple[Parameter, ...]:
    """Return the outputs, in the order of the graph."""
    makers = {x: n for n in graph.nodes for x in n.outputs}
    out = []
    for o in graph.outputs:
        t, maker = graph.tensors[o.tensor], makers.get(o.tensor)
        what = f"copy of {o.tensor}" if maker is None else f"result of {maker.op} ({maker.label})"
        place = "contiguous" if o.inout is None else f"in the memory of {o.inout}"
        out.append(Parameter(o.name, t.dtype.name, t.shape, what, (place,)))
    return tuple(out)


def _layout(graph: FusionGraph, t: Tensor) -> Iterator[str]:
    if t.scalar:
        yield "one element"
    elif t.strides is None:
        yield "contiguous"
    else:
        yield f"strides of ({', '.join(graph.in_words(e) for e in t.strides)}) elements"
    if t.offset is not None:
        yield f"first element at offset {graph.in_words(t.offset)}"


def constraints_of(graph: FusionGraph, target: Target, call: Call | None = None) -> tuple[str, ...]:
    """Return the constraints on the inputs, as expressions on PyTorch tensors where one exists.

    Args:
        graph: graph of the operator.
        target: target that holds its tensors.
        call: parameters of its function; None for the inputs of the graph.
    """
    where = f"is_{target.home}"
    words = Names()
    names = {t: words.take(t) for t in graph.inputs}
    arguments = () if call is None else call.arguments
    names |= {a.input: a.name for a in arguments if a.input}
    out = []
    if names:
        out.append(" and ".join(f"{n}.{where}" for n in names.values()))
    out += [f"{n}.dtype == torch.{graph.tensors[t].dtype}" for t, n in names.items()]
    plain = [n for t, n in names.items() if graph.tensors[t].strides is None]
    if plain:
        out.append(" and ".join(f"{n}.is_contiguous()" for n in plain))
    first: dict[Expr, str] = {}
    for t, n in names.items():
        for k, size in enumerate(graph.tensors[t].shape):
            here = f"{n}.shape[{k}]"
            if size.is_const or size in first:
                out.append(f"{here} == {first.get(size, size)}")
            else:
                first[size] = here
    known = {s.name: first.get(sym(s.name), s.label) for s in graph.symbols}
    for s in graph.symbols:
        if sym(s.name) in first:
            out.append(f"{s.min} <= {known[s.name]} <= {s.max}")
    out += [
        f"{here} == {to_python(size, known)}"
        for size, here in first.items()
        if here not in known.values()
    ]
    out += [f"{to_python(r.value, known)} >= {r.least}" for r in requirements(graph)]
    out += [f"{a.name} == {a.value}" for a in arguments if not a.input]
    return tuple(out)
