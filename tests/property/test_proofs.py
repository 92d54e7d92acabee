"""What the prover takes for granted, and what it proves of kernels, confirmed by an SMT solver.

Products of two unknowns are beyond a solver's guarantees, so divisors, tile lengths and graph sizes are small numbers
here; loop indices, cores and tail lengths stay unknowns, and are tied to each other by their definitions alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from extras import required

from autofuse import api
from autofuse.codegen.lower.kernel import lower_kernel
from autofuse.codegen.lower.names import parameter_names
from autofuse.codegen.passes import run_passes
from autofuse.codegen.proofs.facts import Q, R
from autofuse.codegen.proofs.model import Kernel
from autofuse.codegen.proofs.prover import Fact, Prover
from autofuse.codegen.verification import CHECKS
from autofuse.implgraph.expr.expression import (
    ONE,
    CeilDiv,
    Expr,
    FloorDiv,
    Func,
    Max,
    Min,
    Mod,
    Sym,
    align_up,
    const,
    sym,
)
from autofuse.targets import load_target

pytestmark = required("z3")

import z3

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    [*(ROOT / "examples").glob("*.json"), *(ROOT / "tests/snapshot/graphs").glob("*.json")]
)
NUMBERS = (1, 2, 3, 7, 8, 16, 31, 32, 64, 256)
TIMEOUT_MS = 10_000
X, Y = z3.Int("x"), z3.Int("y")


# translation ----------------------------------------------------------------------------------
def term(e: Expr, env: Mapping[str, int]) -> Any:
    """``e`` as a term over integers, symbols of ``env`` being numbers."""
    total: Any = z3.IntVal(0)
    for monomial, c in e.terms:
        value: Any = z3.IntVal(c)
        for a, p in monomial:
            for _ in range(p):
                value = value * atom(a, env)
        total = total + value
    return total


def atom(a: Sym | Func, env: Mapping[str, int]) -> Any:
    if isinstance(a, Sym):
        return z3.IntVal(env[a.name]) if a.name in env else z3.Int(a.name)
    args = [term(x, env) for x in a.args]
    if a.name in ("Min", "Max"):
        out = args[0]
        for x in args[1:]:
            out = z3.If((x < out) if a.name == "Min" else (x > out), x, out)
        return out
    n, d = args
    # Division of SMT rounds down for a positive divisor.
    return {"FloorDiv": n / d, "CeilDiv": -((-n) / d), "Mod": n % d}[a.name]


def holds(claim: Any, *given: Any) -> bool:
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.add(*given, z3.Not(claim))
    answer = solver.check()
    assert answer != z3.unknown, solver.reason_unknown()
    return bool(answer == z3.unsat)


def test_the_solver_refutes_what_is_wrong() -> None:
    assert holds(X >= 0, X >= 1)
    assert not holds(X >= 1, X >= 0)


# lemmas ---------------------------------------------------------------------------------------
x = sym("x")


@pytest.mark.parametrize("n", NUMBERS)
def test_bounds_of_quotients(n: int) -> None:
    up, down, rest = (term(f(x, n), {}) for f in (CeilDiv, FloorDiv, Mod))
    assert holds(z3.And(n * up >= X, n * up <= X + n - 1), X >= 0)
    assert holds(z3.And(n * down <= X, n * down >= X - n + 1), X >= 0)
    assert holds(z3.And(rest >= 0, rest <= n - 1, rest == X - n * down), X >= 0)
    assert holds(z3.And(n * up == X, n * down == X), X >= 0, X % n == 0)


@pytest.mark.parametrize("n", NUMBERS)
def test_quotients_grow_with_the_numerator(n: int) -> None:
    assert holds(z3.And(-((-X) / n) <= -((-Y) / n), X / n <= Y / n), X <= Y)


@pytest.mark.parametrize(("m", "k"), list(itertools.product((1, 2, 3, 8, 32), (1, 2, 4, 5, 8))))
def test_ceilings_of_related_divisors(m: int, k: int) -> None:
    fine, coarse = -((-X) / m), -((-X) / (k * m))
    assert holds(fine <= k * coarse, X >= 0)
    assert holds(-((-fine) / k) == coarse)
    assert holds((X / m) / k == X / (k * m))


@pytest.mark.parametrize(("m", "n"), [(8, 32), (8, 64), (3, 8), (32, 8), (1, 1)])
@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_ceilings_of_numerators_in_proportion(m: int, n: int, k: int) -> None:
    assert holds(-((-X) / m) <= k * -((-Y) / n), n * X <= k * m * Y)
    assert not holds(-((-X) / m) <= k * -((-Y) / n), n * X <= k * m * Y + n * m)


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("c", [-9, -2, 0, 1, 8, 31])
def test_what_a_divisor_divides_is_taken_out(n: int, c: int) -> None:
    assert holds(-((-(n * X + c)) / n) == X - (-c // n))
    assert holds((n * X + c) / n == X + c // n)


@pytest.mark.parametrize("g", [2, 3, 4, 8])
@pytest.mark.parametrize("n", [1, 3, 8, 64])
def test_fractions_may_be_shortened(g: int, n: int) -> None:
    assert holds(-((-(g * X)) / (g * n)) == -((-X) / n))
    assert holds((g * X) / (g * n) == X / n)


@pytest.mark.parametrize("b", [1, 2, 5, 16])
def test_cores_take_every_tile_once(b: int) -> None:
    c1, i1, c2, i2, tiles, cores, k = z3.Ints("c1 i1 c2 i2 tiles cores k")

    def runs(c: Any, i: Any) -> Any:
        left = tiles - c * b
        return z3.And(c >= 0, c < cores, i >= 0, i < z3.If(left < b, left, b))

    one = [runs(c1, i1), runs(c2, i2), c1 * b + i1 == c2 * b + i2]
    assert holds(z3.And(c1 == c2, i1 == i2), *one)
    assert holds(c1 * b + i1 < tiles, runs(c1, i1))
    assert holds(runs(k / b, k % b), k >= 0, k < tiles, cores * b >= tiles)


@pytest.mark.parametrize("t", [1, 2, 7, 64])
def test_tiles_of_an_axis_are_neighbours_and_not_empty(t: int) -> None:
    e, j, extent, a = z3.Ints("e j extent a")
    tail = z3.If(extent - j * t < t, extent - j * t, z3.IntVal(t))
    tiles = -((-extent) / t)
    here = [j >= 0, j < tiles, a == tail, extent >= 1]
    assert holds(z3.And(a >= 1, a <= t, j * t + a <= extent), *here)
    assert holds(z3.Or(a == t, j == tiles - 1), *here)
    assert holds(z3.Implies(j == tiles - 1, j * t + a == extent), *here)
    inside = z3.substitute(z3.And(j >= 0, j < tiles, e < j * t + tail), (j, e / t))
    assert holds(inside, e >= 0, e < extent)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 3), (5, 4), (7, 8)])
def test_digits_of_a_number_are_one_to_one(p: int, q: int) -> None:
    k, n = z3.Ints("k n")
    low, middle, high = k % q, (k / q) % p, (k / q) / p
    assert holds(high * p * q + middle * q + low == k, k >= 0)
    assert holds(z3.And(high >= 0, high < n), k >= 0, k < n * p * q)
    u, v, w = z3.Ints("u v w")
    digits = [u >= 0, v >= 0, v < p, w >= 0, w < q, k == u * p * q + v * q + w]
    assert holds(z3.And(high == u, middle == v, low == w), *digits)


# the prover -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (256 * CeilDiv(4 * sym("t"), 256), 4 * sym("a")),
        (align_up(sym("t"), 256), align_up(sym("a"), 64)),
        (100 * sym("t"), 99 * sym("a") + sym("t")),
        (align_up(12 * sym("t"), 256), align_up(12 * sym("a") - 8, 32)),
        (1024 * sym("t"), align_up(1024 * sym("a") - 4, 32)),
        (2 * CeilDiv(sym("t"), 8), CeilDiv(2 * sym("a") - 1, 8)),
        (const(4000), sym("j") * sym("t") + sym("a")),
        (Max(sym("t"), 64), Min(sym("a"), 64)),
    ],
)
def test_the_prover_proves_what_holds_and_not_more(a: Expr, b: Expr) -> None:
    extent = const(4000)
    facts = {
        "t": Fact(1, 4000, rank=10),
        "j": Fact(0, upper=((sym("t"), extent - 1),), rank=40),
        "a": Fact(1, upper=((ONE, sym("t")), (ONE, extent - sym("j") * sym("t"))), rank=50),
    }
    prover = Prover(facts)
    assert prover.nonneg(a - b)
    assert not prover.nonneg(b - a - 1)
    worst = min(
        (a - b).evaluate({"t": t, "j": j, "a": n})
        for t in (1, 2, 63, 64, 65, 1000, 4000)
        for j in {0, 1, (4000 - 1) // t}
        if 4000 - j * t >= 1
        for n in {1, min(t, 4000 - j * t)}
    )
    assert worst >= 0
    assert not prover.nonneg(a - b - worst - 1)


# kernels --------------------------------------------------------------------------------------
def kernels(path: Path) -> Iterator[Kernel]:
    built = api.build(path)
    tensors = parameter_names(built.graph)
    target = load_target("ascend910b1")
    for impl in (i for r in built.schedule for g in r.groups for i in g.impls):
        yield Kernel(run_passes(lower_kernel(impl, tensors, target)), impl, built.graph, target)


def meaning(kernel: Kernel, env: Mapping[str, int]) -> Iterable[Any]:
    """The definitions of the variables, and the ranges of loops: nothing that the prover derived."""
    core, step, tiles = z3.Int("%c"), z3.Int("%i"), term(kernel.tiles, env)
    yield from (core >= 0, step >= 0, step < term(kernel.loop_size, env))
    if kernel.reduce_loop is not None:
        for turn in (z3.Int(Q), *([z3.Int(R)] if kernel.spec.staggered else [])):
            yield from (turn >= 0, turn < term(kernel.steps_here, env))
    for text, name in kernel.meaning.items():
        yield z3.Int(str(name)) == term(text, env)
    yield tiles >= 1
    for name, fact in kernel.prover.facts.items():
        if fact.rank >= 60:  # rows of a copy
            yield z3.And(z3.Int(name) >= 0, *(z3.Int(name) <= term(b, env) for _, b in fact.upper))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_obligations_of_kernels_hold(path: Path) -> None:
    made = list(kernels(path))
    assert made
    for kernel in made:
        assert [f for check in CHECKS for f in check(kernel)] == []
        pairs = sorted(kernel.proved, key=str)
        assert pairs
        seen = set()
        fixed = [s.name for s in kernel.impl.symbols] + [kernel.spec.opened.symbol]
        fixed.append(kernel.spec.block_size)
        for sample in kernel.samples():
            env = {name: sample[name] for name in fixed}
            key = tuple(env.values())
            if key in seen or len(seen) == 4:
                continue
            seen.add(key)
            assert not holds(z3.BoolVal(False), *meaning(kernel, env)), "no such values"
            claim = z3.And(*(term(a, env) >= term(b, env) for a, b in pairs))
            assert holds(claim, *meaning(kernel, env)), f"{kernel.fn.name} at {env}"
        assert seen
