"""Graphs of ``shared/corpus/akg`` that are made of supported ops are built, compiled and verified.

The graphs form twelve parts; a run takes one of them, always the same one, and with ``CORPUS=all`` all twelve.
A graph with a tensor of more than 2**20 elements is shrunk first (``implgraph.cutting.dimensions.shrink``).
Every graph of a part is built.  Of kernels that are equal but for names and numbers, which are sizes for the most part,
one is compiled and runs, in quick mode; with ``CORPUS=all`` those of other sizes do too.  Every eighth of them runs in
two hostile orders of instructions as well, with optimised code, which has the warnings of g++ that quick mode does not:
``benchmarks/corpus/corpus.py --check-seed`` does that for all of them, and prints counts and times.
``tests/e2e/corpus/test_corpus_proofs.py`` proves the kernels of graphs at their own sizes.
"""

import os
import shutil
from pathlib import Path

import pytest
from draws import WHOLE, some

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.commands.kernels.verifying import verified_once
from autofuse.implgraph.cutting.dimensions import shrink
from autofuse.machines.twin.oracle.sizes import largest_tensor
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = [pytest.mark.corpus, pytest.mark.twin, pytest.mark.slow]

FILES = 2079
IN_SCOPE = 2035
#: Of these, graphs with a tensor of more than MAX_ELEMENTS: they run shrunk, the others as they are.
TOO_LARGE = 823
#: What the other files hold.
NOT_SUPPORTED = {"MatMul", "Conv2D"}
#: Files whose shapes only fit in the private layout FRACTAL_NZ.
FRACTAL = 5
MAX_ELEMENTS = 1 << 20
#: The graphs are dealt out to so many tests, of which a sample runs, at the same time.
PARTS, SAMPLE = 12, 1
#: Orders of the adversarial scheduler, which kernels of a part run in them besides program order, and how optimised.
ORDERS, HOSTILE, OPTIMISED = (1, 2), 8, "-O1"
#: Kernels of other sizes are others.
SIZES = WHOLE


@pytest.fixture(scope="module")
def in_scope(shared_dir: Path) -> dict[Path, int]:
    """The graphs whose ops are all supported, each with the elements of its largest tensor.

    The others name exactly the ops that are not supported, or have a layout that is not.
    """
    found, fractal, codes, ops = {}, 0, set(), set()
    paths = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))
    assert len(paths) == FILES
    for path in paths:
        try:
            graph = api.read(path)
        except AutofuseError as e:  # noqa: PERF203
            if b"FRACTAL_NZ" in path.read_bytes():
                fractal += 1
                continue
            codes.update(d.code for d in e.diagnostics)
            ops.update(d.message.split("'")[1] for d in e.diagnostics)
        else:
            found[path] = largest_tensor(graph, {})
    assert fractal == FRACTAL
    assert codes == {"AF1201"}
    assert ops == NOT_SUPPORTED
    return found


def test_how_many_graphs_are_in_scope(in_scope: dict[Path, int]) -> None:
    assert len(in_scope) == IN_SCOPE
    assert sum(n > MAX_ELEMENTS for n in in_scope.values()) == TOO_LARGE
    for path, n in in_scope.items():
        small = shrink(api.read(path), MAX_ELEMENTS) if n > MAX_ELEMENTS else None
        assert small is None or largest_tensor(small, {}) <= MAX_ELEMENTS, path.name


@pytest.fixture(scope="module")
def parts(in_scope: dict[Path, int]) -> list[list[Path]]:
    """The graphs of every test; graphs with the same ops, which may be equal but for names, are in the same one."""
    alike: dict[tuple[str, ...], list[Path]] = {}
    for path in in_scope:
        alike.setdefault(tuple(n.op for n in api.read(path).nodes), []).append(path)
    found: list[list[Path]] = [[] for _ in range(PARTS)]
    for paths in sorted(alike.values(), key=len, reverse=True):
        min(found, key=len).extend(paths)
    return found


def test_every_graph_is_in_one_part(in_scope: dict[Path, int], parts: list[list[Path]]) -> None:
    assert sorted(p for part in parts for p in part) == list(in_scope)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("part", some("graphs", SAMPLE, PARTS))
def test_graphs_are_verified(
    part: int,
    in_scope: dict[Path, int],
    parts: list[list[Path]],
    shared_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    # With pytest -n 2 another part runs at the same time.
    pool = WorkerPool(
        "autofuse.commands.kernels.jobs:verify_job",
        workers=1 if "PYTEST_XDIST_WORKER" in os.environ else 2,
    )
    options = {
        "target": api.DEFAULT_TARGET,
        "shapes": 3,
        "seed": 0,
        "max_elements": MAX_ELEMENTS,
        "symbolic": False,
        "sizes": SIZES,
    }
    mine = parts[part]
    claims = tmp_path / "claims"
    claims.mkdir()
    plain = verified_once(
        pool, [{"path": str(p), "check_seed": 0, **options} for p in mine], claims
    )
    assert [o.item["path"] for o in plain] == [str(p) for p in mine]
    differ = [o.item["path"] for o in plain if not o.ok or o.value["report"] is not None]
    hostile = [
        {"path": path, "check_seed": order, "opt": OPTIMISED, **options}
        for path in differ[::HOSTILE]
        for order in ORDERS
    ]
    outcomes = [*plain, *pool.map(hostile)]
    assert [o.item["path"] for o in outcomes[len(mine) :]] == [o["path"] for o in hostile]
    failures, ran, same = [], set(), []
    for outcome in outcomes:
        path = Path(outcome.item["path"])
        name = f"{path.relative_to(shared_dir / 'corpus' / 'akg')}, {outcome.item['check_seed']}"
        if not outcome.ok:
            failures.append(f"{name}: {outcome.diagnostics[0]}")
            continue
        shrunk = outcome.value["shrunk"]
        if in_scope[path] > MAX_ELEMENTS:
            assert shrunk["from"] == in_scope[path]
            assert shrunk["to"] <= MAX_ELEMENTS
        else:
            assert shrunk is None
        report = outcome.value["report"]
        if report is None:
            same.append(outcome.value["code"])
        elif not report["ok"]:
            failures.append(f"{name}: {report['diagnostics'][0]}")
        else:
            ran.add(outcome.value["code"])
            assert {c["key"] for c in report["cases"]} == set(range(outcome.value["keys"]))
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert not failures, "\n".join(failures)
    # Each graph has run, or has the code of one that has.
    assert set(same) <= ran - {None}
    assert len(same) + len(ran - {None}) == len(mine)
    assert same, "the corpus has the same kernel under several names"
