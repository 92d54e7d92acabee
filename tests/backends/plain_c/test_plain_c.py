"""The seam for backends: one that lives in this folder alone, compiled with gcc and compared with NumPy."""

import ctypes
import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofuse import compiler
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import AllocType, ImplGraph
from autofuse.machines.twin.oracle.compare import compare, unwritten
from autofuse.machines.twin.oracle.data import POISON, poisoned, random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate, shape_of
from autofuse.results import BuildResult
from autofuse.targets import load_target

HERE = Path(__file__).parent
GRAPHS = HERE.parents[1] / "snapshot" / "graphs"
#: Bytes behind an output that must stay as they are.
GUARD = 64


def load_module() -> Any:
    spec = importlib.util.spec_from_file_location("plain_c_backend", HERE / "backend.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLAIN_C = load_module()


def build(graph: FusionGraph, **options: Any) -> BuildResult:
    run = compiler.Stages(check_ir=True)
    options = {"entry": "call", "backend": PLAIN_C.BACKEND, "run": run} | options
    return compiler.compile(graph, PLAIN_C.CPU, **options)


def impls(built: BuildResult) -> list[ImplGraph]:
    return [i for r in built.schedule for g in r.groups for i in g.impls]


def library(built: BuildResult, folder: Path) -> Any:
    source, made = folder / "kernel.c", folder / "kernel.so"
    source.write_text(built.files[f"{built.name}.c"])
    flags = ["-std=gnu11", "-O1", "-fwrapv", "-Wall", "-Werror", "-Wno-unused", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, source, "-o", made, "-lm"], check=True)
    return ctypes.CDLL(str(made))[built.name]


def check(kernel: Any, graph: FusionGraph, sizes: Mapping[str, int], seed: int) -> None:
    """Run on random data and compare every element of every output."""
    inputs = random_inputs(graph, sizes, seed)
    want = evaluate(graph, inputs, sizes)
    outputs = []
    for o in graph.outputs:
        t = graph.tensors[o.tensor]
        nbytes = int(np.prod(shape_of(t.shape, sizes), dtype=np.int64)) * t.dtype.itemsize
        outputs.append(poisoned((nbytes + GUARD,), np.dtype(np.uint8)))
    arrays = [*inputs.values(), *outputs]
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    values = [ctypes.c_int64(sizes[s.name]) for s in graph.symbols]
    assert kernel(*values, pointers) == 0
    for o, raw in zip(graph.outputs, outputs, strict=True):
        t = graph.tensors[o.tensor]
        assert (raw[-GUARD:] == POISON[0]).all()
        reference = want[o.name]
        got = raw[:-GUARD].view(reference.value.dtype).reshape(reference.value.shape)
        assert not unwritten(got, POISON[0]).any()
        found = compare(o.name, got, reference, t.dtype)
        assert found.elements == got.size
        assert found.wrong == 0, found


CASES: list[tuple[str, list[dict[str, int]]]] = [
    ("abs_test", [{}]),
    ("bias_unaligned", [{}]),
    ("broadcast_leading", [dict(zip("ab", v, strict=True)) for v in ((1, 1), (3, 4000), (90, 77))]),
    ("channels_last", [{}]),
    ("column_sums", [{"n": 0}, {"n": 1}, {"n": 1000}, {"n": 4096}]),
    ("constants", [{}]),
    ("reduce_columns", [{}]),
    ("reduce_rows", [{"s0": m, "s1": n} for m, n in itertools.product((0, 1, 37), (0, 1, 9000))]),
    ("reduce_twice", [{}]),
    ("softmax", [{}]),
    ("symbolic_rows", [{"rows": 0}, {"rows": 1}, {"rows": 1001}]),
    ("two_groups", [{}]),
]


@pytest.mark.twin
@pytest.mark.parametrize("name", [name for name, _ in CASES])
def test_loops_in_c_compute_what_the_graph_says(name: str, tmp_path: Path) -> None:
    graph = compiler.read(GRAPHS / f"{name}.json")
    kernel = library(build(graph), tmp_path)
    for seed, sizes in enumerate(dict(CASES)[name]):
        check(kernel, graph, sizes, seed)


@pytest.mark.parametrize("name", [name for name, _ in CASES])
def test_the_schedule_keeps_to_what_target_and_backend_can(name: str) -> None:
    """No queue, no scratch space, no other family, no more local memory than the target has."""
    built = build(compiler.read(GRAPHS / f"{name}.json"))
    assert list(built.timings) == ["lower", "simplify", "schedule", "emit"]
    for impl in impls(built):
        assert impl.template in PLAIN_C.BACKEND.capabilities.families
        assert impl.tiling.ub_limit == 32768
        assert {b.kind for b in impl.buffers} == {"buf"}
        assert all(n.y.mem is None or n.y.mem.alloc_type is not AllocType.QUEUE for n in impl.nodes)
        assert not any(n.tmp_buffers for n in impl.nodes)


def test_what_the_backend_cannot_write_is_a_diagnostic() -> None:
    with pytest.raises(AutofuseError) as e:
        build(compiler.read(GRAPHS / "compare_select.json"))
    assert [d.code for d in e.value.diagnostics] == ["AF3001"]
    with pytest.raises(AutofuseError) as e:
        build(compiler.read(GRAPHS / "running_sum.json"))
    assert {d.code for d in e.value.diagnostics} <= {"AF3002", "AF3003", "AF3004"}


def test_target_and_backend_must_fit() -> None:
    graph = compiler.read(GRAPHS / "copy.json")
    for options in ({"entry": "launch"}, {"backend": None}):
        with pytest.raises(AutofuseError) as e:
            build(graph, **options)
        assert [d.code for d in e.value.diagnostics] == ["AF5007"]
    with pytest.raises(AutofuseError, match="plain arrays"):
        compiler.compile(graph, load_target("ascend910b1"), entry="call", backend=PLAIN_C.BACKEND)


def test_the_text_is_a_function_of_the_graph() -> None:
    graph = compiler.read(json.dumps(json.loads((GRAPHS / "softmax.json").read_text())))
    assert build(graph).files == build(graph).files
