"""Compiles the kernels of graphs for a card of compute capability 9.0, where there is none.

The interpreter takes what the compiler refuses: variables of a loop that change their type, blocks that do not fit.
Triton decides when it is imported whether it interprets, so this is a process of its own:
``python triton_ahead.py FOLDER [MOST]`` takes the graph files of a folder, each with ``NAME.tuning`` where there is
one.  With MOST, of all kernels of one form, one kind of cluster and one set of element types the first one is
compiled, of at most so many kinds.  What fails goes to standard output, and behind it how many kernels were compiled.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from autofuse import api
from autofuse.codegen.backends.triton.backend import entry_point
from autofuse.codegen.backends.triton.kernels import Kernel
from autofuse.codegen.backends.triton.plan import plan
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.oracle.sizes import sizes_with
from autofuse.targets import load_gpu

TARGET = load_gpu("nvidia-h100")
CARD = GPUTarget("cuda", 90, 32)
SHORT = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "i1"}


def main(folder: Path, most: int | None) -> None:
    failed = compiled = 0
    kinds: set[Any] = set()
    for path in sorted(folder.glob("*.json")):
        tuning = path.with_suffix(".tuning")
        own = api.read_tuning(tuning) if tuning.is_file() else None
        built = api.build(path, target=TARGET, tuning=own)
        module = folder / f"{path.stem}.py"
        module.write_text(built.files[f"{built.graph.name}_triton.py"], encoding="utf-8")
        known = {k.name: k for k in plan(built.graph, built.hint, TARGET, own).kernels}
        try:
            for kernel, *launch in called(load(module), built.graph):
                kind = kind_of(known[kernel.__name__], *launch)
                if most is not None and (kind in kinds or len(kinds) == most):
                    continue
                kinds.add(kind)
                compiled += 1
                compile_launch(kernel, *launch)
        except Exception as e:
            failed += 1
            sys.stdout.write(f"{path.stem}: {type(e).__name__}: {e}\n{e.__cause__ or ''}\n")
    sys.stdout.write(f"{compiled} kernels\n")
    sys.exit(min(failed, 1))


def kind_of(kernel: Kernel, tensors: Any, sizes: Any, keywords: Mapping[str, Any]) -> Any:
    """Properties that the compiler may treat differently: form, blocks of a cluster, element types."""
    rows, parts = keywords.get("ROWS", 1) > 1, keywords.get("PARTS", 1) > 1
    return kernel.form, rows, parts, bool(kernel.partials), frozenset(t.dtype for t in tensors)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def called(module: ModuleType, graph: FusionGraph) -> list[tuple[Any, ...]]:
    """The launches of a call with typical sizes: kernel, tensors, sizes and keywords."""
    launches: list[tuple[Any, ...]] = []

    def note(launcher: Any, grid: Any, tensors: Any, *sizes: int, **keywords: Any) -> None:
        launches.append((launcher.kernel, tensors, sizes, keywords))

    module.Launcher.__call__ = note
    sizes = sizes_with(graph, {})
    inputs = []
    for name in graph.inputs:
        t = graph.tensors[name]
        shape = [e.evaluate(sizes) for e in t.shape]
        empty = torch.empty(shape, dtype=getattr(torch, t.dtype.name), device="meta")
        if t.strides is not None:
            strides = [e.evaluate(sizes) for e in t.strides]
            empty = torch.empty_strided(shape, strides, dtype=empty.dtype, device="meta")
        inputs.append(empty)
    function = getattr(module, entry_point(graph))
    keywords: dict[str, Any] = {
        s: sizes.get(s, "meta")
        for s, p in inspect.signature(function).parameters.items()
        if p.kind is p.KEYWORD_ONLY
    }
    made = function(*inputs, **keywords)
    outputs = (made,) if isinstance(made, torch.Tensor) else made
    assert launches or not any(t.numel() for t in outputs)
    return launches


def compile_launch(kernel: Any, tensors: Any, sizes: Any, keywords: dict[str, Any]) -> None:
    options = {"num_warps": keywords.pop("num_warps"), "num_ctas": keywords.pop("num_ctas", 1)}
    options["enable_fp_fusion"] = keywords.pop("fusion", True)
    types = [f"*{short(t.dtype)}" for t in tensors]
    types += ["i64" if n >= 1 << 31 else "i32" for n in sizes]
    types += ["constexpr" for _ in keywords]
    signature = dict(zip(kernel.arg_names, types, strict=True))
    made = triton.compile(ASTSource(kernel, signature, keywords), target=CARD, options=options)
    assert f".entry {kernel.__name__}" in made.asm["ptx"]


def short(dtype: torch.dtype) -> str:
    """An element type as a signature has it."""
    name = str(dtype).removeprefix("torch.")
    return SHORT.get(name) or name.replace("uint", "u").replace("int", "i")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
