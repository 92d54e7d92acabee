"""Runs or compiles kernels in a process of its own: Triton reads its settings when it is imported.

``python triton_worker.py run|compile FOLDER``: every folder in FOLDER has ``kernel.py`` with a function ``kernel`` and
``job.json`` with

- ``inputs``: (name, element type) of what ``<name>.in`` holds,
- ``outputs``: (name, element type, elements) of what ``<name>.out`` will hold,
- ``sizes``: integers that follow the pointers, and ``constants``: the constexpr arguments.

``run`` is in the interpreter, ``compile`` for a card of compute capability 9.0.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

#: A byte of memory that no kernel has written.
POISON = 0xA5


def main(verb: str, folder: Path) -> None:
    if verb == "run":
        os.environ["TRITON_INTERPRET"] = "1"
        from autofuse.machines.gpu.interpreter import mend_interpreter

        mend_interpreter()
    for path in sorted(folder.iterdir()):
        job = json.loads((path / "job.json").read_text())
        module = load(path / "kernel.py")
        if verb == "run":
            run(path, module, job)
        else:
            compile_ahead(module, job)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"kernel_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(path: Path, module: ModuleType, job: dict) -> None:
    import torch

    inputs = [
        torch.frombuffer(bytearray((path / f"{x}.in").read_bytes()), dtype=getattr(torch, dtype))
        for x, dtype in job["inputs"]
    ]
    outputs = []
    for _, dtype, elements in job["outputs"]:
        kind = getattr(torch, dtype)
        raw = torch.full((elements * kind.itemsize,), POISON, dtype=torch.uint8)
        outputs.append(raw.view(kind))
    module.kernel[(1,)](*inputs, *outputs, *job["sizes"], **job["constants"])
    for (name, _, _), data in zip(job["outputs"], outputs, strict=True):
        (path / f"{name}.out").write_bytes(data.view(torch.uint8).numpy().tobytes())


def compile_ahead(module: ModuleType, job: dict) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    short = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "i1"}
    tensors = (*job["inputs"], *job["outputs"])
    kinds = [short.get(d) or d.replace("uint", "u").replace("int", "i") for _, d, *_ in tensors]
    constants = job["constants"]
    types = [*(f"*{k}" for k in kinds), *("i32" for _ in job["sizes"])]
    types += ["constexpr" for _ in constants]
    signature = dict(zip(module.kernel.arg_names, types, strict=True))
    source = ASTSource(module.kernel, signature, constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert ".entry kernel" in made.asm["ptx"]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
