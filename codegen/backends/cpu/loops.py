"""The plan of a C++ file: a loop function per nest, and the memory between them."""

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
    """Direction of the innermost loop, whose iterations (*lanes*) are vectorised.

    ELEMENTS: elements, without a reduction.  TILES: elements in square tiles, for tensors contiguous along different
    axes.  ROWS: the reduced elements.  COLUMNS: results of reductions, in blocks.  TURNED: the same for short rows, of
    which a block is transposed.
    """

    ELEMENTS = "elements"
    TILES = "tiles"
    ROWS = "rows"
    COLUMNS = "columns"
    TURNED = "turned"


class Threads(str, Enum):
    """Iterations that threads share: loops around reductions, the reduced loops, or none."""

    OUTER = "outer"
    REDUCED = "reduced"
    ONE = "one"


@frozen
class Loops:
    """The loops of one nest.

    Attributes:
        name: function name, an identifier.
        nest: nodes.
        form: direction of the lanes.
        lanes: axis of the innermost loop.
        across: for TILES, the other axis of the tiles; for TURNED, the reduced axis.
        threads: iterations that threads share.
        block: lanes of a block of COLUMNS and TURNED; side of a tile of TILES.
        passes: reductions over the columns, pass by pass.
        kept: wide values buffered from the pass that computes them to the passes that need them.
        run: number of elements that a sum of floats adds up in ``float``, along the lanes of ROWS and across the lanes
            of COLUMNS, before it adds them to the total, which is a ``double`` if there are more.
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
    """All loops of a graph, in execution order.

    Attributes:
        graph: the original graph.
        symbols: its symbols -> their names in the file.
        inputs, outputs: their memory, in the order of the graph.
        loops: one function each.
        scratch: memory allocated between them.
        buffers: memory of Data and Workspace nodes, by node name.
        targets: memory that each Store writes.
        exact: products and sums must round separately.
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
