"""Bytes that a kernel moves and cores that it uses, read off the text that ``bishengir-compile`` hands to its back end.

The text is MLIR: loops over tiles, views of the tensors in GM, and calls that copy a view from or to UB.  Loop bounds
and sizes of views follow from the number of the core, so the loops are run for every core, without any data.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_BITS = re.compile(r"x[a-z]*?(\d+)[,>]")
_MAP = re.compile(r"(#\w+) = affine_map<\(([^)]*)\)(?:\[([^\]]*)\])? -> \((.*)\)>")
_ASSIGNED = re.compile(r"(%[\w#]+)(?::\d+)? = ([\w.]+)(.*)")
_LOOP = re.compile(r"scf\.for (%\w+) = (%\w+) to (%\w+) step (%\w+)")
_CALL = re.compile(r"(?:func\.)?call @(\w+)\(([^)]*)\) : \((.*)\) -> ")
_BINARY: dict[str, Callable[[int, int], int]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.minsi": min,
    "arith.maxsi": max,
}
#: Views with the elements of what they are views of.
_SAME = ("memref.cast", "memref.collapse_shape", "memref.expand_shape")


@dataclass
class Moved:
    """What all cores together do.

    Attributes:
        block_dim: cores of the launch.
        cores: those that copy anything.
        read: bytes from GM, by argument of the kernel.
        written: bytes to GM, likewise.
        roles: argument -> ``input``, ``output``, or another role.
    """

    block_dim: int
    cores: int = 0
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    roles: dict[str, str] = field(default_factory=dict)

    def read_of(self, role: str) -> int:
        """Bytes read from arguments with a role."""
        return sum(n for a, n in self.read.items() if self.roles[a] == role)


@dataclass(frozen=True)
class _View:
    """Elements of an argument."""

    argument: str
    elements: int


class _UnreadError(ValueError):
    """The text has something that is not understood."""


def moved(text: str) -> Moved:
    """What the kernel in ``text`` moves.

    Raises:
        ValueError: the text is none of a single kernel on static shapes, or has operations that are not understood.
    """
    lines = [line.strip() for line in text.splitlines()]
    entries = [
        k for k, line in enumerate(lines) if line.startswith("func.func @") and "hacc.entry" in line
    ]
    if len(entries) != 1:
        raise _UnreadError(f"{len(entries)} kernels")
    (entry,) = entries
    head = lines[entry]
    found = re.search(r"hacc\.block_dim = (\d+)", head)
    if found is None:
        raise _UnreadError("no block_dim")
    kernel = _Kernel({m[1]: m for m in map(_MAP.match, lines) if m}, Moved(int(found[1])))
    start = head.index("(")
    views = kernel.arguments(head[start + 1 : _closing(head, start)])
    body = _block(iter(lines[entry + 1 :]))
    for core in range(kernel.total.block_dim):
        before = kernel.total.read.total() + kernel.total.written.total()
        kernel.run(body, {**views}, core)
        kernel.total.cores += kernel.total.read.total() + kernel.total.written.total() > before
    return kernel.total


#: A line, or a head with the lines of its block.
_Body = list["str | tuple[str, _Body]"]


def _block(lines: Iterator[str]) -> _Body:
    """The lines up to the end of a block, blocks in it nested."""
    out: _Body = []
    for line in lines:
        if line.startswith("}"):
            return out
        if line.endswith("{"):
            out.append((line, _block(lines)))
        else:
            out.append(line)
    raise _UnreadError("a block without end")


class _Kernel:
    def __init__(self, maps: dict[str, re.Match[str]], total: Moved) -> None:
        self._maps = maps
        self.total = total

    def arguments(self, text: str) -> dict[str, _View | int]:
        """Views of all of an argument, by name."""
        out: dict[str, _View | int] = {}
        for argument in _parts(text):
            name, _, kind = argument.partition(":")
            role = re.search(r"hacc\.arg_type<(\w+)>", kind)
            shape = re.match(r" *memref<((?:\d+x)*)", kind)
            if role is None or shape is None:
                continue
            self.total.roles[name] = role[1]
            out[name] = _View(name, _product(int(e) for e in shape[1].split("x") if e))
        return out

    def run(self, body: _Body, values: dict[str, _View | int], core: int) -> None:
        """Run a block for a core; ``values`` has what is known."""
        for line in body:
            if isinstance(line, str):
                self._line(line, values, core)
                continue
            head, inner = line
            loop = _LOOP.match(head)
            if loop is None or "iter_args" in head:
                raise _UnreadError(head)
            first, last, step = (self._number(loop[k], values) for k in (2, 3, 4))
            for k in range(first, last, step):
                self.run(inner, {**values, loop[1]: k}, core)

    def _line(self, line: str, values: dict[str, _View | int], core: int) -> None:
        call = _CALL.match(line)
        if call is not None:
            self._call(call[1], call[2].split(", "), _parts(call[3]), values)
            return
        assigned = _ASSIGNED.match(line)
        if assigned is None:
            return
        name, op, rest = assigned.groups()
        found = self._value(op, rest, values, core)
        if found is not None:
            values[name] = found

    def _value(
        self, op: str, rest: str, values: dict[str, _View | int], core: int
    ) -> _View | int | None:
        """The result of an operation; None: it depends on data, or it is in UB."""
        operands = re.findall(r"%[\w#]+", rest.partition(" : ")[0])
        if op == "arith.constant":
            number = re.match(r" (-?\d+) : ", rest)
            return int(number[1]) if number else None
        if op == "hivm.hir.get_block_idx":
            return core
        if op == "memref.subview":
            source = values.get(operands[0])
            if not isinstance(source, _View):
                return None
            _, sizes, _ = re.findall(r"\[([^\]]*)\]", rest.partition(" : ")[0])
            extents = (self._number(e.strip(), values) for e in sizes.split(","))
            return _View(source.argument, _product(extents))
        if op in _SAME or op == "arith.index_cast":
            return values.get(operands[0])
        if op.startswith("affine."):
            return self._affine(op, rest, values)
        if op in _BINARY:
            a, b = (values.get(x) for x in operands)
            if isinstance(a, int) and isinstance(b, int):
                return _BINARY[op](a, b)
        return None

    def _affine(self, op: str, rest: str, values: dict[str, _View | int]) -> int | None:
        used = re.match(r" (#\w+)\(([^)]*)\)(?:\[([^\]]*)\])?", rest)
        if used is None or used[1] not in self._maps:
            raise _UnreadError(op + rest)
        found = self._maps[used[1]]
        names = [*_names(found[2]), *_names(found[3])]
        operands = [values.get(x) for x in (*_names(used[2]), *_names(used[3]))]
        known = [x for x in operands if isinstance(x, int)]
        if len(known) != len(operands):
            return None
        bound = dict(zip(names, known, strict=True))
        results = [evaluate(e, bound) for e in _parts(found[4])]
        choose = {"affine.apply": max, "affine.min": min, "affine.max": max}
        return choose[op](results)

    def _call(
        self,
        name: str,
        operands: Sequence[str],
        types: Sequence[str],
        values: dict[str, _View | int],
    ) -> None:
        for place, (operand, kind) in enumerate(zip(operands, types, strict=True)):
            if "address_space<gm>" not in kind:
                continue
            view, bits = values.get(operand), _BITS.search(kind)
            known = name.startswith("load_gm_to_ub") or name.startswith("store_ubuf_to_gm")
            if not isinstance(view, _View) or bits is None or not known:
                raise _UnreadError(f"call of {name}")
            counted = self.total.read if place == 0 else self.total.written
            counted[view.argument] += view.elements * int(bits[1]) // 8

    def _number(self, text: str, values: dict[str, _View | int]) -> int:
        if not text.startswith("%"):
            return int(text)
        found = values.get(text)
        if not isinstance(found, int):
            raise _UnreadError(f"{text} depends on data")
        return found


def _product(numbers: Iterator[int]) -> int:
    out = 1
    for n in numbers:
        out *= n
    return out


def _names(text: str | None) -> list[str]:
    return [x.strip() for x in text.split(",")] if text else []


def _closing(text: str, start: int) -> int:
    """Where the bracket at ``start`` is closed."""
    depth = 0
    for k in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[k], 0)
        if depth == 0:
            return k
    raise _UnreadError("a bracket without end")


def _parts(text: str) -> list[str]:
    """What commas outside of all brackets divide."""
    out, depth = [""], 0
    for k, c in enumerate(text):
        arrow = c == ">" and text[k - 1 : k] == "-"
        depth += (c in "(<[{") - (c in ")>]}" and not arrow)
        if c == "," and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return [x.strip() for x in out if x.strip()]


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.MatMult: lambda a, b: -(-a // b),
}


def evaluate(text: str, names: dict[str, int]) -> int:
    """An affine expression; Python's operators of the same rank stand for MLIR's words."""
    python = text.replace("floordiv", "//").replace("ceildiv", "@").replace(" mod ", " % ")

    def value(e: ast.expr) -> int:
        match e:
            case ast.Constant(value=int(n)):
                return n
            case ast.Name(id=name):
                return names[name]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -value(x)
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value(a), value(b))
            case _:
                raise _UnreadError(text)

    return value(ast.parse(python, mode="eval").body)
