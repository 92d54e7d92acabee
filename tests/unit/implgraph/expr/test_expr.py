import random

import pytest

from autofuse.implgraph.expr.bounds import bounds, settled
from autofuse.implgraph.expr.expression import (
    ONE,
    ZERO,
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
from autofuse.implgraph.expr.parser import MAX_PARSE_DEPTH, MAX_PARSE_LENGTH, parse

A, B, C = sym("a"), sym("b"), sym("c")


def test_sums_and_products_have_one_form():
    assert A + B == B + A
    assert (A + B) * (A + B) == A * A + 2 * A * B + B * B
    assert A - A == ZERO == 0
    assert (A + 1) * 0 == 0
    assert str(A * 3 + 2) == "(2 + (3 * a))"
    assert product([A, 2, B]) == 2 * A * B
    assert product([]) == 1


def test_constants_are_equal_to_ints_and_hash_like_them():
    for n in (0, 1, -7, 1 << 40):
        assert const(n) == n
        assert n in {const(n)}
    assert const(3) != A
    assert ONE != "1"


def test_an_expression_has_no_truth_value():
    with pytest.raises(TypeError):
        bool(A)


def test_value_of_a_symbol_is_an_error():
    assert const(5).value == 5
    assert A.as_int() is None
    with pytest.raises(ExprError, match="not a constant"):
        _ = A.value


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (A * B * 6, A * 2, B * 3),
        (A * A, A, A),
        (A * 3, const(2), None),
        (A + B, A, None),
        (A, A + B, None),
        (A * B + B, A + 1, B),
        (A * A - B * B, A + B, A - B),
        (A + B, A + B, const(1)),
        # A quotient with fractions is not an integer polynomial.
        (A + B, A * 2 + B * 2, None),
        (A * 3 + B * 3, A * 2 + B * 2, None),
        (A * 4 + B * 4, A * 2 + B * 2, const(2)),
        (ZERO, A, ZERO),
        (A, ZERO, None),
    ],
)
def test_exact_division(a: Expr, b: Expr, want: Expr | None):
    assert divide_exact(a, b) == want


def test_divisions_fold_where_they_are_exact():
    assert CeilDiv(A * 8, 4) == A * 2
    assert FloorDiv(A * B, B) == A
    assert Mod(A * 8, 4) == 0
    assert CeilDiv(7, 2) == 4
    assert FloorDiv(-7, 2) == -4
    assert CeilDiv(-7, 2) == -3
    assert Mod(-7, 4) == 1
    assert Ratio(12, 4) == 3
    assert align_up(33, 32) == 64
    assert align_up(A * 32, 32) == A * 32


@pytest.mark.parametrize("fn", [CeilDiv, FloorDiv, Mod, Ratio])
def test_division_by_zero_is_an_error(fn):
    with pytest.raises(ExprError, match="division by zero"):
        fn(A, 0)
    with pytest.raises(ExprError, match="division by zero"):
        fn(A, B).evaluate({"a": 1, "b": 0})


def test_min_and_max_are_flat_and_fold_numbers():
    assert Min(A, Min(B, 3), 5) == Min(3, A, B)
    assert Max(A, A) == A
    assert Max(1, 2) == 2
    assert str(Min(B, A, 7)) == "Min(7, a, b)"
    with pytest.raises(ExprError):
        Min()


def test_evaluation():
    assert (A * A + CeilDiv(B, A)).evaluate({"a": 3, "b": 7}) == 12
    assert Ratio(A, 4).evaluate({"a": 8}) == 2
    with pytest.raises(ExprError, match="not an integer"):
        Ratio(A, 4).evaluate({"a": 9})
    with pytest.raises(ExprError, match="no value"):
        A.evaluate()
    # No precision is lost above 2**53.
    assert (A * B + 1).evaluate({"a": (1 << 53) + 1, "b": 3}) == 3 * ((1 << 53) + 1) + 1


def test_substitution_folds_again():
    e = CeilDiv(A, B) + Min(A, C)
    assert e.substitute({"a": 10, "b": 4, "c": 20}) == 13
    assert e.substitute({"a": B * 2}) == 2 + Min(B * 2, C)
    assert e.substitute({}) is e


def test_symbols_are_found_inside_functions():
    assert (A + CeilDiv(B * 2, C)).symbols() == {"a", "b", "c"}
    assert const(4).symbols() == frozenset()


