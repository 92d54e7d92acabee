"""Checks of transpositions in UB: a call with any other extent than its own is a finding."""

from __future__ import annotations

import pytest
from changed_counts import change_counts
from lowering_checks import graph
from twin_graphs import every_template

from autofuse.api import build
from autofuse.codegen.ir.extents import Extents
from autofuse.codegen.verification import verify_schedule

CHANGES = {
    "none": (0, 0, 0, 0, 0),
    "a row less": (0, -1, 0, 0, 0),
    "a column less": (0, 0, -1, 0, 0),
    "a column more": (0, 0, 4096, 0, 0),
    "another source pitch": (0, 0, 0, 8, 0),
    "another pitch of the result": (0, 0, 0, 0, 8),
    "an unaligned pitch": (0, 0, 0, 0, 1),
}
GRAPHS = [
    ((4096, 3000), (1, 0), ()),
    (("s0", "s1"), (1, 0), ("s0", "s1")),
    ((6, 40, 30), (0, 2, 1), ()),
]


@pytest.fixture(scope="module", params=GRAPHS, ids=str)
def built(request):
    shape, perm, symbols = request.param
    return build(
        {
            "schema": "autofuse.graph/1",
            "name": "k",
            "symbols": {s: {"min": 1, "max": 5000} for s in symbols},
            "inputs": [{"name": "x", "dtype": "float32", "shape": list(shape)}],
            "nodes": [
                {
                    "name": "n",
                    "op": "Transpose",
                    "inputs": ["x"],
                    "outputs": ["y"],
                    "attrs": {"perm": list(perm)},
                }
            ],
            "outputs": ["y"],
        },
        verify_ir=False,
    )


@pytest.mark.parametrize("change", CHANGES)
def test_extents(built, change, monkeypatch):
    def changed(counts):
        return [c + d for c, d in zip(counts, CHANGES[change], strict=True)]

    seen = change_counts(monkeypatch, ["TransposeRows"], changed)
    found = verify_schedule(built.graph, built.schedule, built.target)
    assert seen
    assert bool(found) == (change != "none"), found


# What is made of a transposed load, along its innermost axis alone: that axis has a pitch in the load, not there.
SHAPES = [(277, 5), (31, 33), ("s", 9), (40, 3, 17)]


def of_a_transposed_load(shape, dtype, then):
    """``x`` in the opposite order, and something about its rows: partial results, or an operand with one for each."""
    axes = tuple(range(len(shape)))
    column = (shape[-1], *(1 for _ in shape[1:]))
    inputs = {"x": (shape, dtype), "v": (column, dtype)}
    sums = then == "CumSum"
    attrs = {"axis": 0} if sums else {"axes": axes, "keepdims": True}
    nodes = [
        ("t", "Transpose", ["x"], {"perm": axes[::-1]}),
        ("r", then, ["v" if sums else "t"], attrs),
        ("y", "Add", ["t", "r"]),
    ]
    symbols = [s for s in shape if isinstance(s, str)]
    return graph(inputs if sums else {"x": inputs["x"]}, nodes, ["y"], symbols)


@pytest.mark.parametrize("target", ["ascend910b1", "ascend950dt", "ascend950pr"])
@pytest.mark.parametrize(
    ("dtype", "then"),
    [
        *((d, "ReduceMin") for d in ("int8", "uint8", "bfloat16")),
        *((d, "ReduceSum") for d in ("float16", "bfloat16")),
        *((d, "CumSum") for d in ("int8", "float16")),
    ],
)
def test_the_pitch_of_a_transposed_load_is_no_pitch_of_others(target, dtype, then):
    for shape in SHAPES:
        with every_template():
            g = of_a_transposed_load(shape, dtype, then)
            built = build(g, target=target, verify_ir=False)
        assert verify_schedule(built.graph, built.schedule, built.target) == [], shape


@pytest.mark.parametrize("target", ["ascend910b1", "ascend950pr"])
@pytest.mark.parametrize("shape", [(277, 5), ("s", 5)])
def test_partial_results_are_as_long_as_their_axis(target, shape):
    """Where buffers are rounded up to repeats, as on architecture 2201, a pitch that is too long still fits."""
    with every_template():
        built = build(of_a_transposed_load(shape, "int8", "ReduceMax"), target=target)
    impls = [i for r in built.schedule for g in r.groups for i in g.impls]
    whole = [i for i in impls if any(n.op == "UbTranspose" for n in i.nodes) and i.r_axis is None]
    whole = [i for i in whole if i.template == "reduce_all"]
    assert whole
    for impl in whole:
        (step,) = (n for n in impl.nodes if n.name.endswith("_step0"))
        assert Extents(impl).in_ub(step.y, 0, True) == 5


@pytest.mark.parametrize("target", ["ascend910b1", "ascend950pr"])
@pytest.mark.parametrize("shape", [(1, 2), (2, 4), (3, 5), (7, 9)])
def test_rows_of_words_begin_at_blocks(shape, target):
    """An index of 64 bits is transposed as words, whose rows are half as long."""
    of_64 = {"x": ((300, 5), "int64"), "i": (shape, "int64")}
    nodes = [
        ("turned", "Transpose", ["i"], {"perm": (1, 0)}),
        ("y", "Gather", ["x", "turned"], {"axis": 1}),
    ]
    build(graph(of_64, nodes, ["y"]), target=target, ub_bytes=60000, verify_ir=True)
