"""Torch library extensions of small graphs, built once for all tests of a run, with a stand-in for torch_npu.

The operators of all graphs are one translation unit: most of its time is PyTorch's headers.  The part for an NPU is in
it as well, and registered a second time, for tensors on a CPU, as ``autofuse_queued::<name>``; its tasks wait until
``autofuse_queued::run`` is called, which runs the kernel of the twin and returns the number of tasks.
"""

import hashlib
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from autofuse import api
from autofuse.base import cache as cache_folder
from autofuse.machines.twin.run.compile import compile_kernel

__all__ = ["GRAPHS", "built", "package"]

DECLARED = Path(__file__).parent / "torch_npu_declared"
SIZES = {"rows": {"min": 0, "max": 1 << 20}, "cols": {"min": 1, "max": 4096}}
MATRIX = ["rows", "cols"]


def _graph(name: str, symbols: Any, inputs: Any, nodes: Any, outputs: Any) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "symbols": symbols,
        "inputs": inputs,
        "nodes": [
            {"name": f"n{i}", "op": op, "inputs": ins, "outputs": outs, "attrs": attrs}
            for i, (op, ins, outs, attrs) in enumerate(nodes)
        ],
        "outputs": outputs,
    }


def _tensor(name: str, shape: Any, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape, **more}


_SCALE = {"name": "scale", "dtype": "float32", "scalar": True}
#: Graph, and the graph of its gradient or None, by the name of the operator.
GRAPHS: Mapping[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "scaled_softmax": (
        _graph(
            "scaled_softmax",
            SIZES,
            [_tensor("x", MATRIX), _SCALE],
            [("Mul", ["x", "scale"], ["s"], {}), ("Softmax", ["s"], ["y"], {"axis": -1})],
            ["y"],
        ),
        _graph(
            "softmax_gradient",
            SIZES,
            [_tensor("grad_y", MATRIX), _tensor("y", MATRIX), _SCALE],
            [
                ("Mul", ["grad_y", "y"], ["a"], {}),
                ("ReduceSum", ["a"], ["b"], {"axes": [-1], "keepdims": True}),
                ("Sub", ["grad_y", "b"], ["c"], {}),
                ("Mul", ["c", "y"], ["d"], {}),
                ("Mul", ["d", "scale"], ["grad_x"], {}),
            ],
            ["grad_x"],
        ),
    ),
    # Names that mean something in Python, C++ or schemas; two results.
    "v_lambda": (
        _graph(
            "lambda",
            {"in": {"min": 0, "max": 4096}},
            [_tensor("self", ["in", 8], "float16"), _tensor("return", ["in", 8], "float16")],
            [
                ("Add", ["self", "return"], ["Tensor"], {}),
                ("Mul", ["self", "return"], ["from"], {}),
            ],
            ["Tensor", "from"],
        ),
        None,
    ),
    "in_out": (
        _graph(
            "in_out",
            {"n": {"min": 0, "max": 1 << 20}},
            [_tensor("m", ["n"]), _tensor("g", ["n"])],
            [("Mul", ["m", {"const": 0.5}], ["d"], {}), ("Add", ["d", "g"], ["next"], {})],
            [{"tensor": "next", "inout": "m"}],
        ),
        None,
    ),
    # A size that no shape shows; the shape of a result that is a division.
    "spread": (
        _graph(
            "spread",
            {"n": {"min": 1, "max": 4096}, "copies": {"min": 1, "max": 4096}},
            [_tensor("x", ["n"])],
            [
                ("Slice", ["x"], ["h"], {"starts": [0], "shape": ["ceildiv(n, 2)"], "steps": [2]}),
                ("Broadcast", ["x"], ["y"], {"shape": ["copies", "n"]}),
            ],
            ["h", "y"],
        ),
        None,
    ),
    # Strides and an offset that the graph fixes.
    "strided": (
        _graph(
            "strided",
            {"n": {"min": 1, "max": 4096}},
            [_tensor("x", ["n", 8], strides=[24, 1], offset=8)],
            [("Abs", ["x"], ["y"], {})],
            ["y"],
        ),
        None,
    ),
}


@cache
def built(name: str) -> api.BuildResult:
    """The files of a graph."""
    graph, backward = GRAPHS[name]
    return api.build(graph, entry="torch", backward=backward)


