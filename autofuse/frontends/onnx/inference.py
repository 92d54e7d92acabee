"""Types and sizes of the results of unsupported nodes, from ONNX's inference and from operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autofuse.frontends.onnx import bodies, tables
from autofuse.frontends.onnx.values import Array, Foreign, Known, Value
from autofuse.implgraph.expr.expression import Expr

if TYPE_CHECKING:
    import onnx

__all__ = ["read_by", "sizes_told", "subgraphs", "types_of_results"]

#: Most elements of an operand passed to the inference: shapes, axes, scales.
_MAX_SHOWN = 64
#: Op -> the operand whose elements are the sizes of the result.
_SIZES_IN = {"ConstantOfShape": 0, "Expand": 1, "Tile": 1, "Resize": 3, "OneHot": 1, "TopK": 1}
#: Ops that move a window over an image.
_WINDOWS = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})


def subgraphs(node: onnx.NodeProto) -> Iterator[Any]:
    """Yield the graphs in a node's attributes: branches, loop bodies."""
    for a in node.attribute:
        if a.HasField("g"):
            yield a.g
        yield from a.graphs


def read_by(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that a node reads, also inside its subgraphs."""
    found = [n for n in node.input if n]
    for g in subgraphs(node):
        own = {v.name for v in g.input} | {t.name for t in g.initializer}
        own |= {t.values.name for t in g.sparse_initializer}
        for n in g.node:
            found += (x for x in read_by(n) if x not in own)
            own.update(n.output)
        found += (v.name for v in g.output if v.name and v.name not in own)
    return list(dict.fromkeys(found))


def types_of_results(
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    values: Mapping[str, Value],
    read: Sequence[str],
) -> dict[str, Any]:
    """Return the result types that ONNX infers from the operands, by name; empty if it refuses them.

    Args:
        node: the node.
        opsets: domain -> version.
        values: known tensors, by name; sizes that are expressions come back as names of sizes.
        read: tensors that the node reads, also inside its subgraphs.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    opset = opsets.get(domain, 1)
    schema = bodies.schema_of(node.op_type, domain, opset)
    if schema is None:
        return {}
    types = {}
    for x in read:
        if x not in values or (kind := _type_of(values[x])) is None:
            return {}
        types[x] = kind
    if any(True for _ in subgraphs(node)):
        return _with_subgraphs(node, opsets, types)
    # A node that breaks its schema must not reach the C++ code of the inference.
    if bodies.violation(node, {**opsets, domain: opset}):
        return {}
    from onnx import checker, helper, shape_inference

    data = {}
    for x in types:
        v = values[x]
        if isinstance(v, Known) and v.array.size <= _MAX_SHOWN and v.array.dtype.kind in "iuf":
            kind = helper.np_dtype_to_tensor_dtype(v.array.dtype)
            data[x] = helper.make_tensor(x, kind, v.array.shape, v.array.ravel())
    imports = [helper.make_opsetid(d, n) for d, n in opsets.items()]
    try:
        return dict(
            shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=imports, ir_version=10
            )
        )
    except (
        shape_inference.InferenceError,
        checker.ValidationError,
        RuntimeError,
        ValueError,
        TypeError,
        KeyError,
        AssertionError,
    ):
        return {}


def _with_subgraphs(
    node: onnx.NodeProto, opsets: Mapping[str, int], types: Mapping[str, Any]
) -> dict[str, Any]:
    """Infer the result types of a node whose subgraphs may read outer values, as a model of one node."""
    import onnx
    from onnx import checker, helper, shape_inference

    inputs = [helper.make_value_info(x, t) for x, t in types.items()]
    imports = [helper.make_opsetid(d, n) for d, n in opsets.items()]
    graph = helper.make_graph([node], "node", inputs, [])
    model = helper.make_model(graph, opset_imports=imports, ir_version=onnx.IR_VERSION)
    try:
        # A body that breaks its schema must not reach the C++ code of the inference.
        checker.check_model(model)
        found = shape_inference.infer_shapes(model, data_prop=True)
    except (shape_inference.InferenceError, checker.ValidationError, RuntimeError, ValueError):
        return {}
    known = {v.name: v.type for v in found.graph.value_info if v.name in node.output}
    return {**known, **_loop_types(node, imports, types)} if node.op_type == "Loop" else known


