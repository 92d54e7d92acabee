"""The baseline: a graph as one PyTorch function, with an assignment per node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.clients.kernelgen.pytorch import elementwise, integers, movement, reductions, special
from autofuse.clients.kernelgen.pytorch.operation import Operation, Row
from autofuse.codegen.backends.triton.call import Call
from autofuse.codegen.backends.triton.python_text import Names
from autofuse.codegen.backends.triton.signature import Signature, entry_point
from autofuse.implgraph.ir.fusion import Constant, FusionGraph, FusionNode
from autofuse.implgraph.ops.infer import operand_dtypes

__all__ = ["TORCH", "baseline_text"]

#: Op -> its form in PyTorch.
TORCH: Mapping[str, Row] = {
    **elementwise.ROWS,
    **special.ROWS,
    **integers.ROWS,
    **reductions.ROWS,
    **movement.ROWS,
}


def baseline_text(graph: FusionGraph, call: Call | None = None) -> str:
    """Return the text of a module with one function, with the name and parameters of the kernels' function.

    It computes in the dtypes of its arguments, so it also accepts a wider reference.  It returns new, contiguous
    tensors, or the inputs that it overwrites.  The module has no decorator or other function and imports only
    ``torch``, because KernelGen's converter takes only the first function.

    Args:
        graph: graph of the operator.
        call: parameters of the function; None for the inputs of the graph.

    Raises:
        AutofuseError: AF3001, PyTorch has no form of an op for a dtype.
    """
    return _Baseline(graph, call).text()


class _Baseline:
    """The function of one graph.

    Attributes:
        names: names of tensors in the function.
        lines: its body.
        lent: names that may alias an input.
        viewed: names that may be non-contiguous.
    """

    def __init__(self, graph: FusionGraph, call: Call | None) -> None:
        self.graph, self.taken = graph, Names()
        self.signature = Signature.of(graph, self.taken, call)
        self.names = dict(zip(graph.inputs, self.signature.inputs, strict=True))
        self.lines: list[str] = []
        self.lent = set(self.signature.inputs)
        self.viewed: set[str] = set()
        device = f"{self.signature.inputs[0]}.device" if self.signature.inputs else "device"
        self.device = device
        self.least = {s.name: s.min for s in graph.symbols}
        self.wanted: dict[str, str] = {}
        for name, o in zip(self.signature.outputs, graph.outputs, strict=True):
            if o.inout is None and o.tensor not in self.names:
                self.wanted.setdefault(o.tensor, name)

    def text(self) -> str:
        """Return the text of the module."""
        name = entry_point(self.graph)
        self.lines += self._arguments()
        for node in self.graph.nodes:
            self._node(node)
        self.lines += self._results()
        head = self.signature.head(name, annotated=True)
        body = "\n".join(f"    {line}" for line in self.lines)
        return f'"""{name}: the operator as PyTorch code."""\n\nimport torch\n\n\n' + "\n".join(
            (*head, body, "")
        )

    def _arguments(self) -> Iterator[str]:
        if not self.signature.inputs:
            yield 'device = device or ("cuda" if torch.cuda.is_available() else "cpu")'
        yield from self.signature.sizes()
        for name, t in self.signature.tensors():
            if t.scalar:
                yield f"if {name}.numel() != 1:"
                yield f'    raise ValueError("{name} is one element of {t.dtype.name}")'
                yield f"{name} = {name}.reshape(())"
                continue
            shape = self.signature.shape(t.shape)
            yield f"if {name}.shape != {shape}:"
            yield f'    raise ValueError(f"{name} is {{tuple({name}.shape)}}, not {{{shape}}}")'

    def _let(self, wanted: str, text: str) -> str:
        name = self.taken.take(wanted)
        self.lines.append(f"{name} = {text}")
        return name

    def _node(self, node: FusionNode) -> None:
        tensors, result = self.graph.tensors, self.graph.tensors[node.outputs[0]]
        row = TORCH[node.op]
        kinds = operand_dtypes([x if isinstance(x, Constant) else tensors[x] for x in node.inputs])
        if row.divides and any(d.name == "uint64" for d in kinds):
            text = f"PyTorch has no {node.op} for uint64, and so there is no baseline"
            hint = "insert a Cast to int64 if the values allow it"
            raise AutofuseError.of("AF3001", text, where=Where(node=node.label), hint=hint)
        operands = tuple(x if isinstance(x, Constant) else self.names[x] for x in node.inputs)
        shapes = tuple(() if isinstance(x, Constant) else tensors[x].shape for x in node.inputs)
        op = Operation(
            row,
            node.attrs,
            operands,
            tuple(kinds),
            shapes,
            result.dtype,
            result.shape,
            self.signature.python,
            lambda text: self._let(node.name, text),
            self.device,
            self.least,
        )
        text = op.text()
        wanted = self.wanted.get(node.outputs[0])
        if wanted is None:
            name = self._let(node.outputs[0], text)
        else:
            name = wanted
            self.lines.append(f"{name} = {text}")
        self.names.update(dict.fromkeys(node.outputs, name))
        used = {x for x in operands if isinstance(x, str)}
        if node.op in movement.STRIDED or used & self.viewed:
            self.viewed.add(name)
        if (node.op in movement.VIEWS or text.isidentifier()) and used & self.lent:
            self.lent.add(name)

    def _results(self) -> Iterator[str]:
        """Yield the outputs with their own memory, then the overwritten inputs."""
        given: set[str] = set()
        copies = []
        for name, o in zip(self.signature.outputs, self.graph.outputs, strict=True):
            have = self.names[o.tensor]
            if have in self.lent or (have in given and o.inout is None):
                made = f"{have}.clone(memory_format=torch.contiguous_format)"
            elif have in self.viewed and o.inout is None:
                made = f"{have}.contiguous()"
            else:
                made = have
            if o.inout is None:
                given.add(have)
                if made != name:
                    yield f"{name} = {made}"
            elif have != name:
                if made != have:
                    have = self.taken.take(f"{name}_new")
                    yield f"{have} = {made}"
                copies.append(f"{name}.copy_({have})")
        yield from copies
        yield self.signature.returned()
