"""The calibration kernels and sizes that ``autofuse silicon`` runs, and the figures that each case determines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from autofuse.measure.calibration.instructions import INSTRUCTIONS, Instruction
from autofuse.measure.calibration.programs import PROGRAMS, Program, checked_parameters, program_of
from autofuse.measure.calibration.written import Work, evaluate
from autofuse.targets import TargetSpec

__all__ = ["Case", "calibration_cases", "case_work"]

#: Approximate cycles of a loop of vector calls or reads, so that the kernel's start is a tenth of its time.
_CYCLES = 50_000


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a calibration kernel.

    Attributes:
        name: unique; words with dots between them.
        program: name of the kernel.
        parameters: its sizes.
        figures: figures of the model that its time is designed to determine, by the names of ``TargetSpec.figures()``;
            empty for a case that only checks the model.
        l2: L2 before each run: ``clear`` if data must come from memory.
        risk: order of the runs: 0 for common operations, higher for operations never seen to run on a chip.
    """

    name: str
    program: str
    parameters: Mapping[str, int]
    figures: tuple[str, ...]
    l2: str = "warm"
    risk: int = 0

    def work(self, target: TargetSpec) -> Work:
        """Return the work of the kernel, for the cost model."""
        return case_work(self.program, self.parameters, target)

    def model_us(self, target: TargetSpec) -> float:
        """Return its modelled time in microseconds."""
        return evaluate(self.work(target), target).total


def case_work(program: str, parameters: Mapping[str, int], target: TargetSpec) -> Work:
    """Return the work of a bundle's kernel, for the cost model.

    Raises:
        AutofuseError: AF1403, there is no such kernel, or it does not accept these sizes on the chip.
    """
    found = program_of(program)
    return found.work(checked_parameters(found, parameters, target), target)


@lru_cache(maxsize=8)
def calibration_cases(target: TargetSpec) -> tuple[Case, ...]:
    """Return the cases for a chip, from safe to risky; names are unique."""
    cases = [
        *_starts(target),
        *_copies(target),
        *_scalars(),
        *_vectors(target),
        *_tensors(target),
        *_barriers(target),
        *_hints(target),
        *_larger_than_l2(target),
    ]
    order = sorted(range(len(cases)), key=lambda i: (cases[i].risk, i))
    return tuple(cases[i] for i in order)


