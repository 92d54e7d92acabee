"""Reductions that need an earlier one over the same rows, and can do with what that has come to so far.

The sum of squares about a mean, or of exponentials below a maximum, seems to need two passes over a row: one for the
mean or the maximum, its *centre*, and one for the sum.  But when the centre moves from ``c`` to ``d``, the sum so far
can be carried along instead of being made anew:

* A sum of exponentials is multiplied: ``exp(k*(x - d)) = exp(k*(x - c)) * exp(k*(c - d))``.  The centre is the maximum
  of the same ``x`` and ``k > 0``, so that no power is above 1.  Factors that do not depend on the centre may be beside.
* A sum of products about means is added to: ``sum (x - d)(y - f) = sum (x - c)(y - e) + n (c - d)(e - f)``, for
  ``sum (x - c)`` and ``sum (y - e)`` are 0 where ``c`` and ``e`` are the means of the ``n`` elements so far.

So one pass keeps both, correcting the sum whenever the centre has moved, and cores that have a part of a row each join
what they have by the same rules (:mod:`autofuse.implgraph.division.online_parts`).  The first rule is that of Milakov
and Gimelshein (2018), the second one that of Chan, Golub and LeVeque (1983).  What is recognised is a chain of ops, by
the laws that they obey (:data:`_LAWS`); a reduction that depends on an earlier one in any other way waits for its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import Node
from autofuse.implgraph.ops.registry import lookup
from autofuse.implgraph.ops.rows.reductions import REDUCES

__all__ = ["LOWEST", "Centre", "Online", "online_reductions"]

#: The number below all others: a centre before the first element, and where there are none but -inf.
LOWEST = {"float32": -float.fromhex("0x1.fffffep127"), "float16": -65504.0}


@dataclass(frozen=True, slots=True)
class Centre:
    """What a reduction is centred on.

    Attributes:
        reduction: the earlier reduction.
        value: the node whose result is subtracted: the reduction itself, the mean that is made of it, or what keeps
            a maximum from being less than a number.
        count: operand of ``value`` that holds the number of elements; empty for a maximum.
    """

    reduction: str
    value: str
    count: str = ""

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean, rather than a maximum."""
        return bool(self.count)

    @property
    def is_number(self) -> bool:
        """Whether a row without anything but -inf has a number as its centre as well."""
        return not self.is_mean and self.value != self.reduction


@dataclass(frozen=True, slots=True)
class Online:
    """How a reduction follows its centres.

    Attributes:
        centres: one, of exponentials; two, perhaps the same, of products.
        moves: for each centre the nodes through which its move goes, in order: those that its difference goes through.
        after: nodes through which a product of moves goes as well.
        path: all nodes between the earlier reductions and this one.
        hides: a row whose maximum is no number, for which the sum has to be NaN, may not show it unless the sum does.
    """

    centres: tuple[Centre, ...]
    moves: tuple[tuple[str, ...], ...]
    after: tuple[str, ...]
    path: frozenset[str]
    hides: bool = False

    @property
    def scales(self) -> bool:
        """Whether the sum so far is multiplied, rather than added to."""
        return len(self.centres) == 1


@frozen
class _Form:
    """What a node on the path is, in terms of the centres.

    ``kind``: ``total`` (an earlier sum), ``value`` (a centre), ``negative`` (its opposite), ``difference`` (of data and
    a centre), ``exponential``, or ``product``.
    """

    kind: str
    centres: tuple[Centre, ...]
    moves: tuple[tuple[str, ...], ...] = ((),)
    after: tuple[str, ...] = ()


def online_reductions(
    nodes: Sequence[Node], reduced: frozenset[int], count: Expr
) -> dict[str, Online]:
    """The reductions of a group that can be made in the pass of the reductions they need.

    Args:
        nodes: legal nodes of one group in execution order.
        reduced: ids of the axes that its reductions reduce.
        count: elements along all of these axes.
    """
    named = {n.name: n for n in nodes}
    found: dict[str, Online] = {}
    for n in nodes:
        if n.op == "ReduceSum" and n.y.dtype.kind == "f":
            one = _Recogniser(named, reduced, count).online(n)
            if one is not None:
                found[n.name] = one
    return found


