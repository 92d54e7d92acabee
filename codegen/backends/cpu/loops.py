"""Contents of a C++ file: a function of loops per nest, and the memory between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import Nest
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Node

__all__ = ["Form", "Loops", "Program", "Threads"]


class Form(str, Enum):
    """Direction of the innermost loop, whose iterations (*lanes*) vector instructions take together.

    ELEMENTS: elements, without a reduction.  TILES: the same where tensors are contiguous along different axes, square
    by square.  ROWS: the reduced elements.  COLUMNS: results of reductions, a block of them at once.
    """

    ELEMENTS = "elements"
    TILES = "tiles"
    ROWS = "rows"
    COLUMNS = "columns"


class Threads(str, Enum):
    """Iterations that threads share: those of loops around reductions, the reduced ones, or none."""

    OUTER = "outer"
    REDUCED = "reduced"
    ONE = "one"


@frozen
class Loops:
    """The loops of one nest.

    Attributes:
        name: of the function, an identifier.
        nest: its nodes.
        form: what the lanes are.
        lanes: the axis of the innermost loop.
        across: of TILES, the other axis of the squares.
        threads: which iterations threads share.
        block: lanes of a block of COLUMNS; side of a square of TILES.
        passes: the reductions over the columns, pass by pass.
        kept: wide values that stay in a buffer from the pass that computes them to the ones that need them.
        run: elements of a sum of floats, along the lanes of ROWS and across those of COLUMNS, that are added up in
            ``float`` before they go into the total, which is a ``double`` where there are more.
    """

    name: str
    nest: Nest
    form: Form
    lanes: int
    across: int | None
    threads: Threads
    block: int
    passes: tuple[tuple[Node, ...], ...]
    kept: tuple[str, ...]
    run: int = 0


@frozen
class Program:
    """All loops of a graph, in the order in which they run.

    Attributes:
        graph: as it was read.
        symbols: its symbols -> what they are called in the file.
        inputs, outputs: memory of these, in the order of the graph.
        loops: one function each.
        scratch: what is allocated between them.
        buffers: where Data and Workspace nodes are, by the name of the node.
        targets: for every Store the memory that it writes.
        exact: products and sums must round one by one.
    """

    graph: FusionGraph
    symbols: Mapping[str, str]
    inputs: tuple[Memory, ...]
    outputs: tuple[Memory, ...]
    loops: tuple[Loops, ...]
    scratch: tuple[Memory, ...]
    buffers: Mapping[str, Memory]
    targets: Mapping[str, Memory]
    exact: bool
