"""Rows in vector registers: which functions are formed, how often they load and store, and their check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from register_functions import Made, calls, findings, functions, made, statements
from row_graphs import (
    FAMILIES,
    NORMS,
    elements_of_rows,
    graph,
    layer_norm,
    node,
    reduced,
    shifted_softmax,
    softmax,
    weighed_layer_norm,
)

from autofuse import api
from autofuse.codegen.backends.ascendc.emit_cpp import emit_function
from autofuse.codegen.ir.calls import Call, Count, RowLoop, RowStep
from autofuse.codegen.ir.calls import VectorFunction as Function
from autofuse.codegen.ir.kernel_ir import For, GetBuf
from autofuse.codegen.passes import vector_functions
from autofuse.codegen.passes.row_places import stored_too_early
from autofuse.codegen.passes.vector_functions import _Known
from autofuse.codegen.proofs.model import Kernel
from autofuse.codegen.verification import rows_in_registers, verify_kernel
from autofuse.codegen.verification.ranges import calls_cover_the_tile, calls_match_their_nodes
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


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("cols", [768, 1000, 4096])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_tile_is_one_function(name: str, cols: int, dtype: str) -> None:
    """Nothing else of the vector unit is in the loop over tiles; what has no tile comes before it."""
    template = "row_0" if name == "gelu_chain" else WHOLE
    fn, impl, built = made(FAMILIES[name](6400, cols, dtype), template=template)
    (tiles,) = [s for s in fn.body if isinstance(s, For)]
    of_vector = [s for s in statements(tiles.body) if isinstance(s, Function | Call)]
    assert [type(s) for s in of_vector] == [Function], of_vector
    assert verify_kernel(fn, impl, built.graph, built.target) == []


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("cols", [768, 1000, 2100])
def test_weights_of_all_rows_of_a_tile_are_read_as_one_row(cols: int, dtype: str) -> None:
    fn, impl, built = made(weighed_layer_norm(100, cols, dtype, batches=8), template=WHOLE)
    (f,) = [f for f in functions(fn) if f.rows is not None]
    assert {"v_gamma_local", "beta_local"} < {*f.loads}
    text = emit_function(fn)
    pitch = -(-cols // 16) * 16 if dtype == "float16" else -(-cols // 8) * 8
    assert f"x_local + r * {pitch}" in text
    assert "v_gamma_local + r" not in text
    assert "Broadcast" not in text
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_what_needs_no_reduction_waits_for_what_needs_it() -> None:
    """Sixteen registers of a row, and one mask at a time."""
    fn, _, _ = made(FAMILIES["cross_entropy"](6400, 1000), template=WHOLE)
    (f,) = [f for f in functions(fn) if f.rows is not None]
    (compare,) = [k for k, s in enumerate(f.calls) if s.api == "Compare"]
    (select,) = [k for k, s in enumerate(f.calls) if s.api == "Select"]
    of = [s.call for s in steps(f, "call") if s.call in (compare, select)]
    assert of == [compare, select] * 16


def test_results_are_stored_where_their_operands_were() -> None:
    for document in (shifted_softmax(256, 2100), weighed_layer_norm(6400, 8192)):
        fn, impl, built = made(document, template=WHOLE)
        (f,) = [f for f in functions(fn) if f.rows is not None]
        touched = [*f.loads, *f.stores]
        places = Kernel(fn, impl, built.graph, built.target)
        shared = [x for x in f.stores for y in touched if x != y and places.shares(x, y)]
        assert shared
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
        (f,) = functions(fn)
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
    assert len(steps(f, "stores_wait")) == 0
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


@pytest.fixture(scope="module")
def weighed() -> Made:
    return made(weighed_layer_norm(100, 1000, batches=8), template=WHOLE)


def _other_call(f: Function, api: str, **values: object) -> Function:
    """The function with another first call of its kind."""
    at = next((k for k, s in enumerate(f.calls) if s.api == api), None)
    if at is None:
        return f
    other = replace(f.calls[at], **values)
    return replace(f, calls=(*f.calls[:at], other, *f.calls[at + 1 :]))


WEIGHED_FAULTS: dict[str, tuple[Callable[[Function], Function], str]] = {
    "weights that are elements of rows": (
        lambda f: _other_call(f, "Broadcast", form="Inner"),
        "goes through the rows",
    ),
    "weights that have rows, too": (
        lambda f: _other_call(f, "WithRows", reads=("v_gamma_local", "mean_reducesum_local")),
        "one row of v_gamma_local",
    ),
    "weights that are stored": (
        lambda f: replace(f, stores=(*f.stores, "v_gamma_local")) if f.rows else f,
        "for each row",
    ),
    "a load of weights left out": (
        lambda f: changed(
            f, lambda have: [s for s in have if s.op != "load" or s.to != ("v_gamma_local", 3)]
        ),
        "other values",
    ),
}


def test_a_function_with_weights_is_proved(weighed: Made) -> None:
    assert findings(weighed, lambda f: f) == []


@pytest.mark.parametrize("fault", WEIGHED_FAULTS)
def test_a_fault_of_weights_is_found(weighed: Made, fault: str) -> None:
    change, said = WEIGHED_FAULTS[fault]
    found = findings(weighed, change)
    assert any(said in text for text in found), found


def _early(have: list[RowStep]) -> list[RowStep]:
    """Each store before what is loaded last in front of it."""
    out = list(have)
    for k, s in enumerate(have):
        if s.op == "load" and any(x.op == "store" for x in have[k:]):
            at = next(i for i in range(k, len(have)) if have[i].op == "store")
            out[k], out[at] = out[at], out[k]
            break
    return out


IN_PLACE_FAULTS: dict[str, tuple[Callable[[Function], Function], str]] = {
    "no barrier before a store over what was loaded": (dropped("stores_wait"), "the row before"),
    "no barrier before what was stored is loaded": (dropped("loads_wait"), "does not wait"),
    "stores before loads": (lambda f: changed(f, _early), "other values"),
}


@pytest.fixture(scope="module")
def in_place() -> Made:
    return made(shifted_softmax(256, 2100), template=WHOLE)


@pytest.mark.parametrize("fault", IN_PLACE_FAULTS)
def test_a_fault_of_results_in_place_is_found(in_place: Made, fault: str) -> None:
    change, said = IN_PLACE_FAULTS[fault]
    found = findings(in_place, change)
    assert any(said in text for text in found), found


def _narrow_elements(kind: str, dtype: str = "int8", cols: int = 40, as_dtype: str = "") -> Made:
    return made(elements_of_rows(kind, dtype, cols=cols, as_dtype=as_dtype), template="reduce_0")


@pytest.mark.parametrize("cols", [40, 61])
@pytest.mark.parametrize("as_dtype", ["", "uint8", "float16"])
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin", "ReduceSum"])
def test_an_element_is_loaded_before_its_place_has_a_result(
    kind: str, as_dtype: str, cols: int
) -> None:
    """The accumulator has the place of elements that are copied to rows before: one of both is in the function."""
    for dtype in ("int8", "uint8"):
        fn, impl, built = _narrow_elements(kind, dtype, cols, as_dtype)
        places = Kernel(fn, impl, built.graph, built.target)
        for f in functions(fn):
            assert [x for x in f.stores for y in f.loads if f.rows and places.shares(x, y)] == []
        assert verify_kernel(fn, impl, built.graph, built.target) == []


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceSum"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_what_is_loaded_behind_a_store_in_its_place_is_found(
    dtype: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof follows what UB holds by itself, and so does what the pass asks of it."""
    monkeypatch.setattr(vector_functions, "stored_too_early", lambda *_: ())
    m = _narrow_elements(kind, dtype)
    assert any("which may be loaded later" in text for text in findings(m, lambda f: f))
    monkeypatch.setattr(rows_in_registers, "stored_too_early", lambda *_: ())
    found = findings(m, lambda f: f)
    assert any("over which it stored another value" in text for text in found), found
    fn, impl, built = m
    said = [d.message for d in verify_kernel(fn, impl, built.graph, built.target)]
    assert any("over which it stored another value" in text for text in said), said


