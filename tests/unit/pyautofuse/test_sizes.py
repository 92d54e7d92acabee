"""SizeExpr computes as Python's integers do."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.cann.pyautofuse import ascir

NAMES = ("ks0", "ks1")
leaves = st.one_of(st.sampled_from(NAMES), st.integers(1, 9).map(str))
signs = st.sampled_from(["+", "-", "*", "/", "//", "%"])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    parts=st.lists(st.tuples(signs, leaves), min_size=1, max_size=4),
    first=st.sampled_from(NAMES),
    values=st.tuples(st.integers(1, 50), st.integers(1, 50)),
)
def test_arithmetic(parts: list[tuple[str, str]], first: str, values: tuple[int, int]) -> None:
    text = first
    for sign, leaf in parts:
        text = f"({text} {sign} {leaf})" if len(leaf) > 1 else f"({leaf} {sign} {text})"
    known = dict(zip(NAMES, values, strict=True))
    try:
        want = eval(text.replace(" / ", " // "), known.copy())
    except ZeroDivisionError:
        return
    g = ascir.HintGraph("g")
    got = eval(text, {n: g.create_size(n) for n in NAMES})
    assert got.value.evaluate(known) == want


def test_powers_and_functions() -> None:
    g = ascir.HintGraph("g")
    s = g.create_size("s0")
    env = {"s0": 7}
    assert (s**3).value.evaluate(env) == 343
    assert (s**0).value.as_int() == 1
    assert (-s + 10).value.evaluate(env) == 3
    assert ascir.Max(s, 9).value.evaluate(env) == 9
    assert ascir.Min(s, 9).value.evaluate(env) == 7
    assert ascir.Mod(s, 4).value.evaluate(env) == 3
    assert (20 % s).value.evaluate(env) == 6
    assert ascir.SizeExpr(8).expression == "8"
    assert s * 2 == 2 * s
    assert ascir.SizeExpr(8) == 8
    assert len({s * 2, 2 * s, s}) == 2


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda s: s ** (-1), "AF1108"),
        (lambda s: s**100, "AF1108"),
        (lambda s: s / 0, "AF1108"),
        (lambda s: s % 0, "AF1108"),
        (lambda s: s + 0.5, "AF1103"),
        (lambda s: ascir.SizeExpr("s1"), "AF1103"),
        (lambda s: ascir.SizeExpr(True), "AF1103"),
    ],
)
def test_what_is_no_size(make: object, code: str) -> None:
    g = ascir.HintGraph("g")
    with pytest.raises(AutofuseError, match=code):
        make(g.create_size("s0"))  # type: ignore[operator]


def test_axes() -> None:
    g = ascir.HintGraph("g")
    s = g.create_size("s0")
    a, b = g.create_axis("a0", s * 4), g.create_axis("a1", 64)
    assert (a.id, a.name, a.size.expression, a.type) == (0, "a0", "(4 * s0)", "original")
    assert (b.id, b.size) == (1, 64)
    with pytest.raises(AutofuseError, match="AF1106"):
        g.create_size("s0")
    with pytest.raises(AutofuseError, match="AF1105"):
        g.create_size("s 0")
    with pytest.raises(AutofuseError, match="AF1103"):
        g.create_axis("a2", "s0")
