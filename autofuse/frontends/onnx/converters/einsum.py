"""Converter of Einsum for work of the vector unit: moves, products and sums, no matrices."""

from __future__ import annotations

import string
from collections.abc import Sequence

from autofuse.base.wording import counted
from autofuse.frontends.onnx.context import Node, Result, converter
from autofuse.frontends.onnx.converters.reductions import reduce
from autofuse.frontends.onnx.converters.refused import CUBE
from autofuse.frontends.onnx.values import Value
from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.dtypes import BY_NAME

__all__: list[str] = []

_DOTS = "..."


@converter("Einsum")
def _einsum(n: Node) -> Result:
    e, xs = n.e, n.all()
    terms, result = _labels(n, [len(x.shape) for x in xs])
    parts = [_without_repeats(n, x, t) for x, t in zip(xs, terms, strict=True)]
    every = list(dict.fromkeys([*result, *(a for _, labels in parts for a in labels)]))
    summed = [a for a in every if a not in result]
    # If one operand has all labels, no product is computed more often than it is read.
    if summed and not any(set(every) <= set(labels) for _, labels in parts):
        raise n.error("AF1201", CUBE)
    dtype = n.dtype()
    wide = BY_NAME["float32"] if summed and dtype.kind == "f" and dtype.bits == 16 else dtype
    made = [_in_order(n, e.cast(x, wide), labels, every) for x, labels in parts]
    product = made[0]
    for x in made[1:]:
        product = e.mul(product, x)
    axes = [every.index(a) for a in summed]
    return e.cast(reduce(e, "Sum", product, axes, keepdims=False), dtype)


def _labels(n: Node, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Return the axis labels of each operand and of the result; axes under dots get numbers, from the last one.

    Raises:
        AutofuseError: AF1205, the equation does not fit the operands.
    """
    equation = str(n.attrs["equation"]).replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        raise n.error(
            "AF1205",
            f"the equation has {counted(len(texts), 'term')} for {counted(len(ranks), 'operand')}",
        )
    terms = []
    for text, rank in zip(texts, ranks, strict=True):
        named = [c for c in text if c != "."]
        hidden = rank - len(named)
        if hidden < 0 or (hidden and _DOTS not in text):
            raise n.error("AF1205", f"the term {text!r} does not fit {counted(rank, 'dimension')}")
        terms.append(_term(n, text, hidden))
    used = [a for t in terms for a in t]
    most = max((len([a for a in t if a.isdigit()]) for t in terms), default=0)
    if not arrow:
        once = sorted(a for a in set(used) if not a.isdigit() and used.count(a) == 1)
        return terms, [*_hidden(most), *once]
    result = _term(n, right, most)
    strange = [a for a in result if not a.isdigit() and a not in used]
    if strange or len(set(result)) < len(result):
        raise n.error("AF1205", f"the result {right!r} has an unknown or repeated label")
    return terms, result


def _term(n: Node, text: str, hidden: int) -> list[str]:
    before, dots, after = text.partition(_DOTS)
    if any(c not in string.ascii_letters for c in before + after):
        raise n.error("AF1205", f"{text!r} is not a term of an equation")
    return [*before, *(_hidden(hidden) if dots else ()), *after]


def _hidden(count: int) -> list[str]:
    return [str(k) for k in range(count - 1, -1, -1)]


def _without_repeats(n: Node, x: Value, labels: Sequence[str]) -> tuple[Value, list[str]]:
    """Take the diagonal along axes with equal labels.

    Raises:
        AutofuseError: AF1204, axes with equal labels have different sizes, or sizes that are not fixed.
    """
    found = list(labels)
    while (twice := next((a for a in found if found.count(a) > 1), None)) is not None:
        i, k = [j for j, a in enumerate(found) if a == twice][:2]
        rest = [j for j in range(len(found)) if j not in (i, k)]
        size = n.size(x, i)
        if x.shape[k] != size:
            raise n.error("AF1204", f"{n.e.in_words(x.shape)} has no diagonal along {twice!r}")
        x = n.e.transpose(x, [*rest, i, k])
        sizes = x.shape[:-2]
        flat = n.e.reshape(x, (*sizes, const(size * size)))
        x = n.e.part(flat, len(rest), 0, size, size + 1)
        found = [*(found[j] for j in rest), twice]
    return x, found


def _in_order(n: Node, x: Value, labels: Sequence[str], every: Sequence[str]) -> Value:
    """Return the operand with its axes in the order of all labels, and 1 for missing ones."""
    here = [a for a in every if a in labels]
    x = n.e.transpose(x, [labels.index(a) for a in here])
    sizes = dict(zip(here, x.shape, strict=True))
    return n.e.reshape(x, tuple(sizes.get(a, const(1)) for a in every))
