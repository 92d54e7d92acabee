"""Translate a client's graphs to one FusionGraph.

A HintGraph gives axes, sizes and strides of every tensor.  A Load becomes an input with that layout, one per layout of
a buffer; a Store with a layout other than row-major is transposed, or written into an input with that layout.  All
other nodes are ops on tensors whose dimensions are the axes.  If one graph loads a buffer that another one stored, the
value is passed on and the buffer disappears.

All unreadable constructs are reported together; none is dropped silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.base.wording import counted
from autofuse.clients.cann.pyautofuse.errors import ClientTypeError
from autofuse.clients.cann.pyautofuse.foreign import ForeignType
from autofuse.clients.cann.pyautofuse.graphs import FusedGraph, HintGraph, argument_order
from autofuse.clients.cann.pyautofuse.nodes import Operator, OpOutput, source_of
from autofuse.clients.cann.pyautofuse.reading.emission import Emission
from autofuse.clients.cann.pyautofuse.reading.memory import Buffer
from autofuse.clients.cann.pyautofuse.reading.nodes import NodeReader
from autofuse.clients.cann.pyautofuse.reading.symbol_ranges import symbols_for
from autofuse.clients.cann.pyautofuse.reading.views import Place
from autofuse.frontends.builder import topological_order
from autofuse.frontends.layout import contiguous
from autofuse.implgraph.expr.expression import ZERO, Expr, sym
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput, Tensor
from autofuse.implgraph.ir.names import identifier, symbol_identifier

__all__ = ["Pointer", "Translated", "translate"]

_IO = ("Data", "Output")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A parameter of the client: input or output ``index``."""

    kind: str
    index: int


@dataclass(frozen=True, slots=True)
class Translated:
    """Result of :func:`translate`.

    Attributes:
        graph: the computation.
        inputs: the client's parameter viewed by every input of ``graph``.
        outputs: the client's parameter for every output of ``graph``.
        input_count: number of inputs that the client passes.
        overlaps: (input of ``graph``, output) that may share a buffer: they have the same layout, the output depends on
            the input, and nothing reads the input after the output is stored.
        crossed: those of ``overlaps`` loaded along other axes than stored, so that elements are permuted.
    """

    graph: FusionGraph
    inputs: tuple[Pointer, ...]
    outputs: tuple[Pointer, ...]
    input_count: int
    overlaps: tuple[tuple[str, int], ...] = ()
    crossed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """A HintGraph, the buffers that it reads by index, and the node that runs it."""

    hint: HintGraph
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]


def translate(graph: FusedGraph | HintGraph) -> Translated:
    """Return the FusionGraph of a client's graph.

    Raises:
        ClientTypeError: AF1103, the argument is not a graph.
        AutofuseError: every unsupported or incomplete construct, each with the name of its node.
    """
    if not isinstance(graph, FusedGraph | HintGraph):
        text = f"{graph!r} is not a graph"
        raise ClientTypeError.of("AF1103", text, hint="a FusedGraph or a HintGraph")
    return _Translation(graph).run()


