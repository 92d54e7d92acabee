"""AKG "info" files: the kernels that MindSpore's GraphKernel writes as JSON.

Both dialects are read: axes, shapes and dtypes as attributes (2020 to 2024), and as inline operands (2025 on).
Decisions where the format leaves a choice:

* An operand with ``value`` is a constant; its name is a placeholder.  It is written with shape [1].
* The shapes of the descriptions are authoritative. Where an operand's description differs from its
  producer's in shape but not in the number of elements, a reshape is inserted.
* ``Assign(dst, src)`` and ``InplaceAssign(dst, src, ret)`` write ``src`` into the memory of the
  graph input ``dst``.  Their own output is another name: of ``src`` for Assign, of ``ret`` for
  InplaceAssign.
* With ``fake_output`` this output is only a token for "dst was written".  The same kernels exist in
  both spellings, and ``Assign`` stands where the other has ``fake_output``; so the output of Assign
  is such a token too.  A token among the graph's outputs becomes the in-out output itself: it gets
  no second buffer.  Without ``fake_output`` the output is a tensor of its own that holds ``ret``,
  and the in-out output comes after the listed ones.
* ``PadAkg`` adds ``head`` and ``tail`` elements around every dimension, ``UnPadAkg`` takes ``tail`` away.
* ``process``, ``parallel_fusion``, ``buffer_stitch`` and unknown attributes are hints to other
  compilers: ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.frontends.akg.attributes import (
    cast_agrees,
    dimensions,
    known_attrs,
    padding,
    tile_is_broadcast,
)
from autofuse.frontends.akg.composed import COMPOSED, composed
from autofuse.frontends.akg.model import Desc, Info, Op
from autofuse.frontends.akg.symbols import Sizes
from autofuse.frontends.builder import GraphBuilder, check_counts
from autofuse.frontends.json_positions import Document, Findings, quote
from autofuse.frontends.pydantic_errors import validated
from autofuse.implgraph.expr.expression import Expr, const, divide_exact
from autofuse.implgraph.ir.dtypes import FOREIGN, DType, dtype
from autofuse.implgraph.ir.fusion import AttrValue, Constant, FusionGraph, GraphOutput, Tensor
from autofuse.implgraph.ir.names import tensor_name
from autofuse.implgraph.ops import definition, registry

__all__ = ["read_akg"]

_RESHAPES = frozenset({"Reshape", "ExpandDims", "Squeeze", "Flatten"})
_ASSIGNS = frozenset({"Assign", "InplaceAssign"})
# Read here, although the registry has no op of that name.
_OWN = _RESHAPES | _ASSIGNS | COMPOSED | {"Tile", "ZerosLike", "PadAkg", "UnPadAkg"}

Value: TypeAlias = "Tensor | Constant"
Shape: TypeAlias = tuple[Expr, ...]


def read_akg(document: Document) -> FusionGraph:
    """Read an AKG file.

    Raises:
        AutofuseError: with everything that is wrong.
    """
    findings = Findings(document)
    data = document.value
    single = "op_desc" not in data
    if single:
        data = _as_composite(document)
    check_counts(data, ("op_desc", "input_desc", "output_desc", "symbol_calc_expr"), findings)
    info = validated(Info, data, findings)
    return _Reader(info, findings, "" if single else None).read()


def _as_composite(document: Document) -> dict[str, Any]:
    """Wrap a file of a single kernel, which has the op's name and attributes at the top."""
    data: dict[str, Any] = document.value
    if not isinstance(data.get("name"), str) or not isinstance(data.get("output_desc"), list):
        raise AutofuseError.of(
            "AF1004",
            "an AKG file has neither 'op_desc' nor the 'name' and 'output_desc' of a single op",
            where=document.where(""),
            hint="a fused kernel lists its ops in 'op_desc'",
        )
    kernel = {k: data[k] for k in ("name", "attr", "input_desc", "output_desc") if k in data}
    return {"op": data["name"]} | data | {"op_desc": [kernel]}


