"""Rows in vector registers: which functions are formed, how often they load and store, and their check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from register_functions import Made, calls, findings, functions, made
from row_graphs import NORMS, layer_norm, reduced, softmax

from autofuse import api
from autofuse.codegen.ir.kernel_ir import RowLoop, RowStep
from autofuse.codegen.ir.kernel_ir import VectorFunction as Function
from autofuse.codegen.verification import verify_kernel
from autofuse.implgraph.expr.expression import const

#: The template whose tiles have whole rows.
WHOLE = "reduce_all"


def steps(f: Function, op: str) -> list[RowStep]:
    assert f.rows is not None
    return [s for s in f.rows.written if s.op == op]


def elements(f: Function, op: str) -> int:
    """Registers of elements of rows that are loaded, or stored, for a row."""
    return len([s for s in steps(f, op) if s.to[1] is not None])


@pytest.mark.parametrize("cols", [768, 998, 1024])
@pytest.mark.parametrize("name", NORMS)
def test_a_row_is_loaded_once_and_stored_once(name: str, cols: int) -> None:
    fn, impl, built = made(NORMS[name](256, cols), template=WHOLE)
    found = [f for f in functions(fn) if f.rows is not None]
    (f,) = found
    registers = -(-cols // 64)
    assert elements(f, "load") == registers
    assert elements(f, "store") == (registers if name != "log_sum_exp" else 0)
    assert [s.api for s in calls(fn) if s.api in ("Reduce", "WithRows", "Broadcast")] == []
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_partial_results_are_joined_as_a_tree() -> None:
    """Of 16 registers each is in four joins at most."""
    fn, _, _ = made(reduced("ReduceSum", 256, 1024), template=WHOLE)
    (f,) = functions(fn)
    depth: dict[tuple[str, int | None], int] = {}
    for s in steps(f, "join"):
        depth[s.to] = 1 + max(depth.get(x, 0) for x in s.of)
    assert len(steps(f, "join")) == 15
    assert max(depth.values()) == 4
    assert len(steps(f, "reduce")) == 1


def test_lanes_behind_the_row_are_filled_where_they_would_be_joined() -> None:
    for cols, fills in ((1024, 0), (1021, 1), (61, 0)):
        fn, _, _ = made(reduced("ReduceMax", 256, cols), template=WHOLE)
        for f in functions(fn):
            assert len(steps(f, "fill")) == fills


@pytest.mark.parametrize("cols", [2048, 2100, 5000, 8192])
@pytest.mark.parametrize("name", NORMS)
def test_longer_rows_are_streamed_once_for_a_level(name: str, cols: int) -> None:
    """What an exponential or a difference leaves for the next level goes to UB and comes back, in order."""
    fn, impl, built = made(NORMS[name](256, cols), template=WHOLE)
    (f,) = [f for f in functions(fn) if f.rows is not None]
    assert f.rows is not None
    loops = [s for s in f.rows.steps if isinstance(s, RowLoop)]
    assert [s.width for s in loops[:2]] == ([4, 1] if name == "rms_norm" else [4, 4])
    assert all(s.times == cols // 64 // s.width for s in loops)
    spilt = {"softmax", "log_softmax", "layer_norm"} & {name}
    assert len(steps(f, "loads_wait")) == len(spilt)
    assert len(steps(f, "stores_wait")) == (len(spilt) if cols % 64 else 0)
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_short_rows_stay_calls_where_these_take_all_rows_at_once() -> None:
    for cols in (4, 20, 40):
        fn, _, _ = made(softmax(25600, cols), template=WHOLE)
        assert [f for f in functions(fn) if f.rows is not None] == []


def test_rows_of_any_length_stay_calls() -> None:
    document = softmax(256, 256)
    document["symbols"] = {"n": {"hint": 256}}
    document["inputs"][0]["shape"] = [256, "n"]
    fn, _, _ = made(document, template=WHOLE)
    assert [f for f in functions(fn) if f.rows is not None] == []


def test_narrow_elements_are_spread_to_the_lanes_of_the_widest() -> None:
    fn, impl, built = made(layer_norm(256, 768, "bfloat16"), template=WHOLE)
    (f,) = [f for f in functions(fn) if f.rows is not None]
    assert f.lane == 4
    assert elements(f, "load") == 12
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_sums_in_a_stated_order_stay_calls() -> None:
    built = api.build(softmax(256, 256), target="ascend950pr", invariant=True)
    text = built.files["device/r_kernel.cpp"]
    assert "SumInOrder" in text
    assert "ReduceType::SUM" not in text


def test_other_architectures_have_no_rows() -> None:
    fn, _, _ = made(softmax(256, 256), "ascend910b1", WHOLE)
    assert functions(fn) == []


# the check ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def norm() -> Made:
    return made(layer_norm(256, 998), template=WHOLE)


def changed(f: Function, what: Callable[[list[RowStep]], list[RowStep]]) -> Function:
    """A function with other steps, those of each loop by themselves."""
    if f.rows is None:
        return f
    have: list[RowStep | RowLoop] = []
    flat = [s for s in f.rows.steps if isinstance(s, RowStep)]
    if len(flat) == len(f.rows.steps):
        have += what(flat)
    else:
        for s in f.rows.steps:
            of = what(list(s.steps)) if isinstance(s, RowLoop) else what([s])
            have += [replace(s, steps=tuple(of))] if isinstance(s, RowLoop) else of
    return replace(f, rows=replace(f.rows, steps=tuple(have)))


def without(op: str, which: int = 0) -> Callable[[Function], Function]:
    """A function that lacks a step."""

    def of(f: Function) -> Function:
        def what(have: list[RowStep]) -> list[RowStep]:
            found = [k for k, s in enumerate(have) if s.op == op]
            return [s for k, s in enumerate(have) if k != found[which]]

        return changed(f, what)

    return of


def with_step(op: str, which: int = 0, **values: object) -> Callable[[Function], Function]:
    """A function with one step changed."""

    def of(f: Function) -> Function:
        def what(have: list[RowStep]) -> list[RowStep]:
            found = [k for k, s in enumerate(have) if s.op == op]
            have[found[which]] = replace(have[found[which]], **values)
            return have

        return changed(f, what)

    return of


def in_two_places(f: Function) -> Function:
    """A join that takes one operand twice."""

    def what(have: list[RowStep]) -> list[RowStep]:
        at = next(k for k, s in enumerate(have) if s.op == "join")
        have[at] = replace(have[at], of=(have[at].of[0], have[at].of[0]))
        return have

    return changed(f, what)


def _reduced_early(have: list[RowStep]) -> list[RowStep]:
    """The reduction takes what was joined first."""
    first = next(s for s in have if s.op == "join")
    at = next(k for k, s in enumerate(have) if s.op == "reduce")
    behind = have.index(first) + 1
    early = replace(have[at], of=(first.to,))
    return [*have[:behind], early, *have[behind:at], *have[at + 1 :]]


FAULTS: dict[str, tuple[Callable[[Function], Function], str]] = {
    "a load left out": (without("load"), "other values"),
    "a call left out": (without("call", 1), "other values"),
    "a store left out": (without("store", -1), "does not store all"),
    "a store twice": (
        lambda f: changed(f, lambda have: [*have, next(s for s in have if s.op == "store")]),
        "twice",
    ),
    "lanes that are not filled": (without("fill"), "two parts"),
    "another fill": (with_step("fill", lanes="all"), "not of the row"),
    "a join left out": (without("join"), "two parts"),
    "a part of the row that is not joined": (
        lambda f: changed(f, lambda have: _reduced_early(have)),
        "a part of the row",
    ),
    "a join of one part with itself": (in_two_places, "two parts"),
    "a join of some lanes": (with_step("join", lanes="row"), "not of the row"),
    "a reduction of some lanes": (with_step("reduce", lanes="part"), "not of the row"),
    "a result in one lane only": (without("spread"), "other values"),
    "a result in some lanes": (with_step("spread", lanes="row"), "some lanes"),
    "a call on too few lanes": (with_step("call", lanes="row"), "other lanes"),
    "a store of too many lanes": (with_step("store", -1, lanes="all"), "other lanes"),
    "rows of another length": (
        lambda f: replace(f, rows=replace(f.rows, length=997)) if f.rows else f,
        "takes what",
    ),
    "rows that lie apart": (
        lambda f: replace(f, rows=replace(f.rows, pitch=1008)) if f.rows else f,
        "rows as long as",
    ),
    "fewer rows": (
        lambda f: replace(f, rows=replace(f.rows, count=f.rows.count - const(1))) if f.rows else f,
        "goes through the rows",
    ),
}


def test_a_function_with_rows_is_proved(norm: Made) -> None:
    assert findings(norm, lambda f: f) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(norm: Made, fault: str) -> None:
    change, said = FAULTS[fault]
    found = findings(norm, change)
    assert any(said in text for text in found), found


@pytest.fixture(scope="module")
def streamed() -> Made:
    return made(softmax(256, 2100), template=WHOLE)


def dropped(op: str) -> Callable[[Function], Function]:
    return lambda f: changed(f, lambda have: [s for s in have if s.op != op])


STREAMED_FAULTS: dict[str, tuple[Callable[[Function], Function], str]] = {
    "no barrier before a load of what was stored": (dropped("loads_wait"), "does not wait"),
    "no barrier before a store of what was loaded": (dropped("stores_wait"), "the row before"),
    "partial results that begin with nothing": (dropped("start"), "two parts"),
    "a loop that ends early": (
        lambda f: (
            replace(f, rows=replace(f.rows, steps=tuple(map(_shorter, f.rows.steps))))
            if f.rows
            else f
        ),
        "a part of the row",
    ),
    "no stores in a loop": (dropped("store"), "does not wait"),
    "no loads in a loop": (dropped("load"), "other values"),
    "no joins in a loop": (dropped("join"), "a part of the row"),
}


def _shorter(s: RowStep | RowLoop) -> RowStep | RowLoop:
    return replace(s, times=s.times - 1) if isinstance(s, RowLoop) else s


def test_a_streamed_row_is_proved(streamed: Made) -> None:
    assert findings(streamed, lambda f: f) == []


@pytest.mark.parametrize("fault", STREAMED_FAULTS)
def test_a_fault_of_a_streamed_row_is_found(streamed: Made, fault: str) -> None:
    change, said = STREAMED_FAULTS[fault]
    found = findings(streamed, change)
    assert any(said in text for text in found), found
