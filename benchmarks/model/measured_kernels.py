"""Kernels with public times on silicon, described for the cost model.

There are two sources.  ``npu_times.csv`` (in the folder ``facts`` of ../shared, or of AUTOFUSE_SHARED) has times of
CANN's own kernels, collected by cann-bench on 910B2 and 950PR; only kernels with a forced schedule count: one or two
loads of the same contiguous shape, element-wise calls, one store.  The other source is the series of the asc-devkit
examples ``add_high_performance`` and ``data_copy``, with documented tiles and queues; their figures are below.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autofuse.measure.calibration.written import Body, Loop, Work
from autofuse.schedule.cost.cost import Call, Conflict, Copy, Reach
from autofuse.targets import TargetSpec, load_chip

__all__ = [
    "CHIPS",
    "Case",
    "Point",
    "chip_of_cases",
    "facts_folder",
    "forced",
    "read_cases",
    "series",
    "work_of",
]

#: Names in npu_times.csv -> targets.
CHIPS = {"910b2": "ascend910b2", "950pr": "ascend950pr"}

#: Overrides for CANN's own kernels, which work on registers: a chain of calls is one function, whose independent
#: instructions are issued two at a time.  The target file describes generated code, where every call works on memory.
_ON_REGISTERS = {"model.vector_fused": 1.0, "model.vector_issue": 2.0, "model.vector_gap": 0.0}


def chip_of_cases(chip: str) -> TargetSpec:
    """Return the chip for a key of ``CHIPS``, with figures for CANN's kernels."""
    target = load_chip(CHIPS[chip])
    return target.with_values(_ON_REGISTERS) if chip == "950pr" else target


#: Assumed tile bytes of CANN's element-wise kernels, in their compute type.
TILE_BYTES = 16384

