"""docs/templates.md shows what is generated now, and every family that there is."""

from pathlib import Path

from pages.templates_page import FAMILIES, templates_page

from autofuse.schedule.templates import reduce, transpose

PAGE = Path(__file__).parents[2] / "docs" / "templates.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == templates_page(), (
        "run: python tools/pages/templates_page.py > docs/templates.md"
    )


def test_the_families_are_those_of_the_scheduler() -> None:
    assert {reduce.ALL, reduce.LOOP, transpose.NAME} <= {f.template for f in FAMILIES}
