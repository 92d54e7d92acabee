"""The CMake project around the generated files, and the constant headers that they include."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier
from autofuse.codegen.backends.ascendc.provenance import banner
from autofuse.codegen.backends.ascendc.releases import Releases, cann_check, included
from autofuse.codegen.render import read_text, render
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import json_text
from autofuse.schedule.legal.casts import cast_mode
from autofuse.targets import Architecture, TargetSpec

__all__ = [
    "TILING_HEADER",
    "header_text",
    "preset_names",
    "presets_text",
    "project_files",
    "shared_headers",
    "twin_definition",
]


#: The tile search and its parts, in order of dependence; they are always used together.
TILING_HEADER = "autofuse_tiling.h"
_TILING = (
    "autofuse_tile_model.h",
    "autofuse_tile_search.h",
    "autofuse_tiling_solver.h",
    "autofuse_tiling_memo.h",
)
_ALWAYS = (
    "autofuse_device.h",
    "autofuse_launch.h",
    "autofuse_log.h",
    "autofuse_math.h",
    "autofuse_shape.h",
    "autofuse_status.h",
    TILING_HEADER,
)
_INCLUDE = re.compile(r'#include "(autofuse_\w+\.h)"\n')


@frozen
class _CMakeView:
    banner: str
    graph: str
    npu_arch: str
    twin_arch: str
    cann_check: str


def project_files(
    graph: FusionGraph,
    target: TargetSpec,
    functions: Iterable[str] = (),
    needs: Releases | None = None,
) -> dict[str, str]:
    """Return ``CMakeLists.txt``, ``CMakePresets.json`` and ``include/*.h`` by path.

    Args:
        graph: graph of the kernel.
        target: chip.
        functions: headers of the device functions that the kernel calls.
        needs: functions that the kernel calls, with the CANN releases that have them.
    """
    name = check_identifier(graph.name)
    view = _CMakeView(
        banner(graph, target.name, "#"),
        name,
        target.npu_arch,
        twin_definition(target.arch),
        cann_check(needs or {}),
    )
    files = {
        "CMakeLists.txt": render("CMakeLists.txt.jinja", view),
        "CMakePresets.json": presets_text(target),
    }
    return files | shared_headers(target.arch, functions)


def twin_definition(arch: Architecture) -> str:
    """Return the macro that the twin's headers need for architectures with vector registers; empty for others."""
    return f" __NPU_ARCH__={arch.name}" if arch.vector_registers else ""


#: A function that an architecture may lack -> the header that calls it, and its replacement there.
_INSTEAD = {"Copy": ("autofuse_copy.h", "autofuse_copy_by_add.h")}
#: Types of the casts with CAST_NONE in headers; the values are exact, so any round mode gives the same.
_EXACT = (BY_NAME["int32"], BY_NAME["float32"])


def shared_headers(arch: Architecture, functions: Iterable[str] = ()) -> dict[str, str]:
    """Return ``include/*.h`` by path: the common headers of an architecture, ``functions``, and their includes."""
    found: dict[str, str] = {}
    todo = [*_ALWAYS, *functions]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = header_text(name, arch)
            todo += (n for n in included(found[name]) if n.startswith("autofuse_"))
    return {f"include/{name}": found[name] for name in sorted(found)}


@lru_cache(maxsize=256)
def header_text(name: str, arch: Architecture) -> str:
    """Return a header as projects have it, merged with its private dependencies, for one architecture."""
    if name == TILING_HEADER:
        return "\n".join(_INCLUDE.sub(_unless_part, read_text(part)) for part in _TILING)
    text = read_text(name)
    have, to = _EXACT
    if (have.name, to.name, "NONE") not in arch.modes:
        mode = cast_mode(arch, have, to)
        text = text.replace("RoundMode::CAST_NONE", f"RoundMode::CAST_{mode}")
    for call, (header, instead) in _INSTEAD.items():
        own = read_text(instead if call in arch.lacks else header)
        text = text.replace(f'#include "{header}"\n', f"\n{own}")
    return text


def _unless_part(include: re.Match[str]) -> str:
    return "" if include[1] in _TILING else include[0]


def preset_names(target: TargetSpec) -> tuple[str, ...]:
    """Return the presets of a project: for the twin, for the chip, and the chip's product line."""
    return ("twin", "ascend", target.arch.family)


@lru_cache(maxsize=16)
def presets_text(target: TargetSpec) -> str:
    """Return the text of ``CMakePresets.json``."""
    twin, chip, family = preset_names(target)
    configure: list[dict[str, object]] = [
        {
            "name": "base",
            "hidden": True,
            "binaryDir": "${sourceDir}/build/${presetName}",
            "cacheVariables": {"CMAKE_BUILD_TYPE": "Release"},
        },
        {
            "name": twin,
            "displayName": "the CPU twin; needs -DAUTOFUSE_TWIN_DIR=$(autofuse doctor --twin-dir)",
            "inherits": "base",
            "cacheVariables": {"AUTOFUSE_BACKEND": "twin"},
        },
        {
            "name": chip,
            "displayName": f"{target.soc}; needs CANN and its set_env.sh",
            "inherits": "base",
            "cacheVariables": {
                "AUTOFUSE_BACKEND": "ascend",
                "CMAKE_ASC_ARCHITECTURES": target.npu_arch,
            },
        },
        {"name": family, "displayName": f"same as {chip}", "inherits": chip},
    ]
    build = [{"name": n, "configurePreset": n} for n in (twin, chip, family)]
    found = {"version": 3, "configurePresets": configure, "buildPresets": build}
    return json_text(found, indent=2) + "\n"
