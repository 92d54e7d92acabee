"""Loops vectorise under the flags of a host that compiles their text with others."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from autofuse import api
from autofuse.codegen.backends.cpu.file_text import kernel_text, parameter_types
from autofuse.codegen.backends.cpu.plan import plan
from autofuse.compiler import Stages, lower_to_plan
from autofuse.machines.cpu.library import flags_for_speed
from autofuse.machines.twin.run.compiler import toolchain
from autofuse.targets import CpuTarget, find_target

pytestmark = pytest.mark.twin

#: Those of PyTorch's Inductor that keep loops from being vectorised: they win over ``-O3``.
INDUCTOR = ("-fno-tree-loop-vectorize", "-fmath-errno", "-ffp-contract=off")
FLAGS = ("-std=c++20", "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", *INDUCTOR)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_loop_of_lanes_is_vectorised(dtype: str, tmp_path: Path) -> None:
    compiler = toolchain()
    if not compiler.is_gcc:
        pytest.skip("only the notes of GCC are read")
    steps = [("Abs", "x", "a"), ("Sqrt", "a", "b"), ("Tanh", "b", "c"), ("Floor", "c", "y")]
    graph = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "steps",
            "symbols": {"rows": {"min": 1, "max": 4096}},
            "inputs": [{"name": "x", "dtype": dtype, "shape": ["rows", 300]}],
            "nodes": [
                {"name": f"n_{out}", "op": op, "inputs": [x], "outputs": [out]}
                for op, x, out in steps
            ],
            "outputs": ["y"],
        }
    )
    target = find_target("cpu")
    assert isinstance(target, CpuTarget)
    program = plan(graph, lower_to_plan(graph, Stages()), target)
    assert parameter_types(program)[-1] == "const int64_t"
    text = kernel_text(program)
    source = tmp_path / "steps.cpp"
    source.write_text(text, encoding="utf-8")
    out = ("-fopt-info-vec", "-o", str(tmp_path / "steps.so"), str(source))
    done = subprocess.run(
        [compiler.path, *FLAGS, *flags_for_speed(is_gcc=True), *out],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {int(n) for n in re.findall(r"steps\.cpp:(\d+):\d+: optimized: loop", done.stderr)}
    lines = text.splitlines()
    wanted = [k + 2 for k, line in enumerate(lines) if re.search(r"#pragma omp .*\bsimd\b", line)]
    assert wanted
    # The note names the loop or one of its first statements.
    assert all(found & set(range(k, k + 5)) for k in wanted), done.stderr
