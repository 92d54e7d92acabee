"""``docs/templates.md``: the template families, each with a small graph, a picture, and the loops of its kernel.

``python tools/pages/templates_page.py > docs/templates.md`` writes the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from unittest.mock import patch

from autofuse.codegen.backends.ascendc.backend import BACKEND
from autofuse.codegen.backends.interface import Job, generate
from autofuse.implgraph.expr.expression import const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import (
    AttrValue,
    FusionGraph,
    FusionNode,
    GraphOutput,
    Symbol,
    Tensor,
)
from autofuse.implgraph.ir.graph import ImplGraph, Node
from autofuse.implgraph.lowering.lowering import lower
from autofuse.implgraph.ops.infer import infer_node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.simplify.canonicalise import canonicalise
from autofuse.schedule import rank
from autofuse.schedule.axes.result import ScheduleResult
from autofuse.schedule.placement.placement import STRUCTURAL
from autofuse.schedule.scheduler import schedule
from autofuse.schedule.search.costs import Costs
from autofuse.targets import load_target

__all__ = ["FAMILIES", "Family", "loops", "nodes_by_loop", "templates_page"]

_TARGET = "ascend910b1"
_SHAPE = (const(1000), const(99))

_TEXT = """\
# Templates

Made by `python tools/pages/templates_page.py` from the kernels of small graphs; do not edit.

A template is one way to tile one group of operators; [architecture.md](architecture.md) says what a group is. A family
proposes choices: the axis that is cut into tiles, and how rows lie in UB. Each choice becomes an ImplGraph and a device
function, or is dropped with a reason that `autofuse build` prints.

