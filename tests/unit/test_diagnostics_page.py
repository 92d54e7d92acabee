"""docs/diagnostics.md has every code, as the registry words it, and names what there is."""

import re
from pathlib import Path

from pages.diagnostics_page import ADVICE, diagnostics_page

from autofuse.base.diagnostics import CODES
from autofuse.base.knobs import KNOBS

PAGE = Path(__file__).parents[2] / "docs" / "diagnostics.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == diagnostics_page(), (
        "run: python tools/pages/diagnostics_page.py > docs/diagnostics.md"
    )


def test_every_code_has_a_cause_and_a_repair() -> None:
    assert list(ADVICE) == list(CODES)
    assert all(a.cause and a.repair for a in ADVICE.values())


def test_the_variables_that_it_names_are_there() -> None:
    assert set(re.findall(r"AUTOFUSE_\w+", diagnostics_page())) <= {k.name for k in KNOBS}