def _loop_types(
    node: onnx.NodeProto, imports: Sequence[Any], types: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result types of a loop, whose shapes ONNX does not infer.

    A loop-carried tensor may change shape at every step. The body is inferred for the initial shapes; axes that it
    changes become open, until it changes no more of them.
    """
    import onnx
    from onnx import checker, helper, shape_inference

    body = next(a.g for a in node.attribute if a.name == "body")
    carried = [types.get(x) for x in node.input[2:]]
    outer = [helper.make_value_info(x, t) for x, t in types.items()]
    if len(body.output) < 1 + len(carried) or len(body.input) != 2 + len(carried):
        return {}
    known = [None if t is None else _copy(t) for t in carried]
    for _ in range(1 + sum(len(t.tensor_type.shape.dim) + 1 for t in known if t is not None)):
        inner = onnx.GraphProto()
        inner.CopyFrom(body)
        for v, t in zip(inner.input[2:], known, strict=True):
            if t is not None:
                v.type.CopyFrom(t)
        for v in inner.output:
            v.ClearField("type")
        del inner.value_info[:]
        own = {v.name for v in inner.input}
        inner.input.extend(v for v in outer if v.name not in own)
        model = helper.make_model(inner, opset_imports=imports, ir_version=onnx.IR_VERSION)
        try:
            found = shape_inference.infer_shapes(model, data_prop=True)
        except (shape_inference.InferenceError, checker.ValidationError, RuntimeError, ValueError):
            return {}
        made = [v.type if v.HasField("type") else None for v in found.graph.output[1:]]
        wider = [_joined(a, b) for a, b in zip(known, made, strict=False)]
        if wider == known:
            break
        known = wider
    else:
        return {}
    out = dict(zip(node.output, known, strict=False))
    for name, t in zip(node.output[len(known) :], made[len(known) :], strict=False):
        if t is not None and t.tensor_type.HasField("shape"):
            out[name] = stacked = _copy(t)
            del stacked.tensor_type.shape.dim[:]
            stacked.tensor_type.shape.dim.add()
            stacked.tensor_type.shape.dim.extend(t.tensor_type.shape.dim)
    return {name: t for name, t in out.items() if name and t is not None}


def _copy(t: onnx.TypeProto) -> onnx.TypeProto:
    import onnx

    out = onnx.TypeProto()
    out.CopyFrom(t)
    return out


def _joined(a: onnx.TypeProto | None, b: onnx.TypeProto | None) -> onnx.TypeProto | None:
    """Return the common type of two values; sizes that differ become open."""
    if a is None or b is None or a.tensor_type.elem_type != b.tensor_type.elem_type:
        return None
    out, other = _copy(a), b.tensor_type
    shape = out.tensor_type
    if not (shape.HasField("shape") and other.HasField("shape")) or (
        len(shape.shape.dim) != len(other.shape.dim)
    ):
        shape.ClearField("shape")
        return out
    for d, e in zip(shape.shape.dim, other.shape.dim, strict=True):
        if d != e:
            d.Clear()
    return out


def _type_of(v: Value) -> Any:
    """Return the ONNX type of a tensor, or None for an unknown dtype; expressions become names of sizes."""
    import onnx

    name = v.type_name if isinstance(v, Foreign) else str(v.dtype or "")
    if isinstance(v, Known) and v.dtype is None:
        name = v.array.dtype.name
    if not (number := tables.type_number(name)):
        return None
    out = onnx.TypeProto()
    out.tensor_type.elem_type = number
    out.tensor_type.shape.SetInParent()
    for s in v.shape:
        d = out.tensor_type.shape.dim.add()
        if (n := s.as_int()) is not None:
            d.dim_value = n
        else:
            d.dim_param = str(s)
    return out


def sizes_told(node: onnx.NodeProto, values: Mapping[str, Value]) -> tuple[Expr | None, ...] | None:
    """Infer sizes of the first result from operands where ONNX, which handles only numbers, does not.

    They are sizes given by an operand (the shape of Reshape, the k of TopK), axes that Slice leaves unchanged, images
    whose size a convolution or pooling keeps, and sizes resized by an integer factor.

    Returns:
        A size per axis, None if unknown; None if all are unknown.
    """
    given = [values.get(x) for x in node.input]
    x = given[0] if given else None
    if node.domain not in ("", "ai.onnx") or x is None:
        return None
    shape = given[1] if len(given) > 1 else None
    if node.op_type == "Reshape" and isinstance(shape, Known):
        zero_is_zero = any(a.name == "allowzero" and a.i for a in node.attribute)
        told: list[Expr | None] = []
        for axis, n in enumerate(map(Expr.of, shape.array.reshape(-1).tolist())):
            if n == 0 and not zero_is_zero:
                told.append(x.shape[axis] if axis < len(x.shape) else None)
            else:
                told.append(None if n == -1 else n)
        return tuple(told)
    if node.op_type in _WINDOWS and len(x.shape) > 2:
        kernel = given[1].shape[2:] if node.op_type == "Conv" and given[1] is not None else None
        return (x.shape[0], None, *_same_sizes(node, x.shape[2:], kernel))
    scales = given[2] if len(given) > 2 else None
    if node.op_type == "Resize" and isinstance(scales, Known):
        return _multiples(node, x.shape, scales.array)
    if (sizes := _as_operands_say(node, given)) is not None:
        return sizes
    axes = given[3] if len(given) > 3 else None
    if node.op_type == "Slice" and isinstance(axes, Known) and axes.array.dtype != object:
        taken = {int(a) % max(len(x.shape), 1) for a in axes.array.reshape(-1)}
        return tuple(None if axis in taken else size for axis, size in enumerate(x.shape))
    return None


def _as_operands_say(
    node: onnx.NodeProto, given: Sequence[Value | None]
) -> tuple[Expr | None, ...] | None:
    """Return the result's sizes for an op that takes them as elements of an operand."""
    x, place = given[0], _SIZES_IN.get(node.op_type, -1)
    held = given[place] if 0 <= place < len(given) else None
    attrs = {a.name: a for a in node.attribute}
    if x is None or not isinstance(held, Known) or held.array.dtype.kind not in "iuO":
        return None
    sizes = [Expr.of(v) for v in held.array.reshape(-1).tolist()]
    axis = attrs["axis"].i if "axis" in attrs else -1
    if node.op_type == "ConstantOfShape":
        return tuple(sizes)
    if node.op_type == "Resize":
        fits = len(sizes) == len(x.shape) and not attrs.keys() & {
            "axes",
            "keep_aspect_ratio_policy",
        }
        return tuple(sizes) if fits else None
    if node.op_type == "Expand":
        rank = max(len(sizes), len(x.shape))
        old = (*[Expr.of(1)] * (rank - len(x.shape)), *x.shape)
        new = (*[Expr.of(1)] * (rank - len(sizes)), *sizes)
        return tuple(
            b if a == 1 else a if b == 1 or a == b else None for a, b in zip(old, new, strict=True)
        )
    if node.op_type == "Tile":
        return tuple(a * b for a, b in zip(x.shape, sizes, strict=False))
    if len(sizes) != 1 or not x.shape:
        return None
    # TopK has this many along its axis, OneHot along a new one.
    before = axis % (len(x.shape) + (node.op_type == "OneHot"))
    behind = before + (node.op_type == "TopK")
    return (*x.shape[:before], sizes[0], *x.shape[behind:])


def _same_sizes(
    node: onnx.NodeProto, sizes: Sequence[Expr], kernel: Sequence[Expr] | None
) -> list[Expr | None]:
    """Return the window axes whose size is kept: strides are 1, and pads compensate for the window."""
    attrs = {a.name: a for a in node.attribute}

    def numbers(name: str, default: int, count: int) -> list[int]:
        found = list(attrs[name].ints) if name in attrs else []
        return found if len(found) == count else [default] * count

    rank = len(sizes)
    window = numbers("kernel_shape", 0, rank)
    if kernel is not None and len(kernel) == rank:
        window = [k.as_int() or 0 for k in kernel]
    pads = numbers("pads", 0, 2 * rank)
    fill = attrs["auto_pad"].s.decode("ascii", "replace") if "auto_pad" in attrs else "NOTSET"
    kept = []
    for axis, (k, step, by) in enumerate(
        zip(window, numbers("strides", 1, rank), numbers("dilations", 1, rank), strict=True)
    ):
        pad = 0 if fill == "VALID" else pads[axis] + pads[axis + rank]
        same = fill.startswith("SAME") or pad == (k - 1) * by
        kept.append(step == 1 and k > 0 and same)
    return [size if keep else None for size, keep in zip(sizes, kept, strict=True)]


def _multiples(
    node: onnx.NodeProto, sizes: Sequence[Expr], scales: Array
) -> tuple[Expr | None, ...] | None:
    """Return the sizes of a resized image, along axes with an integer scale."""
    if scales.size != len(sizes) or any(a.name == "axes" for a in node.attribute):
        return None
    numbers = [float(v) for v in scales.reshape(-1)]
    return tuple(
        size * int(v) if v >= 1 and v.is_integer() else None
        for size, v in zip(sizes, numbers, strict=True)
    )
