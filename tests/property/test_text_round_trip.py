"""Text and JSON of random graphs, sound or not, are read back without loss."""

import json
from xml.etree import ElementTree as ET

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir_text_parser import parse_as, parse_graph

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.check.verify import verify
from autofuse.implgraph.expr.expression import CeilDiv, FloorDiv, Max, Min, Mod, Ratio, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import (
    Constant,
    FusionGraph,
    FusionNode,
    GraphOutput,
    Symbol,
    Tensor,
)
from autofuse.implgraph.ir.graph import (
    SIZE_ATTRS,
    AllocType,
    Api,
    Axis,
    AxisType,
    BufferKind,
    BufferPlan,
    Condition,
    Hardware,
    HintGraph,
    ImplGraph,
    Mem,
    Node,
    Position,
    Queue,
    TensorView,
    TileLength,
    TilingSpec,
    TmpBuffer,
)
from autofuse.implgraph.ir.printer import print_graph
from autofuse.implgraph.ir.serialise import from_json, to_json
from autofuse.report.pages.picture import to_svg

SLOW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

INT = st.integers(-(1 << 62), 1 << 62)
SMALL = st.integers(0, 9)
IDENTIFIERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
#: Names that are easy to get wrong in the text.
AWKWARD = st.sampled_from(
    ["", "nil", "nilly", "true", "Nodes", "a//b", "a b", 'say "hi"', "#3", "x.y", ".y", "{a, }",
     "\\", "z0\nz1", "// no", "a,b", "é", "\ud800", "a/b", "Graph", "Graph:", "...", "\t"]
)  # fmt: skip
TEXTS = IDENTIFIERS | AWKWARD | st.text(max_size=6)
SYMBOLS = IDENTIFIERS | st.sampled_from(["s0", "z0t_size", "min", "Ceiling", "Graph", "nil"])

ATOMS = st.integers(-5, 1 << 40).map(const) | SYMBOLS.map(sym)
EXPRS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: t[0] + t[1]),
        st.tuples(inner, SMALL).map(lambda t: t[0] * t[1]),
        st.builds(Min, inner, inner),
        st.builds(Max, inner, inner),
        *(
            st.builds(fn, inner, st.integers(1, 512) | SYMBOLS.map(sym))
            for fn in (CeilDiv, FloorDiv, Mod, Ratio)
        ),
    ),
    max_leaves=5,
)
#: The text writes nil for a missing expression.
NOT_NIL = EXPRS.filter(lambda e: e != sym("nil"))
FLOATS = st.floats(allow_nan=False)
PLAIN = st.one_of(INT, FLOATS, st.booleans(), st.lists(INT, max_size=3).map(tuple))
ATTRS = st.builds(
    lambda plain, sizes: plain | sizes,
    st.dictionaries(TEXTS.filter(lambda t: t not in SIZE_ATTRS), PLAIN | TEXTS, max_size=3),
    st.dictionaries(st.sampled_from(sorted(SIZE_ATTRS)), PLAIN | EXPRS, max_size=2),
)


def tuples(of, size=3):
    return st.lists(of, max_size=size).map(tuple)


