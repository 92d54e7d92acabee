"""The files of a custom operator project of CANN: definition, kernel, build, installation, an example and a test.

The project holds one operator.  Files have the names that CANN derives from the operator type; shared files lie beside
the kernel, since CANN's kernel build copies only that folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.codegen.backends.ascendc.expr_cpp import to_cpp
from autofuse.codegen.backends.ascendc.host.abi import (
    SymbolRow,
    symbol_expr_names,
    symbol_rows,
)
from autofuse.codegen.backends.ascendc.host.driver import RENAMED
from autofuse.codegen.backends.ascendc.host.host import Solution, host_files, solve
from autofuse.codegen.backends.ascendc.host.tuned import TUNED_HEADER
from autofuse.codegen.backends.ascendc.op_package.naming import OpNames, operator_names
from autofuse.codegen.backends.ascendc.project import shared_headers
from autofuse.codegen.backends.ascendc.provenance import banner, in_comment
from autofuse.codegen.backends.ascendc.releases import Releases, cann_check
from autofuse.codegen.render import render
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor
from autofuse.implgraph.ir.serialise import json_text
from autofuse.schedule.axes.result import ScheduleResult, tiling_keys
from autofuse.schedule.search.costs import Costs
from autofuse.schedule.search.given import GivenTiling
from autofuse.targets import TargetSpec

__all__ = ["check_operator", "op_files"]

#: dtype -> CANN's name in a definition (``ge::DT_...``) and in a call (``ACL_...``).
_DTYPES = {
    "float32": ("DT_FLOAT", "ACL_FLOAT"),
    "float16": ("DT_FLOAT16", "ACL_FLOAT16"),
    "bfloat16": ("DT_BF16", "ACL_BF16"),
    "float64": ("DT_DOUBLE", "ACL_DOUBLE"),
    "int8": ("DT_INT8", "ACL_INT8"),
    "int16": ("DT_INT16", "ACL_INT16"),
    "int32": ("DT_INT32", "ACL_INT32"),
    "int64": ("DT_INT64", "ACL_INT64"),
    "uint8": ("DT_UINT8", "ACL_UINT8"),
    "uint16": ("DT_UINT16", "ACL_UINT16"),
    "uint32": ("DT_UINT32", "ACL_UINT32"),
    "uint64": ("DT_UINT64", "ACL_UINT64"),
    "bool": ("DT_BOOL", "ACL_BOOL"),
}
#: Headers that only the host side includes; the others belong to the kernel.
_OF_HOST = (
    "autofuse_log.h",
    "autofuse_shape.h",
    "autofuse_status.h",
    "autofuse_tiling.h",
    TUNED_HEADER,
)
#: Includes of a kernel's launcher, which an operator lacks.
_NOT_OURS = ("autofuse_launch.h",)
#: Shapes of the generated test.
_CASES = 8


@frozen
class _Side:
    """An input or an output; ``called`` is its name in the definition."""

    index: int
    name: str
    called: str
    dtype: str
    dims: str
    rank: int
    overwritten: bool = False


@frozen
class _Attribute:
    index: int
    symbol: str
    called: str


@frozen
class _HostView:
    banner: str
    graph: str
    names: OpNames
    renamed: tuple[str, ...]
    symbols: tuple[SymbolRow, ...]
    symbol_values: str
    inputs: tuple[_Side, ...]
    outputs: tuple[_Side, ...]
    solutions: tuple[Solution, ...]
    attributes: tuple[_Attribute, ...]
    barrier_keys: str
    compute_unit: str


@frozen
class _ProjectView:
    banner: str
    op_type: str
    function: str
    cann_check: str


@frozen
class _NamesView:
    banner: str
    op_type: str
    function: str


@frozen
class _FunctionView:
    banner: str
    function: str


@frozen
class _BuildView:
    banner: str
    op_type: str


@frozen
class _Buffer:
    """A tensor of the example program."""

    variable: str
    file: str
    about: str
    dims: str
    dtype: str
    itemsize: int
    loaded: bool
    saved: bool


@frozen
class _ExampleView:
    banner: str
    op_type: str
    function: str
    symbols: tuple[SymbolRow, ...]
    tensors: tuple[_Buffer, ...]
    arguments: tuple[str, ...]


@frozen
class _TestView:
    banner: str
    op_type: str
    function: str
    input_files: str
    output_files: str
    cases: int


def check_operator(graph: FusionGraph) -> None:
    """Raise AF5007 unless CANN can express the operator: contiguous tensors and at least one output."""
    tensors = [*graph.inputs, *(o.tensor for o in graph.outputs)]
    for name in tensors:
        t = graph.tensors[name]
        if t.strides is not None or t.offset is not None:
            raise AutofuseError.of(
                "AF5007",
                f"{name} has strides or an offset, but operator packages need contiguous tensors",
                where=Where(node=name),
                hint="leave out strides and offset, or build with --entry launch",
            )
    if not graph.inputs:
        raise AutofuseError.of(
            "AF5007",
            "a CANN operator needs at least one input, but this graph has none",
            hint="build with --entry launch",
        )


def op_files(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    costs: Costs,
    kernel: str,
    functions: Iterable[str],
    needs: Releases,
    given: Sequence[GivenTiling] = (),
) -> dict[str, str]:
    """Return relative path -> text of the project.

    Args:
        graph: graph of the operator; must pass :func:`check_operator`.
        results: its schedule.
        costs: costs of the templates.
        kernel: text of the kernel file, whose function has the name of :func:`operator_names`.
        functions: headers of the device functions that it calls.
        needs: functions that it calls, with the CANN releases that have them.
        given: tilings tried before the search.
    """
    target = costs.target
    names = operator_names(graph)
    head, hashed = banner(graph, target.name), banner(graph, target.name, "#")
    host = host_files(graph, results, costs, given)
    unit = _compute_unit(target)
    build = _BuildView(hashed, names.type)
    files = {
        "CMakeLists.txt": render(
            "op_project.cmake.jinja",
            _ProjectView(hashed, names.type, names.function, cann_check(needs)),
        ),
        "CMakePresets.json": _presets(names, unit),
        "build.sh": render("op_build.sh.jinja", build),
        "install.sh": render("op_install.sh.jinja", _NamesView(hashed, names.type, names.function)),
        "op_host/CMakeLists.txt": render(
            "op_host.cmake.jinja", _FunctionView(hashed, names.function)
        ),
        f"op_host/{names.function}.cpp": render(
            "op_host.cpp.jinja", _host_view(graph, results, names, head, unit)
        ),
        f"op_host/{graph.name}_tiling.inc": host[f"host/{graph.name}_tiling.cpp"],
        f"op_host/{graph.name}_infer_shape.inc": host[f"host/{graph.name}_infer_shape.cpp"],
        "op_kernel/CMakeLists.txt": render(
            "op_kernel.cmake.jinja", _NamesView(hashed, names.type, names.function)
        ),
        f"op_kernel/{names.function}.cpp": kernel,
        "op_kernel/autofuse_tiling_data.h": host["autofuse_tiling_data.h"],
        "example/CMakeLists.txt": render(
            "op_example.cmake.jinja", _NamesView(hashed, names.type, names.function)
        ),
        "example/main.cpp": render("op_example.cpp.jinja", _example_view(graph, names, head)),
        f"test/test_{names.function}.py": render(
            "op_test.py.jinja", _test_view(graph, names, hashed)
        ),
    }
    for path, text in shared_headers(target.arch, functions).items():
        name = path.removeprefix("include/")
        if name not in _NOT_OURS:
            files[f"{'op_host' if name in _OF_HOST else 'op_kernel'}/{name}"] = text
    # Kernel headers that host files include.
    for name in ("autofuse_math.h", "autofuse_tiling_data.h"):
        files[f"op_host/{name}"] = f'#include "../op_kernel/{name}"\n'
    return files


def _compute_unit(target: TargetSpec) -> str:
    """Return CANN's name for a chip series; a name with an underscore already is one."""
    return target.soc.lower() if "_" in target.soc else target.arch.family


