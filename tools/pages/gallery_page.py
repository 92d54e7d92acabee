"""``docs/gallery/``: real operators, each with its graph, its kernel, and a commentary.

``python tools/pages/gallery_page.py`` writes all pages and pictures.  The handwritten texts are in
``gallery_words.py``; everything else depends only on the graph, the target and the version of autofuse.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from unittest import mock

from autofuse import api
from autofuse.commands.graphs.explaining import explain
from autofuse.commands.outcome import Outcome
from autofuse.report.pages.picture import to_svg
from autofuse.report.text.console import console

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from pages.gallery_words import WORDS  # noqa: E402

__all__ = ["FOLDER", "GRAPHS", "index_page", "operator_page", "picture"]

GRAPHS = ROOT / "examples" / "gallery"
FOLDER = ROOT / "docs" / "gallery"
_TARGET = "ascend910b1"
#: Longer texts are folded, or start at the loop.
_SHORT = 120

_MADE = "<!-- Made by python tools/pages/gallery_page.py; do not edit. -->\n"


def index_page() -> str:
    """Return the list of all operators, with the model's time of each at its typical size."""
    rows = []
    for name, words in WORDS.items():
        found = _explained(name).result
        sizes = ", ".join(f"{k}={n}" for k, n in found["sizes"].items())
        templates = ", ".join(dict.fromkeys(f"`{t['template']}`" for t in _taken(found)))
        time = f"{found['total_us']:.1f} us"
        rows.append(f"| [{words.title}]({name}.md) | {sizes} | {templates} | {time} |")
    return "\n".join(
        [
            "# Gallery\n",
            _MADE,
            "Operators of language, vision and recommendation models, as graphs in `examples/gallery`. Each page has",
            f"the graph, the kernel for {_TARGET}, what `autofuse explain` says of it, and what to look for.",
            "[templates.md](../templates.md) says what the templates are. Times are those of a model of the chip; none",
            "is measured.\n",
            "| operator | at | templates taken | time (model) |",
            "|---|---|---|---:|",
            *rows,
            "\n`autofuse verify examples/gallery` runs all of them on the CPU twin.\n",
        ]
    )


def operator_page(name: str) -> str:
    """Return the page of one operator."""
    words = WORDS[name]
    path = GRAPHS / f"{name}.json"
    shown = path.relative_to(ROOT)
    outcome = _explained(name)
    text = _text(outcome)
    parts = [
        f"# {words.title}\n",
        _MADE,
        f"{words.purpose}\n",
        "## The graph\n",
        f"[![the graph of {name}](pictures/{name}.svg)](pictures/{name}.svg)\n",
        _folded(f"`{shown}`", path.read_text(encoding="utf-8"), "json"),
        "## Build and verify\n",
        f"```sh\nautofuse verify {shown}\nautofuse build {shown} -o out\n```\n",
    ]
    parts += [_variant(other) for other in words.variants]
    parts += [
        "## What to look for\n",
        "\n".join(f"- {_numbers(line, outcome.result, words.group)}" for line in words.look) + "\n",
        "## The kernel\n",
        *_kernel(name, outcome.result),
        "## What explain says\n",
        f"`autofuse explain {shown}`: all times are those of the model, none is measured.\n",
    ]
    whole = f"```text\n{text}```\n"
    parts.append(whole if text.count("\n") <= _SHORT else _folded("the whole text", text, "text"))
    return "\n".join(parts)


def picture(name: str) -> str:
    """Return the drawing of ``autofuse show -o``; its colours follow the reader's system, light or dark."""
    graph = api.read(GRAPHS / f"{name}.json")
    return to_svg(api.hint_of(graph), source=graph)


def _variant(name: str) -> str:
    path = (GRAPHS / f"{name}.json").relative_to(ROOT)
    found = _explained(name).result
    taken = ", ".join(dict.fromkeys(f"`{t['title']}`" for t in _taken(found)))
    time = f"{found['total_us']:.1f} us by the model at the same size"
    return f"`{path}` is the same in another dtype: {taken}, {time}.\n"


def _explained(name: str) -> Outcome:
    return explain(GRAPHS / f"{name}.json", shapes=[], target=_TARGET)


def _text(outcome: Outcome) -> str:
    """Return the output of explain on a terminal of 80 columns."""
    out = io.StringIO()
    with mock.patch.dict(os.environ, {"COLUMNS": "80"}):
        outcome.show(console(out))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _taken(found: dict[str, object]) -> list[dict[str, object]]:
    """Return the template that the host chooses for each group at these sizes."""
    results = (r for r in found["results"] if r["chosen"])  # type: ignore[attr-defined]
    return [t for r in results for g in r["groups"] for t in g["templates"] if t["chosen"]]


def _kernel(name: str, found: dict[str, object]) -> list[str]:
    """Return the device function of the chosen template in the group that the words refer to."""
    words = WORDS[name]
    template = _taken(found)[words.group]
    files = api.build(GRAPHS / f"{name}.json", target=_TARGET).files
    text = files[f"device/{name}_kernel.cpp"]
    start = text.index(f"inline __aicore__ void {template['function']}(")
    body = text[start : text.index("\n}\n", start) + 2]
    what = "The function"
    if body.count("\n") >= _SHORT:
        what = "Without its declarations, the function"
        body = _without_declarations(body)
    group = f", of group {words.group}" if len(_taken(found)) > 1 else ""
    return [
        f"{what} of `{template['title']}`{group}: what is taken at the typical size.\n",
        f"```cpp\n{body.rstrip()}\n```\n",
    ]


def _without_declarations(body: str) -> str:
    """Return the part of a body that runs once before the loop over tiles, and the loop."""
    lines = body[: body.rindex("\n}")].splitlines()
    loop = next(i for i, line in enumerate(lines) if line.startswith("  for ("))
    declares = [i for i in range(loop) if "InitBuffer(" in lines[i] or "_buf.Get<" in lines[i]]
    return "\n".join(lines[declares[-1] + 1 :])


def _numbers(text: str, found: dict[str, object], group: int) -> str:
    """Return a text with the model's times in place of ``{total}`` and of template titles in braces."""
    chosen = next(r for r in found["results"] if r["chosen"])  # type: ignore[attr-defined]
    times = {"total": found["total_us"]}
    times |= {f"form {r['result']}": r["total_us"] for r in found["results"]}  # type: ignore[attr-defined]
    for t in chosen["groups"][group]["templates"]:
        if t["legal"]:
            times[t["title"]] = t["us"]["total"]
    for title, us in times.items():
        text = text.replace(f"{{{title}}}", f"{us:.1f} us (model)")
    return text


def _folded(title: str, text: str, language: str) -> str:
    lines = f"```{language}\n{text.rstrip()}\n```"
    return f"<details><summary>{_code(title)}</summary>\n\n{lines}\n\n</details>\n"


def _code(title: str) -> str:
    """Return a title as HTML, because Markdown is not parsed inside HTML."""
    first, *rest = title.split("`")
    return first if not rest else f"{first}<code>{rest[0]}</code>{''.join(rest[1:])}"


def _write() -> None:
    (FOLDER / "pictures").mkdir(parents=True, exist_ok=True)
    (FOLDER / "index.md").write_text(index_page(), encoding="utf-8")
    for name in WORDS:
        (FOLDER / f"{name}.md").write_text(operator_page(name), encoding="utf-8")
        (FOLDER / "pictures" / f"{name}.svg").write_text(picture(name), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(_write())
