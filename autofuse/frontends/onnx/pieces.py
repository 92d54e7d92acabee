"""Reader of a whole ONNX model: each node becomes ops of a kernel, or a fallback with its reason.

All nodes are read into one graph of ops (``nodes``, ``tensors``), in which the results of fallback nodes are inputs.
The module ``regions`` decides which nodes become a kernel together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import counted
from autofuse.frontends.builder import MAX_NODES
from autofuse.frontends.json_positions import quote
from autofuse.frontends.onnx import inference, tables
from autofuse.frontends.onnx.inference import read_by, subgraphs
from autofuse.frontends.onnx.loading import check_model
from autofuse.frontends.onnx.reader import DOMAINS, Reader
from autofuse.frontends.onnx.values import Array, Foreign, Known, NeededError, Traced, Value
from autofuse.implgraph.cutting.cut import expressions
from autofuse.implgraph.expr.expression import Expr, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionNode, Symbol, Tensor

if TYPE_CHECKING:
    import onnx

__all__ = [
    "FALLBACK",
    "KERNEL",
    "KNOWN",
    "RENAMED",
    "UNUSED",
    "ModelPieces",
    "Piece",
    "read_pieces",
]

#: Kinds of :class:`Piece`.
KERNEL, FALLBACK, KNOWN, RENAMED, UNUSED = "kernel", "fallback", "known", "renamed", "unused"

#: (smallest, log2 of the largest) size of a symbol, tried in order until no tensor is too large or negative.
_RANGES = ((0, 20), (1, 20), (1, 16), (1, 12), (1, 8))


@dataclass(frozen=True, slots=True)
class Piece:
    """One node of the model.

    Attributes:
        index: its place in the model's list of nodes.
        name: its name, or its first result's.
        op: its op.
        kind: ``kernel``: a kernel can hold it; ``fallback``: no kernel can; ``known``: its results are known when the
            model is read; ``renamed``: its results are its operands; ``unused``: no output of the model depends on it.
        code: for a fallback, the code of the diagnostic.
        reason: for a fallback, its reason.
        inputs: tensors of the model that it reads, also inside its subgraphs.
        outputs: tensors of the model that it computes.
        nodes: its ops: a range of :attr:`ModelPieces.nodes`.
        needs: nodes of the model that must run before it.
    """

    index: int
    name: str
    op: str
    kind: str
    code: str = ""
    reason: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    nodes: range = range(0)
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelPieces:
    """A model, read node by node.

    Attributes:
        model: the model with its local functions inlined.
        path: name of its file, for messages.
        name: a C identifier.
        label: the model's own name.
        pieces: one per node of the model, in its order.
        nodes: all ops.
        tensors: all tensors of these, by name.
        symbols: sizes that are known only at run time.
        dims: symbol -> its name in the model, or the tensor and axis.
        parameters: tensors that are initialisers, or initialisers with moved elements -> elements.
        origins: parameter -> its initialiser.
        values: tensor of the model -> its value.
        keys: tensor of the model -> its storage at run time; identical tensors share a key.
        inputs: tensors of the model that a caller passes.
        outputs: tensors of the model that a caller receives.
        shapeless: tensors of the model whose shapes are known only at run time.
    """

    model: onnx.ModelProto
    path: str
    name: str
    label: str
    pieces: tuple[Piece, ...]
    nodes: tuple[FusionNode, ...]
    tensors: Mapping[str, Tensor]
    symbols: Mapping[str, Symbol]
    dims: Mapping[str, str]
    parameters: Mapping[str, Array]
    origins: Mapping[str, str]
    values: Mapping[str, Value]
    keys: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapeless: frozenset[str]

    def ops(self, indices: Sequence[int]) -> list[FusionNode]:
        """Return the ops of some nodes of the model, in order."""
        return [self.nodes[k] for i in sorted(indices) for k in self.pieces[i].nodes]


def read_pieces(model: onnx.ModelProto, *, path: str = "") -> ModelPieces:
    """Read a model node by node.

    Args:
        model: the model.
        path: name of its file for messages.

    Raises:
        AutofuseError: the model is not a valid graph: AF1003, AF1104, AF1106, AF1107.
    """
    check_model(model, path)
    model = _without_functions(model, path)
    best: ModelPieces | None = None
    for smallest, bits in _RANGES:
        found = _ModelReader(model, path, smallest, bits).pieces()
        if best is None or _sized(found) < _sized(best):
            best = found
        if not _sized(best) or not best.symbols:
            break
    assert best is not None
    return best


def _sized(pieces: ModelPieces) -> int:
    """Count the nodes excluded from kernels because some symbol size would be too large or too small."""
    return sum(p.code == "AF1109" for p in pieces.pieces) + len(pieces.shapeless)


def _without_functions(model: onnx.ModelProto, path: str) -> onnx.ModelProto:
    """Inline the calls of local functions.

    Raises:
        AutofuseError: AF1003, they recurse endlessly, or give too many nodes.
    """
    if not model.functions:
        return model
    import onnx
    from onnx import inliner

    own = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Any, open_calls: frozenset[tuple[str, str]]) -> int:
        total = 0
        for n in nodes:
            key = (n.domain, n.op_type)
            if key in open_calls:
                text = f"the function {quote(n.op_type)} calls itself"
                raise AutofuseError.of("AF1003", text, where=Where(path))
            if key in own and key not in sizes:
                sizes[key] = size(own[key].node, open_calls | {key})
            total += sizes.get(key, 1)
            total += sum(size(g.node, open_calls) for g in subgraphs(n))
        return total

    count = size(model.graph.node, frozenset())
    if count > MAX_NODES:
        text = f"with its functions the model has {counted(count, 'node')}; at most {MAX_NODES} are allowed"
        raise AutofuseError.of("AF1003", text, where=Where(path))
    try:
        found: onnx.ModelProto = inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as e:
        text = f"the functions of the model cannot be inlined: {e}"
        raise AutofuseError.of("AF1104", text, where=Where(path)) from None
    return found


def _sizes(v: Known) -> list[Expr]:
    """Return the elements of a constant that are sizes."""
    return [e for e in v.array.flat if isinstance(e, Expr)] if v.array.dtype == object else []


def _has_sizes(v: Value) -> bool:
    return isinstance(v, Known) and any(e.symbols() for e in _sizes(v))


class _ModelReader(Reader):
    """Reads a model once, with one range for all symbols."""

    def __init__(self, model: onnx.ModelProto, path: str, smallest: int, bits: int) -> None:
        super().__init__(model, path, {}, {})
        self.smallest, self.largest = smallest, min(self.largest, 1 << bits)
        self.values: dict[str, Value] = {}
        self.keys: dict[str, str] = {}
        self.shapeless: set[str] = set()
        self.numbers: dict[str, Traced] = {}
        self.dims: dict[str, str] = {}
        #: The node of the model that computes a tensor, by key, or that determines a symbol.
        self.maker: dict[str, int] = {}
        self.definer: dict[str, int] = {}
        #: Text of an expression in a shape -> the expression; shape inference carries the text.
        self.sizes: dict[str, Expr] = {}
        graph = model.graph
        known = (*graph.value_info, *graph.output)
        self.declared = {v.name: v.type for v in known if v.type.HasField("tensor_type")}

    def pieces(self) -> ModelPieces:
        graph = self.model.graph
        for i, t in enumerate(graph.initializer):
            self.e.pointer = f"/graph/initializer/{i}"
            self.define(t.name, self.initialiser(t))
        inputs = []
        for i, v in enumerate(graph.input):
            self.e.pointer = f"/graph/input/{i}"
            if v.name not in self.values:
                inputs.append(v.name)
                self.define(v.name, self.given(v))
        found = [self.piece(i, n) for i, n in enumerate(graph.node)]
        self.e.node, self.e.op_type = "", ""
        for i, v in enumerate(graph.output):
            if v.name not in self.values:
                self.e.pointer = f"/graph/output/{i}"
                raise self.e.error("AF1107", f"the output {quote(v.name)} is not defined")
        outputs = tuple(v.name for v in graph.output)
        b = self.e
        self.dims |= {ident: name for name, ident in self.symbols.items() if ident not in self.dims}
        return ModelPieces(
            self.model,
            self.path,
            b.name,
            b.called or b.name,
            self.without_unused(found, outputs),
            tuple(b.nodes),
            dict(b.tensors),
            dict(b.symbols),
            self.dims,
            dict(self.e.parameters),
            dict(self.e.origins),
            self.values,
            self.keys,
            tuple(inputs),
            outputs,
            frozenset(self.shapeless),
        )

    def define(self, name: str, v: Value, key: str = "") -> None:
        if name in self.values:
            raise self.e.error("AF1106", f"the tensor {quote(name)} is defined twice")
        self.values[name] = v
        # Tensors of ops have no line break in their names, so these keys cannot collide.
        self.keys[name] = v.tensor.name if isinstance(v, Traced) else key or f"\n{name}"
        self.sizes.update((str(s), s) for s in v.shape)

    def initialiser(self, t: onnx.TensorProto) -> Value:
        if tables.type_name(t.data_type) == "string":
            return Foreign("string", tuple(const(n) for n in t.dims), frozenset())
        return Known(self.array(t), t.name)

    def given(self, v: onnx.ValueInfoProto) -> Value:
        """Read an input of the model."""
        kind = v.type.WhichOneof("value") or "nothing"
        if kind == "tensor_type" and not v.type.tensor_type.HasField("shape"):
            return self.unknown(v.name, tables.type_name(v.type.tensor_type.elem_type))
        if kind != "tensor_type":
            return self.unknown(v.name, kind.removesuffix("_type"))
        return self.read_input(v)

    def unknown(self, name: str, type_name: str) -> Value:
        self.shapeless.add(name)
        return Foreign(type_name, (), frozenset({name}))

    # nodes ------------------------------------------------------------------------------------

    def piece(self, index: int, node: onnx.NodeProto) -> Piece:
        self.e.pointer = f"/graph/node/{index}"
        self.e.op_type = node.op_type
        self.e.node = name = node.name or next((o for o in node.output if o), node.op_type)
        read = tuple(read_by(node))
        for x in read:
            if x not in self.values:
                text = f"the tensor {quote(x)} is not defined before it is used"
                raise self.e.error("AF1107", text)
        made = tuple(o for o in node.output if o)
        mark = self.e.mark()
        same = {id(self.values[x]): self.keys[x] for x in read}
        try:
            results = self.tried(node, read, same, mark[0])
        except (AutofuseError, NeededError) as e:
            self.e.restore(mark)
            return self.fallback(index, node, read, e)
        nodes = range(mark[0], len(self.e.nodes))
        new = {t for k in nodes for t in self.e.nodes[k].outputs}
        needs = self.needs(read, nodes)
        for o, v in zip(node.output, results, strict=False):
            if o:
                self.define(o, v, same.get(id(v), ""))
        fresh = [self.keys[o] for o in made if self.keys[o] in new]
        self.maker.update(dict.fromkeys(fresh, index))
        known = all(isinstance(self.values[o], Known) for o in made)
        kind = KERNEL if fresh else KNOWN if known else RENAMED
        return Piece(index, name, node.op_type, kind, "", "", read, made, nodes, needs)

    def tried(
        self, node: onnx.NodeProto, read: Sequence[str], same: Mapping[int, str], first: int
    ) -> Sequence[Value]:
        """Read the node as ops, numbered from ``first``; ``same``: keys of its operands, by id.

        Raises:
            AutofuseError: no kernel can hold it.
            NeededError: a kernel could hold it only if an operand were known.
        """
        if node.domain not in DOMAINS:
            raise self.e.error("AF1201", f"the domain {quote(node.domain)} is not known")
        for x in read:
            if x in self.shapeless:
                text = f"the shape of {quote(x)} is known only at run time"
                raise self.e.error("AF1101", text)
        inputs = [self.values[x] if x else None for x in node.input]
        mark = self.e.mark()
        try:
            results = self.results(node, inputs, self.opsets, 0)
        except AutofuseError as e:
            sized = [x for x in node.input if x and _has_sizes(self.values[x])]
            if not sized or not any(isinstance(v, Traced) for v in inputs):
                raise
            # A size that is a number beside the tensors is not compiled in: the kernel takes it like any other.
            self.e.restore(mark)
            numbers = {x: self.number(x) for x in sized}
            inputs = [numbers.get(x, v) for x, v in zip(node.input, inputs, strict=True)]
            try:
                results = self.results(node, inputs, self.opsets, 0)
            except (AutofuseError, NeededError):
                raise e from None
        missing = [o for o in node.output[len(results) :] if o]
        if missing:
            raise self.e.error("AF1202", f"the result {quote(missing[0])} is not supported")
        new = (t for n in self.e.nodes[first:] for t in n.outputs)
        had = {*same.values(), *self.e.parameters, *new}
        for v in results:
            if isinstance(v, Foreign) and id(v) not in same:
                raise self.e.error("AF1203", f"no kernel holds elements of type {v.type_name}")
            if isinstance(v, Traced) and v.tensor.name not in had:
                raise self.e.error("AF1202", "its result is a constant from another node")
        return results

    def number(self, name: str) -> Traced:
        """Make sizes an input of kernels."""
        held = self.numbers.get(name)
        if held is None or held.tensor.name not in self.e.tensors:
            v = self.values[name]
            held = self.numbers[name] = self.e.input(name, self.e.dtype(v), v.shape)
            self.keys[name] = held.tensor.name
        return held

    def fallback(
        self,
        index: int,
        node: onnx.NodeProto,
        read: tuple[str, ...],
        error: AutofuseError | NeededError,
    ) -> Piece:
        # Before its results are defined: a node does not depend on itself.
        needs = self.needs(read, range(0))
        known = {x: self.values[x] for x in read if x not in self.shapeless}
        types = inference.types_of_results(node, self.opsets, known, read)
        sizes = inference.sizes_told(node, known)
        made = tuple(o for o in node.output if o)
        for o in made:
            kind, told = types.get(o), self.declared.get(o)
            if kind is None or not kind.tensor_type.HasField("shape"):
                kind = told or kind
            self.define(o, self.result(o, index, kind, sizes))
            self.maker[self.keys[o]] = index
        code, text = "AF1205", f"{error} must be known when the kernel is built"
        if isinstance(error, AutofuseError):
            code, text = error.diagnostics[0].code, error.diagnostics[0].message
        op, reason = node.op_type, text.removeprefix(f"{node.op_type}: ")
        return Piece(index, self.e.node, op, FALLBACK, code, reason, read, made, needs=needs)

    def result(
        self,
        name: str,
        index: int,
        kind: onnx.TypeProto | None,
        told: tuple[Expr | None, ...] | None,
    ) -> Value:
        """Make a result of a fallback node an input of kernels."""
        if kind is None or not kind.HasField("tensor_type"):
            return self.unknown(name, "unknown")
        type_name = tables.type_name(kind.tensor_type.elem_type)
        dims = list(kind.tensor_type.shape.dim)
        if told is not None and not kind.tensor_type.HasField("shape"):
            dims = [type(kind.tensor_type.shape).Dimension() for _ in told]
        elif not kind.tensor_type.HasField("shape"):
            return self.unknown(name, type_name)
        shape = []
        for axis, d in enumerate(dims):
            if told is not None and len(told) == len(dims) and (size := told[axis]) is not None:
                shape.append(size)
            elif d.HasField("dim_value") and d.dim_value >= 0:
                shape.append(const(d.dim_value))
            elif d.HasField("dim_param") and d.dim_param in self.sizes:
                shape.append(self.sizes[d.dim_param])
            else:
                shape.append(self.fresh(name, axis, index))
        dtype = BY_NAME.get(type_name)
        if dtype is None:
            return Foreign(type_name, tuple(shape), frozenset({name}))
        mark = self.e.mark()
        try:
            return self.e.input(name, dtype, tuple(shape))
        except AutofuseError:
            # At the largest sizes it has more elements than a kernel takes.
            self.e.restore(mark)
            return self.unknown(name, type_name)

    def fresh(self, name: str, axis: int, index: int) -> Expr:
        """Return a new symbol for a size that only the node's result determines."""
        ident = self.symbol(f"{name}_{axis}")
        self.dims[ident] = f"axis {axis} of {name}"
        self.definer.setdefault(ident, index)
        return sym(ident)

    # order ------------------------------------------------------------------------------------

    def needs(self, read: Sequence[str], nodes: range) -> tuple[int, ...]:
        """Return the nodes of the model that compute a node's operands, or determine sizes that it needs."""
        b = self.e
        found = set()
        used: set[str] = set()
        for x in read:
            v = self.values[x]
            if isinstance(v, Known):
                used |= {s for e in _sizes(v) for s in e.symbols()}
            elif self.keys[x] in self.maker:
                found.add(self.maker[self.keys[x]])
        ops = [b.nodes[k] for k in nodes]
        made = [b.tensors[t] for n in ops for t in n.outputs]
        used |= {s for e in expressions(ops, made) for s in e.symbols()}
        found |= {self.definer[s] for s in used if s in self.definer}
        return tuple(sorted(found))

    def without_unused(self, found: Sequence[Piece], outputs: Sequence[str]) -> tuple[Piece, ...]:
        """Mark the nodes that no output of the model depends on."""
        needed = {self.maker[self.keys[o]] for o in outputs if self.keys[o] in self.maker}
        # A known result may still depend on sizes that only another node determines.
        needed |= set(self.needs(outputs, range(0)))
        for p in reversed(found):
            if p.index in needed:
                needed.update(p.needs)
        return tuple(
            p if p.index in needed or p.kind in (KNOWN, RENAMED) else replace(p, kind=UNUSED)
            for p in found
        )