def _presets(names: OpNames, unit: str) -> str:
    variables = {
        "CMAKE_BUILD_TYPE": "Release",
        "ASCEND_COMPUTE_UNIT": unit,
        "ASCEND_CANN_PACKAGE_PATH": "$env{ASCEND_HOME_PATH}",
        "ASCEND_AUTOGEN_PATH": "${sourceDir}/build_out/autogen",
        "vendor_name": names.function,
    }
    preset = {
        "name": "default",
        "displayName": f"{names.type} for {unit}; needs CANN and its set_env.sh",
        "binaryDir": "${sourceDir}/build_out",
        "cacheVariables": {
            k: {"type": "PATH" if k.endswith("_PATH") else "STRING", "value": v}
            for k, v in variables.items()
        },
    }
    found = {
        "version": 1,
        "cmakeMinimumRequired": {"major": 3, "minor": 19, "patch": 0},
        "configurePresets": [{**preset, "generator": "Unix Makefiles"}],
    }
    return json_text(found, indent=2) + "\n"


def _side(
    graph: FusionGraph, index: int, t: Tensor, name: str, called: str, members: Mapping[str, str]
) -> _Side:
    return _Side(
        index,
        in_comment(name),
        called,
        f"ge::{_DTYPES[t.dtype.name][0]}",
        ", ".join(to_cpp(d, members) for d in t.shape),
        len(t.shape),
        any(o.inout == name for o in graph.outputs),
    )


