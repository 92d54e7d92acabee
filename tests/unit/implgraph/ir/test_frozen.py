"""Changed copies of frozen dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from autofuse.implgraph.expr.expression import ONE, sym
from autofuse.implgraph.ir.frozen import frozen, replace
from autofuse.implgraph.ir.graph import Axis, AxisType


@dataclass(frozen=True, slots=True)
class Base:
    a: int
    b: str = "b"


@dataclass(frozen=True, slots=True)
class Derived(Base):
    c: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    a: int

    def __post_init__(self) -> None:
        assert self.a > 0


@dataclass(frozen=True)
class WithDict:
    a: int


@dataclass(frozen=True, slots=True)
class Counting:
    a: int
    made: int = field(init=False, default=3)


@frozen
class Point:
    x: int
    y: int = 2
    tags: dict[str, int] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list, compare=False, repr=False)


def test_a_frozen_class_is_a_dataclass_with_its_defaults() -> None:
    found = Point(1)
    assert (found.x, found.y, found.tags) == (1, 2, {})
    assert found.tags is not Point(1).tags
    assert (Point(1, 3), Point(x=1, tags={"a": 1}).tags) == (Point(1, y=3), {"a": 1})
    assert Point(1, seen=[5]) == Point(1) != Point(2)
    assert repr(found) == "Point(x=1, y=2, tags={})"
    assert [f.name for f in dataclasses.fields(Point)] == ["x", "y", "tags", "seen"]
    assert replace(found, y=7) == dataclasses.replace(found, y=7) == Point(1, 7)
    assert pickle.loads(pickle.dumps(found)) == found
    assert copy.deepcopy(found) == found


def test_a_frozen_class_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Point(1).x = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        object.__setattr__(Point(1), "z", 3)


def test_arguments_of_a_frozen_class_are_checked() -> None:
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required .* 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=1)  # type: ignore[call-arg]


def test_a_class_that_is_more_than_its_fields_is_not_made_frozen() -> None:
    with pytest.raises(TypeError, match="Checked is more than its fields"):

        @frozen
        class Checked:
            a: int

            def __post_init__(self) -> None:
                assert self.a > 0


def test_a_copy_has_the_changes_and_the_rest_of_the_fields() -> None:
    axis = Axis(3, "z0", sym("s0"), AxisType.ORIGINAL, align=8)
    found = replace(axis, size=ONE, name="z1")
    assert found == dataclasses.replace(axis, size=ONE, name="z1")
    assert (found.id, found.name, found.size, found.align) == (3, "z1", ONE, 8)
    assert axis.name == "z0"
    assert hash(found) == hash(dataclasses.replace(axis, size=ONE, name="z1"))


def test_a_copy_without_changes_is_equal_and_another_object() -> None:
    axis = Axis(3, "z0", sym("s0"))
    assert replace(axis) == axis
    assert replace(axis) is not axis


def test_fields_of_the_base_class_can_be_changed() -> None:
    found = replace(Derived(1, "x", (2,)), a=5, c=(3,))
    assert found == Derived(5, "x", (3,))
    assert type(found) is Derived


def test_a_copy_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        replace(Base(1), a=2).a = 3  # type: ignore[misc]


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="Base has no field colour"):
        replace(Base(1), colour=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [Checked(1), WithDict(1), Counting(1)])
def test_classes_whose_init_does_more_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"use dataclasses\.replace"):
        replace(value, a=-1)  # type: ignore[type-var]
