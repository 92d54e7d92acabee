"""Bytes of an untrusted file to a ModelProto, or a diagnostic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from autofuse.diagnostics import AutofuseError, Where
from autofuse.frontends.json_positions import quote

if TYPE_CHECKING:
    import onnx

__all__ = ["MAX_BYTES", "MAX_MODEL_BYTES", "check_model", "looks_like_onnx", "model_of"]

#: A graph is one fused kernel: it holds no weights to speak of.
MAX_BYTES = 64 << 20
#: A model that is partitioned may hold its weights, as far as protobuf takes files.
MAX_MODEL_BYTES = (2 << 30) - 1
_HINT = "pip install 'ascend-autofuse[onnx]'"


def looks_like_onnx(data: bytes, path: str = "") -> bool:
    """True for a file called ``*.onnx``, and for bytes that begin as a serialised ModelProto does.

    The first field is ``ir_version`` (tag 0x08, a small number), followed by another one of the
    top level's length-delimited fields; no text begins like that.
    """
    if path.endswith(".onnx"):
        return True
    return len(data) > 2 and data[0] == 0x08 and 0 < data[1] < 0x20 and data[2] in _NEXT_FIELDS


#: Tags of producer_name, producer_version, domain, doc_string, graph, opset_import, metadata_props.
_NEXT_FIELDS = frozenset({0x12, 0x1A, 0x22, 0x32, 0x3A, 0x42, 0x72})


def model_of(data: bytes, path: str = "", *, limit: int = MAX_BYTES) -> onnx.ModelProto:
    """Parse and check what can be checked without looking at the ops.

    Args:
        data: the file.
        path: its name, for messages.
        limit: bytes that it may have.

    Raises:
        AutofuseError: AF1003 too large, AF1004 no ONNX model, AF1006 the onnx package is missing,
            AF1104 data outside the file.
    """
    where = Where(path)
    if len(data) > limit:
        text = f"the file has {len(data)} bytes, the limit is {limit}"
        hint = "a model is one fused kernel here: make weights inputs, and split the model"
        raise AutofuseError.of("AF1003", text, where=where, hint=hint)
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError as e:
        text = f"an ONNX model needs the package onnx: {e}"
        raise AutofuseError.of("AF1006", text, where=where, hint=_HINT) from e
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError) as e:
        text = f"the file is no ONNX model: {e}"
        raise AutofuseError.of("AF1004", text, where=where) from None
    try:
        texts = all(isinstance(t, str) for t in _texts(model))
    except UnicodeDecodeError:
        texts = False
    if not texts:
        raise AutofuseError.of("AF1004", "a name in the file is not UTF-8", where=where)
    check_model(model, path)
    return model


def _texts(message: Any) -> Iterator[Any]:
    """Every text field; protobuf hands out bytes where they are no text."""
    for descriptor, value in message.ListFields():
        if descriptor.type == descriptor.TYPE_STRING:
            yield from [value] if isinstance(value, str | bytes) else value
        elif descriptor.type == descriptor.TYPE_MESSAGE:
            for v in [value] if hasattr(value, "ListFields") else value:
                yield from _texts(v)


def check_model(model: onnx.ModelProto, path: str = "") -> None:
    """Refuse what a reader must not follow or would choke on.

    Raises:
        AutofuseError: AF1003, AF1004, AF1104.
    """
    from autofuse.frontends.builder import MAX_NODES

    where = Where(path)
    graph = model.graph
    if not graph.node and not graph.output:
        raise AutofuseError.of("AF1004", "the file holds no ONNX graph", where=where)
    if not model.opset_import and not graph.node:
        raise AutofuseError.of("AF1004", "the model names no operator set", where=where)
    _check_versions(model, where)
    amount = len(graph.node) + sum(len(f.node) for f in model.functions)
    if max(amount, len(graph.input), len(graph.initializer), len(graph.output)) > MAX_NODES:
        text = f"the model has {amount} nodes; at most {MAX_NODES} are allowed"
        raise AutofuseError.of("AF1003", text, where=where)
    if graph.sparse_initializer:
        text = "sparse initialisers are not supported"
        raise AutofuseError.of("AF1104", text, where=Where(path, "/graph/sparse_initializer"))
    for pointer, tensor in _tensors(model):
        if tensor.data_location or tensor.external_data:
            text = f"the data of {quote(tensor.name)} lie in another file, which is not read"
            hint = "save the model with its data inside, or make the tensor an input"
            raise AutofuseError.of("AF1104", text, where=Where(path, pointer), hint=hint)


def _check_versions(model: onnx.ModelProto, where: Where) -> None:
    """Refuse operator sets that are newer than the package: what their ops mean is not known here.

    Raises:
        AutofuseError: AF1104.
    """
    from onnx import defs

    newest = defs.onnx_opset_version()
    sets = [model.opset_import, *(f.opset_import for f in model.functions)]
    asked = max((o.version for s in sets for o in s if o.domain in ("", "ai.onnx")), default=0)
    if asked > newest:
        text = (
            f"the model uses version {asked} of the operator set, the package onnx knows {newest}"
        )
        hint = "install a newer package onnx, or convert the model with onnx.version_converter"
        raise AutofuseError.of("AF1104", text, where=where, hint=hint)


def _tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for i, t in enumerate(model.graph.initializer):
        yield f"/graph/initializer/{i}", t
    for i, n in enumerate(model.graph.node):
        yield from ((f"/graph/node/{i}", a.t) for a in n.attribute if a.HasField("t"))
    for k, f in enumerate(model.functions):
        for i, n in enumerate(f.node):
            pointer = f"/functions/{k}/node/{i}"
            yield from ((pointer, a.t) for a in n.attribute if a.HasField("t"))
