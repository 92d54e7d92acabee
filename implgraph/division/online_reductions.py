"""Reductions that depend on an earlier one over the same rows and can use its running value.

The sum of squares about a mean, or of exponentials below a maximum, seems to need two passes over a row: one for the
mean or the maximum, its *centre*, and one for the sum.  But when the centre moves from ``c`` to ``d``, the sum so far
can be corrected instead of recomputed:

* A sum of exponentials is multiplied: ``exp(k*(x - d)) = exp(k*(x - c)) * exp(k*(c - d))``.  The centre is the maximum
  of the same ``x`` and ``k > 0``, so no power exceeds 1.  Further factors may occur if they do not depend on the
  centre.
* A sum of products about means is added to: ``sum (x - d)(y - f) = sum (x - c)(y - e) + n (c - d)(e - f)``, for
  ``sum (x - c)`` and ``sum (y - e)`` are 0 where ``c`` and ``e`` are the means of the ``n`` elements so far.

So one pass computes both, correcting the sum whenever the centre moves; cores that each have a part of a row join their
results by the same rules (:mod:`autofuse.implgraph.division.online_parts`).  The first rule is due to Milakov and
Gimelshein (2018), the second to Chan, Golub and LeVeque (1983).  Chains of ops are recognised by the laws that they
obey (:data:`_LAWS`); a reduction that depends on an earlier one in any other way waits for it to finish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["LOWEST", "Centre", "Online", "online_reductions"]

#: The lowest finite number: the centre before the first element, and of rows of -inf only.
LOWEST = {"float32": -float.fromhex("0x1.fffffep127"), "float16": -65504.0}


@dataclass(frozen=True, slots=True)
class Centre:
    """Centre of a reduction: a maximum or a mean of the same rows.

    Attributes:
        reduction: the earlier reduction.
        value: the node whose result is subtracted: the reduction, the mean computed from it, or the maximum with a
            lower bound.
        count: operand of ``value`` that holds the number of elements; empty for a maximum.
    """

    reduction: str
    value: str
    count: str = ""

    @property
    def is_mean(self) -> bool:
        """True for a mean, False for a maximum."""
        return bool(self.count)

    @property
    def is_number(self) -> bool:
        """True if the centre is finite even for a row of -inf only."""
        return not self.is_mean and self.value != self.reduction


@dataclass(frozen=True, slots=True)
class Online:
    """Rule by which a reduction follows its centres.

    Attributes:
        centres: one for exponentials; two, possibly the same, for products.
        moves: for each centre, the nodes applied to its move, in order: those of its difference.
        after: nodes applied to a product of moves as well.
        path: all nodes between the earlier reductions and this one.
        powers: nodes of ``path`` whose move scales a sum of exponentials when its centre moves.
        hides: in rows without a finite maximum, results must be NaN but are only if the sum is.
    """

    centres: tuple[Centre, ...]
    moves: tuple[tuple[str, ...], ...]
    after: tuple[str, ...]
    path: frozenset[str]
    powers: frozenset[str] = frozenset()
    hides: bool = False

    @property
    def scales(self) -> bool:
        """True if a move multiplies the sum so far, False if it adds to it."""
        return len(self.centres) == 1


@frozen
class _Form:
    """Form of a node on the path in terms of the centres.

    ``kind``: ``total`` (an earlier sum), ``value`` (a centre), ``negative`` (its opposite), ``difference`` (of data and
    a centre), ``exponential``, or ``product``.
    """

    kind: str
    centres: tuple[Centre, ...]
    moves: tuple[tuple[str, ...], ...] = ((),)
    after: tuple[str, ...] = ()


def online_reductions(
    nodes: Sequence[Node], reduced: frozenset[int], count: Expr, *, levels: bool = False
) -> dict[str, Online]:
    """Return the reductions of a group that can run in the pass of the reductions they depend on.

    Args:
        nodes: legalised nodes of one group in execution order.
        reduced: ids of the axes that the group's reductions reduce.
        count: elements along all of these axes.
        levels: earlier passes may compute reductions that the data of a centre depend on, and a mean may be a product
            with ``1 / count``, since the code that joins the results counts the elements.
    """
    named = {n.name: n for n in nodes}
    found: dict[str, Online] = {}
    for n in nodes:
        if n.op == "ReduceSum" and n.y.dtype.kind == "f":
            one = _Recogniser(named, reduced, count, levels).online(n)
            if one is not None:
                found[n.name] = one
    return found


@dataclass
class _Recogniser:
    named: Mapping[str, Node]
    reduced: frozenset[int]
    count: Expr
    levels: bool
    early: set[str] = field(default_factory=set)
    path: set[str] = field(default_factory=set)
    #: Forms of nodes that depend on an earlier reduction; None where no law applies.
    forms: dict[str, _Form | None] = field(default_factory=dict)

    def online(self, n: Node) -> Online | None:
        """Return the rule by which ``n`` follows the reductions it needs; None if it needs none or no rule applies."""
        self._reach(n)
        if not self.early or not all(self._same_rows(n, self.named[e]) for e in self.early):
            return None
        form = self.forms[n.inputs[0]]
        if form is None or form.kind not in ("exponential", "product"):
            return None
        lost = form.kind == "exponential" and not form.centres[0].is_number
        hides = lost and not self._shows(n)
        powers = {
            x for x in self.path if (f := self.forms[x]) is not None and f.kind == "exponential"
        }
        path = frozenset(self.path)
        return Online(form.centres, form.moves, form.after, path, frozenset(powers), hides)

    def _shows(self, n: Node) -> bool:
        """Return True if each use of the sum meets a difference or exponential, NaN in rows with no finite maximum."""
        users: dict[str, list[Node]] = {}
        for u in self.named.values():
            for x in dict.fromkeys(u.inputs):
                users.setdefault(x, []).append(u)
        todo, seen = [n.name], {n.name}
        while todo:
            name = todo.pop()
            for u in users.get(name, ()):
                others = [f for x in u.inputs if x != name and (f := self.forms.get(x)) is not None]
                if u.op in _ARITHMETIC and any(f.kind in _LOST for f in others):
                    continue
                if u.op in REDUCES or lookup(u.op).compute_type not in ("elewise", "broadcast"):
                    return False
                if u.name not in seen:
                    seen.add(u.name)
                    todo.append(u.name)
        return len(users.get(n.name, ())) > 0

    def _reach(self, n: Node) -> None:
        """Finds the earlier reductions, the nodes in between and their forms."""
        seen = self._needed(n, through=())
        early = {name for name in seen if self.named[name].op in REDUCES}
        if self.levels:
            for name in tuple(early):
                early -= self._needed(self.named[name], through=REDUCES)
        for x in self.named.values():
            if x.name not in seen:
                continue
            if x.name in early:
                self.early.add(x.name)
                self.forms[x.name] = _first(x)
            elif any(map(self.depends, x.inputs)):
                self.path.add(x.name)
                law = _LAWS.get(x.op)
                self.forms[x.name] = None if law is None else law(self, x)

    def _needed(self, n: Node, through: Collection[str]) -> set[str]:
        """Return the operands of a node; none for reductions outside ``through``."""
        seen: set[str] = set()
        todo = [*n.inputs]
        while todo:
            name = todo.pop()
            if name not in seen and name in self.named:
                seen.add(name)
                if self.named[name].op not in REDUCES or self.named[name].op in through:
                    todo += self.named[name].inputs
        return seen

    def _same_rows(self, n: Node, earlier: Node) -> bool:
        """Return True if the earlier reduction has one result per result of ``n``, over all reduced axes."""
        source = self.named[earlier.inputs[0]]
        whole = self.reduced <= set(source.y.varies())
        return whole and n.y.axis == earlier.y.axis and n.y.repeats == earlier.y.repeats

    # operands ---------------------------------------------------------------------------------
    def depends(self, name: str) -> bool:
        """Return True if the node depends on an earlier reduction."""
        return name in self.path or name in self.early

    def forms_of(self, n: Node) -> list[_Form | None]:
        """Return the forms of the operands, None for independent ones; an empty list if an operand has no form."""
        out: list[_Form | None] = []
        for x in n.inputs:
            form = self.forms.get(x)
            if form is None and self.depends(x):
                return []
            out.append(form)
        return out

    def number(self, name: str) -> float | None:
        """Return the value of a constant node."""
        n = self.named[name]
        value = n.attrs.get("value")
        plain = n.op == "Scalar" and "expr" not in n.attrs
        return float(value) if plain and isinstance(value, int | float) else None

    def counts(self, name: str) -> bool:
        """Return True if a node holds the number of elements along the reduced axes."""
        n = self.named[name]
        if n.op == "Duplicate":
            return self.counts(n.inputs[0])
        if n.op != "Scalar":
            return False
        if "expr" in n.attrs:
            return n.size("expr") == self.count
        return self.count.is_const and self.number(name) == float(self.count.value)

    def inverts(self, k: float) -> bool:
        """Return True if a factor is 1 / the number of elements along the reduced axes."""
        return self.levels and self.count.is_const and abs(k * self.count.value - 1) < 1e-6


def _first(n: Node) -> _Form | None:
    """Return the form of an earlier reduction."""
    if n.y.dtype.kind != "f":
        return None
    if n.op == "ReduceMax":
        return _Form("value", (Centre(n.name, n.name),))
    return _Form("total", (Centre(n.name, ""),)) if n.op == "ReduceSum" else None


#: Calls that propagate NaN from any operand, and forms that are NaN where a maximum is infinite or NaN.
_ARITHMETIC = frozenset({"Add", "Adds", "Sub", "Mul", "Muls", "Div", "Neg", "Square"})
_LOST = ("difference", "exponential")


# laws -----------------------------------------------------------------------------------------
_Law = Callable[[_Recogniser, Node], "_Form | None"]


def _spread(r: _Recogniser, n: Node) -> _Form | None:
    """Return the operand's form if it is a centre or its negative: a Broadcast only repeats these."""
    form = r.forms[n.inputs[0]]
    return form if form is not None and form.kind in ("value", "negative") else None


