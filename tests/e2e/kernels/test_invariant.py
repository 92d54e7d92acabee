"""Kernels of ``--invariant``: the bits of a row depend on the sizes of what is reduced, and on nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import autofuse
from autofuse.base.diagnostics import AutofuseError

pytestmark = pytest.mark.twin

Array = npt.NDArray[Any]
#: Numbers of rows that the same rows are given with: one core, some, more than there are, short last tiles.
ROWS = (1, 2, 3, 5, 47, 49, 300)
MOST = 300


def graph(
    op: str, shape: Sequence[object], dtype: str = "float32", **attrs: object
) -> dict[str, Any]:
    sizes = {str(s) for s in shape if isinstance(s, str)}
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {s: {"min": 1, "max": 1 << 20} for s in sorted(sizes)},
        "inputs": [{"name": "x", "dtype": dtype, "shape": list(shape)}],
        "nodes": [{"name": "s", "op": op, "inputs": ["x"], "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }


def norm(shape: Sequence[object], dtype: str = "float32") -> dict[str, Any]:
    """A norm with a scale: a mean and a variance of the same rows."""
    made = graph("ReduceMean", shape, dtype, axes=[-1], keepdims=True)
    made["inputs"].append({"name": "scale", "dtype": dtype, "shape": [shape[-1]]})
    steps = [
        ("ReduceMean", ["x"], {"axes": [-1], "keepdims": True}),
        ("Sub", ["x", "t0"], {}),
        ("Square", ["t1"], {}),
        ("ReduceMean", ["t2"], {"axes": [-1], "keepdims": True}),
        ("Add", ["t3", {"const": 1e-5}], {}),
        ("Rsqrt", ["t4"], {}),
        ("Mul", ["t1", "t5"], {}),
        ("Mul", ["t6", "scale"], {}),
    ]
    made["nodes"] = [
        {"name": f"n{k}", "op": op, "inputs": given, "outputs": [f"t{k}"], "attrs": attrs}
        for k, (op, given, attrs) in enumerate(steps)
    ]
    made["outputs"] = ["t7"]
    return made


def data(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    """Numbers whose sum shows its order: of both signs, over many powers of two."""
    random = np.random.default_rng(seed)
    made = random.standard_normal(shape) * np.exp2(random.integers(-12, 8, shape))
    return made.astype(dtype)


def bits(a: Array) -> bytes:
    return np.ascontiguousarray(a).tobytes()


def rows_of(
    kernel: Any, inputs: Mapping[str, Array], count: int, axis: int, **limits: int
) -> Array:
    part = {n: a.take(range(count), axis) if n == "x" else a for n, a in inputs.items()}
    (found,) = kernel.run(part, **limits).outputs.values()
    return np.asarray(found)


#: Graph, shape of the data, the axis of x that is kept, that axis of y.
CASES: dict[str, tuple[dict[str, Any], tuple[int, ...], int, int]] = {
    "softmax of known rows": (graph("Softmax", ["b", 1000], axis=-1), (MOST, 1000), 0, 0),
    "softmax of any rows": (graph("Softmax", ["b", "n"], axis=-1), (MOST, 5000), 0, 0),
    "norm": (norm(["b", 768], "float16"), (MOST, 768), 0, 0),
    "sum of short rows": (graph("ReduceSum", ["b", 37], axes=[1]), (MOST, 37), 0, 0),
    "sum of columns": (graph("ReduceSum", ["n", "b"], axes=[0]), (700, MOST), 1, 0),
    "product of rows": (graph("ReduceProd", ["b", "n"], axes=[1]), (MOST, 90), 0, 0),
    "sum around what is kept": (
        graph("ReduceSum", ["n", "b", 24], axes=[0, 2]),
        (33, MOST, 24),
        1,
        0,
    ),
    "running sums": (graph("CumSum", ["b", "n"], axis=1), (MOST, 3000), 0, 0),
    "running sums of columns": (graph("CumSum", ["n", "b"], axis=0), (40, MOST), 1, 1),
}


def inputs_of(name: str) -> dict[str, Array]:
    made, shape, _, _ = CASES[name]
    out = {}
    for k, i in enumerate(made["inputs"]):
        out[i["name"]] = data(shape if i["name"] == "x" else shape[-1:], i["dtype"], k)
    return out


@pytest.mark.parametrize("name", CASES)
def test_the_bits_of_a_row_are_the_same_among_any_others(name: str) -> None:
    made, _, axis, kept = CASES[name]
    kernel = autofuse.load(autofuse.build(made, invariant=True, verify_ir=True))
    inputs = inputs_of(name)
    whole = rows_of(kernel, inputs, MOST, axis)
    for count in ROWS:
        for cores in (0, 1, 7):
            found = rows_of(kernel, inputs, count, axis, cores=cores)
            assert bits(found) == bits(whole.take(range(count), kept)), (count, cores)


def test_the_bits_are_those_of_kernels_of_other_known_sizes() -> None:
    shape = CASES["norm"][1]
    inputs = inputs_of("norm")
    some = [norm([b, 768], "float16") for b in ("b", 1, 3, 64)]
    whole = None
    for made in some:
        count = made["inputs"][0]["shape"][0]
        count = shape[0] if count == "b" else count
        kernel = autofuse.load(autofuse.build(made, invariant=True))
        found = rows_of(kernel, inputs, count, 0)
        whole = found if whole is None else whole
        assert bits(found) == bits(whole[:count])


def test_less_room_for_tiles_changes_no_bits() -> None:
    name = "softmax of known rows"
    found = {
        bits(
            rows_of(
                autofuse.load(autofuse.build(CASES[name][0], invariant=True, ub_bytes=ub)),
                inputs_of(name),
                MOST,
                0,
            )
        )
        for ub in (None, 120_000, 64_000)
    }
    assert len(found) == 1


def test_two_runs_are_equal_in_any_order_of_the_pipes() -> None:
    name = "softmax of any rows"
    inputs = inputs_of(name)
    for invariant in (False, True):
        built = autofuse.build(CASES[name][0], invariant=invariant)
        kernels = [autofuse.load(built)] * 2
        kernels += [autofuse.load(built, check="all", check_seed=seed) for seed in (1, 2)]
        assert len({bits(rows_of(k, inputs, 7, 0)) for k in kernels}) == 1


def test_a_kernel_that_is_not_invariant_differs() -> None:
    """The data and the rows are such that an order which changes is seen."""
    made, _, axis, _ = CASES["sum of columns"]
    kernel = autofuse.load(autofuse.build(made))
    inputs = inputs_of("sum of columns")
    found = {
        bits(rows_of(kernel, inputs, count, axis, key=key)[:3])
        for count in (3, 49, MOST)
        for key in range(kernel.key_count)
    }
    assert len(found) > 1


def test_integers_and_element_wise_graphs_have_every_template() -> None:
    for made in (
        graph("ReduceSum", ["b", "n"], "int32", axes=[1]),
        graph("Exp", ["b", "n"]),
    ):
        plain, fixed = (autofuse.build(made, invariant=i) for i in (False, True))
        assert fixed.files["device/g_kernel.cpp"].count("__aicore__") > 0
        names = [[i.name for g in r.groups for i in g.impls] for r in fixed.schedule]
        assert names[0] == [i.name for g in plain.schedule[0].groups for i in g.impls]
        assert fixed.metadata["invariant"] is True
        assert "invariant" not in plain.metadata


def test_what_has_no_fixed_order_is_refused() -> None:
    made = graph("Softmax", ["b", "n"], axis=-1)
    with pytest.raises(AutofuseError) as e:
        autofuse.build(made, invariant=True, ub_bytes=1024)
    assert [d.code for d in e.value.diagnostics] == ["AF3008"]
    for target in ("nvidia-h100", "cpu"):
        with pytest.raises(AutofuseError) as e:
            autofuse.build(made, invariant=True, target=target)
        assert [d.code for d in e.value.diagnostics] == ["AF5007"]
