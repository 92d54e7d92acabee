"""A wrong driver is noticed: every mutant of one gives wrong numbers, or touches memory that is not its own."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from autofuse import api
from autofuse.machines.twin.verify.split import load_split, read_parts
from autofuse.machines.twin.verify.verify import VerifyReport, verify_with

pytestmark = pytest.mark.twin

DRIVER = "host/several_driver.cpp"
SIZES = [{"m": 37, "n": 130}, {"m": 300, "n": 8}]


@functools.cache
def several() -> api.SplitResult:
    """Four parts; two tensors of different sizes pass on at the same time, one from the first part to the last."""
    nodes = [
        ("n0", "Exp", ["x"], "a", {}),
        ("n1", "ReduceMax", ["a"], "b", {"axes": [1], "keepdims": True}),
        ("n2", "Sub", ["a", "b"], "c", {}),
        ("n3", "ReduceSum", ["c"], "d", {"axes": [0]}),
        ("n4", "Abs", ["c"], "e", {}),
        ("n5", "Add", ["e", "d"], "f", {}),
        ("n6", "Add", ["f", "a"], "y", {}),
    ]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "several",
        "symbols": {"m": {"min": 1, "max": 400}, "n": {"min": 1, "max": 400}},
        "inputs": [{"name": "x", "dtype": "float32", "shape": ["m", "n"]}],
        "nodes": [
            {"name": n, "op": op, "inputs": i, "outputs": [o], "attrs": a}
            for n, op, i, o, a in nodes
        ],
        "outputs": ["y", "d"],
    }
    return api.build_split(graph, cut_after=["n1", "n2", "n4"])


def verdict(change: Callable[[str], str]) -> VerifyReport:
    built = several()
    text = built.files[DRIVER]
    changed = change(text)
    files = {**built.files, DRIVER: changed}
    return verify_with(
        load_split(files, built.graph, read_parts(files, "several")), bindings=SIZES, keys=[0]
    )


def replaced(pattern: str, new: str, count: int = 1) -> Callable[[str], str]:
    def change(text: str) -> str:
        found, n = re.subn(pattern, new, text, count=count, flags=re.S)
        assert n, f"{pattern} is not in the driver"
        assert found != text
        return found

    return change


def test_the_driver_itself_is_right() -> None:
    report = verdict(lambda text: text)
    assert report.ok, [str(d) for d in report.diagnostics]


MUTANTS = {
    "inputs in another order": replaced(
        r"(void\* part_1\[\] = \{\n)( [^\n]*\n)( [^\n]*\n)", r"\1\3\2"
    ),
    "output and input of a part change places": replaced(
        r"(void\* part_3\[\] = \{\n[^\n]*\n)( [^\n]*\n)( [^\n]*\n)", r"\1\3\2"
    ),
    "every piece at the start": replaced(
        r"data\.offset\[slot\+\+\] = end;", "data.offset[slot++] = 0;"
    ),
    "elements of half the size": replaced(r"(room->Take\(\d+, shapes\[0\]), 4\)", r"\1, 2)", 9),
    "the shape of another tensor": replaced(
        r"room->Take\(0, shapes\[0\]", "room->Take(0, shapes[1]"
    ),
    "a tensor without room": replaced(r"room->Take\(0, shapes\[0\], 4\);", ""),
    "the last dimension is forgotten": replaced(r"i < shape\.rank", "i + 1 < shape.rank"),
    "a workspace that ends too early": replaced(
        r"end \+= autofuse::AlignUp\(bytes, kLine\);", "end += bytes / 2;"
    ),
    "a part is not launched": replaced(
        r"rc = several_part2_AutofuseLaunchArray\([^\n]*\n", "static_cast<void>(part_2);\n"
    ),
    "cores of another part": replaced(r"t\.part_block_dim\[1\], stream", "1, stream"),
    "parts in another order": replaced(
        r"(    void\* part_1\[\].*?)(    void\* part_2\[\].*?)(    void\* part_3\[\])", r"\2\1\3"
    ),
    "sizes change places": replaced(r"(several_part1_AutofuseTiling\(s\.)m, s\.n", r"\1n, s.m"),
    "sizes change places where the key is given": replaced(
        r"(several_part1_AutofuseTilingForKey\(static[^;]*?s\.)m, s\.n", r"\1n, s.m"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str, tmp_path: Path) -> None:
    report = verdict(MUTANTS[name])
    assert not report.ok, name
    assert report.diagnostics
