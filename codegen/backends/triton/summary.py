"""Numeric summary of the kernels of a plan, for people and for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from autofuse.codegen.backends.triton.blocks import row_blocks
from autofuse.codegen.backends.triton.kernels import Blocks, Form, Kernel, Program
from autofuse.codegen.nests.memory import Memory, Role
from autofuse.codegen.nests.nest import varies

__all__ = ["blocks_at", "plan_summary"]


def plan_summary(program: Program, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return a summary of each kernel of a program at given sizes, in launch order.

    Args:
        program: plan.
        sizes: sizes of the graph's symbols, in elements.

    Returns:
        A dict per kernel:

        - ``name``: function name; ``form``: a value of ``Form``;
        - ``launched``: whether it runs at these sizes; another kernel may take rows of this length;
        - ``rows``, ``cols``: elements covered; ``items`` have rows only;
        - ``block``: rows and columns held at once; ``cluster``: blocks that share a row;
        - ``programs``: programs of the grid, each cluster counting as one; ``warps``: warps of a block;
        - ``passes``: number of passes over the columns;
        - ``input_bytes``, ``output_bytes``: bytes of the graph's tensors, each element read or written counted once;
          ``scratch_bytes``: scratch between kernels, read and written.
    """
    return [
        _kernel(k, before, program, sizes)
        for before, k in zip((None, *program.kernels), program.kernels, strict=False)
    ]


def _kernel(
    k: Kernel, before: Kernel | None, program: Program, sizes: Mapping[str, int]
) -> dict[str, Any]:
    outer, rows, cols = (k.nest.count(axes).evaluate(sizes) for axes in (k.grid, k.rows, k.cols))
    count = outer * rows * (cols if k.form is Form.TILES else 1)
    b = blocks_at(k, rows, cols)
    programs = b.programs or outer * -(-rows // b.rows)
    if k.form is Form.TILES:
        programs *= -(-cols // b.cols)
    return {
        "name": k.name,
        "form": k.form.value,
        "launched": count > 0 and _takes(k, before, cols),
        "rows": outer * rows,
        "cols": cols,
        "block": [b.rows, b.cols],
        "cluster": b.parts,
        "programs": programs * b.chunks,
        "warps": b.warps,
        "passes": _passes(k),
        **_bytes(k, program, sizes),
    }


def blocks_at(k: Kernel, rows: int, cols: int) -> Blocks:
    """Return the blocks of a kernel, including those that the generated file chooses at the call.

    Args:
        k: kernel.
        rows: elements along the rows of its blocks.
        cols: elements along their columns.
    """
    if k.blocks is not None:
        return k.blocks
    side, held, warps = row_blocks(rows, cols)
    return Blocks(side, held, warps=warps)


def _takes(k: Kernel, before: Kernel | None, cols: int) -> bool:
    """Return True if this kernel takes rows of ``cols`` elements."""
    if k.most_cols:
        return cols <= k.most_cols
    if before is None or before.nest.axes != k.nest.axes:
        return True
    return cols > before.most_cols


def _passes(k: Kernel) -> int:
    """Return the number of passes: a loop has one per level of reductions, and one for stores along the columns."""
    if k.form is not Form.LOOP:
        return 1
    cols = frozenset(k.cols)
    return len(k.passes) + any(n.op == "Store" and varies(n) & cols for n in k.nest.nodes)


def _bytes(k: Kernel, program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    whole = {
        m.name: prod(e.evaluate(sizes) for e in program.graph.tensors[t].shape)
        for m, t in zip(
            (*program.inputs, *program.outputs),
            (*program.graph.inputs, *(o.tensor for o in program.graph.outputs)),
            strict=True,
        )
    }
    whole |= {m.name: m.size.evaluate(sizes) for m in program.scratch if m.size is not None}
    found = {"input_bytes": 0, "output_bytes": 0, "scratch_bytes": 0}
    moved: dict[tuple[str, str], tuple[Memory, int]] = {}
    for kind, m, count in _moves(k, sizes):
        known = moved.get((kind, m.name), (m, 0))[1]
        # Windows and gathered elements overlap: count no more than the tensor has.
        moved[kind, m.name] = m, min(known + count, whole[m.name])
    for (kind, _), (m, count) in moved.items():
        key = "scratch_bytes" if m.role is Role.SCRATCH else kind
        found[key] += count * m.dtype.itemsize
    return found


def _moves(k: Kernel, sizes: Mapping[str, int]) -> Iterator[tuple[str, Memory, int]]:
    """Yield the kind, memory and number of elements of each read or write, skipping repeats of the same elements."""
    seen: set[object] = set()
    for n in k.nest.nodes:
        if n.op not in ("Load", "Store"):
            continue
        m = k.buffers[n.inputs[0]] if n.op == "Load" else k.targets[n.name]
        address = n.op, m.name, n.inputs[1:], n.y.repeats, n.y.strides, n.y.offset
        if address in seen:
            continue
        seen.add(address)
        kind = "input_bytes" if n.op == "Load" else "output_bytes"
        yield kind, m, prod(k.nest.sizes[a].evaluate(sizes) for a in varies(n))
    for p in k.partials:
        assert p.memory.size is not None
        yield "scratch_bytes", p.memory, p.memory.size.evaluate(sizes)
