"""A certificate as one self-contained HTML page without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from autofuse.base.wording import counted
from autofuse.report.text.chip.certificate import CHOICES, changes_text, proved_text, same_bits

__all__ = ["certificate_page"]

#: Cells with more characters are prose, which a narrow page must not break after every word.
_PROSE = 40

Row = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --paper: #fff; --dim: #5b6570; --line: #d5d9de; --note: #ffe8cc;
  --good: #2b8a3e; --bad: #c92a2a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --paper: #15191d; --dim: #9aa5b1; --line: #39424b;
  --note: #4a3512; --good: #40c057; --bad: #ff6b6b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1000px; padding: 12px 16px 40px; font: 14px/1.45 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 18px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 20px 0 6px; }
.note { display: inline-block; margin: 0; padding: 2px 8px; border-radius: 4px; background: var(--note); }
.status { color: var(--dim); margin: 0 0 6px; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .open { color: var(--dim); }
p, ul { margin: 4px 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: 2px 14px 2px 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid var(--line); }
td.text { min-width: 18em; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font-size: 12px; overflow-wrap: anywhere; }
"""


def certificate_page(found: Row) -> str:
    """Return the page of a certificate.

    Args:
        found: from ``autofuse.measure.certificate.certify``.
    """
    kernel = found["kernel"]
    kind = "invariant kernel" if kernel["invariant"] else "kernel"
    title = escape(f"Certificate of the {kind} {found['name']}, {kernel['target']}")
    style, word = _verdict(found)
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
        f'<p class="note">{escape(_sentence(found["on_chip"]))}</p>',
        f'<p class="{style}">{word}</p>',
        f"<p>{escape(found['generator'])}, {escape(kernel['architecture'])}, "
        f"kernel <code>{escape(kernel['sha256'])}</code></p>",
    ]
    if kernel["edited"]:
        parts.append(f"<p>Edited: {escape(', '.join(kernel['edited']))}.</p>")
    for section in (_bits, _proved, _checked, _accuracy, _traffic, _hashes):
        parts += section(found)
    return "\n".join([*parts, "</body>\n</html>\n"])


def _verdict(found: Row) -> tuple[str, str]:
    """Return a style class and the headline."""
    if not found["ok"]:
        return "bad", "Some checks failed."
    left = sum(not r["proved"] for r in found["proved"]["checks"])
    if left:
        return (
            "open",
            f"No failures; {counted(left, 'check is', 'checks are')} not proved.",
        )
    return "good", "All checks passed."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _head(title: str, status: str) -> str:
    return f'<h2>{escape(title)}</h2>\n<p class="status">Status: {escape(status)}.</p>'


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield '<div class="wide"><table><tr>' + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(_cell(c) for c in row) + "</tr>"
    yield "</table></div>"


class _Mark(NamedTuple):
    """A verdict in a cell; ``style``: ``good``, ``bad`` if wrong, ``open`` if neither."""

    style: str
    text: str


def _cell(value: object) -> str:
    if value is None:
        return "<td>-</td>"
    if isinstance(value, _Mark):
        return f'<td class="{value.style}">{escape(value.text)}</td>'
    if isinstance(value, int | float):
        return f'<td class="number">{value:,}</td>'
    text = str(value)
    wide = ' class="text"' if len(text) > _PROSE else ""
    return f"<td{wide}>{escape(text)}</td>"


def _sizes(symbols: Row) -> str:
    return ", ".join(f"{k}={v}" for k, v in symbols.items()) or "fixed sizes"


def _bits(found: Row) -> Iterator[str]:
    change = found["bits"]["may_change"]
    yield _head("Sizes that may change the bits of a row", change["status"])
    yield f"<p>{escape(_sentence(changes_text(found)))} {escape(_sentence(change['why']))}</p>"
    rows = [
        (r["template"], r["op"], r["dtype"], _calls(r), r["loop"], r["tile"])
        for r in found["bits"]["order"]
    ]
    if rows:
        yield from _table(("template", "sum", "dtype", "one call", "steps", "tile"), rows)
    always = same_bits(found["kernel"])
    yield _head("Repeated runs with the same inputs", found["bits"]["status"])
    yield from _table(
        ("sizes", "cores", *CHOICES),
        [
            (_sizes(r["symbols"]), r["cores"], *(_same(r[c], c in always) for c in CHOICES))
            for r in found["bits"]["shapes"]
        ],
    )


