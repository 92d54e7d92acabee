"""Peers get the same graphs as autofuse, and what their kernels move is read off correctly."""

import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import hivm_text
import numpy as np
import peer_graphs
import peer_inductor
import pytest
from traffic import Case, step

from autofuse.api import read
from autofuse.twin.oracle.oracle import evaluate

CASES = [
    dataclasses.replace(
        c, inputs={n: tuple({2048: 5, 1024: 7}.get(e, e) for e in s) for n, s in c.inputs.items()}
    )
    for c in peer_graphs.cases()
]


def arrays(case: Case) -> dict[str, np.ndarray]:
    rng = np.random.default_rng()
    return {n: rng.uniform(-2, 2, s).astype(np.float32) for n, s in case.inputs.items()}


def expected(doc: dict[str, Any], inputs: dict[str, np.ndarray]) -> np.ndarray:
    """What the operators of the registry say, in float64."""
    (found,) = evaluate(read(doc), inputs, {}).values()
    return found.value.astype(np.float64)


def run_linalg(text: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The function of an MLIR module, operation by operation, in float64; shapes have to be those that it states."""
    functions = {
        "abs": np.abs,
        "exp": np.exp,
        "log": np.log,
        "negf": np.negative,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "arith.addf": np.add,
        "arith.maximumf": np.maximum,
    }
    values: dict[str, Any] = {f"%{n}": a.astype(np.float64) for n, a in inputs.items()}
    for line in text.splitlines()[1:-1]:
        words = line.split()
        if words[0] == "return":
            return values[words[1]]
        name, op = words[0], words[2]
        operands = re.findall(r"%\w+", line)[1:]
        shape = [int(e) for e in re.findall(r"(\d+)x", line.rpartition("tensor<")[2])]
        if op == "arith.constant":
            values[name] = -np.inf if words[3] == "0xFF800000" else float(words[3])
        elif op == "tensor.empty()":
            values[name] = np.full(shape, np.nan)
        elif op == "linalg.fill":
            values[name] = np.full(shape, values[operands[0]])
        elif op == "linalg.broadcast":
            (missing,) = re.findall(r"dimensions = \[(\d)\]", line)
            x, out = values[operands[0]], values[operands[1]]
            values[name] = np.broadcast_to(np.expand_dims(x, int(missing)), out.shape)
        elif op == "linalg.reduce":
            x, first = (values[o] for o in operands)
            (axis,) = re.findall(r"dimensions = \[(\d)\]", line)
            f = functions[re.findall(r"\{([\w.]+)\}", line)[0]]
            values[name] = f(f.reduce(x, int(axis)), first)
        else:
            (f,) = re.findall(r"_fn<(\w+)>", line)
            *given, out = (values[o] for o in operands)
            assert all(np.shape(x) in ((), out.shape) for x in given)
            values[name] = functions[f](*given)
            assert values[name].shape == tuple(shape)
    raise AssertionError("nothing is returned")


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    powers = np.exp(x - x.max(dim, keepdims=True))
    return powers / powers.sum(dim, keepdims=True)


#: NumPy under the names of torch.
TORCH = SimpleNamespace(
    abs=np.abs,
    add=np.add,
    div=np.divide,
    exp=np.exp,
    log=np.log,
    mul=np.multiply,
    neg=np.negative,
    mean=lambda x, dim, keepdim: x.mean(tuple(dim), keepdims=keepdim),
    rsqrt=lambda x: 1 / np.sqrt(x),
    softmax=softmax,
    sqrt=np.sqrt,
    sub=np.subtract,
)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_linalg_text_is_the_same_graph(case: Case) -> None:
    doc, inputs = peer_graphs.document(case), arrays(case)
    found = run_linalg(peer_graphs.linalg(doc), inputs)
    np.testing.assert_allclose(found, expected(doc, inputs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_torch_function_is_the_same_graph(case: Case) -> None:
    doc, inputs = peer_graphs.document(case), arrays(case)
    found = peer_inductor.function(doc, TORCH)(*(a.astype(np.float64) for a in inputs.values()))
    np.testing.assert_allclose(found, expected(doc, inputs), rtol=1e-5, atol=1e-6)


def test_linalg_of_other_operators_is_refused() -> None:
    doc = peer_graphs.document(Case("", "", {"x": (4, 8)}, [step("ReduceSum", "x", axes=[0])]))
    with pytest.raises(ValueError, match="ReduceSum"):
        peer_graphs.linalg(doc)


#: Rows of 100 floats: ten of sixteen cores load a row each, in pieces of 64 and 36.
KERNEL = """\
#map = affine_map<()[s0] -> (-s0 + 10)>
#map1 = affine_map<()[s0, s1] -> (s0 + s1)>
#map2 = affine_map<(d0) -> (-d0 + 100, 64)>
module {
  func.func private @load_gm_to_ubuf_1d_float(memref<?xf32, #hivm.address_space<gm>>, i32)
  func.func @peer(%arg0: memref<10x100xf32, #gm> {hacc.arg_type = #hacc.arg_type<input>}, \
%arg1: memref<10x100xf32, #gm> {hacc.arg_type = #hacc.arg_type<output>}) \
attributes {hacc.block_dim = 16 : i64, hacc.entry} {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %c100 = arith.constant 100 : index
    %0 = hivm.hir.get_block_idx -> i64
    %1 = arith.index_cast %0 : i64 to index
    %2 = affine.apply #map()[%1]
    scf.for %arg2 = %c0 to %2 step %c16 {
      %3 = affine.apply #map1()[%1, %arg2]
      scf.for %arg3 = %c0 to %c100 step %c64 {
        %4 = affine.min #map2(%arg3)
        %v = memref.subview %arg0[%3, %arg3] [1, %4] [1, 1] : memref<10x100xf32, #gm> to memref<1x?xf32, #gm>
        %5 = memref.collapse_shape %v [[0, 1]] : memref<1x?xf32, #gm> into memref<?xf32, #gm>
        func.call @load_gm_to_ubuf_1d_float(%5, %u) : (memref<?xf32, #hivm.address_space<gm>>, \
memref<?xf32, #hivm.address_space<ub>>) -> ()
      }
      %w = memref.subview %arg1[%3, 0] [1, 100] [1, 1] : memref<10x100xf32, #gm> to memref<1x100xf32, #gm>
      func.call @store_ubuf_to_gm_1d_float(%u, %w) : (memref<?xf32, #hivm.address_space<ub>>, \
memref<?xf32, #hivm.address_space<gm>>) -> ()
    } {pipeline.veconly}
    return
  }
}
"""


def test_loops_are_counted_for_every_core() -> None:
    found = hivm_text.moved(KERNEL)
    assert (found.block_dim, found.cores) == (16, 10)
    assert found.read_of("input") == found.read.total() == 4000
    assert found.written == {"%arg1": 4000}


def test_what_is_read_twice_counts_twice() -> None:
    loop = KERNEL[KERNEL.index("      scf.for %arg3") : KERNEL.index("      %w = ")]
    found = hivm_text.moved(KERNEL.replace(loop, loop + loop))
    assert found.read_of("input") == 8000


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("to %c100", "to %unknown", "%unknown depends on data"),
        ("@store_ubuf_to_gm_1d_float(", "@scatter(", "call of scatter"),
        ("hacc.entry", "", "0 kernels"),
        ("step %c64 {", "step %c64 iter_args(%a = %b) {", "iter_args"),
    ],
)
def test_what_is_not_understood_is_no_figure(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hivm_text.moved(KERNEL.replace(old, new))


@pytest.mark.parametrize(
    ("text", "value"),
    [("s0 floordiv 3 + 1", 3), ("(s0 ceildiv 3) * -2", -6), ("s0 - d0 mod 4", 4), ("-s0", -7)],
)
def test_affine_expressions(text: str, value: int) -> None:
    assert hivm_text.evaluate(text, {"s0": 7, "d0": 11}) == value
