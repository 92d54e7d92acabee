"""Loads of several dimensions: which templates have them, and what a command may be."""

from __future__ import annotations

import pytest
from kernel_interpreter import run_kernel

from autofuse import api
from autofuse.codegen.ir.kernel_ir import CopyIn, DmaDims, For
from autofuse.codegen.lower.kernel import lower_templates
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.results import BuildResult
from autofuse.schedule.placement.permutation import is_permuted
from autofuse.schedule.search.bound import bind, chip_figures
from autofuse.schedule.search.cost_form import cost_form
from autofuse.targets import load_target

CHIP = "ascend950pr"


def transposed(
    shape: list[int | str],
    perm: list[int],
    dtype: str = "int64",
    chip: str = CHIP,
    **symbols: tuple[int, int, int],
) -> BuildResult:
    """A transposition; proved."""
    keys = ("min", "max", "hint")
    document = {
        "schema": "autofuse.graph/1",
        "name": "turn",
        "symbols": {k: dict(zip(keys, v, strict=True)) for k, v in symbols.items()},
        "inputs": [{"name": "x", "dtype": dtype, "shape": shape}],
        "nodes": [
            {
                "name": "t",
                "op": "Transpose",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"perm": perm},
            }
        ],
        "outputs": ["y"],
    }
    return api.build(document, target=chip, verify_ir=True)


def templates(built: BuildResult) -> list[ImplGraph]:
    return [i for r in built.schedule for g in r.groups for i in g.impls]


def loads(built: BuildResult) -> list[Node]:
    return [n for i in templates(built) for n in i.nodes if n.op == "Load"]


def commands(built: BuildResult) -> list[DmaDims]:
    fns = lower_templates(built.graph, built.schedule, load_target(CHIP)).values()
    loops = [s for fn in fns for s in fn.body if isinstance(s, For)]
    copies = [s for loop in loops for s in loop.body if isinstance(s, CopyIn)]
    return [s.block for s in copies if isinstance(s.block, DmaDims)]


def test_64_bits_are_transposed_by_the_load() -> None:
    built = transposed([4096, 4096], [1, 0])
    assert all(map(is_permuted, loads(built)))
    # Runs in GM are cache lines: 16 elements or more of the axis that is contiguous there.
    assert all(i.tiling.opened.granule % 16 == 0 for i in templates(built))
    assert {len(c.dims) for c in commands(built)} == {2}


def test_other_architectures_have_no_such_load() -> None:
    built = transposed([4096, 4096], [1, 0], chip="ascend910b1")
    assert not any(map(is_permuted, loads(built)))


def test_short_rows_on_both_sides_are_stored_as_one_run() -> None:
    built = transposed([512, 8, 16, 64], [0, 3, 2, 1], "float16")
    taken = templates(built)[0]
    assert is_permuted(next(n for n in taken.nodes if n.op == "Load"))
    store = next(n for n in taken.nodes if n.op == "Store")
    gm = dict(zip(store.y.axis, store.y.strides, strict=True))
    assert [gm[a] for a in store.y.vectorized_axis] == list(store.y.vectorized_strides)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_what_a_call_transposes_is_moved_in_rows(dtype: str) -> None:
    """By the model a load in rows and a transposition in UB take less."""
    assert not any(map(is_permuted, loads(transposed([1024, 64, 128], [0, 2, 1], dtype))[:1]))


def test_runs_in_gm_are_whole_cache_lines() -> None:
    assert not any(map(is_permuted, loads(transposed([3000, 300, 15], [2, 1, 0]))))
    assert any(map(is_permuted, loads(transposed([3000, 300, 16], [2, 1, 0]))))


def test_a_command_has_five_dimensions_at_most() -> None:
    found = commands(transposed([64, 2, 3, 5, 7, 16], [5, 4, 3, 2, 1, 0]))
    assert found
    assert max(len(c.dims) for c in found) <= 5


def test_rows_of_any_length_are_transposed_for_all_sizes() -> None:
    built = transposed(["n", 48, "m"], [0, 2, 1], n=(1, 4096, 64), m=(1, 1 << 20, 1000))
    assert any(map(is_permuted, loads(built)))


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ([40, 48, 37], [0, 2, 1]),
        ([5, 64, 7, 33], [0, 3, 2, 1]),
        ([200, 300], [1, 0]),
        ([1, 16], [1, 0]),
    ],
)
def test_each_element_goes_to_its_place_once(shape: list[int | str], perm: list[int]) -> None:
    built = transposed(shape, perm)
    fns = lower_templates(built.graph, built.schedule, load_target(CHIP))
    elements = 1
    for size in shape:
        assert isinstance(size, int)
        elements *= size
    for impl in templates(built):
        spec = impl.tiling
        tile = spec.opened.granule
        tiles = spec.outer.evaluate({}) * -(-spec.opened.extent.evaluate({}) // tile)
        data = {spec.opened.symbol: tile, spec.block_size: 3}
        found: dict[bool, list[int]] = {False: [], True: []}
        for t in run_kernel(fns[impl.name], data, -(-tiles // 3)):
            assert all(ub + nbytes <= t.room for _, ub, nbytes in t.pieces)
            found[t.store] += t.elements()
        assert sorted(found[False]) == sorted(found[True]) == list(range(elements))


def test_the_model_goes_from_element_to_element() -> None:
    target = load_target(CHIP)
    impl = templates(transposed([4096, 4096], [1, 0]))[0]
    form = bind(cost_form(impl, target), impl.tiling, {})
    elements = impl.tiling.row_elements.evaluate({})
    lengths = form.lengths(chip_figures(target))
    assert len(lengths) >= 4
    for tile in lengths:
        load = form.shares(chip_figures(target), tile, 3).tile.load
        nbytes = 8 * tile * elements
        assert load == pytest.approx(
            target.model.dims_issue + nbytes / target.model.dims_rate, rel=1e-4
        )