def test_orders_of_a_load_and_a_store_in_one_place() -> None:
    """What is stored needs what is loaded there, or waits for it; what is loaded behind it is something else."""
    load = RowStep("load", to=("a", 0), of=(("a", 0),))
    call = RowStep("call", 0, ("x", 0), (("a", 0),))
    store = RowStep("store", -1, ("x", 0), (("x", 0),))
    over = {"x": frozenset({"a"})}
    for have, early in (
        ((load, call, store), []),
        ((load, store), [("x", "a")]),
        ((load, RowStep("stores_wait"), store), []),
        ((store, load), [("x", "a")]),
        ((store, RowStep("loads_wait"), load), [("x", "a")]),
        ((load, call, store, load), [("x", "a")]),
        ((RowLoop(2, 1, (store,)), load), [("x", "a")]),
        ((RowLoop(2, 1, (load, call, store)), replace(load, to=("a", 2))), []),
    ):
        assert [*stored_too_early(have, over)] == early, have


def _shorter(s: RowStep | RowLoop) -> RowStep | RowLoop:
    return replace(s, times=s.times - 1) if isinstance(s, RowLoop) else s


def test_a_streamed_row_is_proved(streamed: Made) -> None:
    assert findings(streamed, lambda f: f) == []


@pytest.mark.parametrize("fault", STREAMED_FAULTS)
def test_a_fault_of_a_streamed_row_is_found(streamed: Made, fault: str) -> None:
    change, said = STREAMED_FAULTS[fault]
    found = findings(streamed, change)
    assert any(said in text for text in found), found


