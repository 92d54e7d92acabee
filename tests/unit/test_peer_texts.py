"""Peers get the same graphs as autofuse, and what their kernels move is read off correctly."""

import dataclasses
import math
import re
from types import SimpleNamespace
from typing import Any

import compare_a5
import draws
import numpy as np
import peer_graphs
import peer_inductor
import pytest
from traffic import Case, step

from autofuse.api import read
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate

CASES = [
    dataclasses.replace(
        c, inputs={n: tuple({2048: 5, 1024: 7}.get(e, e) for e in s) for n, s in c.inputs.items()}
    )
    for c in peer_graphs.cases()
]
#: Those of the comparison on registers, small.
GRAPHS = [
    dataclasses.replace(
        g,
        inputs={
            n: tuple({1024: 5, 4096: 5, 16384: 5, 256: 7}.get(e, e) for e in s)
            for n, s in g.inputs.items()
        },
    )
    for g in compare_a5.graphs()
]


def arrays(case: Case) -> dict[str, np.ndarray]:
    rng = draws.rng()
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
        "erf": np.vectorize(math.erf),
        "max_signed": np.maximum,
        "min_signed": np.minimum,
        "rec": np.reciprocal,
        "relu": lambda x: np.maximum(x, 0),
        "tanh": np.tanh,
        "vgt": np.greater,
        "vlt": np.less,
        "arith.addf": np.add,
        "arith.maximumf": np.maximum,
        "arith.minimumf": np.minimum,
    }
    infinite = {"0xFF800000": -np.inf, "0x7F800000": np.inf, "0xFC00": -np.inf, "0xFF80": -np.inf}
    values: dict[str, Any] = {f"%{n}": a.astype(np.float64) for n, a in inputs.items()}
    for line in text.splitlines()[1:-1]:
        words = line.split()
        if words[0] == "return":
            return values[words[1]]
        name, op = words[0], words[2]
        operands = re.findall(r"%\w+", line)[1:]
        shape = [int(e) for e in re.findall(r"(\d+)x", line.rpartition("tensor<")[2])]
        if op == "arith.constant":
            values[name] = infinite[words[3]] if words[3] in infinite else float(words[3])
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
        elif op == "hfusion.cast":
            values[name] = values[operands[0]]
            assert values[name].shape == tuple(shape)
        elif op == "hfusion.select":
            values[name] = np.where(*(values[o] for o in operands[:3]))
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


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: g.name)
def test_linalg_text_of_the_comparison_on_registers_is_the_same_graph(
    graph: compare_a5.Graph,
) -> None:
    doc = graph.document()
    inputs = random_inputs(read(doc), {}, 0)
    if graph.dtype == "float16":
        inputs = {n: np.clip(a, -2, 2) for n, a in inputs.items()}
    # An element per row is a tensor without the last dimension there.
    held = {n: a[:, 0] if a.shape[-1] == 1 else a for n, a in inputs.items()}
    text = peer_graphs.linalg(doc, "HOST")
    assert text.count("function_kind<HOST>") == 1
    found = run_linalg(text, held)
    near = 0.05 if "float16" in str(doc) else 1e-4
    want = expected(doc, inputs)
    np.testing.assert_allclose(found.reshape(want.shape), want, rtol=near, atol=near)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_torch_function_is_the_same_graph(case: Case) -> None:
    doc, inputs = peer_graphs.document(case), arrays(case)
    found = peer_inductor.function(doc, TORCH)(*(a.astype(np.float64) for a in inputs.values()))
    np.testing.assert_allclose(found, expected(doc, inputs), rtol=1e-5, atol=1e-6)


def test_linalg_of_other_operators_is_refused() -> None:
    doc = peer_graphs.document(Case("", "", {"x": (4, 8)}, [step("ReduceProd", "x", axes=[0])]))
    with pytest.raises(ValueError, match="ReduceProd"):
        peer_graphs.linalg(doc)


#: Rows of 100 floats: ten of sixteen cores load a row each, in pieces of 64 and 36.
