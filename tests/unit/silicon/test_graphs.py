"""What a chip is compared on: the graphs can be built, and cover what the compiler has."""

from __future__ import annotations

import re

import numpy as np
import pytest
from pages.templates_page import FAMILIES as DOCUMENTED

import autofuse
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ops.registry import all_ops
from autofuse.machines.twin.oracle.oracle import Reference, evaluate
from autofuse.measure.calibration.bundle import MAX_DIFFERENCES
from autofuse.measure.silicon.comparing import LISTED, compared
from autofuse.measure.silicon.corners import CORNERS, Corner
from autofuse.measure.silicon.graphs import FAMILIES, FamilyGraph, Subject, subjects
from autofuse.report.op_support import NONE, realised
from autofuse.targets import load_target

CHIP = load_target("ascend910b2")
F32, I32, BOOL = (BY_NAME[n] for n in ("float32", "int32", "bool"))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_a_graph_has_the_templates_of_its_families(family: FamilyGraph) -> None:
    subject = next(s for s in subjects() if s.name == f"template.{family.name}")
    built = autofuse.build(subject.graph(), target=CHIP)
    names = {
        f"{i.template}_{i.suffix}".rstrip("_")
        for r in built.schedule
        for g in r.groups
        for i in g.impls
    }
    assert all(any(n == f or n.startswith(f"{f}_") for n in names) for f in family.families), names


def test_every_template_family_of_the_documentation_is_there() -> None:
    covered = {f for g in FAMILIES for f in g.families}
    assert {re.sub(r"_\d+$", "", f.name) for f in DOCUMENTED} == covered


@pytest.mark.parametrize("name", ["Exp", "Cast", "FloorDiv", "Gather", "Iota"])
def test_ops_are_there_for_what_the_target_claims(name: str) -> None:
    row = next(r for r in all_ops(user=True) if r.name == name)
    there = {s.dtype for s in subjects() if s.kind == "op" and s.about == name}
    claimed = {d for d in BY_NAME if BY_NAME[d].kind != "m"}
    assert there <= claimed
    for d in there:
        is_claimed = Subject(f"op.{name}.{d}", "op", name, d).is_claimed(CHIP)
        assert is_claimed == (realised(row, BY_NAME[d], CHIP) != NONE)


@pytest.mark.parametrize("corner", CORNERS, ids=lambda c: c.name)
def test_an_assumption_has_a_graph_data_and_a_result(corner: Corner) -> None:
    subject = next(s for s in subjects() if s.about == corner.name)
    graph = subject.graph()
    ((ending, inputs),) = subject.inputs(graph, 0)
    assert not ending
    assert len({x.shape for x in inputs.values()}) == 1
    (reference,) = evaluate(graph, inputs, {}).values()
    assert reference.value.size


def test_differences_are_told_with_their_elements() -> None:
    want = np.array([[1.0, 0.0, np.nan, np.inf, 2.0]], np.float32)
    got = np.array([[1.0, -0.0, 1.0, np.inf, 2.5]], np.float32)
    tolerance = np.full(want.shape, 1e-6)
    found = compared(got, Reference(want, tolerance), F32, {"x": want, "other": want[0]})
    assert (found["state"], found["elements"], found["differing"], found["wrong"]) == (
        "differs",
        5,
        3,
        2,
    )
    assert [d["at"] for d in found["differences"]] == [[0, 2], [0, 4], [0, 1]]
    assert found["differences"][0] == {
        "at": [0, 2],
        "inputs": ["nan"],
        "got": "1.0",
        "want": "nan",
    }
    assert found["differences"][2]["got"] == "-0.0"


def test_the_sign_of_zero_is_told_and_allowed() -> None:
    zero = np.zeros(3, np.float32)
    found = compared(-zero, Reference(zero, None), F32, {})
    assert (found["state"], found["differing"], found["wrong"]) == ("within", 3, 0)


def test_equal_outputs_are_equal_and_long_lists_are_cut() -> None:
    x = np.arange(100, dtype=np.int32)
    assert compared(x, Reference(x, None), I32, {})["state"] == "equal"
    found = compared(x + 1, Reference(x, None), I32, {"x": x})
    assert (found["wrong"], len(found["differences"])) == (100, LISTED)
    assert LISTED <= MAX_DIFFERENCES
    flags = np.array([True, False])
    assert compared(~flags, Reference(flags, None), BOOL, {})["differences"][0]["got"] in "01"
