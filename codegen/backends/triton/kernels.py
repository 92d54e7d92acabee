"""The plan of a Triton file: kernels over the blocks of a nest, and the memory between them."""

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
    """Block sizes of a kernel; the first three are powers of 2.

    Attributes:
        rows: elements along the rows of a program; for ITEMS, all elements.
        cols: elements along the columns held at once.
        parts: blocks of a cluster that share a row, each with ``cols`` elements.
        warps: warps of a block.
        programs: for kernels that loop over rows, the number of programs; 0: one per block of rows.
        chunks: for kernels that reduce a part of the columns, the number of parts.
        stages: loop iterations whose loads are in flight.
    """

    rows: int = 1
    cols: int = 1
    parts: int = 1
    warps: int = 4
    programs: int = 0
    chunks: int = 1
    stages: int = 1

    def constants(self) -> Mapping[str, int]:
        """Return the constexpr parameters that give the block sizes."""
        return {"BLOCK": self.rows, "ROWS": self.rows, "COLS": self.cols, "PARTS": self.parts}


@frozen
class Partial:
    """A partial result that a kernel leaves in scratch, one per part of the reduced elements.

    Attributes:
        item: reduction; None for a sum across rows.
        node: node whose partial result it is.
        memory: scratch, ``[parts, kept elements]``.
    """

    item: Item | None
    node: Node
    memory: Memory


@frozen
class Kernel:
    """One launch.

    Attributes:
        name: function name, an identifier.
        form: data that a program holds at once.
        nest: nodes; those of ``partials`` and their users are not computed.
        grid: axes with one index per program.
        rows, cols: axes along the rows and columns of a program's blocks.
        passes: reductions over the columns, pass by pass.
        blocks: block sizes; None: the file calls ``blocks.row_blocks`` at run time.
        partials: partial results in scratch.
        buffers: memory of Data, Output and Workspace nodes, by node name.
        targets: memory that each Store writes.
        exact: products and sums must round separately.
        most_cols: for a kernel that keeps whole rows of an unknown length, the longest; the next kernel takes longer
            ones.  0: it takes every length.
        takes: tensors that its first parameters point to, in this order, used or not.
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
        """Return the rows of all programs; for elements and rectangles, their rows along the grid."""
        return self.nest.count(self.rows) * self.nest.count(self.grid)

    def extents(self) -> tuple[tuple[Expr, str], ...]:
        """Return the factors of the number of programs: element counts, each with its block size constant.

        The constant is empty if every element has its own program.  Does not support kernels that loop over rows.
        """
        found = [(self.nest.count(self.rows), "ROWS")]
        if self.form is Form.TILES:
            found.append((self.nest.count(self.cols), "COLS"))
        outer = self.nest.count(self.grid)
        return tuple(found if outer == 1 else [*found, (outer, "")])


@frozen
class Program:
    """All kernels of a graph, in launch order.

    Attributes:
        signature: names of its function, and the original graph.
        inputs, outputs: their memory, in the order of the graph.
        scratch: memory that the wrapper allocates between kernels.
        cores: programs of a grid, each of which loops over blocks; 0: a program has one block.
    """

    signature: Signature
    inputs: tuple[Memory, ...]
    outputs: tuple[Memory, ...]
    kernels: tuple[Kernel, ...]
    scratch: tuple[Memory, ...]
    cores: int = 0

    @property
    def graph(self) -> FusionGraph:
        """Return the original graph."""
        return self.signature.graph

    @property
    def symbols(self) -> Mapping[str, str]:
        """Return the symbols of the graph -> their names in the file."""
        return self.signature.symbols
