"""``<model>.model.json``: regions, fallbacks, tensors and the order of execution; schema ``autofuse.model/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autofuse import __version__
from autofuse.base.artifacts import digest
from autofuse.clients.onnx.models.result import Fallback, ModelRegion, ModelResult, kernel_folder
from autofuse.frontends.onnx.pieces import KNOWN, RENAMED, UNUSED, ModelPieces
from autofuse.frontends.onnx.values import Known, Traced
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.serialise import json_text

__all__ = ["SCHEMA", "manifest_of", "public_names"]

SCHEMA = "autofuse.model/1"


def public_names(pieces: ModelPieces) -> dict[str, str]:
    """Return key of a tensor -> its first name in the model; a parameter keeps its own name."""
    out = {k: k for k in pieces.parameters}
    for name, key in pieces.keys.items():
        out.setdefault(key, name)
    return out


def manifest_of(result: ModelResult) -> str:
    """Return the text of the manifest."""
    pieces = result.pieces
    names = public_names(pieces)
    regions = [_region(k, r, pieces, names) for k, r in enumerate(result.regions)]
    fallbacks = [_fallback(f, pieces) for f in result.fallbacks]
    fused = sum(len(r.nodes) for r in result.regions if r.kernel)
    other = {
        kind: [_node(p.index, pieces) for p in pieces.pieces if p.kind == kind]
        for kind in (KNOWN, RENAMED, UNUSED)
    }
    content = {
        "schema": SCHEMA,
        "generator": f"autofuse {__version__}",
        "name": result.name,
        **({"called": pieces.label} if pieces.label != result.name else {}),
        "target": result.target.name,
        "modelSha256": result.sha256,
        "opsets": {o.domain or "ai.onnx": o.version for o in pieces.model.opset_import},
        "counts": {
            "nodes": len(pieces.pieces),
            "kernels": len(result.kernels),
            "regions": len(regions),
            "inKernels": fused,
            "inViews": sum(len(r.nodes) for r in result.regions if not r.kernel),
            "fallbacks": len(fallbacks),
            **{kind: len(found) for kind, found in other.items()},
        },
        "symbols": [
            {"name": s.name, "is": pieces.dims.get(s.name, s.name), "min": s.min, "max": s.max}
            for s in pieces.symbols.values()
        ],
        "inputs": [_tensor(n, pieces) for n in pieces.inputs],
        "outputs": [_tensor(n, pieces) for n in pieces.outputs],
        "order": [{s.kind: s.index} for s in result.steps],
        "regions": regions,
        "fallbacks": fallbacks,
        "parameters": [_parameter(n, pieces) for n in _used(result.regions, pieces)],
        **other,
    }
    return json_text(content, indent=1) + "\n"


def _used(regions: Sequence[ModelRegion], pieces: ModelPieces) -> list[str]:
    keys = {k for r in regions for k in r.inputs.values()}
    return [n for n in pieces.parameters if n in keys]


def _node(index: int, pieces: ModelPieces) -> dict[str, Any]:
    p = pieces.pieces[index]
    return {"index": index, "name": p.name, "op": p.op}


def _region(
    index: int, r: ModelRegion, pieces: ModelPieces, names: dict[str, str]
) -> dict[str, Any]:
    bound = {k: [{"parameter": p, "tensor": names[x]} for p, x in getattr(r, k).items()] for k in (
        "inputs", "outputs"
    )}  # fmt: skip
    return {
        "region": index,
        "nodes": [_node(i, pieces) for i in r.nodes],
        "kernel": r.kernel or None,
        "folder": kernel_folder(r.kernel) if r.kernel else None,
        **bound,
        # At typical sizes of the symbols; `modelled` comes from the template's model, the others from shapes.
        "bytes": {
            "once": r.bytes_once,
            "modelled": r.bytes_modelled,
            "unfused": r.bytes_unfused,
        },
    }


def _fallback(f: Fallback, pieces: ModelPieces) -> dict[str, Any]:
    p = pieces.pieces[f.node]
    return {
        **_node(f.node, pieces),
        "code": f.code,
        "reason": f.reason,
        "inputs": list(p.inputs),
        "outputs": list(p.outputs),
    }


def _tensor(name: str, pieces: ModelPieces) -> dict[str, Any]:
    v = pieces.values[name]
    shape = None if name in pieces.shapeless else [_size(e) for e in v.shape]
    if isinstance(v, Known):
        dtype = "int64" if v.array.dtype == object else v.array.dtype.name
    else:
        dtype = v.dtype.name if isinstance(v, Traced) else v.type_name
    return {"name": name, "dtype": dtype, "shape": shape}


def _size(e: Expr) -> int | str:
    n = e.as_int()
    return str(e) if n is None else n


def _parameter(name: str, pieces: ModelPieces) -> dict[str, Any]:
    """Return the manifest entry of a parameter that does not depend on the model's inputs: its digest, not its data."""
    array = pieces.parameters[name]
    return {
        "name": name,
        "initializer": pieces.origins[name] or None,
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "sha256": digest(array.tobytes()),
    }
