"""Loads that bypass L2, and the sizes at which they do.

A kernel that moves more bytes than L2 holds evicts its output with its input.  An input that is read once gains nothing
from L2: its load bypasses L2, so that more written and reread data stay cached.  An input that several loads or several
cores read still uses L2, and so does one that an output overwrites.  Whether the bytes exceed L2 depends on the sizes:
unless they are known, the kernel compares them at run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from autofuse.implgraph.expr.bounds import bounds
from autofuse.implgraph.expr.expression import ONE, Expr, product, total
from autofuse.implgraph.ir.frozen import replace
from autofuse.implgraph.ir.graph import AxisSizes, HintGraph, ImplGraph, Node, TensorView
from autofuse.targets import TargetSpec

__all__ = ["CacheHints", "bypass_bytes", "bypasses", "held_bytes", "touched_bytes"]

#: Attribute of a Load that bypasses L2: the bytes that the kernel would place in L2.
_ATTR = "bypass"


def bypass_bytes(n: Node) -> Expr | None:
    """Return the bytes to compare with the size of L2 for a bypass; None for a Load that never bypasses L2."""
    return n.size(_ATTR) if _ATTR in n.attrs else None


def bypasses(n: Node, target: TargetSpec, sizes: Mapping[str, int]) -> bool:
    """Return True if a Load bypasses L2 at the given sizes."""
    held = bypass_bytes(n)
    return held is not None and held.evaluate(sizes) > target.l2_bytes


def held_bytes(hint: HintGraph) -> Expr:
    """Return the bytes that all loads and stores of a kernel touch, each counted once."""
    seen: dict[tuple[object, ...], Expr] = {}
    for n in hint.nodes:
        if n.op not in ("Load", "Store"):
            continue
        place = n.inputs[0] if n.op == "Load" else n.name
        seen[place, n.y.offset, n.y.strides] = touched_bytes(n.y)
    return total(seen.values())


def touched_bytes(y: TensorView) -> Expr:
    """Return the bytes of GM that a load or store touches, each counted once."""
    moves = (r for r, s in zip(y.repeats, y.strides, strict=True) if s != 0)
    return product(moves) * y.dtype.itemsize


class CacheHints:
    """Marks the loads of a graph's templates that bypass L2.

    Args:
        hint: the graph, to know the reads of other groups.
        target: the chip; without support for the hint, templates stay unchanged.
    """

    def __init__(self, hint: HintGraph, target: TargetSpec) -> None:
        held = held_bytes(hint)
        ranges = {s.name: (s.min, s.max) for s in hint.symbols}
        wanted = target.arch.has_l2_hint and bounds(held, ranges)[1] > target.l2_bytes
        self._held = held if wanted else None
        overwritten = {n.attrs.get("inout", -1) for n in hint.ops("Output")}
        readers = Counter(n.inputs[0] for n in hint.ops("Load"))
        #: The inputs with a single Load in the graph that nothing overwrites.
        self._inputs = {
            n.name
            for n in hint.ops("Data")
            if readers[n.name] == 1 and n.attrs["index"] not in overwritten
        }

    def given_to(self, impl: ImplGraph) -> ImplGraph:
        """Return a template of the graph with the bypass attribute on its loads."""
        held = self._held
        read = self._read_once(impl) if held is not None else None
        if held is None or not read:
            return impl
        nodes = tuple(
            replace(n, attrs={**n.attrs, _ATTR: held}) if n.name in read else n for n in impl.nodes
        )
        return replace(impl, nodes=nodes)

    def _read_once(self, impl: ImplGraph) -> frozenset[str]:
        """Return the names of loads that alone read their input, and each of its bytes once."""
        loads = [n for n in impl.nodes if n.op == "Load"]
        readers = Counter(n.inputs[0] for n in loads)
        size = AxisSizes(impl.axes)
        out = set()
        for n in loads:
            source = n.inputs[0]
            alone = len(n.inputs) == 1 and readers[source] == 1 and source in self._inputs
            if not alone or n.loop_axis is None:
                continue
            if all(s != 0 or size[a] == ONE for a, s in zip(n.y.axis, n.y.strides, strict=True)):
                out.add(n.name)
        return frozenset(out)
