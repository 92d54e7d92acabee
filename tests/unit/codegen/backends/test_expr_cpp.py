"""Expressions in C++ have the value that they have in Python."""

import random
import subprocess
from pathlib import Path

import pytest

from autofuse.codegen.backends.ascendc.expr_cpp import check_identifier, int_literal, to_cpp
from autofuse.implgraph.expr.expression import (
    CeilDiv,
    Expr,
    ExprError,
    FloorDiv,
    Max,
    Min,
    Mod,
    Ratio,
    const,
    sym,
)

A, B, C = sym("a"), sym("b"), sym("c")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (0, "0"),
        (const(-3), "-3"),
        (A, "a"),
        (A * A * 3, "3 * a * a"),
        (-A, "-a"),
        (A - 1, "a - 1"),
        (A - B * 2, "a - 2 * b"),
        (CeilDiv(A + 1, B), "autofuse::CeilDiv(1 + a, b)"),
        (FloorDiv(A, 3) * 3, "3 * autofuse::FloorDiv(a, 3)"),
        (Mod(A, B), "autofuse::Mod(a, b)"),
        (Min(A, B, 7), "autofuse::Min(7, autofuse::Min(a, b))"),
        (Max(A, 1), "autofuse::Max(1, a)"),
        (const(2**31 - 1), "2147483647"),
        (const(2**31), "INT64_C(2147483648)"),
        (A * 2**40, "INT64_C(1099511627776) * a"),
        (const(-(2**63)), "INT64_MIN"),
    ],
)
def test_text(expr: Expr | int, text: str) -> None:
    assert to_cpp(expr) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (A, "a"),
        (const(5), "5"),
        (const(-5), "(-5)"),
        (A * B, "(a * b)"),
        (A + B, "(a + b)"),
        (CeilDiv(A + 1, B * 2), "autofuse::CeilDiv(1 + a, 2 * b)"),
        (2 * CeilDiv(A, B), "(2 * autofuse::CeilDiv(a, b))"),
        (Min(A * B, 2), "autofuse::Min(2, a * b)"),
    ],
)
def test_atomic_text_can_stand_next_to_an_operator(expr: Expr, text: str) -> None:
    assert to_cpp(expr, atomic=True) == text


def test_names() -> None:
    assert (
        to_cpp(CeilDiv(A, B) + C, {"a": "t.a", "c": "p->c"}) == "p->c + autofuse::CeilDiv(t.a, b)"
    )


@pytest.mark.parametrize("place", ["t.", "a b", "a;", "1a", "", "f()"])
def test_a_name_that_is_no_name_is_refused(place: str) -> None:
    with pytest.raises(ExprError):
        to_cpp(A, {"a": place})


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_numbers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(ExprError):
        int_literal(value)


def test_ratio_has_no_place_in_cpp() -> None:
    with pytest.raises(ExprError, match="generated code"):
        to_cpp(Ratio(A, B))


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "int", "class", "a\n", "é"])
def test_illegal_identifiers(name: str) -> None:
    with pytest.raises(ExprError):
        check_identifier(name)


def _random_expr(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([A, B, C, const(rng.randint(-9, 99)), const(rng.randint(0, 1 << 33))])
    x, y = _random_expr(rng, depth - 1), _random_expr(rng, depth - 1)
    kind = rng.randrange(8)
    if kind >= 5 and y == 0:
        y = const(7)
    return (
        x + y if kind == 0 else
        x - y if kind == 1 else
        x * rng.randint(-3, 3) * rng.choice([A, B]) if kind == 2 else
        Min(x, y, C) if kind == 3 else
        Max(x, y) if kind == 4 else
        CeilDiv(x, y) if kind == 5 else
        FloorDiv(x, y) if kind == 6 else
        Mod(x, y)
    )  # fmt: skip


@pytest.mark.twin
def test_cpp_and_python_agree(tmp_path: Path, repo: Path) -> None:
    """Random expressions at random points, negative values too, in one program."""
    rng = random.Random(7)
    lines: list[str] = []
    while len(lines) < 1500:
        expr = _random_expr(rng, 4)
        env = {n: rng.choice([rng.randint(0, 9), rng.randint(0, 1 << 12)]) for n in "abc"}
        try:
            want = expr.evaluate(env)
        except ExprError:
            continue
        if abs(want) >= 1 << 60 or not _stays_small(expr, env):
            continue
        values = ", ".join(f"INT64_C({env[n]})" for n in "abc")
        lines.append(
            f"  check({len(lines)}, [](I a, I b, I c) {{ (void)a; (void)b; (void)c; "
            f"return I({to_cpp(expr)}); }}({values}), {int_literal(want)});"
        )
    program = "\n".join(
        [
            '#include <cstdio>\n#include "autofuse_math.h"\nusing I = int64_t;\nint bad = 0;',
            "void check(int i, I have, I want) {",
            '  if (have != want && ++bad) std::printf("%d: %ld != %ld\\n", i, have, want);\n}',
            "int main() {",
            *lines,
            "  return bad != 0;\n}\n",
        ]
    )
    source = tmp_path / "exprs.cpp"
    source.write_text(program)
    binary = tmp_path / "exprs"
    flags = ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"]
    command = [
        "g++",
        *flags,
        "-fno-sanitize-recover=all",
        f"-I{repo / 'host_templates' / 'headers'}",
    ]
    subprocess.run([*command, str(source), "-o", str(binary)], check=True, timeout=300)
    done = subprocess.run([str(binary)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[:2000] + done.stderr[:2000]


def _stays_small(expr: Expr, env: dict[str, int]) -> bool:
    """No part of the expression leaves 64 bits: what C++ would compute on the way."""
    total = 0
    for monomial, c in expr.terms:
        size = abs(c)
        for atom, power in monomial:
            value = Expr(((((atom, 1),), 1),)).evaluate(env)
            size *= abs(value) ** power if value else 1
            for arg in getattr(atom, "args", ()):
                if not _stays_small(arg, env):
                    return False
        total += size
    return total < 1 << 62
