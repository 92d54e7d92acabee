"""Reasons for dropping a template, and tensors whose rows a chip cannot move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import Wording
from autofuse.implgraph.expr.expression import Expr
from autofuse.implgraph.ir.dtypes import DType
from autofuse.implgraph.ir.frozen import frozen
from autofuse.targets import TargetSpec

__all__ = ["TemplateRejectedError", "UnmovedRow", "UnmovedRowsError"]


@frozen
class UnmovedRow:
    """Rows of a GM tensor that are not known to be whole blocks.

    Attributes:
        end: ``Data``, ``Output`` or ``Workspace``: the op of the node of the tensor.
        index: index of that node.
        origin: position in the input file of the stored or loaded tensor.
        dtype: dtype of the tensor.
        elements: number per row; None: single elements that are not contiguous in UB.
    """

    end: str
    index: int
    origin: str
    dtype: DType
    elements: Expr | None

    @property
    def words(self) -> Wording:
        """The rows in words, for messages."""
        if self.elements is None:
            return Wording("single elements of {}", self.dtype)
        return Wording("rows of {} {}", self.elements, self.dtype)


class TemplateRejectedError(Exception):
    """A template cannot realise the group.

    ``text`` says why, with numbers; ``code`` is the diagnostic if no other template can either; ``details`` is extra
    information for changing the graph; ``rows`` are those that the chip cannot move.
    """

    def __init__(
        self, text: str, code: str = "AF3002", details: str = "", rows: tuple[UnmovedRow, ...] = ()
    ) -> None:
        super().__init__(text)
        self.text, self.code, self.details, self.rows = text, code, details, rows


class UnmovedRowsError(AutofuseError):
    """AF3002: a chip that moves whole blocks cannot move the rows of some tensors.

    Args:
        rows: all of them.
        target: the chip.
        called: describes a row's tensor and its rows; by default names the nodes.
    """

    def __init__(
        self,
        rows: Iterable[UnmovedRow],
        target: TargetSpec,
        called: Callable[[UnmovedRow], str] = lambda r: f"{r.end} {r.index} ({r.words})",
    ) -> None:
        self.rows, self.target = tuple(dict.fromkeys(rows)), target
        block = target.arch.block_bytes
        named = list(dict.fromkeys(map(called, self.rows)))
        whole = list(dict.fromkeys(r.dtype for r in self.rows))
        steps = [f"{block // d.itemsize}*n for {d}" for d in whole]
        made = AutofuseError.of(
            "AF3002",
            f"{target.name} moves whole blocks of {block} bytes, and rows of these tensors may not be whole blocks: "
            f"{_listed(named)}",
            hint=f"make their innermost dimension a multiple of a block, such as {_listed(steps)}, and pad shorter "
            f"rows",
        )
        super().__init__(made.diagnostics)


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
