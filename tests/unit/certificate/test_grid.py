"""The grid of values, and what is said of the order of sums."""

import ml_dtypes
import numpy as np
import pytest

import autofuse
from autofuse import api
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.measure.certificate.grid import GRIDS, grid_inputs, grid_values
from autofuse.measure.certificate.order import may_change, orders
from autofuse.measure.certificate.proofs import proofs


def graph(
    op: str, shape: list[object], kind: str = "float32", **attrs: object
) -> dict[str, object]:
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {s: {"min": 1, "max": 1 << 20} for s in shape if isinstance(s, str)},
        "inputs": [{"name": "x", "dtype": kind, "shape": shape}],
        "nodes": [{"name": "s", "op": op, "inputs": ["x"], "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    "name", ["float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool"]
)
def test_a_grid_has_what_is_rare_once(name: str, grid: str) -> None:
    values = grid_values(dtype(name), grid)
    assert len({v.tobytes() for v in values}) == len(values)
    if name in ("float32", "float16", "bfloat16"):
        info = ml_dtypes.finfo(values.dtype)
        wide = values.astype(np.float64)
        assert {0.0, 1.0, -1.0, 1.0 + float(info.eps)} <= set(wide[np.isfinite(wide)])
        assert np.signbit(wide[wide == 0]).tolist() == [False, True]
        if grid == "range":
            assert np.isnan(wide).sum() == 1
            assert {float(info.max), float(info.smallest_subnormal), np.inf, -np.inf} <= set(wide)
        else:
            assert np.isfinite(wide).all()
    elif name != "bool" and grid == "range":
        limits = np.iinfo(values.dtype)
        assert {int(limits.min), int(limits.max)} <= set(map(int, values))


def test_two_inputs_meet_in_all_pairs() -> None:
    made = graph("Add", [1000, 1000])
    made["inputs"] = [{"name": n, "dtype": "float16", "shape": [1000, 1000]} for n in "ab"]
    made["nodes"] = [{"name": "s", "op": "Add", "inputs": ["a", "b"], "outputs": ["y"]}]
    found = grid_inputs(api.read(made), {}, "ordinary", 0)
    count = len(grid_values(dtype("float16"), "ordinary"))
    pairs = set(zip(found["a"].view(np.uint16).flat, found["b"].view(np.uint16).flat, strict=True))
    assert len(pairs) == count * count


def test_what_divides_is_not_zero_and_what_has_a_root_is_positive() -> None:
    made = api.read(graph("Sqrt", [4096]))
    assert (grid_inputs(made, {}, "ordinary", 0)["x"] > 0).all()


@pytest.mark.parametrize(
    ("made", "invariant", "sizes", "choices"),
    [
        (graph("Exp", ["b", "n"]), False, [], []),
        (graph("ReduceSum", ["b", "n"], "int32", axes=[1]), False, [], []),
        (graph("ReduceSum", ["b", "n"], axes=[1]), True, ["n"], []),
        (graph("ReduceSum", ["n", "b"], axes=[0]), True, ["n"], []),
        (graph("Softmax", ["b", 512], axis=-1), True, ["512"], []),
        (graph("CumSum", ["b", "n"], axis=1), True, ["n"], []),
        (
            graph("ReduceSum", ["b", "n"], axes=[1]),
            False,
            ["b", "n"],
            ["cores", "ub", "template", "tile"],
        ),
    ],
)
def test_which_sizes_may_change_bits(
    made: dict[str, object], invariant: bool, sizes: list[str], choices: list[str]
) -> None:
    built = autofuse.build(made, invariant=invariant)
    found = may_change(built.graph, built.schedule, invariant)
    assert (found["sizes"], found["choices"]) == (sizes, choices)
    assert "assumed" in found["status"]


def test_the_order_of_an_invariant_kernel_has_no_size_of_what_is_kept() -> None:
    for made in (
        graph("ReduceSum", ["b", "n"], axes=[1]),
        graph("ReduceSum", ["n", "b"], axes=[0]),
        graph("Softmax", ["b", "n"], axis=-1),
    ):
        rows = orders(autofuse.build(made, invariant=True).schedule)
        assert rows
        for r in rows:
            text = " ".join([r["loop"], *(c["elements"] for c in r["calls"])])
            assert "b" not in text.replace("z0Tb_size", "")
            assert r["tile"].isdigit()
    known = [
        orders(autofuse.build(graph("Softmax", [b, 700], axis=-1), invariant=True).schedule)
        for b in (5, 999)
    ]
    assert known[0] == known[1]


def test_proofs_name_every_check_and_leave_nothing_open() -> None:
    found = proofs(autofuse.build(graph("Softmax", ["b", "n"], axis=-1)))
    assert len(found["checks"]) == 31
    assert all(r["proved"] and r["meaning"] and r["about"] for r in found["checks"])
    assert not found["refuted"]
    assert not found["graphs"]["broken"]