def test_bits_of_one_short_row_are_of_its_elements() -> None:
    """16 bits and more are counted alike, whether they are of a row or of its one result."""
    nodes = [node("all", "ReduceAll", "x", axes=[0]), node("both", "LogicalAnd", "x", "all")]
    nodes.append(node("any", "ReduceAny", "both", axes=[], keepdims=False))
    document = graph([2, 64], "bool", nodes, ("all", "both", "any"))
    fn, impl, built = made(document, template="reduce_all_1")
    assert any(f.rows is not None for f in functions(fn))
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_the_sum_of_a_number_in_all_registers_is_proved() -> None:
    """All parts of it are alike: the one whose lanes are cut is the last one, whichever is joined first."""
    padded = {"low": [0, 2, 0, 0], "high": [0, 0, 1, 5], "value": 0.0}
    nodes = [node("p", "Pad", "x", **padded), node("a", "Add", "p", {"const": 0.5})]
    nodes.append(node("s", "ReduceSum", "a", axes=[2, 3], keepdims=True))
    nodes.append(node("y", "Add", "a", "s"))
    fn, impl, built = made(graph([1, 77, 32, 1], "float32", nodes, ("y",)), template=WHOLE)
    assert [f.loads for f in functions(fn) if f.rows is not None] == [()]
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def _with_row(dtype: str = "float32", cols: int = 256) -> Made:
    """A row that is added to all rows; the template has copies of it in UB."""
    nodes = [node("y", "Add", "x", "w")]
    return made(graph([64, cols], dtype, nodes, ("y",), w=(dtype, [cols])), template="row")


