"""Graphs as functions of PyTorch: every op against its reference, and whatever else a graph may have."""

from __future__ import annotations

import ast
import dataclasses
import random
from pathlib import Path
from typing import Any

import draws
import numpy as np
import pytest
from extras import required

pytestmark = required("torch")

import torch
from op_graphs import DTYPES, graphs
from op_steps import OPS, STEPS, add_op
from storm_maker import Maker
from torch_functions import from_torch, loaded, to_torch, wrong

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.pytorch.baseline import TORCH, baseline_text
from autofuse.codegen.backends.triton.signature import entry_point
from autofuse.implgraph.cutting.dimensions import shrink
from autofuse.implgraph.ir.fusion import Constant, FusionGraph
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.machines.twin.oracle.oracle import evaluate
from autofuse.machines.twin.oracle.sizes import largest_tensor

#: Functions of PyTorch lose digits of results near 0, whose error the bound of our own ones is relative to.
NEAR_ZERO = 1e-6
#: Of uint64, which PyTorch hardly computes with, these have another meaning for numbers from 2^63 on.
REFUSED = {"Pow", "RShift", "BitShift", "FloorDiv", "TruncDiv", "Remainder", "Fmod", "Mod"}
REFUSED |= {"TrueDiv"}


def function_of(graph: FusionGraph) -> Any:
    return loaded(baseline_text(graph), entry_point(graph))


def document(
    inputs: list[tuple[str, str, list[Any]]],
    nodes: list[tuple[str, list[Any], str, dict[str, Any]]],
    outputs: list[Any],
    *,
    name: str = "g",
    **symbols: dict[str, int],
) -> FusionGraph:
    """A graph whose nodes are (op, inputs, output, attributes)."""
    return api.read(
        {
            "schema": "autofuse.graph/1",
            "name": name,
            "symbols": symbols,
            "inputs": [{"name": n, "dtype": d, "shape": s} for n, d, s in inputs],
            "nodes": [
                {
                    "name": f"n{k}",
                    "op": op,
                    "inputs": [x if isinstance(x, str) else {"const": x} for x in xs],
                    "outputs": [out],
                    "attrs": attrs,
                }
                for k, (op, xs, out, attrs) in enumerate(nodes)
            ],
            "outputs": outputs,
        }
    )


def test_every_op_has_a_row() -> None:
    assert set(TORCH) == set(OPS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise_ops(dtype: str) -> None:
    seed, found, refused = draws.seed(), [], set()
    for title, graph, _ in graphs((dtype,)):
        try:
            function = function_of(graph)
        except AutofuseError:
            refused.add(graph.nodes[0].op)
            continue
        inputs = random_inputs(graph, {}, seed)
        found += [f"{title}: {w}" for w in wrong(graph, function, inputs, {}, atol=NEAR_ZERO)]
    assert not found, "\n".join((f"seed {seed}", *found))
    assert refused == (REFUSED if dtype == "uint64" else set())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "uint16", "bool"])
def test_one_operand_is_a_number(dtype: str) -> None:
    """A constant in each place; the table takes numbers in some, and makes tensors of others."""
    seed, found = draws.seed(), []
    value: Any = {"f": 2.5, "i": 3, "u": 3, "b": True}[
        {"b": "b", "u": "u", "i": "i"}.get(dtype[0], "f")
    ]
    for title, graph, _ in graphs((dtype,)):
        node = graph.nodes[0]
        tensors = [x for x in node.inputs if isinstance(x, str)]
        if len(tensors) < 2 or node.op in ("LaguerrePolynomialL", "LegendrePolynomialP"):
            continue
        for k, x in enumerate(node.inputs):
            if not isinstance(x, str):
                continue
            kind = graph.tensors[x].dtype
            own = True if kind.kind == "b" else value
            changed = [Constant(own, kind) if i == k else y for i, y in enumerate(node.inputs)]
            kept = tuple(y for y in graph.inputs if y in changed)
            one = dataclasses.replace(node, inputs=tuple(changed))
            made = dataclasses.replace(graph, inputs=kept, nodes=(one,))
            inputs = random_inputs(made, {}, seed)
            try:
                bad = wrong(made, function_of(made), inputs, {}, atol=NEAR_ZERO)
            except (TypeError, RuntimeError) as e:
                bad = [f"{type(e).__name__}: {e}"]
            found += [f"{title} at {k}: {w}" for w in bad]
    assert not found, "\n".join((f"seed {seed}", *found))


