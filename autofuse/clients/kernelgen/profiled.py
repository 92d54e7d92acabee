"""Nsight Compute counters of a kernel on a card: L2 hit rate, and utilisation of multiprocessors.

    python -m autofuse.clients.kernelgen.profiled FILE    is the profiled process

:func:`profiled` writes FILE.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.kernelgen.operator import Operator
from autofuse.clients.kernelgen.state_format import Profile, Record, Settings, State
from autofuse.clients.kernelgen.testing.speed import Bench
from autofuse.machines.gpu.profiler import Counted, counters, part
from autofuse.machines.twin.verify.verify import pack, unpack
from autofuse.machines.words import card_index

__all__ = ["profiled"]

#: Nanoseconds; requests to L2 and their hit rate (%); the busiest unit of a multiprocessor (%).
_METRICS = (
    "gpu__time_duration.sum",
    "lts__t_sectors.sum",
    "lts__t_sector_hit_rate.pct",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
)
_HOW = "Nsight Compute, L2 empty before each kernel"


def profiled(state: State, operator: Operator, *, again: bool = False) -> State:
    """Add counters of the initial kernel of each round, from one call with its largest sizes.

    Args:
        state: state whose rounds ran on a card.
        operator: operator of the kernels.
        again: also recount known counters.

    Raises:
        AutofuseError: AF5007, the rounds did not run on a card; AF5001, there is no ``ncu``, or no card; AF5003,
            ``ncu`` cannot count.
    """
    if operator.target.chip:
        text = (
            f"Nsight Compute needs an NVIDIA card, but the kernels are for {operator.target.chip}"
        )
        hint = "on a machine with the chip, run msprof with NAME_performance.py of --names document"
        raise AutofuseError.of("AF5007", text, hint=hint)
    ran = [r for r in state.rounds if any(s.kernel is not None for s in r.speeds)]
    if card_index(state.device) is None or not ran:
        text = f"no round of {state.operator} ran on a card: there is nothing to profile"
        raise AutofuseError.of("AF5007", text, hint="autofuse kernelgen tune FOLDER --device cuda")
    wanted = {_key(r.before): r for r in ran if again or r.profile == Profile()}
    if not wanted:
        return state
    with Bench(state.device) as bench:
        pass
    jobs = []
    for r in wanted.values():
        pair = operator.pair(r.before)
        how = {"entry": pair.entry, "device": state.device, "call": pair.call}
        payload = pack(({"module": pair.kernel}, pair.graph, how))
        jobs.append({"module": payload, "sizes": r.speeds[-1].sizes})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.json"
        file.write_text(json.dumps(jobs), encoding="utf-8")
        parts = counters(["-m", __spec__.name, str(file)], _METRICS, Path(folder))
    found = {k: _profile(kernels, bench) for k, kernels in zip(wanted, parts, strict=True)}
    rounds = (
        r.model_copy(update={"profile": found.get(_key(r.before), r.profile)}) for r in state.rounds
    )
    return state.but(rounds=tuple(rounds))


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


def _profile(kernels: Sequence[Counted], bench: Bench) -> Profile:
    """Return averages over all kernels of a call: hit rate weighted by L2 requests, utilisation by time."""

    def mean(weight: int, value: int) -> Record | None:
        total = sum(k.values[weight] for k in kernels)
        whole = sum(k.values[weight] * k.values[value] for k in kernels)
        return bench.measured(whole / total, "%", profiler=_HOW) if total else None

    return Profile(cache_hit=mean(1, 2), core_use=mean(0, 3))


def main(file: Path) -> None:
    """Call every kernel of a file once under the profiler, after a call that compiles it."""
    import autofuse.machines.gpu.timing as card
    from autofuse.machines.gpu.loading import function_here

    for job in json.loads(file.read_text(encoding="utf-8")):
        texts, graph, options = unpack(job["module"])
        entry, device, call = options["entry"], options["device"], options["call"]
        module = function_here(texts["module"], graph, entry, device, call=call)
        inputs = card.timing_inputs(module.graph, job["sizes"], module.device, seed=0)
        keywords = module.keywords(job["sizes"])
        module.function(*inputs, **keywords)
        with part():
            module.function(*inputs, **keywords)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
