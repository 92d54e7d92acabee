"""The scheduler as a whole: templates that are kept, conditions, limits, diagnostics."""

import pytest
from schedule_steps import group_inputs, placed_templates
from twin_graphs import every_template

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule import rank, scheduler
from autofuse.schedule.axes.result import tiling_keys
from autofuse.schedule.rank import MAX_KEYS
from autofuse.schedule.scheduler import schedule

ROWS = (
    {"x": ("float32", ["m", "n"]), "b": ("float32", ["n"])},
    [("y", "Add", ["x", "b"])],
    ["y"],
)
SIZES = {"m": (1, 1 << 20, 64), "n": (1, 1 << 12, 200)}


def test_templates_are_valid_graphs(impls):
    for impl in impls(*ROWS, **SIZES):
        assert verify(impl) == []


def test_names_are_unique_and_legal(impls):
    names = [i.name for i in impls(*ROWS, **SIZES)]
    assert len(set(names)) == len(names)
    assert all(n.isidentifier() and n.startswith("g_0_") for n in names)


def test_unpadded_rows_carry_the_condition_on_their_length(impls):
    by_suffix = {(i.template, i.suffix): i.tiling for i in impls(*ROWS, **SIZES)}
    (condition,) = by_suffix["row", ""].conditions
    assert condition.multiple_of == 8
    assert str(condition.value) == "n"
    assert by_suffix["row", "unaligned"].conditions == ()
    assert by_suffix["general", ""].conditions == ()


def test_a_template_without_condition_takes_every_size(impls):
    assert any(not i.tiling.conditions for i in impls(*ROWS, **SIZES))


def test_rows_are_limited_by_one_dma_command(impls):
    row = next(i for i in impls(*ROWS, **SIZES) if i.template == "row")
    assert row.tiling.opened.most == 4095


def test_tiles_of_the_last_axis_are_whole_vector_repeats(impls):
    inputs = {"x": ("float32", [4096]), "h": ("float16", [4096])}
    nodes = [("f", "Cast", ["h"], {"dtype": "float32"}), ("y", "Add", ["x", "f"])]
    assert {
        i.tiling.opened.granule for i in impls(inputs, nodes, ["y"]) if i.template == "general"
    } == {128}


def test_tensor_numbers_are_unique_apart_from_the_copies_of_gm(impls):
    for impl in impls(*ROWS, **SIZES):
        ids = [n.y.mem.tensor_id for n in impl.nodes if n.y.mem and n.op not in ("Output", "Store")]
        assert len(set(ids)) == len(ids)


def test_keys_of_many_groups_stay_few(make, target):
    inputs = {f"x{i}": ("float32", [f"m{i}", f"n{i}"]) for i in range(5)}
    inputs |= {f"b{i}": ("float32", [f"n{i}"]) for i in range(5)}
    nodes = [(f"y{i}", "Add", [f"x{i}", f"b{i}"]) for i in range(5)]
    symbols = {f"{c}{i}": (1, 4096, None) for i in range(5) for c in "mn"}
    graph = make(inputs, nodes, [f"y{i}" for i in range(5)], **symbols)
    (result,) = schedule(canonicalise(lower(graph)), target)
    assert len(result.groups) == 5
    assert len(tiling_keys((result,))) <= MAX_KEYS


def test_of_many_groups_the_best_template_stays_where_it_is_legal_for_every_size(make, target):
    inputs = {f"x{i}": ("float32", [f"m{i}", 768]) for i in range(5)}
    nodes = [(f"y{i}", "Softmax", [f"x{i}"], {"axis": 1}) for i in range(5)]
    symbols = {f"m{i}": (1, 1 << 17, 8192) for i in range(5)}
    graph = make(inputs, nodes, [f"y{i}" for i in range(5)], **symbols)
    (result,) = schedule(canonicalise(lower(graph)), target)
    assert [[i.template for i in g.impls] for g in result.groups] == [["reduce_all"]] * 5


def test_of_many_groups_the_best_template_gives_way_to_one_for_every_size(make, target):
    inputs = {f"x{i}": ("float32", [f"m{i}", f"n{i}"]) for i in range(5)}
    nodes = [(f"y{i}", "Softmax", [f"x{i}"], {"axis": 1}) for i in range(5)]
    symbols = {f"{c}{i}": (1, 1 << 17, 1024) for i in range(5) for c in "mn"}
    graph = make(inputs, nodes, [f"y{i}" for i in range(5)], **symbols)
    (result,) = schedule(canonicalise(lower(graph)), target)
    assert len(tiling_keys((result,))) <= MAX_KEYS
    for g in result.groups:
        assert g.impls[0].template == "reduce"
        assert not g.impls[0].tiling.conditions


def test_output_is_the_same_every_time(make, target):
    graph = make(*ROWS, **SIZES)
    first, second = (schedule(canonicalise(lower(graph)), target) for _ in range(2))
    assert first == second


def test_dropped_templates_have_reasons(make, target):
    graph = make({"x": ("float32", [40, 64]), "b": ("float32", [64])}, ROWS[1], ["y"])
    (result,) = schedule(canonicalise(lower(graph)), target)
    assert all(r.reason and r.template for r in result.rejected)