def test_bounds():
    r = {"a": (1, 10), "b": (2, 3)}
    assert bounds(A * B - 1, r) == (1, 29)
    assert bounds(CeilDiv(A, B), r) == (1, 5)
    assert bounds(Mod(A, B), r) == (0, 2)
    assert bounds(Min(A, B) - Max(A, B), r) == (-9, 1)
    with pytest.raises(ExprError, match="no range"):
        bounds(C, r)
    with pytest.raises(ExprError, match="may be zero"):
        bounds(CeilDiv(A, B - 2), r)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("s0*4", sym("s0") * 4),
        ("ceil(s0/2)", CeilDiv(sym("s0"), 2)),
        ("floor(a / b)", FloorDiv(A, B)),
        ("a // b", FloorDiv(A, B)),
        ("a % b", Mod(A, B)),
        ("-a - -3", 3 - A),
        ("2 * (a + b)", 2 * A + 2 * B),
        ("Ceiling((40000 / (t)))", CeilDiv(40000, sym("t"))),
        (
            "Ceiling((Ceiling((40000 / (t))) / (b)))",
            CeilDiv(CeilDiv(40000, sym("t")), B),
        ),
        ("min(a, 3, b)", Min(3, A, B)),
        ("ceildiv(a, 4) + floordiv(a, 4)", CeilDiv(A, 4) + FloorDiv(A, 4)),
        ("ceil(a)", A),
        (" a\t* b ", A * B),
        ("8 / 4", const(2)),
        ("9223372036854775807", const((1 << 63) - 1)),
    ],
)
def test_parse(text: str, want: Expr):
    assert parse(text) == want


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "ends too early", 0),
        ("a +", "ends too early", 3),
        ("a b", "unexpected 'b'", 2),
        ("a + $", "unexpected character '\\$'", 4),
        ("(a", r"expected '\)'", 2),
        ("a)", "unexpected", 1),
        ("3 + foo(a)", "unknown function 'foo'", 4),
        ("ceil(a, b)", "takes 1 argument", 0),
        ("mod(a)", "takes 2 argument", 0),
        ("a % 0", "division by zero", 4),
        ("1 + a / 0", "division by zero", 8),
        ("ceil(a/2 + b/2)", "takes one quotient", 0),
        ("9223372036854775808", "63 bits", 0),
        ("9" * 40, "63 bits", 0),
        ("a * ٣", "unexpected character", 4),
        ("1.5", "unexpected character", 1),
        ("__import__('os')", "unexpected character", 11),
    ],
)
def test_parse_errors_have_a_position(text: str, message: str, position: int):
    with pytest.raises(ExprError, match=message) as err:
        parse(text)
    assert err.value.position == position


def test_quotients_are_accepted_on_demand():
    with pytest.raises(ExprError, match="may not be an integer"):
        parse("a / 2")
    with pytest.raises(ExprError, match="may not be an integer"):
        parse("min(a / 2, b)")
    assert parse("a / 2", allow_ratio=True) == Ratio(A, 2)


def test_unknown_symbols():
    with pytest.raises(ExprError, match="unknown symbol 'z'") as err:
        parse("a + z", known={"a"}.__contains__)
    assert err.value.position == 4


@pytest.mark.parametrize(
    "text",
    [
        "()" * 1000,
        "(" * 1000,
        "-" * 1000 + "a",
        "ceil(" * 500 + "a" + ")" * 500,
        "(" * (MAX_PARSE_DEPTH + 1) + "a" + ")" * (MAX_PARSE_DEPTH + 1),
        "a+" * MAX_PARSE_LENGTH,
        " " * (MAX_PARSE_LENGTH + 1),
        "*".join(f"(x{i}+1)" for i in range(40)),
    ],
)
def test_limits(text: str):
    with pytest.raises(ExprError) as err:
        parse(text)
    assert err.value.position >= 0


def test_a_longer_limit_on_demand():
    text = " + ".join(["a"] * 2000)
    assert parse(text, max_length=1 << 16) == A * 2000


def test_deepest_expression():
    text = "(" * (MAX_PARSE_DEPTH - 1) + "a" + ")" * (MAX_PARSE_DEPTH - 1)
    assert parse(text) == A


@pytest.mark.parametrize(
    ("e", "simple"),
    [
        (Max(8192, 16384 * A), 16384 * A),
        (Max(1, A) + Min(A, 1), A + 1),
        (Max(2048, 2048 * A, 4096 * A), 4096 * A),
        (Max(256 * CeilDiv(A, 8), 288 * A), 288 * A),
        (Max(24 * A, 256 * CeilDiv(24 * A, 256)), 256 * CeilDiv(24 * A, 256)),
        (2 * Max(32, 32 * CeilDiv(A, 64)), 64 * CeilDiv(A, 64)),
        (CeilDiv(Max(1, A), 8), CeilDiv(A, 8)),
        (Max(9, Min(A, B)), const(9)),
        (FloorDiv(A, Max(1, B)), FloorDiv(A, Max(1, B))),
        (Max(2, A), Max(2, A)),
        (Max(A, 7 * B), Max(A, 7 * B)),
        (C * Min(1, CeilDiv(A, 1 << 40) - 1 + C), C * Min(1, CeilDiv(A, 1 << 40) - 1 + C)),
        (Max(CeilDiv(A, B), 1 - C), Max(CeilDiv(A, B), 1 - C)),
    ],
)
def test_operands_that_never_decide_are_left_out(e, simple):
    assert settled(e, {"a": (1, 1 << 40), "b": (0, 9), "c": (0, 1)}) == simple


@pytest.mark.parametrize("seed", range(200))
def test_what_is_left_out_changes_no_value(seed):
    draw = random.Random(seed)
    ranges = {n: (low := draw.randrange(-3, 4), low + draw.choice([0, 1, 40])) for n in "abc"}

    def drawn(depth):
        if depth == 0:
            return draw.choice([A, B, C, const(draw.randrange(-5, 70))])
        x, y = drawn(depth - 1), drawn(depth - 1)
        k = draw.choice([2, 3, 8, 64])
        made = draw.choice([Max, Max, Min, lambda x, y: x + y, lambda x, y: x * y - k])
        return draw.choice([made(x, y), CeilDiv(x, k) * draw.choice([k, 1, -k]), Max(x, y) * k])

    for _ in range(5):
        e = drawn(3)
        simple = settled(e, ranges)
        for _ in range(40):
            env = {n: draw.randint(*r) for n, r in ranges.items()}
            assert simple.evaluate(env) == e.evaluate(env), (str(e), str(simple), ranges)
