"""Axes of a group: dimensions are distributed over them, in any order that fits."""

import pytest

from autofuse.implgraph.expr.expression import const
from autofuse.implgraph.ir.iteration_space import ConflictError, IterationSpace


def test_axes_in_any_order_that_fits() -> None:
    space = IterationSpace([const(6), const(35)])
    sizes = [const(35), const(6)]
    with pytest.raises(ConflictError):
        space.copy().align((0, 1), sizes)
    assert space.align_any((0, 1), sizes) == [(1,), (0,)]
    assert space.splits == 0


def test_axes_that_fit_in_no_order() -> None:
    space = IterationSpace([const(6), const(35)])
    with pytest.raises(ConflictError):
        space.align_any((0, 1), [const(11), const(13)])


def test_one_axis_is_split() -> None:
    space = IterationSpace([const(6)])
    (outer,), (inner,) = space.align_any((0,), [const(2), const(3)])
    assert [space.sizes[a] for a in (outer, inner)] == [const(2), const(3)]
