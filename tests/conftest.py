"""Fixtures that every folder of tests may use."""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import draws
import extras
import pytest
from fake_canns import FakeCann

from autofuse.machines.twin.run.worker import WorkerPool

REPO = Path(__file__).resolve().parent.parent
#: The default of ``sampled`` for tests that compile a kernel per case.
ON_TWIN = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--extras",
        action="store_true",
        help=f"run only the tests that need {', '.join(extras.BEYOND)}; all of these must be installed",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Seed hypothesis; refuse ``--extras`` where a package is missing: its tests would be skipped."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(draws.SEED)
    if config.getoption("--extras") and (reason := extras.lack(*extras.BEYOND)):
        raise pytest.UsageError(f"--extras {reason}")


def pytest_report_header() -> str:
    return draws.head()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests with samples some cases stay; what is named on the command line, or by ``-k``, all does."""
    if config.getoption("--extras"):
        beyond = [i for i in items if extras.needed(i) & set(extras.BEYOND)]
        config.hook.pytest_deselected(items=[i for i in items if i not in set(beyond)])
        items[:] = beyond
    if config.option.keyword or any("::" in a for a in config.args):
        return
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left: set[str] = set()
    for name, cases in functions.items():
        count = -(-len(cases) // _parts(cases[0]))
        kept = draws.some(name, count, len(cases))
        left |= {c.nodeid for c in cases} - {cases[k].nodeid for k in kept}
    if left:
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid in left])
        items[:] = [i for i in items if i.nodeid not in left]


def _parts(item: pytest.Item) -> int:
    """A run takes one case in so many of a test."""
    if marker := item.get_closest_marker("sampled"):
        return int(marker.args[0])
    # A stored copy that no case compares would count as left over.
    on_twin = item.nodeid.startswith(("tests/e2e/twin/", "tests/e2e/kernels/"))
    return ON_TWIN if on_twin and "snapshot" not in getattr(item, "fixturenames", ()) else 1


def pytest_runtest_setup(item: pytest.Item) -> None:
    if reason := extras.lack(*sorted(extras.needed(item))):
        pytest.skip(reason)
    random.seed(draws.seed())
    if torch := sys.modules.get("torch"):
        torch.manual_seed(draws.seed())


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout."""
    return REPO


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of kernels for all tests of a run, also of workers side by side: headers are compiled once."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "kernel_cache"


@pytest.fixture(scope="session", autouse=True)
def _knobs(kernel_cache: Path) -> Iterator[None]:
    """The user's own cache is left alone, and kernels that run once are not optimised.

    Tests of the cache and of compiling set their own; commands get no knobs, and so optimise as a user's do.
    """
    with pytest.MonkeyPatch.context() as m:
        m.setenv("AUTOFUSE_CACHE_DIR", str(kernel_cache))
        m.setenv("AUTOFUSE_OPT", "0")
        yield


@pytest.fixture(scope="session")
def interpreter() -> Iterator[WorkerPool]:
    """A process in which Triton interprets the kernels that it verifies; PyTorch is imported once for all tests."""
    with WorkerPool(
        "autofuse.machines.machine:verify_job", workers=1, jobs_per_worker=5000
    ) as pool:
        yield pool


@pytest.fixture
def triton_installed() -> None:
    """Mark a test whose stages look for PyTorch and Triton; the test is skipped where one is missing."""


@pytest.fixture(scope="session")
def loops() -> Iterator[WorkerPool]:
    """A process that compiles, runs and verifies C++ loops."""
    with WorkerPool(
        "autofuse.machines.machine:verify_job", workers=1, jobs_per_worker=1000
    ) as pool:
        yield pool


@pytest.fixture(scope="session")
def _one_fake_cann(tmp_path_factory: pytest.TempPathFactory) -> FakeCann:
    # A process can load the runtime of one CANN.
    return FakeCann(tmp_path_factory.mktemp("cann") / "cann")


@pytest.fixture
def fake_cann(_one_fake_cann: FakeCann, monkeypatch: pytest.MonkeyPatch) -> FakeCann:
    """A CANN with one fake chip that works, as ASCEND_HOME_PATH names it; ``fake_cann.make`` changes it."""
    _one_fake_cann.make()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(_one_fake_cann.root))
    return _one_fake_cann


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of shared material beside the checkout, or another one named by AUTOFUSE_SHARED.

    Without it the test is skipped.
    """
    folder = Path(os.environ.get("AUTOFUSE_SHARED") or REPO.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"needs the folder {folder} (AUTOFUSE_SHARED names another one)")
    return folder


@pytest.fixture(autouse=True)
def _corpus_marker_needs_shared_dir(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("corpus"):
        request.getfixturevalue("shared_dir")
