"""docs/support.md is what the registry says now."""

import functools
from pathlib import Path

from pages.support import support_page

PAGE = Path(__file__).parents[2] / "docs" / "support.md"


@functools.cache
def page() -> str:
    return support_page()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m pages.support > docs/support.md"
    )


def test_the_page_tells_calls_from_detours() -> None:
    rows = {r.split(" | ")[0]: r.split(" | ") for r in page().split("## ")[1].splitlines()}
    assert rows["| Abs"][3:6] == ["call", "call", "wider"]
    assert rows["| Rsqrt"][3] == "calls"
    assert rows["| Add"][6] == "wider"
    assert rows["| Add"][9] == "calls"
    assert rows["| FloorDiv"][9] == "calls"
    assert rows["| Exp"][9] == "-"


def test_ascend950_has_every_op_on_every_dtype_that_910b1_has() -> None:
    parts = {p.split(" ")[0]: p for p in page().split("\n## ")}
    rows = [
        {r.split(" | ")[0]: r.split(" | ")[3:] for r in parts[name].splitlines() if r[:2] == "| "}
        for name in ("ascend910b1", "ascend950pr")
    ]
    assert rows[0].keys() == rows[1].keys()
    assert len(rows[0]) > 150
    for op, cells in rows[0].items():
        lost = [x for x, y in zip(cells, rows[1][op], strict=True) if y == "-" != x]
        assert not lost, op
