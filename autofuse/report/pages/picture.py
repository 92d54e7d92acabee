"""A picture of a graph as SVG: layers from top to bottom, one box per node, coloured by unit.

Long edges pass their layers through invisible points; a few sweeps move the items of a layer next to their neighbours.
Everything is integer arithmetic in graph order, so equal graphs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

import networkx as nx

from autofuse.base.visible import visible
from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import Expr, sym
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ir.graph import HintGraph, ImplGraph, Node
from autofuse.implgraph.ops.registry import find
from autofuse.report.held import HeldNames

__all__ = ["to_svg"]

_CHAR = 7  # width of a character of the 12 px monospace font, rounded down on purpose
_LINE = 17
_PAD = 12
_GAP_X = 28
_GAP_Y = 46
_POINT = 12  # width of a passing edge in a layer
_MARGIN = 20
_MAX_TEXT = 34
_SWEEPS = 12

#: Displayed unit -> (fill, border) on a light and on a dark page.
_COLOURS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "MTE2": (("#dbeafe", "#2563eb"), ("#1e3a5f", "#60a5fa")),
    "Vector": (("#dcfce7", "#16a34a"), ("#14432a", "#4ade80")),
    "MTE3": (("#ffedd5", "#ea580c"), ("#57290d", "#fb923c")),
    "none": (("#f3f4f6", "#6b7280"), ("#2b3038", "#9ca3af")),
}
_MEANING = {
    "MTE2": "MTE2: GM to UB",
    "Vector": "Vector: compute",
    "MTE3": "MTE3: UB to GM",
    "none": "no instruction",
}
_PAGE = (("#ffffff", "#111827", "#4b5563", "#9ca3af"), ("#111418", "#f3f4f6", "#b6bdc8", "#6b7280"))


@dataclass(slots=True)
class _Item:
    """A node, or a point (``node`` None) where an edge crosses a layer.  ``x`` is the centre."""

    layer: int
    width: int
    node: Node | None = None
    lines: tuple[str, ...] = ()
    x: int = 0
    up: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)


def _unit(n: Node) -> str:
    """Return the unit of a node; before scheduling, the expected unit of its kind of op."""
    if n.api is not None:
        name = {"V": "Vector"}.get(n.api.unit, n.api.unit)
        return name if name in _COLOURS else "none"
    row = find(n.op)
    kind = row.compute_type if row is not None else ""
    fixed = {"load": "MTE2", "store": "MTE3", "data": "none", "output": "none", "scalar": "none"}
    return fixed.get(kind, "Vector")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


class _Words:
    """Names in a picture.

    Args:
        g: the graph.
        source: its source graph, whose names are drawn; None: its own names.
    """

    def __init__(self, g: HintGraph | ImplGraph, source: FusionGraph | None) -> None:
        self._source = source
        self.title = visible(g.name if source is None else source.label)
        self._held = None if source is None else HeldNames(g, source)
        labels = {} if source is None else source.symbol_labels()
        self._symbols = {n: sym(x) for n, x in labels.items() if n != x}

    def name(self, n: Node) -> str:
        """Return the tensor that a node computes, or is a step of."""
        if self._held is None:
            return n.name
        whole, steps = self._held.of([n.name])
        return visible(whole[0] if whole else f"step of {steps[0]}")

    def shape(self, n: Node) -> Sequence[Expr]:
        """Return the sizes of a node; for a parameter those in the source."""
        if self._source is None or n.op not in ("Data", "Output"):
            return n.y.repeats
        index = n.number("index")
        names = self._source.inputs if n.op == "Data" else [o.tensor for o in self._source.outputs]
        return self._source.tensors[names[index]].shape

    def size(self, e: Expr) -> str:
        """Return a size in the symbols of the source."""
        return visible(str(e.substitute(self._symbols) if self._symbols else e))

    def sizes(self, sizes: Sequence[Expr]) -> str:
        """Return a list of sizes."""
        return "[" + ", ".join(map(self.size, sizes)) + "]"


def _lines(n: Node, words: _Words) -> tuple[str, ...]:
    value = f" = {n.attrs['value']}" if n.op == "Scalar" and "value" in n.attrs else ""
    return (_cut(n.op + value), _cut(words.name(n)), _cut(_shape(n, words)))


def _shape(n: Node, words: _Words) -> str:
    """Return dtype and repeats; if too long, only the inner ones, which matter most."""
    shape = words.shape(n)
    for first in range(len(shape)):
        sizes = ["…"] * (first > 0) + [words.size(r) for r in shape[first:]]
        text = f"{n.y.dtype} [{', '.join(sizes)}]"
        if len(text) <= _MAX_TEXT:
            return text
    return f"{n.y.dtype} {words.sizes(shape)}"


def _tip(n: Node, words: _Words) -> str:
    """Return the details of a node that do not fit into its box."""
    name = words.name(n)
    parts = [name] if name != n.name else []
    parts += [f"{n.name}: {n.op}", f"dtype {n.y.dtype}", f"repeats {words.sizes(n.y.repeats)}"]
    parts.append(f"strides {words.sizes(n.y.strides)}")
    parts += [f"{k} = {v}" for k, v in n.attrs.items()]
    if n.y.mem is not None:
        parts.append(f"{n.y.mem.hardware.value} {n.y.mem.position.value}")
    if n.y.que is not None:
        parts.append(f"queue {n.y.que.id}, {counted(n.y.que.buf_num, 'buffer')}")
    if n.y.buf is not None:
        parts.append(f"buf {n.y.buf}")
    if n.origin:
        parts.append(f"from {n.origin}")
    return "\n".join(parts)


# layout ---------------------------------------------------------------------------------------


def _layout(nodes: Sequence[Node], words: _Words) -> tuple[list[_Item], list[list[int]]]:
    """Return items with their places, and the items of every layer from left to right."""
    items = [
        _Item(0, max(map(len, lines)) * _CHAR + 2 * _PAD, n, lines)
        for n, lines in ((n, _lines(n, words)) for n in nodes)
    ]
    _assign_layers(items, nodes)
    layers: list[list[int]] = [[] for _ in range(max((i.layer for i in items), default=-1) + 1)]
    for k, item in enumerate(items):
        layers[item.layer].append(k)
    _connect(items, layers, nodes)
    for sweep in range(_SWEEPS):
        _reorder(items, layers, downwards=sweep % 2 == 0)
    _place(items, layers)
    return items, layers


def _assign_layers(items: list[_Item], nodes: Sequence[Node]) -> None:
    """Assign layers by the longest path from the sources; a node without inputs goes right above its first user."""
    index = {n.name: k for k, n in enumerate(nodes)}
    view = nx.DiGraph()
    view.add_nodes_from(range(len(nodes)))
    view.add_edges_from((index[i], k) for k, n in enumerate(nodes) for i in n.inputs if i in index)
    if not nx.is_directed_acyclic_graph(view):
        view = nx.DiGraph((a, b) for a, b in view.edges if a < b)
        view.add_nodes_from(range(len(nodes)))
    for layer, generation in enumerate(nx.topological_generations(view)):
        for k in generation:
            items[k].layer = layer
    for k, n in enumerate(nodes):
        below = [items[u].layer for u in view.successors(k)]
        if below and not n.inputs:
            items[k].layer = min(below) - 1


def _connect(items: list[_Item], layers: list[list[int]], nodes: Sequence[Node]) -> None:
    """Connect neighbouring layers by edges; edges with one source share their points."""
    index = {n.name: k for k, n in enumerate(nodes)}
    points: dict[tuple[int, int], int] = {}
    for k, n in enumerate(nodes):
        for name in dict.fromkeys(n.inputs):
            source = index.get(name)
            if source is None or items[source].layer >= items[k].layer:
                continue
            at = source
            for layer in range(items[source].layer + 1, items[k].layer):
                key = (source, layer)
                if key not in points:
                    points[key] = len(items)
                    items.append(_Item(layer, _POINT))
                    layers[layer].append(points[key])
                    items[at].down.append(points[key])
                    items[points[key]].up.append(at)
                at = points[key]
            items[at].down.append(k)
            items[k].up.append(at)


def _reorder(items: list[_Item], layers: list[list[int]], *, downwards: bool) -> None:
    """Sort every layer by the mean place of its neighbours in the layer before."""
    for layer in layers if downwards else reversed(layers):
        place = {k: i for other in layers for i, k in enumerate(other)}

        def mean(k: int, place: dict[int, int] = place) -> int:
            near = items[k].up if downwards else items[k].down
            # In units of 1/1000 of a place, so that no float affects the order.
            return 1000 * sum(place[j] for j in near) // len(near) if near else 1000 * place[k]

        layer.sort(key=mean)


def _place(items: list[_Item], layers: list[list[int]]) -> None:
    """Place centres: start packed, then move towards the mean of the neighbours where there is room."""
    for layer in layers:
        _pack(items, layer, [0] * len(layer))
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            want = []
            for k in layer:
                near = items[k].up if downwards else items[k].down
                near = near or items[k].up or items[k].down
                centre = sum(items[j].x for j in near) // len(near) if near else items[k].x
                want.append(centre)
            _pack(items, layer, want)
    left = min((i.x - i.width // 2 for i in items), default=0)
    for item in items:
        item.x += _MARGIN - left


def _pack(items: list[_Item], layer: list[int], want: Sequence[int]) -> None:
    """Move centres as near to ``want`` as order and widths allow.

    Items that would overlap form a block, which is placed at the mean of its items' wishes.
    """
    blocks: list[
        tuple[int, int, list[tuple[int, int]]]
    ] = []  # sum of wishes, count, (item, offset)
    for k, w in zip(layer, want, strict=True):
        block = (w, 1, [(k, 0)])
        while blocks:
            total, count, members = blocks[-1]
            gap = _distance(items, members[-1][0], block[2][0][0]) + members[-1][1]
            if total // count + gap <= block[0] // block[1]:
                break
            blocks.pop()
            moved = [(j, offset + gap) for j, offset in block[2]]
            # A wish for the second part is one for the first, shifted.
            block = (total + block[0] - gap * block[1], count + block[1], members + moved)
        blocks.append(block)
    for total, count, members in blocks:
        for k, offset in members:
            items[k].x = total // count + offset


def _distance(items: list[_Item], a: int, b: int) -> int:
    return (items[a].width + items[b].width) // 2 + _GAP_X


# drawing --------------------------------------------------------------------------------------


def to_svg(g: HintGraph | ImplGraph, theme: str = "auto", source: FusionGraph | None = None) -> str:
    """Return the graph as a self-contained SVG document.

    Args:
        g: the graph; it may be invalid.
        theme: ``light``, ``dark``, or ``auto`` for the reader's system setting.
        source: its source graph, whose names are drawn.

    Raises:
        ValueError: another theme.
    """
    if theme not in ("auto", "light", "dark"):
        raise ValueError(f"theme must be 'auto', 'light' or 'dark', not {theme!r}")
    words = _Words(g, source)
    items, layers = _layout(g.nodes, words)
    name = words.title
    box = 3 * _LINE + _PAD
    tops = [_MARGIN + 2 * _LINE + _PAD + i * (box + _GAP_Y) for i in range(len(layers))]
    right = max((i.x + i.width // 2 for i in items), default=0)
    width = max(right, len(name) * 8, sum(_legend_width(u) for u in _MEANING)) + 2 * _MARGIN
    height = (tops[-1] + box if tops else 2 * _LINE) + _MARGIN
    shift = max((width - right - _MARGIN) // 2, 0)
    for item in items:
        item.x += shift
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="afg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{_text(name)}">',
        f"<style>{_style(theme)}</style>",
        f'<rect class="afg-page" width="{width}" height="{height}"/>',
        f'<text class="afg-title" x="{_MARGIN}" y="{_MARGIN + 6}">{_text(name)}</text>',
        *_legend(_MARGIN, _MARGIN + _LINE + 2),
        *_edges(items, tops, box),
        *_boxes(items, tops, box, words),
        "</svg>",
    ]
    return "\n".join(out) + "\n"


def _text(text: str) -> str:
    """Escape a text for XML; characters that XML cannot represent are replaced."""
    clean = "".join(ch if _legal(ord(ch)) else "�" for ch in text)
    return escape(clean, quote=True)


def _legal(code: int) -> bool:
    if code < 32:
        return code in (9, 10, 13)
    return not 0xD800 <= code < 0xE000 and code not in (0xFFFE, 0xFFFF)


def _style(theme: str) -> str:
    light, dark = (_rules(i) for i in (0, 1))
    base = (
        ".afg text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
        ".afg .afg-op{font-weight:bold}.afg .afg-title{font-weight:bold;font-size:14px}"
        ".afg .afg-edge{fill:none;stroke-width:1.4}"
        ".afg .afg-box{stroke-width:1.4}"
    )
    if theme == "auto":
        return f"{base}{light}@media (prefers-color-scheme:dark){{{dark}}}"
    return base + (light if theme == "light" else dark)


def _rules(which: int) -> str:
    page, ink, soft, line = _PAGE[which]
    rules = [
        f".afg .afg-page{{fill:{page}}}",
        f".afg text{{fill:{ink}}}",
        f".afg .afg-soft{{fill:{soft}}}",
        f".afg .afg-edge{{stroke:{line}}}",
        f".afg .afg-tip{{fill:{line}}}",
    ]
    for unit, colours in _COLOURS.items():
        fill, border = colours[which]
        rules.append(f".afg .afg-{unit}{{fill:{fill};stroke:{border}}}")
    return "".join(rules)


def _legend_width(unit: str) -> int:
    return len(_MEANING[unit]) * _CHAR + 44


def _legend(x: int, y: int) -> Iterator[str]:
    for unit, text in _MEANING.items():
        yield f'<rect class="afg-box afg-{unit}" x="{x}" y="{y}" width="14" height="14" rx="3"/>'
        yield f'<text class="afg-soft" x="{x + 20}" y="{y + 11}">{_text(text)}</text>'
        x += _legend_width(unit)


def _edges(items: list[_Item], tops: list[int], box: int) -> Iterator[str]:
    for item in items:
        for k in item.down:
            to = items[k]
            # At a point the line is straight, from the top of its layer to the bottom.
            y0, y1 = tops[item.layer] + box, tops[to.layer]
            mid = (y0 + y1) // 2
            path = f"M{item.x} {y0}C{item.x} {mid} {to.x} {mid} {to.x} {y1}"
            if to.node is None:
                path += f"V{y1 + box}"
            yield f'<path class="afg-edge" d="{path}"/>'
        if item.node is not None and item.up:
            x, y = item.x, tops[item.layer]
            yield f'<path class="afg-tip" d="M{x} {y}l-4 -7h8z"/>'


def _boxes(items: list[_Item], tops: list[int], box: int, words: _Words) -> Iterator[str]:
    for item in items:
        if item.node is None:
            continue
        x, y = item.x - item.width // 2, tops[item.layer]
        yield f"<g><title>{_text(_tip(item.node, words))}</title>"
        yield (
            f'<rect class="afg-box afg-{_unit(item.node)}" x="{x}" y="{y}" '
            f'width="{item.width}" height="{box}" rx="6"/>'
        )
        for i, (line, style) in enumerate(zip(item.lines, ("op", "name", "soft"), strict=True)):
            at = f'x="{item.x}" y="{y + _LINE * (i + 1)}" text-anchor="middle"'
            yield f'<text class="afg-{style}" {at}>{_text(line)}</text>'
        yield "</g>"
