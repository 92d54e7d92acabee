"""Changed copies of frozen dataclasses."""

from __future__ import annotations

import dataclasses
from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from autofuse.implgraph.expr import ONE, sym
from autofuse.implgraph.frozen import replace
from autofuse.implgraph.graph import Axis, AxisType


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
