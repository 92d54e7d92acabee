"""Pieces of a tensor: every partition into boxes is proved, and nothing that is none."""

from random import Random
from types import SimpleNamespace

import pytest

from autofuse.codegen.verification.pieces import pieces_cover_their_output
from autofuse.implgraph.expr.expression import ONE, Expr, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput, Symbol, Tensor
from autofuse.implgraph.ir.graph import Node, TensorView

Box = tuple[tuple[int, int], ...]  # (start, size) per dimension


def boxes(rng: Random, shape: tuple[int, ...], cuts: int) -> list[Box]:
    """A partition by cuts from edge to edge of a box."""
    out: list[Box] = [tuple((0, n) for n in shape)]
    for _ in range(cuts):
        box = out.pop(rng.randrange(len(out)))
        d = rng.randrange(len(shape))
        start, size = box[d]
        if size < 2:
            out.append(box)
            continue
        at = rng.randint(1, size - 1)
        parts = ((start, at), (start + at, size - at))
        out += [(*box[:d], part, *box[d + 1 :]) for part in parts]
    return out


def findings(stores: list[tuple[Expr, list[Expr], list[Expr]]], shape: list[Expr], workspace=False):
    """stores: offset, sizes, strides."""
    nodes = {
        f"store_{i}": SimpleNamespace(
            name=f"store_{i}", y=SimpleNamespace(offset=o, repeats=n, strides=s)
        )
        for i, (o, n, s) in enumerate(stores)
    }
    total = ONE
    for n in shape:
        total = total * n
    ends, view = {"Output": [], "Workspace": []}, TensorView(BY_NAME["float32"], (), (), ())
    if workspace:
        attrs = {"index": 0, "size": total}
        ends["Workspace"] = [Node("w", "Workspace", tuple(nodes), view, attrs)]
    else:
        ends["Output"] = [Node("o", "Output", (n,), view, {"index": 0}) for n in nodes]
    hint = SimpleNamespace(ops=ends.__getitem__, node=nodes.__getitem__)
    t = Tensor("t", BY_NAME["float32"], tuple(shape))
    symbols = (Symbol("s", 1, 1000),)
    graph = FusionGraph("g", symbols, (), (), (GraphOutput("o", "t"),), {"t": t})
    return list(pieces_cover_their_output(graph, SimpleNamespace(hint=hint)))


def written(parts: list[Box], shape: tuple[int, ...], rng: Random | None = None):
    """Stores of boxes; the axes in any order."""
    out = []
    for box in parts:
        axes, offset, step = [], 0, 1
        for (start, size), whole in reversed(list(zip(box, shape, strict=True))):
            axes.insert(0, (const(size), const(step)))
            offset += start * step
            step *= whole
        if rng is not None:
            rng.shuffle(axes)
        out.append((const(offset), [n for n, _ in axes], [s for _, s in axes]))
    return out


@pytest.mark.parametrize("workspace", [False, True])
@pytest.mark.parametrize("seed", range(150))
def test_partitions_are_proved_and_others_are_not(seed: int, workspace: bool) -> None:
    rng = Random(seed)
    shape = tuple(rng.randint(1, 7) for _ in range(rng.randint(1, 4)))
    parts = boxes(rng, shape, rng.randint(1, 6))
    sizes = [const(n) for n in shape]
    if len(parts) < 2:
        return
    assert not findings(written(parts, shape, rng), sizes, workspace)
    for _ in range(4):
        k, d = rng.randrange(len(parts)), rng.randrange(len(shape))
        start, size = parts[k][d]
        other = rng.choice(((start + 1, size), (max(start - 1, 0), size), (start, size + 1)))
        broken = [*parts[:k], (*parts[k][:d], other, *parts[k][d + 1 :]), *parts[k + 1 :]]
        if broken != parts:
            assert findings(written(broken, shape), sizes, workspace)
    if len(parts) > 2:
        assert findings(written(parts[1:], shape), sizes, workspace)
    assert findings(written([*parts, parts[0]], shape), sizes, workspace)


def test_symbolic_rows() -> None:
    s = sym("s")
    pitch = 9 * ONE
    # [s + 5, 9]: the first 5 rows, then s rows without the last two columns, and these two columns of all rows.
    frame = (const(7), [s + 5, const(2)], [pitch, ONE])
    top = (const(0), [const(5), const(7)], [pitch, ONE])
    rest = (const(45), [s, const(7)], [pitch, ONE])
    assert not findings([rest, frame, top], [s + 5, const(9)])
    assert findings([rest, frame], [s + 5, const(9)])
    assert findings([(const(44), *rest[1:]), frame, top], [s + 5, const(9)])
    assert findings([rest, (const(7), [s + 4, const(2)], [pitch, ONE]), top], [s + 5, const(9)])


def test_columns_go_on_in_a_part_of_a_slab() -> None:
    """Two paddings of one tensor, [55, 12, 13]: columns of 444 rows, which are 37 slabs but do not begin with one."""
    pieces = [
        (0, [1404], [1]),
        (1404, [444], [13]),
        (1416, [444], [13]),
        (1405, [10, 11], [13, 1]),
        (1561, [34, 9, 6], [156, 13, 1]),
        (1678, [34, 6], [156, 1]),
        (1567, [34, 10, 5], [156, 13, 1]),
        (6865, [2, 10, 11], [156, 13, 1]),
        (1535, [37, 2, 11], [156, 13, 1]),
        (7176, [1404], [1]),
    ]
    stores = [(const(o), list(map(const, n)), list(map(const, s))) for o, n, s in pieces]
    shape = [const(55), const(12), const(13)]
    assert not findings(stores, shape)
    for k, (offset, (size, *sizes), strides) in enumerate(stores):
        assert findings([*stores[:k], *stores[k + 1 :]], shape)
        for other in (size - 1, size + 1):
            longer = (offset, [other, *sizes], strides)
            assert findings([*stores[:k], longer, *stores[k + 1 :]], shape)
