"""Jobs on the workers of a Dask scheduler.

A job travels as text: the name of one of our functions, and JSON. So does its answer, which is untrusted and never
unpickled. Dask's own messages assume processes that trust each other, see ``docs/bench.md``. A worker runs each job in
a process of its own, as a command would.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from autofuse import __version__
from autofuse.base.diagnostics import CODES, AutofuseError, Diagnostic
from autofuse.base.visible import visible
from autofuse.frontends.json_positions import load
from autofuse.machines.twin.run.worker import Outcome, WorkerPool, diagnostic_from_json
from autofuse.measure.bench.pools import BROKEN

__all__ = ["answer", "checked_finding", "on_cluster", "read_answer"]

_ADDRESS = re.compile(
    r"(?:(?:tcp|tls|ws|wss)://)?(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
    r":[0-9]{1,5}"
)
#: Time limit in seconds for a scheduler to answer, and restarts of a job whose worker is lost.
_CONNECT_S, _RETRIES = 15, 1
#: Most findings taken from an answer.
_MOST_FINDINGS = 100


def on_cluster(
    address: str,
    job: str,
    items: Sequence[Mapping[str, Any]],
    *,
    timeout_s: float,
    memory_mb: int,
) -> Iterator[tuple[int, Outcome]]:
    """Run jobs on the workers of a scheduler.

    Args:
        address: address of the scheduler, such as ``tcp://host:8786``.
        job: as for :class:`~autofuse.machines.twin.run.worker.WorkerPool`.
        items: items of the jobs, ready for JSON.
        timeout_s: seconds for one item.
        memory_mb: memory limit of a job in MiB, 0 for none.

    Yields:
        The index of an item with its outcome, as they complete.

    Raises:
        AutofuseError: AF5001, the package ``distributed`` is missing, or no scheduler answers, or it has no worker;
            AF5007, the address is invalid.
    """
    if not _ADDRESS.fullmatch(address):
        shown = visible(address[:60])
        text = f"{shown!r} is not the address of a scheduler"
        raise AutofuseError.of("AF5007", text, hint="for example tcp://host:8786")
    if importlib.util.find_spec("distributed") is None:
        text = "--scheduler needs the package distributed, which is not installed here"
        raise AutofuseError.of("AF5001", text, hint="pip install 'ascend-autofuse[cluster]'")
    # The package has no type hints.
    distributed: Any = importlib.import_module("distributed")
    try:
        client = distributed.Client(
            address,
            timeout=_CONNECT_S,
            set_as_default=False,
            # Answers must be texts.
            deserializers=["msgpack"],
        )
    except (OSError, ValueError) as e:
        text = f"no scheduler answers at {address}: {visible(str(e))[:200]}"
        hint = "start one with dask scheduler, and workers on each host with dask worker ADDRESS"
        raise AutofuseError.of("AF5001", text, hint=hint) from e
    with client:
        if not client.scheduler_info().get("workers"):
            text = f"the scheduler at {address} has no workers"
            hint = f"on every host with a device: dask worker {address} --nthreads 1"
            raise AutofuseError.of("AF5001", text, hint=hint)
        futures = {
            client.submit(
                answer,
                job,
                json.dumps(dict(item)),
                __version__,
                timeout_s,
                memory_mb,
                pure=False,
                retries=_RETRIES,
            ): i
            for i, item in enumerate(items)
        }
        try:
            for future in distributed.as_completed(futures, loop=client.loop):
                i = futures[future]
                yield i, _outcome(future, items[i])
        finally:
            client.cancel(list(futures))


def _outcome(future: Any, item: Mapping[str, Any]) -> Outcome:
    try:
        text = future.result()
    except AutofuseError:
        raise
    except Exception as e:
        # An error on the worker arrives as its own exception, or as one that cannot be read.
        why = visible(f"{type(e).__name__}: {e}")[:300]
        finding = Diagnostic("AF5003", f"a worker of the scheduler failed: {why}")
        return Outcome(item, diagnostics=(finding,))
    return read_answer(text, item)


def answer(job: str, text: str, version: str, timeout_s: float, memory_mb: int) -> str:
    """Run a job, on a worker of the scheduler.

    Args:
        job: the name of the function.
        text: JSON of its item.
        version: the caller's version of autofuse.
        timeout_s: time limit in seconds.
        memory_mb: memory limit in MiB, 0 for none.

    Returns:
        JSON with ``value``, ``diagnostics`` and ``seconds``, for :func:`read_answer`.
    """
    if version != __version__:
        text = (
            f"a worker of the scheduler has autofuse {__version__}, but the command has {version}"
        )
        hint = "install the same version on all hosts"
        found = Diagnostic("AF5007", text, hint=hint)
        return json.dumps({"value": None, "diagnostics": [found.to_json()], "seconds": 0.0})
    pool = _pool(job, timeout_s, memory_mb)
    outcome = pool.run(json.loads(text))
    if any(d.code in BROKEN for d in outcome.diagnostics):
        pool.close()
    return json.dumps(
        {
            "value": outcome.value,
            "diagnostics": [d.to_json() for d in outcome.diagnostics],
            "seconds": outcome.seconds,
        }
    )


@lru_cache(maxsize=4)
def _pool(job: str, timeout_s: float, memory_mb: int) -> WorkerPool:
    """Return the process of a job on this worker, kept for the next job."""
    pool = WorkerPool(job, workers=1, timeout_s=timeout_s, memory_mb=memory_mb)
    atexit.register(pool.close)
    return pool


def read_answer(text: object, item: Mapping[str, Any]) -> Outcome:
    """Return the checked answer of a worker; the caller must check its value.

    Args:
        text: the result of :func:`answer`, or anything else.
        item: of the job.
    """
    try:
        if not isinstance(text, str):
            raise TypeError("it is not text")
        value = load(text, "the answer of a worker").value
        found = [checked_finding(d) for d in value["diagnostics"][:_MOST_FINDINGS]]
        seconds = float(value["seconds"])
        if not found and value["value"] is None:
            raise ValueError("it has neither a value nor a finding")
    except (AutofuseError, KeyError, TypeError, ValueError, AttributeError) as e:
        return Outcome(item, diagnostics=(_not_ours(visible(str(e))),))
    return Outcome(item, None if found else value["value"], tuple(found), seconds)


def checked_finding(d: Mapping[str, Any]) -> Diagnostic:
    """Return a finding of an answer, with the types of all members checked.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is not a finding.
    """
    texts = [d["code"], d["message"], d.get("hint", ""), *d.get("notes", ())]
    texts += [d.get("severity", "error"), *d.get("cut_after", ())]
    where = d.get("where", {})
    texts += [where.get(k, "") for k in ("path", "pointer", "node", "axis")]
    numbers = [where.get(k, 0) for k in ("line", "column")]
    if not all(isinstance(t, str) for t in texts) or not all(type(n) is int for n in numbers):
        raise TypeError("a finding has a member of the wrong type")
    if d["code"] not in CODES or d.get("severity", "error") not in ("error", "warning", "note"):
        raise ValueError("a finding has no autofuse code")
    return diagnostic_from_json(dict(d))


def _not_ours(why: str) -> Diagnostic:
    text = f"a worker of the scheduler returned an invalid answer: {why[:300]}"
    hint = "the workers of the scheduler must have the same version of autofuse"
    return Diagnostic("AF1403", text, hint=hint)