def _same(same: bool | None, always: bool) -> _Mark | None:
    """Mark equal or different bits; different bits are wrong only where ``always`` requires equal ones."""
    if same is None:
        return None
    return _Mark("good", "same bits") if same else _Mark("bad" if always else "open", "other bits")


def _calls(row: Row) -> str:
    return ", ".join(f"{c['along']} {c['elements']}" for c in row["calls"]) or "one by one"


def _proved(found: Row) -> Iterator[str]:
    proved = found["proved"]
    yield _head(f"Proved: {proved_text(found)}", proved["status"])
    graphs = proved["graphs"]
    held = "hold" if not graphs["broken"] else "do not all hold"
    counts = f"{counted(graphs['invariants'], 'invariant')} of {counted(graphs['count'], 'graph')}"
    yield f"<p>{counts} of the IR {held}.</p>"
    yield "<ul>"
    yield from (
        f'<li class="bad">{escape(t)}</li>' for t in (*graphs["broken"], *proved["refuted"])
    )
    yield "</ul>"
    yield from _table(
        ("about", "check", "proved", "meaning"),
        [
            (
                r["about"],
                r["check"],
                _Mark("good", "yes") if r["proved"] else _Mark("open", "not proved"),
                r["meaning"],
            )
            for r in proved["checks"]
        ],
    )


def _checked(found: Row) -> Iterator[str]:
    checked = found["checked"]
    yield _head("Checked", checked["status"])
    yield "<ul>"
    yield from (f"<li>{escape(t)}</li>" for t in checked["findings"])
    yield "</ul>"
    yield from _table(
        ("sizes", "tiling key", "cores", "wrong", "unwritten", ""),
        [
            (
                _sizes(r["symbols"]),
                r["key"] if r["key"] >= 0 else "chosen",
                r["cores"],
                r["wrong"],
                r["unwritten"],
                r["status"],
            )
            for r in checked["runs"]
        ],
    )


def _accuracy(found: Row) -> Iterator[str]:
    yield _head("Accuracy on a grid of values", found["accuracy"]["status"])
    yield from _table(
        (
            "grid",
            "output",
            "dtype",
            "elements",
            "finite",
            "wrong",
            "max ulp",
            "max rel",
            "without reference",
        ),
        [
            (r["grid"], r["refused"])
            if "refused" in r
            else (
                r["grid"],
                r["output"],
                r["dtype"],
                r["elements"],
                r["finite"],
                r["wrong"],
                r["max_ulp"],
                r["max_rel"],
                r["ill_conditioned"],
            )
            for r in found["accuracy"]["grids"]
        ],
    )


def _traffic(found: Row) -> Iterator[str]:
    yield _head("Bytes of GM", found["traffic"]["status"])
    yield "<p>Compulsory bytes count every input and output once.</p>"
    names = ("read", "written", "compulsory", "ratio", "workspace")
    yield from _table(
        ("sizes", *names),
        [(_sizes(r["symbols"]), *(r[n] for n in names)) for r in found["traffic"]["shapes"]],
    )


def _hashes(found: Row) -> Iterator[str]:
    yield _head("Hashes", "sha256 of files, and of arrays in C order")
    for r in found["bits"]["shapes"]:
        yield f"<p>{escape(_sizes(r['symbols']))}</p>\n<ul>"
        for kind in ("inputs", "outputs"):
            for name, value in r[kind].items():
                yield f"<li>{kind[:-1]} {escape(name)}: <code>{escape(value)}</code></li>"
        yield "</ul>"
    yield "<ul>"
    for name, value in found["kernel"]["files"].items():
        yield f"<li>{escape(name)}: <code>{escape(value)}</code></li>"
    yield "</ul>"
