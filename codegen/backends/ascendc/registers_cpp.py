"""Emit functions on vector registers as ``__simd_vf__`` functions of namespace ``AscendC::Reg``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from autofuse.codegen.backends.ascendc.expr_cpp import to_cpp
from autofuse.codegen.backends.ascendc.words import INDENT, WIDTH, scalar_text, wrap_call
from autofuse.codegen.ir.calls import (
    Arg,
    Call,
    EnumArg,
    LocalArg,
    Number,
    ScalarVar,
    SizeValue,
    VectorFunction,
)
from autofuse.codegen.passes.register_calls import cast_mode
from autofuse.implgraph.ir.dtypes import DType
from autofuse.targets import Architecture

__all__ = [
    "OF_LANE",
    "FunctionWriter",
    "call_lines",
    "function_lines",
    "listed",
    "needs_register",
    "other",
]

#: Load distribution for elements narrower than the lanes, by the bytes of both; stores use the inverse.
_SPREAD = {(2, 4): "DIST_UNPACK_B16", (1, 4): "DIST_UNPACK4_B8", (1, 2): "DIST_UNPACK_B8"}
_PACKED = {(2, 4): "DIST_PACK_B32", (1, 4): "DIST_PACK4_B32", (1, 2): "DIST_PACK_B16"}
#: Functions with another name on registers.
_NAMES = {"CompareScalar": "Compares"}
#: A type as wide as a lane.
OF_LANE = {2: "half", 4: "float"}


def function_lines(f: VectorFunction, arch: Architecture) -> list[str]:
    """Return the definition of a function without rows, in namespace ``autofuse``."""
    return FunctionWriter(f, arch).lines()


def call_lines(f: VectorFunction, value: Callable[[Arg], str]) -> list[str]:
    """Return its call, after the comment of its last result; ``value`` gives the text of a scalar argument."""
    dtypes = dict(f.dtypes)
    args = [f"(__ubuf__ {dtypes[x].cpp}*){x}.GetPhyAddr()" for x in _tensors(f)]
    args += [value(a) for a in _scalars(f)]
    count, kind = (f.rows.count, "uint16_t") if f.rows else (f.count, "uint32_t")
    args.append(f"static_cast<{kind}>({to_cpp(count)})")
    about = next((lines for lines in reversed(f.notes) if lines), ())
    return [*(f"// {text}" for text in about), *wrap_call(f"autofuse::{f.name}", args, ";")]


def _tensors(f: VectorFunction) -> list[str]:
    return list(dict.fromkeys((*f.loads, *f.stores)))


def _scalars(f: VectorFunction) -> list[ScalarVar | SizeValue]:
    found = [a for s in f.calls for a in s.args if isinstance(a, ScalarVar | SizeValue)]
    return list(dict.fromkeys(found))


class FunctionWriter:
    """Writer of one function: parameters, registers, constants, and its loop."""

    def __init__(self, f: VectorFunction, arch: Architecture) -> None:
        self.f, self.arch = f, arch
        self.dtypes = dict(f.dtypes)
        self.lanes = arch.vector_bytes // f.lane
        #: Mask of the lanes that a step writes.
        self.mask = "mask"
        #: Names of scalar parameters.
        self.scalars = {
            a: a.name if isinstance(a, ScalarVar) else f"scalar{k}"
            for k, a in enumerate(_scalars(f))
        }
        #: Cast traits -> their names.
        self.traits: dict[tuple[str, ...], str] = {}

    def lines(self) -> list[str]:
        """Return all lines."""
        once, steps = self._once(), list(self._steps())
        return [
            *self._head(),
            *(INDENT + line for line in (*self._declared(), *once, *self._before())),
            *(INDENT * 2 + line for line in steps),
            INDENT + "}",
            "}",
        ]

    def _head(self) -> list[str]:
        """Return the cast traits that the steps refer to, and the signature."""
        f = self.f
        params = [f"__ubuf__ {self.dtypes[x].cpp}* {x}" for x in _tensors(f)]
        params += [f"{self._scalar_type(a)} {name}" for a, name in self.scalars.items()]
        head = f"__simd_vf__ __no_simd_vf_fusion__ inline void {f.name}"
        out: list[str] = []
        for parts, name in self.traits.items():
            out += [f"constexpr Reg::CastTrait {name}{{", INDENT * 2 + ", ".join(parts) + "};"]
        return [*out, *wrap_call(head, [*params, self._count()], " {")]

    def _count(self) -> str:
        return "uint32_t count"

    def _before(self) -> list[str]:
        """Return the head of the loop."""
        n = self.lanes
        return [
            f"const uint16_t steps = static_cast<uint16_t>((count + {n - 1}) / {n});",
            "for (uint16_t i = 0; i < steps; ++i) {",
            f"{INDENT}mask = Reg::UpdateMask<{OF_LANE[self.f.lane]}>(count);",
        ]

    def _scalar_type(self, a: ScalarVar | SizeValue) -> str:
        return self.dtypes[a.name].cpp if isinstance(a, ScalarVar) else a.dtype.cpp

    def _declared(self) -> Iterator[str]:
        """Declare the registers, one line per type, and the mask of the elements of a step."""
        of: dict[str, list[str]] = {}
        for s in self.f.calls:
            for x in (*s.reads, *s.writes):
                d = self.dtypes[x]
                names = of.setdefault("" if d.kind == "m" else d.cpp, [])
                if self._reg(x) not in names:
                    names.append(self._reg(x))
            if needs_register(s):
                of.setdefault(self.dtypes[s.writes[0]].cpp, []).append(other(s))
        masks = ["mask", *of.pop("", [])]
        for cpp, names in of.items():
            yield from listed(f"Reg::RegTensor<{cpp}>", names)
        yield from listed("Reg::MaskReg", masks)

    def _reg(self, x: str) -> str:
        """Return the register of a tensor."""
        return f"{x}_reg"

    def _once(self) -> list[str]:
        """Return the constants, set before the loop."""
        out = []
        for s in self.f.calls:
            if s.api == "Duplicate":
                value = self._scalar(s.args[1], self.dtypes[s.writes[0]])
                out.append(f"Reg::Duplicate({self._reg(s.writes[0])}, {value});")
            elif needs_register(s):
                value = self._scalar(s.args[3], self.dtypes[s.writes[0]])
                out.append(f"Reg::Duplicate({other(s)}, {value});")
        return out

    def _steps(self) -> Iterator[str]:
        loaded: set[str] = set()
        last = {s.writes[0]: k for k, s in enumerate(self.f.calls)}
        for k, s in enumerate(self.f.calls):
            yield from (f"// {text}" for text in self.f.notes[k])
            for x in s.reads:
                if x in self.f.loads and x not in loaded:
                    loaded.add(x)
                    yield from self._load(x)
            if s.api != "Duplicate":
                yield from self._call(s)
            to = s.writes[0]
            if to in self.f.stores and last[to] == k:
                yield from self._store(to)

    def _load(self, x: str) -> list[str]:
        d = self.dtypes[x]
        dist = _SPREAD.get((d.itemsize, self.f.lane))
        of = f"<{d.cpp}, Reg::LoadDist::{dist}>" if dist else ""
        return wrap_call(f"Reg::LoadAlign{of}", [self._reg(x), self._address(x)], ";")

    def _store(self, x: str) -> list[str]:
        d = self.dtypes[x]
        dist = _PACKED.get((d.itemsize, self.f.lane))
        of = f"<{d.cpp}, Reg::StoreDist::{dist}>" if dist else ""
        return wrap_call(f"Reg::StoreAlign{of}", [self._address(x), self._reg(x), self.mask], ";")

    def _address(self, x: str) -> str:
        return f"{x} + i * {self.lanes}"

    def _call(self, s: Call) -> list[str]:
        of, to = "", self.dtypes[s.writes[0]]
        operands: list[str] = []
        for a in s.args[1:-1]:
            if isinstance(a, LocalArg):
                operands.append(self._reg(a.local))
            elif isinstance(a, Number | ScalarVar | SizeValue):
                data = self.dtypes[s.reads[-1]]
                operands.append(other(s) if needs_register(s) else self._scalar(a, data))
        name, mask = _NAMES.get(s.api, s.api), [self.mask]
        if s.api == "Cast":
            name, of = self._cast(self.dtypes[s.reads[0]], to, cast_mode(s))
        elif s.api in ("Compare", "CompareScalar"):
            mode = next(a.text for a in s.args if isinstance(a, EnumArg))
            of = f"<{self.dtypes[s.reads[0]].cpp}, {mode}>"
        elif s.api == "Select":
            # The selecting mask is the last argument.
            choice, *operands = operands
            mask = [choice]
        return wrap_call(f"Reg::{name}{of}", [self._reg(s.writes[0]), *operands, *mask], ";")

    def _cast(self, source: DType, result: DType, mode: str) -> tuple[str, str]:
        """Return the name of the function, and its template arguments."""
        if source is result:
            return "Truncate", f"<{result.cpp}, RoundMode::CAST_{mode}>"
        layout = "ZERO" if source.itemsize != result.itemsize else "UNKNOWN"
        saturation = "UNKNOWN"
        if (source.name, result.name) in self.arch.register_saturates:
            saturation = "NO_SAT" if result.kind == "f" else "SAT"
        rounds = "UNKNOWN" if mode == "NONE" else f"CAST_{mode}"
        parts = (
            f"Reg::RegLayout::{layout}",
            f"Reg::SatMode::{saturation}",
            "Reg::MaskMergeMode::ZEROING",
            f"RoundMode::{rounds}",
        )
        name = self.traits.setdefault(parts, f"{self.f.name}_cast{len(self.traits)}")
        return "Cast", f"<{result.cpp}, {source.cpp}, {name}>"

    def _scalar(self, a: Arg, dtype: DType) -> str:
        """Return a scalar of type ``dtype``, even if the call on tensors reinterprets its elements as another type."""
        if isinstance(a, Number):
            value = a.value
            if dtype.kind == "u":
                value = int(value) % (1 << dtype.bits)
            return scalar_text(value, dtype)
        assert isinstance(a, ScalarVar | SizeValue)
        return self.scalars[a]


def listed(kind: str, names: Sequence[str]) -> list[str]:
    """Return a declaration of several variables, with as many per line as fit."""
    lines, line = [], kind
    for k, name in enumerate(names):
        word = f"{name}{';' if k == len(names) - 1 else ','}"
        if len(line) + 1 + len(word) + len(INDENT) > WIDTH and line != kind:
            lines.append(line)
            line = INDENT + word
        else:
            line += " " + word
    return [*lines, line]


def other(s: Call) -> str:
    """Return the register of the scalar that a Select takes where its mask is off."""
    return f"{s.writes[0]}_other"


def needs_register(s: Call) -> bool:
    """Return True if a call takes a scalar where its register form takes a register: a Select may."""
    return s.api == "Select" and not isinstance(s.args[3], LocalArg)
