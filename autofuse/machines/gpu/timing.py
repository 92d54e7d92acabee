"""Timing of functions of tensors on a card, and facts about the card."""

from __future__ import annotations

import datetime
import itertools
import platform
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from autofuse.base.diagnostics import AutofuseError
from autofuse.implgraph.ir.fusion import FusionGraph, Tensor
from autofuse.machines.twin.oracle.data import buffer_extent, divisors, positive_inputs
from autofuse.machines.twin.oracle.indices import place_extents
from autofuse.machines.twin.oracle.oracle import shape_of

__all__ = [
    "Timing",
    "busy",
    "card_at",
    "card_facts",
    "memory_bytes",
    "sampled",
    "spans",
    "timed",
    "timing_inputs",
]

#: Warm-up calls, and least number of timed calls.
WARM_UPS, ITERATIONS = 10, 100
#: Least microseconds of a captured graph, reached by repeating the call, and least replays.
_GRAPH_US, _REPLAYS = 1000.0, 10
#: Busy cycles of the card per call while the host fills its queue.
_CYCLES_PER_CALL = 600_000
#: Calls with a cleared L2 queued at once: the queue holds about a thousand launches.
_CLEARED_AT_ONCE = 32
#: Bytes written to clear L2, as a multiple of its size, and at least: the last bytes written stay in L2.
_CLEAR_TIMES, _LEAST_CLEARED = 4, 64 << 20
_QUERIED = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "power.limit")


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of one call on the card.

    Attributes:
        us: microseconds, the median over samples.
        least_us: the least sample.
        most_us: the largest one.
        calls: number of timed calls.
        method: ``graph``: replays of a captured CUDA graph; ``queue``: events around calls in a full queue.
    """

    us: float
    least_us: float
    most_us: float
    calls: int
    method: str


def timed(call: Callable[[], object], device: torch.device) -> Timing:
    """Return the time of a call, without host time.

    Ten calls warm up, a hundred or more are timed. L2 is as the previous call left it, which makes no difference to
    data larger than L2.

    Args:
        call: starts work on the current stream.
        device: a card.
    """
    with torch.cuda.device(device):
        stream = _warmed(call, WARM_UPS)
        calls = _calls_of_a_sample(call, stream)
        samples = max(_REPLAYS, -(-ITERATIONS // calls))
        taken, method = _taken(call, calls, samples, stream)
    return _timing(taken, calls, method)


def sampled(
    call: Callable[[], object], device: torch.device, *, warm_up: int, repeats: int, clear: bool
) -> tuple[list[float], str]:
    """Return time samples of one call, in microseconds and in order, with the method.

    With a warm L2 a sample is the mean over as many calls as take a millisecond; with a cleared L2 it is a single call.

    Args:
        call: starts work on the current stream.
        device: a card.
        warm_up: calls before the first timed one.
        repeats: samples.
        clear: write a buffer larger than L2 before each call, outside the timed span.

    Returns:
        The samples, and ``graph`` or ``queue`` as in :class:`Timing`.
    """
    with torch.cuda.device(device):
        stream = _warmed(call, warm_up)
        if clear:
            return _cleared(call, device, repeats, stream), "queue"
        calls = _calls_of_a_sample(call, stream)
        taken, method = _taken(call, calls, repeats, stream)
    return [us / calls for us in taken], method


def _warmed(call: Callable[[], object], warm_up: int) -> torch.cuda.Stream:
    """Return a stream on which the call has run."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        _repeat(call, warm_up)
    torch.cuda.synchronize()
    return stream


def _calls_of_a_sample(call: Callable[[], object], stream: torch.cuda.Stream) -> int:
    """Return the number of calls per sample that makes the resolution of the clock negligible."""
    with torch.cuda.stream(stream):
        busy(3)
        estimate = spans(lambda: _repeat(call, 3), 1)[0] / 3
    torch.cuda.synchronize()
    return max(1, min(ITERATIONS, round(_GRAPH_US / max(estimate, 1.0))))


def _taken(
    call: Callable[[], object], calls: int, samples: int, stream: torch.cuda.Stream
) -> tuple[list[float], str]:
    """Return the microseconds of samples of ``calls`` calls each, and the method."""
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            _repeat(call, calls)
    except RuntimeError:
        torch.cuda.synchronize()
        return _queued(call, calls, samples, stream), "queue"
    with torch.cuda.stream(stream):
        graph.replay()
        taken = spans(graph.replay, samples)
    torch.cuda.synchronize()
    return taken, "graph"


def _cleared(
    call: Callable[[], object], device: torch.device, samples: int, stream: torch.cuda.Stream
) -> list[float]:
    """Return the microseconds of single calls, with L2 cleared before each."""
    held = int(torch.cuda.get_device_properties(device).L2_cache_size)
    buffer = torch.empty(max(_CLEAR_TIMES * held, _LEAST_CLEARED), dtype=torch.uint8, device=device)
    taken: list[float] = []
    with torch.cuda.stream(stream):
        while len(taken) < samples:
            count = min(_CLEARED_AT_ONCE, samples - len(taken))
            busy(count)
            marks = [(_event(), _event()) for _ in range(count)]
            for start, end in marks:
                buffer.zero_()
                start.record()
                call()
                end.record()
            marks[-1][1].synchronize()
            taken += [1e3 * start.elapsed_time(end) for start, end in marks]
    torch.cuda.synchronize()
    return taken


