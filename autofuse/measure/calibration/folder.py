"""The files of a calibration kernel, laid out like a generated one so that the same code can run it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from autofuse import __version__
from autofuse.codegen.backends.ascendc.host.abi import Field
from autofuse.codegen.backends.ascendc.host.host import data_text, launch_text
from autofuse.codegen.backends.ascendc.host.metadata import SCHEMA, target_json, tensor_json
from autofuse.codegen.backends.ascendc.project import shared_headers
from autofuse.codegen.backends.ascendc.provenance import graph_digest
from autofuse.codegen.backends.ascendc.releases import Releases, cann_json, releases_of
from autofuse.codegen.render import render
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput, Symbol, Tensor
from autofuse.implgraph.ir.serialise import json_text, to_json
from autofuse.measure.calibration.instructions import CALLS
from autofuse.measure.calibration.programs import BLOCK, STORES, Parameter, Program
from autofuse.targets import TargetSpec

__all__ = ["program_files", "program_graph"]


@dataclass(frozen=True)
class _TilingView:
    banner: str
    symbols: tuple[Parameter, ...]


@dataclass(frozen=True)
class _PlainView:
    """Template variables of kernels that have only sizes."""

    banner: str
    name: str


@dataclass(frozen=True)
class _Block:
    """Template variables of an input: its name, and its first element in UB."""

    name: str
    at: int


@dataclass(frozen=True)
class _TensorsView:
    """Template variables of kernels with many tensors; ``elements`` and ``bytes`` count all blocks of a core."""

    banner: str
    name: str
    blocks: tuple[_Block, ...]
    elements: int
    bytes: int


@dataclass(frozen=True)
class _StartView:
    banner: str
    name: str
    barriers: bool


@dataclass(frozen=True)
class _Command:
    """Template variables of a load: the suffixes of the tensor in UB and of the place in GM."""

    ub: str
    gm: str


@dataclass(frozen=True)
class _StoreView:
    banner: str
    name: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class _Result:
    """Template variables of a vector call: its name, and its first byte in UB."""

    name: str
    at: str


@dataclass(frozen=True)
class _LoadView:
    banner: str
    name: str
    padded: bool
    hint: bool
    count: int
    commands: tuple[_Command, ...]


@dataclass(frozen=True)
class _ScalarView:
    banner: str
    name: str
    reads: int
    places: tuple[int, ...]


@dataclass(frozen=True)
class _VectorView:
    banner: str
    name: str
    operand: str
    result: str
    operand_bytes: int
    result_bytes: int
    shrink: int
    more: int
    block: int
    results: tuple[_Result, ...]
    prepare: tuple[str, ...]
    calls: tuple[str, ...]
    waits: bool


def program_graph(program: Program) -> FusionGraph:
    """Return a graph without nodes that has the parameters, inputs and output of a kernel."""
    tensors = {"y": Tensor("y", BY_NAME[program.dtype], (program.results,))}
    if program.length is not None:
        shape = (program.length,)
        tensors |= {n: Tensor(n, BY_NAME["float32"], shape) for n in program.inputs}
    return FusionGraph(
        program.kernel,
        tuple(Symbol(p.name, p.low, p.high) for p in program.parameters),
        program.inputs,
        (),
        (GraphOutput("y", "y"),),
        MappingProxyType(dict(sorted(tensors.items()))),
    )


@lru_cache(maxsize=128)
def _texts(program: Program, target: TargetSpec) -> MappingProxyType[str, str]:
    head = f"// Calibration kernel {program.name} of autofuse {__version__}, target {target.name}."
    name = program.kernel
    fields = (
        Field("tiling_key", "uint32_t", 0, "there is one template"),
        Field("block_dim", "uint32_t", 1, "number of cores"),
        *(Field(p.name, "int64_t", p.low, p.meaning) for p in program.parameters),
    )
    kernel = render(program.template, _view(program, head, target))
    graph = program_graph(program)
    files = shared_headers(target.arch, ())
    needs = releases_of(kernel, files, target.arch)
    texts = {
        "autofuse_tiling_data.h": data_text(head, fields),
        f"device/{name}_kernel.cpp": kernel,
        f"host/{name}_launch.cpp": launch_text(graph, head),
        f"host/{name}_tiling.cpp": render(
            "calibration_tiling.cpp.jinja", _TilingView(head, program.parameters)
        ),
        f"{name}.graph.json": json_text(to_json(graph), indent=1) + "\n",
        f"{name}.json": _metadata(program, graph, target, kernel, needs),
    }
    return MappingProxyType(files | texts)


def program_files(program: Program, target: TargetSpec) -> dict[str, str]:
    """Return the files of a kernel by path inside its folder."""
    return dict(_texts(program, target))


def _view(program: Program, head: str, target: TargetSpec) -> object:
    """Return the variables of a kernel's template."""
    name, call = program.kernel, program.instruction
    if call is not None:
        return _VectorView(
            head,
            name,
            call.cpp(call.operand),
            call.cpp(call.result),
            call.bytes_of(call.operand),
            call.bytes_of(call.result),
            call.shrink,
            call.more,
            call.block,
            tuple(_Result(f"c{k}", _behind("c_at", k, "step")) for k in range(CALLS)),
            call.prepare,
            call.calls(),
            call.waits,
        )
    if program.reads:
        return _ScalarView(head, name, program.reads, tuple(range(program.reads)))
    if program.operands > 1:
        blocks = tuple(_Block(n, BLOCK * k) for k, n in enumerate(program.inputs))
        elements = BLOCK * len(blocks)
        return _TensorsView(head, name, blocks, elements, 4 * elements)
    if program.template == "calibration_start.cpp.jinja":
        return _StartView(head, name, program.barriers)
    if program.template == "calibration_store.cpp.jinja":
        places = tuple(f"first + i + {k}" for k in range(STORES))
        return _StoreView(head, name, places)
    if program.template == "calibration_load.cpp.jinja":
        arch, count = target.arch, program.commands
        commands = tuple(
            _Command(f"[{k} * held / 4]" if k else "", f" + {k} * step" if k else "")
            for k in range(count)
        )
        return _LoadView(head, name, arch.has_datacopypad, arch.has_l2_hint, count, commands)
    return _PlainView(head, name)


def _behind(first: str, number: int, step: str) -> str:
    """Return the offset text for an element of a series."""
    return f"{first} + {number} * {step}" if number else first


def _metadata(
    program: Program, graph: FusionGraph, target: TargetSpec, kernel: str, needs: Releases
) -> str:
    """Return the text of ``<kernel>.json``, with the keys that loaders read."""
    found = {
        "schema": SCHEMA,
        "generator": f"autofuse {__version__}",
        "kernelName": program.kernel,
        **target_json(target),
        "npuArch": target.npu_arch,
        "cann": cann_json(needs),
        "blockDim": target.aiv_cores,
        "dynamic": True,
        "sha256": hashlib.sha256(kernel.encode()).hexdigest(),
        "graphSha256": graph_digest(graph),
        "inputs": [
            tensor_json(graph.tensors[n], n) | {"parameter": n, "scalar": False}
            for n in graph.inputs
        ],
        "outputs": [
            tensor_json(graph.tensors["y"], "y")
            | {"parameter": "y", "scalar": False, "inout": None}
        ],
        "symbols": [
            {"name": s.name, "min": s.min, "max": s.max, "hint": s.hint} for s in graph.symbols
        ],
        "workspace": {"bytes": 0},
        "tilingKeys": [{"key": 0, "functions": [program.kernel]}],
        "templates": [],
        "rejected": [],
    }
    return json_text(found, indent=2) + "\n"
