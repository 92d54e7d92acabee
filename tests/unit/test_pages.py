"""Pages for people: bars of one page have one scale, verdicts do not contradict each other, and nothing is cut off."""

import itertools
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import autofuse
from autofuse import api
from autofuse.machines.twin.oracle.data import random_inputs
from autofuse.measure.certificate.certify import certify
from autofuse.report import explanation
from autofuse.report.pages.certificate_page import certificate_page
from autofuse.report.pages.explain_page import explain_page
from autofuse.targets import load_target

BAR = re.compile(
    r'<b(?P<beyond> class=beyond)? style="width:(?P<width>[\d.]+)%[^"]*"></b></span><span>(?P<us>[\d.]+)'
)


def explained(graph: Path) -> dict[str, Any]:
    built = autofuse.build(graph)
    sizes = explanation.sizes_of(built.graph.symbols, {})
    chip = load_target("ascend910b1")
    found = explanation.explain(built.graph.label, built.schedule, chip, sizes, built.graph)
    return found | {"sizes": sizes}


def test_all_bars_of_a_page_have_one_scale(repo: Path) -> None:
    found = explained(repo / "examples" / "gallery" / "layer_norm_backward.json")
    page = explain_page(found)
    scale = float(re.search(r"Full width of every bar: ([\d.]+) us", page)[1])
    taken = next(r for r in found["results"] if r["chosen"])
    totals = [t["us"]["total"] for g in taken["groups"] for t in g["templates"] if t["legal"]]
    assert scale == pytest.approx(max(totals), abs=0.006)
    bars = [(m["beyond"], float(m["width"]), float(m["us"])) for m in BAR.finditer(page)]
    assert len({g["group"] for r in found["results"] for g in r["groups"]}) > 1
    assert len(bars) > 12
    for beyond, width, us in bars:
        assert width == pytest.approx(min(100.0, 100 * us / scale), abs=0.2)
        assert (beyond is not None) == (us > scale)


@pytest.fixture(scope="module")
def row_sums() -> dict[str, Any]:
    graph = {
        "schema": "autofuse.graph/1",
        "name": "row_sums",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [7, 300]}],
        "nodes": [
            {
                "name": "s",
                "op": "ReduceSum",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"axes": [1]},
            }
        ],
        "outputs": ["y"],
    }
    return certify(graph, shapes=1)


@pytest.mark.twin
def test_a_certificate_has_no_red_below_nothing_is_wrong(row_sums: dict[str, Any]) -> None:
    page = certificate_page(row_sums)
    body = page.partition("<body>")[2]
    assert "All checks passed." in body
    assert 'class="bad"' not in body
    assert "`" not in body
    assert ">no<" not in body


@pytest.mark.twin
@pytest.mark.parametrize(
    ("invariant", "how", "style"),
    [
        (False, "by other templates", "open"),
        (False, "on fewer cores", "open"),
        (False, "again", "bad"),
        (True, "by other templates", "bad"),
        (True, "in another order of the pipes", "bad"),
    ],
)
def test_other_bits_are_red_only_where_they_are_wrong(
    row_sums: dict[str, Any], invariant: bool, how: str, style: str
) -> None:
    shapes = [row | {how: False} for row in row_sums["bits"]["shapes"]]
    found = row_sums | {
        "bits": row_sums["bits"] | {"shapes": shapes},
        "kernel": row_sums["kernel"] | {"invariant": invariant},
        "ok": style != "bad",
    }
    page = certificate_page(found)
    assert f'<td class="{style}">other bits</td>' in page
    assert ("Some checks failed." in page) == (style == "bad")


@pytest.mark.twin
def test_what_is_not_proved_is_said_and_is_not_wrong(row_sums: dict[str, Any]) -> None:
    first, *others = row_sums["proved"]["checks"]
    proved = row_sums["proved"] | {"checks": [first | {"proved": False}, *others]}
    page = certificate_page(row_sums | {"proved": proved})
    assert '<p class="open">No failures; 1 check is not proved.</p>' in page
    assert '<td class="open">not proved</td>' in page


@pytest.mark.twin
def test_tables_scroll_where_they_do_not_fit(row_sums: dict[str, Any], repo: Path) -> None:
    found = explained(repo / "examples" / "gallery" / "layer_norm.json")
    for page in (certificate_page(row_sums), explain_page(found)):
        assert page.count("<table>") == page.count('<div class="wide"><table>') > 0
        assert ".wide { overflow-x: auto; }" in page


@pytest.mark.twin
def test_every_group_lays_out_ub_for_itself(repo: Path) -> None:
    graph = api.read(repo / "examples" / "gallery" / "layer_norm_backward.json")
    arrays = random_inputs(graph, {"tokens": 256}, 0)
    report = api.timed(autofuse.build(graph), arrays).report
    ub = report["ub"]
    assert len(ub["groups"]) > 1
    assert {b["group"] for b in ub["buffers"]} == set(range(len(ub["groups"])))
    rows = next(s["rows"] for s in report["slices"] if s["core"] == report["slowest"])
    for number, function in enumerate(ub["groups"]):
        own = sorted((b["lo"], b["hi"]) for b in ub["buffers"] if b["group"] == number)
        assert own[0][0] == 0
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(own))
        those = [row for row in rows if report["nodes"][row[1]]["function"] == function]
        assert len(those) >= 10
        assert all(any(lo <= s[0] < hi for lo, hi in own) for row in those for s in row[8])


def test_the_picture_of_the_pipeline_is_whole_on_a_narrow_screen(repo: Path) -> None:
    picture = ElementTree.parse(repo / "docs" / "pictures" / "pipeline.svg").getroot()
    width, height = (float(picture.get(k, "")) for k in ("width", "height"))
    assert width <= 368  # a screen of 400 pixels, without its margins
    assert picture.get("viewBox") == f"0 0 {width:.0f} {height:.0f}"
    boxes = picture.findall("{*}rect")
    assert len(boxes) == 7
    for box in boxes:
        x, y, w, h = (float(box.get(k, "")) for k in ("x", "y", "width", "height"))
        assert 0 <= x < x + w <= width
        assert 0 <= y < y + h <= height
