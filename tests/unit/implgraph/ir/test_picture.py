from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.report.pages.picture import to_svg

SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg: str) -> list[tuple[str, int, int, int, int]]:
    """(style, x, y, width, height) of every node."""
    root = ET.fromstring(svg)
    rects = [g.find(f"{SVG}rect") for g in root.iter(f"{SVG}g")]
    return [
        (r.get("class", ""), *(int(r.get(k, "")) for k in ("x", "y", "width", "height")))
        for r in rects
        if r is not None
    ]


def big(g: HintGraph, count: int) -> HintGraph:
    """A graph of ``count`` nodes with edges over several layers."""
    nodes = [g.nodes[0], g.nodes[1]]
    for i in range(count - 2):
        inputs = tuple(nodes[-1 - k].name for k in (0, i % 5, i % 3) if k + 1 < len(nodes))
        nodes.append(replace(g.nodes[2], name=f"n{i}", op="AddN", inputs=inputs))
    return replace(g, nodes=tuple(nodes))


def test_every_node_is_a_box_in_the_colour_of_its_unit(abs_impl: ImplGraph, abs_hint: HintGraph):
    for g in (abs_impl, abs_hint):
        styles = [b[0].split()[-1] for b in boxes(to_svg(g))]
        assert styles == ["afg-none", "afg-MTE2", "afg-Vector", "afg-MTE3", "afg-none"]
    text = to_svg(abs_hint)
    assert ">Abs</text>" in text
    assert ">abs_0</text>" in text
    assert ">float32 [s0, 200]</text>" in text
    assert "MTE2: GM to UB" in text
    assert text.count('class="afg-edge"') == 4


@pytest.mark.parametrize("count", [2, 5, 40, 100])
def test_boxes_do_not_overlap_and_lie_inside(abs_hint: HintGraph, count: int):
    svg = to_svg(big(abs_hint, count))
    root = ET.fromstring(svg)
    width, height = int(root.get("width", "")), int(root.get("height", ""))
    found = boxes(svg)
    assert len(found) == count
    for i, (_, x, y, w, h) in enumerate(found):
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        for _, x2, y2, w2, h2 in found[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_the_same_graph_gives_the_same_bytes(abs_hint: HintGraph):
    assert to_svg(big(abs_hint, 60)) == to_svg(big(abs_hint, 60))


def test_text_is_escaped(abs_hint: HintGraph):
    node = replace(abs_hint.nodes[0], name="<b>&\"'\x01\ud800\uffff", op="<script>")
    g = replace(abs_hint, name="</svg>", nodes=(node,))
    svg = to_svg(g)
    ET.fromstring(svg)
    assert "<script>" not in svg


def test_long_shapes_keep_their_inner_sizes(abs_impl: ImplGraph):
    assert ">float32 […, z0z1t_size]</text>" in to_svg(abs_impl)


def test_themes(abs_hint: HintGraph):
    assert "prefers-color-scheme" in to_svg(abs_hint)
    light, dark = to_svg(abs_hint, "light"), to_svg(abs_hint, "dark")
    assert "prefers-color-scheme" not in light + dark
    assert light != dark
    with pytest.raises(ValueError, match="theme"):
        to_svg(abs_hint, "blue")


def test_unsound_graphs_are_drawn(abs_hint: HintGraph):
    ET.fromstring(to_svg(replace(abs_hint, nodes=())))
    loop = (
        replace(abs_hint.nodes[2], name="a", inputs=("b", "a", "gone")),
        replace(abs_hint.nodes[2], name="b", inputs=("a",)),
    )
    assert len(boxes(to_svg(replace(abs_hint, nodes=loop)))) == 2
