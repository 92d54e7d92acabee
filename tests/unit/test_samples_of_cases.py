"""Of tests that are marked ``sampled`` a run takes some cases of each, and all when told so or when one is named."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import draws
import pytest

FILE = "tests/e2e/twin/test_strided_on_twin.py"
PARTS = 8


def cases(repo: Path, *words: str, **environment: str) -> Counter[str]:
    """How many cases of each test a run with these words would take."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *words], cwd=repo, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line for line in done.stdout.splitlines() if "::" in line]
    return Counter(name.partition("[")[0] for name in names)


def test_one_case_in_so_many_of_each_test(repo: Path) -> None:
    every = cases(repo, FILE, CORPUS="all")
    some = cases(repo, FILE, CORPUS="")
    assert max(every.values()) > PARTS
    assert some == {name: -(-count // PARTS) for name, count in every.items()}


def test_what_is_named_has_all_its_cases(repo: Path) -> None:
    every = cases(repo, FILE, CORPUS="all")
    name = max(every, key=lambda n: every[n])
    assert cases(repo, name, CORPUS="")[name] == every[name]
    assert cases(repo, FILE, "-k", name.partition("::")[2], CORPUS="")[name] == every[name]


def drawn(repo: Path, seed: str, test: str) -> str:
    """Three numbers that a test draws in a process with this seed."""
    code = "import draws; print([draws.seed() for _ in range(2)], draws.rng().random(), draws.some('x', 3, 99))"
    words = {"PYTHONPATH": str(repo / "tests" / "support"), "PYTEST_CURRENT_TEST": test}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | words | {"TEST_SEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_seed_repeats_the_data_of_a_test_and_not_those_of_another(repo: Path) -> None:
    numbers = drawn(repo, "5", "a.py::test_x (call)")
    assert numbers == drawn(repo, "5", "a.py::test_x (call)")
    others = [drawn(repo, "6", "a.py::test_x (call)"), drawn(repo, "5", "a.py::test_y (call)")]
    assert len({numbers, *others}) == 3
    samples = {text.partition("] ")[2].partition("[")[2] for text in (numbers, *others)}
    assert len(samples) == 1, "a sample depends on the seed"


def test_hypothesis_has_the_seed_of_the_run(request: pytest.FixtureRequest) -> None:
    assert request.config.getoption("--hypothesis-seed") == str(draws.SEED)
