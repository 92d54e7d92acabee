"""No graph that is read ends in an internal error: operators of all families on top of each other, and long chains."""

from __future__ import annotations

import json
from random import Random

import pytest
import storm_strategies as storms
from storm_maker import FLOATS, Maker

from autofuse import api
from autofuse.base.diagnostics import AutofuseError

#: Elements of a tensor at most.
MOST = 200_000


def step(m: Maker, x: str) -> str:
    """Another operator on a tensor."""
    dtype, shape = m.tensors[x]
    kind = m.rng.randint(0, 10)
    if not shape or m.count(shape) == 0 or kind < 3:
        return m.elementwise(x)
    if kind == 3:
        return storms.add_reduce(m, x)
    if kind == 4:
        return storms.add_slice(m, x)
    if kind == 5:
        return storms.add_transpose(m, x)
    if kind == 6:
        return storms.add_pad(m, x)
    if kind == 7:
        return storms.add_concat(m, [x, x], m.rng.randrange(len(shape)))
    if kind == 8 and dtype in FLOATS:
        return storms.add_norm(m, x, [len(shape) - 1])
    same = [t for t, made in m.tensors.items() if made == (dtype, shape)]
    op = "LogicalAnd" if dtype == "bool" else m.rng.choice(("Add", "Maximum"))
    return m.node(op, [x, m.rng.choice(same)], dtype, shape)


def mixed(seed: int) -> dict:
    """A graph of a family, and up to 25 operators more on what it has."""
    rng = Random(seed)
    m = Maker(rng, symbolic=rng.random() < 0.35)
    storms.FAMILIES[rng.choice(sorted(storms.FAMILIES))](m)
    for _ in range(rng.randint(1, 25)):
        x = rng.choice(list(m.tensors)[-8:])
        if m.count(m.tensors[x][1]) <= MOST // 4:
            step(m, x)
    used = {x for n in m.nodes for x in n["inputs"] if isinstance(x, str)}
    m.outputs += [n["outputs"][0] for n in m.nodes if n["outputs"][0] not in used]
    return m.case("mixed").document


def internal(document: dict) -> str:
    """The internal error that a graph ends in; empty if it builds or is refused."""
    try:
        api.build(document)
    except AutofuseError as e:
        return "\n".join(str(d) for d in e.diagnostics if d.code == "AF9001")
    return ""


@pytest.mark.parametrize("seed", range(24))
def test_mixed_graphs(seed: int) -> None:
    document = mixed(seed)
    assert not internal(document), json.dumps(document)


@pytest.mark.parametrize("ops", [("Exp", "Mul"), ("Mul",), ("Sigmoid", "Add", "Tanh")], ids=str)
@pytest.mark.parametrize("twice", [False, True])
def test_chains_longer_than_python_has_frames(ops: tuple[str, ...], twice: bool) -> None:
    nodes, last = [], "x"
    for i in range(2500):
        op = ops[i % len(ops)]
        xs = [last, last if twice else "x"] if op in ("Add", "Mul") else [last]
        last = f"t{i}"
        nodes.append({"name": f"n{i}", "op": op, "inputs": xs, "outputs": [last]})
    inputs = [{"name": "x", "dtype": "float32", "shape": [64, 128]}]
    document = {"schema": "autofuse.graph/1", "name": "chain", "inputs": inputs}
    api.build({**document, "nodes": nodes, "outputs": [last]})
