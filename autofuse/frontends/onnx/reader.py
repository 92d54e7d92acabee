"""Reader of ONNX models: a model that is one fused kernel becomes a FusionGraph.

An op is read by the first of these that applies: constant folding if all operands are known (``folding``); a converter
(``elementwise``, ``movement``, ...); a row of the registry with the same name; the function body that ONNX defines for
the op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where
from autofuse.frontends.builder import MAX_ELEMENTS, Shape, shape_text
from autofuse.frontends.json_positions import quote
from autofuse.frontends.onnx import bodies, tables
from autofuse.frontends.onnx.context import CONVERTERS, Node
from autofuse.frontends.onnx.converters import (
    einsum,
    elementwise,
    indexing,
    movement,
    norms,
    reductions,
)
from autofuse.frontends.onnx.converters.refused import REFUSED
from autofuse.frontends.onnx.emit import Emitter
from autofuse.frontends.onnx.folding import fold
from autofuse.frontends.onnx.loading import check_model
from autofuse.frontends.onnx.naming import model_names, own_name, renamed
from autofuse.frontends.onnx.values import (
    Array,
    Foreign,
    Known,
    NeededError,
    Traced,
    Value,
    uniform_value,
)
from autofuse.implgraph.expr.expression import Expr, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput, Symbol
from autofuse.implgraph.ir.names import called, symbol_identifier
from autofuse.implgraph.ops import registry

if TYPE_CHECKING:
    import onnx

__all__ = ["DOMAINS", "OnnxGraph", "Reader", "convert"]

#: Modules that register converters.
_MODULES = (einsum, elementwise, indexing, movement, norms, reductions)
#: log2 of the largest symbol; less if an input has so many symbols that it could grow too large.
_SIZE_BITS = 20
#: Most nested functions.
_MAX_DEPTH = 16
#: Most elements of a known output (a shape, a scalar) that needs no kernel.
_MAX_PLAIN = 16
#: Operator sets that are read.
DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})


@dataclass(frozen=True, slots=True)
class OnnxGraph:
    """The result of reading a model.

    Attributes:
        graph: the kernel, or None if all outputs are known without one.
        inputs: parameter of the kernel -> input of the model.
        constants: parameter of the kernel -> the initialiser to pass.
        bound: inputs of the model whose elements are compiled into the kernel, such as the shape of a Reshape.
        outputs: for each output of the model, the parameter of the kernel, or its elements.
    """

    graph: FusionGraph | None
    inputs: Mapping[str, str]
    constants: Mapping[str, Array]
    bound: tuple[str, ...]
    outputs: tuple[str | Array, ...]


def convert(
    model: onnx.ModelProto,
    *,
    path: str = "",
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Array] | None = None,
) -> OnnxGraph:
    """Read a model.

    Args:
        model: the model.
        path: name of its file for messages.
        shapes: shapes of inputs, replacing those that the model declares.
        values: elements of inputs, used only where an op must know them.

    Raises:
        AutofuseError: AF1201 for every unsupported op, or the first other error.
    """
    check_model(model, path)
    _check_ops(model, path)
    values = values or {}
    bound: set[str] = set()
    while True:
        reader = Reader(model, path, shapes or {}, {n: values[n] for n in sorted(bound)})
        try:
            return reader.read()
        except NeededError as e:
            more = e.sources & values.keys() - bound
            if not more:
                raise reader.e.error(
                    "AF1205",
                    f"{e} must be known when the kernel is built",
                    "make it an initialiser of the model"
                    + (f"; it depends on {', '.join(sorted(e.sources))}" if e.sources else ""),
                ) from None
            bound |= more


def _check_ops(model: onnx.ModelProto, path: str) -> None:
    """Raise AF1201 for all refused ops at once."""
    own = {(f.domain, f.name) for f in model.functions}
    found = [
        Diagnostic(
            "AF1201",
            f"{n.op_type}: {REFUSED[n.op_type]}",
            Where(path, f"/graph/node/{i}", node=n.name),
        )
        for i, n in enumerate(model.graph.node)
        if n.op_type in REFUSED and (n.domain, n.op_type) not in own
    ]
    found += [
        Diagnostic(
            "AF1201",
            f"{quote(n.op_type)}: the domain {quote(n.domain)} is not known",
            Where(path, f"/graph/node/{i}", node=n.name),
        )
        for i, n in enumerate(model.graph.node)
        if n.domain not in DOMAINS and (n.domain, n.op_type) not in own
    ]
    if found:
        raise AutofuseError(found)


class Reader:
    """One attempt to read a model, with the elements of some inputs bound."""

    def __init__(
        self,
        model: onnx.ModelProto,
        path: str,
        shapes: Mapping[str, Sequence[int]],
        bound: Mapping[str, Array],
    ) -> None:
        self.model = model
        self.path = path
        self.shapes = shapes
        self.bound = bound
        self.e = Emitter(own_name(model.graph.name, path), path)
        self.opsets = {_domain(o.domain): o.version for o in model.opset_import}
        self.functions = {(_domain(f.domain), f.name): f for f in model.functions}
        self.symbols: dict[str, str] = {}
        self.smallest = 1
        self.largest = 1 << min([_SIZE_BITS, *(_bits_left(v) for v in model.graph.input)])
        self.inputs: dict[str, Traced] = {}

    def read(self) -> OnnxGraph:
        """Read the model as one kernel."""
        graph = self.model.graph
        values: dict[str, Value] = {}
        for i, t in enumerate(graph.initializer):
            self.e.pointer = f"/graph/initializer/{i}"
            values[t.name] = Known(self.array(t), t.name)
        for i, v in enumerate(graph.input):
            self.e.pointer = f"/graph/input/{i}"
            if v.name not in values:
                values[v.name] = self.read_input(v)
        self.run(graph.node, values, self.opsets, "/graph/node", 0)
        self.e.node, self.e.op_type = "", ""
        outputs = []
        for i, v in enumerate(graph.output):
            self.e.pointer = f"/graph/output/{i}"
            if v.name not in values:
                raise self.e.error("AF1107", f"the output {quote(v.name)} is not defined")
            outputs.append((v.name, values[v.name]))
        return self.finish(outputs, values)

    def array(self, t: onnx.TensorProto) -> Array:
        """Return the elements of a tensor in the file; AF1104 or AF1203 if they cannot be read."""
        from onnx import numpy_helper

        try:
            found = np.asarray(numpy_helper.to_array(t))
        except (ValueError, TypeError, KeyError) as e:
            raise self.e.error(
                "AF1104", f"the tensor {quote(t.name)} cannot be read: {e}"
            ) from None
        if found.dtype.kind in "OSU":
            raise self.e.error("AF1203", "no kernel holds elements of type string")
        return found

    # inputs and outputs -----------------------------------------------------------------------

    def read_input(self, v: onnx.ValueInfoProto) -> Value:
        """Read an input of the model."""
        kind = v.type.WhichOneof("value") or "nothing"
        sources = frozenset({v.name})
        if v.name in self.bound:
            return Known(np.asarray(self.bound[v.name]), v.name)
        if kind != "tensor_type":
            return Foreign(kind.removesuffix("_type"), (), sources)
        name = tables.type_name(v.type.tensor_type.elem_type)
        shape = self.input_shape(v)
        dtype = BY_NAME.get(name)
        if dtype is None:
            return Foreign(name, shape, sources)
        found = self.e.input(v.name, dtype, shape)
        self.inputs[v.name] = found
        return found

    def input_shape(self, v: onnx.ValueInfoProto) -> Shape:
        """Return its shape: as given, else as declared, with symbols for undeclared sizes."""
        if v.name in self.shapes:
            return tuple(const(int(n)) for n in self.shapes[v.name])
        if not v.type.tensor_type.HasField("shape"):
            raise self.e.error("AF1101", f"the input {quote(v.name)} has no shape")
        out = []
        for i, d in enumerate(v.type.tensor_type.shape.dim):
            if d.dim_value < -1:
                text = f"dimension {i} of {quote(v.name)} is {d.dim_value}"
                raise self.e.error("AF1109", text, hint="-1 means an unknown size")
            if _is_known(d):
                out.append(const(d.dim_value))
            else:
                out.append(sym(self.symbol(d.dim_param or f"{v.name}_{i}")))
        return tuple(out)

    def symbol(self, name: str) -> str:
        """Return the symbol for a dimension of this name."""
        if name not in self.symbols:
            ident = symbol_identifier(name, self.e.taken)
            self.symbols[name] = ident
            own = called(name, ident)
            self.e.symbols[ident] = Symbol(ident, self.smallest, self.largest, called=own)
        return self.symbols[name]

    def finish(
        self, outputs: Sequence[tuple[str, Value]], values: Mapping[str, Value]
    ) -> OnnxGraph:
        """Return the part of the graph that the outputs need, with the model's names."""
        b = self.e
        found: list[str | Array] = []
        made: list[str] = []
        graph_outputs: list[GraphOutput] = []
        used = {t.tensor.name for t in self.inputs.values()} | set(self.e.parameters)
        for name, v in outputs:
            self.e.node = name
            if isinstance(v, Known) and not self.worth_a_kernel(v):
                found.append(self.e.numbers(v))
                continue
            t = b.tensor(v)
            o = b.output_name(t, "", used)
            graph_outputs.append(GraphOutput(o, t.name))
            made.append(name)
            found.append(o)
        bound = tuple(n for n in self.bound)
        if not graph_outputs:
            return OnnxGraph(None, {}, {}, bound, tuple(found))
        nodes, needed = b.live({o.tensor for o in graph_outputs})
        inputs = {t.tensor.name: n for n, t in self.inputs.items() if t.tensor.name in needed}
        constants = {n: a for n, a in self.e.parameters.items() if n in needed}
        names = (*inputs, *constants)
        tensors = {n: t for n, t in b.tensors.items() if n in needed}
        shapes = [s for n in names for s in tensors[n].shape]
        alive = {s for e in shapes for s in e.symbols()}
        symbols = tuple(s for n, s in b.symbols.items() if n in alive)
        graph = FusionGraph(
            b.name, symbols, names, tuple(nodes), tuple(graph_outputs), tensors, b.called
        )
        own = model_names(graph, values, {n: self.e.origins.get(n, "") for n in constants}, made)
        graph = renamed(graph, own, made)
        parameters = iter(o.name for o in graph.outputs)
        return OnnxGraph(
            graph,
            {own[n]: name for n, name in inputs.items()},
            {own[n]: a for n, a in constants.items()},
            bound,
            tuple(next(parameters) if isinstance(o, str) else o for o in found),
        )

    def worth_a_kernel(self, v: Known) -> bool:
        """Return True for a large constant that a kernel can generate: one value, or a range."""
        if v.array.size <= _MAX_PLAIN or v.dtype is None or v.array.dtype == object:
            return False
        return uniform_value(v.array) is not None

    # nodes ------------------------------------------------------------------------------------

    def run(
        self,
        nodes: Sequence[onnx.NodeProto],
        values: dict[str, Value],
        opsets: Mapping[str, int],
        pointer: str,
        depth: int,
    ) -> None:
        """Read nodes; ``values`` are the names of their scope."""
        for i, node in enumerate(nodes):
            if depth == 0:
                self.e.pointer = f"{pointer}/{i}"
            self.e.op_type = node.op_type
            self.e.node = node.name or next((o for o in node.output if o), node.op_type)
            inputs: list[Value | None] = []
            for name in node.input:
                if name and name not in values:
                    text = f"the tensor {quote(name)} is not defined before it is used"
                    raise self.e.error("AF1107", text)
                inputs.append(values[name] if name else None)
            results = self.results(node, inputs, opsets, depth)
            for name, v in zip(node.output, results, strict=False):
                if name in values:
                    raise self.e.error("AF1106", f"the tensor {quote(name)} is defined twice")
                if name:
                    values[name] = v
            missing = [n for n in node.output[len(results) :] if n]
            if missing:
                text = f"the result {quote(missing[0])} is not supported"
                raise self.e.error("AF1202", text)

    def results(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        opsets: Mapping[str, int],
        depth: int,
    ) -> Sequence[Value]:
        """Return the results of a node from the first reader that applies; see the module docstring."""
        domain = _domain(node.domain)
        own = self.functions.get((domain, node.op_type))
        if own is not None:
            return self.call(own, node, inputs, depth)
        if node.op_type in REFUSED:
            raise self.e.error("AF1201", REFUSED[node.op_type])
        opset = opsets.get(domain, self.opsets.get(domain, 1))
        if not domain and (folded := fold(node, opset, inputs)) is not None:
            return folded
        schema = bodies.schema_of(node.op_type, domain, opset)
        if schema is None:
            raise self.e.error("AF1201", f"opset {opset} of ONNX has no op of this name")
        # A node that breaks its schema must not reach the C++ code that makes function bodies.
        if wrong := bodies.violation(node, {**opsets, domain: opset}):
            raise self.e.error("AF1205", wrong)
        attrs = {**bodies.default_attributes(schema), **self.attributes(node)}
        used = max((i + 1 for i, o in enumerate(node.output) if o), default=0)
        n = Node(node.op_type, schema.since_version, inputs, attrs, used, self.e)
        found = CONVERTERS.get(node.op_type)
        if found is not None:
            try:
                result = found(n)
            except (
                ValueError,
                TypeError,
                IndexError,
                KeyError,
                OverflowError,
                ArithmeticError,
            ) as e:
                # Ranks and values that schemas do not rule out.
                raise self.misfit(inputs) from e
            return [result] if isinstance(result, Traced | Known | Foreign) else list(result)
        if (direct := self.by_row(n, set(schema.attributes))) is not None:
            return [direct]
        body = bodies.body_of(node, schema, opset, inputs)
        if body is None:
            raise self.e.error("AF1201", "the op is not supported yet")
        return self.call(body, node, inputs, depth)

    def misfit(self, inputs: Sequence[Value | None]) -> AutofuseError:
        """Return AF1205 if operands are sizes that are not fixed, else AF1204 with the operands' shapes."""
        sizes = {
            str(v)
            for x in inputs
            if isinstance(x, Known) and x.array.dtype == object
            for v in x.array.flat
            if isinstance(v, Expr) and v.as_int() is None
        }
        if sizes:
            text = f"an operand depends on sizes that are not fixed: {', '.join(sorted(sizes))}"
            return self.e.error("AF1205", text)
        shapes = ", ".join("none" if x is None else shape_text(x.shape) for x in inputs)
        return self.e.error(
            "AF1204", f"operands with the shapes {shapes} do not match its attributes"
        )

    def by_row(self, n: Node, names: set[str]) -> Value | None:
        """Return the element-wise op of the registry with the same name and attributes, if any."""
        row = registry.find(tables.ROW_NAMES.get(n.op_type, n.op_type))
        if row is None or not row.user or row.compute_type != "elewise":
            return None
        ours = tables.ATTR_NAMES.get(n.op_type, {})
        if {ours.get(a, a) for a in names} != row.attr_names():
            return None
        attrs = {ours.get(a, a): n.attrs[a] for a in sorted(names) if a in n.attrs}
        return self.e.op(row.name, *n.all(), **attrs)

    def attributes(self, node: onnx.NodeProto) -> dict[str, Any]:
        """Return the attributes as Python values; AF1201 for subgraphs."""
        out: dict[str, Any] = {}
        for a in node.attribute:
            if a.HasField("g") or a.graphs:
                raise self.e.error("AF1201", "control flow")
            if a.HasField("t"):
                out[a.name] = self.array(a.t)
            else:
                out[a.name] = bodies.attribute_value(a)
        return out

    def call(
        self,
        function: onnx.FunctionProto,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        depth: int,
    ) -> Sequence[Value]:
        """Inline the body of a function with its operands and attributes."""
        if depth >= _MAX_DEPTH:
            raise self.e.error("AF1003", f"functions call each other more than {_MAX_DEPTH} deep")
        given = {a.name: a for a in function.attribute_proto} | {a.name: a for a in node.attribute}
        operands = zip(function.input, inputs, strict=False)
        values: dict[str, Value] = {name: v for name, v in operands if v is not None}
        present = set(values)
        opsets = {_domain(o.domain): o.version for o in function.opset_import}
        label = self.e.node
        body = [bodies.specialised(n, given, set(function.input) - present) for n in function.node]
        self.run(body, values, opsets, "", depth + 1)
        self.e.node, self.e.op_type = label, node.op_type
        absent = [o for o in function.output if o not in values]
        if absent and len(absent) == len(function.output):
            raise self.e.error("AF1107", f"the body does not define {quote(absent[0])}")
        return [values[o] for o in function.output if o in values]


def _bits_left(v: onnx.ValueInfoProto) -> int:
    """Return log2 of the size up to which all symbols of an input may grow together."""
    dims = v.type.tensor_type.shape.dim
    fixed = sum(max(d.dim_value, 1).bit_length() for d in dims if _is_known(d))
    count = sum(not _is_known(d) for d in dims)
    return int(max((MAX_ELEMENTS.bit_length() - 2 - fixed) // max(count, 1), 0))


def _is_known(d: onnx.TensorShapeProto.Dimension) -> bool:
    """Return True if a dimension is declared as a number; exporters write -1 for unknown ones."""
    return d.HasField("dim_value") and d.dim_value != -1


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name