def _with_number(r: _Recogniser, n: Node) -> tuple[_Form, float] | None:
    """Return the form of one of two operands, and the value of the other, a constant."""
    for x, other in (n.inputs, n.inputs[::-1]):
        form, k = r.forms.get(x), r.number(other)
        if form is not None and k is not None:
            return form, k
    return None


def _floored(r: _Recogniser, n: Node) -> _Form | None:
    """Maximum of a maximum and a number: it moves as a maximum does, and no element exceeds it."""
    found = _with_number(r, n)
    if found is None or found[0].kind != "value" or not math.isfinite(found[1]):
        return None
    (c,) = found[0].centres
    return None if c.is_mean else replace(found[0], centres=(Centre(c.reduction, n.name),))


def _difference(r: _Recogniser, data: str, centre: _Form) -> _Form | None:
    """``data - centre``, where the centre is the maximum or mean of the data."""
    (c,) = centre.centres
    same = r.named[c.reduction].inputs[0] == data
    return _Form("difference", (c,)) if same else None


def _sub(r: _Recogniser, n: Node) -> _Form | None:
    forms = r.forms_of(n)
    if len(forms) != 2 or forms[0] is not None or forms[1] is None or forms[1].kind != "value":
        return None
    return _difference(r, n.inputs[0], forms[1])


