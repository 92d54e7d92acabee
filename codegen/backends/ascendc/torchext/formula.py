"""The gradient of an operator, from a graph that computes it; the names define the roles of its tensors.

An input of that graph is ``grad_<output>``, the gradient of an output, or has the name of an input or an output of the
forward graph.  An output is ``grad_<input>``.  The formula saves the forward tensors that the graph reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.codegen.backends.ascendc.torchext.schema import Operator, operator_of
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor

__all__ = ["Formula", "formula_of", "formula_text"]

_GRAD = "grad_"
_GRADIENT, _INPUT, _OUTPUT, _SIZE = "gradient", "input", "output", "size"


@dataclass(frozen=True, slots=True)
class _Source:
    """Source of an argument of the gradient.

    ``kind``: the gradient of a result, or an argument or a result of the forward operator, with its ``index``; or a
    size: dimension ``dim`` of that argument (the argument itself if ``dim`` is None), minus ``plus``, divided by
    ``factor``.
    """

    kind: str
    index: int
    dim: int | None = None
    factor: str = "1"
    plus: str = "0"


@dataclass(frozen=True, slots=True)
class Formula:
    """The gradient of an operator.

    Attributes:
        forward: forward operator.
        operator: operator that computes gradients, ``<name>_backward``.
        sources: source of each of its arguments.
        results: for every argument of the forward operator, the result that is its gradient; None if it has none.
    """

    forward: Operator
    operator: Operator
    sources: tuple[_Source, ...]
    results: tuple[int | None, ...]


def formula_of(forward: Operator, graph: FusionGraph) -> Formula:
    """Derive the formula from a graph of the gradient.

    Raises:
        AutofuseError: AF1404, for every input and output of the graph that does not match the forward graph.
    """
    operator = operator_of(graph, f"{forward.graph.name}_backward")
    misfits = _Misfits(graph)
    if any(a.written for a in (*forward.arguments, *operator.arguments)):
        misfits.add("an operator that overwrites an input has no gradient in PyTorch")
    sources = tuple(
        _size_of(forward, a.symbol, misfits)
        if a.symbol
        else _source(forward, operator, a.tensor, misfits)
        for a in operator.arguments
    )
    made: dict[str, int] = {}
    known = {_GRAD + a.tensor: a.tensor for a in forward.tensors}
    for k, r in enumerate(operator.results):
        if r.name not in known:
            text = f"the output {r.name!r} is not a gradient of an input of {forward.graph.label}"
            misfits.add(text, r.name, f"valid outputs: {_listed(known)}")
            continue
        of = known[r.name]
        misfits.compare(r.name, r.dtype, r.shape, forward.graph.tensors[of])
        made[of] = k
    if misfits.found:
        raise AutofuseError(misfits.found)
    results = tuple(made.get(a.tensor) if a.tensor else None for a in forward.arguments)
    return Formula(forward, operator, sources, results)


class _Misfits:
    """Mismatches of the two graphs, each an AF1404."""

    def __init__(self, graph: FusionGraph) -> None:
        self.found: list[Diagnostic] = []
        self._label = graph.label

    def add(self, text: str, node: str = "", hint: str = "") -> None:
        """Add a mismatch and the tensor that it concerns."""
        text = f"{self._label}: {text}"
        self.found.append(Diagnostic("AF1404", text, where=Where(node=node), hint=hint))

    def compare(self, name: str, dtype: DType, shape: Sequence[Expr], other: Tensor) -> None:
        """Check that a tensor has the dtype and the shape of its counterpart in the forward graph."""
        if (dtype, tuple(shape)) != (other.dtype, other.shape):
            here, there = _kind(dtype, shape), _kind(other.dtype, other.shape)
            text = f"{name!r} is {here}, but {there} in the forward graph"
            self.add(text, name, "both graphs must use the same name for a size")


def _source(forward: Operator, backward: Operator, name: str, misfits: _Misfits) -> _Source:
    """Return the source of an input of the gradient."""
    graph, own = forward.graph, backward.graph.tensors[name]
    tensors = {o.name: graph.tensors[o.tensor] for o in graph.outputs}
    found: dict[str, tuple[_Source, Tensor]] = {
        a.tensor: (_Source(_INPUT, i), graph.tensors[a.tensor])
        for i, a in enumerate(forward.arguments)
        if a.tensor
    }
    for i, r in enumerate(forward.results):
        found.setdefault(r.name, (_Source(_OUTPUT, i), tensors[r.name]))
        found.setdefault(_GRAD + r.name, (_Source(_GRADIENT, i), tensors[r.name]))
    if name not in found:
        text = f"the input {name!r} is neither an input nor a result of {graph.label}"
        misfits.add(text, name, f"valid inputs: {_listed(found)}")
        return _Source(_INPUT, 0)
    source, other = found[name]
    if own.scalar != (other.scalar and source.kind == _INPUT):
        here, there = ("a scalar", "a tensor") if own.scalar else ("a tensor", "a scalar")
        misfits.add(f"{name!r} is {here}, but {there} in the forward graph", name)
    misfits.compare(name, own.dtype, own.shape, other)
    return source


def _size_of(forward: Operator, symbol: str, misfits: _Misfits) -> _Source:
    """Return the source of a size that no input shape of the gradient determines."""
    for i, a in enumerate(forward.arguments):
        if a.symbol == symbol:
            return _Source(_SIZE, i)
    for s in forward.solved:
        if s.symbol == symbol:
            return _Source(_SIZE, s.input, s.dim, s.factor, s.plus)
    text = f"the size {symbol!r} does not follow from the inputs of {forward.graph.label}"
    misfits.add(text, hint="both graphs must use the same name for a size")
    return _Source(_SIZE, 0)


def _kind(dtype: DType, shape: Sequence[Expr]) -> str:
    return f"{dtype} [{', '.join(map(str, shape))}]"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(n) for n in names)


def formula_text(f: Formula) -> str:
    """Return the formula as Python code for PyTorch."""
    saved: list[str] = []
    rest: list[str] = []
    arguments = []
    for s in f.sources:
        if s.kind == _GRADIENT:
            arguments.append(f"grads[{s.index}]")
        elif s.kind == _SIZE:
            arguments.append(f"ctx.rest[{len(rest)}]")
            rest.append(_size_text(s))
        elif s.kind == _INPUT and f.forward.arguments[s.index].kind == "Scalar":
            arguments.append(f"ctx.rest[{len(rest)}]")
            rest.append(f"inputs[{s.index}]")
        else:
            arguments.append(f"saved[{len(saved)}]")
            one = len(f.forward.results) == 1
            made = "output" if one else f"output[{s.index}]"
            saved.append(made if s.kind == _OUTPUT else f"inputs[{s.index}]")
    count = len(f.operator.results)
    found = "found" if count == 1 else "found[{}]"
    gradients = ", ".join("None" if k is None else found.format(k) for k in f.results)
    return "\n".join(
        [
            "def _keep(ctx, inputs, output):",
            '    """Save what the gradient reads."""',
            f"    ctx.save_for_backward({', '.join(saved)})",
            f"    ctx.rest = [{', '.join(rest)}]",
            "",
            "",
            "def _gradients(ctx, *grads):",
            '    """Return a gradient, or None, for every argument."""',
            "    saved = ctx.saved_tensors",
            f"    found = {f.operator.name}({', '.join(arguments)})",
            f"    return {gradients}{',' if len(f.results) == 1 else ''}",
            "",
            "",
            f'_torch.library.register_autograd("autofuse::{f.forward.name}", _gradients, setup_context=_keep)',
        ]
    )


def _size_text(s: _Source) -> str:
    if s.dim is None:
        return f"inputs[{s.index}]"
    size = f"inputs[{s.index}].shape[{s.dim}]"
    if s.plus != "0":
        size = f"({size} - {_number(s.plus)})"
    return size if s.factor == "1" else f"{size} // {_number(s.factor)}"


def _number(literal: str) -> int:
    """Return the value of a C++ integer literal."""
    return int(literal.removeprefix("INT64_C(").removesuffix(")"))
