"""Works of the cost model that tell its figures apart, with times that the model itself gives, and noise."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from autofuse.measure.calibration.fitting import Observation
from autofuse.measure.calibration.written import Body, Loop, Work, evaluate
from autofuse.schedule.cost.cost import Call, Conflict, Copy, Reach
from autofuse.targets import TargetSpec

__all__ = ["observations", "works"]

_KIB = 1024


@dataclass(frozen=True)
class Case:
    """A work, and what it is about."""

    kind: str
    work: Work


def works(target: TargetSpec) -> dict[str, Case]:
    """Works by name."""
    found: dict[str, Case] = {}
    for kind, work in _works(target):
        found[f"{kind}_{len(found)}"] = Case(kind, work)
    return found


def _works(target: TargetSpec) -> Iterator[tuple[str, Work]]:
    cores = target.aiv_cores
    for n in (1, cores // 4, cores // 2, cores):
        yield "start", Work(n, ())
    for barriers in (1, 4, 16):
        yield "sync", Work(cores, (), barriers=barriers)
    for kib in (1, 4, 16, 64):
        for n in (1, cores // 4, cores):
            copy = Copy(1, 1, kib * _KIB)
            turns = max(1, (1 << 22) // copy.nbytes // max(1, n // 8))
            yield "load", _loop(n, turns, loads=(copy,))
            yield "store", _loop(n, turns, stores=(copy,))
            hot = Copy(1, 1, kib * _KIB, reach=Reach.L2)
            yield "l2", _loop(n, turns, loads=(hot,))
    for turns in (1, 2):
        yield "load", _loop(1, turns, loads=(Copy(1, 1, 32),), buffers=1)
    for kib in (16, 64):
        for reach in (Reach.SHARED, Reach.SAME_ORDER):
            copy = Copy(1, 1, kib * _KIB, reach=reach)
            yield "shared", _loop(cores, (6 << 20) // copy.nbytes, loads=(copy,))
        copy = Copy(1, 1, kib * _KIB)
        yield "spill", _loop(cores, (512 << 20) // cores // copy.nbytes, stores=(copy,))
    for rows, nbytes in ((64, 64), (64, 512), (256, 128), (64, 16), (256, 16)):
        yield "rows", _loop(1, 200, loads=(Copy(1, rows, nbytes),), buffers=1)
    for turns in (100, 1000):
        yield "scalar", _loop(1, turns)
        yield "scalar", _loop(1, turns, scalar_reads=16)
    for name, row in target.vector.items():
        if not row.rate32:
            continue
        for bits in (16, 32):
            for count in (64, 512, 8192):
                for waits in (0, 8):
                    call = Call(name, 8 * count, bits, calls=8, waits=waits)
                    yield f"vector_{name}", _loop(1, 300, calls=(call,))
    for conflict in (Conflict.SOURCES, Conflict.RESULT):
        for count in (1024, 8192):
            call = Call("binary", 8 * count, 32, conflict, calls=8, waits=0)
            yield "conflict", _loop(1, 300, calls=(call,))


def _loop(
    cores: int,
    turns: int,
    *,
    loads: tuple[Copy, ...] = (),
    calls: tuple[Call, ...] = (),
    stores: tuple[Copy, ...] = (),
    buffers: int = 2,
    scalar_reads: int = 0,
) -> Work:
    body = Body(loads, calls, stores, buffers=buffers, scalar_reads=scalar_reads)
    return Work(cores, (Loop(body, turns),))


def observations(
    cases: Mapping[str, Case],
    hidden: TargetSpec,
    *,
    noise: float = 0.05,
    repeats: int = 20,
    outliers: float = 0.04,
    lacks: Callable[[str, Work], float] = lambda _kind, _work: 0.0,
    seed: int = 1,
) -> list[Observation]:
    """What the model of a hidden chip measures.

    Args:
        cases: of :func:`works`.
        hidden: the chip.
        noise: standard deviation of a time, as a part of it.
        repeats: of each.
        outliers: the part of the kernels that take two to four times as long, every time.
        lacks: microseconds of a kernel that the model knows nothing of.
        seed: of the noise.
    """
    found = []
    rng = random.Random(seed)
    for name, case in cases.items():
        us = evaluate(case.work, hidden).total + lacks(case.kind, case.work)
        us *= rng.uniform(2.0, 4.0) if rng.random() < outliers else 1.0
        times = [us * rng.gauss(1.0, noise) for _ in range(repeats)]
        error = 1.2533 * statistics.stdev(times) / us / repeats**0.5
        found.append(
            Observation(
                name,
                name,
                case.kind,
                statistics.median(times),
                error,
                lambda chip, work=case.work: evaluate(work, chip).total,  # type: ignore[misc]
                _depends(case.work, hidden),
            )
        )
    return found


def _depends(work: Work, target: TargetSpec) -> frozenset[str]:
    """All figures but those of vector calls that the work has none of."""
    kinds = {c.kind for loop in work.loops for c in loop.body.calls}
    names = (f.name for f in target.figures())
    return frozenset(n for n in names if n[:7] != "vector." or n.split(".")[1] in kinds)
