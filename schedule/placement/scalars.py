"""One-element operands: scalar operands of calls, and inputs that the scalar unit reads from GM."""

from __future__ import annotations

from collections.abc import Mapping

from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import find_call
from autofuse.schedule.placement.placement import Placed, is_one_input
from autofuse.targets import Architecture

__all__ = ["SCALAR_INPUTS", "is_copied", "is_scalar", "scalar_inputs", "with_scalars"]

#: Positions of inputs that a style of call takes as scalars when uniform.
SCALAR_INPUTS: Mapping[str, tuple[int, ...]] = {
    "scalar": (1,),
    "compare_scalar": (1,),
    "select": (2,),
    "duplicate": (0,),
}
#: The attribute of a one-element Load that the scalar unit reads, and its value if no call needs it in UB.
_ATTR, _ALONE = "scalar", "alone"


def scalar_inputs(n: Node, nodes: Mapping[str, Node], arch: Architecture) -> tuple[int, ...]:
    """Return the operands that the call of a node takes as scalars, by position."""
    row = find_call(n.op, arch)
    places = () if row is None else SCALAR_INPUTS.get(row.style, ())
    if places and n.op == "SelectMask":
        varies = nodes[n.inputs[2]].y.vectorized_axis
        return places if n.y.vectorized_axis and not varies else ()
    return places


def with_scalars(placed: Placed, arch: Architecture) -> Placed:
    """Return the template with one-element Loads of inputs before the loops turned into reads by the scalar unit.

    They take no DMA command.  If a call needs the element in UB, the scalar unit writes it there as well.  Workspaces
    are excluded: another core wrote them, and the scalar unit is cached.  A chip that moves whole blocks has no other
    way to load one element, so there such Loads are moved out of the loops.
    """
    if not arch.has_datacopypad:
        single = [n for n in placed.looped if is_one_input(n, placed.structural)]
        before = (*(replace(n, loop_axis=None) for n in single), *placed.hoisted)
        inside = tuple(n for n in placed.looped if n not in single)
        placed = replace(placed, hoisted=before, looped=inside)
    nodes = {n.name: n for n in (*placed.structural, *placed.hoisted, *placed.looped)}
    in_ub = {
        x
        for n in (*placed.hoisted, *placed.looped)
        for i, x in enumerate(n.inputs)
        if i not in scalar_inputs(n, nodes, arch)
    }

    def marked(n: Node) -> Node:
        if not is_one_input(n, placed.structural):
            return n
        how = "placed" if n.name in in_ub else _ALONE
        return n if n.attrs.get(_ATTR) == how else replace(n, attrs={**n.attrs, _ATTR: how})

    return replace(placed, hoisted=tuple(marked(n) for n in placed.hoisted))


def is_scalar(n: Node, *, alone: bool = False) -> bool:
    """Return True if the scalar unit reads the element of a Load; with ``alone``, only if no call needs it in UB."""
    return n.attrs.get(_ATTR) == _ALONE if alone else _ATTR in n.attrs


def is_copied(n: Node) -> bool:
    """Return True if a DMA command moves the elements of a node."""
    return n.op == "Store" or (n.op == "Load" and not is_scalar(n))
