"""Fast construction and copying of the frozen dataclasses of the IRs.

Stages create thousands of such values per graph.  The ``__init__`` of a frozen dataclass sets every field by name
through ``object.__setattr__``, and ``dataclasses.replace`` looks up the fields on each call.  Here an instance of a
subclass with writable slots is filled, which takes no call per field; then its class becomes the frozen class, and it
is immutable like any other instance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["frozen", "replace"]

if TYPE_CHECKING:
    # Type checkers know these, and check the names and types of fields and changes.
    from dataclasses import field, replace
    from typing import TypeVar

    from typing_extensions import dataclass_transform

    _T = TypeVar("_T")

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def frozen(cls: type[_T]) -> type[_T]:
        """A dataclass; see below."""
        return cls

else:
    from dataclasses import dataclass

    def frozen(cls):
        """``@dataclass(frozen=True, slots=True)`` whose ``__init__`` fills the slots directly; do not subclass it.

        Raises:
            TypeError: the class has more than plain fields (``__post_init__``, keyword-only or hidden fields).
        """
        made = dataclass(frozen=True, slots=True, init=False)(cls)
        made.__init__ = _init(made)
        return made

    def replace(value, /, **changes):
        """Return a copy of a frozen dataclass with slots, with some fields changed; ``__init__`` is not called.

        Raises:
            TypeError: a field that the class does not have, or a class with ``__post_init__``, without slots, or with
                fields that ``__init__`` does not take.
        """
        copy = _COPIES.get(value.__class__) or _prepare(value.__class__)
        return copy(value, changes)


_COPIES: dict[type, Callable[[Any, Mapping[str, Any]], Any]] = {}


def _field_names(cls: type) -> tuple[str, ...]:
    """Return the field names of a class that has only plain fields, each with a slot."""
    found = fields(cls)
    if hasattr(cls, "__post_init__") or not all(f.init and not f.kw_only for f in found):
        raise TypeError(f"{cls.__name__} is more than its fields; use dataclasses.replace")
    if not all(isinstance(getattr(cls, f.name, None), MemberDescriptorType) for f in found):
        raise TypeError(f"{cls.__name__} has fields without slots; use dataclasses.replace")
    return tuple(f.name for f in found)


def _open(cls: type) -> type:
    """Return a subclass with writable slots."""
    anybody = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return type(cls.__name__, (cls,), {"__slots__": (), **anybody})


def _compiled(text: list[str], scope: dict[str, Any]) -> Any:
    """Return the function that the lines define."""
    exec("\n".join(text), scope)
    return scope[text[0].removeprefix("def ").partition("(")[0]]


def _init(cls: type) -> Callable[..., None]:
    """Compile ``__init__``: a parameter and a line per field."""
    _field_names(cls)
    become = vars(object)["__class__"].__set__
    scope: dict[str, Any] = {"cls": cls, "filled": _open(cls), "become": become}
    parameters, lines = [], []
    for f in fields(cls):
        value = f.name
        if f.default_factory is not MISSING:
            scope |= {f"make_{f.name}": f.default_factory, "missing": MISSING}
            parameters.append(f"{f.name}=missing")
            value = f"make_{f.name}() if {f.name} is missing else {f.name}"
        elif f.default is not MISSING:
            scope[f"default_{f.name}"] = f.default
            parameters.append(f"{f.name}=default_{f.name}")
        else:
            parameters.append(f.name)
        lines.append(f" self.{f.name} = {value}")
    head = [f"def __init__(self, {', '.join(parameters)}):", " become(self, filled)"]
    made = _compiled([*head, *lines, " self.__class__ = cls"], scope)
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    function: Callable[..., None] = made
    return function


def _prepare(cls: type) -> Callable[[Any, Mapping[str, Any]], Any]:
    """Compile the copy of one class: a line per field, then the changes."""
    names = _field_names(cls)
    scope: dict[str, Any] = {
        "cls": cls,
        "filled": _open(cls),
        "new": object.__new__,
        "refuse": _refuse,
    }
    lines = ["def copy(value, changes):", " made = new(filled)"]
    lines += [f" made.{name} = value.{name}" for name in names]
    lines += [" try:", "  for name, changed in changes.items(): setattr(made, name, changed)"]
    lines += [" except AttributeError: refuse(cls, changes)"]
    lines += [" made.__class__ = cls", " return made"]
    copy: Callable[[Any, Mapping[str, Any]], Any] = _compiled(lines, scope)
    _COPIES[cls] = copy
    return copy


def _refuse(cls: type, changes: Mapping[str, Any]) -> Any:
    """Raise TypeError for changes to names that are not fields."""
    names = {f.name for f in fields(cls)}
    raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(set(changes) - names))}")
