"""Where graphs are cut: parts, what passes between them, obstacles, and how much is asked."""

from collections.abc import Callable
from typing import Any

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError, Where
from autofuse.implgraph.cutting.cut import INPUT, OUTPUT, PASSED, Cutter, Place
from autofuse.implgraph.cutting.split import MAX_CHECKS, Uncut, cut_after, find_split
from autofuse.implgraph.ir.fusion import FusionGraph


def graph(nodes: list[list[Any]], outputs: list[Any], **fields: Any) -> FusionGraph:
    """Nodes as [name, op, *inputs], each giving a tensor with its name; the inputs a and b."""
    return api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "g",
            "inputs": [{"name": n, "dtype": "float32", "shape": [8]} for n in ("a", "b")],
            "nodes": [
                {"name": f"n_{n}", "op": op, "inputs": list(x), "outputs": [n]}
                for n, op, *x in nodes
            ],
            "outputs": outputs,
            **fields,
        }
    )


def chain(length: int) -> FusionGraph:
    return graph(
        [[f"t{k}", "Exp", f"t{k - 1}" if k else "a"] for k in range(length)], [f"t{length - 1}"]
    )


def at_most(nodes: int, never: tuple[str, ...] = ()) -> Callable[[FusionGraph], Any]:
    def refusal(part: FusionGraph) -> AutofuseError | None:
        if len(part.nodes) > nodes:
            return AutofuseError.of("AF3004", "too many")
        bad = [n.name for n in part.nodes if n.name in never]
        return AutofuseError.of("AF2103", f"{bad[0]} never") if bad else None

    return refusal


# parts ----------------------------------------------------------------------------------------


def test_parameters_of_parts() -> None:
    g = graph(
        [["r", "Exp", "a"], ["u", "Abs", "r"], ["v", "Add", "r", "b"], ["w", "Add", "u", "v"]],
        ["u", "w"],
    )
    split = cut_after(g, ["n_u"])
    first, second = split.parts
    assert (first.graph.name, second.graph.name) == ("g_part0", "g_part1")
    assert first.graph.inputs == ("a",)
    # u is an output of the whole, so it is read from there; r is passed on.
    assert [o.name for o in first.graph.outputs] == ["u", "r"]
    assert first.targets == (Place(OUTPUT, 0), Place(PASSED, 0))
    assert second.graph.inputs == ("b", "r", "u")
    assert second.sources == (Place(INPUT, 1), Place(PASSED, 0), Place(OUTPUT, 0))
    assert second.targets == (Place(OUTPUT, 1),)
    (passed,) = split.passed
    assert (passed.tensor.name, passed.maker, passed.users, passed.bytes) == ("r", 0, (1,), 32)
    assert split.cut_after == ("n_u",)


def test_a_tensor_that_is_not_needed_next_skips_a_part() -> None:
    g = graph(
        [["r", "Exp", "a"], ["u", "Abs", "b"], ["v", "Exp", "u"], ["w", "Add", "r", "v"]], ["w"]
    )
    split = cut_after(g, ["n_r", "n_v"])
    assert [(p.tensor.name, p.maker, p.users) for p in split.passed] == [
        ("r", 0, (2,)),
        ("v", 1, (2,)),
    ]


def test_nodes_that_no_output_needs_are_left_out() -> None:
    g = graph([["r", "Exp", "a"], ["dead", "Abs", "r"], ["u", "Abs", "r"]], ["u"])
    assert [n.name for n in Cutter(g).nodes] == ["n_r", "n_u"]
    with pytest.raises(AutofuseError, match="no node of that name"):
        cut_after(g, ["n_dead"])


def test_an_input_is_overwritten_after_its_last_reader() -> None:
    g = graph(
        [["r", "Exp", "b"], ["u", "Add", "r", "a"], ["v", "Add", "u", "a"]],
        [{"name": "o", "tensor": "r", "inout": "a"}, "v"],
    )
    split = cut_after(g, ["n_r", "n_u"])
    assert [[o.name for o in p.graph.outputs] for p in split.parts] == [["r"], ["u"], ["o", "v"]]
    last = split.parts[2]
    assert last.graph.outputs[0].inout == "a"
    assert last.sources[last.graph.inputs.index("a")] == Place(INPUT, 0)
    assert last.targets == (Place(OUTPUT, 0), Place(OUTPUT, 1))


