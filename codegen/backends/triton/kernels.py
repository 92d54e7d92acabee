"""Contents of a Triton file: kernels over the blocks of a nest, and the memory between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from autofuse.codegen.backends.triton.signature import Signature
from autofuse.codegen.nests.levels import Item
from autofuse.codegen.nests.memory import Memory
from autofuse.codegen.nests.nest import Nest
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import Node

__all__ = ["Blocks", "Form", "Kernel", "Partial", "Program"]


class Form(str, Enum):
    """Data that a program of a kernel holds at once.

    ITEMS: a run of elements.  TILES: a rectangle, where tensors are contiguous along different axes.  ROWS: whole rows
    in registers.  LOOP: blocks of columns of some rows, one after another.
    """

    ITEMS = "items"
    TILES = "tiles"
    ROWS = "rows"
    LOOP = "loop"


@frozen
class Blocks:
    """Sizes of the blocks of a kernel; the first three are powers of 2.

    Attributes:
        rows: elements along the rows of a program; of ITEMS all that it has.
        cols: elements along the columns that it holds at once.
        parts: blocks of a cluster that share a row, each with ``cols`` of it.
        warps: of a block.
        programs: of kernels that go over rows in a loop, how many run; 0: one per block of rows.
        chunks: of kernels that reduce a part of the columns, how many parts there are.
        stages: iterations of a loop whose loads are under way at once.
    """

    rows: int = 1
    cols: int = 1
    parts: int = 1
    warps: int = 4
    programs: int = 0
    chunks: int = 1
    stages: int = 1

    def constants(self) -> Mapping[str, int]:
        """The constants of a kernel that say how long its blocks are."""
        return {"BLOCK": self.rows, "ROWS": self.rows, "COLS": self.cols, "PARTS": self.parts}


@frozen
class Partial:
    """A partial result that a kernel leaves in scratch, one per part of what it is reduced over.

    Attributes:
        item: the reduction; None for a sum across rows.
        node: whose partial result.
        memory: the scratch, ``[parts, kept elements]``.
    """

    item: Item | None
    node: Node
    memory: Memory


@frozen
class Kernel:
    """One launch.

    Attributes:
        name: of the function, an identifier.
        form: what a program holds at once.
        nest: the nodes; those of ``partials`` and of what comes after them are not computed.
        grid: axes of which a program has one index.
        rows, cols: axes along the rows and columns of the blocks of a program.
        passes: the reductions over the columns, pass by pass.
        blocks: their sizes; None: the file asks ``blocks.row_blocks`` at run time.
        partials: what is left in scratch.
        buffers: where Data, Output and Workspace nodes are, by the name of the node.
        targets: for every Store the memory it writes.
        exact: products and sums must round one by one.
        most_cols: of a kernel that keeps whole rows of an unknown length, the longest; the next kernel does the same
            for longer ones.  0: it takes every length.
        takes: what its first parameters point to, in this order, whether or not it touches it.
    """

    name: str
    form: Form
    nest: Nest
    grid: tuple[int, ...]
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    passes: tuple[tuple[Item, ...], ...]
    blocks: Blocks | None
    partials: tuple[Partial, ...]
    buffers: Mapping[str, Memory]
    targets: Mapping[str, Memory]
    exact: bool = False
    most_cols: int = 0
    takes: tuple[Memory, ...] = ()

    def lines(self) -> Expr:
        """Rows of all programs; of elements and rectangles their rows along the grid."""
        return self.nest.count(self.rows) * self.nest.count(self.grid)

    def extents(self) -> tuple[tuple[Expr, str], ...]:
        """Return the factors of the number of programs: element counts, each with the constant of its block size.

        The constant is empty where every element has a program.  Not for a kernel with a loop over rows.
        """
        found = [(self.nest.count(self.rows), "ROWS")]
        if self.form is Form.TILES:
            found.append((self.nest.count(self.cols), "COLS"))
        outer = self.nest.count(self.grid)
        return tuple(found if outer == 1 else [*found, (outer, "")])


@frozen
class Program:
    """All kernels of a graph, in the order in which they run.

    Attributes:
        signature: the names of its function, and the graph as it was read.
        inputs, outputs: memory of these, in the order of the graph.
        scratch: what the wrapper allocates between kernels.
        cores: programs of a grid, of which each goes over blocks in a loop; 0: a program has one block.
    """

    signature: Signature
    inputs: tuple[Memory, ...]
    outputs: tuple[Memory, ...]
    kernels: tuple[Kernel, ...]
    scratch: tuple[Memory, ...]
    cores: int = 0

    @property
    def graph(self) -> FusionGraph:
        """As it was read."""
        return self.signature.graph

    @property
    def symbols(self) -> Mapping[str, str]:
        """The symbols of the graph -> what they are called in the file."""
        return self.signature.symbols
