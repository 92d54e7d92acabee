"""The exceptions that clients of CANN's package catch; each is also an :class:`AutofuseError` with its diagnostics.

If CANN's package has a fixed message for an error, it is the first argument of the exception, for clients that compare
it; ``str()`` of the exception always gives the diagnostics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from autofuse.base.diagnostics import AutofuseError, Diagnostic, Where

__all__ = [
    "SIZE_WORDS",
    "ClientAttributeError",
    "ClientError",
    "ClientTypeError",
    "ClientValueError",
    "as_client_errors",
]

_E = TypeVar("_E", bound="WordedError")

#: CANN's message for a value that is not a size.
SIZE_WORDS = "Only support type of SizeExpr or long"


class WordedError(AutofuseError):
    """An error whose first argument a client may compare."""

    def worded(self: _E, words: str) -> _E:
        """Replace the error's arguments by these words and return the error."""
        self.args = (words,)
        return self

    @classmethod
    def of(
        cls: type[_E],
        code: str,
        message: str,
        *,
        where: Where | None = None,
        hint: str = "",
        notes: Iterable[str] = (),
    ) -> _E:
        """Create an error of this class, as :meth:`AutofuseError.of` does."""
        return cls((Diagnostic(code, message, where or Where(), hint, tuple(notes)),))

    def __str__(self) -> str:
        return "\n".join(str(d) for d in self.diagnostics)


class ClientError(WordedError, RuntimeError):
    """A graph cannot be scheduled, or its code cannot be generated."""


class ClientTypeError(WordedError, TypeError):
    """An argument has the wrong type."""


class ClientValueError(WordedError, ValueError):
    """An argument has a value that is not allowed."""


class ClientAttributeError(WordedError, AttributeError):
    """An attribute does not exist."""


@contextmanager
def as_client_errors() -> Iterator[None]:
    """Re-raise any AutofuseError of the block as a ClientError, which ``except RuntimeError`` catches.

    Raises:
        ClientError: with the same diagnostics.
    """
    try:
        yield
    except WordedError:
        raise
    except AutofuseError as e:
        raise ClientError(e.diagnostics) from e
