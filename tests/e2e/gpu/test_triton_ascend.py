"""What is written for triton-ascend: right in the interpreter, and accepted by the front end of its wheel.

``TRITON_ASCEND`` names a folder into which ``pip install --no-deps --target`` put the wheel; without it that test is
skipped.  Nothing here runs on a chip.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import triton_ascend_worker
from extras import needs
from triton_checks import found_wrong

from autofuse import api
from autofuse.codegen.backends.triton.backend import entry_point
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.targets import load_gpu

TARGET = load_gpu("triton-ascend910b1")
ROOT = Path(__file__).parents[3]
GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.json"))
#: Programs of a launch, at most, along the two axes of its grid.
GRID = re.compile(r"\[\((?:min\(blocks, )?(\d+)\)?,(?: (\d+))?\)\]\(")
#: What only CUDA has, and what the documents of triton-ascend say is missing.
MISSING = {
    *("Launcher", "num_warps", "num_ctas", "num_stages", "knobs", "enable_fp_fusion"),
    *("inline_asm_elementwise", "cache_modifier", "eviction_policy", "float64", "atomic_add"),
}


def graph(
    nodes: list[dict[str, Any]], outputs: list[str], shape: list[Any], **more: Any
) -> dict[str, Any]:
    most = more.get("most", 1 << 20)
    symbols = {s: {"min": 0, "max": most} for s in shape if isinstance(s, str)}
    inputs = [{"name": "x", "dtype": more.get("dtype", "float32"), "shape": shape}]
    inputs += more.get("inputs", [])
    found = {"schema": "autofuse.graph/1", "name": "case", "symbols": symbols}
    return found | {"inputs": inputs, "nodes": nodes, "outputs": outputs}


def node(op: str, inputs: list[Any], output: str, **attrs: Any) -> dict[str, Any]:
    return {"name": f"n_{output}", "op": op, "inputs": inputs, "outputs": [output], "attrs": attrs}


def sums_beside(most: int = 1 << 20) -> dict[str, Any]:
    """Softmax backward of rows of 96, and the sum over rows of what it got."""
    nodes = [
        node("Mul", ["x", "g"], "p"),
        node("ReduceSum", ["p"], "s", axes=[1], keepdims=True),
        node("Sub", ["g", "s"], "d"),
        node("Mul", ["d", "x"], "y"),
        node("ReduceSum", ["p"], "w", axes=[0]),
    ]
    g = {"name": "g", "dtype": "float32", "shape": ["rows", 96]}
    return graph(nodes, ["y", "w"], ["rows", 96], inputs=[g], most=most)


#: Graph, and sizes of its symbols: every form of kernel.
CASES: dict[str, tuple[dict[str, Any], list[dict[str, int]]]] = {
    "items": (
        graph([node("Gelu", ["x"], "y")], ["y"], ["n"]),
        [{"n": n} for n in (0, 1, 8191, 500_009)],
    ),
    "tiles": (
        graph([node("Transpose", ["x"], "y", perm=[0, 2, 1])], ["y"], ["a", "b", 67]),
        [{"a": 3, "b": 131}, {"a": 53, "b": 1}, {"a": 0, "b": 5}],
    ),
    "rows": (
        graph([node("Softmax", ["x"], "y", axis=-1)], ["y"], ["rows", 77], dtype="float16"),
        [{"rows": n} for n in (0, 1, 61, 997)],
    ),
    "rows_of_any_length": (
        graph([node("Softmax", ["x"], "y", axis=-1)], ["y"], ["rows", "cols"]),
        [{"rows": 61, "cols": c} for c in (1, 509, 4099)] + [{"rows": 2, "cols": 20_011}],
    ),
    "long_rows": (
        graph([node("Softmax", ["x"], "y", axis=-1)], ["y"], ["rows", 40_009]),
        [{"rows": 1}, {"rows": 3}],
    ),
    "columns": (
        graph([node("ReduceMax", ["x"], "y", axes=[0])], ["y"], ["n", 301]),
        [{"n": n} for n in (1, 2, 997)],
    ),
    "parts_of_columns": (
        graph([node("ReduceSum", ["x"], "y", axes=[0, 1])], ["y"], [7, 50_021]),
        [{}],
    ),
    "sums_beside": (sums_beside(), [{"rows": n} for n in (0, 1, 47, 1009)]),
    "running_sum": (
        graph([node("CumSum", ["x"], "y", axis=-1)], ["y"], ["rows", 9001]),
        [{"rows": 1}, {"rows": 50}],
    ),
}


def text_of(source: Any) -> tuple[FusionGraph, str]:
    built = api.build(source, target=TARGET)
    (text,) = (t for name, t in built.files.items() if name.endswith("_triton.py"))
    return built.graph, text


def names_in(text: str) -> set[str]:
    tree = ast.walk(ast.parse(text))
    found = {getattr(n, field, None) for n in tree for field in ("id", "attr", "arg", "name")}
    return {n for n in found if isinstance(n, str)}


@pytest.mark.parametrize("source", [c for c, _ in CASES.values()] + GALLERY)
def test_nothing_is_used_that_the_dialect_lacks(source: Any) -> None:
    _, text = text_of(source)
    assert not names_in(text) & MISSING
    assert "tl.num_programs(0)" in text
    grids = GRID.findall(text)
    assert grids
    assert all(int(a) * int(b or 1) <= TARGET.multiprocessors for a, b in grids)


def test_sums_beside_rows_are_one_pass() -> None:
    _, text = text_of(sums_beside())
    assert text.count("tl.load(x_ptr") == 1


@pytest.mark.triton
@pytest.mark.parametrize("name", CASES)
def test_in_the_interpreter(interpreter: WorkerPool, name: str) -> None:
    source, shapes = CASES[name]
    assert not found_wrong(interpreter, source, bindings=shapes, seed=17, target=TARGET.name)


@pytest.mark.triton
@pytest.mark.parametrize("target", [TARGET.name, "nvidia-h100"])
def test_sums_beside_rows_whose_offsets_take_64_bits(interpreter: WorkerPool, target: str) -> None:
    source, shapes = sums_beside(most=1 << 28), [{"rows": 0}, {"rows": 53}]
    assert not found_wrong(interpreter, source, bindings=shapes, seed=3, target=target)


@pytest.mark.skipif("TRITON_ASCEND" not in os.environ, reason="no wheel of triton-ascend")
@needs("torch")
def test_the_front_end_of_the_wheel_takes_it(tmp_path: Path) -> None:
    sources = [(c, sizes[-1]) for c, sizes in CASES.values()] + [(p, {}) for p in GALLERY]
    for i, (source, sizes) in enumerate(sources):
        found, text = text_of(source)
        typical = {s.name: sizes.get(s.name, s.hint or 64) for s in found.symbols}
        tensors = [found.tensors[x] for x in found.inputs]
        bound = {str(e) for t in tensors for e in t.shape}
        job = {
            "function": entry_point(found),
            "inputs": [(t.dtype.name, [e.evaluate(typical) for e in t.shape]) for t in tensors],
            "symbols": {s: n for s, n in typical.items() if s not in bound},
            "cores": TARGET.multiprocessors,
        }
        folder = tmp_path / f"{i:02}"
        folder.mkdir()
        (folder / "kernel.py").write_text(text)
        (folder / "job.json").write_text(json.dumps(job))
    command = [sys.executable, triton_ascend_worker.__file__, os.environ["TRITON_ASCEND"]]
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) >= len(sources)
