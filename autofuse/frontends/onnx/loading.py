"""Loading of an untrusted file: from bytes to a ModelProto, or a diagnostic."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.base.wording import counted
from autofuse.frontends.json_positions import quote

if TYPE_CHECKING:
    import onnx

__all__ = ["MAX_BYTES", "MAX_MODEL_BYTES", "check_model", "looks_like_onnx", "model_of"]

#: Size limit for one fused kernel, which holds few weights.
MAX_BYTES = 64 << 20
#: Size limit for a partitioned model, which may hold its weights: protobuf's limit for files.
MAX_MODEL_BYTES = (2 << 30) - 1
_HINT = "pip install 'ascend-autofuse[onnx]'"


def looks_like_onnx(data: bytes, path: str = "") -> bool:
    """Return True for a file called ``*.onnx``, and for bytes that begin like a serialised ModelProto.

    The first field is ``ir_version`` (tag 0x08, a small number), followed by another one of the
    top level's length-delimited fields; no text begins like that.
    """
    if path.endswith(".onnx"):
        return True
    return len(data) > 2 and data[0] == 0x08 and 0 < data[1] < 0x20 and data[2] in _NEXT_FIELDS


#: Tags of producer_name, producer_version, domain, doc_string, graph, opset_import, metadata_props.
_NEXT_FIELDS = frozenset({0x12, 0x1A, 0x22, 0x32, 0x3A, 0x42, 0x72})


def model_of(
    data: bytes, path: str = "", *, limit: int = MAX_BYTES, folder: Path | None = None
) -> onnx.ModelProto:
    """Parse a model and check everything but its ops.

    Args:
        data: the file.
        path: its name, for messages.
        limit: most bytes, including data in other files.
        folder: the file's folder; None: data in other files are refused.

    Raises:
        AutofuseError: AF1003 too large, AF1004 not an ONNX model, AF1006 the onnx package is missing, AF1104 data
            outside the file are refused.
    """
    where = Where(path)
    if len(data) > limit:
        text = f"the file has {counted(len(data), 'byte')}, the limit is {limit}"
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
        text = f"the file is not an ONNX model: {e}"
        raise AutofuseError.of("AF1004", text, where=where) from None
    try:
        texts = all(isinstance(t, str) for t in _texts(model))
    except UnicodeDecodeError:
        texts = False
    if not texts:
        raise AutofuseError.of("AF1004", "a name in the file is not UTF-8", where=where)
    if folder is not None:
        _take_in(model, folder, path, limit - len(data))
    check_model(model, path)
    return model


def _texts(message: Any) -> Iterator[Any]:
    """Yield every text field; protobuf returns bytes if they are not valid text."""
    for descriptor, value in message.ListFields():
        if descriptor.type == descriptor.TYPE_STRING:
            yield from [value] if isinstance(value, str | bytes) else value
        elif descriptor.type == descriptor.TYPE_MESSAGE:
            for v in [value] if hasattr(value, "ListFields") else value:
                yield from _texts(v)


def check_model(model: onnx.ModelProto, path: str = "") -> None:
    """Refuse models that a reader must not follow or could not handle.

    Raises:
        AutofuseError: AF1003, AF1004, AF1104.
    """
    from autofuse.frontends.builder import MAX_NODES

    where = Where(path)
    graph = model.graph
    if not graph.node and not graph.output:
        raise AutofuseError.of("AF1004", "the file contains no ONNX graph", where=where)
    if not model.opset_import and not graph.node:
        raise AutofuseError.of("AF1004", "the model names no operator set", where=where)
    _check_versions(model, where)
    amount = len(graph.node) + sum(len(f.node) for f in model.functions)
    if max(amount, len(graph.input), len(graph.initializer), len(graph.output)) > MAX_NODES:
        text = f"the model has {counted(amount, 'node')}; at most {MAX_NODES} are allowed"
        raise AutofuseError.of("AF1003", text, where=where)
    if graph.sparse_initializer:
        text = "sparse initialisers are not supported"
        raise AutofuseError.of("AF1104", text, where=Where(path, "/graph/sparse_initializer"))
    inside = (("", t) for t in _all_tensors(model))
    for pointer, tensor in (*_tensors(model), *inside):
        if tensor.data_location or tensor.external_data:
            text = f"the data of {quote(tensor.name)} are in another file, which is not read"
            hint = "give the path of the model, so that its data files can be found"
            raise AutofuseError.of("AF1104", text, where=Where(path, pointer), hint=hint)
        # NumPy would take -1 for "the rest of the elements".
        if min(tensor.dims, default=0) < 0:
            text = f"the tensor {quote(tensor.name)} has the negative dimension {min(tensor.dims)}"
            raise AutofuseError.of("AF1104", text, where=Where(path, pointer))


def _check_versions(model: onnx.ModelProto, where: Where) -> None:
    """Refuse operator sets newer than the onnx package: the meaning of their ops is unknown.

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


