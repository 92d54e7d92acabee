"""Facts of the onnx package about an op: schema, defaults of attributes, and function body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autofuse.frontends.onnx import tables
from autofuse.frontends.onnx.values import Foreign, Known, Value

if TYPE_CHECKING:
    import onnx
    from onnx.defs import OpSchema

__all__ = [
    "attribute_value",
    "body_of",
    "default_attributes",
    "schema_of",
    "specialised",
    "violation",
]

#: Element-wise ops with one meaning in all versions: the newest body serves older ones.
_STABLE = frozenset(
    [
        "Celu",
        "Elu",
        "HardSigmoid",
        "LeakyRelu",
        "Selu",
        "Shrink",
        "Softsign",
        "ThresholdedRelu",
        "Gelu",
        "Mish",
        "HardSwish",
    ]
)


def schema_of(op: str, domain: str, opset: int) -> OpSchema | None:
    """Return the newest schema of an op that the operator set includes."""
    from onnx import defs

    try:
        return defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None


def violation(node: onnx.NodeProto, opsets: Mapping[str, int]) -> str:
    """Return a node's violation of its schema (an attribute missing, unknown or of the wrong type); empty if none."""
    import onnx
    from onnx import checker

    context: Any = type(checker.DEFAULT_CONTEXT)()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = dict(opsets)
    try:
        checker.check_node(node, context)
    except checker.ValidationError as e:
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        return lines[0] if lines else "it does not conform to the standard"
    return ""


def attribute_value(a: onnx.AttributeProto) -> Any:
    """Return the value of an attribute; bytes as text."""
    from onnx import helper

    value = helper.get_attribute_value(a)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def default_attributes(schema: OpSchema) -> dict[str, Any]:
    """Return the attributes that a node may omit, with their defaults."""
    return {
        name: attribute_value(a.default_value)
        for name, a in schema.attributes.items()
        if a.default_value.type
    }


def body_of(
    node: onnx.NodeProto, declared: OpSchema, opset: int, inputs: Sequence[Value | None]
) -> onnx.FunctionProto | None:
    """Return the function body by which ONNX defines the op, or None."""
    import onnx
    from onnx import defs

    schema: Any = declared  # onnx's stubs lack functions
    if node.op_type in _STABLE and not schema.has_function:
        schema = defs.get_schema(node.op_type, schema.domain)
        opset = max(opset, schema.since_version)
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= opset]
        if versions:
            text = schema.get_function_with_opset_version(max(versions))
        else:
            text = schema.get_function_with_opset_version(min(schema.function_opset_versions))
    elif schema.has_context_dependent_function:
        types = [_type_of(x) for x in inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if not versions:
            return None
        text = schema.get_context_dependent_function_with_opset_version(
            max(versions), node.SerializeToString(), types
        )
    else:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    if not body.node:
        return None
    # The body does not repeat a default of the schema.
    have = {a.name for a in body.attribute_proto}
    body.attribute_proto.extend(
        a.default_value
        for n, a in schema.attributes.items()
        if a.default_value.type and n not in have
    )
    return body


def _type_of(x: Value | None) -> bytes:
    import onnx

    out = onnx.TypeProto()
    if x is None:
        return bytes(out.SerializeToString())
    if isinstance(x, Foreign):
        name = x.type_name
    elif isinstance(x, Known) and x.dtype is None:
        name = x.array.dtype.name
    else:
        name = str(x.dtype)
    out.tensor_type.elem_type = tables.type_number(name)
    for s in x.shape:
        d = out.tensor_type.shape.dim.add()
        n = s.as_int()
        if n is not None:
            d.dim_value = n
    return bytes(out.SerializeToString())


def specialised(
    node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto], absent: set[str]
) -> onnx.NodeProto:
    """Specialise a node of a body: substitute the caller's attributes, drop absent operands."""
    import onnx

    refers = any(a.ref_attr_name for a in node.attribute)
    if not refers and absent.isdisjoint(node.input):
        return node
    out = onnx.NodeProto()
    out.CopyFrom(node)
    del out.attribute[:]
    for a in node.attribute:
        if not a.ref_attr_name:
            out.attribute.append(a)
        elif a.ref_attr_name in given:
            taken = onnx.AttributeProto()
            taken.CopyFrom(given[a.ref_attr_name])
            taken.name = a.name
            out.attribute.append(taken)
    for i, name in enumerate(node.input):
        if name in absent:
            out.input[i] = ""
    return out
