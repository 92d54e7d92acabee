"""Rules that call mutants equivalent (``mutation_rules.py``): what each takes, and what it must not take."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mutation_kernels import candidates
from mutation_rules import Mutation, equivalent
from mutation_run import cores_of_others
from twin_graphs import every_template, graph

from autofuse import api
from autofuse.schedule.templates import reduce

ROOT = Path(__file__).resolve().parents[2]
HEAD = '{"schema": "autofuse.graph/1", "name": "g", '


def rules(source: Path | str, kind: str, text: str) -> list[str]:
    """The rules that hold for mutants of a class whose text has this in it; empty text where none does."""
    return [r for _, r in _found(source, kind, text)]


def by_template(source: Path | str | dict[str, Any], kind: str, text: str) -> dict[str, set[str]]:
    """The same by template, such as ``reduce_all``."""
    out: dict[str, set[str]] = {}
    for template, rule in _found(source, kind, text):
        out.setdefault(template, set()).add(rule)
    return out


def _found(source: Path | str | dict[str, Any], kind: str, text: str) -> Iterator[tuple[str, str]]:
    built = api.build(source)
    for c in candidates(built):
        if c.kind == kind and text in c.text:
            assert c.original is not None
            assert c.fn is not None
            assert c.impl is not None
            m = Mutation(kind, c.original, c.fn, c.impl, built.target, None)
            yield c.impl.template, equivalent(m)


def unary(*ops: str, shape: tuple[int, ...] = (300,)) -> str:
    """A chain of unary operators."""
    names = ["x", *(f"t{i}" for i in range(len(ops) - 1)), "y"]
    nodes = ", ".join(
        f'{{"name": "n{i}", "op": "{op}", "inputs": ["{a}"], "outputs": ["{b}"]}}'
        for i, (op, a, b) in enumerate(zip(ops, names[:-1], names[1:], strict=True))
    )
    inputs = f'"inputs": [{{"name": "x", "dtype": "float32", "shape": {list(shape)}}}], '
    return f'{HEAD}{inputs}"nodes": [{nodes}], "outputs": ["y"]}}'


def difference(then: str) -> str:
    """``a - b`` and a node that uses it."""
    return (
        f'{HEAD}"inputs": [{{"name": "a", "dtype": "float32", "shape": [300]}}, '
        '{"name": "b", "dtype": "float32", "shape": [300]}], '
        '"nodes": [{"name": "s", "op": "Sub", "inputs": ["a", "b"], "outputs": ["d"]}, '
        f'{{"name": "u", {then}, "outputs": ["y"]}}], "outputs": ["y"]}}'
    )


def reduced(shape: list[int], axes: list[int], op: str = "Sum", dtype: str = "float32") -> str:
    """The sum of squares, or something else of them."""
    return (
        f'{HEAD}"inputs": [{{"name": "x", "dtype": "{dtype}", "shape": {shape}}}], '
        '"nodes": [{"name": "m", "op": "Mul", "inputs": ["x", "x"], "outputs": ["t"]}, '
        f'{{"name": "r", "op": "Reduce{op}", "inputs": ["t"], "outputs": ["y"], '
        f'"attrs": {{"axes": {axes}}}}}], "outputs": ["y"]}}'
    )


@pytest.mark.parametrize(
    ("then", "rule"),
    [
        ('"op": "Mul", "inputs": ["d", "d"]', "sign that is lost"),
        ('"op": "Abs", "inputs": ["d"]', "sign that is lost"),
        ('"op": "Mul", "inputs": ["d", "a"]', ""),
        ('"op": "Exp", "inputs": ["d"]', ""),
    ],
)
def test_difference_whose_sign_is_lost(then: str, rule: str) -> None:
    assert set(rules(difference(then), "swap-operands", "Sub to")) == {rule}


def test_buffer_of_a_queue_that_the_vector_pipe_reads_behind_is_not_spare() -> None:
    """With one buffer, Relu of the next tile would write what Add still reads: the twin has a race."""
    document = ROOT / "tests/snapshot/graphs/output_used.json"
    queues = ("x_queue", "y_queue", "z_queue", "r_queue")
    found = {q: set(rules(document, "shrink-buffer", f"{q}: one buffer less")) for q in queues}
    spare = {q: {"spare buffer of a queue"} for q in queues[:3]}
    assert found == spare | {"r_queue": {""}}


def test_the_only_buffer_of_a_loop_orders_its_iterations() -> None:
    """One barrier, of the variant ``tight``: that before the first call of a tile.  Those inside of a tile stay."""
    document = ROOT / "tests/snapshot/graphs/softmax_shared.json"
    assert by_template(document, "delete-barrier", "")["reduce"] == {""}
    assert rules(document, "delete-barrier", "").count("barrier behind the only buffer") == 1


@every_template()
def test_a_longer_row_with_an_operand_ends_behind_the_tensor_where_it_is_the_only_one() -> None:
    document = ROOT / "tests/snapshot/graphs/broadcast_trailing.json"
    found = by_template(document, "call-count", "count 1 +1")
    assert found == {"general": {"element behind the end"}, "row": {""}}


def test_scratch_space_above_the_least_that_a_function_takes() -> None:
    document = ROOT / "tests/snapshot/graphs/tmp_buffer.json"
    assert set(rules(document, "shrink-buffer", "shared0_buf: 32 bytes less")) == {
        "scratch space above the least"
    }
    # Half of the bytes of the shortest tile are less than that.
    least = unary("Erf", "Tanh", "Erf")
    assert set(rules(least, "shrink-buffer", "shared0_buf: 32 bytes less")) == {""}


@pytest.mark.parametrize(
    ("op", "dtype", "n", "rule"),
    [
        ("Max", "float16", 392, "scratch space that is not used"),  # 4 parts of 98, in rows of 112
        ("Max", "float16", 512, ""),  # 4 parts of 128
        ("Max", "float16", 120, "scratch space that is not used"),  # one instruction for a row
        ("Sum", "float32", 196, ""),  # an eighth of a row, and a block of that
        ("Sum", "float32", 60, ""),  # a block for a row
    ],
)
@every_template()
def test_scratch_space_that_a_reduction_does_not_use(
    op: str, dtype: str, n: int, rule: str
) -> None:
    # Of so few rows for each result, the outer dimension is not reduced first.
    graph = reduced([7, 32, n], [0, 2], op, dtype)
    found = by_template(graph, "shrink-buffer", "32 bytes less")
    assert rule in found["reduce"]
    assert found["reduce"] <= {rule, ""}


@pytest.mark.parametrize(
    ("shape", "rule"),
    [([40, 3, 2], "element between rows"), ([40, 8, 8], "")],
    ids=["3 x 2 in 3 rows of 8", "8 x 8"],
)
def test_last_elements_are_left_out_between_rows_only(
    shape: list[int], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduce, "_apart", lambda g: [])  # so few elements would be whole in a tile
    graph = reduced(shape, [0, 2])
    assert by_template(graph, "call-count", "Mul to m_local: count -1")["reduce"] == {rule}
    assert "element between rows" not in rules(graph, "call-count", "count +1")


@pytest.mark.parametrize(
    ("rows", "rule"), [(2, ""), (7, "barrier inside a call"), (8, "barrier inside a call")]
)
def test_a_reduction_that_joins_rows_one_after_the_other_has_a_barrier_inside(
    rows: int, rule: str
) -> None:
    """Behind the second reduction, the next tile writes what the first one reads."""
    nodes = [
        ("t", "Mul", ["x", "x"]),
        ("squares", "ReduceSum", ["t"], {"axes": [1]}),
        ("sums", "ReduceSum", ["x"], {"axes": [1]}),
    ]
    document = graph({"x": ("float32", [16, rows, 16])}, nodes, ["squares", "sums"])
    found = by_template(document, "weaken-barrier", "ReduceOuter<autofuse::SumOf> to sums_local")
    assert found["reduce_all"] == {rule}


def test_cores_of_groups_side_by_side_are_not_known() -> None:
    sums = {n: ("float32", [512, length]) for n, length in (("a", 300), ("b", 2000))}
    nodes = [(f"{n}_sum", "ReduceSum", [n], {"axes": [1]}) for n in sums]
    beside = api.build(graph(sums, nodes, [n for n, *_ in nodes]))
    total = [("total", "ReduceSum", ["x"], {})]
    behind = api.build(graph({"x": ("float32", [48 << 13])}, total, ["total"]))
    for built, known in ((beside, False), (behind, True)):
        groups = built.schedule[0].groups
        assert len(groups) > 1
        assert all(g.sync_before for g in groups[1:]) == known
        found = {cores_of_others(built, i) for g in groups for i in g.impls}
        assert (None not in found) == known, found