@pytest.mark.parametrize("op", sorted(STEPS))
def test_ops_with_attributes(op: str) -> None:
    """Reductions, moves and the rest on random tensors of several ranks, some with sizes of 0 and 1."""
    seed = draws.seed()
    found, tried = [], 0
    rng = random.Random(seed)
    for k in range(40):
        maker = Maker(random.Random(rng.random()))
        dtype = rng.choice(("float32", "float16", "bfloat16", "int32", "int8", "uint8", "int64"))
        shape = [rng.choice((1, 2, 3, 7, 12)) for _ in range(rng.randint(1, 4))]
        x = maker.input(dtype, shape)
        made = add_op(maker, op, x, maker.input(dtype, shape))
        if made is None:
            continue
        tried += 1
        graph = api.read(
            {
                "schema": "autofuse.graph/1",
                "name": "g",
                "inputs": maker.inputs,
                "nodes": maker.nodes,
                "outputs": [made],
            }
        )
        inputs = random_inputs(graph, {}, seed + k)
        bound = wrong(graph, function_of(graph), inputs, {}, rtol=1e-6, atol=NEAR_ZERO)
        found += [f"{dtype}{shape} {maker.nodes[-1]['attrs']}: {w}" for w in bound]
    assert tried > 3
    assert not found, "\n".join((f"seed {seed}", *found))


REDUCTIONS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "ReduceAny")


@pytest.mark.parametrize("op", [*REDUCTIONS, "ReduceAll"])
@pytest.mark.parametrize("attrs", [{}, {"axes": [-1, 0]}, {"axes": [1], "keepdims": True}], ids=str)
def test_reductions_along_several_axes_and_of_nothing(op: str, attrs: dict[str, Any]) -> None:
    for dtype in ("float32", "float16", "int16", "uint64"):
        if op == "ReduceMean" and dtype[0] != "f":
            continue
        graph = document(
            [("x", dtype, ["m", "n", 3])],
            [(op, ["x"], "y", attrs)],
            ["y"],
            m={"min": 0, "max": 99},
            n={"min": 0, "max": 99},
        )
        function = function_of(graph)
        for sizes in ({"m": 4, "n": 5}, {"m": 1, "n": 1}, {"m": 2, "n": 0}, {"m": 0, "n": 3}):
            empty = 0 in sizes.values() and op == "ReduceMean"
            if empty:
                continue
            inputs = random_inputs(graph, sizes, draws.seed())
            if op == "ReduceProd":
                inputs["x"] = np.clip(inputs["x"], 0 if dtype[0] == "u" else -2, 2)
            assert not wrong(graph, function, inputs, sizes, rtol=1e-6), sizes


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(exclusive: bool, reverse: bool) -> None:
    for dtype, axis in (("float32", 0), ("bfloat16", 1), ("int8", -1), ("uint32", 1)):
        graph = document(
            [("x", dtype, ["n", 4, "n"])],
            [("CumSum", ["x"], "y", {"axis": axis, "exclusive": exclusive, "reverse": reverse})],
            ["y"],
            n={"min": 0, "max": 99},
        )
        for n in (0, 1, 5):
            inputs = random_inputs(graph, {"n": n}, draws.seed())
            assert not wrong(graph, function_of(graph), inputs, {"n": n}), n


