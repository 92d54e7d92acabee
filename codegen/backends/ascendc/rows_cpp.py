"""Emit functions on vector registers that loop over rows as Ascend C text."""

from __future__ import annotations

from collections.abc import Iterator

from autofuse.codegen.backends.ascendc.registers_cpp import (
    OF_LANE,
    FunctionWriter,
    listed,
    needs_register,
    other,
)
from autofuse.codegen.backends.ascendc.words import INDENT, scalar_text, wrap_call
from autofuse.codegen.ir.calls import Call, RowLoop, RowRegister, RowStep, VectorFunction
from autofuse.codegen.passes.row_calls import (
    JOINS,
    neutral_element,
    reduction_of,
    row_operation,
    shared_rows,
)
from autofuse.implgraph.ir.dtypes import DType
from autofuse.targets import Architecture

__all__ = ["row_function_lines"]

#: Steps that wait: the accesses they wait for, and the accesses that wait.
_WAITS = {"stores_wait": ("LOAD", "STORE"), "loads_wait": ("STORE", "LOAD")}


def row_function_lines(f: VectorFunction, arch: Architecture) -> list[str]:
    """Return the definition of a function with rows, in namespace ``autofuse``."""
    return _RowWriter(f, arch).lines()


class _RowWriter(FunctionWriter):
    """Writer of the loop over rows, with one line per step."""

    def __init__(self, f: VectorFunction, arch: Architecture) -> None:
        super().__init__(f, arch)
        assert f.rows is not None
        self.rows = f.rows
        self.shared = shared_rows(f.calls)
        #: Registers of the current step.
        self.at: dict[str, str] = {}
        self.part = 0
        #: Registers of the row per iteration of the loop around the step; 0 outside of loops.
        self.width = 0

    def _count(self) -> str:
        return "uint16_t rows"

    def _reg(self, x: str) -> str:
        return self.at.get(x, f"{x}_reg")

    def _declared(self) -> Iterator[str]:
        of: dict[str, list[str]] = {}

        def add(x: str, name: str) -> None:
            d = self.dtypes[x]
            names = of.setdefault("" if d.kind == "m" else d.cpp, [])
            if name not in names:
                names.append(name)

        for name, x, _ in self._filled():
            add(x, name)
        for s in self.rows.written:
            if s.op not in ("store", *_WAITS):
                add(s.to[0], _name(s.to))
            # Registers that are read were written before; if not, the twin reports it, not the compiler.
            for read in s.of:
                add(read[0], _name(read))
        masks = ["all", *of.pop("", [])]
        masks += [name for name, _ in self._masks()]
        for cpp, names in of.items():
            yield from listed(f"Reg::RegTensor<{cpp}>", names)
        yield from listed("Reg::MaskReg", masks)

    def _filled(self) -> Iterator[tuple[str, str, str]]:
        """Yield the registers that hold one value in all lanes: name, tensor that gives the dtype, and value."""
        for s in self.f.calls:
            x = s.writes[0]
            if s.api == "Duplicate":
                yield f"{x}_reg", x, self._scalar(s.args[1], self.dtypes[x])
            elif needs_register(s):
                yield other(s), x, self._scalar(s.args[3], self.dtypes[x])
        seen = set()
        for step in self.rows.written:
            if step.op == "fill" and (name := self._neutral(step)) not in seen:
                seen.add(name)
                x = step.to[0]
                value = neutral_element(reduction_of(self.f.calls[step.call]), self.dtypes[x])
                yield name, x, scalar_text(value, self.dtypes[x])

    def _neutral(self, step: RowStep) -> str:
        kind, d = reduction_of(self.f.calls[step.call]), self.dtypes[step.to[0]]
        return f"{'zero' if kind == 'SUM' else 'least' if kind == 'MAX' else 'most'}_{d.name}"

    def _masks(self) -> Iterator[tuple[str, int]]:
        """Yield the masks of the last register of a row, and their lanes."""
        used = {s.lanes for s in self.rows.written}
        for name, count in (("row", self.rows.pitch), ("part", self.rows.length)):
            if name in used:
                yield name, count % self.lanes or self.lanes

    def _once(self) -> list[str]:
        lane = OF_LANE[self.f.lane]
        out = [f"Reg::Duplicate({name}, {value});" for name, _, value in self._filled()]
        out.append(f"all = Reg::CreateMask<{lane}>();")
        for name, count in self._masks():
            out += [
                f"uint32_t {name}_lanes = {count};",
                f"{name} = Reg::UpdateMask<{lane}>({name}_lanes);",
            ]
        return out

    def _before(self) -> list[str]:
        return ["for (uint16_t r = 0; r < rows; ++r) {"]

    def _steps(self) -> Iterator[str]:
        told: set[int] = set()
        for s in self.rows.steps:
            if isinstance(s, RowLoop):
                yield f"for (uint16_t i = 0; i < {s.times}; ++i) {{"
                self.width = s.width
                for step in s.steps:
                    yield from (INDENT + line for line in self._told(step, told))
                self.width = 0
                yield "}"
            else:
                yield from self._told(s, told)

    def _told(self, step: RowStep, told: set[int]) -> Iterator[str]:
        """Yield a step; the first step of a call follows the call's comments."""
        if step.call >= 0 and step.call not in told:
            told.add(step.call)
            yield from (f"// {text}" for text in self.f.notes[step.call])
        self.mask, self.part = step.lanes, step.to[1] or 0
        yield from self._step(step)

    def _step(self, step: RowStep) -> list[str]:
        names = [_name(x) for x in (step.to, *step.of)]
        if step.op == "load":
            self.at = {step.to[0]: names[0]}
            return self._load(step.to[0]) if step.to[1] is not None else self._element(step.to[0])
        if step.op == "store":
            self.at = {step.to[0]: names[1]}
            return self._store(step.to[0]) if step.to[1] is not None else self._first(step.to[0])
        if step.op in _WAITS:
            return [
                f"Reg::LocalMemBar<{', '.join(f'Reg::MemType::VEC_{x}' for x in _WAITS[step.op])}>();"
            ]
        s = self.f.calls[step.call]
        if step.op == "call":
            return self._row_call(s, step, names)
        kind = reduction_of(s)
        if step.op == "start":
            value = neutral_element(kind, self.dtypes[step.to[0]])
            text = scalar_text(value, self.dtypes[step.to[0]])
            return wrap_call("Reg::Duplicate", [names[0], text], ";")
        if step.op == "fill":
            return wrap_call("Reg::Select", [*names, self._neutral(step), step.lanes], ";")
        if step.op == "join":
            return wrap_call(f"Reg::{JOINS[kind]}", [*names, step.lanes], ";")
        of = f"Reg::Reduce<Reg::ReduceType::{kind}>" if step.op == "reduce" else "Reg::Duplicate"
        return wrap_call(of, [*names, step.lanes], ";")

    def _row_call(self, s: Call, step: RowStep, names: list[str]) -> list[str]:
        if s.api == "WithRows":
            name, first = row_operation(s)
            operands = names[:0:-1] if first else names[1:]
            return wrap_call(f"Reg::{name}", [names[0], *operands, step.lanes], ";")
        self.at = dict(zip((s.writes[0], *s.reads), names, strict=True))
        return self._call(s)

    def _address(self, x: str) -> str:
        at = self.part * self.lanes
        row = "" if x in self.shared else f" + r * {self.rows.pitch}"
        loop = f" + i * {self.width * self.lanes}" if self.width else ""
        return f"{x}{row}{loop}" + (f" + {at}" if at else "")

    def _element(self, x: str) -> list[str]:
        d: DType = self.dtypes[x]
        of = f"<{d.cpp}, Reg::LoadDist::DIST_BRC_B{d.bits}>"
        return wrap_call(f"Reg::LoadAlign{of}", [self._reg(x), f"{x} + r"], ";")

    def _first(self, x: str) -> list[str]:
        d: DType = self.dtypes[x]
        of = f"<{d.cpp}, Reg::StoreDist::DIST_FIRST_ELEMENT_B{d.bits}>"
        return wrap_call(f"Reg::StoreAlign{of}", [f"{x} + r", self._reg(x), "all"], ";")


def _name(x: RowRegister) -> str:
    local, part = x
    return f"{local}_reg" if part is None else f"{local}_reg{part}"