def _counts_of_cores(target: TargetSpec) -> tuple[int, ...]:
    """Return core counts: one, all, and some in between."""
    most = target.aiv_cores
    return tuple(sorted({1, max(1, most // 6), max(1, most // 3), max(1, 2 * most // 3), most}))


def _starts(target: TargetSpec) -> Iterator[Case]:
    for cores in _counts_of_cores(target):
        figures = ("kernel_head_us", "model.core_start")[: 1 if cores == 1 else 2]
        yield Case(f"start.c{cores}", "start", {"cores": cores}, figures)


def _load(
    name: str, figures: tuple[str, ...], *, program: str = "load", risk: int = 0, **sizes: int
) -> Case:
    """Return a case of loads; defaults are one row per tile, two buffers, own data, once."""
    row = sizes["row"]
    usual = {
        "readers": sizes["cores"],
        "rounds": 1,
        "rows": 1,
        "pitch": row,
        "depth": 2,
        "stagger": 0,
        "bypass": 0,
        "kept": min(row, 8),
    }
    return Case(f"load.{name}", program, {**usual, **sizes}, figures, "clear", risk)


def _copies(target: TargetSpec) -> Iterator[Case]:
    most = target.aiv_cores
    issue = ("model.load_issue", "model.load_core_rate")
    # One core, commands of one block to 32 KiB: the cost of a command, and the rate.
    for row, tiles in ((8, 256), (64, 128), (256, 64)):
        yield _load(f"eight.r{row}", issue, program="load_8", cores=1, tiles=tiles, row=row)
    for row, tiles in ((2048, 128), (8192, 32)):
        yield _load(f"one.r{row}", issue, cores=1, tiles=tiles, row=row)
    for row, tiles in ((256, 256), (2048, 64)):
        name = f"single.r{row}"
        yield _load(name, ("model.load_latency",), cores=1, tiles=tiles, row=row, depth=1)
    for rows, row in ((32, 128), (64, 64), (128, 16)):
        yield _load(
            f"rows.{rows}x{row}", ("model.row",), cores=1, tiles=64, rows=rows, row=row, pitch=256
        )
    if target.arch.has_datacopypad:
        for row in (2, 4):
            yield _load(
                f"short.{row}",
                ("model.short_row",),
                cores=1,
                tiles=32,
                rows=64,
                row=row,
                pitch=256,
            )
    # All cores: the bandwidth of memory, of L2, and of data that all cores read.
    for cores, tiles in ((most // 2, 24), (most, 16), (most, 32)):
        name = f"memory.c{cores}.t{tiles}"
        yield _load(name, ("model.read_gbs",), cores=cores, tiles=tiles, row=8192)
    for rounds in (16, 48):
        figures = ("model.hot_core_rate",)
        yield _load(f"hot.x{rounds}", figures, cores=1, tiles=2, row=8192, rounds=rounds)
        name = f"l2.c{most}.x{rounds}"
        yield _load(name, ("model.l2_read_gbs",), cores=most, tiles=2, row=8192, rounds=rounds)
    for tiles in (most, 2 * most):
        name = f"shared.t{tiles}"
        yield _load(
            name,
            ("model.shared_gbs",),
            cores=most,
            readers=1,
            tiles=tiles,
            row=4096,
            stagger=1,
        )
        name = f"same_order.t{tiles}"
        yield _load(name, ("model.same_order_gbs",), cores=most, readers=1, tiles=tiles, row=4096)
    stores = ("model.store_issue", "model.store_core_rate")
    for row, tiles in ((8, 512), (256, 512), (2048, 128), (8192, 64)):
        yield _store(f"one.r{row}", stores, cores=1, tiles=tiles, row=row)
    for tiles in (32, 64):
        yield _store(f"all.t{tiles}", ("model.store_core_rate",), cores=most, tiles=tiles, row=8192)
    # Stores alone do not saturate GM; together with loads they do.
    both = ("model.read_gbs", "model.write_gbs")
    for cores, row, tiles in ((1, 2048, 64), (most, 1024, 64), (most, 4096, 48), (most, 4096, 96)):
        sizes = {"cores": cores, "tiles": tiles, "row": row}
        told = both if row == 4096 else ()
        yield Case(f"copy.c{cores}.r{row}.t{tiles}", "copy", sizes, told, "clear")


def _store(name: str, figures: tuple[str, ...], *, risk: int = 0, **sizes: int) -> Case:
    return Case(f"store.{name}", "store", sizes, figures, "warm", risk)


def _tensors(target: TargetSpec) -> Iterator[Case]:
    """Yield kernels with many tensors: the model has no cost per tensor, and these show whether the chip has."""
    for cores in _counts_of_cores(target)[::2]:
        yield Case(f"tensors.c{cores}", "tensors", {"cores": cores}, (), "clear")


def _scalars() -> Iterator[Case]:
    for reads, turns in ((2, 1000), (16, 250), (16, 500)):
        name, program = f"scalar.{reads}.t{turns}", f"scalar_{reads}"
        figures = ("model.loop", "model.scalar_read")
        yield Case(name, program, {"cores": 1, "turns": turns}, figures)


def _vectors(target: TargetSpec) -> Iterator[Case]:
    for call in INSTRUCTIONS:
        if call.kind in target.vector:
            yield from _calls(call, target)
    if not target.arch.bank_halves:
        return
    # One call with its operands in different banks; a block is 32 bytes.
    for shift_b, shift_c, figure in (
        (8, 0, "sources"),
        (4, 0, "sources"),
        (0, 1, "result"),
        (0, 4, "result"),
    ):
        yield _call(
            f"banks.{figure}.{shift_b}.{shift_c}",
            PROGRAMS["vector_binary_32"],
            target,
            (f"model.conflict_{figure}",),
            risk=1,
            count=1024,
            shift_b=shift_b,
            shift_c=shift_c,
        )


def _calls(call: Instruction, target: TargetSpec) -> Iterator[Case]:
    program = PROGRAMS[f"vector_{call.name}"]
    row = f"vector.{call.kind}"
    square = call.reads == "aa"
    figures = () if square else (f"{row}.head", f"{row}.rate{call.bits}")
    # Functions of the library take scratch and many instructions; tables of the chip's own come before these.
    risk = 2 if call.more > 8192 else 1 if square else 0
    # The first determine heads, the last rates.
    counts = (call.least, max(call.least, call.most // 4), call.most)
    for count in sorted(set(counts[square:])):
        yield _call(f"{call.name}.n{count}", program, target, figures, risk=risk, count=count)
    if call.name in ("unary_32", "binary_32"):
        yield _call(
            f"{call.name}.chained",
            program,
            target,
            (*figures, "model.vector_gap"),
            count=128,
            chained=1,
        )


def _call(
    name: str,
    program: Program,
    target: TargetSpec,
    figures: tuple[str, ...],
    *,
    risk: int = 0,
    **sizes: int,
) -> Case:
    """Return a case of vector calls that takes about :data:`_CYCLES` by the model, on one core."""
    parameters = {"cores": 1, "turns": 1, "chained": 0, "shift_b": 0, "shift_c": 0, **sizes}
    few, more = (
        evaluate(program.work({**parameters, "turns": n}, target), target).total for n in (100, 200)
    )
    cycles = max(1.0, (more - few) * target.clock_mhz / 100)
    parameters["turns"] = max(8, min(1000, round(_CYCLES / cycles)))
    return Case(f"vector.{name}", program.name, parameters, figures, "warm", risk)


def _barriers(target: TargetSpec) -> Iterator[Case]:
    for cores in (2, target.aiv_cores):
        for barriers in (0, 4, 16):
            figures = ("sync_all",) if barriers else ()
            name = f"sync.c{cores}.x{barriers}"
            sizes = {"cores": cores, "barriers": barriers}
            yield Case(name, "sync", sizes, figures, risk=3)


def _hints(target: TargetSpec) -> Iterator[Case]:
    if target.arch.has_l2_hint:
        most = target.aiv_cores
        for bypass in (0, 1):
            yield _load(f"hint.{bypass}", (), risk=3, cores=most, tiles=16, row=8192, bypass=bypass)


def _larger_than_l2(target: TargetSpec) -> Iterator[Case]:
    """Yield stores of more bytes than L2 holds: the excess is written back to memory."""
    tile = 4 * 8192
    for part in (6, 8):
        tiles = 8 * -(-target.l2_bytes * part // (8 * 4 * tile * target.aiv_cores))
        name = f"spilled.{part}"
        yield _store(
            name,
            ("model.writeback_gbs",),
            risk=4,
            cores=target.aiv_cores,
            tiles=tiles,
            row=8192,
        )
