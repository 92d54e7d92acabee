"""The driver of a graph that runs as several kernels: it has the interface of one kernel and calls its parts.

The parts are complete kernels, each in its own folder.  In the combined library their functions are prefixed with the
name of the part (:data:`RENAMED`), so that the driver can export the standard names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autofuse import __version__
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.device import function_headers
from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier
from autofuse.codegen.backends.ascendc.host.abi import (
    Field,
    SymbolRow,
    c_string,
    log_sizes,
    pointer_parameters,
    symbol_arguments,
    symbol_parameters,
    symbol_rows,
    tiling_fields,
)
from autofuse.codegen.backends.ascendc.host.host import infer_shape_file
from autofuse.codegen.backends.ascendc.host.metadata import size_json, target_json, tensor_json
from autofuse.codegen.backends.ascendc.project import presets_text, shared_headers, twin_definition
from autofuse.codegen.backends.ascendc.provenance import banner, graph_digest, in_comment
from autofuse.codegen.backends.ascendc.releases import Releases, cann_check, cann_json
from autofuse.codegen.render import render
from autofuse.implgraph.cutting.cut import INPUT, OUTPUT, Part, Place, Split
from autofuse.implgraph.expr.expression import Max, product
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.memory.workspace import workspace_bytes
from autofuse.targets import TargetSpec

__all__ = ["RENAMED", "SCHEMA", "driver_files", "part_folder", "part_unit"]

SCHEMA = "autofuse.split/1"
#: Functions that every kernel exports; those of a part get its name as a prefix.
RENAMED = (
    *("AutofuseAbiVersion", "AutofuseErrorText", "AutofuseIsStaticShape", "AutofuseLaunch"),
    *("AutofuseLaunchArray", "AutofuseSetLogger", "AutofuseTiling", "AutofuseTilingForKey"),
    *("GetKernelBin", "GetTilingDataSize", "GetTilingKeyCount", "InferShape"),
    "InferShapeFromSymbols",
)
#: Tiling keys and workspace sizes are limited to 32 bits.
_MAX_KEYS = _MAX_WORKSPACE = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class _DataPart:
    index: int
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class _DataView:
    banner: str
    count: int
    slots: int
    parts: tuple[_DataPart, ...]


@dataclass(frozen=True, slots=True)
class _Made:
    """An output of a part that later parts read from ``slot`` of the workspace."""

    name: str
    output: int
    slot: int
    itemsize: int


@dataclass(frozen=True, slots=True)
class _Argument:
    value: str
    name: str


@dataclass(frozen=True, slots=True)
class _DriverPart:
    """A part in the driver.

    ``radix``: place value of its digit in the tiling key, 0 if it has none; ``number``: ``index`` + 1.
    """

    index: int
    number: int
    name: str
    symbol_types: str
    symbol_values: str
    output_count: int
    makes: tuple[_Made, ...]
    slot: int
    radix: int
    key_count: int
    arguments: tuple[_Argument, ...]


@dataclass(frozen=True, slots=True)
class _Error:
    kind: str
    index: int
    text: str


@dataclass(frozen=True, slots=True)
class _DriverView:
    banner: str
    graph: str
    count: int
    slots: int
    symbols: tuple[SymbolRow, ...]
    symbol_parameters: str
    symbol_values: str
    log_sizes: str
    parts: tuple[_DriverPart, ...]
    tiles: str
    errors: tuple[_Error, ...]
    key_count: int
    workspace_index: int
    pointer_names: str
    pointer_parameters: tuple[str, ...]
    pointer_list: str
    is_static: str


@dataclass(frozen=True, slots=True)
class _CMakeView:
    banner: str
    graph: str
    npu_arch: str
    twin_arch: str
    cann_check: str
    parts: tuple[str, ...]
    renamed: str


Schedules = Sequence[tuple[ScheduleResult, ...]]


def part_folder(part: str) -> str:
    """Return the folder of a part inside the output folder."""
    return f"parts/{part}"


def part_unit(part: str, files: Sequence[str]) -> str:
    """Return a translation unit in the folder of a part: its sources ``files``, with the part's function names."""
    lines = [f"#define {n} {part}_{n}" for n in RENAMED]
    lines += [f"#define AutofuseTilingData {part}_TilingData"]
    lines += [f'#include "{f}"' for f in files]
    return "\n".join(lines) + "\n"


