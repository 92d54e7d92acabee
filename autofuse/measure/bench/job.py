"""Worker process of ``bench``: JSON in, JSON out.

The worker may be on another host, so it gets the graph and the text of files, but no paths.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from autofuse import __version__
from autofuse.base.diagnostics import AutofuseError
from autofuse.machines.timing import Plan
from autofuse.measure.bench.devices import alone
from autofuse.measure.bench.measure import Found, measure
from autofuse.measure.bench.results import DeviceFacts, KernelFacts, Measurement
from autofuse.measure.bench.runners import device_facts, runner_of

__all__ = ["JOB", "bench_job", "measurement_of", "when_now"]

JOB = "autofuse.measure.bench.job:bench_job"


def bench_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Compare and time one kernel at one set of sizes.

    Args:
        job: ``text`` (JSON with ``files`` and ``graph``), ``device`` (such as
            ``npu:0``), ``sizes`` by symbol; ``plan``: the
            members of :class:`~autofuse.machines.timing.Plan`; ``timeout_s`` of one launch on a chip; ``kernel``:
            the members of :class:`~autofuse.measure.bench.results.KernelFacts`; ``version`` of autofuse.

    Returns:
        ``record``: the members of a :class:`~autofuse.measure.bench.results.Measurement`; ``notes``: findings that left
        the times as they are.

    Raises:
        AutofuseError: AF5001, AF5011 a tool is missing; AF5002, AF5013 the kernel does not compile; AF5003, AF5012
            the device fails; AF5007 the kernel does not run there; AF6001, AF6002 it is wrong.
    """
    if job["version"] != __version__:
        text = f"the worker has autofuse {__version__}, but the command has {job['version']}"
        raise AutofuseError.of("AF5007", text, hint="install the same version on all hosts")
    plan, sizes = Plan(**job["plan"]), dict(job["sizes"])
    with alone(job["device"]):
        runner = runner_of(job["text"], job["device"], float(job["timeout_s"]))
        found = measure(runner, sizes, plan)
    called = {s.label: sizes[s.name] for s in runner.graph.symbols}
    made = measurement_of(
        found, device_facts(runner.facts()), KernelFacts(**job["kernel"]), called, plan
    )
    return {
        "record": made.model_dump(),
        "notes": [d.to_json() for d in found.samples.notes],
    }


def measurement_of(
    found: Found,
    device: DeviceFacts,
    kernel: KernelFacts,
    sizes: Mapping[str, int],
    plan: Plan,
) -> Measurement:
    """Return the record of a measurement; the caller adds the choice and the modelled time."""
    return Measurement.model_validate(
        {
            "origin": "bench",
            "when": when_now(),
            "generator": f"autofuse {__version__}",
            "device": device,
            "kernel": kernel,
            "sizes": dict(sizes),
            "key": found.key if found.key >= 0 else None,
            "cores": found.cores or None,
            "l2": plan.l2,
            "method": found.samples.method,
            "warm_up": plan.warm_up,
            # A tenth of a nanosecond, finer than any device clock.
            "times_us": [round(us, 4) for us in found.samples.us],
            "compared": found.compared,
            "counters": dict(found.samples.counters),
        }
    )


def when_now() -> str:
    """Return the time of a record, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
