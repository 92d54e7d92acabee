"""Checks of staggered loops, whose steps run in a different order on every core.

``model.py`` proves that every step runs exactly once: its index is ``Mod(turn + core, steps)``, or the statements
differ from the template.  It remains to check that the order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.codegen.ir.calls import Call
from autofuse.codegen.proofs.model import Finding, Kernel

__all__ = ["steps_have_no_order"]


def steps_have_no_order(kernel: Kernel) -> Iterator[Finding]:
    """No statement of a staggered loop passes data to the next step, or depends on the number of steps before.

    It writes only nodes of the loop in UB, which every step computes anew.  Other checks ensure that nothing is read
    before it is computed (``buffers_hold_their_tensors``), and that the step that overwrites a value in place also
    reads it (``in_place_regions_agree``).
    """
    for p in kernel.spec.staggered:
        if not 0 <= p < kernel.passes:
            yield Finding(f"pass {p} is staggered, and there are {kernel.passes}")
    for item in kernel.items:
        s = item.stmt
        if item.number not in kernel.spec.staggered:
            continue
        for local in item.writes_in_ub:
            owner = kernel.locals.get(local)
            if owner is not None and kernel.place_of(owner) != item.place:
                text = f"{local} changes from step to step, and the loop is staggered"
                yield Finding(text, owner.name)
        if not isinstance(s, Call):
            continue
        maker = kernel.maker(item, s.writes[0])
        for x in maker.inputs if maker is not None else ():
            if kernel.nodes[x].attrs.get("count"):
                yield Finding(
                    f"{s.api} counts steps of a staggered loop", maker.name if maker else ""
                )
