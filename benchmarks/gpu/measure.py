"""Timing on a device, and the bandwidth of a copy."""

from __future__ import annotations

import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rows import Tensors

from autofuse.machines.gpu.timing import spans

#: Elements (float32) of the copy that defines the roof: in a normal run, and in a tiny one.
_COPIED = (1 << 28, 1 << 16)
#: Minimum microseconds of one captured graph, reached by repeating the call in it, and its maximum number of calls.
_GRAPH_US, _MOST_CALLS = 1000.0, 100
#: Microseconds of all replays together, and their minimum and maximum number.
_REPLAYS_US, _LEAST_REPLAYS, _MOST_REPLAYS = 100_000.0, 9, 60
#: Cycles per call that keep the device busy while the host fills its queue.
_CYCLES_PER_CALL = 600_000
#: Minimum and maximum calls for the host time, and the maximum microseconds that they keep the device busy.
_HOST_CALLS, _HOST_US = (5, 50), 20_000.0

#: Minimum and maximum calls on a CPU, and the microseconds from which the minimum is enough.
_CPU_CALLS, _CPU_US = (5, 300), 300_000.0

_QUERIED = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "clocks.max.mem",
    "power.limit",
    "temperature.gpu",
)


@dataclass(frozen=True)
class Timing:
    """Time of one call.

    Attributes:
        us: microseconds on the device, the median.
        least_us: the smallest sample.
        most_us: the largest sample.
        method: ``graph``: replays of a captured CUDA graph; ``queue``: events around calls in a full queue; ``cpu``.
        why: why no graph could be captured.
        host_us: microseconds of the host per call, without waiting for the device.
        results: results of the last timed call, with buffers poisoned before it where possible.
    """

    us: float
    least_us: float
    most_us: float
    method: str
    why: str
    host_us: float
    results: Tensors


def timed(prepare: Callable[[], Callable[[], Tensors]], keep: Tensors, device: str) -> Timing:
    """Time a call.

    Args:
        prepare: makes the call; runs on the stream of the timed call, as a backward graph requires.
        keep: tensors that may alias results and must not be written.
        device: ``cuda`` or ``cpu``.

    L2 is as the last call left it; this does not affect data larger than L2.
    """
    if device == "cpu":
        return _timed_on_cpu(prepare())
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call = prepare()
        for _ in range(3):
            call()
        torch.cuda._sleep(_CYCLES_PER_CALL * 3)
        estimate = _between(lambda: _repeat(call, 3)) / 3
        host = _host_us(call, estimate)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    calls = max(1, min(_MOST_CALLS, round(_GRAPH_US / max(estimate, 1.0))))
    replays = round(_REPLAYS_US / max(calls * estimate, 1.0))
    replays = max(_LEAST_REPLAYS, min(_MOST_REPLAYS, replays))
    try:
        graph, results = _captured(call, calls, stream)
    except Exception as e:
        torch.cuda.synchronize()
        return _queued(call, calls, replays, stream, keep, host, f"{type(e).__name__}: {e}")
    with torch.cuda.stream(stream):
        graph.replay()
        samples = spans(graph.replay, replays)
        _poison(results, keep)
        graph.replay()
    torch.cuda.synchronize()
    # The graph owns the memory of the results; it can be freed now, because nothing replays it.
    return _timing(samples, calls, "graph", "", host, results)


def copy_gbs(device: str, tiny: bool) -> float:
    """Return GB/s, read plus written, of a copy of 2^28 float32: the best of several, as other processes may be ending.

    In a CUDA graph, a copy is a different command and a fifth slower, so it is timed in a queue.
    """
    x = torch.rand(_COPIED[tiny], device=device)
    y = torch.empty_like(x)

    def copied() -> Tensors:
        return (y.copy_(x),)

    if device == "cpu":
        return 2 * x.nbytes / _timed_on_cpu(copied).us / 1e3
    us = []
    for k in range(3):
        time.sleep(k)
        us += [_between(lambda: _repeat(copied, 5)) / 5 for _ in range(5)]
    return 2 * x.nbytes / min(us) / 1e3


