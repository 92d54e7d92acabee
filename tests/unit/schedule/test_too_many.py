"""A graph with too much for one kernel is refused before it is scheduled."""

import pytest

from autofuse.api import build
from autofuse.base.diagnostics import AutofuseError
from autofuse.schedule import scheduler
from autofuse.schedule.legal import legalize


def chain(op, count, attrs=lambda _: {}):
    nodes = [
        {
            "name": f"n{i}",
            "op": op,
            "inputs": [f"y{i - 1}" if i else "x"],
            "outputs": [f"y{i}"],
            "attrs": attrs(i),
        }
        for i in range(count)
    ]
    return {
        "schema": "autofuse.graph/1",
        "name": "chain",
        "symbols": {},
        "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 64]}],
        "nodes": nodes,
        "outputs": [f"y{count - 1}"],
    }


def refusal(graph, monkeypatch):
    def never(*_, **__):
        pytest.fail("templates are made")

    monkeypatch.setattr(scheduler, "_made", never)
    with pytest.raises(AutofuseError) as caught:
        build(graph)
    (found,) = caught.value.diagnostics
    assert found.code == "AF2104"
    assert "--split" in found.hint
    return found


def test_too_many_calls(monkeypatch):
    found = refusal(chain("Lgamma", 200), monkeypatch)
    assert str(legalize.MAX_CALLS) in found.message
    assert found.where.node


def test_too_many_workspaces(monkeypatch):
    found = refusal(chain("Softmax", 70, lambda i: {"axis": i % 2}), monkeypatch)
    assert "workspace" in found.message
    assert found.where.pointer.startswith("/nodes/")


def test_no_cut_is_left_for_what_groups_compute_again(monkeypatch):
    """Every reduction is cut, and no tensor half way can be: the groups would grow with the square of the chain."""
    found = refusal(chain("Softmax", 62, lambda i: {"axis": i % 2}), monkeypatch)
    assert "workspace" in found.message


def test_what_is_left_of_the_limit_is_built(monkeypatch):
    monkeypatch.setattr(legalize, "MAX_CALLS", 400)
    build(chain("Lgamma", 2))
    refusal(chain("Lgamma", 4), monkeypatch)


def test_long_products_of_64_bit_integers_fit():
    """The upper words need the lower ones of every step: neither chain of words is made before the other one."""
    graph = chain("Add", 1)
    graph["inputs"] = [
        {"name": n, "dtype": "int64", "shape": [k, 64, w]}
        for n, k, w in (("x", 9, 16), ("a", 9, 20), ("b", 1, 36))
    ]
    graph["nodes"] = [
        {"name": "add", "op": "Add", "inputs": ["x", {"const": 3}], "outputs": ["c"]},
        {
            "name": "join",
            "op": "Concat",
            "inputs": ["a", "c"],
            "outputs": ["d"],
            "attrs": {"axis": 2},
        },
        {"name": "sum", "op": "Add", "inputs": ["d", "b"], "outputs": ["e"]},
        {
            "name": "p",
            "op": "ReduceProd",
            "inputs": ["e"],
            "outputs": ["y0"],
            "attrs": {"axes": [2]},
        },
    ]
    (result,) = build(graph).schedule
    assert all(len(i.buffers) < 40 for g in result.groups for i in g.impls)


def test_what_the_chip_lacks_is_said_before_any_group_is_scheduled(monkeypatch):
    def never(*_, **__):
        pytest.fail("templates are made")

    monkeypatch.setattr(scheduler, "_made", never)
    graph = chain("Softmax", 3, lambda i: {"axis": i % 2})
    graph["nodes"].append(
        {"name": "last", "op": "LegendrePolynomialP", "inputs": ["y2", "y2"], "outputs": ["y"]}
    )
    graph["outputs"] = ["y"]
    with pytest.raises(AutofuseError) as caught:
        build(graph)
    assert {d.code for d in caught.value.diagnostics} == {"AF3001"}


def test_axes_are_made_plain_once_for_all_groups(monkeypatch):
    """A group with axes of its own does not look at those of the others."""
    made = []
    plain = scheduler.plain

    def counted(axes):
        made.append(len(axes))
        return plain(axes)

    monkeypatch.setattr(scheduler, "plain", counted)
    graph = chain("Exp", 6)
    graph["inputs"] = [
        {"name": f"x{i}", "dtype": "float32", "shape": [64, 64 + i]} for i in range(6)
    ]
    for i, n in enumerate(graph["nodes"]):
        n["inputs"] = [f"x{i}"]
    graph["outputs"] = [f"y{i}" for i in range(6)]
    (result,) = build(graph).schedule
    assert len(result.groups) == 6
    assert len(made) == 1