def driver_files(
    split: Split, schedules: Schedules, target: TargetSpec, needs: Releases
) -> dict[str, str]:
    """Return relative path -> text of all files except those of the parts.

    Args:
        split: the graph and its parts, two or more.
        schedules: one per part.
        target: chip.
        needs: functions that the parts call, with the CANN releases that have them.

    Raises:
        AutofuseError: a name is used twice, or a tensor has too many dimensions; AF3006, all sizes are known and the
            tensors passed between the parts take more than 4 GiB.
    """
    graph = split.graph
    name = check_identifier(graph.name)
    head = banner(graph, target.name)
    slots = _Slots(split, schedules, target)
    if not graph.symbols and slots.bytes > _MAX_WORKSPACE:
        raise AutofuseError.of(
            "AF3006",
            f"tensors between the kernels of {name} take {slots.bytes} bytes; a workspace has "
            f"at most {_MAX_WORKSPACE}",
            hint="use smaller sizes, or separate graphs for the parts with tensors that the caller allocates",
        )
    data = _DataView(
        head,
        len(split.parts),
        slots.count,
        tuple(
            _DataPart(k, p.graph.name, tiling_fields(p.graph, s))
            for k, (p, s) in enumerate(zip(split.parts, schedules, strict=True))
        ),
    )
    cmake = _CMakeView(
        banner(graph, target.name, "#"),
        name,
        target.npu_arch,
        twin_definition(target.arch),
        cann_check(needs),
        tuple(p.graph.name for p in split.parts),
        " ".join(RENAMED),
    )
    files = {
        "CMakeLists.txt": render("driver_CMakeLists.txt.jinja", cmake),
        "CMakePresets.json": presets_text(target),
        "autofuse_tiling_data.h": render("driver_data.h.jinja", data),
        f"host/{name}_driver.cpp": render(
            "driver.cpp.jinja", _driver_view(split, schedules, slots, head)
        ),
        f"host/{name}_infer_shape.cpp": infer_shape_file(graph, target),
        f"{name}.split.json": _manifest(split, schedules, slots, target, needs),
    }
    every = [r for s in schedules for r in s]
    return files | shared_headers(target.arch, function_headers(every, target.arch))


class _Slots:
    """Assignment of tensors and parts to slots of the workspace; disjoint live ranges share a slot.

    A part needs its own workspace while it runs; a tensor lives from the part that writes it to its last reader.

    Attributes:
        count: number of slots, at least one.
        bytes: total size of the slots at the symbols' hints, without the workspaces of parts.
        passed: slot of every passed tensor.
        own: slot of every part.
    """

    def __init__(self, split: Split, schedules: Schedules, target: TargetSpec) -> None:
        ends: list[int] = []
        held: list[int] = []
        self.passed: list[int] = []
        self.own: list[int] = []

        def take(first: int, last: int, nbytes: int) -> int:
            free = [n for n, end in enumerate(ends) if end < first]
            if not free:
                ends.append(last)
                held.append(nbytes)
                return len(ends) - 1
            # Pick the slot that grows least, then the one that wastes least.
            n = min(free, key=lambda n: (max(nbytes - held[n], 0), held[n], n))
            ends[n], held[n] = last, max(held[n], nbytes)
            return n

        for k in range(len(split.parts)):
            made = [p for p in split.passed if p.maker == k]
            self.passed += [take(k, max(p.users), p.bytes) for p in made]
            needs = any(workspace_bytes(r.hint, target) != 0 for r in schedules[k])
            self.own.append(take(k, k, 0) if needs or not ends else 0)
        self.count = len(ends)
        self.bytes = sum(held)


def _driver_view(split: Split, schedules: Schedules, slots: _Slots, head: str) -> _DriverView:
    graph = split.graph
    counts = [len(tiling_keys(s)) for s in schedules]
    radixes, key_count = _radixes(counts)
    parts = tuple(
        _driver_part(split, k, p, slots, radixes[k], counts[k]) for k, p in enumerate(split.parts)
    )
    pointers = pointer_parameters(graph)
    return _DriverView(
        banner=head,
        graph=graph.name,
        count=len(parts),
        slots=slots.count,
        symbols=symbol_rows(graph),
        symbol_parameters=symbol_parameters(graph),
        symbol_values=symbol_arguments(graph).removesuffix(", "),
        log_sizes=log_sizes(graph),
        parts=parts,
        tiles=", ".join(f"&Tile{p.index}" for p in parts),
        errors=tuple(_errors(graph)),
        key_count=key_count,
        workspace_index=len(pointers) - 1,
        pointer_names=", ".join(pointers),
        pointer_parameters=pointers,
        pointer_list=", ".join(pointers),
        is_static="false" if graph.symbols else "true",
    )


def _radixes(counts: Sequence[int]) -> tuple[list[int], int]:
    """Return the place value of every part's digit, and the number of keys; a digit that does not fit gets 0."""
    out = [0] * len(counts)
    total = 1
    for k in range(len(counts) - 1, -1, -1):
        if total * counts[k] > _MAX_KEYS:
            break
        out[k] = total
        total *= counts[k]
    return out, total


