"""The CMake project around the generated files, and the constant headers that they include."""

from __future__ import annotations

from functools import lru_cache

from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier
from autofuse.codegen.backends.ascendc.provenance import banner
from autofuse.codegen.backends.ascendc.releases import Releases, cann_check
from autofuse.codegen.render import header_names, read_text, render
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.serialise import json_text
from autofuse.targets import Architecture, TargetSpec

__all__ = ["preset_names", "presets_text", "project_files", "shared_headers"]


@frozen
class _CMakeView:
    banner: str
    graph: str
    npu_arch: str
    cann_check: str


def project_files(
    graph: FusionGraph, target: TargetSpec, needs: Releases | None = None
) -> dict[str, str]:
    """``CMakeLists.txt``, ``CMakePresets.json`` and ``include/*.h`` by path.

    ``needs``: what the kernel calls, with the releases of CANN that have it.
    """
    name = check_identifier(graph.name)
    view = _CMakeView(
        banner(graph, target.name, "#"), name, target.npu_arch, cann_check(needs or {})
    )
    files = {
        "CMakeLists.txt": render("CMakeLists.txt.jinja", view),
        "CMakePresets.json": presets_text(target),
    }
    return files | shared_headers(target.arch)


#: A function that an architecture may lack -> the header that calls it, and the one that takes its place there.
_INSTEAD = {"Copy": ("autofuse_copy.h", "autofuse_copy_by_add.h")}


def shared_headers(arch: Architecture) -> dict[str, str]:
    """``include/*.h`` by path: what every kernel for an architecture includes."""
    files = {f"include/{h}": read_text(h) for h in header_names()}
    for call, (name, instead) in _INSTEAD.items():
        other = files.pop(f"include/{instead}")
        if call in arch.lacks:
            files[f"include/{name}"] = other
    return files


def preset_names(target: TargetSpec) -> tuple[str, ...]:
    """The presets of a project: for the twin, for the chip, and the chip's product line."""
    return ("twin", "ascend", target.arch.family)


@lru_cache(maxsize=16)
def presets_text(target: TargetSpec) -> str:
    """The text of ``CMakePresets.json``."""
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
        {"name": family, "displayName": f"the same as {chip}", "inherits": chip},
    ]
    build = [{"name": n, "configurePreset": n} for n in (twin, chip, family)]
    found = {"version": 3, "configurePresets": configure, "buildPresets": build}
    return json_text(found, indent=2) + "\n"
