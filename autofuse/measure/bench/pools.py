"""Runs many jobs on several devices of this host, or on the workers of a scheduler, with equal outcomes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autofuse.base.ending import EndedError
from autofuse.machines.twin.run.worker import Outcome, WorkerPool
from autofuse.measure.bench.devices import BenchDevice

__all__ = ["BROKEN", "on_devices"]

#: Findings after which the process of a device is replaced.
BROKEN = frozenset(("AF5003", "AF5012"))

#: Jobs after which a worker is replaced.
_JOBS_PER_WORKER = 500


def on_devices(
    job: str,
    items: Sequence[Mapping[str, Any]],
    devices: Sequence[BenchDevice],
    *,
    timeout_s: float,
) -> Iterator[tuple[int, Outcome]]:
    """Run jobs in one process per device, which takes the next item after finishing one.

    A kernel that hangs, crashes or breaks its device ends its process, and the next item gets a new one.

    Args:
        job: as for :class:`~autofuse.machines.twin.run.worker.WorkerPool`.
        items: items of the jobs; each gets the member ``device``.
        devices: of this host.
        timeout_s: seconds for one item.

    Yields:
        The index of an item with its outcome, as they complete.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(items)):
        todo.put(i)
    done: queue.SimpleQueue[tuple[int, Outcome | BaseException]] = queue.SimpleQueue()
    # The driver of a device reserves more address space than there is memory.
    pools = [
        WorkerPool(
            job, workers=1, timeout_s=timeout_s, memory_mb=0, jobs_per_worker=_JOBS_PER_WORKER
        )
        for _ in devices
    ]
    stopped = threading.Event()

    def serve(pool: WorkerPool, device: BenchDevice) -> None:
        while not stopped.is_set():
            try:
                i = todo.get_nowait()
            except queue.Empty:
                return
            try:
                outcome = pool.run({**items[i], "device": str(device)})
                if any(d.code in BROKEN for d in outcome.diagnostics):
                    # After a device failure the process can no longer use the device.
                    pool.close()
                done.put((i, outcome))
            except BaseException as e:
                done.put((i, e))
                return

    threads = [
        threading.Thread(target=serve, args=pair, daemon=True)
        for pair in zip(pools, devices, strict=True)
    ]
    for t in threads:
        t.start()
    try:
        for _ in items:
            i, outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield i, outcome
    except (EndedError, KeyboardInterrupt, GeneratorExit):
        stopped.set()
        for pool in pools:
            pool.stop()
        raise
    finally:
        stopped.set()
        for pool in pools:
            pool.close()