def _unit(sources: Path) -> str:
    """All operators, for CPUs and NPUs, and those of the stand-in."""
    lines = ["#include <torch/library.h>"]
    for name in GRAPHS:
        folder = sources / name / "csrc"
        lines += [f'#include "{p}"' for p in sorted(folder.glob("*.cpp"))]
    lines += [
        "int64_t RunTasks() {",
        "  auto tasks = std::move(at_npu::native::Tasks());",
        "  at_npu::native::Tasks().clear();",
        "  for (auto& t : tasks) TORCH_CHECK(t.second() == 0, t.first);",
        "  return static_cast<int64_t>(tasks.size());",
        "}",
        "TORCH_LIBRARY_FRAGMENT(autofuse_queued, m) {",
        '  m.def("run() -> int", &RunTasks);',
        *(f"  m.def(autofuse_op_{name}::kSchema);" for name in GRAPHS),
        "}",
        "TORCH_LIBRARY_IMPL(autofuse_queued, CPU, m) {",
        *(f'  m.impl("{name}", &autofuse_op_{name}::Run<autofuse_torch::Npu>);' for name in GRAPHS),
        "}",
    ]
    return "\n".join([*lines, ""])


@cache
def _folder() -> Path:
    """A folder with the packages of all graphs, beside the libraries that they load."""
    from torch.utils.cpp_extension import include_paths, library_paths

    results = {name: built(name) for name in GRAPHS}
    kernels: dict[str, Path] = {}
    for r in results.values():
        kernels[r.name] = compile_kernel(r.files, r.name)
        for part in sorted(
            p for p in r.files if p.startswith("parts/") and p.endswith("graph.json")
        ):
            own = part.split("/")[1]
            files = {
                p.removeprefix(f"parts/{own}/"): t
                for p, t in r.files.items()
                if p.startswith(f"parts/{own}/")
            }
            kernels[f"{r.name}_backward"] = compile_kernel(files, own)
    texts = [sorted(r.files.items()) for r in results.values()]
    declared = [p.read_text(encoding="utf-8") for p in sorted(DECLARED.rglob("*.h"))]
    own = Path(__file__).read_text(encoding="utf-8")
    import torch

    key = hashlib.sha256(json.dumps([texts, declared, own, torch.__version__]).encode()).hexdigest()

    def make(folder: Path) -> None:
        for name, r in results.items():
            for path, text in r.files.items():
                if path.startswith(("csrc/", "autofuse_")) and "tiling_data" not in path:
                    place = folder / name / path
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(text, encoding="utf-8")
        (folder / "unit.cpp").write_text(_unit(folder), encoding="utf-8")
        compiler = shutil.which("g++")
        assert compiler is not None
        includes = [str(DECLARED), *include_paths()]
        subprocess.run(
            [
                *(compiler, "-O0", "-std=c++20", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"),
                *(f"-isystem{p}" for p in includes),
                *("unit.cpp", "-o", "_ops.so"),
                *(f"-L{p}" for p in library_paths()),
                *("-lc10", "-ltorch", "-ltorch_cpu", "-ldl"),
            ],
            cwd=folder,
            check=True,
        )
        for name, r in results.items():
            inside = folder / name / f"autofuse_{r.name}"
            (inside / "_ops.so").symlink_to("../../_ops.so")

    folder = cache_folder.entry("kernels", key, "_ops.so", make)
    # The operators look beside their own library, which is loaded under the name of whoever comes first.
    for place in (folder, *(folder / n / f"autofuse_{r.name}" for n, r in results.items())):
        for kernel, path in kernels.items():
            for device in ("twin", "npu"):
                link = place / f"lib{kernel}_{device}.so"
                if device == "twin" or place == folder:
                    link.unlink(missing_ok=True)
                    link.symlink_to(path)
    return folder


@cache
def package(name: str) -> ModuleType:
    """The package of an extension, imported."""
    folder = _folder()
    import torch

    torch.ops.load_library(str(folder / "_ops.so"))
    sys.path.insert(0, str(folder / name))
    try:
        return importlib.import_module(f"autofuse_{built(name).name}")
    finally:
        sys.path.pop(0)