def test_inputs_that_change_places_are_written_by_one_part() -> None:
    """Each of the two copies reads what the other one overwrites."""
    g = graph(
        [["r", "Exp", "a"], ["u", "Exp", "r"], ["v", "Add", "u", "b"]],
        [
            {"name": "p", "tensor": "a", "inout": "b"},
            {"name": "q", "tensor": "b", "inout": "a"},
            "v",
        ],
    )
    split = cut_after(g, ["n_r", "n_u"])
    assert [[o.name for o in p.graph.outputs] for p in split.parts] == [
        ["r"],
        ["u"],
        ["p", "q", "v"],
    ]


def test_a_copy_of_an_input_is_made_before_the_input_is_overwritten() -> None:
    g = graph(
        [["r", "Exp", "b"], ["u", "Exp", "r"]],
        [{"name": "o", "tensor": "u", "inout": "a"}, {"name": "copy", "tensor": "a"}],
    )
    split = cut_after(g, ["n_r"])
    assert [[o.name for o in p.graph.outputs] for p in split.parts] == [["copy", "r"], ["o"]]


def test_an_output_with_the_name_of_another_tensor() -> None:
    g = graph([["r", "Exp", "a"], ["u", "Abs", "r"], ["v", "Abs", "u"]], ["v"])
    renamed = FusionGraph(
        "g", (), g.inputs, g.nodes, (type(g.outputs[0])("u", "r"), g.outputs[0]), g.tensors
    )
    (first, _) = cut_after(renamed, ["n_u"]).parts
    assert [(o.name, o.tensor) for o in first.graph.outputs] == [("u", "r"), ("u_1", "u")]


def test_symbols_that_a_part_does_not_have_are_no_parameters_of_it() -> None:
    g = api.read(
        {
            "schema": "autofuse.graph/1",
            "name": "g",
            "symbols": {"m": {"min": 1, "max": 64}, "n": {"min": 1, "max": 64, "hint": 7}},
            "inputs": [
                {"name": "a", "dtype": "float32", "shape": ["m"]},
                {"name": "b", "dtype": "float32", "shape": ["n*2"]},
            ],
            "nodes": [
                {"name": "x", "op": "Exp", "inputs": ["a"], "outputs": ["r"]},
                {"name": "y", "op": "Exp", "inputs": ["b"], "outputs": ["u"]},
            ],
            "outputs": ["r", "u"],
        }
    )
    split = cut_after(g, ["x"])
    assert [[s.name for s in p.graph.symbols] for p in split.parts] == [["m"], ["n"]]
    assert split.passed == ()
    # Hints where there are some, else a typical size inside the range.
    assert Cutter(g).traffic(1) == [2 * 14 * 4]
    assert Cutter(g).traffic(0)[0] == 2 * 64 * 4


# the search -----------------------------------------------------------------------------------


def test_fewest_kernels_then_fewest_bytes() -> None:
    # Behind t1 one tensor passes, behind t0 and t2 there are two.
    g = graph(
        [
            *(["t0", "Exp", "a"], ["s", "Exp", "t0"], ["t1", "Add", "t0", "s"]),
            *(["t2", "Exp", "t1"], ["t3", "Add", "t1", "t2"], ["t4", "Exp", "t3"]),
        ],
        ["t4"],
    )
    found = find_split(g, at_most(4))
    assert not isinstance(found, Uncut)
    assert found.cut_after == ("n_t1",)
    assert find_split(g, at_most(4)) == found


def test_one_part_where_all_is_accepted() -> None:
    found = find_split(chain(5), at_most(5))
    assert not isinstance(found, Uncut)
    assert [p.graph.name for p in found.parts] == ["g"]
    assert found.cut_after == ()