@dataclass
class _Recogniser:
    named: Mapping[str, Node]
    reduced: frozenset[int]
    count: Expr
    early: set[str] = field(default_factory=set)
    path: set[str] = field(default_factory=set)
    #: Forms of the nodes that depend on an earlier reduction; None for one that no law covers.
    forms: dict[str, _Form | None] = field(default_factory=dict)

    def online(self, n: Node) -> Online | None:
        """How ``n`` follows the reductions it needs; None if it needs none, or no rule covers the way."""
        self._reach(n)
        if not self.early or not all(self._same_rows(n, self.named[e]) for e in self.early):
            return None
        form = self.forms[n.inputs[0]]
        if form is None or form.kind not in ("exponential", "product"):
            return None
        lost = form.kind == "exponential" and not form.centres[0].is_number
        hides = lost and not self._shows(n)
        return Online(form.centres, form.moves, form.after, frozenset(self.path), hides)

    def _shows(self, n: Node) -> bool:
        """Whether all that is made of the sum meets a difference from the centre, or its power: NaN in such rows."""
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
        """Finds the earlier reductions and the nodes in between, and their forms."""
        seen: set[str] = set()
        todo = [*n.inputs]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                if self.named[name].op not in REDUCES:
                    todo += self.named[name].inputs
        for x in self.named.values():
            if x.name not in seen:
                continue
            if x.op in REDUCES:
                self.early.add(x.name)
                self.forms[x.name] = _first(x)
            elif any(map(self.depends, x.inputs)):
                self.path.add(x.name)
                law = _LAWS.get(x.op)
                self.forms[x.name] = None if law is None else law(self, x)

    def _same_rows(self, n: Node, earlier: Node) -> bool:
        """The earlier reduction has a result for every result of ``n``, from all elements along the reduced axes."""
        source = self.named[earlier.inputs[0]]
        whole = self.reduced <= set(source.y.varies())
        return whole and n.y.axis == earlier.y.axis and n.y.repeats == earlier.y.repeats

    # operands ---------------------------------------------------------------------------------
    def depends(self, name: str) -> bool:
        """Whether the node depends on an earlier reduction."""
        return name in self.path or name in self.early

    def forms_of(self, n: Node) -> list[_Form | None]:
        """Forms of the operands, None for one that is independent; an empty list if one of them has none."""
        out: list[_Form | None] = []
        for x in n.inputs:
            form = self.forms.get(x)
            if form is None and self.depends(x):
                return []
            out.append(form)
        return out

    def number(self, name: str) -> float | None:
        """The constant that a node is."""
        n = self.named[name]
        value = n.attrs.get("value")
        plain = n.op == "Scalar" and "expr" not in n.attrs
        return float(value) if plain and isinstance(value, int | float) else None

    def counts(self, name: str) -> bool:
        """Whether a node is the number of elements along the reduced axes."""
        n = self.named[name]
        if n.op == "Duplicate":
            return self.counts(n.inputs[0])
        if n.op != "Scalar":
            return False
        if "expr" in n.attrs:
            return n.size("expr") == self.count
        return self.count.is_const and self.number(name) == float(self.count.value)


def _first(n: Node) -> _Form | None:
    """The form of an earlier reduction."""
    if n.y.dtype.kind != "f":
        return None
    if n.op == "ReduceMax":
        return _Form("value", (Centre(n.name, n.name),))
    return _Form("total", (Centre(n.name, ""),)) if n.op == "ReduceSum" else None


#: Calls of which a NaN in one operand makes NaN, and forms that are NaN where a maximum is infinite or NaN.
_ARITHMETIC = frozenset({"Add", "Adds", "Sub", "Mul", "Muls", "Div"})
_LOST = ("difference", "exponential")


# laws -----------------------------------------------------------------------------------------
_Law = Callable[[_Recogniser, Node], "_Form | None"]


def _spread(r: _Recogniser, n: Node) -> _Form | None:
    """The same numbers, more of them."""
    form = r.forms[n.inputs[0]]
    return form if form is not None and form.kind in ("value", "negative") else None


def _floored(r: _Recogniser, n: Node) -> _Form | None:
    """A maximum, or a number where that is more: it moves as a maximum does, and no element is above it."""
    form, k = r.forms.get(n.inputs[0]), r.number(n.inputs[1])
    if form is None or form.kind != "value" or k is None or not math.isfinite(k):
        return None
    (c,) = form.centres
    return None if c.is_mean else replace(form, centres=(Centre(c.reduction, n.name),))


def _difference(r: _Recogniser, data: str, centre: _Form) -> _Form | None:
    """``data - centre``: of the data that the centre is the maximum or the mean of."""
    (c,) = centre.centres
    same = r.named[c.reduction].inputs[0] == data
    return _Form("difference", (c,)) if same else None


def _sub(r: _Recogniser, n: Node) -> _Form | None:
    forms = r.forms_of(n)
    if len(forms) != 2 or forms[0] is not None or forms[1] is None or forms[1].kind != "value":
        return None
    return _difference(r, n.inputs[0], forms[1])


def _add(r: _Recogniser, n: Node) -> _Form | None:
    """A sum with the opposite of a centre is a difference."""
    forms = r.forms_of(n)
    if len(forms) != 2:
        return None
    for x, form, other in zip(n.inputs, forms, reversed(forms), strict=True):
        if form is None and other is not None and other.kind == "negative":
            return _difference(r, x, other)
    return None


def _through(form: _Form, n: Node) -> _Form:
    """The moves of the centres go through ``n`` like what it is applied to."""
    if form.kind == "product":
        return replace(form, after=(*form.after, n.name))
    return replace(form, moves=tuple((*m, n.name) for m in form.moves))


def _times(r: _Recogniser, n: Node) -> _Form | None:
    """A multiple by a constant."""
    form, k = r.forms.get(n.inputs[0]), r.number(n.inputs[1])
    if form is None or k is None or r.depends(n.inputs[1]):
        return None
    if form.kind == "value" and k == -1:
        return replace(form, kind="negative")
    if form.kind == "exponential":
        return form
    if form.kind == "product" or (form.kind == "difference" and k > 0):
        return _through(form, n)
    return None


def _cast(r: _Recogniser, n: Node) -> _Form | None:
    """Into a wider type."""
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
    a, b = forms
    if a is None or b is None:
        form = a or b
        return form if form is not None and form.kind == "exponential" else None
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
    return form if form.kind == "exponential" else None


#: What ops on the way from one reduction to another do to a centre, and to what was centred.
_LAWS: Mapping[str, _Law] = {
    "Broadcast": _spread,
    "Duplicate": _spread,
    "Sub": _sub,
    "Add": _add,
    "Adds": _add,
    "Maxs": _floored,
    "Muls": _times,
    "Cast": _cast,
    "Exp": _exp,
    "Mul": _mul,
    "Div": _div,
}
