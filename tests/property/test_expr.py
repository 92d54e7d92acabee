"""Expressions against Python integers."""

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import (
    CeilDiv,
    Expr,
    ExprError,
    FloorDiv,
    Max,
    Min,
    Mod,
    Ratio,
    align_up,
    const,
    divide_exact,
    product,
    sym,
)
from autofuse.implgraph.expr.parser import parse

NAMES = ("a", "b", "n", "z0z1t_size")
INTS = st.integers(-100, 1 << 40)
POSITIVE = st.integers(1, 1 << 20)
ENV = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(1, 1 << 16)))

#: A tree of Python values: an int, a name, or (op, left, right); divisors are positive.
LEAVES = INTS | st.sampled_from(NAMES)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(st.sampled_from(("+", "-", "*", "min", "max")), inner, inner)
        | st.tuples(
            st.sampled_from(("ceil", "floor", "mod")), inner, POSITIVE | st.sampled_from(NAMES)
        )
    ),
    max_leaves=8,
)
SYMBOLIC = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "min": Min,
    "max": Max,
    "ceil": CeilDiv,
    "floor": FloorDiv,
    "mod": Mod,
}
PLAIN = SYMBOLIC | {
    "min": min,
    "max": max,
    "ceil": lambda x, y: -(-x // y),
    "floor": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
}


def build(tree) -> Expr:
    if isinstance(tree, int):
        return const(tree)
    if isinstance(tree, str):
        return sym(tree)
    op, left, right = tree
    return SYMBOLIC[op](build(left), build(right))


def value(tree, env: dict[str, int]) -> int:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return env[tree]
    op, left, right = tree
    return PLAIN[op](value(left, env), value(right, env))


@given(TREES, ENV)
def test_the_canonical_form_keeps_the_value(tree, env):
    assert build(tree).evaluate(env) == value(tree, env)


@given(TREES)
def test_printed_form_is_read_back(tree):
    e = build(tree)
    try:
        again = parse(str(e), max_length=1 << 16)
    except ExprError as err:
        assert "63 bits" in str(err)  # products of large numbers # noqa: PT017
        return
    assert again == e
    assert str(again) == str(e)
    assert hash(again) == hash(e)


@given(TREES, ENV)
def test_substitution_of_numbers_is_evaluation(tree, env):
    e = build(tree)
    assert e.substitute(env) == e.evaluate(env)


@given(TREES, ENV, st.data())
def test_bounds_contain_the_value(tree, env, data):
    ranges = {
        k: (data.draw(st.integers(1, v)), data.draw(st.integers(v, 1 << 17)))
        for k, v in env.items()
    }
    e = build(tree)
    low, high = bounds(e, ranges)
    assert low <= e.evaluate(env) <= high


@given(TREES, TREES)
def test_addition_and_multiplication_commute(left, right):
    a, b = build(left), build(right)
    assert a + b == b + a
    assert a * b == b * a
    assert a - a == 0
    assert a + b - b == a


POLYNOMIALS = st.lists(
    st.tuples(st.integers(-9, 9), st.lists(st.sampled_from(NAMES[:3]), max_size=2)), max_size=3
).map(lambda terms: sum((const(c) * product(map(sym, m)) for c, m in terms), const(0)))


@settings(max_examples=60, deadline=None)  # the first division imports sympy
@given(POLYNOMIALS, POLYNOMIALS, st.integers(1, 6))
def test_a_product_is_divided_exactly(a, b, k):
    if b == 0:
        assert divide_exact(a, b) is None
        return
    assert divide_exact(a * b, b) == a
    q = divide_exact(a, b * k)
    assert q is None or q * b * k == a


@given(POLYNOMIALS, POLYNOMIALS, ENV)
def test_a_quotient_is_exact_or_kept(a, b, env):
    if b == 0 or b.evaluate(env) == 0:
        return
    q = Ratio(a, b)
    if a.evaluate(env) % b.evaluate(env) == 0:
        assert q.evaluate(env) * b.evaluate(env) == a.evaluate(env)
    assert parse(str(q), allow_ratio=True) == q


@given(st.integers(0, 1 << 40), POSITIVE)
def test_align_up(n, k):
    got = align_up(n, k)
    assert got.value % k == 0
    assert n <= got.value < n + k


@given(st.lists(st.integers(-50, 50), max_size=6))
def test_product(values):
    assert product(values) == prod(values)


@given(st.text("abz09 +-*/%(),_.\n", max_size=60))
def test_the_parser_gives_an_expression_or_a_position(text):
    try:
        parse(text)
    except ExprError as err:
        assert 0 <= err.position <= len(text)  # noqa: PT017


@pytest.mark.parametrize("tree", [("ceil", ("*", "a", "b"), "a"), ("mod", "a", "a")])
def test_examples_fold(tree):
    assert build(tree) in (sym("b"), 0)