def test_slices_with_sizes_and_steps_of_either_direction() -> None:
    attrs = {"starts": [0, "n-1", 1], "shape": ["k", "n", 2], "steps": [2, -1, 3]}
    graph = document(
        [("x", "float32", ["2*k", "n", 6])],
        [("Slice", ["x"], "y", attrs)],
        ["y"],
        n={"min": 1, "max": 99},
        k={"min": 0, "max": 99},
    )
    for sizes in ({"n": 1, "k": 0}, {"n": 1, "k": 1}, {"n": 7, "k": 3}):
        inputs = random_inputs(graph, sizes, 0)
        assert not wrong(graph, function_of(graph), inputs, sizes)


def test_gathers_take_places_from_either_end_and_the_nearest_beyond() -> None:
    graph = document(
        [("x", "float16", [5, 4]), ("i", "int32", [2, 3]), ("j", "int64", [5, 2])],
        [
            ("Gather", ["x", "i"], "y", {"axis": 1}),
            ("GatherElements", ["x", "j"], "z", {"axis": -1}),
        ],
        ["y", "z"],
    )
    inputs = random_inputs(graph, {}, 0)
    inputs["i"] = np.array([[-9, 3, 4], [0, -1, 99]], np.int32)
    inputs["j"] = np.array([[-4, 4], [-5, 3], [0, 1], [-1, -2], [7, -7]], np.int64)
    assert not wrong(graph, function_of(graph), inputs, {})


def test_numbers_without_an_input() -> None:
    graph = document(
        [],
        [
            (
                "Iota",
                [],
                "i",
                {"shape": ["n", 3], "axis": 0, "dtype": "int16", "start": -2, "step": 3},
            ),
            ("Iota", [], "f", {"shape": [3, "n"], "axis": -1, "dtype": "float32"}),
        ],
        ["i", "f"],
        n={"min": 0, "max": 9},
    )
    function = function_of(graph)
    for n in (0, 1, 5):
        made = function(n=n, device="cpu")
        want = evaluate(graph, {}, {"n": n})
        for name, x in zip(("i", "f"), made, strict=True):
            assert x.is_contiguous()
            np.testing.assert_array_equal(from_torch(x), want[name].value)


# memory of results ----------------------------------------------------------------------------
def test_inputs_that_exchange_their_places() -> None:
    graph = document(
        [("a", "float32", ["n"]), ("b", "float32", ["n"])],
        [("Identity", ["a"], "c", {}), ("Mul", ["a", "b"], "p", {})],
        [
            {"name": "a2", "tensor": "b", "inout": "a"},
            {"name": "b2", "tensor": "c", "inout": "b"},
            "p",
            {"name": "before", "tensor": "a"},
        ],
        n={"min": 0, "max": 99},
    )
    a, b = torch.arange(4.0), torch.arange(4.0) + 10
    old = a.clone(), b.clone()
    a2, b2, p, before = function_of(graph)(a, b)
    assert a2 is a
    assert b2 is b
    for made, want in ((a, old[1]), (b, old[0]), (p, old[0] * old[1]), (before, old[0])):
        assert torch.equal(made, want)


def test_results_are_new_and_contiguous() -> None:
    """A view takes no time and is no copy: the kernel writes all elements."""
    graph = document(
        [("x", "float32", [3, 4])],
        [
            ("Transpose", ["x"], "t", {"perm": [1, 0]}),
            ("Broadcast", ["x"], "b", {"shape": [2, 3, 4]}),
            ("Reshape", ["x"], "r", {"shape": [12]}),
            ("Abs", ["t"], "a", {}),
        ],
        ["t", "b", "r", "a", {"name": "again", "tensor": "a"}, {"name": "whole", "tensor": "x"}],
    )
    x = torch.randn(3, 4)
    made = function_of(graph)(x)
    memory = [m.data_ptr() for m in made]
    assert len({*memory, x.data_ptr()}) == len(made) + 1
    assert all(m.is_contiguous() for m in made)
    assert not wrong(graph, function_of(graph), {"x": x.numpy()}, {})


