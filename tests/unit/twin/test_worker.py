"""Jobs in worker processes."""

import os
import signal
import threading
import time

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.twin.run.worker import WorkerPool

JOB = "worker_jobs:job"


@pytest.fixture(autouse=True)
def _job_on_path(tmp_path, monkeypatch):
    (tmp_path / "worker_jobs.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TOLD", str(tmp_path))


SOURCE = """
import os, signal, sys, time
from autofuse.base.diagnostics import AutofuseError

def job(item):
    kind, value = item
    if kind == "double":
        print("noise on standard output")
        return 2 * value
    if kind == "sleep":
        time.sleep(value)
    if kind == "kill":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "exit":
        os._exit(value)
    if kind == "bug":
        raise RuntimeError("a bug")
    if kind == "diagnostic":
        raise AutofuseError.of("AF1001", "not there", hint="look elsewhere")
    if kind == "begin":
        from autofuse.base import cache
        with cache.scratch():
            open(f"{os.environ['TOLD']}/pid{os.getpid()}", "w").close()
            time.sleep(value)
    if kind == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(f"{os.environ['TOLD']}/pid{os.getpid()}", "w").close()
        time.sleep(value)
    if kind == "memory":
        bytearray(value << 20)
    return os.getpid()
"""


def test_results_come_in_order():
    with WorkerPool(JOB, workers=2) as pool:
        items = [("double", i) for i in range(20)]
        assert [(o.item, o.value) for o in pool.map(items)] == [(i, 2 * i[1]) for i in items]


def test_results_come_as_they_are_done():
    with WorkerPool(JOB, workers=2) as pool:
        items = [("sleep", 4), *(("double", i) for i in range(12))]
        found = [o.item for o in pool.map(items, ordered=False)]
        assert sorted(found) == sorted(items)
        assert found[-1] == ("sleep", 4)


def test_failures_do_not_stop_the_others():
    items = [("kill", 0), ("double", 1), ("exit", 3), ("bug", 0), ("diagnostic", 0), ("double", 2)]
    out = list(WorkerPool(JOB, workers=2).map(items))
    assert [o.ok for o in out] == [False, True, False, False, False, True]
    assert [o.diagnostics[0].code for o in out if not o.ok] == [
        "AF5003",
        "AF5003",
        "AF9001",
        "AF1001",
    ]
    assert "SIGKILL" in out[0].diagnostics[0].message
    assert "last words" in out[0].diagnostics[0].notes
    assert "status 3" in out[2].diagnostics[0].message
    assert "a bug" in out[3].diagnostics[0].message
    assert out[4].diagnostics[0].hint == "look elsewhere"


def test_a_worker_is_used_again_until_it_dies():
    with WorkerPool(JOB, workers=1) as pool:
        first, again = pool.run(("pid", 0)).value, pool.run(("pid", 0)).value
        assert first == again
        pool.run(("kill", 0))
        assert pool.run(("pid", 0)).value != first


def test_time_and_memory_are_limited():
    with WorkerPool(JOB, workers=1, timeout_s=0.5, memory_mb=4096) as pool:
        start = time.monotonic()
        slow = pool.run(("sleep", 30))
        assert time.monotonic() - start < 10
        assert "more than 0.5 s" in slow.diagnostics[0].message
        pool.timeout_s = 30
        assert "memory limit" in pool.run(("memory", 8192)).diagnostics[0].message
        assert pool.run(("double", 4)).value == 8


def test_workers_end_with_the_pool():
    with WorkerPool(JOB, workers=1) as pool:
        pid = pool.run(("pid", 0)).value
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_leaving_the_loop_early_ends_the_workers():
    outcomes = WorkerPool(JOB, workers=2).map(("pid", i) for i in range(1000))
    pid = next(outcomes).value
    outcomes.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_job_name_is_checked():
    with pytest.raises(ValueError, match="form package"):
        WorkerPool("os.system")
    with pytest.raises(AutofuseError):
        raise AutofuseError(WorkerPool("nowhere:job", workers=1).run(0).diagnostics)


@pytest.mark.parametrize("kind", ["begin", "deaf"])
def test_an_interruption_ends_workers_that_are_busy(tmp_path, monkeypatch, kind):
    """They are asked to, and what they have begun is gone; one that does not listen is ended all the same."""
    monkeypatch.setenv("AUTOFUSE_CACHE_DIR", str(tmp_path / "cache"))

    def interrupt():
        while not list(tmp_path.glob("pid*")):
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def run():
        with WorkerPool(JOB, workers=2) as pool:
            list(pool.map((kind, 30) for _ in range(9)))

    # Where a shell started the tests in the background, they ignore this signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 30
    for left in tmp_path.glob("pid*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(left.name[3:]), 0)
    assert list((tmp_path / "cache").glob("tmp/*")) == []


def test_a_pool_that_was_interrupted_takes_nothing_more():
    with pytest.raises(KeyboardInterrupt), WorkerPool(JOB, workers=1) as pool:
        raise KeyboardInterrupt
    with pytest.raises(RuntimeError, match="stopped"):
        pool.run(("double", 1))