def _add(r: _Recogniser, n: Node) -> _Form | None:
    """A sum with the negative of a centre is a difference."""
    forms = r.forms_of(n)
    if len(forms) != 2:
        return None
    for x, form, other in zip(n.inputs, forms, reversed(forms), strict=True):
        if form is None and other is not None and other.kind == "negative":
            return _difference(r, x, other)
    return None


def _through(form: _Form, n: Node) -> _Form:
    """Apply ``n`` to the moves of the centres as to its operand."""
    if form.kind == "product":
        return replace(form, after=(*form.after, n.name))
    return replace(form, moves=tuple((*m, n.name) for m in form.moves))


def _neg(r: _Recogniser, n: Node) -> _Form | None:
    form = r.forms[n.inputs[0]]
    return _times(r, n, form, -1) if form is not None else None


def _times(r: _Recogniser, n: Node, form: _Form, k: float) -> _Form | None:
    """A product with a constant."""
    if form.kind == "value" and k == -1:
        return replace(form, kind="negative")
    if form.kind == "total" and r.inverts(k):
        (c,) = form.centres
        return _Form("value", (Centre(c.reduction, n.name, n.inputs[1]),))
    if form.kind == "exponential":
        return form
    if form.kind == "product" or (form.kind == "difference" and k > 0):
        return _through(form, n)
    return None


def _cast(r: _Recogniser, n: Node) -> _Form | None:
    """A cast to a wider type."""
    form, source = r.forms[n.inputs[0]], r.named[n.inputs[0]].y.dtype
    if form is None or n.y.dtype.kind != "f" or n.y.dtype.bits < source.bits:
        return None
    return _through(form, n) if form.kind in ("difference", "exponential", "product") else None


def _exp(r: _Recogniser, n: Node) -> _Form | None:
    form = r.forms[n.inputs[0]]
    if form is None or form.kind != "difference" or form.centres[0].is_mean:
        return None
    return _through(replace(form, kind="exponential"), n)


def _mul(r: _Recogniser, n: Node) -> _Form | None:
    forms = r.forms_of(n)
    if len(forms) != 2:
        return None
    found = _with_number(r, n)
    if found is not None:
        return _times(r, n, *found)
    a, b = forms
    if a is None or b is None:
        form = a or b
        return form if form is not None and form.kind == "exponential" else None
    return _product(a, b)


def _square(r: _Recogniser, n: Node) -> _Form | None:
    form = r.forms[n.inputs[0]]
    return _product(form, form) if form is not None else None


def _product(a: _Form, b: _Form) -> _Form | None:
    means = all(f.kind == "difference" and f.centres[0].is_mean for f in (a, b))
    return _Form("product", a.centres + b.centres, a.moves + b.moves) if means else None


def _div(r: _Recogniser, n: Node) -> _Form | None:
    forms = r.forms_of(n)
    if len(forms) != 2 or forms[0] is None or forms[1] is not None:
        return None
    form = forms[0]
    if form.kind == "total" and r.counts(n.inputs[1]):
        (c,) = form.centres
        return _Form("value", (Centre(c.reduction, n.name, n.inputs[1]),))
    k = r.number(n.inputs[1])
    if form.kind == "difference" and k is not None and 0 < k < math.inf:
        return _through(form, n)
    return form if form.kind == "exponential" else None


#: Effect of the ops between two reductions on a centre and on centred data.
_LAWS: Mapping[str, _Law] = {
    "Broadcast": _spread,
    "Duplicate": _spread,
    "Sub": _sub,
    "Add": _add,
    "Adds": _add,
    "Maxs": _floored,
    "Maximum": _floored,
    "Neg": _neg,
    "Cast": _cast,
    "Exp": _exp,
    "Exp2": _exp,
    "Mul": _mul,
    "Muls": _mul,
    "Square": _square,
    "Div": _div,
}
