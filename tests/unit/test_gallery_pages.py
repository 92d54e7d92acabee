"""docs/gallery/ shows what is generated now, and its written words name what is there to see."""

import re
from pathlib import Path

import pytest
from pages.gallery_page import FOLDER, GRAPHS, index_page, operator_page, picture
from pages.gallery_words import WORDS

RUN = "run: python tools/pages/gallery_page.py"


@pytest.mark.parametrize("name", WORDS)
def test_the_page_is_up_to_date(name: str) -> None:
    page = operator_page(name)
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == page, RUN
    assert (FOLDER / "pictures" / f"{name}.svg").read_text(encoding="utf-8") == picture(name), RUN
    _, look, rest = re.split(r"## What to look for\n|## The kernel\n", page)
    assert "{" not in look, "a time in braces is that of no template"
    bullets = look.count("\n- ")
    assert 3 <= bullets <= 5
    for word in re.findall(r"`([^`]+)`", look):
        assert word in rest or word in (GRAPHS / f"{name}.json").read_text(encoding="utf-8"), word


def test_the_index_is_up_to_date() -> None:
    assert (FOLDER / "index.md").read_text(encoding="utf-8") == index_page(), RUN


def test_every_graph_is_shown() -> None:
    shown = {*WORDS, *(v for w in WORDS.values() for v in w.variants)}
    assert {p.stem for p in GRAPHS.glob("*.json")} == shown
    there = {p.relative_to(FOLDER) for p in FOLDER.rglob("*") if p.is_file()}
    pages = {Path("index.md"), *(Path(f"{name}.md") for name in WORDS)}
    assert there == pages | {Path("pictures", f"{name}.svg") for name in WORDS}
