"""Large reductions in two phases."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from lowering_checks import graph

from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.division.split_reductions import split_reductions
from autofuse.implgraph.division.worth import Sizes, Worth
from autofuse.implgraph.ir.dtypes import numpy_dtype
from autofuse.implgraph.ir.fusion import FusionGraph, Symbol
from autofuse.implgraph.lowering.lowering import groups, lower, lower_all
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.rewrites.interpret import interpret
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.targets import load_target, target_names

CHIP = load_target("ascend910b1")
ANY = {"n": (0, 1 << 22), "m": (0, 4096)}


def summed(shape, axes, op="ReduceSum", dtype="float32", keepdims=False, hints=(), also=()):
    attrs = {"axes": tuple(axes), "keepdims": keepdims}
    names = sorted({s for s in shape if isinstance(s, str)})
    nodes = [("y", op, ["x"], attrs), *also]
    made = graph({"x": tuple(shape)}, nodes, [r for r, *_ in nodes], dtype=dtype)
    symbols = tuple(Symbol(s, *ANY[s], dict(hints).get(s)) for s in names)
    return replace(made, symbols=symbols)


def steps(g: FusionGraph, chip=CHIP, symbolic=False) -> list[tuple[str, list[str]]]:
    """Op and shape of every node; each of them is what inference makes of its operands."""
    found = split_reductions(g, chip, symbolic=symbolic)
    for n in found.nodes:
        operands = [found.tensors[x] for x in n.inputs if isinstance(x, str)]
        made = found.tensors[n.outputs[0]]
        assert infer_node(lookup(n.op), operands, dict(n.attrs)) == (made.dtype, made.shape)
    return [(n.op, [str(s) for s in found.tensors[n.outputs[0]].shape]) for n in found.nodes]


def partial(found: list[tuple[str, list[str]]], op: str = "ReduceSum") -> list[str]:
    """The shape of the results of the parts."""
    return next(shape for o, shape in found if o == op)


@pytest.mark.parametrize(
    ("shape", "axes", "shapes"),
    [
        # (parts, length of each), then what is left for the short part
        ((1 << 20,), [0], (["48", "21845"], ["16"])),
        ((4194381,), [0], (["48", "87382"], ["45"])),
        ((1000, 1000), [0, 1], (["48", "20833"], ["16"])),
        # Rows of 1021 are eight blocks of columns: six groups of cores for each of them.
        ((4099, 1021), [0], (["6", "683", "1021"], ["1", "1021"])),
        ((10007, 3, 64), [0, 2], (["16", "625", "3", "64"], ["7", "3", "64"])),
    ],
)
def test_little_is_kept_of_much(shape, axes, shapes):
    found = steps(summed(shape, axes))
    main, rest = shapes
    assert ("Reshape", main) in found
    assert ("Slice", rest) in found
    assert found[-1][0] == "Reshape"


def test_an_outer_axis_is_divided_if_it_is_long_enough():
    assert partial(steps(summed((64, 3, 10007), [0, 2]))) == ["16", "3"]


def test_parts_that_are_even_have_no_rest():
    found = steps(summed((48 * 4096,), [0]))
    assert [op for op, _ in found] == ["Reshape", "ReduceSum", "ReduceSum", "Reshape"]
    assert partial(found) == ["48"]


def test_dimensions_that_are_kept_have_size_one():
    assert steps(summed((1024, 1024), [0, 1], keepdims=True))[-1] == ("Reshape", ["1", "1"])


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((4096, 1024), [1]), ((1024, 8192), [0]), ((100, 100), [0, 1]), ((0, 7), [0]), ((7, 0), [0])],
)
def test_others_stay(shape, axes):
    g = summed(shape, axes)
    assert split_reductions(g, CHIP) is g
    assert split_reductions(g, CHIP, symbolic=True) is g


@pytest.mark.parametrize("name", target_names())
def test_parts_are_as_many_as_the_chip_has_cores(name):
    chip = load_target(name)
    assert partial(steps(summed((8192, 1000), [0, 1]), chip)) == [str(chip.aiv_cores)]
    assert partial(steps(summed(("n",), [0]), chip, symbolic=True)) == [str(chip.aiv_cores)]


def test_no_number_of_parts_takes_less_than_two_phases_do_at_least():
    worth = Worth(CHIP)
    for length, blocks, block in itertools.product((2, 1000, 4099), (1, 7, 48, 100), (4, 512)):
        for again in (False, True):
            sizes = Sizes(length, blocks, block, block, again)
            sums = replace(sizes, sums=True)
            least = worth.least_parted(sizes)
            for parts in range(2, min(length, 192) + 1):
                assert least < worth.parted(sizes, parts) < worth.parted(sums, parts)


def test_a_chip_with_one_core_divides_nothing():
    g = summed((1 << 24,), [0])
    assert split_reductions(g, replace(CHIP, aiv_cores=1)) is g


def test_what_depends_on_symbols_stays_unless_asked():
    g = summed(("n",), [0])
    assert split_reductions(g, CHIP) is g
    assert len(steps(g, symbolic=True)) > 1


def test_columns_of_unknown_number_get_as_many_parts_as_there_are_cores():
    assert partial(steps(summed(("n", "m"), [0]), symbolic=True)) == ["48", "m"]


def test_many_rows_are_not_expected_to_be_long():
    """Without a hint 1024 rows are; with one, what it says."""
    g = summed(("m", "n"), [1])
    assert split_reductions(g, CHIP, symbolic=True) is g
    assert partial(steps(summed(("m", "n"), [1], hints={"m": 4}), symbolic=True)) == ["m", "48"]


def test_a_divided_form_is_ranked_for_large_sizes():
    found = split_reductions(summed(("n",), [0]), CHIP, symbolic=True)
    assert [s.hint for s in found.symbols] == [1 << 20]
    hinted = split_reductions(summed(("n",), [0], hints={"n": 300_000}), CHIP, symbolic=True)
    assert [s.hint for s in hinted.symbols] == [300_000]


def test_reductions_of_one_tensor_share_its_parts():
    g = summed((999_983,), [0], also=[("z", "ReduceMax", ["x"], {"axes": (0,)})])
    ops = [op for op, _ in steps(g)]
    assert ops.count("Slice") == 2
    (hint,) = lower_all(g, CHIP)
    assert sum(1 for n in hint.nodes if n.op == "Load" and n.inputs[0].startswith("Data")) == 2


def test_reductions_of_what_is_made_of_one_tensor_share_its_parts():
    """Sums of numbers, of their squares and of products, as in a batch norm and behind it: each part is loaded once."""
    also = [
        ("q", "Mul", ["x", "x"], {}),
        ("s", "ReduceSum", ["q"], {"axes": (0,)}),
        ("p", "Mul", ["x", "q"], {}),
        ("t", "ReduceSum", ["p"], {"axes": (0,)}),
    ]
    g = summed((99_991, 256), [0], also=also)
    g = replace(g, outputs=tuple(o for o in g.outputs if o.tensor in "yst"))
    assert [shape[0] for op, shape in steps(g) if op == "Slice"] == ["7", "99984"] * 3
    (hint,) = lower_all(g, CHIP)
    assert sum(1 for n in hint.nodes if n.op == "Load" and n.inputs[0].startswith("Data")) == 2


def test_others_that_read_the_operand_ask_for_even_parts():
    """A short part would be read once more."""
    size = 48 * 8192 + 48
    alone = steps(summed((size + 16,), [0]))
    assert partial(alone) == ["48"]
    assert any(op == "Slice" for op, _ in alone)
    both = steps(summed((size + 16,), [0], also=[("z", "Abs", ["x"], {})]))
    assert not any(op == "Slice" for op, _ in both)


@pytest.mark.parametrize("others", [("y", "z"), ("y", "q")])
def test_others_that_read_what_the_operand_is_made_of_do_too(others):
    size = 48 * 8192 + 64
    nodes = [
        ("t", "Exp", ["x"], {}),
        ("q", "Mul", ["t", "t"], {}),
        ("y", "ReduceSum", ["q"], {"axes": (0,)}),
        ("z", "Abs", ["t"], {}),
    ]
    alone = steps(graph({"x": (size,)}, nodes[:3], ["y"]))
    assert any(op == "Slice" for op, _ in alone)
    both = steps(graph({"x": (size,)}, nodes, list(others)))
    assert not any(op == "Slice" for op, _ in both)


# what it means --------------------------------------------------------------------------------

OPS = {
    "ReduceSum": (np.sum, "int32"),
    "ReduceMax": (np.max, "float16"),
    "ReduceMin": (np.min, "float32"),
    "ReduceProd": (np.prod, "int32"),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("shape", "axes", "envs"),
    [
        (("n",), (0,), [{"n": k} for k in (0, 1, 2, 47, 48, 49, 95, 96, 97, 4999)]),
        (("n", 3), (0,), [{"n": k} for k in (0, 1, 48, 331)]),
        (("n", "m"), (0,), [{"n": 0, "m": 2}, {"n": 149, "m": 0}, {"n": 149, "m": 5}]),
        ((3, "n"), (1,), [{"n": k} for k in (0, 1, 50, 499)]),
        (("n", 5, "m"), (0, 2), [{"n": 7, "m": 11}, {"n": 1, "m": 300}, {"n": 100, "m": 1}]),
        (("n", "m"), (0, 1), [{"n": 0, "m": 5}, {"n": 17, "m": 31}]),
        ((2, 300_007), (1,), [{}]),
        ((300_007, 2), (0,), [{}]),
    ],
)
def test_parts_and_rest_are_everything(op, shape, axes, envs):
    function, dtype = OPS[op]
    g = summed(shape, axes, op, dtype)
    forms = [canonicalise(form) for form in lower_all(g, CHIP)]
    assert len(forms) >= 2 or not g.symbols
    assert [verify(hint) for hint in forms] == [[] for _ in forms]
    (hint,) = (form for form in forms if len(groups(form)) == 3)
    rng = np.random.default_rng(len(op) + len(shape))
    for env in envs:
        sizes = [s.evaluate(env) for s in g.tensors["x"].shape]
        x = rng.integers(-9, 9, sizes).astype(numpy_dtype(g.tensors["x"].dtype))
        (got,) = interpret(hint, [x.ravel()], env)
        (undivided,) = interpret(lower(g), [x.ravel()], env)
        if 0 not in [sizes[a] for a in axes]:
            want = np.asarray(function(x, axis=axes)).astype(x.dtype)  # wraps
            assert np.array_equal(got, want.ravel())
        assert np.array_equal(got, undivided)


def test_a_part_without_elements_is_neutral():
    (_, hint) = lower_all(summed(("n",), [0], "ReduceMin"), CHIP)
    (got,) = interpret(canonicalise(hint), [np.array([7.0], np.float32)], {"n": 1})
    assert got.tolist() == [7.0]
    (got,) = interpret(canonicalise(hint), [np.zeros(0, np.float32)], {"n": 0})
    assert got.tolist() == [np.inf]


def test_the_place_of_the_largest_is_found_in_parts():
    attrs = {"axis": 0, "dtype": "int32"}
    g = replace(
        graph({"x": ("n", 3)}, [("y", "ArgMax", ["x"], attrs)], ["y"]),
        symbols=(Symbol("n", 1, 1 << 22),),
    )
    _, hint = lower_all(g, CHIP)
    hint = canonicalise(hint)
    assert verify(hint) == []
    rng = np.random.default_rng(3)
    for n in (1, 47, 48, 49, 1000):
        x = rng.integers(0, 40, (n, 3)).astype(np.float32)
        (got,) = interpret(hint, [x.ravel()], {"n": n})
        assert got.tolist() == x.argmax(0).tolist()


def test_a_graph_has_as_many_forms_as_differ():
    plain = replace(
        graph({"x": ("n", 8)}, [("y", "Abs", ["x"])], ["y"]), symbols=(Symbol("n", 0, 99),)
    )
    assert len(lower_all(plain, CHIP)) == 1
    assert len(lower_all(summed((1 << 20,), [0]), CHIP)) == 1  # divided
    assert (
        len(lower_all(summed((2048, 64), [0]), CHIP)) == 2
    )  # what is better is left to the scheduler
    assert len(lower_all(summed((100, 100), [1]), CHIP)) == 1  # whole
    assert len(lower_all(summed(("n",), [0]), CHIP)) == 2
