"""Buffer addresses at which the operands of a vector call do not collide in the banks of UB.

Take 16 groups of banks, each 32 bytes wide, of which a vector instruction covers eight.  Two operands read at the same
time share no group only if their addresses differ by 256 bytes modulo 512, the *period*; a result and an operand in one
bank must not be a few rows apart, which is guaranteed if both start at multiples of 256 bytes.  So a plan has two
*halves*: buffers that start at multiples of the period, and buffers that start half a period later.  If lengths are
multiples of the period, all blocks of a queue stay in one half for every tile size, and the second half costs only one
pad of half a period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations

from autofuse.implgraph.expr.expression import CeilDiv, Expr, Func, Max, align_up, const
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import BufferKind, BufferPlan, Node, Position
from autofuse.implgraph.ops.registry import is_many_calls
from autofuse.schedule.cost.cost import Conflict
from autofuse.targets import Architecture

__all__ = [
    "Halves",
    "bank_conflict",
    "data_operands",
    "halves_of",
    "in_halves",
    "round_up",
]


def data_operands(n: Node, named: Mapping[str, Node]) -> list[Node]:
    """Return the tensors that an element-wise vector call reads from UB as data, in input order; empty for other nodes.

    Masks next to data are left out: an instruction reads only a few bytes of them, so they lag behind the data, and no
    address keeps them apart.  So are reductions and moves: they take many calls, at addresses that depend on sizes.
    """
    if n.api is None or n.api.unit != "Vector" or is_many_calls(n.op):
        return []
    found = [named[i] for i in n.inputs if i in named and named[i].y.vectorized_axis]
    return [x for x in found if x.y.dtype.kind != "m"] or found


def bank_conflict(places: Sequence[int], result: int | None, arch: Architecture) -> Conflict:
    """Return the worst collision of a vector call, for its first instruction; later ones shift all addresses alike.

    An instruction covers neighbouring groups of banks.  Two operands collide in any shared group; a result collides
    with an operand in the same bank, unless both start in the same bank, where the write comes one instruction later.

    Args:
        places: UB addresses of the operands.
        result: UB address of the result, or None if it is not a tensor.
        arch: gives the number of groups, and how many of them an instruction covers.
    """
    block, groups = arch.block_bytes, arch.ub_bank_groups
    covered = arch.vector_bytes // block
    clear = range(covered, groups - covered + 1)
    pairs = combinations(places, 2) if len(places) > 1 else ()
    if any([(a // block - b // block) % groups not in clear for a, b in pairs]):
        return Conflict.SOURCES
    if result is not None:
        for place in places:
            apart = (result // block - place // block) % groups
            same = place // arch.ub_bank_bytes == result // arch.ub_bank_bytes
            if apart and apart not in clear and same:
                return Conflict.RESULT
    return Conflict.NONE


class Halves:
    """Assignment of tensors to two halves of the banks: some must be apart, others share a buffer and stay together.

    Earlier relations take precedence; a later one that contradicts them is rejected.
    """

    def __init__(self) -> None:
        #: Tensor -> (parent in its component, True if the two are apart).
        self._up: dict[str, tuple[str, bool]] = {}
        self._split: set[str] = set()

    def _root(self, name: str) -> tuple[str, bool]:
        """Return the root tensor of the component, and True if ``name`` is apart from it."""
        first = self._up.get(name)
        if first is None:
            return name, False
        if first[0] not in self._up:  # nearly always, due to the path compression below
            return first
        way: list[tuple[str, bool]] = []
        while (found := self._up.get(name)) is not None:
            way.append((name, found[1]))
            name = found[0]
        apart = False
        for below, step in reversed(way):
            apart ^= step
            self._up[below] = (name, apart)
        return name, apart

    def put(self, a: str, b: str, *, apart: bool) -> bool:
        """Put two tensors apart or together; return False, changing nothing, if that contradicts earlier relations."""
        (ra, pa), (rb, pb) = self._root(a), self._root(b)
        if ra == rb:
            return (pa ^ pb) == apart
        self._up[rb] = (ra, pa ^ pb ^ apart)
        if apart or rb in self._split:
            self._split.add(ra)
        return True

    def may_share(self, a: str, b: str) -> bool:
        """Return True if nothing requires the two to be apart."""
        if a == b:
            return True
        (ra, pa), (rb, pb) = self._root(a), self._root(b)
        return ra != rb or pa == pb

    def side(self, name: str) -> tuple[str, bool] | None:
        """Return a tensor's component and half; None if it need not be apart from any other."""
        root, apart = self._root(name)
        return (root, apart) if root in self._split else None


@lru_cache(maxsize=4096)
def round_up(nbytes: Expr, step: int) -> Expr:
    """Return the smallest multiple of ``step`` that is at least ``nbytes``, simplified."""
    if len(nbytes.terms) == 1:
        ((monomial, factor),) = nbytes.terms
        if len(monomial) == 1 and monomial[0][1] == 1:
            atom = monomial[0][0]
            if isinstance(atom, Func) and atom.name == "CeilDiv":
                value, divisor = atom.args
                if divisor.is_const and factor > 0 and step % factor == 0:
                    return CeilDiv(value, divisor.value * (step // factor)) * step
            if isinstance(atom, Func) and atom.name == "Max" and factor == 1:
                return Max(*(round_up(a, step) for a in atom.args))
    return align_up(nbytes, step)


def halves_of(nodes: Sequence[Node]) -> Halves:
    """Return the halves of tensors that calls of ``nodes`` need apart, first calls first; accumulators are one."""
    halves, named = Halves(), {n.name: n for n in nodes}
    for n in nodes:
        if n.joins is not None:
            halves.put(n.name, n.joins, apart=False)
    for n in nodes:
        if len(n.inputs) < 2:
            continue
        names = [x.name for x in data_operands(n, named)]
        if len(names) == 2 and names[0] != names[1]:
            halves.put(names[0], names[1], apart=True)
    return halves


def in_halves(
    plans: Sequence[BufferPlan],
    leaders: Sequence[str],
    halves: Halves,
    wide: frozenset[str],
    arch: Architecture,
) -> list[BufferPlan]:
    """Return the buffers in address order, with the lengths and a pad that place them in their halves.

    First the buffers of one half, then a pad and those of the other half; then unconstrained buffers, at multiples of
    half a period; then single elements and masks.

    Args:
        plans: all buffers.
        leaders: for each buffer, the tensor that determines its half; empty for scratch space.
        halves: the tensors that must be apart.
        wide: data tensors with more than one element.
        arch: gives the number of bank groups.
    """
    period = arch.bank_period
    half_bytes = period // 2
    first: dict[str, bool] = {}
    sides: tuple[list[BufferPlan], list[BufferPlan]] = ([], [])
    others: list[BufferPlan] = []
    small: list[BufferPlan] = []
    for plan, leader in zip(plans, leaders, strict=True):
        side = halves.side(leader) if leader else None
        if side is not None:
            component, apart = side
            half = apart != first.setdefault(component, apart)
            nbytes = round_up(plan.nbytes, period)
            sides[half].append(replace(plan, nbytes=nbytes, bank=half_bytes * half))
        elif plan.tensors and wide.isdisjoint(plan.tensors):
            small.append(plan)
        else:
            others.append(replace(plan, nbytes=round_up(plan.nbytes, half_bytes)))
    number = sum(p.kind is BufferKind.BUF for p in plans)
    pad = BufferPlan(BufferKind.BUF, number, Position.VECCALC, 1, 1, const(half_bytes), (), bank=0)
    return [*sides[0], *([pad] if sides[1] else []), *sides[1], *others, *small]
