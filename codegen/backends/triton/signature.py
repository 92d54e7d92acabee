"""Signature of the function of a graph: its names, sizes and argument checks as Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autofuse.codegen.backends.triton.call import Call
from autofuse.codegen.backends.triton.python_text import Names, to_python
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor

__all__ = ["Signature", "entry_point", "new_tensor", "torch_dtype"]


def entry_point(graph: FusionGraph) -> str:
    """Return the name of the public function of a graph's file."""
    return Names().take(graph.name)


def torch_dtype(d: DType) -> str:
    """Return the PyTorch spelling of a dtype."""
    return f"torch.{d.name}"


def new_tensor(name: str, shape: str, dtype: DType, device: str) -> str:
    """Return the line that allocates a tensor."""
    return f"{name} = torch.empty({shape}, dtype={torch_dtype(dtype)}, device={device})"


@dataclass(frozen=True)
class Signature:
    """Names in the function of a graph; all are distinct identifiers.

    Attributes:
        graph: the original graph.
        symbols: its symbols -> their names.
        inputs, outputs: their names, in the order of the graph; an output that overwrites an input has its name.
        call: parameters of the function that the graph was recorded from; None: the inputs, by these names.
    """

    graph: FusionGraph
    symbols: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    call: Call | None = None

    @classmethod
    def of(cls, graph: FusionGraph, names: Names, call: Call | None = None) -> Signature:
        """Return the names of a graph, taken from ``names``."""
        symbols = {s.name: names.take(s.name) for s in graph.symbols}
        inputs = {x: names.take(x) for x in graph.inputs}
        outputs = tuple(
            names.take(o.name) if o.inout is None else inputs[o.inout] for o in graph.outputs
        )
        return cls(graph, symbols, tuple(inputs.values()), outputs, call)

    def tensors(self) -> list[tuple[str, Tensor]]:
        """Return every input with its name."""
        return [
            (n, self.graph.tensors[x]) for n, x in zip(self.inputs, self.graph.inputs, strict=True)
        ]

    def overwritten(self) -> frozenset[str]:
        """Return the names of the inputs that an output overwrites."""
        return frozenset(
            n for n, o in zip(self.outputs, self.graph.outputs, strict=True) if o.inout is not None
        )

    def free(self) -> list[str]:
        """Return the symbols that are not a dimension of an input, so that a call has to pass them."""
        return [s.name for s in self.graph.symbols if self.bound(s.name) is None]

    def bound(self, symbol: str) -> tuple[str, int] | None:
        """Return an input and its dimension that is exactly a symbol."""
        for name, t in self.tensors():
            for d, e in enumerate(t.shape):
                if str(e) == symbol and not t.scalar:
                    return name, d
        return None

    def python(self, e: Expr, *, atomic: bool = False) -> str:
        """Return a size in terms of the function's variables."""
        return to_python(e, self.symbols, atomic=atomic)

    def shape(self, shape: tuple[Expr, ...]) -> str:
        """Return a shape or strides, as a tuple."""
        sizes = ", ".join(self.python(e) for e in shape)
        return f"({sizes},)" if len(shape) == 1 else f"({sizes})"

    # lines of the function --------------------------------------------------------------------
    def head(self, name: str, *, annotated: bool) -> list[str]:
        """Return the ``def`` line, and a docstring that describes the arguments."""
        tensor = ": torch.Tensor" if annotated else ""
        keywords = [f"{self.symbols[s]}: int" for s in self.free()]
        if not self.inputs:
            keywords.append(
                "device: torch.device | str | None = None" if annotated else "device=None"
            )
        given = ", ".join(
            [*(f"{n}{tensor}" for n in self.inputs), *(["*", *keywords] if keywords else [])]
        )
        if self.call is not None:
            given = self.call.parameters(keywords, annotated=annotated)
        result = ", ".join(["torch.Tensor"] * len(self.outputs))
        result = f"tuple[{result}]" if len(self.outputs) > 1 else result
        returns = f" -> {result}" if annotated else ""
        takes = ", ".join(
            f"{n} {t.dtype.name}[{', '.join(self.python(e) for e in t.shape)}]"
            for n, t in self.tensors()
        )
        return [
            f"def {name}({given}){returns}:",
            f'    """Takes {takes or "no tensors"}."""',
        ]

    def sizes(self, functions: Sequence[str] = ()) -> Iterator[str]:
        """Yield lines that bind the inputs to their names, and read the symbols from their shapes.

        Args:
            functions: module functions that the text calls.
        """
        if self.call is not None:
            yield from self.call.opening(
                dict(zip(self.graph.inputs, self.inputs, strict=True)), functions
            )
        for s in self.graph.symbols:
            found = self.bound(s.name)
            if found is not None:
                yield f"{self.symbols[s.name]} = {found[0]}.shape[{found[1]}]"

    def checks(self, *, any_layout: bool) -> Iterator[str]:
        """Yield lines that raise ValueError for arguments that do not fit the graph.

        Args:
            any_layout: copy inputs with other strides.
        """
        overwritten = self.overwritten()
        for name, t in self.tensors():
            yield from self._fits(t, name)
            if not t.scalar:
                yield from self._laid_out(t, name, any_layout and name not in overwritten)

    def _fits(self, t: Tensor, name: str) -> Iterator[str]:
        """Yield the checks of a tensor's shape, dtype and device."""
        first, other, on, place = self.inputs[0], f"{name}.dtype != {torch_dtype(t.dtype)}", "", ""
        if name != first:
            other += f" or {name}.device != {first}.device"
            on, place = f" on {{{first}.device}}", f" on {{{name}.device}}"
        have = f"{name} is {{{name}.dtype}}{{tuple({name}.shape)}}{place}"
        if t.scalar:
            yield f"if {name}.numel() != 1 or {other}:"
            yield f'    raise ValueError(f"{have}, not one element of {t.dtype.name}{on}")'
            return
        shape = self.shape(t.shape)
        yield f"if {name}.shape != {shape} or {other}:"
        yield f'    raise ValueError(f"{have}, not {t.dtype.name}{{{shape}}}{on}")'

    def _laid_out(self, t: Tensor, name: str, copied: bool) -> Iterator[str]:
        """Yield lines that ensure that a tensor has the strides of the graph: by a copy, or with an error."""
        if t.strides is None:
            if copied:
                yield f"{name} = {name}.contiguous()"
                return
            yield f"if not {name}.is_contiguous():"
        else:
            strides = self.shape(t.strides)
            yield f"if {name}.numel() > 0 and {name}.stride() != {strides}:"
            if copied:
                made = f"torch.empty_strided({name}.shape, {strides}, dtype={name}.dtype, device={name}.device)"
                yield f"    {name} = {made}.copy_({name})"
                return
        yield f'    raise ValueError(f"{name} has strides {{{name}.stride()}}")'

    def allocated(self, device: str) -> Iterator[str]:
        """Yield lines that allocate the results, except those that overwrite an input."""
        for name, o in zip(self.outputs, self.graph.outputs, strict=True):
            if o.inout is None:
                t = self.graph.tensors[o.tensor]
                yield new_tensor(name, self.shape(t.shape), t.dtype, device)

    def returned(self) -> str:
        """Return the last line."""
        return f"return {', '.join(self.outputs)}"
