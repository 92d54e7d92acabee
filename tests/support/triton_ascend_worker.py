"""Compiles kernels with the front end of the ``triton-ascend`` wheel, which needs neither a chip nor CANN.

``python triton_ascend_worker.py WHEEL FOLDER``: WHEEL is a folder into which ``pip install --no-deps --target`` put
triton-ascend 3.2; every folder in FOLDER has ``kernel.py`` and ``job.json`` with

- ``function``: the name of the function of ``kernel.py``,
- ``inputs``: (element type, shape) of its arguments, and ``symbols``: its keyword arguments,
- ``cores``: programs of a grid at most.

The function is called with tensors of the CPU; each of its launches is checked, and its kernel goes through Triton IR
and the adapter of triton-ascend to linalg, which is what the compiler of CANN takes.  Prints a line per kernel.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "i1"}


def main(wheel: str, folder: Path) -> None:
    sys.path.insert(0, wheel)
    import torch
    import triton

    assert Path(triton.__file__).is_relative_to(Path(wheel).resolve()), triton.__file__
    assert triton.__version__.startswith("3.2"), triton.__version__
    for path in sorted(folder.iterdir()):
        job = json.loads((path / "job.json").read_text())

        def launch(kernel: Any, grid: tuple[int, ...], cores: int = job["cores"]) -> Any:
            assert 0 < math.prod(grid) <= cores, (grid, cores)
            return lambda *args, **constants: compile_ahead(kernel, args, constants)

        triton.runtime.jit.KernelInterface.__getitem__ = launch
        spec = importlib.util.spec_from_file_location(f"kernel_{path.name}", path / "kernel.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        inputs = [torch.zeros(shape, dtype=getattr(torch, d)) for d, shape in job["inputs"]]
        getattr(module, job["function"])(*inputs, **job["symbols"])


def compile_ahead(kernel: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Raises what the front end or the adapter raises."""
    import torch
    from triton._C.libtriton import ir
    from triton.backends.ascend.compiler import make_ttir, ttir_to_linalg
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend

    types = [
        "*" + kind(str(a.dtype).removeprefix("torch.")) if isinstance(a, torch.Tensor) else "i32"
        for a in args
    ]
    signature = dict(zip(kernel.arg_names, types, strict=False))
    assert {*signature, *constants} == {*kernel.arg_names}, constants
    backend = make_backend(GPUTarget("npu", "Ascend910B1", 0))
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(kernel, signature, dict(constants))
    codegen = backend.get_codegen_implementation()
    made = source.make_ir(options, codegen, backend.get_module_map(), context)
    metadata = {"hash": kernel.__name__, **vars(options)}
    linalg = ttir_to_linalg(make_ttir(made, metadata, options), metadata, options, named_ops=True)
    assert f"func.func @{kernel.__name__}" in linalg
    sys.stdout.write(f"{kernel.__name__}\n")


def kind(dtype: str) -> str:
    """What Triton calls an element type."""
    return SHORT.get(dtype) or dtype.replace("int", "i")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
