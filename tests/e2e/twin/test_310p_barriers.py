"""Kernels whose cores meet in software: right on the twin, and refused with a fault in how they do."""

from typing import Any

import pytest
from twin_graphs import graph

from autofuse import api
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.results import BuildResult

pytestmark = [pytest.mark.twin, pytest.mark.slow]

CHIP = "ascend310p"
SUMS: list[Any] = [("y", "ReduceSum", ["x"], {"axes": [0]})]
#: The mean and the deviations from it: two barriers.
SPREAD: list[Any] = [
    ("m", "ReduceMean", ["x"], {"axes": [0], "keepdims": True}),
    ("d", "Sub", ["x", "m"]),
    ("q", "Mul", ["d", "d"]),
    ("y", "ReduceMean", ["q"], {"axes": [0]}),
]


def made(nodes: list[Any]) -> BuildResult:
    built = api.build(graph({"x": ("float32", [200_000, 64])}, nodes), target=CHIP, verify_ir=True)
    assert any(g.sync_before for r in built.schedule for g in r.groups)
    return built


FIRST = "autofuse::MeetAll<autofuse::kFirstMeeting>"


@pytest.mark.parametrize("nodes", [SUMS, SPREAD], ids=["sum", "variance"])
def test_sums_of_all_cores(nodes: list[Any]) -> None:
    built = made(nodes)
    report = verify_kernel(dict(built.files), built.graph, special=True)
    assert report.ok, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (f"{FIRST}(workspace)", "SyncAll()", "architecture 2002 has no SyncAll()"),
        (FIRST, "autofuse::MeetAll<autofuse::kLaterMeeting>", "must be 0 before the first"),
        (f"{FIRST}(workspace)", f"{FIRST}(workspace + 512)", "sync-workspace"),
        (f"{FIRST}(workspace);", "", "race"),
        ("KERNEL_TYPE_AICORE", "KERNEL_TYPE_MIX_AIV_1_0", "has no kernels of the type"),
    ],
    ids=["in-hardware", "not-cleared", "over-results", "none", "type"],
)
def test_faults_are_found(old: str, new: str, text: str) -> None:
    built = made(SUMS)
    path = f"device/{built.name}_kernel.cpp"
    assert old in built.files[path]
    files = {**built.files, path: built.files[path].replace(old, new)}
    report = verify_kernel(files, built.graph)
    assert not report.ok
    assert any(text in str(d) for d in report.diagnostics), "\n".join(map(str, report.diagnostics))