def device_facts(device: str) -> dict[str, Any]:
    """Return device, clocks (MHz), power limit (W), driver and versions, for the files of results."""
    facts: dict[str, Any] = {"torch": torch.__version__, "python": platform.python_version()}
    if device == "cpu":
        return facts | {"name": platform.processor() or platform.machine()}
    import triton

    facts |= {"triton": triton.__version__, "cuda": torch.version.cuda}
    card = torch.cuda.get_device_properties(0)
    facts["l2_bytes"] = card.L2_cache_size
    query = ["nvidia-smi", f"--query-gpu={','.join(_QUERIED)}", "--format=csv,noheader,nounits"]
    # With several cards, this process may number them differently.
    query.append(f"--id=GPU-{card.uuid}")
    try:
        line = subprocess.run(query, capture_output=True, text=True, check=True).stdout
        facts |= dict(
            zip(_QUERIED, (v.strip() for v in line.splitlines()[0].split(",")), strict=True)
        )
    except (OSError, subprocess.CalledProcessError) as e:
        facts |= {"name": torch.cuda.get_device_name(), "nvidia-smi": str(e)}
    return facts


def _captured(
    call: Callable[[], Tensors], calls: int, stream: torch.cuda.Stream
) -> tuple[torch.cuda.CUDAGraph, Tensors]:
    """Capture some calls in a graph; return it and the results of the last call."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        results = _repeat(call, calls)
    return graph, results


def _queued(
    call: Callable[[], Tensors],
    calls: int,
    replays: int,
    stream: torch.cuda.Stream,
    keep: Tensors,
    host_us: float,
    why: str,
) -> Timing:
    """Time calls with events; they wait in the queue while the device is kept busy."""
    with torch.cuda.stream(stream):
        samples = []
        for _ in range(replays):
            torch.cuda._sleep(_CYCLES_PER_CALL * calls)
            samples.append(_between(lambda: _repeat(call, calls)))
        # The next call reuses the memory that this one frees.
        _poison(call(), keep)
        results = call()
    torch.cuda.synchronize()
    return _timing(samples, calls, "queue", why, host_us, results)


def _timed_on_cpu(call: Callable[[], Tensors]) -> Timing:
    # One thread is timed in processor time, which other processes hardly change.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    results = call()
    samples: list[float] = []
    least, most = _CPU_CALLS
    while len(samples) < least or (sum(samples) < _CPU_US and len(samples) < most):
        start = clock()
        results = call()
        samples.append(1e6 * (clock() - start))
    return _timing(samples, 1, "cpu", "", statistics.median(samples), results)


def _timing(
    samples: list[float], calls: int, method: str, why: str, host_us: float, results: Tensors
) -> Timing:
    per_call = sorted(s / calls for s in samples)
    return Timing(
        statistics.median(per_call), per_call[0], per_call[-1], method, why, host_us, results
    )


def _repeat(call: Callable[[], Tensors], calls: int) -> Tensors:
    """Repeat a call and return the last results; memory of earlier results is freed before the next call."""
    for _ in range(calls - 1):
        call()
    return call()


def _between(work: Callable[[], Any]) -> float:
    """Return the microseconds on the device of the work queued on the current stream."""
    return spans(work, 1)[0]


def _host_us(call: Callable[[], Tensors], device_us: float) -> float:
    """Return the host's microseconds for a call, while the device is busy with other work."""
    torch.cuda.synchronize()
    torch.cuda._sleep(_CYCLES_PER_CALL * 10)
    times = []
    least, most = _HOST_CALLS
    for _ in range(max(least, min(most, round(_HOST_US / max(device_us, 1.0))))):
        start = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - start))
    torch.cuda.synchronize()
    return statistics.median(times)


def _poison(results: Tensors, keep: Tensors) -> None:
    """Overwrite results with values that no op computes, unless they share memory with other tensors."""
    kept = {k.untyped_storage().data_ptr() for k in keep}
    for r in results:
        if r.untyped_storage().data_ptr() not in kept:
            r.fill_(
                float("nan") if r.is_floating_point() else True if r.dtype == torch.bool else 113
            )