class _Reader:
    """State of one reading."""

    def __init__(self, info: Info, findings: Findings, single_at: str | None) -> None:
        self.info = info
        self.findings = findings
        self.single_at = single_at
        self.builder = GraphBuilder(findings, info.op)
        self.sizes = Sizes(self.builder, info.symbol_calc_expr or {})
        # Name in the file -> tensor or constant; None: defined, but it depends on an error.
        self.values: dict[str, Value | None] = {}
        self.inputs: dict[str, str] = {}
        # Input (name in the file) -> the tensor written into it, and the op's pointer.
        self.written: dict[str, tuple[Value | None, str]] = {}
        self.tokens: dict[str, str] = {}
        self.bad_types: set[str] = set()

    def read(self) -> FusionGraph:
        """Return the graph; raise AutofuseError if there are findings."""
        self.read_inputs()
        unsupported = self.note_unsupported()
        for i, op in enumerate(self.info.op_desc):
            pointer = f"/op_desc/{i}" if self.single_at is None else self.single_at
            if op.name in unsupported:
                self.values.update((d.tensor_name, None) for d in op.output_desc)
            else:
                self.read_op(op, i, pointer)
        outputs = self.read_outputs()
        self.findings.raise_if_any()
        self.sizes.finish()
        b = self.builder
        tensors = {n: self.resolved(t) for n, t in b.tensors.items()}
        for t in tensors.values():
            b.check_shape(t.shape, t.origin, f"the tensor {quote(t.name)}")
        self.findings.raise_if_any()
        nodes = tuple(replace(n, attrs=self.resolved_attrs(n.attrs)) for n in b.nodes)
        return FusionGraph(
            b.name,
            tuple(b.symbols.values()),
            tuple(self.inputs.values()),
            nodes,
            tuple(outputs),
            tensors,
            b.called,
        )

    # inputs, outputs --------------------------------------------------------------------------

    def read_inputs(self) -> None:
        for g, group in enumerate(self.info.input_desc or ()):
            for k, desc in enumerate(group):
                pointer = f"/input_desc/{g}/{k}"
                if desc.tensor_name in self.values:
                    text = f"the input {quote(desc.tensor_name)} is defined twice"
                    self.findings.add("AF1106", text, f"{pointer}/tensor_name")
                    continue
                if desc.inline:
                    self.values[desc.tensor_name] = self.constant(desc, pointer)
                    continue
                d = self.dtype(desc, pointer)
                shape = self.sizes.read(desc.shape, desc.symbolic_shape, pointer, define=True)
                if d is None or shape is None:
                    self.values[desc.tensor_name] = None
                    continue
                name = tensor_name(desc.tensor_name, self.builder.tensor_names)
                tensor = Tensor(name, d, tuple(e for e in shape if e is not None), origin=pointer)
                self.builder.add_tensor(tensor)
                self.values[desc.tensor_name] = tensor
                self.inputs[desc.tensor_name] = name

    def read_outputs(self) -> list[GraphOutput]:
        out: list[GraphOutput] = []
        used = set(self.inputs.values())
        left = dict(self.written)
        seen: set[str] = set()
        if not self.info.output_desc:
            self.findings.add("AF1104", "the graph has no outputs", "/output_desc")
        for i, desc in enumerate(self.info.output_desc):
            pointer, name = f"/output_desc/{i}", desc.tensor_name
            if name in seen:
                self.findings.add(
                    "AF1106", f"the output {quote(name)} is listed twice", f"{pointer}/tensor_name"
                )
                continue
            seen.add(name)
            target = self.tokens.get(name)
            if target is not None and target in left:
                value, at = left.pop(target)
                self.add_output(out, name, value, at, used, target)
            elif name not in self.values:
                text = f"the output {quote(name)} is not the result of any op"
                self.findings.add("AF1107", text, f"{pointer}/tensor_name")
            else:
                value = self.seen_as(self.values[name], desc, pointer, f"{name}_as")
                self.add_output(out, name, value, pointer, used, None)
        for target, (value, at) in left.items():
            self.add_output(out, f"{target}_out", value, at, used, target)
        return out

    def add_output(
        self,
        out: list[GraphOutput],
        name: str,
        value: Value | None,
        pointer: str,
        used: set[str],
        target: str | None,
    ) -> None:
        if value is None:
            return
        if isinstance(value, Constant):
            value = self.materialised(value, (), name, pointer)
            if value is None:
                return
        # A token is not a tensor, so its name is free for the parameter.
        parameter = self.builder.output_name(value, name if target is not None else "", used)
        out.append(
            GraphOutput(parameter, value.name, None if target is None else self.inputs[target])
        )

    # values -----------------------------------------------------------------------------------

    def dtype(self, desc: Desc, pointer: str) -> DType | None:
        try:
            d = dtype(desc.data_type)
        except KeyError:
            d = None
        if d is None or d.kind == "m":
            if desc.data_type not in self.bad_types:
                self.bad_types.add(desc.data_type)
                code, text = "AF1104", f"the dtype {quote(desc.data_type)} is not known"
                if desc.data_type in FOREIGN:
                    code, text = "AF1203", f"no kernel holds elements of type {desc.data_type}"
                self.findings.add(code, text, f"{pointer}/data_type")
            return None
        return d

    def constant(self, desc: Desc, pointer: str) -> Constant | None:
        d = self.dtype(desc, pointer)
        if d is None:
            return None
        value = desc.value
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, (int, float)):
            text = f"the constant {quote(str(value))} is not a number"
            self.findings.add(
                "AF1104",
                text,
                f"{pointer}/value",
                hint="constant tensors of several elements are not supported",
            )
            return None
        if not self.builder.check_constant(value, d, f"{pointer}/value"):
            return None
        return Constant(
            bool(value) if d.kind == "b" else float(value) if d.kind == "f" else int(value), d
        )

    def operand(self, desc: Desc, pointer: str, name: str) -> Value | None:
        """Return an operand of an op, reshaped to its description."""
        if desc.inline:
            return self.constant(desc, pointer)
        if desc.tensor_name not in self.values:
            text = f"the tensor {quote(desc.tensor_name)} is used before any op defines it"
            self.findings.add("AF1107", text, f"{pointer}/tensor_name")
            return None
        return self.seen_as(self.values[desc.tensor_name], desc, pointer, name)

    def seen_as(self, value: Value | None, desc: Desc, pointer: str, name: str) -> Value | None:
        """Return ``value`` with the shape of its description."""
        if value is None:
            return None
        d = self.dtype(desc, pointer)
        wanted = self.sizes.read(desc.shape, desc.symbolic_shape, pointer, define=False)
        if d is None or wanted is None:
            return None
        if value.dtype != d:
            text = f"{quote(desc.tensor_name)} is {value.dtype}, but declared as {d}"
            self.findings.add("AF1207", text, f"{pointer}/data_type")
            return None
        if isinstance(value, Constant):
            shape = self.complete(wanted, ())
            return (
                value
                if shape is not None and all(s == 1 for s in shape)
                else self.materialised(value, shape, name, pointer)
            )
        return self.fitted(
            value, wanted, name, pointer, f"{quote(desc.tensor_name)} is declared with shape"
        )

    def complete(self, wanted: Sequence[Expr | None], known: Shape) -> Shape | None:
        """Return ``wanted`` with unknown sizes taken from ``known``."""
        if all(w is not None for w in wanted):
            return tuple(self.sizes.resolve(w) for w in wanted if w is not None)
        if len(wanted) != len(known):
            return None
        return tuple(
            self.sizes.resolve(k if w is None else w) for w, k in zip(wanted, known, strict=True)
        )

    def fitted(
        self, value: Tensor, wanted: Sequence[Expr | None], name: str, pointer: str, what: str
    ) -> Tensor | None:
        """Return ``value``, or a Reshape of it, with shape ``wanted``; AF1207 if impossible."""
        have = tuple(self.sizes.resolve(e) for e in value.shape)
        shape = self.complete(wanted, have)
        if shape == have:
            return value
        if shape is None:
            said = self.builder.in_words([const(-1) if w is None else w for w in wanted])
            text = f"{what} {said}, but it is {self.builder.in_words(have)}"
            self.findings.add(
                "AF1109", text, pointer, hint="name the dynamic sizes in 'symbolic_shape'"
            )
            return None
        b = self.builder
        count = b.element_count(shape)
        if count is None or count != b.element_count(have):
            text = f"{what} {self.builder.in_words(shape)}, but it is {self.builder.in_words(have)}"
            self.findings.add(
                "AF1207",
                text,
                pointer,
                hint="shapes may differ only if they have the same number of elements",
            )
            return None
        out = Tensor(tensor_name(name, b.tensor_names), value.dtype, shape, origin=pointer)
        node = f"reshape_{out.name}"
        return b.add_node(node, "Reshape", [value], out, {"shape": shape}, pointer)

    def materialised(
        self, value: Constant, shape: Shape | None, name: str, pointer: str
    ) -> Tensor | None:
        """Return a tensor of equal elements."""
        if shape is None or value.dtype is None:
            return None
        b = self.builder
        out = Tensor(tensor_name(name, b.tensor_names), value.dtype, shape, origin=pointer)
        node = f"fill_{out.name}"
        return b.add_node(node, "Broadcast", [value], out, {"shape": shape}, pointer)

    # ops --------------------------------------------------------------------------------------

    def note_unsupported(self) -> set[str]:
        """Note one finding per unsupported kind of op."""
        first: dict[str, int] = {}
        count: dict[str, int] = {}
        for i, op in enumerate(self.info.op_desc):
            row = registry.find(op.name)
            if op.name not in _OWN and (row is None or not row.user):
                first.setdefault(op.name, i)
                count[op.name] = count.get(op.name, 0) + 1
        rest = sorted({op.name for op in self.info.op_desc} - set(first))
        for name, i in first.items():
            pointer = f"/op_desc/{i}/name" if self.single_at is None else "/name"
            times = "once" if count[name] == 1 else f"{counted(count[name], 'time')}"
            hint = f"the graph's other ops are supported: {', '.join(rest)}" if rest else ""
            self.findings.add(
                "AF1201",
                f"the op {quote(name)} (used {times}) is not supported",
                pointer,
                hint=hint,
            )
        return set(first)

    def read_op(self, op: Op, index: int, pointer: str) -> None:
        if len(op.output_desc) != 1:
            text = f"{op.name} has {counted(len(op.output_desc), 'output')}, not 1"
            self.findings.add("AF1202", text, f"{pointer}/output_desc")
            self.values.update((d.tensor_name, None) for d in op.output_desc)
            return
        out = op.output_desc[0]
        out_at = f"{pointer}/output_desc/0"
        if out.tensor_name in self.values:
            text = f"the tensor {quote(out.tensor_name)} is defined twice"
            self.findings.add("AF1106", text, f"{out_at}/tensor_name")
            return
        descs = [
            (d, f"{pointer}/input_desc/{g}/{k}")
            for g, x in enumerate(op.input_desc or ())
            for k, d in enumerate(x)
        ]
        if op.name in _ASSIGNS:
            self.values[out.tensor_name] = self.assign(op, descs, index, pointer)
        elif op.name in COMPOSED:
            self.values[out.tensor_name] = self.compose(op, descs, out, index, pointer)
        else:
            self.values[out.tensor_name] = self.compute(op, descs, out, index, pointer)

    def compute(
        self, op: Op, descs: list[tuple[Desc, str]], out: Desc, index: int, pointer: str
    ) -> Value | None:
        """Convert an op that gives a tensor."""
        out_at = f"{pointer}/output_desc/0"
        wanted = self.sizes.read(out.shape, out.symbolic_shape, out_at, define=False)
        d = self.dtype(out, out_at)
        row, attrs, count = self.spelled(op, descs, wanted, d, pointer)
        if row is None or wanted is None or d is None:
            return None
        operands: list[Value] = []
        used = descs[:count] if count is not None else descs
        for k, (desc, at) in enumerate(used):
            value = self.operand(desc, at, f"{out.tensor_name}_in{k}")
            if value is not None:
                operands.append(value)
        if op.name == "ZerosLike":
            operands, used = (
                [Constant(0.0 if d.kind == "f" else False if d.kind == "b" else 0, d)],
                [],
            )
        if len(operands) < len(used):
            return None
        if row.compute_type == "elewise":
            self.sizes.equate([o.shape for o in operands if isinstance(o, Tensor)])
        operands = [self.resolved(o) if isinstance(o, Tensor) else o for o in operands]
        if row.name in ("Broadcast", "Reshape") and len(operands) == 1:
            shape = self.target_shape(op, row.name, operands[0], wanted, pointer)
            if shape is None:
                return None
            attrs = {"shape": shape}
        if row.name in ("Pad", "Slice") and len(operands) == 1:
            frame = padding(op, row.name, operands[0], pointer, self.findings)
            if frame is None:
                return None
            attrs = frame
        node = f"{op.name.lower()}_{index}"
        result = self.builder.infer(
            row, operands, attrs, pointer, node=node, operand_pointers=[p for _, p in used]
        )
        if result is None:
            return None
        if result[0] != d:
            text = f"{op.name} gives {result[0]}, but its output is declared as {d}"
            self.findings.add("AF1207", text, f"{out_at}/data_type", node=node)
            return None
        have = tuple(self.sizes.resolve(e) for e in result[1])
        same = self.complete(wanted, have) == have
        own = tensor_name(
            out.tensor_name if same else f"{out.tensor_name}_raw", self.builder.tensor_names
        )
        tensor = Tensor(own, d, have, origin=out_at)
        self.builder.add_node(node, row.name, operands, tensor, attrs, pointer)
        return (
            tensor
            if same
            else self.fitted(
                tensor,
                wanted,
                out.tensor_name,
                out_at,
                f"the output of {op.name} is declared with shape",
            )
        )

    def compose(
        self, op: Op, descs: list[tuple[Desc, str]], out: Desc, index: int, pointer: str
    ) -> Value | None:
        """Convert an op that is several ops of autofuse."""
        out_at = f"{pointer}/output_desc/0"
        wanted = self.sizes.read(out.shape, out.symbolic_shape, out_at, define=False)
        d = self.dtype(out, out_at)
        operands = [self.operand(x, at, out.tensor_name) for x, at in descs]
        found = [x for x in operands if x is not None]
        if wanted is None or d is None or len(found) < len(operands):
            return None
        found = [self.resolved(x) if isinstance(x, Tensor) else x for x in found]
        b, node = self.builder, f"{op.name.lower()}_{index}"

        def make(name: str, xs: Sequence[Value], attrs: Mapping[str, AttrValue]) -> Tensor | None:
            row = registry.lookup(name)
            made = b.infer(row, xs, attrs, pointer, node=node)
            if made is None:
                return None
            tensor = Tensor(tensor_name(out.tensor_name, b.tensor_names), *made, origin=out_at)
            return b.add_node(f"{node}_{name.lower()}", name, xs, tensor, attrs, pointer)

        result = composed(op, found, d, pointer, self.findings, make)
        if result is None:
            return None
        if result.dtype != d:
            text = f"{op.name} gives {result.dtype}, but its output is declared as {d}"
            self.findings.add("AF1207", text, f"{out_at}/data_type", node=node)
            return None
        what = f"the output of {op.name} is declared with shape"
        return self.fitted(result, wanted, out.tensor_name, out_at, what)

    def spelled(
        self,
        op: Op,
        descs: list[tuple[Desc, str]],
        wanted: Sequence[Expr | None] | None,
        d: DType | None,
        pointer: str,
    ) -> tuple[definition.OpDef | None, dict[str, AttrValue], int | None]:
        """Return registry row, attributes, and the number of data operands (None: all)."""
        if op.name in _RESHAPES:
            return registry.lookup("Reshape"), {}, 1
        if op.name == "ZerosLike":
            return registry.lookup("Broadcast"), {}, 0
        if op.name == "Tile":
            ok = wanted is not None and tile_is_broadcast(op, descs, pointer, self.findings)
            return (registry.lookup("Broadcast") if ok else None), {}, 1
        if op.name in ("PadAkg", "UnPadAkg"):
            return registry.lookup("Pad" if op.name == "PadAkg" else "Slice"), {}, 1
        row = registry.lookup(op.name)
        if row.name == "Broadcast":
            return row, {}, 1
        if row.compute_type == "reduce" or row.name == "Transpose":
            own = dimensions(op, row, descs, pointer, self.findings)
            return (None if own is None else row), own or {}, 1
        if row.name == "Cast":
            ok = d is not None and cast_agrees(op, descs, d, pointer, self.findings)
            return (row if ok else None), ({} if d is None else {"dtype": d.name}), 1
        attrs = known_attrs(row, op)
        return row, attrs, None

    def target_shape(
        self, op: Op, kind: str, operand: Value, wanted: Sequence[Expr | None], pointer: str
    ) -> Shape | None:
        """Return the shape that a Broadcast or Reshape gives."""
        have = operand.shape if isinstance(operand, Tensor) else ()
        if all(w is not None for w in wanted):
            return tuple(self.sizes.resolve(w) for w in wanted if w is not None)
        if kind == "Broadcast":
            # -1 in the target of a BroadcastTo keeps the operand's size.
            padded = (*(const(1) for _ in range(len(wanted) - len(have))), *have)
            if len(padded) == len(wanted):
                return self.complete(wanted, padded)
        elif sum(w is None for w in wanted) == 1:
            count = self.builder.element_count(have)
            rest = self.builder.element_count(tuple(w for w in wanted if w is not None))
            size = divided(count, rest)
            if size is not None:
                return tuple(size if w is None else w for w in wanted)
        text = f"the result shape of {op.name} does not follow from its operand {self.builder.in_words(have)}"
        at = f"{pointer}/output_desc/0/shape"
        self.findings.add("AF1109", text, at, hint="name the dynamic sizes in 'symbolic_shape'")
        return None

    def assign(
        self, op: Op, descs: list[tuple[Desc, str]], index: int, pointer: str
    ) -> Value | None:
        """Note the write into a graph input; return the value that the op's output names."""
        least = 2 if op.name == "Assign" else 3
        if len(descs) < least:
            self.findings.add(
                "AF1202",
                f"{op.name} takes {counted(least, 'input')}, not {len(descs)}",
                f"{pointer}/input_desc",
            )
            return None
        (dst, dst_at), (src, src_at) = descs[:2]
        target = dst.tensor_name
        out = op.output_desc[0].tensor_name
        if dst.inline or target not in self.inputs:
            unknown = dst.inline or (target not in self.values)
            if unknown or self.values[target] is not None:
                text = f"{op.name} writes into {quote(target)}, which is not an input of the graph"
                self.findings.add("AF1110", text, f"{dst_at}/tensor_name")
            return None
        if target in self.written:
            text = f"the input {quote(target)} is overwritten twice"
            hint = f"first by {self.written[target][1]}"
            self.findings.add("AF1110", text, f"{dst_at}/tensor_name", hint=hint)
            return None
        memory = self.resolved(self.builder.tensors[self.inputs[target]])
        value = self.operand(src, src_at, f"{out}_src")
        if isinstance(value, Constant) and value.dtype == memory.dtype:
            value = self.materialised(value, memory.shape, f"{out}_src", pointer)
        if value is not None and value.dtype != memory.dtype:
            text = f"{op.name} writes {value.dtype} into {quote(target)}, which is {memory.dtype}"
            self.findings.add("AF1110", text, f"{src_at}/data_type")
            value = None
        elif isinstance(value, Tensor):
            self.sizes.equate([value.shape, memory.shape])
            value = self.fitted(
                value,
                self.resolved(memory).shape,
                f"{out}_src",
                pointer,
                f"the input {quote(target)} has shape",
            )
        result = value if op.name == "Assign" else self.operand(*descs[2], f"{out}_ret")
        self.written[target] = (value, pointer)
        # The ops run in file order: later ones read the written value.
        self.values[target] = value
        if op.name == "Assign" or op.attrs().get("fake_output") is True:
            self.tokens[out] = target
        return result

    # dynamic sizes ----------------------------------------------------------------------------

    def resolved(self, t: Tensor) -> Tensor:
        shape = tuple(self.sizes.resolve(e) for e in t.shape)
        return t if shape == t.shape else replace(t, shape=shape)

    def resolved_attrs(self, attrs: Mapping[str, AttrValue]) -> Mapping[str, AttrValue]:
        return {
            k: tuple(self.sizes.resolve(x) if isinstance(x, Expr) else x for x in v)
            if isinstance(v, tuple)
            else v
            for k, v in attrs.items()
        }


def divided(count: Expr | None, rest: Expr | None) -> Expr | None:
    """Return ``count / rest`` if that is an integer polynomial."""
    return None if count is None or rest is None else divide_exact(count, rest)