BYTES = {"int8": 1, "float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "int64": 8}

#: Vector calls of the shortest known formula, in order; ``binary`` ones have two tensor operands.
#: Sigmoid: 1 / (1 + exp(-x)).  Gelu: x / (1 + exp(-1.59577 (x + 0.044715 x^3))), the tanh form; both modes of the op
#: take the same time on both chips.
FORMULAS = {
    "sigmoid": ("unary", "exp", "unary", "div"),
    "gelu": ("binary", "binary", "unary", "binary", "unary", "exp", "unary", "div"),
    "maximum": ("binary",),
}
#: Ops computed in float32 even for 16-bit tensors.
IN_FLOAT32 = {"sigmoid", "gelu"}


@dataclass(frozen=True, slots=True)
class Case:
    """One row of npu_times.csv; ``us``: measured."""

    chip: str
    op: str
    number: int
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    us: float

    @property
    def elements(self) -> int:
        """Number of elements of the result."""
        return math.prod(max(sizes) for sizes in zip(*_aligned(self.shapes), strict=True))


def _aligned(shapes: Sequence[Sequence[int]]) -> list[list[int]]:
    rank = max(map(len, shapes))
    return [[1] * (rank - len(s)) + list(s) for s in shapes]


def facts_folder() -> Path:
    """Return the folder of npu_times.csv."""
    beside = Path(__file__).resolve().parents[3] / "shared"
    return Path(os.environ.get("AUTOFUSE_SHARED") or beside) / "facts"


def read_cases(path: Path, chip: str) -> list[Case]:
    """Return the measured rows of a chip, without capped or estimated ones.

    Raises:
        OSError, ValueError: the file cannot be read, or is not such a table.
    """
    with path.open(encoding="utf-8", newline="") as f:
        rows = [r for r in csv.DictReader(f) if r["chip"] == chip and r["status"] == "measured"]
    return [
        Case(
            chip,
            r["op"],
            int(r["case"]),
            tuple(tuple(s) for s in json.loads(r["input_shape"])),
            json.loads(r["dtype"])[0],
            float(r["time_us"]),
        )
        for r in rows
    ]


def forced(case: Case) -> bool:
    """Return True if the schedule is forced: no broadcast, and a dtype with vector calls."""
    return len(set(case.shapes)) == 1 and case.dtype != "int64" and case.op in FORMULAS


def work_of(case: Case, target: TargetSpec) -> Work:
    """Return a case as one double-buffered loop per core, with equal shares for all cores."""
    calls, bits = _calls(case.op, case.dtype)
    itemsize, loads = BYTES[case.dtype], len(case.shapes)
    share = -(-case.elements // target.aiv_cores)
    iterations = max(1, -(-share // (TILE_BYTES * 8 // bits)))
    tile = -(-share // iterations)
    copy = Copy(1, 1, tile * itemsize)
    # A chain on registers reads only loaded data from UB; CANN's kernels do not avoid bank conflicts.
    in_ub = not target.model.vector_fused or loads == 2
    made = tuple(
        Call(kind, tile, width, Conflict.SOURCES if kind == "binary" and in_ub else Conflict.NONE)
        for kind, width in calls
    )
    body = Body((copy,) * loads, made, (copy,))
    return Work(target.aiv_cores, (Loop(body, iterations),))


def _calls(op: str, dtype: str) -> tuple[list[tuple[str, int]], int]:
    """Return the vector calls with their width, and the bits of the compute type."""
    kinds = FORMULAS[op]
    wide = {"bfloat16": 32, "int8": 16}.get(dtype, 8 * BYTES[dtype])
    wide = 32 if op in IN_FLOAT32 else wide
    calls = [(kind, wide) for kind in kinds]
    if wide != 8 * BYTES[dtype]:
        operands = 2 if op == "maximum" else 1
        calls = [("cast", wide)] * operands + calls + [("cast", wide)]
    return calls, wide


@dataclass(frozen=True, slots=True)
class Point:
    """One figure of a documented series.

    Attributes:
        us: measured microseconds.
        what: the field of ``Cost`` that it measures.
        sets: the figure of the chip's table that its source derives from this experiment; empty if the model predicts
            it.
    """

    chip: str
    name: str
    work: Work
    us: float
    what: str = "total"
    sets: str = ""


def series() -> Iterator[Point]:
    """Yield the points of both examples, with task times in microseconds."""
    yield from _adds("910b2", 48, 16384, (6909.6, 306.58, 268.5, 264.02, 187.68))
    yield from _adds("950pr", 64, 21760, (8924.021, 310.489, 251.684, 247.665, 182.04))
    half = 67_108_864
    yield Point(
        "910b2",
        "Add, both buffers, bypass, no bank conflicts",
        _add(48, half, 16256, 2, bypass=True, conflict=Conflict.NONE),
        184.52,
    )
    for name, us, conflict in (
        ("Add vector time, operands collide", 12.846, Conflict.SOURCES),
        ("Add vector time, no bank conflicts", 6.954, Conflict.NONE),
    ):
        tile = 16384 if conflict is Conflict.SOURCES else 16256
        work = _add(48, half, tile, 2, bypass=True, conflict=conflict)
        yield Point("910b2", name, work, us, "vector")
    yield from _copies("910b2", 48, (564.84, 233.54, 215.82, 275.3, 828.06, 365.74))
    yield from _copies("950pr", 64, (884.06, 208.64, 188.52, 192.07, 741.58, 354.95))
    yield from _all_read("910b2", 48, 6144, 539.42, 328.88)
    yield from _all_read("950pr", 64, 8192, 342.29, 335.64)


def _adds(chip: str, cores: int, tile: int, us: Sequence[float]) -> Iterator[Point]:
    """Yield Add of two 8192 x 8192 matrices of half, cases 1 to 5."""
    n = 67_108_864
    kib = f"{tile * 2 // 1024} KiB"
    one = _add(1, n, 4096, 1)
    small, large = (_add(cores, n, t, 1, serial=True) for t in (4096, tile))
    both, bypass = (_add(cores, n, tile, 2, bypass=b) for b in (False, True))
    yield Point(chip, "Add, one core, 8 KiB", one, us[0], sets="load_core_rate")
    name = "Add, all cores, 8 KiB, nothing overlaps"
    yield Point(chip, name, small, us[1], sets="load_latency")
    name = f"Add, all cores, {kib}, nothing overlaps"
    yield Point(chip, name, large, us[2], sets="load_latency")
    yield Point(chip, f"Add, both buffers, {kib}", both, us[3])
    yield Point(chip, f"Add, both buffers, {kib}, inputs bypass L2", bypass, us[4])


def _add(
    cores: int,
    n: int,
    tile: int,
    buffers: int,
    *,
    serial: bool = False,
    bypass: bool = False,
    conflict: Conflict = Conflict.SOURCES,
) -> Work:
    copy = Copy(1, 1, 2 * tile)
    call = Call("binary", tile, 16, conflict)
    body = Body((copy, copy), (call,), (copy,), buffers, chained=serial, bypass=bypass)
    return Work(cores, (Loop(body, -(-n // (tile * cores))),))


def _copies(chip: str, cores: int, us: Sequence[float]) -> Iterator[Point]:
    """Yield loads of a 12288 x 12288 matrix of half, scenarios 1 to 6."""
    by_row = _load(cores, 192, 64, commands=192)
    yield Point(chip, "load, 128 B per command", by_row, us[0], sets="load_issue")
    yield Point(chip, "load, 64 rows of 128 B", _load(cores, 64, 64), us[1], sets="row")
    yield Point(chip, "load, 64 rows of 2 KiB", _load(cores, 64, 1024), us[2], sets="read_gbs")
    yield Point(chip, "load, 64 rows of 2 KiB, unaligned", _load(cores, 64, 1024, align=2), us[3])
    yield Point(chip, "302 MB four times", _load(cores, 64, 1024, times=4), us[4])
    yield Point(
        chip,
        "75 MB four times, four of them",
        _load(cores, 64, 1024, again=3),
        us[5],
        sets="l2_read_gbs",
    )


def _load(
    cores: int,
    rows: int,
    columns: int,
    *,
    commands: int = 1,
    align: int = 512,
    times: int = 1,
    again: int = 0,
) -> Work:
    """Return the work of a load; ``times``: passes over all data; ``again``: further passes over each quarter in L2."""
    n = 12288 * 12288
    rounds = again + 1
    tiles = -(-n // (rows * columns * cores * rounds))

    def loop(reach: Reach, passes: int) -> Loop:
        return Loop(Body((Copy(commands, rows, 2 * columns, align, reach),)), tiles * passes)

    loops = [loop(Reach.MEMORY, times)] + ([loop(Reach.L2, again)] if again else [])
    return Work(cores, tuple(loops), rounds=rounds)


def _all_read(chip: str, cores: int, rows: int, same: float, other: float) -> Iterator[Point]:
    """Yield loads by every core of the same matrix of 512 columns, in tiles of 128 x 64."""
    for name, us, reach, figure in (
        ("all cores read the same, in the same order", same, Reach.SAME_ORDER, "same_order_gbs"),
        ("all cores read the same, at different places", other, Reach.SHARED, "shared_gbs"),
    ):
        body = Body((Copy(1, 128, 128, reach=reach),))
        yield Point(chip, name, Work(cores, (Loop(body, rows // 128 * 8),)), us, sets=figure)
