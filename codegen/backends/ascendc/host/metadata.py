"""``<g>.json``: metadata of a generated kernel, for loaders and readers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

from autofuse import __version__
from autofuse.codegen.backends.ascendc.host.abi import (
    all_impls,
    symbol_parameters,
    tiling_fields,
)
from autofuse.codegen.backends.ascendc.host.tiling import condition_text
from autofuse.codegen.backends.ascendc.provenance import graph_digest
from autofuse.codegen.backends.ascendc.releases import Releases, cann_json
from autofuse.codegen.lower.names import parameter_names
from autofuse.implgraph.expr.expression import Expr, Max
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ir.serialise import json_text
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.targets import TargetSpec

__all__ = ["SCHEMA", "metadata_text", "size_json", "target_json", "tensor_json"]

SCHEMA = "autofuse.kernel/1"

Json: TypeAlias = "dict[str, object]"


def metadata_text(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    target: TargetSpec,
    kernel_text: str,
    needs: Releases | None = None,
    tuned: Sequence[Json] = (),
) -> str:
    """Return the text of ``<g>.json``.

    ``needs``: functions that the kernel calls, with the CANN releases that have them; ``tuned``: rows of a tuning file,
    which the tiling function tries first and which take one key each, after ``tilingKeys``.

    ``blockDim`` is the number of cores of the target; the tiling function decides how many run.  Sizes are numbers if
    known, and expressions in the symbols otherwise.
    """
    parameters = parameter_names(graph)
    found: Json = {
        "schema": SCHEMA,
        "generator": f"autofuse {__version__}",
        "kernelName": graph.name,
        **({"called": graph.called} if graph.called else {}),
        **target_json(target),
        "npuArch": target.npu_arch,
        "cann": cann_json(needs or {}),
        "blockDim": target.aiv_cores,
        "dynamic": bool(graph.symbols),
        **({"invariant": True} if target.invariant else {}),
        "sha256": hashlib.sha256(kernel_text.encode()).hexdigest(),
        "graphSha256": graph_digest(graph),
        "inputs": [
            _parameter(graph.tensors[n], n, parameter)
            for n, parameter in zip(graph.inputs, parameters.inputs, strict=True)
        ],
        "outputs": [
            _parameter(graph.tensors[o.tensor], o.name, parameter) | {"inout": o.inout}
            for o, parameter in zip(graph.outputs, parameters.outputs, strict=True)
        ],
        "symbols": [
            {"name": s.name, "min": s.min, "max": s.max, "hint": s.hint}
            | ({"called": s.called} if s.called else {})
            for s in graph.symbols
        ],
        "workspace": {"bytes": size_json(Max(*(workspace_bytes(r.hint, target) for r in results)))},
        "functions": _functions(graph),
        "tilingData": [
            {"name": f.name, "type": f.ctype, "default": f.default, "meaning": f.meaning}
            for f in tiling_fields(graph, results)
        ],
        "tilingKeys": [
            {"key": key, "functions": [impl.name for impl in choice]}
            for key, choice in enumerate(tiling_keys(results))
        ],
        **({"tuned": list(tuned)} if tuned else {}),
        "templates": [_template(impl) for impl in all_impls(results)],
        "rejected": [
            {"result": r.index, "group": x.group, "template": x.template, "reason": x.whole_reason}
            for r in results
            for x in r.rejected
        ],
    }
    return json_text(found, indent=2) + "\n"


def _functions(graph: FusionGraph) -> Json:
    """Return the prototypes of the C functions whose parameters depend on the graph."""
    sizes = symbol_parameters(graph)
    tail = "AutofuseTilingData*, uint32_t* workspace_size, uint32_t* block_dim, ResLimit*"
    pointers = "void*, " * (len(graph.inputs) + len(graph.outputs) + 1)
    return {
        "AutofuseTiling": f"int64_t ({sizes}{tail})",
        "AutofuseTilingForKey": f"int64_t (uint32_t key, {sizes}{tail})",
        "AutofuseLaunch": (
            f"int64_t (uint32_t block_dim, void* stream, {pointers}AutofuseTilingData*)"
        ),
        "InferShapeFromSymbols": (f"int64_t ({sizes}uint32_t num_outputs, AutofuseShape* outputs)"),
    }


def _parameter(t: Tensor, name: str, parameter: str) -> Json:
    found = tensor_json(t, name)
    return {"name": found.pop("name"), "parameter": parameter, **found}


def tensor_json(t: Tensor, name: str) -> Json:
    """Describe a tensor under the name ``name``: dtype, shape and place in memory."""
    return {
        "name": name,
        "dtype": t.dtype.name,
        "shape": _sizes(t.shape),
        "strides": None if t.strides is None else _sizes(t.strides),
        "offset": 0 if t.offset is None else size_json(t.offset),
        "scalar": t.scalar,
    }


def _template(impl: ImplGraph) -> Json:
    spec = impl.tiling
    return {
        "function": impl.name,
        "result": impl.result,
        "group": impl.group,
        "template": impl.template,
        "suffix": impl.suffix,
        "tileSymbol": spec.opened.symbol,
        "blockSymbol": spec.block_size,
        "extent": size_json(spec.opened.extent),
        "outer": size_json(spec.outer),
        "granule": spec.opened.granule,
        "tileMax": None if spec.opened.most is None else size_json(spec.opened.most),
        "ubBytes": size_json(spec.ub),
        "ubLimit": spec.ub_limit,
        "conditions": list(condition_text(impl)),
    }


def _sizes(values: Sequence[Expr]) -> list[int | str]:
    return [size_json(v) for v in values]


def target_json(target: TargetSpec) -> Json:
    """Return the JSON entries that identify a target: its name and, for a user's own target file, its base."""
    return {"target": target.name, **({"targetBase": target.base} if target.base else {})}


def size_json(value: Expr) -> int | str:
    """Return a number if the size is known, else the text of the expression."""
    number = value.as_int()
    return str(value) if number is None else number
