"""The site of docs/: its links, its menu, and that nothing is fetched from elsewhere to show it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from extras import needs
from pages.site_hooks import PAGES, rewritten


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("README.md", "[c](docs/cli.md)", "[c](cli.md)"),
        ("README.md", "[c](CONTRIBUTING.md#style)", "[c](contributing.md#style)"),
        ("README.md", "![p](docs/pictures/p.svg)", "![p](pictures/p.svg)"),
        ("README.md", "[l](LICENSE)", "`l`"),
        ("docs/cli.md", "[a](architecture.md#x)", "[a](architecture.md#x)"),
        ("docs/cli.md", "[e](../examples/cpp)", "`e`"),
        ("docs/guides/g.md", "[c](../../CONTRIBUTING.md)", "[c](../contributing.md)"),
        ("docs/guides/g.md", "[c](../cli.md)", "[c](../cli.md)"),
        (
            "docs/cli.md",
            "[w](https://example.org) [h](#here)",
            "[w](https://example.org) [h](#here)",
        ),
        (
            "docs/cli.md",
            "```c\na[i](b)\n```\n[r](../README.md)",
            "```c\na[i](b)\n```\n[r](index.md)",
        ),
        ("docs/templates.md", "a\n```mermaid\nx --> y\n```\nb", "a\nb"),
        ("docs/cli.md", "```mermaid\nx --> y\n```", "```text\nx --> y\n```"),
    ],
)
def test_links(source: str, text: str, expected: str) -> None:
    assert rewritten(text, source) == expected


def test_every_page_is_in_the_menu(repo: Path) -> None:
    menu = set(re.findall(r": ([\w/]+\.md)$", (repo / "mkdocs.yml").read_text(), re.M))
    docs = repo / "docs"
    pages = {str(p.relative_to(docs)) for p in docs.rglob("*.md")}
    own = {p for p in pages if not p.startswith("gallery/")}
    assert menu == own | set(PAGES.values())


@needs("material")
def test_the_site(repo: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")],
        cwd=repo,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert {"index.html", "contributing.html", "cli.html"} <= {p.name for p in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(
            r"<(?:link|script|img|iframe)\b[^>]*(?:href|src)=\"?(?:https?:)?//[^>]*", text
        )
        assert not fetched, page
        assert 'class="mermaid"' not in text, page