def test_what_can_never_fit_has_one_plan_made_for_its_reason(make, target):
    # Rows of 400 KB: no tile holds one, so that there is a loop over their pieces instead.
    nodes = [("s", "ReduceSum", ["x"], {"axes": (1,), "keepdims": True}), ("y", "Sub", ["x", "s"])]
    graph = make({"x": ("float32", [64, 100_000])}, nodes, ["y"])
    hint = canonicalise(lower(graph))
    (result,) = schedule(hint, target)
    (whole,) = (r for r in result.rejected if r.template.startswith("reduce_all"))
    assert whole.code == "AF3003"
    (g,) = group_inputs(hint, target)
    tried = {t.candidate.template: t._tried([(2, False), (1, False)]) for t in placed_templates(g)}
    assert tried["reduce_all"] == [(1, False, False)]
    assert len(tried["reduce"]) == 4


def test_too_many_tensors_alive_is_an_error_with_every_reason(make, target):
    count = 80
    inputs = {f"x{i}": ("float32", [4096]) for i in range(count)}
    nodes, last = [], "x0"
    for op in ("Add", "Mul"):
        for i in range(1, count):
            nodes.append((f"{op}{i}", op, [last, f"x{i}"]))
            last = f"{op}{i}"
    hint = canonicalise(lower(make(inputs, nodes, [last])))
    with pytest.raises(AutofuseError) as caught:
        schedule(hint, target)
    (found,) = caught.value.diagnostics
    assert found.code in ("AF3003", "AF3004")
    assert found.notes
    assert found.hint


def test_strided_column_of_64_bits_that_is_computed_with_is_gathered_in_words(impls):
    inputs = {"x": ("int64", [64, 1], [7, 1], 0)}
    for impl in impls(inputs, [("y", "Cast", ["x"], {"dtype": "float32"})], ["y"]):
        ops = [n.op for n in impl.nodes]
        assert ops.count("UbTranspose") == 2
        assert ops.count("Join") == 1


def test_strided_column_beside_long_rows_is_one_value_per_row(impls):
    inputs = {"x": ("float32", [64, 1], [9, 1], 0), "y": ("float32", [64, 100])}
    with every_template():
        found = impls(inputs, [("z", "Add", ["x", "y"])], ["z"])
    general = next(i for i in found if i.template == "general")
    assert not any(n.op == "UbTranspose" for n in general.nodes)
    # Rows of several values each: the column is gathered from elements that have 32 bytes each.
    row = next(i for i in found if i.template == "row")
    load = next(n for n in row.nodes if n.name == "gather_0_rows" or n.name.endswith("_rows"))
    assert [str(s) for s in load.y.vectorized_strides] == ["8"]


def test_templates_of_a_group_have_names_of_their_own(impls, monkeypatch):
    monkeypatch.setattr(rank, "needed", lambda times, *_: range(len(times)))
    shape = ["s0", 15, 16, "s3"]
    nodes = [
        ("t", "Transpose", ["x"], {"perm": (0, 2, 1, 3)}),
        ("u", "Add", ["t", "z"]),
        ("v", "ReduceSum", ["u"], {"axes": (2, 3, 0), "keepdims": False}),
    ]
    inputs = {"x": ("float16", ["s0", 16, 15, "s3"]), "z": ("float16", shape)}
    found = impls(inputs, nodes, ["u", "v"], s0=(1, 40, None), s3=(0, 300, None))
    assert len({i.name for i in found}) == len(found)


@pytest.mark.parametrize(
    ("hazards", "barriers"),
    [
        ([], set()),
        ([(0, 2), (1, 2)], {2}),
        # What group 3 waits for has ended where group 2 began.
        ([(0, 1), (1, 2), (0, 3), (1, 3)], {1, 2}),
        ([(0, 1), (0, 2), (1, 3)], {1, 3}),
        ([(0, 2), (2, 3), (1, 3)], {2, 3}),
    ],
)
def test_one_barrier_is_for_all_groups_before_it(hazards, barriers):
    found = scheduler._barriers(hazards)
    assert found == barriers
    for a, b in hazards:
        assert any(a < k <= b for k in found)


def test_what_is_for_long_rows_takes_no_place_of_others():
    """A row template that the sizes of a call may need is kept beside the loop over rows."""
    symbols = {s: {"min": 1, "max": 16384} for s in ("m", "n")}
    document = {
        "schema": "autofuse.graph/1",
        "name": "k",
        "symbols": symbols,
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": ["m", 7, "n"]},
            {"name": "z", "dtype": "float32", "shape": ["m", 1, "n"]},
        ],
        "nodes": [{"name": "a", "op": "Mul", "inputs": ["x", "z"], "outputs": ["y"], "attrs": {}}],
        "outputs": ["y"],
    }
    (result,) = api.build(document).schedule
    names = [(i.template, i.suffix) for i in result.groups[0].impls]
    assert names.count(("general", "rows_7")) == 1
    assert names.count(("row", "unaligned")) == 2
