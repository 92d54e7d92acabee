"""Runs of calls that become functions on vector registers, and the checks of these functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from register_functions import Made, calls, findings, functions, made

from autofuse.codegen.ir.calls import Call, Number
from autofuse.codegen.ir.calls import VectorFunction as Function
from autofuse.codegen.ir.kernel_ir import Alloc, CopyIn, EnQue, For, Free
from autofuse.codegen.passes.vector_functions import MOST_CALLS, MOST_PARAMETERS
from autofuse.codegen.proofs.model import Kernel
from autofuse.codegen.verification import verify_kernel
from autofuse.codegen.verification.ranges import calls_match_their_nodes
from autofuse.codegen.verification.registers import functions_on_registers_are_whole
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME

ROOT = Path(__file__).resolve().parents[4]

Node = tuple[str, str, list[str]]


def graph(inputs: dict[str, str], nodes: list[Node], outputs: list[str]) -> dict[str, Any]:
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": n, "dtype": d, "shape": [777, 33]} for n, d in inputs.items()],
        "nodes": [
            {"name": f"n_{to}", "op": op, "inputs": of, "outputs": [to]} for to, op, of in nodes
        ],
        "outputs": outputs,
    }


@pytest.fixture(scope="module")
def gelu() -> Made:
    return made(ROOT / "examples/gallery/gelu_bias_dropout.json", template="general")


# forming --------------------------------------------------------------------------------------
def test_a_chain_has_one_load_per_input_and_one_store_per_output(gelu: Made) -> None:
    fn, impl, built = gelu
    (f,) = functions(fn)
    assert calls(fn) == []
    assert len(f.calls) > 20
    assert len(f.loads) == len(built.graph.inputs)
    assert len(f.stores) == len(built.graph.outputs)
    assert f.lane == 4
    assert verify_kernel(fn, impl, built.graph, built.target) == []


@pytest.mark.parametrize("n", [2, 3, 9, 40])
def test_whatever_the_length_of_the_chain_is(n: int) -> None:
    chain: list[Node] = [(f"v{k + 1}", ("Abs", "Exp", "Neg")[k % 3], [f"v{k}"]) for k in range(n)]
    fn, _, _ = made(graph({"v0": "float32"}, chain, [f"v{n}"]))
    (f,) = functions(fn)
    assert (len(f.loads), len(f.stores)) == (1, 1)


def test_a_chain_beyond_the_limit_is_several_functions() -> None:
    n = 3 * MOST_CALLS
    chain: list[Node] = [(f"v{k + 1}", ("Abs", "Exp")[k % 2], [f"v{k}"]) for k in range(n)]
    fn, impl, built = made(graph({"v0": "float32"}, chain, [f"v{n}"]))
    found = functions(fn)
    assert len(found) > 1
    assert max(len(f.calls) for f in found) <= MOST_CALLS
    assert sum(len(f.calls) for f in found) + len(calls(fn)) >= n
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_values_that_do_not_fit_the_registers_go_to_ub() -> None:
    """All squares are needed after all others: more than there are registers."""
    n = 40
    nodes: list[Node] = [("e0", "Exp", ["x"])]
    nodes += [(f"e{k}", "Exp", [f"e{k - 1}"]) for k in range(1, n)]
    nodes += [("s0", "Add", ["e0", f"e{n - 1}"])]
    nodes += [(f"s{k}", "Mul", [f"s{k - 1}", f"e{k}"]) for k in range(1, n)]
    fn, impl, built = made(graph({"x": "float32"}, nodes, [f"s{n - 1}"]))
    assert len(functions(fn)) > 1
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_a_function_takes_no_more_tensors_than_it_has_parameters() -> None:
    assert (
        MOST_PARAMETERS + 1 == 16
    )  # and the count; what comes behind the 16th word is not passed in registers
    names = [f"x{k}" for k in range(MOST_PARAMETERS + 5)]
    nodes: list[Node] = [("s1", "Add", names[:2])]
    nodes += [(f"s{k}", "Add", [f"s{k - 1}", names[k]]) for k in range(2, len(names))]
    outputs = [f"s{k}" for k in range(1, len(names), 3)]
    fn, impl, built = made(graph(dict.fromkeys(names, "float32"), nodes, outputs))
    for f in functions(fn):
        assert len({*f.loads, *f.stores}) <= 15
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_one_call_stays_a_call() -> None:
    fn, _, _ = made(graph({"x": "float32"}, [("y", "Exp", ["x"])], ["y"]))
    assert functions(fn) == []
    assert [s.api for s in calls(fn)] == ["Exp"]


def test_what_several_outputs_need_is_stored_once() -> None:
    nodes: list[Node] = [("a", "Exp", ["x"]), ("b", "Abs", ["a"]), ("c", "Add", ["a", "b"])]
    fn, impl, built = made(graph({"x": "float32"}, nodes, ["a", "c"]))
    (f,) = functions(fn)
    assert (len(f.loads), len(f.stores)) == (1, 2)
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_loads_come_before_a_function_and_frees_behind_it(gelu: Made) -> None:
    fn, _, _ = gelu
    (loop,) = [s for s in fn.body if isinstance(s, For)]
    (at,) = [i for i, s in enumerate(loop.body) if isinstance(s, Function)]
    f = loop.body[at]
    assert isinstance(f, Function)
    copies, behind = 0, 0
    for i, s in enumerate(loop.body):
        if isinstance(s, CopyIn):
            assert i < at
            copies += 1
        if isinstance(s, Free) or (isinstance(s, EnQue) and s.local in f.stores):
            assert i > at
            behind += 1
    assert copies == 3
    assert behind == 5


def test_a_tensor_makes_room_at_once_where_others_wait_for_its_place() -> None:
    """``m`` and ``param`` take turns in a queue: the next ``m`` is not loaded before this one is freed."""
    document = json.loads((ROOT / "examples/adam_like.json").read_text(encoding="utf-8"))
    # With the rate as one tensor more, there are more of them than queues.
    (rate,) = [i for i in document["inputs"] if i["name"] == "lr"]
    del rate["scalar"]
    rate["shape"] = ["n"]
    fn, _, _ = made(document)
    (loop,) = [s for s in fn.body if isinstance(s, For)]
    queues = [s.queue for s in loop.body if isinstance(s, Alloc)]
    at = next(i for i, s in enumerate(loop.body) if isinstance(s, Function))
    f, freed = loop.body[at], loop.body[at + 1 :]
    assert isinstance(f, Function)
    shared = [s.local for s in freed if isinstance(s, Free) and queues.count(s.queue) > 1]
    assert shared[0] in f.loads
    assert shared[0] in f.calls[-1].reads


def test_lanes_are_as_wide_as_the_widest_dtype() -> None:
    halves = [("a", "Abs", ["x"]), ("b", "Exp", ["a"])]
    fn, _, _ = made(graph({"x": "float16"}, halves, ["b"]))
    assert [f.lane for f in functions(fn)] == [2]


def test_other_architectures_have_calls_alone() -> None:
    fn, _, _ = made(ROOT / "examples/gallery/gelu_bias_dropout.json", "ascend910b1")
    assert functions(fn) == []
    assert len(calls(fn)) > 20


# checks ---------------------------------------------------------------------------------------
def test_a_function_is_proved(gelu: Made) -> None:
    assert findings(gelu, lambda f: f) == []


CHANGES: dict[str, tuple[Callable[[Function], Function], str]] = {
    "a load less": (lambda f: replace(f, loads=f.loads[1:]), "which it does not load"),
    "a store less": (lambda f: replace(f, stores=()), "leaves in a register"),
    "a store of nothing": (
        lambda f: replace(f, stores=(*f.stores, f.loads[0])),
        "which it does not compute",
    ),
    "a mask in UB": (
        lambda f: replace(
            f, stores=(*f.stores, *(s.writes[0] for s in f.calls if s.api == "CompareScalar"))
        ),
        "has the bits of",
    ),
    "fewer elements": (
        lambda f: replace(f, count=f.count - const(1)),
        "goes through the elements",
    ),
    "a call that registers do not have": (
        lambda f: replace(f, calls=(replace(f.calls[0], api="Tanh"), *f.calls[1:])),
        "have no Tanh",
    ),
    "too many values": (
        lambda f: replace(f, calls=_all_at_once(f)),
        "needs",
    ),
}


def _all_at_once(f: Function) -> tuple[Call, ...]:
    """A call at the end that reads 40 tensors of the beginning."""
    last = f.calls[-1]
    names = tuple(f"t{k}" for k in range(40))
    first = tuple(replace(f.calls[0], writes=(n,)) for n in names)
    return (*first, *f.calls[:-1], replace(last, reads=(*last.reads, *names)))


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_wrong_is_found(gelu: Made, what: str) -> None:
    change, said = CHANGES[what]
    if what == "too many values":
        (f,) = functions(gelu[0])
        dtypes = (*f.dtypes, *((f"t{k}", f.dtypes[0][1]) for k in range(40)))
        found = findings(gelu, lambda f: replace(change(f), dtypes=dtypes))
    else:
        found = findings(gelu, change)
    assert any(said in text for text in found), found


def test_a_store_over_what_a_later_step_loads_is_found() -> None:
    """A tensor twice as wide over one that is read: its steps go ahead of those that load."""
    m = made(graph({"x": "float16"}, [("a", "Abs", ["x"]), ("b", "Exp", ["a"])], ["b"]))
    fn, impl, built = m
    kernel = Kernel(fn, impl, built.graph, built.target)
    (f,) = functions(fn)
    kernel._places[f.stores[0]] = kernel._places.get(f.loads[0], f.loads[0])
    assert [x.message for x in functions_on_registers_are_whole(kernel)] == []
    wide = dict(f.dtypes) | {f.stores[0]: BY_NAME["float32"]}
    changed = replace(f, dtypes=tuple(wide.items()))
    kernel.items = [replace(i, stmt=changed) if i.stmt is f else i for i in kernel.items]
    found = [x.message for x in functions_on_registers_are_whole(kernel)]
    assert any("which a later step needs" in text for text in found), found


def test_a_number_is_no_operand() -> None:
    """The 1 of a sigmoid fills a register, not a tensor that is loaded."""
    m = made(graph({"x": "float32"}, [("a", "Sigmoid", ["x"]), ("b", "Mul", ["a", "x"])], ["b"]))
    fn, impl, built = m
    (f,) = functions(fn)
    assert f.loads == ("x_local",)
    assert [s.api for s in f.calls[: f.fills]] == ["Duplicate"]
    assert [s.api for s in f.calls].count("Duplicate") == 1
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_another_number_in_a_register_is_found() -> None:
    m = made(graph({"x": "float32"}, [("a", "Sigmoid", ["x"]), ("b", "Mul", ["a", "x"])], ["b"]))

    def other(f: Function) -> Function:
        first, *rest = f.calls
        (one,) = [a for a in first.args if isinstance(a, Number)]
        args = tuple(replace(a, value=-0.0) if a is one else a for a in first.args)
        return replace(f, calls=(replace(first, args=args), *rest))

    assert findings(m, lambda f: f, calls_match_their_nodes) == []
    (said,) = findings(m, other, calls_match_their_nodes)
    assert "a register is filled in place of n_a" in said
