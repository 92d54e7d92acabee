"""Charts of the page as SVG text, without a library: lines over row lengths, and dots for ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

#: Competitor -> colour.
COLOURS = {
    "autofuse": "#1f5fbf",
    "generated": "#1f5fbf",
    "inductor": "#c2571a",
    "max": "#d9a400",
    "eager": "#8a8f98",
    "quack": "#2f7d3f",
    "liger": "#8a4fb0",
}

_STYLE = (
    "text { fill: #1b2330; } .axis { stroke: #7a8699; } .grid { stroke: #e3e7ee; }"
    " .line { fill: none; stroke-width: 2; }"
)

#: Panel of a line chart: width, height, and left margin.
_PANEL = (250, 190, 50)
#: Dot chart: space for names, width, row height.
_DOTS = (300, 420, 14)
#: Range of ratios in a dot chart.
_RATIOS = (0.5, 8.0)

Points = Sequence[tuple[int, float]]


def lines(title: str, panels: Mapping[str, Mapping[str, Points]]) -> str:
    """Return panels side by side with fractions of the roof over lengths, which are powers of two.

    Args:
        title: text for screen readers.
        panels: name of a panel -> competitor -> (length, fraction of the roof).
    """
    width, height, left = _PANEL
    lengths = [n for p in panels.values() for points in p.values() for n, _ in points]
    low, high = math.log2(min(lengths)), math.log2(max(lengths))
    names = list(dict.fromkeys(c for p in panels.values() for c in p))
    out: list[str] = [_legend(names, left, 14)]

    for k, (panel, series) in enumerate(panels.items()):
        x0, y0 = k * (width + left) + left, 44 + height

        def x(n: int, x0: int = x0) -> float:
            return x0 + width * (math.log2(n) - low) / max(high - low, 1)

        out.append(_text(x0 + width / 2, 40, panel, "middle"))
        for tenth in range(0, 11, 2):
            y = y0 - height * tenth / 11
            out.append(_stroke("grid", [(x0, y), (x0 + width, y)]))
            out.append(_text(x0 - 6, y + 4, f"{tenth / 10:.1f}", "end"))
        marks = [1 << power for power in range(math.ceil(low), math.floor(high) + 1, 4)]
        out += [_text(x(n), y0 + 16, _short(n), "middle") for n in marks]
        out.append(_stroke("axis", [(x0, y0), (x0 + width, y0)]))
        for competitor, points in series.items():
            places = [(x(n), y0 - height * min(f, 1.1) / 1.1) for n, f in sorted(points)]
            out.append(_stroke("line", places, COLOURS[competitor]))
            out += [_dot(px, py, COLOURS[competitor]) for px, py in places]
    return _svg(title, len(panels) * (width + left) + 20, height + 70, out)


def dots(title: str, found: Mapping[str, Mapping[str, float]]) -> str:
    """Return a row per name with the ratio to each peer, on a logarithmic axis; outliers are drawn at its ends.

    Args:
        title: text for screen readers.
        found: name of a row -> peer -> ratio.
    """
    left, width, step = _DOTS
    low, high = map(math.log2, _RATIOS)
    bottom = 50 + step * len(found)

    def x(ratio: float) -> float:
        return left + width * (min(max(math.log2(ratio), low), high) - low) / (high - low)

    names = list(dict.fromkeys(p for r in found.values() for p in r))
    out: list[str] = [_legend(names, left, 14)]
    for ratio in (0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0):
        out.append(_stroke("axis" if ratio == 1 else "grid", [(x(ratio), 40), (x(ratio), bottom)]))
        out.append(_text(x(ratio), 36, f"{ratio:g}", "middle"))
    for k, (name, ratios) in enumerate(found.items()):
        y = 50 + step * k
        out.append(_text(left - 8, y + 4, name, "end"))
        out += [_dot(x(r), y, COLOURS[peer]) for peer, r in ratios.items()]
    return _svg(title, left + width + 20, bottom + 10, out)


def _short(n: int) -> str:
    """Return a power of two in short form: 64, 4K, 1M."""
    for unit, size in (("M", 1 << 20), ("K", 1 << 10)):
        if n >= size:
            return f"{n // size}{unit}"
    return str(n)


def _legend(names: Sequence[str], x: float, y: float) -> str:
    parts = []
    for k, name in enumerate(names):
        parts.append(_dot(x + 90 * k, y - 4, COLOURS[name]))
        parts.append(_text(x + 90 * k + 8, y, name, "start"))
    return "\n".join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>'


def _stroke(kind: str, points: Sequence[tuple[float, float]], colour: str = "") -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    drawn = f' stroke="{colour}"' if colour else ""
    return f'<polyline class="{kind}"{drawn} points="{places}"/>'


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11" role="img"'
        f' aria-label="{escape(title)}">'
    )
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", ground, *parts, "</svg>"]) + "\n"