IDS = st.integers(-1, 8)
DTYPES = st.sampled_from(list(BY_NAME.values()))
AXES = st.builds(
    Axis,
    IDS,
    TEXTS,
    EXPRS,
    st.sampled_from(AxisType),
    tuples(IDS),
    INT,
    st.booleans(),
    st.booleans(),
)
MEMS = st.builds(
    Mem,
    INT,
    st.sampled_from(AllocType),
    st.sampled_from(Hardware),
    st.sampled_from(Position),
    st.none() | NOT_NIL,
    st.integers(-1, 3),
)
VIEWS = st.builds(
    TensorView,
    DTYPES,
    tuples(IDS),
    tuples(EXPRS),
    tuples(EXPRS),
    EXPRS,
    tuples(IDS),
    tuples(EXPRS),
    st.none() | MEMS,
    st.none() | st.builds(Queue, INT, INT, INT),
    st.none() | INT,
)
NODES = st.builds(
    Node,
    TEXTS,
    st.sampled_from(["Abs", "Load", "Scalar"]) | TEXTS,
    tuples(TEXTS),
    VIEWS,
    ATTRS,
    tuples(IDS),
    st.none() | IDS,
    st.none() | st.builds(Api, TEXTS, TEXTS, TEXTS),
    tuples(st.builds(TmpBuffer, INT, EXPRS), 2),
    TEXTS,
    joins=st.none() | IDENTIFIERS,
    over=st.none() | IDENTIFIERS,
)
RANGES = st.lists(
    st.builds(Symbol, SYMBOLS, INT, INT, st.none() | INT), max_size=3, unique_by=lambda s: s.name
).map(tuple)
HINTS = st.builds(HintGraph, TEXTS, RANGES, tuples(AXES, 5), tuples(NODES))
LENGTHS = st.builds(TileLength, IDS, SYMBOLS, EXPRS, INT, st.none() | NOT_NIL, st.booleans())
TILINGS = st.builds(
    TilingSpec,
    st.tuples(LENGTHS),
    SYMBOLS,
    EXPRS,
    EXPRS,
    EXPRS,
    INT,
    tuples(st.builds(Condition, EXPRS, INT), 2),
)
BUFFERS = st.builds(
    BufferPlan,
    st.sampled_from(BufferKind),
    INT,
    st.sampled_from(Position),
    INT,
    INT,
    EXPRS,
    tuples(TEXTS),
    st.booleans(),
    st.none() | INT,
)
IMPLS = st.builds(
    ImplGraph,
    TEXTS,
    SMALL,
    SMALL,
    TEXTS,
    TEXTS,
    IDS,
    RANGES,
    tuples(AXES, 5),
    tuples(NODES),
    tuples(BUFFERS),
    TILINGS,
    st.none() | IDS,
    st.none() | IDS,
)
VALUES = st.one_of(INT, FLOATS, TEXTS, st.booleans())
FUSIONS = st.builds(
    FusionGraph,
    TEXTS,
    RANGES,
    tuples(TEXTS),
    tuples(
        st.builds(
            FusionNode,
            TEXTS,
            TEXTS,
            tuples(TEXTS | st.builds(Constant, INT | FLOATS | st.booleans(), st.none() | DTYPES)),
            tuples(TEXTS),
            st.dictionaries(TEXTS, VALUES | tuples(VALUES | EXPRS), max_size=2),
            TEXTS,
        )
    ),
    tuples(st.builds(GraphOutput, TEXTS, TEXTS, st.none() | TEXTS)),
    st.dictionaries(
        TEXTS,
        st.builds(
            Tensor,
            TEXTS,
            DTYPES,
            tuples(EXPRS),
            st.none() | tuples(EXPRS),
            st.none() | NOT_NIL,
            st.booleans(),
            TEXTS,
        ),
        max_size=2,
    ),
)


def same(a, b) -> bool:
    """Equal, and of equal types inside: 1, 1.0 and True are equal in Python."""
    return a == b and repr(a) == repr(b)


@SLOW
@given(HINTS | IMPLS)
def test_text(g):
    text = print_graph(g)
    again = parse_graph(text)
    assert same(again, g)
    assert print_graph(again) == text
    assert parse_as(type(g), text) == g


@SLOW
@given(HINTS)
def test_indentation_and_comments_do_not_matter(g):
    lines = print_graph(g).splitlines()
    text = "\n\n".join(f"\t {line.strip()} // comment, {{" for line in lines)
    assert parse_graph(text) == g


@SLOW
@given(HINTS | IMPLS | FUSIONS)
def test_json(g):
    text = json.dumps(to_json(g), allow_nan=False)
    assert same(from_json(json.loads(text)), g)
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


@SLOW
@given(HINTS | IMPLS)
def test_any_graph_can_be_verified_and_drawn(g):
    verify(g)
    svg = to_svg(g)
    assert svg == to_svg(g)
    ET.fromstring(svg)


@SLOW
@given(HINTS | IMPLS, st.data())
def test_a_damaged_text_gives_a_graph_or_places(g, data):
    text = print_graph(g)
    i = data.draw(st.integers(0, len(text)))
    n = data.draw(st.integers(0, 12))
    damaged = text[:i] + data.draw(st.text('{}()",.:/=# nil0', max_size=4)) + text[i + n :]
    lines = damaged.split("\n")
    try:
        parse_graph(damaged)
    except AutofuseError as err:
        for d in err.diagnostics:
            assert d.code == "AF2001"
            assert 1 <= d.where.line <= len(lines)
            assert 1 <= d.where.column <= len(lines[d.where.line - 1]) + 1