def _driver_part(
    split: Split, index: int, part: Part, slots: _Slots, radix: int, keys: int
) -> _DriverPart:
    graph = part.graph
    first = len(split.graph.inputs)
    makes = tuple(
        _Made(in_comment(o.name), n, slots.passed[t.index], graph.tensors[o.tensor].dtype.itemsize)
        for n, (o, t) in enumerate(zip(graph.outputs, part.targets, strict=True))
        if t.kind not in (INPUT, OUTPUT)
    )

    def value(place: Place) -> str:
        if place.kind == INPUT:
            return f"pointers[{place.index}]"
        if place.kind == OUTPUT:
            return f"pointers[{first + place.index}]"
        return f"workspace + t.offset[{slots.passed[place.index]}]"

    names = [*graph.inputs, *(o.name for o in graph.outputs)]
    places = [*part.sources, *part.targets]
    return _DriverPart(
        index=index,
        number=index + 1,
        name=check_identifier(graph.name),
        symbol_types="int64_t, " * len(graph.symbols),
        symbol_values="".join(f"s.{s.name}, " for s in graph.symbols),
        output_count=len(graph.outputs),
        makes=makes,
        slot=slots.own[index],
        radix=radix,
        key_count=keys,
        arguments=tuple(
            _Argument(value(p), in_comment(n)) for n, p in zip(names, places, strict=True)
        ),
    )


def _errors(graph: FusionGraph) -> list[_Error]:
    out = [
        _Error(
            "kOverflow",
            0,
            c_string("tensors between the kernels take more than 4 GiB of workspace"),
        )
    ]
    for i, s in enumerate(graph.symbols):
        out.append(_Error("kSymbolRange", i, c_string(f"{s.label} is not in [{s.min}, {s.max}]")))
        out.append(
            _Error("kUnsolved", i, c_string(f"{s.label} does not follow from the input shapes"))
        )
    return out


# the manifest ---------------------------------------------------------------------------------


def _manifest(
    split: Split, schedules: Schedules, slots: _Slots, target: TargetSpec, needs: Releases
) -> str:
    """Return the text of ``<g>.split.json``, documented in ``docs/split.md``."""
    graph = split.graph
    counts = [len(tiling_keys(s)) for s in schedules]
    radixes, _ = _radixes(counts)
    found: Mapping[str, object] = {
        "schema": SCHEMA,
        "generator": f"autofuse {__version__}",
        "name": graph.name,
        **({"called": graph.called} if graph.called else {}),
        **target_json(target),
        "cann": cann_json(needs),
        "dynamic": bool(graph.symbols),
        "graphSha256": graph_digest(graph),
        "cutAfter": list(split.cut_after),
        "symbols": [
            {"name": s.name, "min": s.min, "max": s.max, "hint": s.hint} for s in graph.symbols
        ],
        "inputs": [tensor_json(graph.tensors[n], n) for n in graph.inputs],
        "outputs": [
            tensor_json(graph.tensors[o.tensor], o.name) | {"inout": o.inout} for o in graph.outputs
        ],
        "parts": [
            {
                "name": p.graph.name,
                "folder": part_folder(p.graph.name),
                "nodes": [n.name for n in p.graph.nodes],
                "symbols": [s.name for s in p.graph.symbols],
                "inputs": [_place(n, at) for n, at in zip(p.graph.inputs, p.sources, strict=True)],
                "outputs": [
                    _place(o.name, at) for o, at in zip(p.graph.outputs, p.targets, strict=True)
                ],
                "tilingKeys": counts[k],
                "keyRadix": radixes[k],
                "workspace": {
                    "bytes": size_json(Max(*(workspace_bytes(r.hint, target) for r in s))),
                    "piece": slots.own[k],
                },
            }
            for k, (p, s) in enumerate(zip(split.parts, schedules, strict=True))
        ],
        "passed": [
            {
                "name": p.tensor.name,
                "dtype": p.tensor.dtype.name,
                "shape": [size_json(e) for e in p.tensor.shape],
                "bytes": size_json(product(p.tensor.shape) * p.tensor.dtype.itemsize),
                "maker": p.maker,
                "users": list(p.users),
                "piece": slots.passed[n],
            }
            for n, p in enumerate(split.passed)
        ],
        "pieces": slots.count,
        "driver": f"host/{graph.name}_driver.cpp",
    }
    return json.dumps(found, indent=2, ensure_ascii=True) + "\n"


def _place(name: str, place: Place) -> dict[str, object]:
    return {"name": name, place.kind: place.index}
