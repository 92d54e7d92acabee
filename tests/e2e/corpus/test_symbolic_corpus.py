"""60 graphs of ``shared/corpus/akg`` with symbols for dimensions are verified at 10 shapes each.

The shapes hold sizes of 0 and 1, primes, and neighbours of multiples of 8, 16 and 32.  A run takes a third of them,
the same in every run, and all with ``CORPUS=all``.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from draws import some

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.cutting.dimensions import symbolize
from autofuse.implgraph.ir.fusion import FusionGraph
from autofuse.implgraph.ops.registry import lookup
from autofuse.machines.twin.oracle.sizes import largest_tensor
from autofuse.machines.twin.run.worker import WorkerPool
from autofuse.machines.twin.verify.verify import verify_in_subprocess
from autofuse.schedule.axes.result import tiling_keys

pytestmark = [pytest.mark.corpus, pytest.mark.twin, pytest.mark.slow]

GRAPHS = 60
SHAPES = 10
#: The graphs are dealt out to so many tests, of which a sample runs, at the same time.
PARTS, SAMPLE = 6, 1
MAX_ELEMENTS = 1 << 17
CLASSES = ("broadcast", "reshape", "assign", "compare", "parallel", "plain")

PRIMES = (2, 3, 5, 7, 11, 13, 37, 61, 97, 127, 211, 509, 1021, 4093)
#: One list of sizes per shape; every symbol takes a size from the list, or as ``MIXED`` says.
SIZES = (
    (1,),
    (0,),
    PRIMES,
    tuple(8 * k - 1 for k in (1, 2, 3, 9, 31, 125)),
    tuple(8 * k + 1 for k in (1, 2, 3, 9, 31, 125)),
    tuple(16 * k - 1 for k in (1, 3, 5, 17, 63, 201)),
    tuple(16 * k + 1 for k in (1, 3, 5, 17, 63, 201)),
    tuple(32 * k - 1 for k in (1, 2, 5, 33, 127)),
    tuple(32 * k + 1 for k in (1, 2, 5, 33, 127)),
)
#: The last shape takes the size of every symbol from another list.
MIXED = (8, 1, 2, 3, 5, 6)


def classes_of(graph: FusionGraph, text: str) -> set[str]:
    kinds = {lookup(n.op).compute_type for n in graph.nodes}
    shapes = [
        (graph.tensors[x].shape, graph.tensors[n.outputs[0]].shape)
        for n in graph.nodes
        if lookup(n.op).compute_type == "elewise"
        for x in n.inputs
        if isinstance(x, str)
    ]
    found = {
        "broadcast": "broadcast" in kinds or any(a != b for a, b in shapes),
        "reshape": "view" in kinds,
        "assign": any(o.inout for o in graph.outputs),
        "compare": any(t.dtype.name == "bool" for t in graph.tensors.values()),
        "parallel": '"parallel_fusion"' in text,
    }
    return {c for c, there in found.items() if there} or {"plain"}


def round_robin(folders: dict[str, list[Path]]) -> Iterator[Path]:
    """One graph of every network after the other, in an order that looks random."""
    rng = random.Random(0)
    left = [rng.sample(folders[f], len(folders[f])) for f in sorted(folders)]
    while left:
        for paths in left:
            yield paths.pop()
        left = [p for p in left if p]


@pytest.fixture(scope="module")
def chosen(shared_dir: Path) -> list[tuple[Path, FusionGraph]]:
    """Ten graphs of every class, spread over the networks, each with up to four symbols."""
    root = shared_dir / "corpus" / "akg"
    symbolic: dict[Path, FusionGraph] = {}
    by_class: dict[str, dict[str, list[Path]]] = {c: {} for c in CLASSES}
    for path in sorted(root.rglob("*.json")):
        try:
            graph = api.read(path)
        except AutofuseError:
            continue
        symbolic[path] = symbolize(graph)
        if symbolic[path].symbols:
            for c in classes_of(graph, path.read_text(encoding="utf-8")):
                by_class[c].setdefault(path.relative_to(root).parts[0], []).append(path)
    found: dict[Path, FusionGraph] = {}
    for number, c in enumerate(CLASSES, start=1):
        for path in round_robin(by_class[c]):
            if len(found) == number * GRAPHS // len(CLASSES):
                break
            found.setdefault(path, symbolic[path])
    return list(found.items())


def shapes_of(graph: FusionGraph) -> list[dict[str, int]]:
    """Ten bindings of the symbols, different ones, none with a tensor that is too large."""
    rng = random.Random(graph.name)
    out = [_bound(graph, [sizes] * len(graph.symbols), rng) for sizes in SIZES]
    mixed = [SIZES[MIXED[i % len(MIXED)]] for i in range(len(graph.symbols))]
    while len(out) < SHAPES or any(b in out[:i] for i, b in enumerate(out)):
        out = [b for i, b in enumerate(out) if b not in out[:i]]
        out.append(_bound(graph, mixed, rng))
        mixed = [rng.choice(SIZES[2:]) for _ in graph.symbols]
    return out


def _bound(graph: FusionGraph, lists: list[tuple[int, ...]], rng: random.Random) -> dict[str, int]:
    """A size of its list for every symbol, the largest ones lowered until all tensors fit."""
    allowed = {}
    for s, sizes in zip(graph.symbols, lists, strict=True):
        allowed[s.name] = sorted({min(max(n, s.min), s.max) for n in sizes})
    at = {name: rng.randrange(len(sizes)) for name, sizes in allowed.items()}

    def values() -> dict[str, int]:
        return {name: allowed[name][i] for name, i in at.items()}

    while largest_tensor(graph, values()) > MAX_ELEMENTS and any(at.values()):
        at[max((n for n in at if at[n]), key=lambda n: allowed[n][at[n]])] -= 1
    return values()


def test_the_choice_covers_every_class_and_network(chosen: list[tuple[Path, FusionGraph]]) -> None:
    assert len(chosen) == GRAPHS
    assert len({path.parent.name for path, _ in chosen}) >= 15
    sizes = {n for _, g in chosen for shape in shapes_of(g) for n in shape.values()}
    assert {0, 1, *PRIMES[:6]} <= sizes
    for m in (8, 16, 32):
        assert {m - 1, m + 1} <= sizes
    assert all(len(shapes_of(g)) == SHAPES for _, g in chosen)
    with_zero = [g for _, g in chosen if any(0 in shape.values() for shape in shapes_of(g))]
    assert len(with_zero) > GRAPHS // 2


@pytest.mark.parametrize("part", some("symbolic", SAMPLE, PARTS))
def test_symbolic_graphs_are_verified(
    part: int,
    chosen: list[tuple[Path, FusionGraph]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    failures, mine = [], chosen[part::PARTS]
    with WorkerPool("autofuse.machines.twin.verify.verify:verify_job", workers=1) as pool:
        for path, graph in mine:
            name = f"{path.parent.name}/{path.name}"
            shapes = shapes_of(graph)
            try:
                built = api.build(graph, verify_ir=True)
                report = verify_in_subprocess(built.files, graph, pool=pool, bindings=shapes)
            except AutofuseError as e:
                failures.append(f"{name}: {e}")
                continue
            errors = [d for d in report.diagnostics if d.severity == "error"]
            failures += [f"{name}: {d}" for d in errors]
            if not errors:
                assert len(report.cases) == SHAPES * len(tiling_keys(built.schedule))
                for shape in shapes:
                    status = {c.status for c in report.cases if c.symbols == shape}
                    assert "passed" in status <= {"passed", "not applicable"}
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert not failures, "\n".join(failures)