@pytest.mark.parametrize("cols", [64, 256, 1984])
def test_a_row_for_all_rows_is_loaded_in_the_place_of_its_copies(cols: int) -> None:
    fn, impl, built = _with_row(cols=cols)
    assert [s.api for s in calls(fn)] == []
    (f,) = functions(fn)
    assert f.loads == ("w_local", "x_local")
    assert [s.api for s in f.calls[: f.fills]] == ["Broadcast"]
    assert elements(f, "load") == 2 * -(-cols // 64)
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def _widened(dtype: str, cols: int = 256) -> Made:
    """The exponential of a sum with a row, computed wider than both are."""
    wide = "float16" if dtype == "int8" else "float32"
    nodes = [node(f"wide_{x}", "Cast", x, dtype=wide) for x in ("x", "w")]
    nodes += [node("sum", "Add", "wide_x", "wide_w"), node("e", "Exp", "sum")]
    nodes.append(node("y", "Cast", "e", dtype="float16" if dtype == "int8" else dtype))
    return made(graph([64, cols], dtype, nodes, ("y",), w=(dtype, [cols])), template="row_0")


def test_a_row_is_loaded_though_the_plan_gave_its_place_away() -> None:
    """What has the place of the row behind its copies stays in registers, and takes none."""
    nodes = [node("sum", "Add", "x", "w"), node("y", "Exp", "sum")]
    document = graph([64, 256], "float32", nodes, ("y",), w=("float32", [256]))
    fn, impl, built = made(document, template="row_0")
    assert Kernel(fn, impl, built.graph, built.target).shares("n0_local", "w_local")
    assert calls(fn) == []
    assert [f.loads for f in functions(fn)] == [("w_local", "x_local")]
    assert verify_kernel(fn, impl, built.graph, built.target) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
def test_a_row_that_is_widened_first_has_no_copies(dtype: str) -> None:
    """It is widened once, which takes less time than to widen it again for each row."""
    fn, impl, built = _widened(dtype)
    assert [s.api for s in calls(fn)] == ["Cast"]
    assert [f.loads for f in functions(fn)] == [("n1_local", "x_local")]
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_a_function_in_front_of_the_loop_has_a_row_for_each_of_the_largest_tile() -> None:
    nodes = [node("p", "Mul", "c", "x"), node("low", "Add", "w", {"const": 3})]
    nodes.append(node("y", "Sub", "p", "low"))
    given = {"c": ("uint8", [37, 1, 1]), "w": ("uint8", [17, 16])}
    document = graph([37, 17, 16], "uint8", nodes, ("y",), **given)
    fn, impl, built = made(document, template="row_0")
    (f,) = [f for f in functions(fn) if f.fills]
    assert f in fn.body
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def _two_rows() -> Made:
    return made(weighed_layer_norm(6400, 256, "bfloat16"), template=WHOLE)


def test_of_two_rows_that_take_turns_in_a_place_the_first_one_has_copies() -> None:
    fn, impl, built = _two_rows()
    assert [s.api for s in calls(fn)] == ["Cast", "Broadcast", "Cast"]
    (f,) = functions(fn)
    assert [x for x in f.loads if x.startswith("broadcast")] == ["broadcast_2_local"]
    assert verify_kernel(fn, impl, built.graph, built.target) == []


def test_a_row_that_something_is_stored_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Known, "lost", lambda *_: set())
    fn, impl, built = _two_rows()
    found = verify_kernel(fn, impl, built.graph, built.target)
    (buffer,) = {s.buf for s in fn.body if isinstance(s, GetBuf) and s.local == "n8_local"}
    assert any(f"is read, but {buffer} holds" in d.message for d in found)


def test_a_function_does_not_end_earlier_for_a_row(repo: Path) -> None:
    """Of a chain that is too long for rows in registers no part is one with the row, and the rest another one."""
    fn, impl, built = made(repo / "examples" / "demo.json", template="row_0")
    assert [s.api for s in calls(fn)] == ["Broadcast"]
    assert len(functions(fn)) == 1
    assert verify_kernel(fn, impl, built.graph, built.target) == []


@pytest.mark.parametrize("cols", [96, 200])
def test_rows_that_fill_registers_badly_keep_the_copies(cols: int) -> None:
    """A call goes through all rows at once, where registers of the row would be partly empty."""
    fn, _, _ = _with_row(cols=cols)
    assert [s.api for s in calls(fn)] == ["Broadcast", "Add"]


def _copied(f: Function, **fields: object) -> Function:
    first, *rest = f.calls
    return replace(f, calls=(replace(first, **fields), *rest))


def test_a_row_in_the_place_of_copies_of_another_is_found() -> None:
    m = _with_row()
    (f,) = functions(m[0])
    first = f.calls[0]
    assert findings(m, lambda f: f, calls_match_their_nodes) == []
    other = findings(m, lambda f: _copied(f, reads=("x_local",)), calls_match_their_nodes)
    assert any("a register is filled in place of" in text for text in other)
    dst, src, one, rows, pitch = first.args
    assert isinstance(rows, Count)
    fewer = (dst, src, one, replace(rows, value=rows.value - 1), pitch)
    assert findings(m, lambda f: _copied(f, args=fewer), calls_cover_the_tile) != []
    assert findings(m, lambda f: f, calls_cover_the_tile) == []
