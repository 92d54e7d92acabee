"""Changed copies of the frozen dataclasses that the IRs are made of.

Stages make new nodes from old ones by the ten thousand, and ``dataclasses.replace`` takes most of its time to look up
what the fields are and to go through ``__init__``.  Here that is done once per class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["replace"]

if TYPE_CHECKING:
    # The type checker knows this one, and checks names and types of the changes.
    from dataclasses import replace
else:

    def replace(value, /, **changes):
        """A copy of a frozen dataclass with slots, with some fields changed; ``__init__`` is not called.

        Raises:
            TypeError: a field that the class does not have, or a class with ``__post_init__``, without slots, or with
                fields that ``__init__`` does not take.
        """
        copy = _COPIES.get(value.__class__) or _prepare(value.__class__)
        return copy(value, changes)


_COPIES: dict[type, Callable[[Any, Mapping[str, Any]], Any]] = {}


def _prepare(cls: type) -> Callable[[Any, Mapping[str, Any]], Any]:
    """Compile the copy of one class: a line per field, which takes the change where there is one."""
    found = fields(cls)
    if hasattr(cls, "__post_init__") or not all(f.init for f in found):
        raise TypeError(f"{cls.__name__} is more than its fields; use dataclasses.replace")
    names = tuple(f.name for f in found)
    if not all(isinstance(getattr(cls, name, None), MemberDescriptorType) for name in names):
        raise TypeError(f"{cls.__name__} has fields without slots; use dataclasses.replace")
    known = frozenset(names)

    def refuse(changes: Mapping[str, Any]) -> None:
        raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(set(changes) - known))}")

    lines = ["def copy(value, changes):"]
    lines += [" if not changes.keys() <= known: refuse(changes)", " made = new(cls)"]
    lines += [
        f" set_{i}(made, changes['{name}'] if '{name}' in changes else value.{name})"
        for i, name in enumerate(names)
    ]
    lines.append(" return made")
    scope: dict[str, Any] = {"cls": cls, "known": known, "new": object.__new__, "refuse": refuse}
    scope |= {f"set_{i}": getattr(cls, name).__set__ for i, name in enumerate(names)}
    exec("\n".join(lines), scope)
    copy: Callable[[Any, Mapping[str, Any]], Any] = scope["copy"]
    _COPIES[cls] = copy
    return copy
