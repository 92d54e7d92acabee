"""A graph as a PyTorch operator: its arguments and results, and the sizes that their shapes determine.

A tensor of the graph becomes a ``Tensor``, a run-time scalar a ``Scalar``, and a symbol that no shape determines a
trailing ``SymInt``.  An input that the kernel overwrites is ``Tensor(a!)``, and is not a result.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import counted
from autofuse.codegen.backends.ascendc.host.host import Solution, solve
from autofuse.codegen.lower.names import parameter_names
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.names import identifier

__all__ = ["SCALAR_TYPES", "Argument", "Operator", "Result", "operator_of", "word"]

#: Element type -> the C++ name of PyTorch's dtype; the Python name is that of the graph.
SCALAR_TYPES = {
    "float32": "kFloat",
    "float16": "kHalf",
    "bfloat16": "kBFloat16",
    "int8": "kChar",
    "int16": "kShort",
    "int32": "kInt",
    "int64": "kLong",
    "uint8": "kByte",
    "uint16": "kUInt16",
    "uint32": "kUInt32",
    "uint64": "kUInt64",
    "bool": "kBool",
}
#: Reserved besides Python's keywords: words of the schema language, and members of an operator namespace.
_WORDS = frozenset({"Tensor", "Scalar", "SymInt", "self", "inf", "nan", "name"})


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the operator.

    Attributes:
        name: name in the schema, valid in Python and in schemas.
        kind: ``Tensor``, ``Scalar`` or ``SymInt``.
        tensor: input of the graph; empty for a symbol.
        symbol: symbol that the argument gives; empty for an input.
        variable: C++ variable.
        written: True if the kernel overwrites it.
    """

    name: str
    kind: str
    tensor: str
    symbol: str
    variable: str
    written: bool = False

    @property
    def declared(self) -> str:
        """Return the argument as the schema declares it."""
        return f"{'Tensor(a!)' if self.written else self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """Result of the operator: an output of the graph, with its dtype and shape."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """A graph as an operator of the namespace ``autofuse``.

    Attributes:
        graph: graph of the operator.
        name: name of the operator.
        arguments: inputs of the graph in order, then symbols.
        results: outputs of the graph that overwrite no input, in order.
        solved: the dimension that determines each symbol, where one does.
    """

    graph: FusionGraph
    name: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    solved: tuple[Solution, ...]

    @property
    def schema(self) -> str:
        """Return the schema without the namespace."""
        count = len(self.results)
        returned = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        # Every overwritten argument gets its own alias set.
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        declared = [
            a.declared.replace("(a!)", f"({next(letters)}!)") if a.written else a.declared
            for a in self.arguments
        ]
        return f"{self.name}({', '.join(declared)}) -> {returned}"

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """Return the tensor arguments."""
        return tuple(a for a in self.arguments if a.kind == "Tensor")


def operator_of(graph: FusionGraph, name: str = "") -> Operator:
    """Return a graph as an operator.

    Args:
        graph: graph of the operator.
        name: name of the operator; empty for the graph's name.

    Raises:
        AutofuseError: AF5007, PyTorch cannot express the operator: no input is a tensor, too many inputs are
            overwritten, or the graph fixes strides that no PyTorch tensor has.
    """
    taken: set[str] = set()
    written = {o.inout for o in graph.outputs if o.inout is not None}
    arguments = []
    for i, (tensor, parameter) in enumerate(
        zip(graph.inputs, parameter_names(graph).inputs, strict=True)
    ):
        kind = "Scalar" if graph.tensors[tensor].scalar else "Tensor"
        own = identifier(word(parameter), taken)
        arguments.append(Argument(own, kind, tensor, "", f"input_{i}", tensor in written))
    if not any(a.kind == "Tensor" for a in arguments):
        raise AutofuseError.of(
            "AF5007",
            f"{graph.label} has no tensor input: a PyTorch operator would have no device",
            hint="give the graph an input with a shape, or use --entry launch",
        )
    for a in arguments:
        _check_memory(graph, a)
    if len(written) > 26 or any(a.written and a.kind == "Scalar" for a in arguments):
        raise AutofuseError.of(
            "AF5007",
            f"{graph.label} overwrites {counted(len(written), 'input')}; an operator of "
            "PyTorch overwrites at most 26 tensors,"
            " and no number",
        )
    solved = tuple(solve(graph))
    found = {s.symbol for s in solved}
    for i, symbol in enumerate(graph.symbols):
        if symbol.name not in found:
            own = identifier(word(symbol.name), taken)
            arguments.append(Argument(own, "SymInt", "", symbol.name, f"size_{i}"))
    results = tuple(
        Result(o.name, graph.tensors[o.tensor].dtype, graph.tensors[o.tensor].shape)
        for o in graph.outputs
        if o.inout is None
    )
    return Operator(graph, word(name or graph.name), tuple(arguments), results, solved)


def word(name: str) -> str:
    """Return a C++ identifier as one that is also valid in Python and in schemas."""
    special = keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _WORDS
    return f"v_{name}" if special else name


def _check_memory(graph: FusionGraph, argument: Argument) -> None:
    """Raise AF5007 for a layout that no PyTorch tensor can have."""
    tensor = graph.tensors[argument.tensor]
    for stride in tensor.strides or ():
        number = stride.as_int()
        if number is not None and number < 0:
            raise AutofuseError.of(
                "AF5007",
                f"{argument.tensor} has a stride of {number}; PyTorch does not allow negative strides",
                where=Where(node=argument.tensor),
            )