def _queued(
    call: Callable[[], object], calls: int, samples: int, stream: torch.cuda.Stream
) -> list[float]:
    """Return microseconds of samples of ``calls`` calls each, for calls that cannot be captured."""
    with torch.cuda.stream(stream):
        taken = []
        for _ in range(samples):
            busy(calls)
            taken += spans(lambda: _repeat(call, calls), 1)
    torch.cuda.synchronize()
    return taken


def _timing(samples: Sequence[float], calls: int, method: str) -> Timing:
    each = sorted(s / calls for s in samples)
    return Timing(statistics.median(each), each[0], each[-1], calls * len(samples), method)


def _repeat(call: Callable[[], object], calls: int) -> None:
    for _ in range(calls):
        call()


def busy(calls: int) -> None:
    """Keep the card busy while the host queues some calls."""
    torch.cuda._sleep(_CYCLES_PER_CALL * calls)  # type: ignore[no-untyped-call]


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def spans(run: Callable[[], object], count: int) -> list[float]:
    """Return the microseconds of each run; all runs are queued before waiting for the first."""
    marks: list[Any] = [_event() for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    marks[-1].synchronize()
    return [1e3 * a.elapsed_time(b) for a, b in itertools.pairwise(marks)]


def timing_inputs(
    graph: FusionGraph, sizes: Mapping[str, int], device: torch.device, seed: int
) -> list[Any]:
    """Return a tensor per input, generated on the card: data of any size that are valid for every op.

    Args:
        graph: the graph.
        sizes: sizes of its symbols.
        device: the card.
        seed: seed of the data.

    Raises:
        AutofuseError: AF5003, the memory of the card does not hold them.
    """
    positive, nonzero, places = positive_inputs(graph), divisors(graph), place_extents(graph)
    source = torch.Generator(device).manual_seed(seed)
    made = []
    try:
        for name in graph.inputs:
            tensor, extent = graph.tensors[name], places.get(name)
            top = None if extent is None else max(extent.evaluate(sizes), 1)
            flat = _values(tensor, sizes, device, source, top, name in positive)
            if name in nonzero:
                flat[flat == 0] = 1
            offset, strides, _ = buffer_extent(tensor, sizes)
            made.append(flat.as_strided(shape_of(tensor.shape, sizes), strides, offset))
    except torch.cuda.OutOfMemoryError as e:
        text = f"{device} has too little memory for the inputs at {dict(sizes)}"
        raise AutofuseError.of("AF5003", text, hint="try smaller sizes") from e
    return made


def _values(
    tensor: Tensor,
    sizes: Mapping[str, int],
    device: torch.device,
    source: torch.Generator,
    top: int | None,
    positive: bool,
) -> torch.Tensor:
    """Return the memory of an input; ``top``: the indexed size, for an input of indices."""
    length = max(buffer_extent(tensor, sizes)[2], 1)
    dtype = getattr(torch, "bool" if tensor.dtype.kind == "b" else tensor.dtype.name)
    if tensor.dtype.kind == "f":
        drawn = torch.rand if positive else torch.randn
        flat = drawn(length, generator=source, device=device, dtype=dtype)
        return flat.add_(0.125) if positive else flat
    low, high = (0, 2) if tensor.dtype.kind in "bu" else (-100, 100)
    if top is not None:
        low, high = 0, top
    return torch.randint(low, high, (length,), generator=source, device=device).to(dtype)


def card_at(device: str) -> torch.device:
    """Return a card by PyTorch's name.

    Raises:
        AutofuseError: AF5001, there is no such card.
    """
    found = torch.device(device)
    if not torch.cuda.is_available() or (found.index or 0) >= torch.cuda.device_count():
        raise AutofuseError.of("AF5001", f"there is no device {device} here")
    return found


def memory_bytes(device: torch.device) -> int:
    """Return the card's total memory in bytes, not the free part, so that derived sizes are equal in every run."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def card_facts(device: torch.device) -> dict[str, str]:
    """Return name, driver, clocks (MHz), power limit (W), versions and ``when``, for records of measurements."""
    import triton

    index = torch.cuda.current_device() if device.index is None else device.index
    facts = {
        "device": torch.cuda.get_device_name(index),
        "torch": str(torch.__version__),
        "triton": str(triton.__version__),
        "cuda": str(torch.version.cuda),
        "python": platform.python_version(),
    }
    number = str(torch.cuda.get_device_properties(index).uuid)
    query = ["nvidia-smi", f"--id=GPU-{number}", f"--query-gpu={','.join(_QUERIED)}"]
    try:
        line = subprocess.run(
            [*query, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        pass  # a container without it has only the name
    else:
        facts |= dict(zip(_QUERIED, (v.strip() for v in line.split(",")), strict=True))
    now = datetime.datetime.now(datetime.timezone.utc)
    return {**facts, "when": now.isoformat(timespec="seconds")}