def test_a_reference_may_be_wider() -> None:
    """As ``to_reference`` makes it: floats of 64 bits for those of 16."""
    graph = document(
        [("x", "float16", [50]), ("y", "float16", [50])],
        [
            ("Erfc", ["x"], "e", {}),
            ("Maximum", ["e", "y"], "m", {}),
            ("Greater", ["m", 0.5], "c", {}),
            ("Select", ["c", "m", 0.0], "s", {}),
        ],
        ["s"],
    )
    function = function_of(graph)
    x, y = torch.randn(50).half(), torch.randn(50).half()
    found = function(x.double(), y.double())
    torch.testing.assert_close(found.half(), function(x, y), rtol=2e-3, atol=2e-3)


def test_shapes_that_do_not_fit() -> None:
    graph = document(
        [("x", "float32", ["n", 4]), ("y", "float32", [4])],
        [("Add", ["x", "y"], "z", {})],
        ["z"],
        n={"min": 0, "max": 99},
    )
    function = function_of(graph)
    with pytest.raises(ValueError, match=r"y is \(3,\), not \(4,\)"):
        function(torch.zeros(2, 4), torch.zeros(3))


# names ----------------------------------------------------------------------------------------
HOSTILE = ("tl", "lambda", "torch", "x):", "a\\b", "'''", '"""', "{x}", "@", "# @", "dim", "float")


def test_what_pytorch_has_no_form_for_is_said() -> None:
    graph = document(
        [("x", "uint64", [3]), ("y", "uint64", [3])], [("FloorDiv", ["x", "y"], "z", {})], ["z"]
    )
    with pytest.raises(AutofuseError, match=r"AF3001.*FloorDiv for uint64"):
        baseline_text(graph)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_graphs_are_identifiers_or_nothing(name: str) -> None:
    graph = document(
        [(name, "float32", ["n", 3]), ("y", "float32", [3])],
        [("Add", [name, "y"], f"{name}2", {}), ("Exp", [f"{name}2"], f"{name}3", {})],
        [{"name": f"{name}4", "tensor": f"{name}3"}],
        name=name,
        n={"min": 0, "max": 9},
    )
    text = baseline_text(graph)
    assert "@" not in text
    tree = ast.parse(text)
    assert [n for n in tree.body if isinstance(n, ast.FunctionDef)] == [tree.body[-1]]
    x, y = torch.randn(2, 3), torch.randn(3)
    torch.testing.assert_close(function_of(graph)(x, y), torch.exp(x + y))


def test_the_text_follows_from_the_graph_alone() -> None:
    graph = document([("x", "float32", [3])], [("Exp", ["x"], "y", {})], ["y"])
    assert baseline_text(graph) == baseline_text(graph)


def test_arrays_come_through_as_they_are() -> None:
    for dtype in ("bfloat16", "uint16", "bool"):
        graph = document([("x", dtype, [5])], [("Identity", ["x"], "y", {})], ["y"])
        x = random_inputs(graph, {}, 3)["x"]
        assert from_torch(to_torch(x)).tobytes() == x.tobytes()


@pytest.mark.corpus
def test_graphs_of_a_corpus(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))
    seed, tried = draws.seed(), 0
    for k in draws.some("kernelgen baselines", 25, len(paths)):
        try:
            graph = shrink(api.read(paths[k]), 4096)
        except AutofuseError:  # matrix products, and what else the reader refuses
            continue
        if largest_tensor(graph, {}) > 1 << 17:
            continue
        tried += 1
        found = wrong(
            graph, function_of(graph), random_inputs(graph, {}, seed), {}, rtol=1e-5, atol=NEAR_ZERO
        )
        assert not found, f"{paths[k].name}, seed {seed}: {found}"
    assert tried > 10
