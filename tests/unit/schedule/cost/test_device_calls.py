"""How many instructions a node of many calls issues: with numbers for extents, and with the tile left open."""

from __future__ import annotations

from collections.abc import Iterable

import draws
import pytest

from autofuse.implgraph.expr.expression import ONE, const, sym
from autofuse.schedule.axes.tile_limits import largest_tile
from autofuse.schedule.cost.cost import Call, Conflict
from autofuse.schedule.cost.device_calls import Amount, Issued, open_tile
from autofuse.schedule.functions import issued

N = (0, 1 << 30, 1024)
GRAPHS = {
    "sum of rows": ("ReduceSum", {"axes": (1,)}),
    "sum of columns": ("ReduceSum", {"axes": (0,)}),
    "product of rows": ("ReduceProd", {"axes": (1,)}),
    "softmax": ("Softmax", {"axis": -1}),
    "running sums of rows": ("CumSum", {"axis": 1}),
    "running sums of columns": ("CumSum", {"axis": 0}),
    "transposition": ("Transpose", {"perm": (1, 0)}),
}


def summed(found: Iterable[Issued], bits: int) -> tuple[Call, ...]:
    """Instructions whose extents are all numbers, those of a kind together; ``bits`` of an element."""
    sums: dict[tuple[str, Conflict], tuple[float, float, float]] = {}
    for x in found:
        times = x.times.value * (1 + max(x.along.value - 1, 0).bit_length())
        count, calls, waits = sums.get((x.kind, x.conflict), (0.0, 0.0, 0.0))
        sums[x.kind, x.conflict] = (
            count + times * x.elements.evaluate({}),
            calls + times * x.calls.evaluate({}),
            waits + times * x.waits,
        )
    return tuple(
        Call(kind, max(count, 0.0), bits, conflict, max(calls, 0.0), max(waits, 0.0))
        for (kind, conflict), (count, calls, waits) in sums.items()
    )


def test_parts_of_a_kind_are_summed_with_their_logarithm() -> None:
    found = (
        Issued("binary", Amount.of(2), Amount.of(100), 1.0, True, const(9), const(3)),
        Issued("binary", Amount.of(-1), Amount.of(-50), 0.0, True),
        Issued("unary", Amount.of(1), Amount.of(7)),
    )
    first, second = summed(found, 16)
    # 1 + 4 steps, three times.
    assert (first.kind, first.count, first.calls, first.waits) == ("binary", 1450, 29, 15)
    assert (first.bits, first.conflict) == (16, Conflict.SOURCES)
    assert (second.kind, second.count, second.calls, second.waits) == ("unary", 7, 1, 0)


def test_an_amount_is_a_sum_of_products() -> None:
    n = sym("n")
    found = (Amount.of(n, 0.5) + Amount.of(3)) * Amount.of(n + 1)
    assert found.evaluate({"n": 4}) == (2 + 3) * 5
    assert found.times(const(2), 10.0).evaluate({"n": 4}) == 500
    assert Amount.of(ONE, -1.0).evaluate({}) == -1


@pytest.mark.parametrize("name", GRAPHS)
def test_an_open_tile_gives_what_a_typical_one_does(impls, target, name) -> None:
    """At the tile that says which of two numbers is the lesser, within 30 %: its roundings along the tile."""
    op, attrs = GRAPHS[name]
    random_ = draws.python_rng()
    shape = [random_.randint(200, 3000), random_.randint(200, 3000)]
    seen = 0
    for impl in impls({"x": ("float32", shape)}, [("y", op, ["x"], attrs)], ["y"]):
        tile = largest_tile(impl.tiling, {})
        env = {impl.tiling.opened.symbol: tile}
        named, sizes = impl.by_name(), {a.id: a.size for a in impl.axes}
        for n in impl.nodes:
            if n.api is None or n.api.unit != "Vector":
                continue
            known = issued(n, impl, named, sizes.__getitem__, env, target.arch)
            if known is None:
                continue
            open_ = open_tile(impl.tiling, env)
            left = issued(n, impl, named, sizes.__getitem__, open_, target.arch)
            assert left is not None
            want, have = work(known, env), work(left, env)
            assert have.keys() == want.keys()
            for kind, (count, calls) in want.items():
                assert have[kind][0] == pytest.approx(count, rel=0.3, abs=300), (impl.name, n.name)
                assert have[kind][1] == pytest.approx(calls, rel=0.3, abs=6), (impl.name, n.name)
            seen += 1
    assert seen


def work(found: tuple[Issued, ...], env: dict[str, int]) -> dict[str, tuple[float, float]]:
    """Elements and instructions by kind."""
    out: dict[str, tuple[float, float]] = {}
    for x in found:
        steps = 1 + max(x.along.evaluate(env) - 1, 0).bit_length()
        times = steps * x.times.evaluate(env)
        count, calls = out.get(x.kind, (0.0, 0.0))
        out[x.kind] = (
            count + times * x.elements.evaluate(env),
            calls + times * x.calls.evaluate(env),
        )
    return out


@pytest.mark.parametrize("size", [0, 1, 2, 7, 16, 33])
@pytest.mark.parametrize("name", GRAPHS)
def test_sizes_at_the_edges_have_costs(impls, target, name, size) -> None:
    op, attrs = GRAPHS[name]
    graph = ({"x": ("float32", ["m", "n"])}, [("y", op, ["x"], attrs)], ["y"])
    calls = 0
    for impl in impls(*graph, m=N, n=N):
        named, axes = impl.by_name(), {a.id: a.size for a in impl.axes}
        env = {"m": size, "n": size, impl.tiling.opened.symbol: max(size, 1)}
        for n in impl.nodes:
            if n.api is not None and n.api.unit == "Vector":
                found = issued(n, impl, named, axes.__getitem__, env, target.arch)
                for call in summed(found or (), 32):
                    assert call.count >= 0
                    assert call.calls >= 0
                    calls += 1
    assert calls >= 2


@pytest.mark.parametrize("length", [512, 1000, 1024, 4096])
def test_rows_of_a_symbolic_length_cost_what_this_length_costs(impls, target, length) -> None:
    """Rows that are whole repeats are one run of instructions, whether or not that is known when code is generated."""
    graph = ({"x": ("float32", ["m", "n"])}, [("y", "ReduceSum", ["x"], {"axes": (1,)})], ["y"])
    seen = 0
    for impl in impls(*graph, m=N, n=N):
        if impl.tiling.reduce_tiles or impl.tiling.opened.extent != sym("m"):
            continue
        named, axes = impl.by_name(), {a.id: a.size for a in impl.axes}
        env = {"m": 1024, "n": length, impl.tiling.opened.symbol: 8}
        n = next(n for n in impl.nodes if n.op == "ReduceSum")
        open_ = open_tile(impl.tiling, env)
        left = issued(n, impl, named, axes.__getitem__, open_, target.arch)
        known = issued(n, impl, named, axes.__getitem__, env, target.arch)
        assert left is not None
        assert known is not None
        for kind, (count, calls) in work(known, env).items():
            assert work(left, env)[kind] == pytest.approx((count, calls), rel=0.02, abs=2), kind
        seen += 1
    assert seen