How one is chosen: of the ImplGraphs of a group, those are kept that win somewhere on a
[grid](performance.md#the-grid) of sizes, cores and UB, and one that is legal for every size. A kernel has at most 16
combinations over all of its groups, and as many of its second form, in which reductions are divided among the cores.
The host function compares those whose conditions hold for the sizes of the call, by DMA commands and the bytes that
they move, and picks tile lengths and cores as well.

In the names, `T` counts tiles, `t` is the place in a tile, `B` is the core, `b` a step of one core: `z0Tb` counts the
tiles of `z0` of one core. In the pictures, every box is a node of the ImplGraph. A double frame loads from GM or stores
to it. In the loops, arguments that are no tensors are left out, and so are queues, barriers and flags.
"""


@dataclass(frozen=True)
class Family:
    """A section of the page.

    Attributes:
        template: as in ``ImplGraph.template``.
        suffix: prefix of ``ImplGraph.suffix``.
        inputs: shapes of the float32 inputs ``x``, ``y``, ...; a symbol as its name and largest value.
        nodes: op, inputs and attributes; results are ``t0``, ``t1``, ...
        text: when it is chosen, and its limits.
    """

    template: str
    suffix: str
    inputs: Sequence[Sequence[int | tuple[str, int]]]
    nodes: Sequence[tuple[str, Sequence[str], Mapping[str, AttrValue]]]
    text: str

    @property
    def name(self) -> str:
        """Template and suffix."""
        return f"{self.template}_{self.suffix}" if self.suffix else self.template


FAMILIES: tuple[Family, ...] = (
    Family(
        "general",
        "",
        [(4096,), (4096,)],
        [("Add", ["x", "y"], {}), ("Exp", ["t0"], {})],
        """\
The innermost axis is cut into tiles, after all axes that lie side by side in every tensor became one. In a tile, a
tensor varies along that axis or is a single value.

Chosen for element-wise groups, where the whole graph is one axis, and for long rows. Without reductions and
transpositions it is legal for every size. Its weak spot is short rows: a tile ends at the end of a row.""",
    ),
    Family(
        "general",
        "rows_32",
        [(4096, 40000), (1, 40000)],
        [("Add", ["x", "y"], {})],
        """\
A tile is a piece of the columns, and a loop inside it goes through 32 rows of that piece. What the rows have in
common, as a bias, is loaded for the tile, and cast and computed there; `general` does that for every row. So with
one such row a 64th more is moved than has to be. The rows are cut into tiles of a constant length; the last one
may be shorter.

Tried for rows of 1024 elements and more that have something in common, which is where whole rows leave little room
in UB; with as many rows in each loop where their number is known. Where that is known at run time only, for 32 and
more.""",
    ),
    Family(
        "row",
        "",
        [(4096, 64), (64,)],
        [("Add", ["x", "y"], {})],
        """\
An outer axis is cut into tiles, the axes inside it are whole in UB. A broadcast along the tile is one call for many
rows; what does not change from tile to tile is loaded and broadcast once per core, before the loop.

Chosen for short rows with broadcasts. Rows must be a multiple of 32 bytes: checked at build time where sizes are
known, else by the host. A tile has at most 4095 rows, and one of them must fit UB; with symbolic sizes, at most two
axes lie inside.""",
    ),
    Family(
        "row",
        "unaligned",
        [(4096, 77), (77,)],
        [("Add", ["x", "y"], {})],
        """\
The same for any length of rows: DataCopyPad puts every row at an address that is a multiple of 32, and the calls go
over the padding, which no result depends on.

Not on chips without DataCopyPad (310P).""",
    ),
    Family(
        "reduce_all",
        "",
        [(4096, 77)],
        [("Softmax", ["x"], {"axis": -1})],
        """\
A kept axis is cut into tiles, and everything that is reduced lies inside: GM is read once, also where the result of a
reduction meets the data again, as in softmax and the norms.

Chosen wherever one step of the tiled axis fits UB with all that is reduced into it. Where two buffers for each queue
do not fit, the result takes over the buffer of what was loaded (`TQueBind`), then queues have one buffer: a softmax of
float32 holds rows of about 7,600 elements with two buffers for loads and two for results, 15,000 with two that both
share, and 22,000 with one. Rows of 16 bits that all tiles share, as a scale, are then spread as they were loaded, and
converted in every tile.""",
    ),
    Family(
        "reduce_all",
        "tight",
        [(("n", 4096), ("m", 1 << 20))],
        [("Softmax", ["x"], {"axis": -1})],
        """\
`reduce_all` with single buffers, and results that take over those of loads. Where it is known at run time only how long
rows are, it stands beside the one with two buffers for each queue, for rows that are too long for that.

Chosen by the host for rows that do not fit `reduce_all`. Only where `reduce` would read the rows more than once.""",
    ),
    Family(
        "reduce",
        "",
        [(96, 40000)],
        [("Softmax", ["x"], {"axis": -1})],
        """\
A loop goes over the reduced elements, with an accumulator in UB that starts with the neutral value. Data that meet
a result of the reduction are read again in a further loop, a pass.

Chosen where rows do not fit UB. With the innermost axis tiled it is legal for every size.

A reduction that needs the result of another one is made in the same pass where
`implgraph/division/online_reductions.py` has a rule for it, with what the other one has come to so far (nodes that end
in `_running`); whenever that moves (`_move`), the accumulator is corrected. There are two rules: a sum of exponentials
below a maximum is multiplied, as in softmax, its logarithm and log-sum-exp; a sum of products about means is added to,
as in variances, covariances, and the norms. So these read their input twice, or once if nothing of its shape is stored.
The maximum, or mean, has to be that of the same data, and only multiples by positive constants, conversions to wider
types and, beside an exponential, independent factors may stand in between; a maximum may be kept from being less than a
number. What no rule covers costs a pass for every reduction that waits for another one: distances `|x - mean|`, of
which no sum so far tells what it is about another mean; exponentials above a minimum; means that are rounded to
float16, about which sums of differences are not
0.""",
    ),
    Family(
        "reduce",
        "rows_8",
        [(4096, 40000), (1, 40000)],
        [("Mul", ["x", "y"], {}), ("ReduceSum", ["t0"], {"axes": (1,)})],
        """\
The same loop with tiles of several rows, where rows have something in common that is loaded, as weights, or the scale
of a layer norm: it is loaded once for the rows of a tile. The outer axis is cut into tiles of a constant length, the
last one shorter; the host solves for the part of the rows that is in a tile.

Tried with as many rows as leave some for every core: a power of two up to 8, and 4 where the number of rows is known at
run time only. Not on chips without DataCopyPad.""",
    ),
    Family(
        "reduce",
        "block_128",
        [(1000, 5000)],
        [("ReduceSum", ["x"], {"axes": (0,)})],
        """\
The same loop over rows, of which a tile has a block of 128 neighbours: a group of cores for every block of columns. The
innermost axis is kept, and cut into tiles of a constant length; the last one is shorter.

Tried where rows are kept that are longer than 192 elements, or of a length that is known at run time only; also with
blocks of 64 or 32 elements where these leave fewer elements of a row to the busiest core. Blocks of 128 elements are
what the parts of a divided reduction are counted by (see below). Not on chips without DataCopyPad.""",
    ),
    Family(
        "reduce",
        "apart",
        [(4, 12, 1024, 64)],
        [
            ("Transpose", ["x"], {"perm": (0, 2, 1, 3)}),
            ("ReduceSum", ["t0"], {"axes": (1,)}),
        ],
        """\
The same loop where kept axes lie inside reduced ones, as the heads in a sum over tokens. Here they are outside, all but
an innermost one, so that the cores share them. The rows of a tile are then shorter.

Tried for every group with such axes.""",
    ),
    Family(
        "reduce_all",
        "apart",
        [(16, 96, 196)],
        [("ReduceSum", ["x"], {"axes": (0, 2), "keepdims": True}), ("Sub", ["x", "t0"], {})],
        """\
`reduce_all` with these axes outside: a tile holds all that belongs to some of them, as the positions of all images that
belong to one channel. GM is read once, where `reduce_all` would hold eight channels or more to have whole blocks.

Tried for every group with such axes, but for parts of rows. Rows are as long as what is reduced behind the kept axes,
so small images are loaded in short rows.""",
    ),
    Family(
        "transpose",
        "",
        [(512, 768)],
        [("Transpose", ["x"], {"perm": (1, 0)})],
        """\
The tensors are contiguous in GM along different axes. All of these axes lie in the tile, so that every DMA command
moves rows of neighbours, and one tensor is transposed in UB. The host solves for the tile of one axis; others that are
long have tiles of a constant length, 128, 64 or 32, which is part of the name.

Tried for every group of which the copies are contiguous along different axes; with reductions it is `reduce` or
`reduce_all` with such tiles, and names that end in `cut_64` or `cut_32`. Elements of 64 bits cannot be transposed
in UB: there the other families copy with strides, as far as these may. On Ascend 950 names that end in
`permuted` have loads of several dimensions, which bring elements to their places themselves.""",
    ),
    Family(
        "narrow",
        "",
        [(50000, 3), (50000, 1)],
        [("Mul", ["x", "y"], {})],
        """\
Rows in GM are a few elements long: pairs, boxes, pixels with three channels. In other templates each of them is a row
of a DMA command and has 32 bytes of UB at least. Here all rows of a tile are one run, and UB has as many *long* rows as
a short one has elements: `Unlace` takes every `k`-th element of the run from `c` on into row `c`, `Lace` puts them
together again. In between, what all elements of a short row have in common lies side by side, a reduction along short
rows adds long ones, and a transposition of channels is nothing but one of the two calls. Some columns of short rows, as
the corners of boxes, are loaded with what lies between them; parts of the same rows share that run. Columns that are
computed one by one, as the two halves of an interleaved rotary embedding, would be Stores of single elements: `Stack`
places them side by side, and one Store writes them all.

| | 2 and 4 elements | others |
| --- | --- | --- |
| behind a Load | `UnlaceByMask`: GatherMask with a pattern of the chip | `Unlace`: Gather, the table of `PickAhead` |
| before a Store | `Lace`: Gather with a table of places, made once per core | the same |

Elements of 8 bits become halves for that. Tried where a tensor has rows of at most 64 bytes of the narrowest type of
the group beside an axis of 16 elements or more, all others lie in GM along one or both of these, or for loads in such
rows, and the length of short rows is known when the kernel is made. Not for 64 bits, running sums, and loads by an
index; not on chips without DataCopyPad.""",
    ),
    Family(
        "narrow",
        "outer",
        [(2000, 3, 64)],
        [("Transpose", ["x"], {"perm": (0, 2, 1)})],
        """\
The same for long rows that are not that long, as of the weights of a convolution: a tile has several of them, along the
next axis around that is not reduced. Where that axis has fewer than 16 elements, as where each row of pixels comes
twice, a template `narrow_outer_2` has tiles of the one after it, and so on.

The run of one long row need not be a multiple of 32 bytes: in UB it is followed by padding then, as long as that of its
long rows, and each run is a row of a DMA command. In GM runs lie side by side all the same.

Tried where there is such an axis.""",
    ),
    Family(
        "narrow",
        "rows_32",
        [(64, 8192, 2), (8192, 1)],
        [("Mul", ["x", "y"], {})],
        """\
The same with a loop over some of the long rows where these have something in common, as in
[`general_rows_32`](#general_rows_32): what that is is loaded, and computed, once for all of them.

Tried for groups without reductions, for each axis outside the long one along which some tensors vary and others do
not.""",
    ),
    Family(
        "scan_all",
        "",
        [(256, 200)],
        [("CumSum", ["x"], {"axis": 1})],
        """\
Groups with running sums: a tile holds everything that a sum runs over, and the tiled axis is another one. Along an
outer axis rows are added up in steps of 1, 2, 4, ... rows; along the innermost one, rows are transposed first, for
which a tile has 16 of them or more.

Chosen where whole sums fit UB. All sums of a group run along the same axes in one direction; others, and reductions,
are groups of their own.""",
    ),
    Family(
        "scan_all",
        "few",
        [(96, 4000)],
        [("CumSum", ["x"], {"axis": 1})],
        """\
The same along the innermost axis with fewer than 16 rows in a tile. One is summed after the other, in 16 segments side
by side, so they cost more of the vector unit than many rows do, and take less of UB.

Chosen for long rows, and where there are too few rows for 16 on every core. Only where it is known at build time how
many rows one step of the tiled axis has.""",
    ),
    Family(
        "scan",
        "",
        [(5, 100000)],
        [("CumSum", ["x"], {"axis": 1})],
        """\
The axes of the sums are a loop of one core, with a *carry* in UB: what comes before the tile. Sums from the end go
through the loop backwards. The tile is a part of the one sum, which is added up in 16 segments side by side; or, for an
outer axis, a part of a row of which every element goes on with a sum of its own.

Chosen where sums do not fit UB. With the innermost axis tiled it is legal for every size. The cores share what is not
summed; long sums of few rows are divided among them (see below).""",
    ),
)

_APART = Family(
    "general",
    "",
    [(1000, 300)],
    [
        ("Slice", ["x"], {"starts": (const(0), const(2)), "shape": _SHAPE, "steps": (1, 3)}),
        ("Exp", ["t0"], {}),
    ],
    """\
## Elements that lie apart

A Slice with a step along the innermost axis, or from its end, is a Load whose elements are no neighbours in GM. As rows
of a DMA command, each takes a sector of 32 bytes. Where a step is at most that long (8 elements of float32, 16 of
float16, 4 of int64), the run from the first element to the last is in the same sectors: it is loaded as a whole, in
whatever template, and a call picks the elements in UB. So the bytes that are moved are those of the run. Loads of one
tensor that are less than a step apart share a run, as those of the even and the odd elements.

| step | 16 and 32 bits | 64 bits |
| --- | --- | --- |
| 2, 4 | `PickByMask`: GatherMask with a pattern of the chip | as below |
| other positive ones | `PickAhead`: Gather with a table of offsets | the same, a pair of words for every element |
| negative ones | `PickBack`: Gather from the end of every row | the same |

Elements of 8 bits become halves for that, which hold each value exactly. A table has 4 KiB, whatever the tile is, and
is made once per core; loads with one step share it.

Elements stay alone where the step is longer or known at run time only, where a row of the result would not begin at a
32-byte address, where a tensor says which rows are loaded, and in stores. An element alone, and a row
shorter than 32 bytes with a gap behind it, is loaded with what follows it, up to 32 bytes, where the tensor goes on
that far: it has a block of UB anyway, and by the model a command takes as long for a shorter row as for 512 bytes.""",
)

_CUT = """\
## Single elements of rows

A Gather along the innermost dimension, or a GatherElements along it, takes single elements. Where a row of that
dimension takes at most an eighth of UB, a Load brings whole rows, along an axis of their own, and `TakeRows` takes the
elements with the chip's Gather. The index becomes offsets in bytes: it is clamped, negative places get the length of a
row, and all are multiplied by the size of an element; an index that all tiles share stays in UB as offsets. Two gathers
from one row load it once. Longer rows, up to half of UB, are a form of the graph that the model compares with the other
one: a DMA command for every element. 8 and 64 bits, indices with one element per row, and results that are transposed
have only that one.

## More than one core for one result

The cores share what is kept. A sum over all of a large tensor would run on one core, so
`implgraph/division/split_reductions.py` makes two phases of it. The reduced axis is divided into parts of equal length,
and what is left over, fewer elements than there are parts, is a short part of its own. The first phase reduces the
parts, shared by the cores; their results go through a workspace; behind a SyncAll the second phase reduces these, and
joins the result of the short part. A part without elements has the neutral value. Each group has one of the templates
above, so a sum of columns has a core for every part of every block of columns.

How many parts: with `c` cores and `k` blocks of 128 kept elements, the number for which the busiest core has the fewest
modelled cycles, among them those of the short part and of the second phase. That is about `c` where one element or one
short row is kept, and 6 for the eight blocks of a row of 1024 on 48 cores.

Where all sizes are known, it is decided when the kernel is made: two phases are taken if the estimated bytes drop by
80 %; where one takes half to five times as long as two by that, both forms are scheduled, and the one of
less modelled time is kept, with 8000 cycles for the SyncAll (assumed). Where a size is a symbol and one phase takes 1.2
times as long as two for typical sizes, the kernel has both forms, with tiling keys of their own, and the host takes the
one that costs less for the sizes of the call; a symbol without a hint counts as 1024 there if it says how much is kept.
The order of a sum follows from the form, the templates and the tiles: the same call gives the same bits.

**Both sides of what is kept.** A sum of `[n, c, h, w]` over n, h and w (a batch norm, of channels that come first)
reads rows of h * w elements. Unless these are whole cache lines, each is copied by itself, which takes longer than runs
of c * h * w elements do. So there is a form that sums over n first, in such runs, and
what that leaves through a workspace (`implgraph/division/outer_first.py`). Of known sizes the one of less modelled time
is kept; with symbols the kernel has both, and the host takes the one that costs less for the sizes of the call.

**Columns beside rows.** The gradient of a norm reduces rows for the gradient of its operand, and sums up columns for
those of its weights. One group does one or the other, so it would read the rows twice. In a further form
(`implgraph/division/row_parts.py`) a core takes a part of the rows, goes over them in tiles of whole rows with the
template `reduce`, reduces each row within its tile, and adds the tile to an accumulator for each sum of columns. The
sums of a part are one row of a workspace; behind a SyncAll, small groups add up the parts. With known sizes, and with
symbols that have hints, every core has one part; else a part has 32 rows. The form is proposed if the rows are also
stored or reduced in another way, and this needs none of the sums; the model decides as above. UB must hold whole rows.

**Statistics of which one needs the other.** In softmax, its logarithm, log-sum-exp, variances, covariances and norms,
the sum of a part needs no more than the maximum or the mean of that part (`implgraph/division/online_parts.py`). So the
first phase makes both of them in one pass, by the rules of `reduce` where a part does not fit UB, and the second one
joins what the parts have: with `m` the maximum of all and `m_i` that of a part, a sum of exponentials is the sum of
`s_i * exp(m_i - m)`; with means, a sum of squares is the sum of `s_i + n_i * (mean_i - mean)^2`. A row is read once for
its statistics, and once more if something of its shape is stored. A part of nothing but -inf has the lowest number for
its maximum and the sum 0; a row of nothing else has the maximum -inf and so NaN, as in NumPy. What no rule covers has a
phase for every reduction that waits for another one.

**Long running sums.** A CumSum of few long rows is divided alike (`implgraph/division/split_scans.py`): the first phase
adds up the parts, one core makes running sums of these few totals, and behind a second SyncAll every core goes through
its part again, beginning with what comes before it. That reads the row twice. All is added up in the type of the sum,
float32 for float16 and bfloat16. It is decided as for reductions, with a running sum in UB taking 1.75 times as long as
loading what it adds up (modelled). Where the result overwrites an input, only rows that all parts fill evenly are
divided.

The bytes that each family moves are counted in [verification.md](verification.md#traffic).
"""


def _example_of(family: Family) -> list[str]:
    """Return the example of a section: description, picture and loops."""
    impl, kernel = _example(family)
    shapes = ", ".join(
        "x".join(d[0] if isinstance(d, tuple) else str(d) for d in s) for s in family.inputs
    )
    ops = ", ".join(op for op, *_ in family.nodes)
    return [
        f"Example: {ops} on {shapes}.\n",
        f"```mermaid\n{nodes_by_loop(impl)}\n```\n",
        f"```text\n{loops(kernel, impl.name)}\n```\n",
    ]


def _graph(family: Family) -> FusionGraph:
    f32 = BY_NAME["float32"]
    names = ("x", "y", "z")[: len(family.inputs)]
    symbols: dict[str, Symbol] = {}
    tensors: dict[str, Tensor] = {}
    for x, given in zip(names, family.inputs, strict=True):
        symbols |= {s[0]: Symbol(s[0], 1, s[1]) for s in given if isinstance(s, tuple)}
        sizes = (sym(s[0]) if isinstance(s, tuple) else const(s) for s in given)
        tensors[x] = Tensor(x, f32, tuple(sizes))
    nodes = []
    for i, (op, inputs, attrs) in enumerate(family.nodes):
        dtype, shape = infer_node(lookup(op), [tensors[x] for x in inputs], attrs)
        tensors[f"t{i}"] = Tensor(f"t{i}", dtype, shape)
        nodes.append(FusionNode(op.lower(), op, tuple(inputs), (f"t{i}",), attrs))
    last = f"t{len(nodes) - 1}"
    outputs = (GraphOutput("out", last),)
    return FusionGraph("g", tuple(symbols.values()), names, tuple(nodes), outputs, tensors)


def _example(family: Family) -> tuple[ImplGraph, str]:
    """Return the template of a family, and the text of its kernel.

    Raises:
        ValueError: its graph has no such template.
    """
    graph = _graph(family)
    target = load_target(_TARGET)
    # A template may win only at larger sizes than those of a small graph.
    with patch.object(rank, "needed", lambda times, *_: range(len(times))):
        results: tuple[ScheduleResult, ...] = schedule(canonicalise(lower(graph)), target)
    for impl in (i for r in results for g in r.groups for i in g.impls):
        if impl.template == family.template and _fits(impl.suffix, family):
            files = generate(BACKEND, Job(graph, target, Costs(target)), results)
            return impl, files["device/g_kernel.cpp"]
    raise ValueError(f"{family.name} is not among the templates of its graph")


def _fits(suffix: str, family: Family) -> bool:
    return suffix == family.suffix or family.template == "transpose"


# the picture -----------------------------------------------------------------------------------


def nodes_by_loop(impl: ImplGraph) -> str:
    """Return a Mermaid picture of the nodes that touch UB, in their loops."""
    names = {a.id: a.name for a in impl.axes}
    shown = [n for n in impl.nodes if n.op not in STRUCTURAL]
    ids = {n.name: f"n{i}" for i, n in enumerate(shown)}

    def boxes(loop: int | None, number: int = 0) -> list[str]:
        return [
            f"  {ids[n.name]}{_box(n)}"
            for n in shown
            if (n.loop_axis, n.loop_pass) == (loop, number)
        ]

    def frame(title: str, inside: Sequence[str]) -> list[str]:
        name = re.sub(r"\W+", "_", title)
        return [f'  subgraph {name} ["{title}"]', *(f"  {line}" for line in inside), "  end"]

    once = boxes(None)
    out = ["flowchart LR", *(frame("once per core", once) if once else [])]
    (block,) = {n.loop_axis for n in shown} - {None, impl.r_axis}
    inside = boxes(block)
    for number in sorted({n.loop_pass for n in shown if n.loop_axis == impl.r_axis is not None}):
        title = f"loop {names[impl.r_axis or 0]}, pass {number}"
        inside += frame(title, boxes(impl.r_axis, number))
    out += frame(f"loop {names[block or 0]}", inside)
    out += [f"  {ids[i]} --> {ids[n.name]}" for n in shown for i in n.inputs if i in ids]
    return "\n".join(out)


def _box(n: Node) -> str:
    return f'[["{n.op}"]]' if n.op in ("Load", "Store") else f'["{n.op}"]'


# the loops -------------------------------------------------------------------------------------

_LOOP = re.compile(r"\s*for \(int64_t (\w+) = 0; \w+ < (\w+); \w+\+\+\) \{")
_CALL = re.compile(r"(?:autofuse::)?([A-Z]\w+(?:<[\w:, ]+>)?)\((.*)\)", re.S)
_TENSOR = re.compile(r"\b(\w+?)(?:_local)?\[")


def loops(kernel: str, function: str) -> str:
    """Return the loops of a device function with their copies and vector calls, without the surrounding code."""
    body = kernel[kernel.index(f"void {function}(") :]
    body = body[: body.index("\n}\n")]
    start = body.index("TPipe tpipe;")
    return "\n".join(_statements(body[start:].splitlines()))


def _statements(lines: Sequence[str]) -> Iterator[str]:
    braces: list[bool] = []  # open ones; True: those of a loop
    text = ""
    for line in lines:
        loop = _LOOP.match(line)
        indent = "  " * sum(braces)
        if loop:
            yield f"{indent}for {loop[1]} < {loop[2]}:"
            braces.append(True)
        elif line.strip() == "}":
            braces.pop()
        elif line.endswith("{"):
            braces.append(False)
        elif not line.lstrip().startswith("//"):
            text += line.strip()
            if text.endswith(";"):
                yield from (f"{indent}{s}" for s in _call(text.removesuffix(";")))
                text = ""


def _call(text: str) -> Iterator[str]:
    """Yield a call on tensors in short form."""
    found = _CALL.fullmatch(text)
    tensors = list(dict.fromkeys(_TENSOR.findall(found[2]))) if found else []
    if found and tensors:
        name = found[1].replace("autofuse::", "")
        yield f"{name}({', '.join(tensors)})"


def templates_page() -> str:
    """Return the whole page."""
    parts = [_TEXT]
    for family in FAMILIES:
        parts.append(f"## `{family.name}`\n\n{family.text}\n")
        parts += _example_of(family)
    return "\n".join([*parts, f"{_APART.text}\n", *_example_of(_APART), _CUT])


if __name__ == "__main__":
    sys.stdout.write(templates_page())
