from dataclasses import replace

from source_document import ABS_NODE, DOCUMENT

from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph, Mem, Node, TmpBuffer
from autofuse.implgraph.ir.printer import free_symbols, print_graph, quote


def test_the_graph_of_the_source_document(abs_impl: ImplGraph):
    text = print_graph(abs_impl)
    assert text == print_graph(abs_impl)
    assert DOCUMENT in text
    assert ABS_NODE in text
    assert "  abs_test/gather_0: Load (1)\n" in text
    assert "  abs_test/store: Store (3)\n" in text
    assert text.startswith("// abs_test_0_general_0_nil_2_nil\nGraph: abs_test\nSchedule:\n")


def test_sections_of_the_schedule(abs_impl: ImplGraph):
    text = print_graph(replace(abs_impl, suffix="unaligned", x_axis=0))
    header = text[text.index("Schedule:") : text.index("Sizes:")]
    assert header == (
        "Schedule:\n  .result = 0\n  .template = general\n  .group = 0\n  .x_axis = z0\n"
        "  .y_axis = z0z1\n  .r_axis = nil\n  .suffix = unaligned\n"
    )
    tail = text[text.index("Buffers:") :]
    size = "(32 * Ceiling(((4 * z0z1t_size) / (32))))"
    assert tail == (
        "Buffers:\n"
        f"  queue(0) : {size}, TPosition::VECIN, depth: 2, buf_num: 2, copy: 0, bank: nil, "
        "tensors: {abs_test/gather_0, }\n"
        f"  queue(1) : {size}, TPosition::VECOUT, depth: 2, buf_num: 2, copy: 0, bank: nil, "
        "tensors: {abs_test/abs_0, }\n"
        "Tiling:\n  .tile_axis = z0z1\n  .tile_size = z0z1t_size\n  .block_size = z0z1Tb_size\n"
        "  .extent = 40000\n  .outer = 1\n  .granule = 8\n  .tile_max = nil\n  .row_elements = 1\n"
        "  .ub = (128 * Ceiling(((4 * z0z1t_size) / (32))))\n  .ub_limit = 188416\n"
    )


def test_a_graph_before_scheduling(abs_hint: HintGraph):
    text = print_graph(abs_hint)
    assert text.startswith(
        "Graph: abs_test\nSizes:\n  s0: VAR, min: 1, max: 1048576, hint: 200\nAxis:\n"
        "  z0(0) : s0, ORIGINAL, align: -1,"
    )
    assert "Schedule" not in text
    assert "vectorized" not in text
    assert "loop_axis" not in text
    assert '    .y.strides = {200, 1, }\n    .origin = "/nodes/0"\n' in text


def node_text(g: HintGraph, node: Node) -> str:
    text = print_graph(replace(g, nodes=(node,)))
    return text[text.index("Nodes:") :]


def test_optional_lines_of_a_node(abs_hint: HintGraph, abs_impl: ImplGraph):
    abs_0 = abs_hint.node("abs_0")
    mem: Mem = abs_impl.nodes[0].y.mem  # type: ignore[assignment]
    full = replace(
        abs_0,
        inputs=("a", "b c"),
        attrs={"mode": "LT", "value": 1.0, "k": 1, "on": True, "axes": (0, 2)},
        tmp_buffers=(TmpBuffer(3, const(1024)),),
        loop_axis=1,
        y=replace(abs_0.y, offset=sym("s0"), buf=7, mem=replace(mem, offset=const(64))),
    )
    text = node_text(abs_hint, full)
    for line in (
        ".loop_axis = z1",
        '.attrs = {mode: "LT", value: 1.0, k: 1, on: true, axes: {0, 2, }, }',
        ".tmp_buffers = {3: 1024, }",
        ".x1 = abs_test/a.y",
        '.x2 = "abs_test/b c".y',
        ".y.offset = s0",
        ".offset = 64",
        ".reuse_id = -1",
    ):
        assert f" {line}\n" in text
    assert ".reuse_id" not in node_text(abs_hint, replace(full, y=replace(full.y, buf=None)))


def test_an_axis_without_a_name_of_its_own(abs_hint: HintGraph):
    twice = replace(abs_hint, axes=(abs_hint.axes[0], replace(abs_hint.axes[1], name="z0")))
    assert ".axis = {#0, #1, }" in print_graph(twice)
    assert ".axis = {z0, #9, }" in node_text(abs_hint, replace(abs_hint.node("abs_0"), axis=(0, 9)))


def test_quote():
    for plain in ("abs_0", "abs_test/abs_0", "a-b.c", "None", "Graph"):
        assert quote(plain) == plain
    assert quote("nil") == '"nil"'
    assert quote("") == '""'
    assert quote("a//b") == '"a//b"'
    assert quote("a\n\ud800") == r'"a\n\ud800"'


def test_tile_symbols_come_in_the_order_of_the_axes(abs_impl: ImplGraph, abs_hint: HintGraph):
    assert free_symbols(abs_impl) == ["z0z1t_size", "z0z1Tb_size"]
    assert free_symbols(abs_hint) == []
    assert free_symbols(replace(abs_hint, symbols=())) == ["s0"]
