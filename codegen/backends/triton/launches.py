"""The launches of a program as data, for those who launch its kernels without the Python of its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autofuse.codegen.backends.triton.kernels import Blocks, Kernel, Program
from autofuse.codegen.backends.triton.python_text import Names
from autofuse.codegen.backends.triton.signature import entry_point
from autofuse.codegen.backends.triton.text.wrapper import kernel_text
from autofuse.codegen.nests.memory import Memory
from autofuse.implgraph.expr.expression import CeilDiv, Expr, const, product
from autofuse.implgraph.ir.frozen import frozen, replace

__all__ = ["Launch", "for_every_size", "launches"]

_THREADS_OF_A_WARP = 32
_BYTES_OF_A_FLOAT = 4


@frozen
class Launch:
    """One launch of a kernel; its parameters are pointers, sizes and constants, in this order.

    Attributes:
        name: of the function.
        memory: what the pointers point to.
        meeting: bytes of scratch of its own, to which the last pointer points; None: there is no such pointer.
        sizes: the symbols that it is told.
        constants: of its blocks, by name; Triton compiles for them.
        grid: programs along each of three dimensions; where one is 0 nothing is launched.
        threads: of a block.
        parts: blocks of a cluster, each program being one.
        warps: of a block.
        fusion: products and sums may round together.
    """

    name: str
    memory: tuple[Memory, ...]
    meeting: Expr | None
    sizes: tuple[str, ...]
    constants: Mapping[str, int]
    grid: tuple[Expr, Expr, Expr]
    threads: int
    parts: int
    warps: int
    fusion: bool


def for_every_size(program: Program) -> Program:
    """The program with kernels whose blocks fit all sizes, called after the graph; each takes all tensors.

    Of two kernels for short and for long rows, the second one takes both.  Pointers come in the order of the graph:
    inputs, outputs that are no inputs, scratch.
    """
    outputs = (m for m in program.outputs if m not in program.inputs)
    takes = (*program.inputs, *outputs, *program.scratch)
    kept = [k for k in program.kernels if not k.most_cols]
    graph = program.graph
    names = Names((*(m.name for m in takes), *program.symbols.values(), entry_point(graph)))
    called = [graph.name] if len(kept) == 1 else [f"{graph.name}_{i}" for i in range(len(kept))]
    kernels = tuple(
        replace(k, name=names.take(f"{name}_kernel"), takes=takes)
        for k, name in zip(kept, called, strict=True)
    )
    return replace(program, kernels=kernels)


def launches(program: Program) -> Iterator[Launch]:
    """The launches, in their order, of a program whose kernels all have blocks and no cores."""
    ranges = program.graph.symbol_ranges()
    for k in program.kernels:
        assert k.blocks is not None
        assert not program.cores
        text = kernel_text(k, program.symbols, ranges)
        # Offsets that may need 64 bits have them, and rows may begin anywhere.
        constants = {**k.blocks.constants(), "WIDE": True, "UNIT": 1}
        meeting = k.lines() * (text.meets * k.blocks.parts * _BYTES_OF_A_FLOAT)
        yield Launch(
            k.name,
            text.memory,
            meeting if text.meets else None,
            text.sizes,
            {name: constants[name] for name in text.constants},
            _grid(k, k.blocks),
            k.blocks.warps * _THREADS_OF_A_WARP,
            k.blocks.parts,
            k.blocks.warps,
            not k.exact,
        )


def _grid(k: Kernel, b: Blocks) -> tuple[Expr, Expr, Expr]:
    sides = {**b.constants(), "": 1}
    blocks = product(CeilDiv(count, sides[part]) for count, part in k.extents())
    return const(b.programs) if b.programs else blocks, const(b.chunks), const(1)
