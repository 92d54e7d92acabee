"""``explain`` on graphs of real networks: every template gets a time or a reason."""

import random
from pathlib import Path

import pytest

from autofuse.api import build
from autofuse.base.diagnostics import AutofuseError
from autofuse.report.explanation import explain, sizes_of


@pytest.mark.corpus
def test_a_sample_of_the_corpus(shared_dir: Path) -> None:
    files = sorted((shared_dir / "corpus" / "akg").rglob("*.json"))
    explained = 0
    for path in random.Random(7).sample(files, 30):
        try:
            built = build(path)
        except AutofuseError:
            continue
        sizes = sizes_of(built.graph.symbols, {})
        found = explain(built.name, built.schedule, built.target, sizes)
        explained += 1
        assert found["total_us"] is not None, path
        for group in (g for r in found["results"] for g in r["groups"]):
            for t in group["templates"]:
                if t["legal"]:
                    assert 0 < t["us"]["start"] <= t["bound_us"] <= t["us"]["total"] * (1 + 1e-9), (
                        path
                    )
                    assert t["ub_bytes"] <= t["ub_limit"], path
                assert t["chosen"] or t["lost"], path
    assert explained >= 25
