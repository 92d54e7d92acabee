"""Every element-wise op of the registry in Triton, on every dtype that it takes, against its reference."""

from dataclasses import replace
from pathlib import Path

import draws
import numpy as np
import pytest
from extras import needs
from op_graphs import graph_of, graphs
from triton_blocks import block_kernel, ends, work, write_job

from autofuse.codegen.backends.triton.ops.spelling import TRITON
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput
from autofuse.machines.twin.oracle.compare import compare
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate, shape_of

pytestmark = [
    pytest.mark.slow,
    needs("torch", "triton"),
]

#: Types that share a process, which takes seconds to start.
BATCHES = {
    "float32": ("float32",),
    "halves": ("float16", "bfloat16"),
    "signed": ("int8", "int16", "int32", "int64"),
    "unsigned": ("uint8", "uint16", "uint32", "uint64", "bool"),
}


def written(folder: Path, graph, inputs=None):
    """A folder for ``triton_worker``."""
    data, outputs = ends(graph)
    taken = [graph.inputs[n.number("index")] for n in data]
    given = [graph.outputs[n.number("index")].tensor for n in outputs]
    (elements,) = shape_of(graph.tensors[given[0]].shape, {})
    job = {
        "inputs": [(x, graph.tensors[x].dtype.name) for x in taken],
        "outputs": [(y, graph.tensors[y].dtype.name, elements) for y in given],
        "sizes": [elements],
        "constants": {"BLOCK": 1 << (elements - 1).bit_length()},
    }
    write_job(folder, block_kernel(graph), job, inputs or {})


def checked(tmp_path, cases):
    """Run (title, graph, inputs) in the interpreter; what differs from the reference."""
    for i, (_, g, inputs) in enumerate(cases):
        written(tmp_path / f"{i:04}", g, inputs)
    work("run", tmp_path)
    wrong = []
    for i, (title, g, inputs) in enumerate(cases):
        want = evaluate(g, inputs, {})["y"]
        dtype = g.tensors["y"].dtype
        raw = (tmp_path / f"{i:04}" / "y.out").read_bytes()
        got = np.frombuffer(raw, numpy_dtype(dtype)).reshape(want.value.shape)
        found = compare("y", got, want, dtype)
        if not found.ok or found.inconclusive:
            at = found.first
            xs = [inputs[x][at] for x in g.inputs] if at is not None else []
            wrong.append(f"{title}: {found.wrong} wrong, f{xs} = {found.want}, not {found.got}")
    return wrong


@pytest.mark.parametrize("batch", BATCHES)
def test_ops(batch, tmp_path):
    seed = draws.seed()
    cases = [
        (title, g, random_inputs(g, {}, seed, special=special))
        for title, g, special in graphs(BATCHES[batch])
    ]
    wrong = checked(tmp_path, cases)
    assert not wrong, "\n".join((f"seed {seed}", *wrong))


def test_own_functions_from_one_end_of_float32_to_the_other(tmp_path):
    seed = draws.seed()
    rng = np.random.default_rng(seed)
    n = 1 << 15
    bits = rng.integers(0, 1 << 32, n, np.uint32).view(np.float32)
    x = np.concatenate((bits, rng.uniform(-110, 110, n).astype(np.float32)))
    cases = []
    for op in ("Exp", "Expm1", "Softplus", "LogSigmoid", "Gelu", "Tanh", "Elu", "Selu", "Round"):
        g = graph_of(op, ["float32"], {}, 2 * n)
        cases.append((op, g, {"x0_float32": x}))
    wrong = checked(tmp_path, cases)
    assert not wrong, "\n".join((f"seed {seed}", *wrong))


def merged(cases):
    """Graphs as one, of which every output has the number of its graph."""
    inputs, nodes, found = {}, [], {}
    for i, g in enumerate(cases):
        (node,) = g.nodes
        inputs |= {x: g.tensors[x] for x in g.inputs}
        found[f"y{i}"] = replace(g.tensors["y"], name=f"y{i}")
        nodes.append(replace(node, name=f"n{i}", outputs=(f"y{i}",)))
    outputs = tuple(GraphOutput(y, y) for y in found)
    return FusionGraph("g", (), tuple(inputs), tuple(nodes), outputs, inputs | found)


def test_what_is_written_directly_compiles_for_a_card(tmp_path):
    kinds = ("float32", "bfloat16", "int32", "int8", "uint8", "uint64", "bool")
    for dtype in kinds:
        taken = [
            g
            for _, g, _ in graphs((dtype,))
            if TRITON.spelled(g.nodes[0].op, BY_NAME[dtype]) and _is_quick(g)
        ]
        written(tmp_path / dtype, merged(taken))
    work("compile", tmp_path)


def _is_quick(graph):
    # A loop of as many steps as the type has bits.
    return graph.nodes[0].op != "Pow" or graph.tensors["y"].dtype.bits <= 32
