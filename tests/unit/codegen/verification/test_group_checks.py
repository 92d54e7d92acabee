"""Checks between the groups of a kernel: a missing SyncAll is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.verification import check_schedule, verify_schedule
from autofuse.codegen.verification.groups import (
    cores_have_a_place_to_meet,
    cores_meet_between_groups,
    outputs_have_one_writer,
)
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.schedule.axes.result import Group, ScheduleResult
from tests.unit.schedule.conftest import make_graph

GRAPHS = Path(__file__).resolve().parents[3] / "snapshot/graphs"
#: The number of a tensor that is neither an input nor an output.
WORKSPACE = 1000


def moved_to(r: ScheduleResult, byte: int) -> ScheduleResult:
    """The schedule with its workspaces in another place."""

    def moved(impl: ImplGraph) -> ImplGraph:
        nodes = (
            replace(n, attrs={**n.attrs, "offset": const(byte)}) if n.op == "Workspace" else n
            for n in impl.nodes
        )
        return replace(impl, nodes=tuple(nodes))

    groups = (replace(g, impls=tuple(moved(i) for i in g.impls)) for g in r.groups)
    return replace(r, groups=tuple(groups))


def synced(r: ScheduleResult, *groups: int) -> ScheduleResult:
    return replace(r, groups=tuple(replace(g, sync_before=g.index in groups) for g in r.groups))


def in_memory(group: Group, op: str, tensor: int) -> Group:
    """The group with its loads (``Data``) from another tensor in GM, or its stores (``Store``) to one."""

    def moved(impl: ImplGraph) -> ImplGraph:
        nodes = []
        for n in impl.nodes:
            if n.op == op:
                assert n.y.mem is not None
                n = replace(n, y=replace(n.y, mem=replace(n.y.mem, tensor_id=tensor)))
            nodes.append(n)
        return replace(impl, nodes=tuple(nodes))

    return replace(group, impls=tuple(moved(i) for i in group.impls))


@pytest.fixture(scope="module")
def in_place() -> api.BuildResult:
    return api.build(GRAPHS / "in_out_read_by_all.json")


@pytest.fixture(scope="module")
def separate() -> api.BuildResult:
    return api.build(GRAPHS / "two_groups.json")


def test_input_that_a_later_group_overwrites_needs_a_barrier(in_place: api.BuildResult) -> None:
    (result,) = in_place.schedule
    assert [g.sync_before for g in result.groups] == [False, True]
    assert verify_schedule(in_place.graph, [result], in_place.target) == []
    (found,) = verify_schedule(in_place.graph, [synced(result)], in_place.target)
    assert found.code == "AF4001"
    assert found.severity == "error"
    assert "check cores_meet_between_groups" in found.notes
    assert "group 0 reads in gather_1 what group 1 overwrites in store" in found.message
    with pytest.raises(AutofuseError, match="the cores do not meet in between"):
        check_schedule(in_place.graph, [synced(result)], in_place.target)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("Store", "Data", "writes in store what group 1 reads"),
        ("Data", "Store", "reads in gather_0 what group 1 overwrites"),
        ("Store", "Store", "writes in store what group 1 overwrites"),
    ],
)
def test_groups_that_share_workspace_need_a_barrier(
    separate: api.BuildResult, first: str, second: str, text: str
) -> None:
    (result,) = separate.schedule
    a, b = result.groups
    shared = replace(
        result, groups=(in_memory(a, first, WORKSPACE), in_memory(b, second, WORKSPACE))
    )
    (found,) = cores_meet_between_groups(separate.graph, shared)
    assert text in found.message
    assert not list(cores_meet_between_groups(separate.graph, synced(shared, 1)))


def test_groups_that_read_the_same_need_none(separate: api.BuildResult) -> None:
    (result,) = separate.schedule
    groups = tuple(in_memory(g, "Data", WORKSPACE) for g in result.groups)
    assert not list(cores_meet_between_groups(separate.graph, replace(result, groups=groups)))


def test_one_barrier_serves_all_groups_on_either_side(separate: api.BuildResult) -> None:
    (result,) = separate.schedule
    a, b = result.groups
    last = in_memory(replace(b, index=2), "Store", WORKSPACE + 1)
    groups = (in_memory(a, "Store", WORKSPACE), b, in_memory(last, "Data", WORKSPACE))
    three = replace(result, groups=groups)

    def found(*barriers: int) -> int:
        return len(list(cores_meet_between_groups(separate.graph, synced(three, *barriers))))

    assert [found(), found(0), found(1), found(2)] == [1, 1, 0, 0]


def test_outputs_are_written_once(separate: api.BuildResult) -> None:
    (result,) = separate.schedule
    a, b = result.groups
    twice = replace(result, groups=(a, a, b))
    (found,) = outputs_have_one_writer(separate.graph, twice)
    assert found.message == "output a is written by 2 Stores, not by 1"
    (found,) = outputs_have_one_writer(separate.graph, replace(result, groups=(b,)))
    assert found.message == "output a is written by 0 Stores, not by 1"
    mixed = replace(result, groups=(replace(a, impls=(*a.impls, *b.impls)),))
    assert "write different outputs" in next(outputs_have_one_writer(separate.graph, mixed)).message


def test_cores_that_meet_in_software_need_a_place() -> None:
    graph = make_graph(
        {"x": ("float32", [200000, 64])}, [("y", "ReduceSum", ["x"], {"axes": (0,)})], ["y"]
    )
    built = api.build(graph, target="ascend310p")
    (result,) = built.schedule
    assert any(g.sync_before for g in result.groups)
    assert verify_schedule(built.graph, [result], built.target) == []
    for byte in (0, 224):
        found = verify_schedule(built.graph, [moved_to(result, byte)], built.target)
        (first, *_) = [d for d in found if "check cores_have_a_place_to_meet" in d.notes]
        assert f"begins at byte {byte} of the workspace, where cores meet in 256" in first.message
    small = replace(built.target, ub_bytes=255)
    found = list(cores_have_a_place_to_meet(built.graph, result, small))
    assert [f.message for f in found] == ["cores meet in 256 bytes of UB, which has 255"]
