"""MkDocs hooks that let the same files serve as pages on a forge and on the site.

README.md, CONTRIBUTING.md and CHANGELOG.md become pages.  A link from ``docs`` to one of them leads to that page; a
link to any other file of the repository becomes text.  Mermaid drawings would need an external script: those of
docs/templates.md are omitted, because their loops follow as text; others are shown as text.  The pages of
``docs/gallery`` are in the menu once there is an index page.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

__all__ = ["on_config", "on_files", "on_page_markdown", "rewritten"]

#: Files outside docs that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}

_FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.M | re.S)
_MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.M | re.S)
_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)\s]+)\)")


def rewritten(text: str, source: str) -> str:
    """Return the text of a page with the links of the site.

    Args:
        text: Markdown of the page.
        source: path of the file in the repository, with slashes.
    """
    page = _page_of(source)
    assert page is not None

    def link(found: re.Match[str]) -> str:
        label, target = found.groups()
        if ":" in target or target.startswith("#"):
            return found[0]
        path, mark, anchor = target.partition("#")
        there = _page_of(_joined(source, path))
        if there is None:
            return label if label.startswith("`") else f"`{label}`"
        return f"[{label}]({_relative(there, page)}{mark}{anchor})"

    if source == "docs/templates.md":
        text = _MERMAID.sub("", text)
    parts = _FENCE.split(text.replace("```mermaid\n", "```text\n"))
    # Fenced blocks are at the odd positions.
    return "".join(p if i % 2 else _LINK.sub(link, p) for i, p in enumerate(parts))


def _joined(source: str, path: str) -> str:
    return os.path.normpath(PurePosixPath(source).parent / path)


def _page_of(path: str) -> str | None:
    """Return the site's page for a file of the repository; None if there is none."""
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def _relative(page: str, start: str) -> str:
    return os.path.relpath(page, PurePosixPath(start).parent)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the gallery to the menu, before the reference."""
    menu = config.nav or []
    if (Path(config.docs_dir) / "gallery" / "index.md").exists():
        folder = Path(config.docs_dir) / "gallery"
        pages = sorted(f"gallery/{p.name}" for p in folder.glob("*.md") if p.name != "index.md")
        place = next(i for i, entry in enumerate(menu) if "Reference" in entry)
        menu.insert(place, {"Gallery": ["gallery/index.md", *pages]})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages outside docs."""
    from mkdocs.structure.files import File

    top = Path(config.config_file_path).parent
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(top / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite the links of one page."""
    own = {there: name for name, there in PAGES.items()}
    uri = page.file.src_uri
    return rewritten(markdown, own.get(uri, f"docs/{uri}"))