def _take_in(model: onnx.ModelProto, folder: Path, path: str, limit: int) -> None:
    """Load data from files beside the model into it.

    A model is untrusted and could name any file. A named file must lie in the model's folder or below, without a link
    that leads out, and at most the bytes of the tensors are read.

    Args:
        model: changed in place.
        folder: the model's folder.
        path: its name, for messages.
        limit: most bytes of all files together.

    Raises:
        AutofuseError: AF1003 too many bytes, AF1104 a file is refused, or has the wrong length.
    """
    from onnx import checker, external_data_helper

    base = folder.resolve()
    outside = [t for t in _all_tensors(model) if t.data_location or t.external_data]
    sizes = [_size_outside(t, base, path) for t in outside]
    if sum(sizes) > limit:
        text = f"the data of the model in other files have {counted(sum(sizes), 'byte')}, at most {limit} are read"
        raise AutofuseError.of("AF1003", text, where=Where(path))
    for t, size in zip(outside, sizes, strict=True):
        if not any(e.key == "length" for e in t.external_data):
            # Without a length the file would be read to its end.
            t.external_data.add(key="length", value=str(size))
        try:
            external_data_helper.load_external_data_for_tensor(t, str(base))
        except (OSError, ValueError, RuntimeError, checker.ValidationError) as e:
            raise _not_read(t, str(e), path) from None
        t.ClearField("data_location")
        del t.external_data[:]
        if len(t.raw_data) != size:
            raise _not_read(
                t,
                f"{counted(len(t.raw_data), 'byte is', 'bytes are')} there, and it has {size}",
                path,
            )


def _not_read(tensor: Any, why: str, path: str) -> AutofuseError:
    text = f"the data of {quote(tensor.name)} in another file are not read: {why}"
    return AutofuseError.of("AF1104", text, where=Where(path))


def _size_outside(tensor: Any, base: Path, path: str) -> int:
    """Return the bytes of a tensor whose data are in another file.

    Raises:
        AutofuseError: AF1104, the file is refused, or the sizes disagree.
    """
    from onnx import helper

    entries = {e.key: e.value for e in tensor.external_data}
    problem = _misplaced(base, entries.get("location", ""))
    size = 0
    try:
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
        # Elements smaller than a byte are packed.
        bits = next((int(b) for b in re.findall(r"(?:int|float)([24])(?!\d)", kind.name)), 0)
        size = (math.prod(tensor.dims) * (bits or 8 * kind.itemsize) + 7) // 8
        if kind.kind == "O" or min(tensor.dims, default=0) < 0:
            problem = problem or "it has no elements in a file"
        elif int(entries.get("length", size)) != size:
            problem = (
                problem or f"it has {counted(size, 'byte')}, and the length is {entries['length']}"
            )
    except (KeyError, TypeError, ValueError) as e:
        problem = problem or str(e)
    if problem:
        raise _not_read(tensor, problem, path)
    return size


def _misplaced(base: Path, location: str) -> str:
    """Return why a file that a model names is refused; empty if it is accepted."""
    if not location or "\0" in location:
        return "no file is named"
    named = Path(location)
    if named.is_absolute() or ".." in named.parts:
        return f"{quote(location)} is not in the folder of the model"
    try:
        found = (base / named).resolve(strict=True)
    except (OSError, RuntimeError) as e:
        return f"{quote(location)}: {getattr(e, 'strerror', None) or e}"
    if not found.is_relative_to(base):
        return f"{quote(location)} is not in the folder of the model"
    return "" if found.is_file() else f"{quote(location)} is not a regular file"


def _all_tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor of a model, also inside subgraphs and functions."""
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for v in [value] if hasattr(value, "ListFields") else value:
            if v.DESCRIPTOR.name == "TensorProto":
                yield v
            else:
                yield from _all_tensors(v)


def _tensors(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    for i, t in enumerate(model.graph.initializer):
        yield f"/graph/initializer/{i}", t
    for i, n in enumerate(model.graph.node):
        yield from ((f"/graph/node/{i}", a.t) for a in n.attribute if a.HasField("t"))
    for k, f in enumerate(model.functions):
        for i, n in enumerate(f.node):
            pointer = f"/functions/{k}/node/{i}"
            yield from ((pointer, a.t) for a in n.attribute if a.HasField("t"))
