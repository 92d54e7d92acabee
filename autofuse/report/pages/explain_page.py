"""Report of ``autofuse explain`` as one self-contained HTML page without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from autofuse.base.wording import counted
from autofuse.report.text.kernels.explain import PARTS, facts, head, held, roof_words
from autofuse.report.text.tables import bytes_text

__all__ = ["explain_page"]

Row = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --paper: #fff; --dim: #5b6570; --line: #d5d9de; --note: #ffe8cc;
  --start: #8b949e; --mte2: #1c7ed6; --vector: #2b8a3e; --mte3: #d9480f; --scalar: #8b949e; --gm: #7048b6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --paper: #15191d; --dim: #9aa5b1; --line: #39424b;
  --note: #4a3512; --mte2: #4dabf7; --vector: #40c057; --mte3: #ff7f45; --gm: #b197fc; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1000px; padding: 12px 16px 40px; font: 14px/1.45 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 18px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 20px 0 6px; }
h3 { font-size: 14px; margin: 0; }
.note { display: inline-block; margin: 0; padding: 2px 8px; border-radius: 4px; background: var(--note); }
.dim { color: var(--dim); }
p, ul { margin: 4px 0; overflow-wrap: anywhere; }
section { border: 1px solid var(--line); border-radius: 4px; padding: 8px 12px; margin: 8px 0; }
section.taken { border: 2px solid var(--mte2); }
.bar { display: grid; grid-template-columns: 56px 1fr 64px; gap: 8px; align-items: center; line-height: 1.35; }
.bar b { display: block; height: 10px; border-radius: 2px; min-width: 1px; }
.bar b.beyond { border-right: 12px dotted var(--paper); border-radius: 2px 0 0 2px; }
.bar span:last-child, td.number { text-align: right; font-variant-numeric: tabular-nums; }
.ub { position: relative; height: 28px; border: 1px solid var(--line); border-radius: 4px; overflow: hidden;
  margin: 6px 0; }
.ub i { position: absolute; top: 0; bottom: 0; border-right: 1px solid var(--paper); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: 2px 14px 2px 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid var(--line); }
td.number { white-space: nowrap; }
td b { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
"""

#: Position of a buffer between pipes -> the colour of the pipe that fills it.
_COLOUR = {"VECIN": "mte2", "VECOUT": "mte3"}


def explain_page(found: Row) -> str:
    """Return the page of ``explain``: bars per pipe and template, reasons, and UB.

    Args:
        found: the result of ``autofuse.report.explanation.explain``, with ``sizes``.
    """
    title = escape(head(found))
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
        f'<p class="note">{escape(found["note"])}</p>',
    ]
    if found["key"] is not None:
        parts.append(
            f"<p>The host function chooses tiling key {found['key']} of {found['keys']}.</p>"
        )
    if found.get("roof") is not None:
        parts += _roof(found["roof"])
    # All bars share the scale of the chosen form, so that groups can be compared.
    taken = [r for r in found["results"] if r["chosen"]] or found["results"]
    templates = (t for r in taken for g in r["groups"] for t in g["templates"])
    longest = max((t["us"]["total"] for t in templates if t["legal"]), default=0.0)
    if longest:
        parts.append(f'<p class="dim">Full width of every bar: {longest:.2f} us.</p>')
    # The chosen one comes first, here and below; the others keep their order.
    for r in sorted(found["results"], key=lambda r: not r["chosen"]):
        if len(found["results"]) > 1:
            us = "not legal" if r["total_us"] is None else f"{r['total_us']:.2f} us (model)"
            lost = f": {r['lost']}" if r["lost"] else ""
            text = f"Form {r['result']}: {us}, {'taken' if r['chosen'] else 'not taken'}{lost}"
            parts.append(f"<h2>{escape(text)}</h2>")
        for g in r["groups"]:
            parts += _group(g, longest, found["inputs"] if r["chosen"] else None)
    return "\n".join([*parts, "</body>\n</html>\n"])


