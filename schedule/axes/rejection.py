"""Why a template is dropped."""

from __future__ import annotations

__all__ = ["TemplateRejectedError"]


class TemplateRejectedError(Exception):
    """A template cannot realise the group.

    The text says why, with the numbers; ``code`` is the diagnostic if no other template can either.
    """

    def __init__(self, text: str, code: str = "AF3002") -> None:
        super().__init__(text)
        self.code = code
