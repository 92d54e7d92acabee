"""In-place outputs with strides: the store covers the view it overwrites, and no element of it twice."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from autofuse.codegen.proofs.facts import _parts
from autofuse.codegen.verification import cover
from autofuse.implgraph.expr.expression import ZERO, Expr, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import Tensor

A, B = sym("a"), sym("b")


def refuted(
    monkeypatch: pytest.MonkeyPatch,
    stored: Sequence[tuple[int, int]],
    view: Sequence[tuple[int, int]],
) -> list[str]:
    """Return the findings about a store of (size, stride) into a view of (size, stride)."""

    def equal(a: Expr, b: Expr, what: str, node: str) -> list[str]:
        return [] if a == b else [what]

    def at_least(a: Expr, b: Expr, what: str, node: str) -> list[str]:
        return [] if a.value >= b.value else [what]

    kernel = SimpleNamespace(
        same=equal, at_least=at_least, prover=SimpleNamespace(equal=lambda a, b: a == b)
    )
    rows = [(const(n), const(s)) for n, s in stored]
    monkeypatch.setattr(cover, "_whole", lambda *_: rows)
    declared = Tensor(
        "y", BY_NAME["float32"], tuple(const(n) for n, _ in view), tuple(const(s) for _, s in view)
    )
    node = SimpleNamespace(name="store", y=SimpleNamespace(offset=ZERO))
    return [getattr(f, "message", f) for f in cover._covers_view(kernel, node, declared)]


@pytest.mark.parametrize(
    "view", [[(3, 8), (4, 1)], [(3, 4), (4, 1)], [(2, 60), (3, 10), (5, 2)], [(7, 1)]]
)
def test_rows_apart_are_covered(
    monkeypatch: pytest.MonkeyPatch, view: list[tuple[int, int]]
) -> None:
    assert refuted(monkeypatch, view, view) == []


@pytest.mark.parametrize("view", [[(3, 2), (4, 1)], [(3, 3), (4, 1)], [(2, 20), (3, 10), (5, 3)]])
def test_rows_that_overlap_are_not(
    monkeypatch: pytest.MonkeyPatch, view: list[tuple[int, int]]
) -> None:
    assert set(refuted(monkeypatch, view, view)) == {"stride of a view without overlaps"}


def test_a_store_of_another_view_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    view = [(3, 8), (4, 1)]
    assert refuted(monkeypatch, [(3, 8), (5, 1)], view) == ["size of an in-place output"]
    assert refuted(monkeypatch, [(3, 9), (4, 1)], view) == ["stride of an in-place output"]
    assert len(refuted(monkeypatch, [(4, 1)], view)) == 1


def test_a_bound_holds_without_the_factors_that_are_at_least_1_and_no_others() -> None:
    assert set(_parts(A * B, {"a"})) == {A * B, B}
    assert set(_parts(A * B, {"a", "b"})) == {A * B, A, B, const(1)}
    assert _parts(A * B, {"c"}) == [A * B]
    assert _parts(A + B, {"a", "b"}) == [A + B]
