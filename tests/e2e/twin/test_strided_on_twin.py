"""Loads of elements that lie apart in GM, on the CPU twin in checked mode: runs that are picked in UB, and elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twin_graphs import CHIP, check, every_template, graph

from autofuse import api
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = [pytest.mark.sampled(8), pytest.mark.twin]

F, H = "float32", "float16"
DTYPES = sorted(d for d in BY_NAME if d != "mask")


@pytest.fixture(scope="module", autouse=True)
def _setup() -> Iterator[None]:
    with every_template():
        yield


def ops(built: api.BuildResult) -> set[str]:
    """What picks elements in the templates of a kernel, and the Loads of single elements."""
    nodes = [n for r in built.schedule for g in r.groups for i in g.impls for n in i.nodes]
    found = {n.op for n in nodes if n.op.startswith("Pick")}
    single = any(
        n.op == "Load" and not n.attrs.get("run") and n.y.vectorized_strides[-1:] not in ((), (1,))
        for n in nodes
    )
    return found | ({"elements"} if single else set())


def taken(
    dtype: str,
    shape: Sequence[Any],
    slices: Sequence[slice],
    then: str = "Identity",
    **symbols: Any,
) -> dict[str, Any]:
    """``x[slices]`` of constant sizes, with an operation on the result."""
    starts, sizes, steps = [], [], []
    for size, part in zip(shape, slices, strict=True):
        start, stop, step = part.indices(size)
        starts.append(start)
        sizes.append(len(range(start, stop, step)))
        steps.append(step)
    attrs = {"starts": starts, "shape": sizes, "steps": steps}
    nodes: list[tuple[Any, ...]] = [("a", "Slice", ["x"], attrs), ("y", then, ["a"])]
    return graph({"x": (dtype, list(shape))}, nodes, **symbols)


ALL = slice(None)


@pytest.mark.parametrize("step", [2, 3, 4, 5, 7, 8, -1, -2, -3, -4, -8])
@pytest.mark.parametrize("n", [1, 2, 37, 5003, 40000])
def test_steps_and_lengths(step, n):
    built = check(taken(F, (n,), [slice(None, None, step)], "Abs"))
    if n > 8:
        wanted = "PickBack" if step < 0 else "PickByMask" if step in (2, 4) else "PickAhead"
        assert ops(built) - {"PickOffsets"} == {wanted}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [2, 3, -1, -4])
def test_elements_of_every_width(dtype, step):
    built = check(taken(dtype, (7, 1001), [ALL, slice(None, None, step)]))
    assert "elements" not in ops(built)


@pytest.mark.parametrize(
    ("dtype", "last"), [("int64", 4), (F, 8), (H, 16), ("bfloat16", 16), ("uint8", 32)]
)
def test_the_run_is_loaded_up_to_a_sector_for_each_element(dtype, last):
    for sign in (1, -1):
        near = check(taken(dtype, (50 * last,), [slice(None, None, sign * last)]))
        assert "elements" not in ops(near)
        far = check(taken(dtype, (50 * last,), [slice(None, None, sign * (last + 1))]))
        assert ops(far) == {"elements"}


@pytest.mark.parametrize(
    "slices",
    [
        (ALL, slice(None, None, 2)),
        (ALL, slice(1, None, 2)),
        (slice(None, None, 2), slice(None, None, -1)),
        (slice(None, None, -1), slice(None, None, 3)),
        (slice(None, None, -1), slice(None, None, -1)),
        (slice(2, -1), slice(3, 700, 4)),
        (slice(0, 1), slice(5, None, 5)),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(33, 1024), (40, 1023), (1000, 17), (3, 9)])
def test_rows(shape, slices):
    check(taken(F, shape, slices, "Exp"))


@pytest.mark.parametrize("dtype", [F, H, "int8"])
@pytest.mark.parametrize("step", [2, 3, -1])
def test_rows_beside_a_broadcast(dtype, step):
    """Rows that are padded, or a multiple of 32 bytes."""
    for columns in (7, 16, 200):
        start = 0 if step > 0 else columns * abs(step) - 1
        attrs = {"starts": [0, start], "shape": [60, columns], "steps": [1, step]}
        inputs = {"x": (dtype, [60, columns * abs(step)]), "r": (dtype, [1, columns])}
        nodes = [("a", "Slice", ["x"], attrs), ("y", "Maximum", ["a", "r"])]
        check(graph(inputs, nodes))


def test_a_run_ends_with_its_last_element():
    """Nothing behind the tensor is loaded: it ends where the last element does."""
    for n, step in itertools.product((65, 1000, 4097), (2, 3, 4, 8)):
        attrs = {"starts": [0], "shape": [n], "steps": [step]}
        nodes = [("a", "Slice", ["x"], attrs), ("y", "Abs", ["a"])]
        check(graph({"x": (F, [(n - 1) * step + 1])}, nodes))


@pytest.mark.parametrize("step", [2, 3, 4, -1])
@pytest.mark.parametrize("dtype", [F, H, "int64", "uint8"])
def test_symbolic_sizes(dtype, step):
    size = abs(step)
    last = f"{size}*s1 - 1"
    attrs = {"starts": [0, 0 if step > 0 else last], "shape": ["s0", "s1"], "steps": [1, step]}
    nodes = [("a", "Slice", ["x"], attrs), ("y", "Identity", ["a"])]
    symbols = {"s0": {"min": 0, "max": 300}, "s1": {"min": int(step < 0), "max": 3000}}
    check(graph({"x": (dtype, ["s0", f"{size}*s1"])}, nodes, **symbols))


def test_even_and_odd_places_change_sides():
    """The rotation of pairs as language models have it."""
    even = {"starts": [0, 0], "shape": [50, 64], "steps": [1, 2]}
    odd = {"starts": [0, 1], "shape": [50, 64], "steps": [1, 2]}
    nodes = [
        ("a", "Slice", ["x"], even),
        ("b", "Slice", ["x"], odd),
        ("p", "Mul", ["a", "c"]),
        ("q", "Mul", ["b", "s"]),
        ("u", "Sub", ["p", "q"]),
        ("v", "Mul", ["a", "s"]),
        ("w", "Mul", ["b", "c"]),
        ("z", "Add", ["v", "w"]),
    ]
    inputs = {"x": (H, [50, 128]), "c": (H, [1, 64]), "s": (H, [1, 64])}
    built = check(graph(inputs, nodes, ("u", "z")))
    assert ops(built) == {"PickByMask"}


@pytest.mark.parametrize("axes", [[0], [1], [0, 1]])
@pytest.mark.parametrize("step", [3, -2])
def test_reductions(axes, step):
    for shape in ((40, 999), (3, 30000)):
        start = 0 if step > 0 else shape[1] - 1
        size = -(-shape[1] // abs(step))
        attrs = {"starts": [0, start], "shape": [shape[0], size], "steps": [1, step]}
        nodes = [("a", "Slice", ["x"], attrs), ("y", "ReduceSum", ["a"], {"axes": axes})]
        check(graph({"x": (F, shape)}, nodes))


@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums(axis):
    attrs = {"starts": [0, 776], "shape": [45, 259], "steps": [1, -3]}
    nodes = [("a", "Slice", ["x"], attrs), ("y", "CumSum", ["a"], {"axis": axis})]
    check(graph({"x": (F, [45, 777])}, nodes))


def test_a_node_may_be_called_like_a_table():
    document = taken(F, (1000,), [slice(None, None, 3)], "Abs")
    document["nodes"][1]["name"] = "offsets_of_12"
    assert ops(check(document)) == {"PickOffsets", "PickAhead"}


def test_a_flip_beside_a_transposition():
    attrs = {"starts": [69, 32], "shape": [70, 33], "steps": [-1, -1]}
    nodes = [
        ("a", "Transpose", ["x"], {"perm": [1, 0]}),
        ("b", "Slice", ["y0"], attrs),
        ("y", "Add", ["a", "b"]),
    ]
    check(graph({"x": (F, [33, 70]), "y0": (F, [70, 33])}, nodes))


def test_what_an_output_overwrites():
    """Elements of a run that others overwrite: behind a barrier, or from a copy."""
    flip = {"starts": [4999], "shape": [5000], "steps": [-1]}
    over = {"name": "o", "tensor": "y", "inout": "x"}
    nodes = [("a", "Slice", ["x"], flip), ("y", "Add", ["x", "a"])]
    assert ops(check(graph({"x": (F, [5000])}, nodes, (over,)))) >= {"PickBack"}
    half = {"starts": [1], "shape": [2500], "steps": [2]}
    nodes = [("a", "Slice", ["x"], half), ("b", "Exp", ["a"]), ("y", "Exp", ["x"])]
    assert ops(check(graph({"x": (F, [5000])}, nodes, ("b", over)))) >= {"PickByMask"}


@pytest.mark.parametrize("ub", [20000, 40000])
def test_little_ub(ub):
    check(taken(F, (300, 3000), [ALL, slice(None, None, 3)], "Exp"), ub)
    check(taken(H, (300, 3000), [ALL, slice(None, None, -1)], "Exp"), ub)


@pytest.mark.parametrize("seed", range(4))
def test_orders_of_execution(seed):
    built = api.build(taken(F, (70, 3001), [ALL, slice(None, None, -3)], "Exp"), target=CHIP)
    for check_seed in (2 * seed + 1, 2 * seed + 2):
        report = verify_kernel(built.files, built.graph, seed=seed, check_seed=check_seed)
        assert report.ok, "\n".join(map(str, report.diagnostics))


SLICES = st.builds(
    slice,
    st.one_of(st.none(), st.integers(-4, 4)),
    st.none(),
    st.sampled_from([1, 2, 3, 4, 5, 8, 9, -1, -2, -3, -7]),
)


@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    slices=st.lists(SLICES, min_size=4, max_size=4),
)
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_any_slice(dtype, shape, slices):
    x = np.empty(shape, np.int8)[tuple(slices[: len(shape)])]
    if x.size:
        check(taken(dtype, shape, slices[: len(shape)]))


@pytest.mark.parametrize("order", [("even", "odd"), ("odd", "even")], ids=str)
@pytest.mark.parametrize("rows", [6, "s0"])
def test_halves_that_overwrite_what_they_were_taken_from(rows, order):
    """Every other element first, in place: both halves are read before either is written."""
    part = {"shape": [rows, 32], "steps": [1, 2]}
    nodes = [
        ("even", "Slice", ["x"], {"starts": [0, 0], **part}),
        ("odd", "Slice", ["x"], {"starts": [0, 1], **part}),
        ("y", "Concat", order, {"axis": 1}),
    ]
    symbols = {"s0": {"min": 0, "max": 50}} if rows == "s0" else {}
    over = [{"tensor": "y", "name": "y", "inout": "x"}]
    check(graph({"x": ("float32", (rows, 64))}, nodes, over, **symbols))


@pytest.mark.parametrize("crossed", [False, True], ids=["in their place", "crossed"])
def test_pieces_that_overwrite_what_they_were_taken_from(crossed):
    part = {"shape": [33, 20], "steps": [1, 1]}
    nodes = [
        ("a", "Slice", ["x"], {"starts": [0, 0], **part}),
        ("b", "Slice", ["x"], {"starts": [0, 20], **part}),
        ("c", "Exp", ["a"]),
        ("d", "Neg", ["b"]),
        ("y", "Concat", ["d", "c"] if crossed else ["c", "d"], {"axis": 1}),
    ]
    over = [{"tensor": "y", "name": "y", "inout": "x"}]
    check(graph({"x": ("float32", (33, 40))}, nodes, over))


def loads(built: api.BuildResult) -> set[int]:
    """Loads in each template."""
    impls = (i for r in built.schedule for g in r.groups for i in g.impls)
    return {sum(n.op == "Load" for n in i.nodes) for i in impls}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [2, 3, 4])
def test_elements_of_one_row_share_its_run(step, dtype):
    """As the two numbers of a complex one, whichever comes first."""
    part = {"shape": [37, 90], "steps": [1, step]}
    starts = [step - 1, 0] if step < 4 else [3, 2]
    nodes = [(f"p{k}", "Slice", ["x"], {"starts": [2, s], **part}) for k, s in enumerate(starts)]
    op = "LogicalXor" if dtype == "bool" else "Maximum"
    document = graph({"x": (dtype, (40, 90 * step))}, [*nodes, ("y", op, ["p0", "p1"])])
    assert loads(check(document)) == {1}


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("columns", [1, 7, 64, 1001, "s1"], ids=str)
@pytest.mark.parametrize("rows", [1, 50, "s0"], ids=str)
def test_runs_that_three_share(rows, columns, seed):
    """Of four in turn: what they read reaches as far as the last of them."""
    ranges = {"s0": {"min": 0, "max": 60}, "s1": {"min": 0, "max": 3000}}
    used = {k: v for k, v in ranges.items() if k in (rows, columns)}
    part = {"shape": [rows, columns], "steps": [1, 4]}
    whole = (rows, f"4*{columns}" if columns == "s1" else 4 * columns)
    nodes = [(f"p{k}", "Slice", ["x"], {"starts": [0, k], **part}) for k in (2, 0, 3)]
    nodes += [("a", "Mul", ["p2", "p0"]), ("y", "Add", ["a", "p3"])]
    built = check(graph({"x": ("float32", whole)}, nodes, **used), check_seed=seed)
    assert columns == 1 or max(loads(built)) == 1


def test_a_run_is_not_shared_with_the_next_elements():
    part = {"shape": [40, 89], "steps": [1, 2]}
    nodes = [(f"p{k}", "Slice", ["x"], {"starts": [0, k], **part}) for k in (0, 2)]
    document = graph({"x": ("float32", (40, 180))}, [*nodes, ("y", "Add", ["p0", "p2"])])
    assert loads(check(document)) == {2}


def test_runs_that_reductions_share():
    """In both passes of rows beyond UB."""
    part = {"shape": [5, 3001], "steps": [1, 2]}
    axes = {"axes": [1], "keepdims": True}
    nodes = [
        ("a", "Slice", ["x"], {"starts": [0, 0], **part}),
        ("b", "Slice", ["x"], {"starts": [0, 1], **part}),
        ("p", "Mul", ["a", "b"]),
        ("m", "ReduceMax", ["p"], axes),
        ("y", "Sub", ["p", "m"]),
    ]
    built = check(graph({"x": ("float32", (5, 6002))}, nodes), 9000)
    assert loads(built) <= {1, 2}