class _Translation:
    """One run of :func:`translate`."""

    def __init__(self, graph: FusedGraph | HintGraph) -> None:
        self.graph = graph
        self.emission = Emission(graph.name)
        self.findings: list[Diagnostic] = []
        self.outputs: dict[int, tuple[Tensor, Place, str]] = {}

    def run(self) -> Translated:
        """Return the translation."""
        parts, inputs, outputs = self._parts()
        self._raise()
        names = argument_order([p.hint for p in parts])
        renamed = {n: symbol_identifier(n, self.emission.taken) for n in names}
        substitution = {n: sym(r) for n, r in renamed.items()}
        last_use: dict[str, tuple[int, int]] = {}
        load_axes: dict[str, set[tuple[int, tuple[int, ...]]]] = {}
        for k, part in enumerate(parts):
            reader = NodeReader(self.emission, part.hint, part.reads, part.writes, substitution, k)
            reader.read()
            self.findings += reader.findings
            self._raise()
            last_use |= reader.last_use
            for name, axes in reader.load_axes.items():
                load_axes.setdefault(name, set()).update(axes)
        for k, buffer in enumerate(outputs):
            if buffer.stored is None:
                self._note("AF1107", f"nothing is stored to output {k}", buffer.name)
            elif (said := self._said(k)) not in (None, buffer.dtype):
                self._note(
                    "AF1207", f"output {k} is {said}, but {buffer.dtype} is stored", buffer.name
                )
        self._raise()
        pointers = [Pointer("input", b.index) for b in self._views(inputs)]
        views = list(self.emission.inputs)
        declared: list[GraphOutput] = []
        for k, buffer in enumerate(outputs):
            self.emission.node = buffer.name
            out, memory = self._output(k, buffer)
            declared.append(out)
            pointers += [Pointer("output", k)] * memory
        e = self.emission
        symbols = symbols_for(tuple(renamed.values()), e.tensors.values())
        fusion = FusionGraph(
            e.name,
            symbols,
            tuple(e.inputs),
            tuple(e.nodes),
            tuple(declared),
            dict(e.tensors),
            e.called,
        )
        targets = tuple(Pointer("output", k) for k in range(len(outputs)))
        pairs = [
            (name, k)
            for k, buffer in enumerate(outputs)
            for name in views
            if name in last_use and last_use[name] <= buffer.place and self._may_overlap(name, k)
        ]
        stored = [(b.place[0], b.axes) for b in outputs]
        crossed = tuple(p for p in pairs if load_axes[p[0]] != {stored[p[1]]})
        return Translated(fusion, tuple(pointers), targets, len(inputs), tuple(pairs), crossed)

    def _may_overlap(self, name: str, k: int) -> bool:
        """Return True if output ``k`` has the layout of an input and depends on it."""
        t = self.emission.tensors[name]
        tensor, place, _ = self.outputs[k]
        own = Place(t.shape, t.strides or contiguous(t.shape), _offset(t))
        if t.dtype.itemsize != tensor.dtype.itemsize or own.needed != place.needed:
            return False
        return own.offset == place.offset and name in self.emission.live({tensor.name})[1]

    def _views(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """Return the buffer viewed by every input of the graph so far."""
        of = {t.name: b for b in inputs for t in b.views.values()}
        return [of[name] for name in self.emission.inputs]

    def _output(self, k: int, buffer: Buffer) -> tuple[GraphOutput, bool]:
        """Return output ``k``, and True if it has an input for its memory layout."""
        assert buffer.stored is not None
        e, stored = self.emission, buffer.stored
        name = identifier(f"out{k}", e.taken)
        tensor, place = stored.tensor, stored.place.normal()
        if tensor.name in e.inputs or any(o[0] is tensor for o in self.outputs.values()):
            tensor = e.tensor(e.op("Identity", tensor))
        self.outputs[k] = (tensor, place, name)
        if place.dense and place.offset == 0:
            return GraphOutput(name, tensor.name), False
        offset = None if place.offset == 0 else place.offset
        strides = None if place.dense else place.strides
        memory = e.parameter(f"out{k}_memory", tensor.dtype, place.sizes, strides, offset)
        return GraphOutput(name, tensor.name, memory.name), True

    def _said(self, k: int) -> object:
        """Return the element type that the outer graph gives output ``k``."""
        ends = [n for n in self.graph.operators if n.type == "Output"]
        return self._numbered(ends, "output")[k].y.dtype

    # the outer graph --------------------------------------------------------------------------

    def _parts(self) -> tuple[list[_Part], list[Buffer], list[Buffer]]:
        """Return the HintGraphs in execution order, and the buffers of inputs and of outputs."""
        if isinstance(self.graph, HintGraph):
            return self._single(self.graph)
        inputs = self._numbered([n for n in self.graph.operators if n.type == "Data"], "input")
        ends = self._numbered([n for n in self.graph.operators if n.type == "Output"], "output")
        runs = [n for n in self.graph.operators if n.subgraph is not None]
        for n in self.graph.operators:
            if n.type not in _IO and n.subgraph is None:
                text = f"{n.type} is not supported in a FusedGraph"
                self._note("AF1301", text, n.name, "use Data, Output and AscBackend nodes")
        for n in (*inputs, *ends):
            if isinstance(n.y.dtype, ForeignType):
                self._note("AF1203", f"{n.y.dtype} is not a type that kernels support", n.name)
        names: set[str] = set()
        for n in (*inputs, *runs):
            if n.name in names:
                self._note("AF1106", f"two nodes are called {n.name}", n.name)
            names.add(n.name)
            unknown = sorted(set(n.inputs) - {"x"})
            if unknown:
                self._note("AF1202", f"{n.type} has no input {unknown[0]!r}", n.name)
        buffers = {(n.name, 0): Buffer(n.name, k, n.y.dtype) for k, n in enumerate(inputs)}
        for n in runs:
            for k in range(_output_count(n.subgraph)):
                buffers[n.name, k] = Buffer(f"{n.name}.y[{k}]", -1)
        parts, edges = [], []
        position = {n.name: i for i, n in enumerate(runs)}
        for n in runs:
            sources = _listed(n.inputs.get("x"))
            reads = [self._buffer(n, s, buffers) for s in sources]
            writes = [buffers[n.name, k] for k in range(_output_count(n.subgraph))]
            known = tuple(b for b in reads if b is not None)
            parts.append(_Part(n.subgraph, known, tuple(writes)))
            edges.append([position[s.node.name] for s in sources if s and s.node.name in position])
            want = n.subgraph.get_input_num()
            if len(known) == len(reads) and len(reads) != want:
                text = (
                    f"{counted(len(reads), 'input is', 'inputs are')} assigned to x, and "
                    f"{n.subgraph.name} has {want} Data"
                )
                self._note("AF1202", text, n.name)
        order, stuck = topological_order(edges)
        if stuck:
            self._note("AF1206", "the AscBackend nodes form a cycle", runs[stuck[0]].name)
        outputs = []
        for n in ends:
            ends_in = _listed(n.inputs.get("x")) or [None]
            if len(ends_in) != 1:
                self._note("AF1202", f"an Output has one input, not {len(ends_in)}", n.name)
            found = self._buffer(n, ends_in[0], buffers)
            if found is not None and found.index >= 0:
                text = f"output {n.name} is input {found.name}: it needs no kernel"
                self._note("AF1301", text, n.name)
            outputs.append(found or Buffer(n.name, -1))
        if not ends:
            self._no_output()
        if not runs:
            self._note("AF1107", "there is no AscBackend in the graph", self.graph.name)
        return [parts[i] for i in order], [buffers[n.name, 0] for n in inputs], outputs

    def _single(self, graph: HintGraph) -> tuple[list[_Part], list[Buffer], list[Buffer]]:
        inputs = self._numbered([n for n in graph.operators if n.type == "Data"], "input")
        ends = self._numbered([n for n in graph.operators if n.type == "Output"], "output")
        if not any(n.type in ("Output", "Store") for n in graph.operators):
            self._note("AF1107", "nothing in the graph is stored", graph.name)
        elif not ends:
            self._no_output()
        reads = [Buffer(n.name, k) for k, n in enumerate(inputs)]
        writes = [Buffer(n.name, -1) for n in ends]
        return [_Part(graph, tuple(reads), tuple(writes))], reads, writes

    def _numbered(self, nodes: list[Operator], what: str) -> list[Operator]:
        """Return nodes sorted by their attribute ``index``, which counts from 0; without it, in order."""
        given = [n.ir_attr.values.get("index") for n in nodes]
        if all(i is None for i in given):
            return nodes
        if sorted(i if isinstance(i, int) else -1 for i in given) != list(range(len(nodes))):
            text = f"the {what}s have the indices {given}: they must be 0 to {len(nodes) - 1}"
            self._note("AF1205", text, nodes[0].name)
            return nodes
        return sorted(nodes, key=lambda n: n.ir_attr.values["index"])

    def _buffer(
        self, node: Operator, source: OpOutput | None, buffers: dict[tuple[str, int], Buffer]
    ) -> Buffer | None:
        found = None if source is None else buffers.get((source.node.name, source.index))
        if found is None:
            text = "an input has no value" if source is None else f"{source} is not a buffer"
            hint = "x must be a list of Data nodes and outputs of AscBackend nodes"
            self._note("AF1107", text, node.name, hint)
        return found

    # findings ---------------------------------------------------------------------------------

    def _no_output(self) -> None:
        text = "the graph has no Output, and so no visible result"
        self._note(
            "AF1107", text, self.graph.name, "ascir.ops.Output(name, graph), with a Store as x"
        )

    def _note(self, code: str, text: str, node: str, hint: str = "") -> None:
        self.findings.append(Diagnostic(code, text, Where(node=node), hint))

    def _raise(self) -> None:
        if self.findings:
            raise AutofuseError(self.findings)


def _offset(t: Tensor) -> Expr:
    return ZERO if t.offset is None else t.offset


def _output_count(graph: HintGraph) -> int:
    return graph.get_output_num()


def _listed(value: object) -> list[OpOutput | None]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [source_of(v) for v in value]
    return [source_of(value)]
