"""Terms that expressions have in common get names, and mean the same by them."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from autofuse.codegen.backends.ascendc.host.shared_terms import shared_terms
from autofuse.implgraph.expr.expression import CeilDiv, Expr, FloorDiv, Max, Min, const, sym

N, M = sym("n"), sym("m")


def expressions() -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from([N, M, const(3), const(8)])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a + b, inner, inner),
            st.builds(lambda a, b: a * b, inner, inner),
            st.builds(lambda a, b: a - b * 2, inner, inner),
            st.builds(lambda a: CeilDiv(a, 7), inner),
            st.builds(lambda a, b: FloorDiv(a, Max(b, 1)), inner, inner),
            st.builds(Min, inner, inner),
        ),
        max_leaves=8,
    )


@given(st.lists(expressions(), min_size=1, max_size=4), st.integers(0, 99), st.integers(1, 99))
def test_values_are_the_same(exprs: list[Expr], n: int, m: int) -> None:
    found = shared_terms(exprs, ["v0"])
    env = {"n": n, "m": m}
    for name, value in found.values.items():
        env[name] = value.evaluate(env)  # only names before it
    assert [found.within(e).evaluate(env) for e in exprs] == [
        e.evaluate({"n": n, "m": m}) for e in exprs
    ]


def test_what_occurs_twice_is_computed_once_the_innermost_first() -> None:
    inner = CeilDiv(N, 64)
    outer = Min(8, Max(2, inner))
    found = shared_terms([inner * 3, outer + inner, outer * M], ["v0", "n", "m"])
    assert list(found.values) == ["v1", "v2"]
    assert found.values["v1"] == inner
    assert found.values["v2"] == Min(8, Max(2, sym("v1")))
    assert found.within(outer + inner) == sym("v2") + sym("v1")


def test_what_occurs_once_stays() -> None:
    e = CeilDiv(N, 64) + M
    found = shared_terms([e, N * 2], [])
    assert not found.values
    assert found.within(e) == e
