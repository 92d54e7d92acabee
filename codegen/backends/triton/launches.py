"""The launches of a program as data, for callers that launch its kernels without the generated Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autofuse.codegen.backends.triton.kernels import Blocks, Kernel, Program
from autofuse.codegen.backends.triton.python_text import Names
from autofuse.codegen.backends.triton.signature import entry_point
from autofuse.codegen.backends.triton.text.wrapper import kernel_text
from autofuse.codegen.nests.memory import Memory
from autofuse.implgraph.expr.expression import CeilDiv, Expr, Min, const, product
from autofuse.implgraph.ir.frozen import frozen, replace

__all__ = ["Launch", "for_every_size", "grid_of", "launches", "taking_all"]

_THREADS_OF_A_WARP = 32
_BYTES_OF_A_FLOAT = 4


@frozen
class Launch:
    """One launch of a kernel; its parameters are pointers, sizes and constants, in this order.

    Attributes:
        name: function name.
        memory: memory that the pointers point to.
        written: those of it that the kernel writes.
        meeting: bytes of the launch's own scratch, to which the last pointer points; None: there is no such pointer.
        sizes: symbols that it takes.
        blocks: number of blocks, a parameter after the sizes, for kernels that loop over blocks; None: there is no such
            parameter.
        constants: block size constants by name; Triton compiles for them.
        grid: programs along each of three dimensions; if one is 0, nothing is launched.
        threads: threads of a block.
        parts: blocks of a cluster; every program is a cluster.
        warps: warps of a block.
        fusion: products and sums may be fused.
    """

    name: str
    memory: tuple[Memory, ...]
    written: tuple[Memory, ...]
    meeting: Expr | None
    sizes: tuple[str, ...]
    blocks: Expr | None
    constants: Mapping[str, int]
    grid: tuple[Expr, Expr, Expr]
    threads: int
    parts: int
    warps: int
    fusion: bool


def for_every_size(program: Program) -> Program:
    """Return the program with only kernels that fit all sizes.

    If separate kernels handle short and long rows, the second one takes both.
    """
    return replace(program, kernels=tuple(k for k in program.kernels if not k.most_cols))


def taking_all(program: Program) -> Program:
    """Return the program with kernels named after the graph, each of which takes all tensors.

    Pointers come in the order of the graph: inputs, outputs that overwrite no input, scratch.
    """
    outputs = (m for m in program.outputs if m not in program.inputs)
    takes = (*program.inputs, *outputs, *program.scratch)
    kept, graph = program.kernels, program.graph
    names = Names((*(m.name for m in takes), *program.symbols.values(), entry_point(graph)))
    called = [graph.name] if len(kept) == 1 else [f"{graph.name}_{i}" for i in range(len(kept))]
    kernels = tuple(
        replace(k, name=names.take(f"{name}_kernel"), takes=takes)
        for k, name in zip(kept, called, strict=True)
    )
    return replace(program, kernels=kernels)


def launches(program: Program) -> Iterator[Launch]:
    """Yield the launches, in order, of a program whose kernels all have blocks."""
    ranges = program.graph.symbol_ranges()
    for k in program.kernels:
        assert k.blocks is not None
        text = kernel_text(k, program.symbols, ranges, on_cores=program.cores > 0)
        # Always use 64-bit offsets if they may be needed, and assume no row alignment.
        constants = {**k.blocks.constants(), "WIDE": True, "UNIT": 1}
        meeting = k.lines() * (text.meets * k.blocks.parts * _BYTES_OF_A_FLOAT)
        blocks = _blocks(k, k.blocks) if text.takes_blocks else None
        yield Launch(
            k.name,
            text.memory,
            tuple(m for m in text.memory if m in _written(k)),
            meeting if text.meets else None,
            text.sizes,
            blocks,
            {name: constants[name] for name in text.constants},
            grid_of(k, program.cores if text.takes_blocks else 0),
            k.blocks.warps * _THREADS_OF_A_WARP,
            k.blocks.parts,
            k.blocks.warps,
            not k.exact,
        )


def _written(k: Kernel) -> frozenset[Memory]:
    stored = (k.targets[n.name] for n in k.nest.nodes if n.op == "Store")
    return frozenset((*stored, *(p.memory for p in k.partials)))


def _blocks(k: Kernel, b: Blocks) -> Expr:
    sides = {**b.constants(), "": 1}
    return product(CeilDiv(count, sides[part]) for count, part in k.extents())


def grid_of(k: Kernel, cores: int = 0) -> tuple[Expr, Expr, Expr]:
    """Return the programs of a kernel with blocks; ``cores``: most of them, for one that loops over blocks."""
    b = k.blocks
    assert b is not None
    programs = const(b.programs) if b.programs else _blocks(k, b)
    if cores:
        programs = Min(programs, const(max(1, cores // b.chunks)))
    return programs, const(b.chunks), const(1)