def test_obstacles_are_all_named() -> None:
    found = find_split(chain(9), at_most(3, ("n_t2", "n_t6")))
    assert isinstance(found, Uncut)
    assert [o.node.name for o in found.obstacles] == ["n_t2", "n_t6"]
    assert [str(o.error.diagnostics[0].message) for o in found.obstacles] == [
        "n_t2 never",
        "n_t6 never",
    ]
    # t0 t1 | t3 t4 t5 | t7 t8
    assert found.kernels == 3
    first = find_split(chain(9), at_most(3, ("n_t2", "n_t6")), every=False)
    assert isinstance(first, Uncut)
    assert [o.node.name for o in first.obstacles] == ["n_t2"]


def test_suspects_are_asked_first() -> None:
    asked: list[list[str]] = []
    limit = at_most(3, ("n_t6",))

    def refusal(part: FusionGraph) -> AutofuseError | None:
        asked.append([n.name for n in part.nodes])
        return limit(part)  # type: ignore[no-any-return]

    found = find_split(chain(9), refusal, every=False, suspects=["n_t1", "nobody", "n_t6"])
    assert isinstance(found, Uncut)
    assert [o.node.name for o in found.obstacles] == ["n_t6"]
    assert asked == [["n_t1"], ["n_t6"]]


def test_nodes_that_only_go_together() -> None:
    """Neither node is accepted alone, both together are."""

    def refusal(part: FusionGraph) -> AutofuseError | None:
        names = {n.name for n in part.nodes}
        torn = len({"n_t2", "n_t3"} & names) == 1
        return AutofuseError.of("AF2101", "torn") if torn or len(names) > 3 else None

    found = find_split(chain(6), refusal)
    assert not isinstance(found, Uncut)
    assert all(refusal(p.graph) is None for p in found.parts)


@pytest.mark.parametrize("size", [40, 400])
def test_questions_grow_with_the_parts_and_the_logarithm_of_the_nodes(size: int) -> None:
    asked: list[int] = []
    limit = at_most(size // 5)

    def refusal(part: FusionGraph) -> AutofuseError | None:
        asked.append(len(part.nodes))
        return limit(part)  # type: ignore[no-any-return]

    found = find_split(chain(size), refusal)
    assert not isinstance(found, Uncut)
    assert len(found.parts) == 5
    assert len(asked) <= 6 * (2 * size.bit_length() + 2) + MAX_CHECKS


@pytest.mark.parametrize("backwards", [False, True])
def test_a_refusal_says_how_long_a_part_may_be(backwards: bool) -> None:
    """Counted from the first node, or from the last one: no other lengths are asked for."""
    asked: list[int] = []

    def refusal(part: FusionGraph) -> AutofuseError | None:
        asked.append(len(part.nodes))
        if len(part.nodes) <= 64:
            return None
        node = part.nodes[-65 if backwards else 64]
        return AutofuseError.of("AF2104", "too many", where=Where(pointer=node.origin))

    g = chain(1000)
    whole = refusal(g)
    asked.clear()
    found = find_split(g, refusal, whole=whole)
    assert not isinstance(found, Uncut)
    assert [len(p.graph.nodes) for p in found.parts] == [64] * 15 + [40]
    # The first part, its neighbours, and two lengths for each of the others.
    assert len(asked) <= 8 + 2 * 15
    assert len(g.nodes) not in asked


def test_parts_are_as_long_as_the_one_before() -> None:
    asked: list[int] = []
    limit = at_most(50)

    def refusal(part: FusionGraph) -> AutofuseError | None:
        asked.append(len(part.nodes))
        return limit(part)  # type: ignore[no-any-return]

    found = find_split(chain(500), refusal)
    assert not isinstance(found, Uncut)
    assert len(found.parts) == 10
    assert len(asked) <= 14 + 2 * 9


@pytest.mark.parametrize(
    ("names", "message"),
    [(["nope"], "there is no node of that name"), (["n_t3"], "it is the last one")],
)
def test_cuts_that_are_not_there(names: list[str], message: str) -> None:
    with pytest.raises(AutofuseError, match=message) as e:
        cut_after(chain(4), names)
    assert e.value.diagnostics[0].code == "AF5007"
