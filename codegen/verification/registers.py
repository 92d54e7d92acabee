"""Functions on vector registers: they compute their calls, and store the values that are read in UB.

Their calls are checked like any other; these checks cover the registers.  As no call in such a function waits for UB, a
step must not store what another step loads.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.codegen.ir.calls import Count, VectorFunction
from autofuse.codegen.passes.register_calls import (
    in_registers,
    registers_needed,
    stated_count,
)
from autofuse.codegen.proofs.item import Item
from autofuse.codegen.proofs.model import Finding, Kernel
from autofuse.codegen.verification.rows_in_registers import row_findings
from autofuse.implgraph.ir.dtypes import DType

__all__ = ["functions_on_registers_are_whole"]


def functions_on_registers_are_whole(kernel: Kernel) -> Iterator[Finding]:
    """Every function on registers has its operands, its results, and room for its values."""
    items = kernel.items
    for item in items:
        if not isinstance(item.stmt, VectorFunction):
            continue
        if item.stmt.rows is None:
            yield from _calls(kernel, item.stmt)
            yield from _values(kernel, item.stmt)
            yield from _in_place(kernel, item.stmt)
        else:
            yield from row_findings(kernel, item.stmt)
        yield from _left_in_ub(items, item.stmt)


def _calls(kernel: Kernel, f: VectorFunction) -> Iterator[Finding]:
    """Check that every call exists on registers, and covers the elements of the function."""
    dtypes, arch = dict(f.dtypes), kernel.arch
    for s in f.calls:
        node = kernel.node_of(s.writes[0])
        if not in_registers(s, dtypes, arch):
            yield Finding(f"registers of architecture {arch.name} have no {s.api}", node)
            continue
        have = s.args[-1]
        assert isinstance(have, Count)
        yield from kernel.same(
            kernel.value(have.value),
            kernel.value(stated_count(s, f.count, dtypes, arch)),
            f"{s.api} goes through the elements of {f.name}",
            node,
        )


def _values(kernel: Kernel, f: VectorFunction) -> Iterator[Finding]:
    """Check that every operand was loaded or computed, and that all values fit the registers."""
    known: set[str] = set()
    for s in f.calls:
        for x in s.reads:
            if x not in known and x not in f.loads:
                yield Finding(f"{f.name} reads {x}, which it does not load", kernel.node_of(x))
        known |= {*s.reads, *s.writes}
    for x in f.stores:
        if x not in {s.writes[0] for s in f.calls}:
            yield Finding(f"{f.name} stores {x}, which it does not compute", kernel.node_of(x))
    dtypes = dict(f.dtypes)
    for x in (*f.loads, *f.stores):
        if dtypes[x].kind == "m":
            yield Finding(f"{f.name} has the bits of {x} in UB", kernel.node_of(x))
    vectors, masks = registers_needed(f.calls, dtypes)
    most = kernel.arch.vector_registers, kernel.arch.mask_registers
    if vectors > most[0] or masks > most[1]:
        text = f"{f.name} needs {vectors} registers and {masks} of masks; there are {most[0]} and {most[1]}"
        yield Finding(text)


def _in_place(kernel: Kernel, f: VectorFunction) -> Iterator[Finding]:
    """Check that no step stores over a value that another one loads or stores."""
    dtypes = dict(f.dtypes)
    needs: dict[str, frozenset[str]] = {x: frozenset({x}) for x in f.loads}
    for s in f.calls:
        of = [needs[x] for x in s.reads if x in needs]
        needs[s.writes[0]] = frozenset[str]().union(*of)
    for k, x in enumerate(f.stores):
        for y in (*f.loads, *f.stores[:k]):
            if x == y or not kernel.shares(x, y):
                continue
            follows = y in f.loads and y in needs.get(x, ()) and _same_width(dtypes[x], dtypes[y])
            if not follows:
                text = f"{f.name} stores {x} over {y}, which a later step needs"
                yield Finding(text, kernel.node_of(x))


def _same_width(a: DType, b: DType) -> bool:
    return a.itemsize == b.itemsize


def _left_in_ub(items: list[Item], f: VectorFunction) -> Iterator[Finding]:
    """Check that values read outside of the function are stored."""
    kept = {s.writes[0] for s in f.calls[f.fills :]} - {*f.stores}
    for item in items:
        if item.stmt is not f:
            for x in kept.intersection(item.reads_in_ub):
                yield Finding(f"{x} is read, which {f.name} leaves in a register")
    for x in kept.intersection(f.loads):
        yield Finding(f"{f.name} loads {x}, which it leaves in a register")