def _host_view(
    graph: FusionGraph,
    results: tuple[ScheduleResult, ...],
    names: OpNames,
    head: str,
    unit: str,
) -> _HostView:
    members = symbol_expr_names(graph, "s")
    rows = symbol_rows(graph)
    return _HostView(
        banner=head,
        graph=graph.name,
        names=names,
        renamed=RENAMED,
        symbols=rows,
        symbol_values="".join(f"s.{s.name}, " for s in rows),
        inputs=tuple(
            _side(graph, i, graph.tensors[n], n, names.inputs[i], members)
            for i, n in enumerate(graph.inputs)
        ),
        outputs=tuple(
            _side(graph, i, graph.tensors[o.tensor], o.name, names.outputs[i], members)
            for i, o in enumerate(graph.outputs)
        ),
        solutions=tuple(solve(graph)),
        attributes=tuple(
            _Attribute(s.index, s.name, names.attributes[s.name])
            for s in rows
            if s.name in names.attributes
        ),
        barrier_keys=_barrier_keys(results),
        compute_unit=unit,
    )


def _barrier_keys(results: tuple[ScheduleResult, ...]) -> str:
    """Return a C++ condition that is true if ``key`` belongs to a schedule with a barrier, or an empty text."""
    tests, first = [], 0
    for r in results:
        end = first + len(tiling_keys((r,)))
        if any(g.sync_before for g in r.groups):
            tests.append(f"(key >= {first} && key < {end})" if first else f"key < {end}")
        first = end
    return " || ".join(tests)


def _example_view(graph: FusionGraph, names: OpNames, head: str) -> _ExampleView:
    members = symbol_expr_names(graph, "s")
    overwritten = {o.inout for o in graph.outputs}
    buffers: list[_Buffer] = []

    def add(t: Tensor, name: str, called: str, loaded: bool, saved: bool) -> str:
        variable = f"tensor{len(buffers)}"
        shape = ", ".join(map(graph.in_words, t.shape))
        what = "input, overwritten" if loaded and saved else "input" if loaded else "output"
        about = in_comment(f"{t.dtype.name}[{shape}], {what} {name}")
        dims = ", ".join(to_cpp(d, members) for d in t.shape)
        row = _Buffer(
            variable,
            f"{called}.bin",
            about,
            dims,
            _DTYPES[t.dtype.name][1],
            t.dtype.itemsize,
            loaded,
            saved,
        )
        buffers.append(row)
        return f"{variable}.tensor"

    arguments = [
        add(graph.tensors[n], n, names.inputs[i], True, n in overwritten)
        for i, n in enumerate(graph.inputs)
    ]
    arguments += [f"s.{symbol}" for symbol in names.attributes]
    arguments += [
        add(graph.tensors[o.tensor], o.name, names.outputs[i], False, True)
        for i, o in enumerate(graph.outputs)
        if not o.inout
    ]
    return _ExampleView(
        head,
        names.type,
        names.function,
        symbol_rows(graph),
        tuple(buffers),
        tuple(arguments),
    )


def _test_view(graph: FusionGraph, names: OpNames, head: str) -> _TestView:
    def files(called: Iterable[str]) -> str:
        return json.dumps([f"{c}.bin" for c in called])

    return _TestView(
        head,
        names.type,
        names.function,
        files(names.inputs),
        files(names.outputs),
        _CASES,
    )
