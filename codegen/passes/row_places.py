"""Results of rows stored over other tensors: check that those were fully loaded before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autofuse.codegen.ir.calls import RowLoop, RowRegister, RowStep

__all__ = ["stored_too_early"]


def stored_too_early(
    steps: Sequence[RowStep | RowLoop], over: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, str]]:
    """Yield each tensor stored over another one that may still be loaded, with that one.

    A load is complete if the stored value depends on it, or stores waited for it; a stored value must be loaded before
    another one overwrites it.  A first load after a store over the same address comes too late.

    Args:
        steps: steps of a row.
        over: for each stored tensor, the tensors at the same address.
    """
    #: By part of a tensor: loads that may be incomplete; and by register: the loads that its value depends on.
    open_loads: dict[RowRegister, set[int]] = {}
    needs: dict[RowRegister, frozenset[int]] = {}
    #: By part of a tensor: the tensor stored over it, even before its load; and parts stored but not yet loaded.
    gone: dict[RowRegister, str] = {}
    unread: set[RowRegister] = set()
    number = 0
    for s in steps:
        loop = s if isinstance(s, RowLoop) else RowLoop(1, 0, (s,))
        for i in range(loop.times):
            for x in loop.steps:
                number += 1
                local, at = x.to
                part = local, None if at is None else i * loop.width + at
                if x.op == "stores_wait":
                    open_loads.clear()
                elif x.op == "load":
                    if part in gone:
                        yield gone[part], local
                    open_loads.setdefault(part, set()).add(number)
                    unread.discard(part)
                    needs[x.to] = frozenset({number})
                elif x.op == "store":
                    have = needs.get(x.of[0], frozenset())
                    gone.pop(part, None)
                    for y in over.get(local, ()):
                        there = y, part[1]
                        if there in unread or open_loads.get(there, set()) - have:
                            yield local, y
                        gone[there] = local
                    unread.add(part)
                elif x.op != "loads_wait":
                    needs[x.to] = frozenset().union(*[needs.get(y, ()) for y in x.of])
