"""The roofline of a target: memory bandwidth, throughput of the vector lanes, and the start of a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autofuse.implgraph.ir.dtypes import BY_NAME, DType
from autofuse.implgraph.ops.definition import Attrs, OpDef
from autofuse.implgraph.ops.registry import find_call, lookup
from autofuse.targets import Architecture, Figure, Target, ascend_chip
from autofuse.targets.figures import STATUSES

__all__ = ["Ceilings", "ceilings_of", "steps"]

#: Row of a chip's cost table from which the peak is computed.
_PEAK_ROW = "binary"
#: Maximum nesting of expansions; a deeper one counts as one step.
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Figures of a target, each with its unit, status and source.

    Attributes:
        bandwidth: memory bandwidth, 1e9 B/s.
        peak: float32 additions of all lanes, 1e9 operations/s: a product of the target's figures.
        start: microseconds of an almost empty kernel.
        rates: 1e9 operations/s by row of the cost table; missing rows run at the peak.
    """

    bandwidth: Figure
    peak: Figure
    start: Figure
    rates: Mapping[str, float] = field(default_factory=dict)

    def rate(self, cost: str) -> float:
        """Return the rate of ops with this row of the cost table, in 1e9 operations/s; 0 if they are free."""
        return self.rates.get(cost, float(self.peak.value))

    @property
    def ridge(self) -> float:
        """Operations per byte above which the lanes, and not memory, are the limit."""
        return float(self.peak.value) / float(self.bandwidth.value)

    def to_json(self) -> dict[str, Any]:
        """Return the figures, ready for JSON."""
        return {
            f.name: {"value": f.value, "unit": f.unit, "status": f.status, "source": f.source}
            for f in (self.bandwidth, self.peak, self.start)
        } | {"ridge": self.ridge}


def ceilings_of(target: Target) -> Ceilings:
    """Return the roofline of a target."""
    return _CEILINGS[target.backend](target)


def _of_card(target: Target) -> Ceilings:
    lanes = ("multiprocessors", "fp32_lanes", "clock_mhz")
    return Ceilings(
        _figure(target, "copy_gbs", "bandwidth_gbs"),
        _product(target, lanes),
        _figure(target, "launch_us", "start_us"),
    )


def _of_chip(target: Target) -> Ceilings:
    target = ascend_chip(target)
    factor = target.aiv_cores * target.clock_mhz / 1e3
    return Ceilings(
        _figure(target, "gm_bandwidth_gbs", "bandwidth_gbs"),
        _product(target, ("aiv_cores", f"vector.{_PEAK_ROW}.rate32", "clock_mhz")),
        _figure(target, "kernel_head_us", "start_us"),
        {name: factor * cost.rate32 for name, cost in target.vector.items()},
    )


#: Ceilings by the target's backend.
_CEILINGS = {"triton": _of_card, "ascendc": _of_chip}


def _figure(target: Target, name: str, called: str) -> Figure:
    found = _find(target, name)
    return Figure(called, found.value, found.unit, found.status, found.source)


def _find(target: Target, name: str) -> Figure:
    return next(f for f in target.figures() if f.name == name)


def _product(target: Target, names: Sequence[str]) -> Figure:
    """Multiply units, elements per cycle and MHz into 1e9 operations/s; the status is the worst of the three."""
    figures = [_find(target, n) for n in names]
    value = 1.0
    for f in figures:
        value *= float(f.value)
    status = max((f.status for f in figures), key=STATUSES.index)
    text = " x ".join(f"{f.name} {f.value:g} ({f.status})" for f in figures)
    return Figure("peak_gops", value / 1e3, "Gop/s", status, text)


# steps of a function --------------------------------------------------------------------------


def steps(
    row: OpDef, operands: Sequence[tuple[DType, float | int | None]], attrs: Attrs, target: Target
) -> Counter[str]:
    """Count the calls of an element-wise op per element: row of the cost table -> count.

    A function without its own call is decomposed as in the registry.

    Args:
        row: the op.
        operands: element type of each operand, and the value of a constant.
        attrs: its attributes.
        target: a chip determines which calls exist; a GPU computes in float32.
    """
    sink = _Counting(target)
    sink.emit(row.name, [_Value(_computed(d), c) for d, c in operands], attrs)
    return sink.found


def _computed(d: DType) -> DType:
    """Return the type of the computation: float32 for 16-bit floats."""
    return BY_NAME["float32"] if d.kind == "f" else d


@dataclass(frozen=True, slots=True)
class _Value:
    """An operand of an expansion."""

    dtype: DType
    constant: float | int | None = None


class _Counting:
    """An ``OpSink`` that counts ops instead of emitting them."""

    def __init__(self, target: Target) -> None:
        self.arch: Architecture | None = getattr(target, "arch", None)
        self.found: Counter[str] = Counter()
        self.depth = 0

    def emit(
        self, op: str, inputs: Sequence[Any], attrs: Attrs | None = None, dtype: DType | None = None
    ) -> _Value:
        row = lookup(op)
        values = [x for x in inputs if isinstance(x, _Value)]
        first = values[0].dtype if values else BY_NAME["float32"]
        if row.expand is not None and not self.takes(op, first) and self.depth < _MAX_DEPTH:
            self.depth += 1
            before = Counter(self.found)
            try:
                made = row.expand(self, values, dict(attrs or {}))
            except (ValueError, KeyError, ArithmeticError):
                # The expansion is for other operands: count one step.
                made, self.found = None, before
            self.depth -= 1
            if isinstance(made, _Value):
                return made if dtype is None else _Value(dtype)
        if row.cost != "none":
            self.found[row.cost] += 1
        return _Value(dtype or self.result(row, values, attrs or {}))

    @staticmethod
    def result(row: OpDef, values: Sequence[_Value], attrs: Attrs) -> DType:
        try:
            return row.dtype_rule([v.dtype for v in values], attrs)
        except ValueError:
            return values[0].dtype if values else BY_NAME["float32"]

    def constant(self, value: float | int, dtype: DType) -> _Value:
        return _Value(dtype, value)

    def dtype_of(self, operand: _Value) -> DType:
        return operand.dtype

    def constant_of(self, operand: _Value) -> float | int | None:
        return operand.constant

    def is_uniform(self, operand: _Value) -> bool:
        return operand.constant is not None

    def takes(self, op: str, dtype: DType) -> bool:
        if self.arch is None:
            return lookup(op).call is not None
        call = find_call(op, self.arch)
        return call is not None and dtype.name in call.dtypes
