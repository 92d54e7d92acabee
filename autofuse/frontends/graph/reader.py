"""Reader of the project's own format, schema ``autofuse.graph/1``.

The fields are checked first (:mod:`autofuse.frontends.graph.model`), then their meaning. A wrong element is dropped and
its dependents are not checked, so each mistake is reported once, and all independent ones together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from autofuse.base.diagnostics import AutofuseError
from autofuse.frontends.builder import (
    check_counts,
    describe,
    find_cycle,
    topological_order,
)
from autofuse.frontends.graph.definitions import Definitions, Shape, valid
from autofuse.frontends.graph.model import (
    NOT_FINITE,
    SCHEMA,
    ConstModel,
    GraphModel,
    NodeModel,
    OutputModel,
    ResultModel,
)
from autofuse.frontends.json_positions import Document, Findings, escape, quote
from autofuse.frontends.kinds import kind_of
from autofuse.frontends.op_hints import described, unknown_op
from autofuse.frontends.pydantic_errors import did_you_mean, note_errors
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.fusion import AttrValue, Constant, FusionGraph, GraphOutput, Tensor
from autofuse.implgraph.ir.names import tensor_name
from autofuse.implgraph.ops import definition, registry
from autofuse.implgraph.ops.infer import with_whole_numbers

__all__ = ["read_native"]


def read_native(document: Document) -> FusionGraph:
    """Read a graph file.

    Raises:
        AutofuseError: with all errors of the file.
    """
    findings = Findings(document)
    data = _without_comments(document.value)
    schema = data.get("schema", SCHEMA)
    if schema != SCHEMA:
        text = f"the schema is {describe(schema)}; this version reads {quote(SCHEMA)}"
        found, taken = kind_of(data)
        if found:
            hint = f"this is {found}: {taken}"
            raise AutofuseError.of("AF1104", text, where=document.where("/schema"), hint=hint)
        findings.add("AF1104", text, "/schema", hint=f'write "schema": "{SCHEMA}"')
        data = data | {"schema": SCHEMA}
    check_counts(data, ("symbols", "inputs", "nodes", "outputs"), findings)
    try:
        GraphModel.model_validate(data)
    except ValidationError as e:
        note_errors(e, GraphModel, data, findings)
    return _Reader(data, findings).read()


def _without_comments(value: Any) -> Any:
    """Return the value without ``$comment`` members, which any object may have."""
    if isinstance(value, dict):
        return {k: _without_comments(v) for k, v in value.items() if k != "$comment"}
    return value if not isinstance(value, list) else [_without_comments(v) for v in value]


@dataclass(slots=True)
class _Node:
    """A node of the file with valid fields."""

    model: NodeModel
    pointer: str
    results: list[str]


class _Reader(Definitions):
    """Reads nodes and outputs, and builds the graph."""

    def read(self) -> FusionGraph:
        """Return the graph; raise AutofuseError if there are findings."""
        self.read_symbols()
        self.read_inputs()
        nodes = self.read_nodes()
        for i in self.ordered(nodes):
            self.read_node(nodes[i])
        outputs = self.read_outputs()
        self.findings.raise_if_any()
        b = self.builder
        known = (self.tensors[raw["name"]] for raw in self.elements("inputs"))
        inputs = tuple(t.name for t in known if t is not None)
        return FusionGraph(
            b.name,
            tuple(b.symbols.values()),
            inputs,
            tuple(b.nodes),
            tuple(outputs),
            b.tensors,
            b.called,
        )

    # nodes ------------------------------------------------------------------------------------

    def read_nodes(self) -> list[_Node]:
        """Read the nodes with valid fields; afterwards all results are defined."""
        raws = self.elements("nodes")
        out: list[_Node] = []
        names: dict[str, str] = {}
        for i, raw in enumerate(raws):
            pointer = f"/nodes/{i}"
            model: NodeModel | None = valid(NodeModel, raw)
            if model is None:
                results = raw.get("outputs") if isinstance(raw, dict) else None
                for k, r in enumerate(results if isinstance(results, list) and results else [None]):
                    self.hide(r.get("name") if isinstance(r, dict) else r, f"{pointer}/outputs/{k}")
                continue
            self.check_name(model.name, f"{pointer}/name", "node")
            if model.name in names:
                text = f"the node {quote(model.name)} is defined twice"
                self.findings.add(
                    "AF1106",
                    text,
                    f"{pointer}/name",
                    hint=f"the first one is at {names[model.name]}",
                )
            names.setdefault(model.name, pointer)
            results = []
            self.partial = self.partial or not model.outputs
            for k, r in enumerate(model.outputs):
                name, at = (r, "") if isinstance(r, str) else (r.name, "/name")
                if self.define(name, f"{pointer}/outputs/{k}{at}"):
                    results.append(name)
            out.append(_Node(model, pointer, results))
        return out

    def ordered(self, nodes: Sequence[_Node]) -> list[int]:
        """Return the nodes in order of evaluation; note undefined operands and cycles."""
        producer = {r: i for i, n in enumerate(nodes) for r in n.results}
        edges: list[list[int]] = []
        for n in nodes:
            deps = []
            for k, o in enumerate(n.model.inputs):
                if not isinstance(o, str):
                    continue
                if o in producer:
                    deps.append(producer[o])
                elif o not in self.tensors:
                    self.undefined(o, f"{n.pointer}/inputs/{k}", n.model.name)
            edges.append(deps)
        order, stuck = topological_order(edges)
        if stuck:
            cycle = find_cycle(edges, stuck)
            text = " -> ".join(
                quote(nodes[i].model.name)
                for i in [*cycle[:16], *([] if len(cycle) > 16 else cycle[:1])]
            )
            more = f" -> ... ({len(cycle)} nodes)" if len(cycle) > 16 else ""
            hint = "a node cannot depend on its own result"
            self.findings.add(
                "AF1206",
                f"the nodes form a cycle: {text}{more}",
                nodes[cycle[0]].pointer,
                hint=hint,
            )
        return order

    def undefined(self, name: str, pointer: str, node: str = "") -> None:
        if not self.partial:
            hint = "" if self.findings.is_long else did_you_mean(name, self.defined_at)
            self.findings.add(
                "AF1107", f"the tensor {quote(name)} is not defined", pointer, hint=hint, node=node
            )
        self.hide(name, pointer)

    def read_node(self, node: _Node) -> None:
        """Check one node; its result stays unknown if that fails."""
        model, pointer = node.model, node.pointer
        row = registry.find(model.op)
        if row is None or not row.user:
            hint = unknown_op(model.op, guess=not self.findings.is_long)
            self.findings.add(
                "AF1201",
                f"the op {quote(model.op)} is not known",
                f"{pointer}/op",
                hint=hint,
                node=model.name,
            )
            return
        ok = True
        if len(model.outputs) != 1:
            text = f"{row.name} has 1 output, not {len(model.outputs)}"
            self.findings.add(
                "AF1202", text, f"{pointer}/outputs", hint=described(row.name), node=model.name
            )
            ok = False
        attrs = self.attrs(row, model, pointer)
        operands = [self.operand(o, f"{pointer}/inputs/{k}") for k, o in enumerate(model.inputs)]
        known = [o for o in operands if o is not None]
        lo, hi = row.arity
        if not lo <= len(operands) <= hi:
            text = f"{row.name} takes {row.takes()}, not {len(operands)}"
            self.findings.add(
                "AF1202", text, f"{pointer}/inputs", hint=described(row.name), node=model.name
            )
            ok = False
        if not ok or attrs is None or len(known) < len(operands) or not node.results:
            return
        known = with_whole_numbers(row, known, attrs)
        places = [f"{pointer}/inputs/{k}" for k in range(len(operands))]
        result = self.builder.infer(
            row,
            known,
            attrs,
            pointer,
            node=model.name,
            operand_pointers=places,
            hint=described(row.name),
        )
        if result is None:
            return
        d, shape = result
        name = node.results[0]
        if not self.declared(model, row, d, shape, pointer):
            return
        if not self.builder.check_shape(shape, f"{pointer}/outputs/0", f"the result {quote(name)}"):
            return
        tensor = Tensor(
            tensor_name(name, self.builder.tensor_names), d, shape, origin=f"{pointer}/outputs/0"
        )
        self.tensors[name] = self.builder.add_node(
            model.name, row.name, known, tensor, attrs, pointer
        )

    def operand(self, raw: str | ConstModel, pointer: str) -> Tensor | Constant | None:
        if isinstance(raw, str):
            return self.tensors.get(raw)
        d = None
        if raw.dtype is not None:
            d = self.dtype(raw.dtype, f"{pointer}/dtype")
            if d is None:
                return None
        value: int | float | bool = float(raw.const) if isinstance(raw.const, str) else raw.const
        if d is not None:
            if not self.builder.check_constant(value, d, f"{pointer}/const"):
                return None
            value = float(value) if d.kind == "f" else bool(value) if d.kind == "b" else int(value)
        return Constant(value, d)

    def attrs(
        self, row: definition.OpDef, model: NodeModel, pointer: str
    ) -> dict[str, AttrValue] | None:
        """Return the attributes in the registry's types; None, with findings, if one is wrong."""
        kinds = {a.name: a.kind for a in row.attrs}
        out: dict[str, AttrValue] = {}
        ok = True
        for name, raw in model.attrs.items():
            at = f"{pointer}/attrs/{escape(name)}"
            if name not in kinds:
                near = did_you_mean(name, kinds)
                join = " " if near.endswith("?") else "; "
                hint = f"{near}{join}{described(row.name)}" if near else described(row.name)
                text = f"{row.name} has no attribute {quote(name)}"
                self.findings.add("AF1205", text, at, hint=hint, at_key=True, node=model.name)
                ok = False
                continue
            value = self.attr_value(kinds[name], name, raw, at, row, model)
            if value is None:
                ok = False
            else:
                out[name] = value
        for a in row.attrs:
            if a.default is None and a.name not in model.attrs:
                at = f"{pointer}/attrs" if "attrs" in model.model_fields_set else pointer
                text = f"{row.name} needs the attribute {quote(a.name)} ({a.kind})"
                hint = f"{a.doc}; {described(row.name)}" if a.doc else described(row.name)
                self.findings.add("AF1205", text, at, hint=hint, node=model.name)
                ok = False
        return out if ok else None

    def attr_value(
        self, kind: str, name: str, raw: Any, pointer: str, row: definition.OpDef, model: NodeModel
    ) -> AttrValue | None:
        def is_int(v: Any) -> bool:
            return isinstance(v, int) and not isinstance(v, bool)

        if (
            kind == "shape"
            and isinstance(raw, list)
            and all(is_int(v) or isinstance(v, str) for v in raw)
        ):
            shape = self.expressions(raw, pointer)
            if shape is None or not self.builder.check_shape(
                shape, pointer, f"the attribute {quote(name)}"
            ):
                return None
            return shape
        if kind == "dtype" and isinstance(raw, str):
            d = self.dtype(raw, pointer)
            return None if d is None else d.name
        if kind == "ints" and isinstance(raw, list) and all(is_int(v) for v in raw):
            return tuple(raw)
        if kind == "float" and raw in NOT_FINITE:
            return float(raw)
        scalar = {
            "bool": isinstance(raw, bool),
            "int": is_int(raw),
            "float": isinstance(raw, (int, float)) and not isinstance(raw, bool),
            "str": isinstance(raw, str),
        }
        if scalar.get(kind, False):
            return raw  # type: ignore[no-any-return]
        want = {
            "shape": "a list of sizes",
            "ints": "a list of integers",
            "dtype": "the name of a dtype",
            "int": "an integer",
            "float": "a number",
            "bool": "true or false",
            "str": "a string",
        }
        what = f"the attribute {quote(name)} of {row.name}"
        text = f"{what} must be {want.get(kind, kind)}, not {describe(raw)}"
        self.findings.add("AF1205", text, pointer, hint=described(row.name), node=model.name)
        return None

    def declared(
        self, model: NodeModel, row: definition.OpDef, d: DType, shape: Shape, pointer: str
    ) -> bool:
        """Return True if the declared dtype and shape of the result agree with those of the op."""
        result = model.outputs[0]
        if not isinstance(result, ResultModel):
            return True
        ok = True
        at = f"{pointer}/outputs/0"
        if result.dtype is not None:
            want = self.dtype(result.dtype, f"{at}/dtype")
            if want is not None and want != d:
                text = f"{quote(result.name)} is declared as {want}, but {row.name} gives {d}"
                self.findings.add("AF1207", text, f"{at}/dtype", node=model.name)
            ok = ok and want == d
        if result.shape is not None:
            sizes = self.expressions(result.shape, f"{at}/shape")
            if sizes is not None and sizes != shape:
                said = f"{quote(result.name)} is declared as {self.builder.in_words(sizes)}"
                text = f"{said}, but {row.name} gives {self.builder.in_words(shape)}"
                self.findings.add("AF1207", text, f"{at}/shape", node=model.name)
            ok = ok and sizes == shape
        return ok

    # outputs ----------------------------------------------------------------------------------

    def read_outputs(self) -> list[GraphOutput]:
        out: list[GraphOutput] = []
        overwritten: dict[str, str] = {}
        raws = (raw for raw in self.elements("inputs") if isinstance(raw, dict))
        inputs = {n for raw in raws if isinstance(n := raw.get("name"), str)}
        used = {t.name for n in inputs if (t := self.tensors.get(n)) is not None}
        seen: dict[str, str] = {}
        for i, raw in enumerate(self.elements("outputs")):
            pointer = f"/outputs/{i}"
            model: OutputModel | None = valid(
                OutputModel, {"tensor": raw} if isinstance(raw, str) else raw
            )
            if model is None:
                continue
            name = model.tensor if model.tensor is not None else model.name
            if name is None:
                self.findings.add(
                    "AF1101",
                    "the output does not name a tensor",
                    pointer,
                    hint='{"tensor": "y", "inout": "x"}',
                )
                continue
            at = (
                pointer
                if isinstance(raw, str)
                else f"{pointer}/{'tensor' if model.tensor is not None else 'name'}"
            )
            parameter = model.name if model.name is not None else name
            if parameter in seen:
                text = f"the output {quote(parameter)} is listed twice"
                hint = (
                    f'first at {seen[parameter]}; {{"tensor": ..., "name": ...}} sets another name'
                )
                self.findings.add("AF1106", text, at, hint=hint)
                continue
            seen[parameter] = pointer
            if model.name is not None and not self.check_name(
                model.name, f"{pointer}/name", "parameter"
            ):
                continue
            if name not in self.tensors:
                self.undefined(name, at)
            tensor = self.tensors[name]
            if model.inout is not None and not self.check_inout(
                model.inout, tensor, inputs, overwritten, pointer
            ):
                continue
            if tensor is None:
                continue
            out.append(self.graph_output(model, tensor, parameter, used))
        return out

    def graph_output(
        self, model: OutputModel, tensor: Tensor, parameter: str, used: set[str]
    ) -> GraphOutput:
        wanted = "" if parameter == (model.tensor or model.name) else parameter
        own = self.builder.output_name(tensor, wanted, used)
        memory = self.tensors[model.inout] if model.inout is not None else None
        return GraphOutput(own, tensor.name, None if memory is None else memory.name)

    def check_inout(
        self,
        name: str,
        tensor: Tensor | None,
        inputs: set[str],
        overwritten: dict[str, str],
        pointer: str,
    ) -> bool:
        """Return True if the output can overwrite the input; else note AF1107 or AF1110."""
        at = f"{pointer}/inout"
        if name not in self.tensors:
            self.undefined(name, at)
            return False
        if name not in inputs:
            self.findings.add("AF1110", f"{quote(name)} is not an input of the graph", at)
            return False
        if name in overwritten:
            text = f"the input {quote(name)} is overwritten twice"
            self.findings.add("AF1110", text, at, hint=f"first by {overwritten[name]}")
            return False
        overwritten[name] = pointer
        memory = self.tensors[name]
        if memory is None or tensor is None:
            return False
        if memory.dtype != tensor.dtype or memory.shape != tensor.shape:
            text = (
                f"the output is {tensor.dtype} {self.builder.in_words(tensor.shape)}, "
                f"but the input {quote(name)} is {memory.dtype} {self.builder.in_words(memory.shape)}"
            )
            self.findings.add(
                "AF1110", text, at, hint="an in-out parameter must keep dtype and shape"
            )
            return False
        if memory.strides is not None or memory.offset is not None:
            self.findings.add(
                "AF1110",
                f"the input {quote(name)} has strides or an offset",
                at,
                hint="only contiguous inputs can be overwritten",
            )
            return False
        return True
