import ir_text_parser
import pytest
from ir_text_parser import parse_as, parse_graph

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph
from autofuse.implgraph.ir.printer import print_graph


def places(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(AutofuseError) as err:
        parse_graph(text)
    assert all(d.code == "AF2001" for d in err.value.diagnostics)
    return [(d.where.line, d.where.column, d.message) for d in err.value.diagnostics]


def test_round_trip(abs_impl: ImplGraph, abs_hint: HintGraph):
    assert parse_graph(print_graph(abs_impl)) == abs_impl
    assert parse_graph(print_graph(abs_hint)) == abs_hint
    assert parse_as(ImplGraph, print_graph(abs_impl)) == abs_impl
    assert parse_as(HintGraph, print_graph(abs_hint)) == abs_hint


def test_the_other_kind_of_graph(abs_impl: ImplGraph, abs_hint: HintGraph):
    with pytest.raises(AutofuseError, match="is a HintGraph, not ImplGraph"):
        parse_as(ImplGraph, print_graph(abs_hint))
    with pytest.raises(AutofuseError, match="is a ImplGraph, not HintGraph"):
        parse_as(HintGraph, print_graph(abs_impl))


def test_comments_blank_lines_and_indentation_are_free(abs_impl: ImplGraph):
    lines = print_graph(abs_impl).splitlines()
    text = "\r\n\n".join(f"{line.strip()}  // TILE_IN \u4ee3\u8868" for line in lines)
    assert parse_graph(text) == abs_impl


def test_sections_come_in_any_order(abs_impl: ImplGraph):
    text = print_graph(abs_impl)
    cut = text.index("Sizes:")
    nodes = text.index("Nodes:")
    assert parse_graph(text[:cut] + text[nodes:] + text[cut:nodes]) == abs_impl


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message"),
    [
        ("min: 1,", "min: one,", 3, 17, "expected an integer, found 'one, max: 1048576, h'"),
        ("s0, ORIGINAL", "s0, ORIGINALLY", 5, 15, "expected one of ORIGINAL, MERGED"),
        ("z0(0) : s0,", "z0(0) : s1,", 5, 11, "unknown symbol 's1'"),
        ("z0(0) : s0,", "z0(0) : s0 +,", 5, 15, "the expression ends too early"),
        ("tail: 1\n  z1", "tail: 2\n  z1", 5, 82, "expected 0 or 1, found 2"),
        ("Data (0)", "Data (1)", 8, 26, "node Data_0 has index 1, but is at 0"),
        ("abs_test/Data_0:", "Data_0:", 8, 3, "starts with 'abs_test/'"),
        (".axis = {z0, z1, }", ".axis = {z0, z7, }", 9, 18, "axis 'z7' is not defined"),
        (".axis = {z0, z1, }", ".axis = {z0, z1", 9, 20, "expected '}', found the end"),
        (".axis =", ".axes =", 9, 5, "unknown key .axes"),
        (".axis =", ".axis", 9, 11, "expected '='"),
        ("float32", "float31", 11, 16, "unknown dtype 'float31'"),
        ("index: 0, }", "index: ?, }", 10, 22, "expected a value"),
        ("index: 0, }", 'index: "\\x", }', 10, 22, "the string has a bad escape"),
        (".y.dtype", ".y.dtype = float32\n.y.dtype", 12, 1, "key .y.dtype occurs twice"),
        (".attrs", ".y.mum:\n.attrs", 10, 5, "unknown block .y.mum"),
        (".x = abs_test/Data_0.y", ".x = abs_test/Data_0", 17, 10, "an input ends in '.y'"),
        (".x = ", ".x3 = ", 15, 1, "node gather_0 lacks .x1, .x2, ... without a gap"),
        ("    .y.dtype = float32\n", "", 8, 1, "node Data_0 lacks .y.dtype"),
        ("Sizes:", "Sizes:\nSizes:", 3, 1, "section Sizes occurs twice"),
        ("Graph:", "Grape:", 1, 1, "expected a section"),
        ("Nodes:\n", "Nodes:\n......\n", 8, 1, "parts of the graph are left out"),
        ("Nodes:\n", "Nodes:\n.axis = {}\n", 8, 1, "expected a node"),
    ],
)
def test_errors_have_a_place(
    abs_hint: HintGraph, old: str, new: str, line: int, column: int, message: str
):
    text = print_graph(abs_hint)
    assert old in text
    found = places(text.replace(old, new, 1))
    assert found[0][:2] == (line, column)
    assert message in found[0][2]


def test_errors_of_several_lines_are_collected(abs_impl: ImplGraph):
    text = print_graph(abs_impl).replace("align: 1,", "align: x,").replace("= float32", "= float33")
    text = text.replace(".granule = 8", ".granule = z")
    found = places(text)
    assert len(found) == 4 + 5 + 1
    assert len({line for line, _, _ in found}) == len(found)


def test_missing_sections_and_keys(abs_impl: ImplGraph, abs_hint: HintGraph):
    assert "section Graph, Sizes, Axis, Nodes is missing" in places("")[0][2]
    text = print_graph(abs_impl)
    assert "section Tiling is missing" in places(text[: text.index("Tiling:")])[0][2]
    assert "lacks .granule" in places(text.replace("  .granule = 8\n", ""))[0][2]
    assert "lacks .y_axis" in places(text.replace("  .y_axis = z0z1\n", ""))[0][2]
    tail = text[text.index("Tiling:") :]
    assert "needs a section Schedule" in places(print_graph(abs_hint) + tail)[-1][2]
    assert "lacks .y.que.depth" in places(text.replace("      .depth = 2\n", "", 1))[0][2]
    no_mem = text.replace("    .y.mem:\n", "", 2)
    assert "unknown key .tensor_id" in places(no_mem)[0][2]


def test_limits(abs_hint: HintGraph, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ir_text_parser, "MAX_TEXT", 100)
    assert "the limit is 100" in places(print_graph(abs_hint))[0][2]
    monkeypatch.undo()
    many = print_graph(abs_hint) + "".join(f"    .bad{i} = 1\n" for i in range(1000))
    assert len(places(many)) == ir_text_parser.MAX_ERRORS


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "Graph: " + "[" * 100_000,
        "Graph: g\nSizes:\nAxis:\n z0(0) : " + "(" * 60_000 + ", ORIGINAL\nNodes:\n",
        "Graph: g\nSizes:\nAxis:\nNodes:\n g/a: Abs (0)\n .attrs = {" + "a: {" * 10_000 + "\n",
        "\x00\x01\ud800",
        '"' * 10_000,
    ],
)
def test_hostile_text_is_an_error(text: str):
    assert places(text)


def test_an_expression_is_never_evaluated(abs_hint: HintGraph):
    text = print_graph(abs_hint).replace("z0(0) : s0,", "z0(0) : __import__('os'),")
    assert "unexpected character" in places(text)[0][2]
