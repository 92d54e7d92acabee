"""The trace of a build as one self-contained HTML page without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from autofuse.base.wording import counted
from autofuse.report.text.ir.build_trace import BuildTrace, Step, cost_text

__all__ = ["trace_page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --paper: #fff; --dim: #5b6570; --line: #d5d9de; --code: #f6f8fa;
  --plus: #116329; --minus: #a40e26; --note: #ffe8cc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --paper: #15191d; --dim: #9aa5b1; --line: #39424b;
  --code: #1d2329; --plus: #6fdd8b; --minus: #ff9492; --note: #4a3512; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 12px 16px 40px; font: 14px/1.45 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 18px; margin: 0 0 4px; overflow-wrap: anywhere; }
.note { display: inline-block; padding: 2px 8px; border-radius: 4px; background: var(--note); }
.dim { color: var(--dim); }
.same, summary, h2 { margin: 0; padding: 5px 0; font: inherit; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
summary, h2 { font-weight: 600; }
summary { cursor: pointer; }
.wide, pre { overflow-x: auto; }
pre { margin: 0 0 10px; padding: 8px 10px; border-radius: 4px; background: var(--code);
  font: 12px/1.5 ui-monospace, monospace; }
ins, .plus { color: var(--plus); text-decoration: none; }
del, .minus { color: var(--minus); text-decoration: none; }
table { border-collapse: collapse; margin: 0 0 10px; }
th, td { padding: 2px 14px 2px 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid var(--line); }
@media (max-width: 640px) { th { display: none; } tr, td { display: block; } td { overflow-wrap: anywhere; }
  tr { padding: 4px 0; } td.cost { color: var(--dim); } }
@media (min-width: 641px) { td.cost { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; } }
"""


def trace_page(trace: BuildTrace, target: str) -> str:
    """Return the page: every step in order, collapsed if it has more than a line."""
    title = escape(f"Trace of {trace.name} for {target}")
    changed = sum(1 for s in trace.steps if s.lines or s.candidates)
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
        f'<p class="dim">{counted(len(trace.steps), "step")}; {changed} of them changed something.</p>',
        '<p class="note">All cycles come from a model; nothing was measured.</p>',
    ]
    parts += (part for step in trace.steps for part in _step(step))
    return "\n".join([*parts, "</body>\n</html>\n"])


def _step(step: Step) -> Iterator[str]:
    title = escape(step.title)
    if step.candidates:
        yield f'<h2>{title}</h2>\n<div class="wide"><table>'
        yield "<tr><th>candidate</th><th>cost (model)</th><th>outcome</th></tr>"
        for v in step.candidates:
            became = escape(v.reason) or '<b class="plus">kept</b>'
            cells = f'<td>{escape(v.template)}</td><td class="cost">{escape(cost_text(v))}</td>'
            yield f"<tr>{cells}<td>{became}</td></tr>"
        yield "</table></div>"
    elif not step.lines:
        yield f'<p class="same">{title} <span class="dim">no change</span></p>'
    else:
        yield f"<details><summary>{title} {_size(step)}</summary><pre>"
        yield from (_line(line, step.is_diff) for line in step.lines)
        if step.left_out:
            yield f"... {counted(step.left_out, 'more line')}"
        yield "</pre></details>"


def _size(step: Step) -> str:
    if not step.is_diff:
        return f'<span class="dim">{counted(len(step.lines) + step.left_out, "line")}</span>'
    # The first two lines name the two sides.
    plus, minus = (sum(line.startswith(c) for line in step.lines[2:]) for c in "+-")
    return f'<span class="plus">+{plus}</span> <span class="minus">-{minus}</span>'


def _line(line: str, is_diff: bool) -> str:
    tag = {"+": "ins", "-": "del"}.get(line[:1]) if is_diff else None
    return f"<{tag}>{escape(line)}</{tag}>" if tag else escape(line)
