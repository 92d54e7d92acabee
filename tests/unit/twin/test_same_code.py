"""Which kernels count as equal but for names, and who of them runs."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from autofuse import api
from autofuse.machines.twin.verify.same_code import claim, digest


def graph(
    *, name="g", a="x", b="y", mid="t", out="z", op="Mul", dtype="float32", size=300, origin=0
):
    """(a + b) * a or the like, with names of one's choice."""
    return {
        "schema": "autofuse.graph/1",
        "name": name,
        "inputs": [{"name": n, "dtype": dtype, "shape": [size]} for n in (a, b)],
        "nodes": [
            {"name": f"n_{mid}", "op": "Add", "inputs": [a, b], "outputs": [mid]},
            {"name": f"n_{out}", "op": op, "inputs": [mid, a], "outputs": [out]},
        ],
        "outputs": [out],
    }


def code(sizes=True, target=api.DEFAULT_TARGET, **changes):
    built = api.build(graph(**changes), target=target)
    return digest(built.files, built.graph, sizes=sizes)


@pytest.mark.parametrize(
    "names",
    [
        {"name": "another_name_of_a_graph"},
        {"a": "b", "b": "a"},
        {"a": "x_1", "b": "x", "mid": "x_1_2", "out": "x_1_2_3"},
        {"a": "a" * 90, "b": "b" * 70, "mid": "mid_0", "out": "out_0"},
        {"a": "float_in", "b": "z", "mid": "y", "out": "x"},
        {"name": "x", "a": "g"},
    ],
)
def test_names_do_not_count(names):
    assert code(**names) == code()


@pytest.mark.parametrize("change", [{"op": "Sub"}, {"dtype": "float16"}, {"size": 301}])
def test_all_else_does(change):
    assert code(**change) != code()


def test_kernels_of_triton_are_equal_but_for_names_as_well():
    first = code(target="nvidia-h100")
    names = {"name": "h", "a": "left", "b": "right", "mid": "between", "out": "last"}
    assert code(target="nvidia-h100", **names) == first != code()
    assert code(target="nvidia-h100", op="Sub") != first


def test_blank_space_and_division_count_in_python():
    made = api.read(graph())

    def of(text):
        return digest({"g_triton.py": text}, made)

    assert of("q = p // 2  # x") == of("q = p // 2  # y")
    assert of("q = p // 2") != of("q = p // 3")
    assert of("if q:\n    f()\nh()") != of("if q:\n    f()\n    h()")


@pytest.mark.parametrize(
    "same", [{"size": 301}, {"size": 7}, {"name": "h2", "a": "a1", "size": 4001}]
)
def test_sizes_need_not_count(same):
    assert code(sizes=False, **same) == code(sizes=False)
    assert code(**same) != code()


@pytest.mark.parametrize(
    "change", [{"op": "Sub"}, {"dtype": "float16"}, {"op": "Sub", "size": 301}]
)
def test_all_but_sizes_does(change):
    assert code(sizes=False, **change) != code(sizes=False)


def test_numbers_in_names_count_without_sizes():
    built = api.build(graph())
    (path,) = (p for p in built.files if p.startswith("device/"))
    plain = digest(built.files, built.graph, sizes=False)

    def with_last(line):
        return digest({**built.files, path: built.files[path] + line}, built.graph, sizes=False)

    assert len({with_last(f"\nint a1 = {n};") for n in ("1", "-2", "3.5e-7f", "0x1F", "4u")}) == 1
    assert with_last("\nint a2 = 1;") != with_last("\nint a1 = 1;") != plain
    swapped = graph()
    swapped["nodes"][0]["inputs"].reverse()
    other = api.build(swapped)
    assert digest(other.files, other.graph, sizes=False) != plain


def test_operands_that_change_places_count():
    swapped = graph()
    swapped["nodes"][0]["inputs"].reverse()
    built = api.build(swapped)
    assert digest(built.files, built.graph) != code()


def test_the_graph_and_the_code_both_count():
    built = api.build(graph())
    other = api.build(graph(op="Sub"))
    # The code of one with the meaning of the other: as if one op had been compiled as another one.
    assert digest(built.files, other.graph) != digest(built.files, built.graph)
    (path,) = (p for p in built.files if p.startswith("device/"))
    changed = {**built.files, path: built.files[path].replace("Mul(", "Add(")}
    assert changed[path] != built.files[path]
    assert digest(changed, built.graph) != digest(built.files, built.graph)
    symbols = replace(built.graph, symbols=())
    assert digest(built.files, symbols) == digest(built.files, built.graph)


def test_the_first_that_asks_has_the_claim(tmp_path):
    assert claim(tmp_path, "ab", "first")
    assert not claim(tmp_path, "ab", "second")
    assert claim(tmp_path, "ab", "first")
    assert claim(tmp_path, "cd", "second")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ab", "cd"]


def test_one_of_many_at_once_has_the_claim(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        for key in ("aa", "bb", "cc"):
            asked = pool.map(lambda i, k=key: claim(tmp_path, k, f"owner {i}"), range(32))
            assert sum(asked) == 1
