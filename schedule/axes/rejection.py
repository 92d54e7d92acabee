"""Why a template is dropped."""

from __future__ import annotations

__all__ = ["TemplateRejectedError"]


class TemplateRejectedError(Exception):
    """A template cannot realise the group.

    The text says why, with the numbers; ``code`` is the diagnostic if no other template can either; ``details`` is
    what only those want to know who change the graph for it.
    """

    def __init__(self, text: str, code: str = "AF3002", details: str = "") -> None:
        super().__init__(text)
        self.code, self.details = code, details
