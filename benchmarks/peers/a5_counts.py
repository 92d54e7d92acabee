"""Count the register and UB accesses in the text that ``bishengir-compile-a5`` prints for kernels.

The text is the output of ``ave-process-membar``, the last pass on register operations (``ave.hir``).  Its functions are
walked as they would run, with all loops; only integer values are tracked, to determine loop bounds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Accesses", "TextError", "a5_counts"]

_FUNCTION = re.compile(
    r"^func\.func (?:private )?@(\S+?)\((.*?)\)(?: ->.*?)? attributes \{(.*)\} \{$"
)
_FOR = re.compile(r"^(?:%\S+ = )?scf\.for (%\S+) = (%\S+) to (%\S+) step (%\S+) ")
_CALL = re.compile(r"^(?:%\S+ = )?(?:func\.)?call @(\S+?)\((.*?)\)")
_OPERATION = re.compile(r"^(?:%[^=]* = )?ave\.hir\.(\w+)")
_MAP = re.compile(
    r"affine\.(\w+) affine_map<\((.*?)\)(?:\[(.*?)\])? -> \((.*)\)>\((.*?)\)(?:\[(.*?)\])?"
)
_CONSTANT = re.compile(r"arith\.constant (-?\d+) : (?:index|i\d+)$")
_ARITHMETIC = re.compile(r"arith\.(\w+) (%\S+), (%\S+) : (?:index|i\d+)$")
_INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "minsi": min,
    "maxsi": max,
    "divsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "remsi": lambda a, b: a % b,
}
_LOADS = frozenset({"vload", "vgather"})
_STORES = frozenset({"masked_store", "store_with_stride", "vscatter"})
_MASKS = frozenset({"pge", "plt", "pltm"})
_BARRIERS = frozenset({"membar"})


class TextError(Exception):
    """The text contains an unknown construct."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """Counts of executed operations of a kernel, over all cores.

    Attributes:
        functions: number of functions on registers in the text.
        loads: registers loaded from UB; a number broadcast to all lanes counts as one.
        stores: registers stored to UB.
        operations: operations on registers.
        masks: masks created.
        others: uncounted vector calls on UB, by name.
    """

    functions: int
    loads: float
    stores: float
    operations: float
    masks: float
    others: tuple[str, ...] = ()

    @property
    def accesses(self) -> float:
        """Number of accesses to UB."""
        return self.loads + self.stores

    def per(self, registers: float) -> Accesses:
        """Return the counts per register, for ``registers`` of them."""
        found = (self.loads, self.stores, self.operations, self.masks)
        return Accesses(self.functions, *(x / registers for x in found), self.others)


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    arguments: tuple[str, ...]
    is_kernel: bool
    on_registers: bool
    lines: tuple[str, ...]


def a5_counts(text: str) -> Accesses:
    """Count the executed operations of the kernels in a text.

    Raises:
        TextError: it has no kernel, or loop bounds that cannot be determined.
    """
    functions = {f.name: f for f in _functions(text)}
    kernels = [f for f in functions.values() if f.is_kernel]
    if not kernels:
        raise TextError("there is no kernel")
    run = _Run(functions)
    for f in kernels:
        run.function(f, {})
    found = run.counts
    return Accesses(
        len(run.called),
        found["load"],
        found["store"],
        found["operation"],
        found["mask"],
        tuple(sorted(run.others)),
    )


def _functions(text: str) -> Iterator[_Function]:
    name = ""
    for line in text.splitlines():
        found = _FUNCTION.match(line)
        if found:
            name, arguments, attributes = found.groups()
            body: list[str] = []
            names = tuple(re.findall(r"(%\w+):", arguments))
            kernel = "hacc.entry" in attributes and "function_kind<DEVICE>" in attributes
            registers = "hivm.vector_function" in attributes
        elif line == "}" and name:
            yield _Function(name, names, kernel, registers, tuple(body))
            name = ""
        elif name:
            body.append(line.strip())


class _Run:
    def __init__(self, functions: Mapping[str, _Function]) -> None:
        self.functions = functions
        self.counts: Counter[str] = Counter()
        self.called: set[str] = set()
        self.others: set[str] = set()

    def function(self, f: _Function, values: Mapping[str, int]) -> None:
        if f.on_registers:
            self.called.add(f.name)
        self._block(f.lines, 0, len(f.lines), dict(values))

    def _block(self, lines: Sequence[str], at: int, end: int, values: dict[str, int]) -> None:
        while at < end:
            line = lines[at]
            if line.endswith("{"):
                last = _closing(lines, at)
                loop = _FOR.match(line)
                if loop is None:
                    raise TextError(f"no loop: {line}")
                name, *bounds = loop.groups()
                first, to, step = (_known(values, b) for b in bounds)
                for i in range(first, to, step):
                    self._block(lines, at + 1, last, {**values, name: i})
                at = last + 1
                continue
            self._line(line, values)
            at += 1

    def _line(self, line: str, values: dict[str, int]) -> None:
        operation = _OPERATION.match(line)
        if operation:
            self._operation(operation[1], line)
            return
        call = _CALL.match(line)
        if call:
            f = self.functions.get(call[1])
            if f is None:
                raise TextError(f"no text of {call[1]}")
            given = zip(f.arguments, re.findall(r"%[\w#]+", call[2]), strict=True)
            self.function(f, {a: values[x] for a, x in given if x in values})
            return
        other = re.match(r"^(?:%\S+ = )?hivm\.hir\.(v\w+)", line)
        if other:
            self.others.add(other[1])
            return
        name, equals, what = line.partition(" = ")
        if equals and (value := _value(what, values)) is not None:
            values[name] = value

    def _operation(self, name: str, line: str) -> None:
        if name in _LOADS:
            self.counts["load"] += line.rpartition(" into ")[2].count("vector<")
        elif name in _STORES:
            data = line.rpartition(" : ")[2]
            self.counts["store"] += len(re.findall(r"vector<\d+x(?!i1>)", data))
        elif name in _MASKS:
            self.counts["mask"] += 1
        elif name not in _BARRIERS:
            self.counts["operation"] += 1


def _closing(lines: Sequence[str], at: int) -> int:
    """Return the last line of the block that a line begins."""
    depth = 0
    for k in range(at, len(lines)):
        depth += lines[k].endswith("{") - lines[k].startswith("}")
        if depth == 0:
            return k
    raise TextError("a block does not end")


def _known(values: Mapping[str, int], name: str) -> int:
    if name not in values:
        raise TextError(f"{name} is not known")
    return values[name]


def _value(what: str, values: Mapping[str, int]) -> int | None:
    """Return the integer result of an operation, if it follows from known values."""
    if found := _CONSTANT.match(what):
        return int(found[1])
    if found := _ARITHMETIC.match(what):
        names = found[2], found[3]
        if found[1] not in _INTEGERS or not all(n in values for n in names):
            return None
        return _INTEGERS[found[1]](values[names[0]], values[names[1]])
    if found := _MAP.match(what):
        kind, dims, symbols, results, a, b = found.groups()
        given = dict(zip(_list(dims) + _list(symbols), _list(a) + _list(b), strict=True))
        if not all(x in values for x in given.values()):
            return None
        at = {n: values[x] for n, x in given.items()}
        made = [_affine(r, at) for r in results.split(",")]
        return max(made) if kind == "max" else min(made)
    return None


def _list(text: str | None) -> list[str]:
    return [x.strip() for x in (text or "").split(",") if x.strip()]


def _affine(text: str, at: Mapping[str, int]) -> int:
    """Evaluate a sum of products, as in affine maps."""
    words = re.sub(r"\bceildiv\b", "@", re.sub(r"\bfloordiv\b", "//", text)).replace("mod", "%")
    words = re.sub(r"[ds]\d+", lambda m: str(at[m[0]]), words)
    if not re.fullmatch(r"[-+*/%@() \d]+", words):
        raise TextError(f"no sum: {text}")
    if "@" in words:
        a, b = words.split("@")
        return math.ceil(_affine(a, {}) / _affine(b, {}))
    return int(eval(words, {"__builtins__": {}}))
