"""Calibration kernels: their sizes, their work in terms of the cost model, and their expected results.

A kernel is compiled once and run at many sizes. Its :class:`~autofuse.measure.calibration.written.Work` describes it,
and :func:`~autofuse.measure.calibration.written.evaluate` turns that into the modelled time, for the figures of any
target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autofuse.base.diagnostics import AutofuseError
from autofuse.base.wording import counted
from autofuse.implgraph.expr.expression import Expr, sym
from autofuse.measure.calibration.instructions import CALLS, INSTRUCTIONS, Instruction
from autofuse.measure.calibration.written import Body, Loop, Work
from autofuse.schedule.cost.cost import Call, Copy, Reach
from autofuse.targets import TargetSpec

__all__ = [
    "BLOCK",
    "PROGRAMS",
    "STORES",
    "TENSORS",
    "Parameter",
    "Program",
    "checked_parameters",
    "program_of",
]

Array: TypeAlias = npt.NDArray[Any]
Sizes: TypeAlias = Mapping[str, int]

#: Most bytes of GM of one kernel's tensors.
_MOST_BYTES = 2 << 30
#: Input values: small integers, so that every sum with one is exact.
_PERIOD = 251
#: Bytes of a loaded or stored element.
_WIDTH = 4
#: Elements of a 32-byte block.
BLOCK = 8
#: Stores per loop iteration.
STORES = 8
#: Inputs of the kernel with many tensors.
TENSORS = 6


@dataclass(frozen=True, slots=True)
class Parameter:
    """A size of a kernel: ``low <= value <= high``."""

    name: str
    low: int
    high: int
    meaning: str


@dataclass(frozen=True, slots=True)
class Program:
    """A calibration kernel.

    Attributes:
        name: part of the name of the C function; an identifier.
        template: file of its text.
        parameters: its sizes, in the order of the tiling function.
        length: elements of an input, by the parameters; None if there is no input.
        results: elements of the output, by the parameters.
        dtype: dtype of the output; inputs are float32.
        work: the kernel's work, for the cost model.
        want: computes the expected output from the input and the sizes.
        slack: relative tolerance of an element.
        instruction: the timed vector call; None for other kernels.
        reads: elements that one loop iteration reads into registers.
        commands: DMA commands that load one tile.
        barriers: whether it has barriers of all cores.
        operands: number of inputs, which all have the same contents.
    """

    name: str
    template: str
    parameters: tuple[Parameter, ...]
    length: Expr | None
    results: Expr
    dtype: str
    work: Callable[[Sizes, TargetSpec], Work]
    want: Callable[[Array | None, Sizes], Array]
    slack: float = 0.0
    instruction: Instruction | None = None
    reads: int = 0
    commands: int = 1
    barriers: bool = False
    operands: int = 1

    @property
    def kernel(self) -> str:
        """Name of the C function."""
        return f"calibration_{self.name}"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        if self.length is None:
            return ()
        return tuple(f"x{k or ''}" for k in range(self.operands))

    def input(self, sizes: Sizes) -> Array | None:
        """Return the data of each input; None if the kernel loads nothing."""
        if self.length is None:
            return None
        return np.resize(np.arange(_PERIOD, dtype=np.float32), self.length.evaluate(sizes))

    def is_right(self, output: Array, source: Array | None, sizes: Sizes) -> bool:
        """Return True if an output has the expected shape, dtype and values."""
        want = self.want(source, sizes)
        if output.shape != want.shape or output.dtype != want.dtype:
            return False
        if not self.slack:
            return bool(np.array_equal(output, want))
        a, b = output.astype(np.float64), want.astype(np.float64)
        return bool(np.all(np.abs(a - b) <= self.slack * np.abs(b)))


def program_of(name: str) -> Program:
    """Return the kernel called ``name``.

    Raises:
        AutofuseError: AF1403, there is no such kernel.
    """
    try:
        return PROGRAMS[name]
    except KeyError:
        raise AutofuseError.of(
            "AF1403",
            f"there is no calibration kernel {name[:60]!r}",
            hint="the bundle is from another version of autofuse",
        ) from None


def checked_parameters(program: Program, sizes: Sizes, target: TargetSpec) -> dict[str, int]:
    """Return the sizes if the kernel can run with them on the chip.

    Raises:
        AutofuseError: AF1403, a size is missing, unknown or out of range, or the sizes are inconsistent.
    """
    wanted = {p.name for p in program.parameters}
    if wanted != sizes.keys():
        odd = ", ".join(sorted(wanted ^ set(sizes)))[:200]
        raise _implausible(program, f"missing or unknown: {odd}")
    for p in program.parameters:
        if not p.low <= sizes[p.name] <= p.high:
            raise _implausible(program, f"{p.name} is {sizes[p.name]}, not {p.low} to {p.high}")
    if sizes["cores"] > target.aiv_cores:
        text = f"{counted(sizes['cores'], 'core')}, {target.name} has {target.aiv_cores}"
        raise _implausible(program, text)
    tensors = (*(program.length for _ in program.inputs), program.results)
    elements = [e.evaluate(sizes) for e in tensors if e is not None]
    if sum(elements) * _WIDTH > _MOST_BYTES:
        raise _implausible(program, f"tensors of {counted(sum(elements), 'element')}")
    return dict(sizes)


def _implausible(program: Program, text: str) -> AutofuseError:
    return AutofuseError.of("AF1403", f"calibration kernel {program.name}: {text}")


# work of the kernels ----------------------------------------------------------------------------

_CORES = Parameter("cores", 1, 65535, "number of cores")


def _ones(_: Array | None, sizes: Sizes, *, count: Expr, value: float, dtype: str) -> Array:
    return np.full(count.evaluate(sizes), value, np.dtype(dtype))


def _stored_block(elements: int = BLOCK) -> Body:
    """Return the body that stores the result of a core."""
    return Body((), (Call("duplicate", elements, 32),), (Copy(1, 1, _WIDTH * elements),))


def _start(p: Sizes, _: TargetSpec) -> Work:
    return Work(p["cores"], (Loop(_stored_block(), 1),), barriers=p.get("barriers", 0))


def _load(p: Sizes, target: TargetSpec, *, commands: int) -> Work:
    cores, turns = p["cores"], p["tiles"]
    row, rows = _WIDTH * p["row"], commands * p["rows"]
    reach = Reach.MEMORY
    if p["readers"] == 1 and cores > 1:
        reach = Reach.SHARED if p["stagger"] else Reach.SAME_ORDER
    align = _power_of_two(target.arch.cache_line_bytes, _WIDTH * p["pitch"])
    copy = Copy(commands, rows, row, align, reach)
    again = Copy(commands, rows, row, align, Reach.L2)
    loops = [Loop(Body((copy,), buffers=p["depth"], bypass=bool(p["bypass"])), turns)]
    if p["rounds"] > 1:
        loops.append(Loop(Body((again,), buffers=p["depth"]), turns * (p["rounds"] - 1)))
    last = Body((), (Call("unary", p["kept"], 32),), (Copy(1, 1, _WIDTH * p["kept"]),))
    return Work(cores, (*loops, Loop(last, 1)))


def _power_of_two(line: int, nbytes: int) -> int:
    """Return the largest power of two that divides ``nbytes``, at most a cache line."""
    return min(line, nbytes & -nbytes)


def _loaded(x: Array | None, p: Sizes, *, commands: int) -> Array:
    """Return the first elements of the tile that each core loads last."""
    assert x is not None
    core = np.arange(p["cores"])
    first = core * p["tiles"] if p["readers"] > 1 else np.zeros_like(core)
    place = first + (p["tiles"] - 1 + p["stagger"] * core) % p["tiles"]
    at = place * commands * p["rows"] * p["pitch"]
    kept: Array = x[at[:, None] + np.arange(p["kept"])].reshape(-1)
    return kept


def _store(p: Sizes, _: TargetSpec) -> Work:
    row = _WIDTH * p["row"]
    once = Body(calls=(Call("duplicate", p["row"], 32),))
    stored = Copy(STORES, STORES, row, _power_of_two(512, row))
    loop = Loop(Body(stores=(stored,)), -(-p["tiles"] // STORES))
    return Work(p["cores"], (loop,), once=once)


def _copy(p: Sizes, _: TargetSpec) -> Work:
    row = _WIDTH * p["row"]
    copy = Copy(1, 1, row, _power_of_two(512, row))
    body = Body((copy,), (Call("unary", p["row"], 32),), (copy,))
    return Work(p["cores"], (Loop(body, p["tiles"]),))


def _plus_one(x: Array | None, _: Sizes) -> Array:
    assert x is not None
    return x + np.float32(1)


def _vector(p: Sizes, target: TargetSpec, *, call: Instruction) -> Work:
    found = Counter(call.conflicts(p["count"], p["shift_b"], p["shift_c"], target.arch))
    waits = CALLS if p["chained"] or call.waits else 1
    calls = tuple(
        Call(call.kind, n * p["count"], call.bits, conflict, n, waits * n / CALLS)
        for conflict, n in found.items()
    )
    fill = Call("duplicate", 2 * p["count"], call.bits, calls=2, waits=1)
    stored = Body(stores=(Copy(1, 1, 32),))
    return Work(
        p["cores"],
        (Loop(Body(calls=calls), p["turns"]), Loop(stored, 1)),
        once=Body(calls=(fill,)),
    )


def _tensors(p: Sizes, _: TargetSpec) -> Work:
    """Return the work on a block of each tensor, with one call and one store for all, as in other kernels."""
    block = _WIDTH * BLOCK
    loaded = Copy(TENSORS, TENSORS, block, block)
    moved = TENSORS * block
    stored = Copy(1, 1, moved, _power_of_two(512, moved))
    body = Body((loaded,), (Call("unary", TENSORS * BLOCK, 32),), (stored,), buffers=1)
    return Work(p["cores"], (Loop(body, 1),))


def _side_by_side(x: Array | None, _: Sizes) -> Array:
    """Return the blocks of all tensors, which are equal, core by core."""
    assert x is not None
    found: Array = np.tile(x.reshape(-1, BLOCK), TENSORS).reshape(-1)
    return found


def _scalar(p: Sizes, _: TargetSpec, *, reads: int) -> Work:
    loops = (Loop(Body(scalar_reads=reads), p["turns"]), Loop(_stored_block(), 1))
    return Work(p["cores"], loops)


def _summed(_: Array | None, p: Sizes, *, reads: int) -> Array:
    return np.full(BLOCK * p["cores"], reads * p["turns"], np.int32)


# the table --------------------------------------------------------------------------------------

_DEVICE_ONES = 8 * sym("cores")


def _program_of_call(call: Instruction) -> Program:
    results = call.block * sym("cores")
    return Program(
        f"vector_{call.name}",
        "calibration_vector.cpp.jinja",
        (
            _CORES,
            Parameter("count", call.least, call.most, "elements of a call, a multiple of 128"),
            Parameter("turns", 1, 1 << 20, "iterations of the loop, of eight calls each"),
            Parameter("chained", 0, 1, "1: each call waits for the previous one"),
            Parameter("shift_b", 0, 16, "offset of the second operand, in blocks"),
            Parameter("shift_c", 0, 16, "offset of the results, in blocks"),
        ),
        None,
        results,
        call.result,
        partial(_vector, call=call),
        partial(_ones, count=results, value=call.want, dtype=call.result),
        call.slack,
        instruction=call,
    )


def _program_of_reads(reads: int) -> Program:
    return Program(
        f"scalar_{reads}",
        "calibration_scalar.cpp.jinja",
        (_CORES, Parameter("turns", 1, 1 << 20, "iterations of the loop")),
        None,
        _DEVICE_ONES,
        "int32",
        partial(_scalar, reads=reads),
        partial(_summed, reads=reads),
        reads=reads,
    )


def _program_of_loads(commands: int) -> Program:
    return Program(
        "load" if commands == 1 else f"load_{commands}",
        "calibration_load.cpp.jinja",
        (
            _CORES,
            Parameter(
                "readers", 1, 65535, "1: all cores load the same tiles; else the number of cores"
            ),
            _TILES,
            Parameter("rounds", 1, 1 << 16, "times that a core loads its tiles"),
            Parameter("rows", 1, 4095, "rows of a command"),
            _ROW,
            Parameter("pitch", 1, 1 << 16, "elements from one row to the next"),
            Parameter("depth", 1, 2, "buffers of the queue"),
            Parameter("stagger", 0, 1, "1: each core starts one tile after the previous core"),
            Parameter("bypass", 0, 1, "1: loads bypass L2"),
            Parameter("kept", 1, 8, "elements of the last tile that are stored"),
        ),
        commands * sym("readers") * sym("tiles") * sym("rows") * sym("pitch"),
        sym("kept") * sym("cores"),
        "float32",
        partial(_load, commands=commands),
        partial(_loaded, commands=commands),
        commands=commands,
    )


_ROW = Parameter("row", 1, 1 << 15, "elements of a row")
_TILES = Parameter("tiles", 1, 1 << 20, "tiles of a core")
_STORED_TILES = Parameter("tiles", 8, 1 << 20, "tiles of a core, a multiple of 8")
_BLOCKS = partial(_ones, count=_DEVICE_ONES, value=1.0, dtype="float32")
_STORED = sym("cores") * sym("tiles") * sym("row")

_ALL: tuple[Program, ...] = (
    Program(
        "start",
        "calibration_start.cpp.jinja",
        (_CORES,),
        None,
        _DEVICE_ONES,
        "float32",
        _start,
        _BLOCKS,
    ),
    Program(
        "sync",
        "calibration_start.cpp.jinja",
        (_CORES, Parameter("barriers", 0, 4096, "times that all cores meet")),
        None,
        _DEVICE_ONES,
        "float32",
        _start,
        _BLOCKS,
        barriers=True,
    ),
    *(_program_of_loads(n) for n in (1, 8)),
    Program(
        "store",
        "calibration_store.cpp.jinja",
        (_CORES, _STORED_TILES, _ROW),
        None,
        _STORED,
        "float32",
        _store,
        partial(_ones, count=_STORED, value=1.0, dtype="float32"),
    ),
    Program(
        "copy",
        "calibration_copy.cpp.jinja",
        (_CORES, _TILES, Parameter("row", 8, 1 << 13, "elements of a tile")),
        _STORED,
        _STORED,
        "float32",
        _copy,
        _plus_one,
    ),
    Program(
        "tensors",
        "calibration_tensors.cpp.jinja",
        (_CORES,),
        BLOCK * sym("cores"),
        TENSORS * BLOCK * sym("cores"),
        "float32",
        _tensors,
        _side_by_side,
        operands=TENSORS,
    ),
    *(_program_of_reads(n) for n in (2, 16)),
    *(_program_of_call(c) for c in INSTRUCTIONS),
)

#: The kernels by name.
PROGRAMS: Mapping[str, Program] = MappingProxyType({p.name: p for p in _ALL})
