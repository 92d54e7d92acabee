"""Rules of generated text: names say what is there, numbers have names, and nothing is said twice or for nothing."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from autofuse import api
from autofuse.codegen.ir.kernel_ir import (
    Alias,
    Alloc,
    CopyIn,
    CopyOut,
    DmaBlock,
    DmaLet,
    For,
    GetBuf,
    InitBuffer,
    KernelFn,
    Stmt,
)
from autofuse.codegen.lower.kernel import lower_templates
from autofuse.codegen.passes import run_passes
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.graph import Condition

REPO = Path(__file__).parents[4]
GRAPHS = REPO / "tests" / "snapshot" / "graphs"
TARGETS = ("ascend910b1", "ascend950pr", "ascend310p")
#: Buffers shared in many ways; rows read one by one; running sums; a carried row; several groups; several passes.
NAMES = (
    *("softmax_shared", "gather_rows", "running_sum", "running_sum_rows", "reduce_twice"),
    *("norm_online", "log_sum_exp", "tmp_buffer", "constants", "rows_shared", "column_sums"),
)
#: Ascend 310P does not take symbolic sizes and unaligned rows.
WHOLE_BLOCKS = ("running_sum", "norm_online", "tmp_buffer", "constants")
CASES = [(n, t) for t in TARGETS for n in (WHOLE_BLOCKS if t == "ascend310p" else NAMES)]
each = pytest.mark.parametrize(("name", "target"), CASES)


@functools.cache
def built(name: str, target: str) -> api.BuildResult:
    return api.build(GRAPHS / f"{name}.json", target=target)


@functools.cache
def functions(name: str, target: str) -> tuple[KernelFn, ...]:
    made = built(name, target)
    found = lower_templates(made.graph, made.schedule, made.target)
    return tuple(map(run_passes, found.values()))


def walk(body: Sequence[Stmt], loops: int = 0) -> Iterator[tuple[int, Stmt]]:
    """Yield every statement with the number of loops around it."""
    for s in body:
        yield loops, s
        if isinstance(s, For):
            yield from walk(s.body, loops + 1)


def contents(fn: KernelFn) -> dict[str, set[str]]:
    """Buffer or queue -> tensors that live there, those of several passes once."""
    out: dict[str, set[str]] = defaultdict(set)
    place: dict[str, str] = {}
    for _, s in walk(fn.body):
        if isinstance(s, (GetBuf, Alloc, Alias)):
            of = (
                s.buf if isinstance(s, GetBuf) else s.queue if isinstance(s, Alloc) else place[s.of]
            )
            place[s.local] = of
            out[of].add(re.sub(r"_pass\d+$", "", s.local.removesuffix("_local")))
    return out


@each
def test_a_buffer_bears_the_name_of_its_only_tensor_or_of_none(name: str, target: str) -> None:
    for fn in functions(name, target):
        found = contents(fn)
        tensors = {x for held in found.values() for x in held}
        for buffer, held in found.items():
            stem = re.sub(r"(_pass\d+)?_(buf|queue)$", "", buffer)
            if len(held) == 1:
                assert held == {stem}, buffer
            else:
                assert stem not in tensors, (buffer, held)


def test_some_buffer_is_shared_and_some_is_not() -> None:
    """Else the rule above says nothing."""
    sizes = {
        len(h) for n in NAMES for fn in functions(n, TARGETS[0]) for h in contents(fn).values()
    }
    assert {1, 2, 3} <= sizes


@each
def test_the_size_of_a_buffer_is_not_named_after_another_one(name: str, target: str) -> None:
    for fn in functions(name, target):
        initialised = [s for _, s in walk(fn.body) if isinstance(s, InitBuffer)]
        declared = {s.name for s in initialised}
        for s in initialised:
            for size in s.nbytes.symbols():
                assert size == f"{s.name}_bytes" or size.removesuffix("_bytes") not in declared


@each
def test_a_function_takes_the_pointers_that_it_uses(name: str, target: str) -> None:
    text = built(name, target).files[f"device/{name}_kernel.cpp"]
    assert "(void)" not in text
    for head, body in re.findall(
        r"^inline __aicore__ void \w+\((.*?)\) \{\n(.*?)^\}", text, re.M | re.S
    ):
        for parameter in re.findall(r"GM_ADDR (\w+)", head):
            assert re.search(rf"\b{parameter}\b", body), parameter


@each
def test_constant_descriptors_are_made_once(name: str, target: str) -> None:
    for fn in functions(name, target):
        seen = []
        for loops, s in walk(fn.body):
            if isinstance(s, DmaLet) and all(e.is_const for e in s.block.exprs()):
                assert loops == 0, s
                assert s.block not in [b for b in seen if b == s.block and s.load]
                seen.append(s.block)
            if isinstance(s, (CopyIn, CopyOut)) and s.pad and isinstance(s.block, DmaBlock):
                scalar = isinstance(s, CopyIn) and bool(s.scalar)
                fixed = all(e.is_const for e in s.block.exprs())
                assert s.block_name or scalar or not fixed, s


def test_some_constant_descriptor_was_in_a_loop() -> None:
    (fn, *_) = functions("gather_rows", TARGETS[0])
    copies = [(n, s) for n, s in walk(fn.body) if isinstance(s, CopyIn) and n == 2]
    assert [s.block_name for _, s in copies] == ["block0"]


def above_l2(low: int) -> dict[str, Any]:
    tensor = {"dtype": "float16", "shape": ["tokens", 1024]}
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {"tokens": {"min": low, "max": 1 << 20}},
        "inputs": [{"name": n, **tensor} for n in ("x", "y", "z")],
        "nodes": [
            {"name": "a", "op": "Add", "inputs": ["x", "y"], "outputs": ["t"]},
            {"name": "b", "op": "Mul", "inputs": ["t", "z"], "outputs": ["out"]},
        ],
        "outputs": ["out"],
    }


@pytest.mark.parametrize(("low", "conditions"), [(1, 1), (1 << 16, 0)])
def test_all_loads_share_the_condition_on_l2(low: int, conditions: int) -> None:
    """At 65536 tokens and more the tensors exceed L2 in any case."""
    made = api.build(above_l2(low), target="ascend910b1")
    text = made.files["device/g_kernel.cpp"]
    count = text.count("inline __aicore__")
    assert text.count("SetL2CacheHint") == 3 * count
    assert text.count("> 201326592") == conditions * count
    assert text.count("// Larger than L2") == count


@each
def test_template_arguments_have_names(name: str, target: str) -> None:
    for path, text in built(name, target).files.items():
        if path.endswith(".cpp") and "include" not in path:
            calls = re.findall(r"\b(?:SolveTemplate|Scan\w+|Memo|MemoKey)<([^()]*?)>[,( ]", text)
            for argument in (a.strip() for c in calls for a in c.split(",")):
                assert not re.fullmatch(r"\d+|true|false", argument), (path, argument)


def test_calls_with_such_arguments_occur() -> None:
    texts = [t for case in CASES for t in built(*case).files.values()]
    for call in (
        r"Scan\w+<autofuse::kInc",
        "SolveTemplate<Data, kLoops0",
    ):
        assert any(re.search(call, t) for t in texts), call


@each
def test_sums_of_cycles_say_what_they_are(name: str, target: str) -> None:
    text = built(name, target).files[f"host/{name}_tiling.cpp"]
    lines = [x for x in text.splitlines() if re.search(r"\.(heads|scalar|held) = ", x)]
    assert lines
    assert all(re.search(r";  // cycles", x) for x in lines)
    assert ".Add(0" not in text.replace(".Add(0.", "")
    assert not re.search(r"\.Add\([^,]*, 0\);", text)


def one(op: str, dtype: str, *more: Any) -> str:
    """The kernel of one node with an input x."""
    graph = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": "x", "dtype": dtype, "shape": [4096]}],
        "nodes": [{"name": "n", "op": op, "inputs": ["x", *more], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    return api.build(graph).files["device/g_kernel.cpp"]


@pytest.mark.parametrize(
    ("dtype", "divisor", "exact"),
    [
        ("float32", -2048.0, True),
        ("float32", 2.0**-13, True),
        ("float32", 2.0**18, False),
        ("float32", 3.0, False),
        ("float16", 2.0**11, True),
        ("float16", 2.0**-13, True),
    ],
)
def test_a_division_by_a_power_of_two_is_a_product(dtype: str, divisor: float, exact: bool) -> None:
    text = one("Div", dtype, {"const": divisor})
    assert ("Muls(" in text, " Div(" in text) == (exact, not exact)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sign_takes_five_calls(dtype: str) -> None:
    calls = re.findall(
        r"^ +([A-Z]\w+)\(y_local|^ +([A-Z]\w+)\(n_?\d*_local", one("Sign", dtype), re.M
    )
    assert sorted(a or b for a, b in calls) == ["Adds", "Maxs", "Mins", "Muls", "Muls"]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("target", ["ascend910b1", "ascend950pr"])
def test_a_mask_is_not_negated_twice(dtype: str, target: str) -> None:
    """A selection of a number swaps its operands; less than among integers is the opposite of at least."""
    nodes = [
        ("less", "Less", ["x", "z"], "m"),
        *([("not", "LogicalNot", ["m"], "k")] if dtype == "float32" else []),
        ("pick", "Select", ["k" if dtype == "float32" else "m", {"const": 1}, "z"], "y"),
    ]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "g",
        "inputs": [{"name": n, "dtype": dtype, "shape": [4096]} for n in "xz"],
        "nodes": [
            {"name": n, "op": op, "inputs": inputs, "outputs": [out]}
            for n, op, inputs, out in nodes
        ],
        "outputs": ["y"],
    }
    text = api.build(graph, target=target).files["device/g_kernel.cpp"]
    assert re.search(r"\bSelect\(", text)
    assert not re.search(r"\bNot\(", text)


@pytest.mark.parametrize(
    ("c", "may_fail"),
    [
        (Condition(sym("n"), at_least=4), False),
        (Condition(sym("n"), at_least=5), True),
        (Condition(8 * sym("n"), at_least=32, at_most=80), False),
        (Condition(8 * sym("n"), at_least=32, at_most=79), True),
        (Condition(sym("n"), multiple_of=2), True),
        (Condition(const(20), multiple_of=4, at_least=16), False),
        (Condition(const(20), multiple_of=8), True),
    ],
)
def test_a_condition_may_fail_within_the_range_of_a_symbol(c: Condition, may_fail: bool) -> None:
    assert c.may_fail({"n": (4, 10)}) == may_fail


@pytest.mark.parametrize(
    ("name", "checked"), [("running_sum_rows", False), ("softmax_shared", True)]
)
def test_only_conditions_that_may_fail_are_checked(name: str, checked: bool) -> None:
    """Running sums along rows of 20 numbers need at least 16."""
    made = built(name, TARGETS[0])
    impls = [i for r in made.schedule for g in r.groups for i in g.impls]
    assert any(i.tiling.conditions for i in impls)
    text = made.files[f"host/{name}_tiling.cpp"]
    assert ("axis.conditions" in text) == checked
    assert ("requires that" in text) == checked