def _roof(roof: Row) -> Iterator[str]:
    """Yield the lower bound of the time, and the causes for which the kernel takes longer."""
    yield f"<p>{escape(roof_words(roof))}</p>\n<ul>"
    for x in roof["lost"]:
        text = f"{x['us']:.2f} us: {x['text']}" if x["text"] else f"{x['us']:.2f} us"
        yield f"<li><b>{escape(x['cause'])}</b> {escape(text)}</li>"
    yield "</ul>"


def _group(group: Row, longest: float, inputs: Sequence[str] | None) -> Iterator[str]:
    """Yield the section of a group.

    Args:
        group: its templates.
        longest: microseconds of a full-width bar, for the whole page.
        inputs: names of the graph's inputs; None if the form of the group is not chosen.
    """
    barrier = ", after a barrier of all cores" if group["barrier"] else ""
    yield f"<h2>Group {group['group']}{barrier}: microseconds of the model</h2>"
    templates = group["templates"]
    for t in sorted(templates, key=lambda t: not t["chosen"]):
        yield from _template(t, longest)
        if t["chosen"] and inputs is not None:
            yield "<ul>"
            yield from (f"<li>{escape(text)}</li>" for text in facts(t, inputs))
            yield "</ul>"
            yield from _ub(t)
        yield "</section>"
    if group["rejected"]:
        yield "<p>Rejected when the kernel was generated:</p>\n<ul>"
        for r in group["rejected"]:
            yield f"<li><b>{escape(r['title'])}</b>: {escape(r['reason'])}</li>"
        yield "</ul>"


def _template(t: Row, longest: float) -> Iterator[str]:
    """Yield the head of a template, and a bar for each pipe; the section stays open."""
    yield f'<section class="{"taken" if t["chosen"] else "other"}">'
    if not t["legal"]:
        yield f"<h3>{escape(t['title'])}</h3>\n<p>{escape(t['lost'])}</p>"
        return
    taken = ", taken" if t["chosen"] else ""
    yield f"<h3>{escape(t['title'])}: {t['us']['total']:.2f} us{taken}</h3>"
    tiles = (
        f"tile {t['tile_axis']} x {t['tile']}, {counted(t['cores'], 'core')} x "
        f"{counted(t['tiles_per_core'], 'tile')}"
    )
    yield f'<p class="dim">{escape(tiles)}; bottleneck: {escape(t["limit"])}</p>'
    for part, name in PARTS.items():
        us = t["us"][part]
        width = 100 * us / longest if longest else 0.0
        # A bar of a form that is not chosen may exceed the width.
        style = f"width:{min(width, 100.0):.1f}%;background:var(--{part})"
        bar = f'<b{" class=beyond" if width > 100 else ""} style="{style}"></b>'
        yield f'<div class="bar"><span>{name}</span><span>{bar}</span><span>{us:.2f}</span></div>'
    if t["lost"]:
        yield f"<p>Not taken: {escape(t['lost'])}</p>"


def _ub(t: Row) -> Iterator[str]:
    """Yield a picture of UB from first to last byte, and a table of the buffers."""
    limit = t["ub_limit"]
    yield f"<h3>UB: {bytes_text(t['ub_bytes'])} of {bytes_text(limit)}</h3>"
    yield '<div class="ub">'
    for b in t["ub"]:
        for block in range(b["count"]):
            left = 100 * (b["offset"] + block * b["bytes"]) / limit
            place = f"left:{left:.2f}%;width:{100 * b['bytes'] / limit:.2f}%"
            what = escape(held(b), quote=True)
            yield f'<i style="{place};background:var(--{_colour(b)})" title="{what}"></i>'
    yield '</div>\n<div class="wide"><table>'
    yield "<tr><th>holds</th><th>buffer</th><th>bytes</th><th>from byte</th></tr>"
    for b in t["ub"]:
        kind = "TQue" if b["kind"] == "queue" else "TBuf"
        mark = f'<b style="background:var(--{_colour(b)})"></b>'
        yield f"<tr><td>{mark}{escape(held(b))}</td><td>{kind} {b['id']} {b['position']}</td>"
        yield f'<td class="number">{b["count"]} x {b["bytes"]:,}</td>'
        yield f'<td class="number">{b["offset"]:,}</td></tr>'
    yield "</table></div>"


def _colour(b: Row) -> str:
    return "start" if b["pad"] else _COLOUR.get(b["position"], "vector")
