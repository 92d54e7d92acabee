"""Every graph of ``shared/corpus/akg`` that is made of supported ops is built, compiled and verified.

A graph with a tensor of more than 2**20 elements is shrunk first (``implgraph.dimensions.shrink``).
Every eighth graph runs in two hostile orders of instructions as well: ``benchmarks/corpus.py
--check-seed`` does that for all of them.  ``CORPUS=third`` takes every third file;
``benchmarks/corpus.py`` prints counts and times.
"""

import os
import shutil
from pathlib import Path

import pytest

from autofuse import api
from autofuse.diagnostics import AutofuseError
from autofuse.implgraph.dimensions import shrink
from autofuse.twin.sizes import largest_tensor
from autofuse.twin.worker import WorkerPool

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
#: The graphs are dealt out to so many tests, which may run at the same time.
PARTS = 12
#: Orders of the adversarial scheduler, and which graphs of a part run in them besides program order.
ORDERS, HOSTILE = (1, 2), 8
STEP = 3 if os.environ.get("CORPUS") == "third" else 1


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


@pytest.mark.parametrize("part", range(0, PARTS, STEP))
def test_graphs_are_verified(
    part: int,
    in_scope: dict[Path, int],
    shared_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))
    # With pytest -n 2 another part runs at the same time.
    pool = WorkerPool(
        "autofuse.commands.jobs:verify_job", workers=1 if "PYTEST_XDIST_WORKER" in os.environ else 2
    )
    options = {
        "target": api.DEFAULT_TARGET,
        "shapes": 3,
        "seed": 0,
        "max_elements": MAX_ELEMENTS,
        "symbolic": False,
    }
    mine = list(in_scope)[part::PARTS]
    orders = [(0, *ORDERS) if i % HOSTILE == 0 else (0,) for i in range(len(mine))]
    failures, verified = [], 0
    for outcome in pool.map(
        {"path": str(p), "check_seed": order, **options}
        for p, wanted in zip(mine, orders, strict=True)
        for order in wanted
    ):
        path = Path(outcome.item["path"])
        name = f"{path.relative_to(shared_dir / 'corpus' / 'akg')}, {outcome.item['check_seed']}"
        if not outcome.ok:
            failures.append(f"{name}: {outcome.diagnostics[0]}")
        elif not outcome.value["report"]["ok"]:
            failures.append(f"{name}: {outcome.value['report']['diagnostics'][0]}")
        else:
            verified += 1
            cases = outcome.value["report"]["cases"]
            assert {c["key"] for c in cases} == set(range(outcome.value["keys"]))
            shrunk = outcome.value["shrunk"]
            if in_scope[path] > MAX_ELEMENTS:
                assert shrunk["from"] == in_scope[path]
                assert shrunk["to"] <= MAX_ELEMENTS
            else:
                assert shrunk is None
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    assert not failures, "\n".join(failures)
    assert verified == sum(map(len, orders))
    assert len(mine) >= IN_SCOPE // PARTS
