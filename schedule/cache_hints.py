"""Which loads bypass L2, and for which sizes.

A kernel that moves more bytes than L2 holds pushes out what it writes with what it reads.  An input that is read once
gains nothing from L2: its load asks for none, so that more of what is written, and of what is read again, stays there.
An input that several loads or several cores read keeps L2, and so does one that an output overwrites.  Whether the
bytes exceed L2 depends on the sizes: the kernel compares them where they are not known before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autofuse.implgraph.expr import ONE, Expr, bounds, product, total
from autofuse.implgraph.expr_parser import parse
from autofuse.implgraph.graph import HintGraph, ImplGraph, Node
from autofuse.targets import TargetSpec

__all__ = ["bypass_bytes", "bypasses", "held_bytes", "with_cache_hints"]

#: Attribute of a Load that bypasses L2: the text of the bytes that the kernel would ask L2 to hold.
_ATTR = "bypass"


def bypass_bytes(n: Node) -> Expr | None:
    """What a Load that may bypass L2 compares with the size of L2: bytes.  None for others."""
    text = n.attrs.get(_ATTR)
    return None if text is None else parse(str(text))


def bypasses(n: Node, target: TargetSpec, sizes: Mapping[str, int]) -> bool:
    """Whether a Load bypasses L2 at given sizes."""
    held = bypass_bytes(n)
    return held is not None and held.evaluate(sizes) > target.l2_bytes


def held_bytes(hint: HintGraph) -> Expr:
    """Bytes that all loads and stores of a kernel touch, each once."""
    seen: dict[tuple[object, ...], Expr] = {}
    for n in hint.nodes:
        if n.op not in ("Load", "Store"):
            continue
        y = n.y
        moves = [r for r, s in zip(y.repeats, y.strides, strict=True) if s != 0]
        place = n.inputs[0] if n.op == "Load" else n.name
        seen[place, y.offset, y.strides] = product(moves) * y.dtype.itemsize
    return total(seen.values())


def with_cache_hints(impl: ImplGraph, hint: HintGraph, target: TargetSpec) -> ImplGraph:
    """A template whose loads know when to bypass L2.

    Args:
        impl: the template.
        hint: the graph that it belongs to, for what other groups read.
        target: the chip; one without the hint leaves the template as it is.
    """
    held = held_bytes(hint)
    ranges = {s.name: (s.min, s.max) for s in hint.symbols}
    if not target.has_l2_hint or bounds(held, ranges)[1] <= target.l2_bytes:
        return impl
    read = _read_once(impl, hint)
    if not read:
        return impl
    attrs = {_ATTR: str(held)}
    nodes = tuple(
        replace(n, attrs={**n.attrs, **attrs}) if n.name in read else n for n in impl.nodes
    )
    return replace(impl, nodes=nodes)


def _read_once(impl: ImplGraph, hint: HintGraph) -> frozenset[str]:
    """Names of the loads that are the only ones of their input, and read each of its bytes once."""
    data = {n.name: n for n in hint.ops("Data")}
    overwritten = {n.attrs.get("inout", -1) for n in hint.ops("Output")}
    own = [n.inputs[0] for n in impl.nodes if n.op == "Load"]
    others = [n.inputs[0] for n in hint.nodes if n.op == "Load"]
    size = {a.id: a.size for a in impl.axes}
    out = set()
    for n in impl.nodes:
        if n.op != "Load" or len(n.inputs) > 1 or n.inputs[0] not in data or n.loop_axis is None:
            continue
        source = n.inputs[0]
        alone = own.count(source) == 1 and others.count(source) == 1
        varies = all(s != 0 or size[a] == ONE for a, s in zip(n.y.axis, n.y.strides, strict=True))
        if alone and varies and data[source].attrs["index"] not in overwritten:
            out.add(n.name)
    return frozenset(out)
