"""Runs the tests in the form of KernelGen in Triton's interpreter, with a stand-in for its module ``bench``.

    python bench_worker.py FOLDER ...

Each folder has the four files of one operator.  The stand-in has what the tests use: decorators that keep what they are
given, references of 64 bits, and a comparison with the tolerances that FlagGems documents.  Times are not taken: the
functions that would be timed are called once.  Prints what is wrong, a line each.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton

from autofuse.machines.gpu.interpreter import mend_interpreter

#: Elements of the shapes that are tried; the interpreter takes a millisecond for a program.
MOST = 1 << 14
RTOL = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-6}


def label(name: str) -> Any:
    def keep(function: Any) -> Any:
        function.label = name
        return function

    return keep


def parametrize(names: str, values: list[Any]) -> Any:
    def keep(function: Any) -> Any:
        function.cases = {names: values, **getattr(function, "cases", {})}
        return function

    return keep


def to_reference(x: torch.Tensor, upcast: bool = False) -> torch.Tensor:
    return x.to(torch.float64) if upcast else x


def assert_close(
    res: torch.Tensor,
    ref: torch.Tensor,
    dtype: torch.dtype,
    equal_nan: bool = False,
    reduce_dim: int = 1,
) -> None:
    assert res.dtype == dtype, f"{res.dtype}, not {dtype}"
    torch.testing.assert_close(
        res, ref.to(dtype), rtol=RTOL.get(dtype, 0.0), atol=1e-4 * reduce_dim, equal_nan=equal_nan
    )


def stand_in() -> ModuleType:
    """``bench`` and what is imported of it."""
    parts = {
        "bench": {},
        "bench.sandbox": {},
        "bench.sandbox.test": {},
        "bench.sandbox.test.test_parametrize": {"label": label, "parametrize": parametrize},
        "bench.sandbox.config": {"DEVICE": "cpu"},
        "bench.sandbox.utils": {},
        "bench.sandbox.utils.accuracy_utils": {
            "gems_assert_close": assert_close,
            "to_reference": to_reference,
        },
    }
    for k in ("", ".sandbox", ".sandbox.test", ".sandbox.test.perfermance"):
        parts[f"bench_v2{k}"] = {}
    result = {"CustomBenchmarkResult": SimpleNamespace}
    parts["bench_v2.sandbox.test.perfermance.attri_util"] = result
    for name, content in parts.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        sys.modules[name] = module
    return sys.modules["bench"]


def load(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(folder: Path, bench: ModuleType) -> list[str]:
    (kernel_file,) = folder.glob("*_triton.py")
    name = kernel_file.stem.removesuffix("_triton")
    setattr(bench, name, getattr(load(folder / f"{name}_baseline.py"), name))
    bench.triton = SimpleNamespace(**{name: getattr(load(kernel_file), name)})
    test = getattr(load(folder / f"test_{name}_accuracy.py"), f"test_{name}")
    timed = getattr(load(folder / f"test_{name}_performance.py"), f"{name}_benchmark")
    wrong = []
    if (test.label, timed.label) != (name, f"{name}_benchmark"):
        wrong.append(f"labels {test.label}, {timed.label}")
    shapes = sorted(test.cases["shape"], key=math.prod)
    small = [s for s in shapes if math.prod(s) <= MOST][-1:] or shapes[:1]
    others = {k: v for k, v in test.cases.items() if k != "shape"}
    for shape in small:
        for values in itertools.product(*others.values()):
            given = dict(zip(others, values, strict=True))
            torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
            try:
                test(shape=shape, **given)
            except Exception as e:
                wrong.append(f"{shape} {given}: {type(e).__name__}: {e}")
    called = []
    triton.testing.do_bench = lambda f, **_: called.append(f()) or (2.0, 1.0, 3.0)
    result = timed(shape=small[0], dtype=timed.cases["dtype"][0])
    if len(called) != 2 or (result.ref_time, result.res_time, result.speedup) != (2.0, 2.0, 1.0):
        wrong.append(f"the performance test gives {result} of {len(called)} functions")
    return [f"{name}: {' '.join(w.split())[:300]}" for w in wrong]


def main() -> None:
    mend_interpreter()
    bench = stand_in()
    for folder in sys.argv[1:]:
        for line in run(Path(folder), bench):
            sys.stdout.write(f"{line}\n")
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
