"""docs/templates.md shows what is generated now, and every family that there is."""

import re
from pathlib import Path

from pages.templates_page import FAMILIES, templates_page

from autofuse.implgraph.ir.graph import ImplGraph
from autofuse.implgraph.ir.text_parser import parse_graph
from autofuse.schedule.templates import reduce, transpose

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "templates.md"
SNAPSHOTS = TESTS / "snapshot" / "__snapshots__" / "test_generated"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == templates_page(), (
        "run: python tools/pages/templates_page.py > docs/templates.md"
    )


def _without_rows(suffix: str) -> str:
    """A suffix without the number of rows in a tile, which depends on that of the cores."""
    return re.sub(r"^rows_\d+$", "rows", suffix)


def test_every_family_of_the_snapshots_is_on_the_page() -> None:
    found = set()
    for file in SNAPSHOTS.glob("*.impl.*.txt"):
        impl = parse_graph(file.read_text(encoding="utf-8"))
        assert isinstance(impl, ImplGraph)
        # What follows the name of this family, or the word, is a length.
        short = impl.template == transpose.NAME or impl.suffix.startswith("cut_")
        found.add((impl.template, "" if short else _without_rows(impl.suffix)))
    assert found
    assert found <= {(f.template, _without_rows(f.suffix)) for f in FAMILIES}
    assert {reduce.ALL, reduce.LOOP, transpose.NAME} <= {f.template for f in FAMILIES}
