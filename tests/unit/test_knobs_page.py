"""docs/knobs.md is what the table of knobs says now."""

from pathlib import Path

from pages.knobs_page import knobs_page

from autofuse.base.knobs import KNOBS

PAGE = Path(__file__).parents[2] / "docs" / "knobs.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == knobs_page(), (
        "run: python tools/pages/knobs_page.py > docs/knobs.md"
    )


def test_every_knob_is_on_the_page_once() -> None:
    for k in KNOBS:
        assert knobs_page().count(f"| `{k.name}` |") == 1
