"""Results of rows that are stored where something else was: whether all that is needed of that was loaded before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autofuse.codegen.ir.kernel_ir import RowLoop, RowRegister, RowStep

__all__ = ["stored_too_early"]


def stored_too_early(
    steps: Sequence[RowStep | RowLoop], over: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, str]]:
    """What is stored over a part of something else that may still be loaded, and what that is.

    A load is over where the value that is stored was computed from it, or where stores waited for it; what was stored
    has to be loaded before something else is stored there.

    Args:
        steps: those of a row.
        over: of what is stored, the tensors at the same place.
    """
    #: By part of a tensor: the loads that may not be over, and by register: the loads of which it was computed.
    open_loads: dict[RowRegister, set[int]] = {}
    needs: dict[RowRegister, frozenset[int]] = {}
    #: What was loaded or stored, what of that is there no more, and what was stored and not loaded yet.
    known: set[RowRegister] = set()
    gone: set[RowRegister] = set()
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
                        yield local, local
                    open_loads.setdefault(part, set()).add(number)
                    known.add(part)
                    unread.discard(part)
                    needs[x.to] = frozenset({number})
                elif x.op == "store":
                    have = needs.get(x.of[0], frozenset())
                    for y in over.get(local, ()):
                        there = y, part[1]
                        if part in gone or there in unread or open_loads.get(there, set()) - have:
                            yield local, y
                        if there in known:
                            gone.add(there)
                    known.add(part)
                    unread.add(part)
                elif x.op != "loads_wait":
                    needs[x.to] = frozenset().union(*[needs.get(y, ()) for y in x.of])
