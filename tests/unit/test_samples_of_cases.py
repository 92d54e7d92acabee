"""Of tests that are marked ``sampled`` a run takes some cases of each, and all when told so or when one is named."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

FILE = "tests/e2e/twin/test_strided_on_twin.py"
PARTS = 6


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
    some = cases(repo, FILE, CORPUS="", CORPUS_SEED="1")
    assert max(every.values()) > PARTS
    assert some == {name: -(-count // PARTS) for name, count in every.items()}


def test_what_is_named_has_all_its_cases(repo: Path) -> None:
    every = cases(repo, FILE, CORPUS="all")
    name = max(every, key=lambda n: every[n])
    assert cases(repo, name, CORPUS="")[name] == every[name]
    assert cases(repo, FILE, "-k", name.partition("::")[2], CORPUS="")[name] == every[name]
