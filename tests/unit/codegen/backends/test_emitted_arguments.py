"""What emitted statements mean: arguments are evaluated with their casts, event ids are handed out as on the chip."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofuse.codegen.backends.ascendc.emit_cpp import emit_block
from autofuse.codegen.ir.kernel_ir import (
    CopyIn,
    CopyOut,
    DmaBlock,
    DmaDims,
    DmaLet,
    InitBuffer,
    Stmt,
    Sync,
)
from autofuse.implgraph.expr.expression import ZERO, Expr, const, sym
from autofuse.implgraph.ir.dtypes import BY_NAME
from autofuse.schedule.placement.copied import DmaDim

F32 = BY_NAME["float32"]
PIPES = ("S", "MTE2", "V", "MTE3")


# arguments ------------------------------------------------------------------------------------
def cast_to(bits: int) -> Callable[[int], int]:
    return lambda value: value % (1 << bits)


#: What is called in texts, as functions of Python.
CASTS = {"FloorDiv": lambda a, b: a // b} | {
    f"uint{bits}_t": cast_to(bits) for bits in (8, 16, 32, 64)
}


def arguments(s: Stmt, env: dict[str, int]) -> list[list[int]]:
    """The lists in braces of a statement, each number with the casts of the text applied."""
    text = " ".join(emit_block([s]))
    return [list(value_of(f"({inside},)", env)) for inside in re.findall(r"\{(.*?)\}", text)]


def value_of(text: str, env: dict[str, int]) -> Any:
    """The value of an expression of C++, with the symbols given."""
    python = re.sub(r"static_cast<(\w+)>", r"\1", text).replace("INT64_C", "")
    return eval(python.replace("autofuse::", ""), {"__builtins__": {}}, CASTS | env)


@st.composite
def sized(draw: st.DrawFn, most: int, unit: int = 1) -> tuple[Expr, dict[str, int], int]:
    """A size of at most ``most``, a multiple of ``unit``: as an expression, the symbol in it if any, and its value."""
    value = draw(st.integers(0, most // unit) | st.just(most // unit)) * unit
    if draw(st.booleans()):
        return const(value), {}, value
    factor = unit if draw(st.booleans()) else 1
    name = f"s{value}_{factor}"  # fields of one value share a symbol
    return sym(name) * factor, {name: value // factor}, value


LARGE, SHORT, ROWS = sized((1 << 60) - 1), sized((1 << 32) - 1), sized(65535)


@given(dims=st.lists(st.tuples(SHORT, LARGE, SHORT), min_size=1, max_size=5))
def test_strides_of_loads_of_several_dimensions_keep_all_their_bits(
    dims: list[tuple[tuple[Expr, dict[str, int], int], ...]],
) -> None:
    """A stride in GM may take 64 bits; those in UB and the sizes take 32."""
    block = DmaDims(tuple(DmaDim(size[0], gm[0], ub[0]) for size, gm, ub in dims))
    env = {k: v for d in dims for _, names, _ in d for k, v in names.items()}
    load = CopyIn("x", ZERO, "gm", ZERO, F32, block)
    assert arguments(load, env) == [
        [gm for _, (_, _, gm), _ in dims],
        [ub for _, _, (_, _, ub) in dims],
        [size for (_, _, size), _, _ in dims],
    ]


@given(count=ROWS, length=SHORT, gm=SHORT, ub=SHORT, load=st.booleans(), named=st.booleans())
def test_fields_of_a_padded_copy_keep_all_their_bits(
    count: tuple[Expr, dict[str, int], int],
    length: tuple[Expr, dict[str, int], int],
    gm: tuple[Expr, dict[str, int], int],
    ub: tuple[Expr, dict[str, int], int],
    load: bool,
    named: bool,
) -> None:
    """DataCopyExtParams: 16 bits of rows, 32 of everything else; the gap of the source comes first."""
    block = DmaBlock(count[0], length[0], gm[0], ub[0])
    env = {k: v for x in (count, length, gm, ub) for k, v in x[1].items()}
    copy: type[CopyIn | CopyOut] = CopyIn if load else CopyOut
    s = DmaLet("d", block, load) if named else copy("x", ZERO, "gm", ZERO, F32, block)
    gaps = [gm[2], ub[2]] if load else [ub[2], gm[2]]
    assert arguments(s, env) == [[count[2], length[2], *gaps, 0]]


BLOCKS = sized(65535 * 32, 32)


@given(count=ROWS, length=BLOCKS, gm=BLOCKS, ub=ROWS, load=st.booleans())
def test_fields_of_a_copy_of_whole_blocks_keep_all_their_bits(
    count: tuple[Expr, dict[str, int], int],
    length: tuple[Expr, dict[str, int], int],
    gm: tuple[Expr, dict[str, int], int],
    ub: tuple[Expr, dict[str, int], int],
    load: bool,
) -> None:
    """DataCopyParams: up to 65535 rows of as many blocks of 32 bytes, as far apart."""
    block = DmaBlock(count[0], length[0], gm[0], ub[0])
    env = {k: v for x in (count, length, gm, ub) for k, v in x[1].items()}
    copy: type[CopyIn | CopyOut] = CopyIn if load else CopyOut
    gaps = [gm[2] // 32, ub[2]] if load else [ub[2], gm[2] // 32]
    found = arguments(copy("x", ZERO, "gm", ZERO, F32, block, pad=False), env)
    assert found == [[count[2], length[2] // 32, *gaps]]


@given(nbytes=SHORT)
def test_the_size_of_a_buffer_keeps_all_its_bits(nbytes: tuple[Expr, dict[str, int], int]) -> None:
    """InitBuffer takes 32 bits of bytes."""
    expr, env, value = nbytes
    (line,) = emit_block([InitBuffer("tpipe", "que0", 2, expr)])
    assert value_of(line.split(", ", 2)[2].removesuffix(");"), env) == value


# event ids ------------------------------------------------------------------------------------
_CALL = re.compile(r"(AllocEventID|SetFlag|WaitFlag|ReleaseEventID)<HardEvent::(\w+)>")


class Chip:
    """Event ids while the scalar unit runs ahead of a pipe that has not begun yet.

    The scalar unit goes through the text.  Pipes that set flags are fast: a flag is up as soon as the text says so.
    Pipes that wait are slow: they reach no wait before the text ends.  Only the scalar unit waits at once.
    """

    def __init__(self) -> None:
        self.taken: dict[str, set[int]] = {}
        self.up: set[tuple[str, int]] = set()
        self.most = 0

    def run(self, lines: Iterable[str]) -> None:
        mine: dict[str, int] = {}
        for line in lines:
            found = _CALL.search(line)
            if found is None:
                continue
            call, event = found.groups()
            taken = self.taken.setdefault(event, set())
            if call == "AllocEventID":
                mine[event] = next(i for i in itertools.count() if i not in taken)
                taken.add(mine[event])
                self.most = max(self.most, len(taken))
            elif call == "SetFlag":
                assert (event, mine[event]) not in self.up, f"{event} is set before it is awaited"
                self.up.add((event, mine[event]))
            elif call == "WaitFlag":
                assert (event, mine[event]) in self.up, f"{event} is awaited before it is set"
                if event.endswith("_S"):
                    self.up.remove((event, mine[event]))
            else:
                taken.remove(mine[event])


PAIRS = [(a, b) for a in PIPES for b in PIPES if a != b]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_flag_is_not_set_again_before_it_was_awaited(source: str, target: str) -> None:
    """An id that is free again while a slow pipe has yet to wait for it would be set twice."""
    chip = Chip()
    for _ in range(3):
        chip.run(emit_block([Sync(source, target)]))


@pytest.mark.parametrize("source", ["MTE2", "V", "MTE3"])
def test_an_id_that_the_scalar_unit_has_waited_for_is_free_again(source: str) -> None:
    """However many syncs with the scalar unit there are, they take one id at a time."""
    chip = Chip()
    for _ in range(20):
        chip.run(emit_block([Sync(source, "S")]))
    assert chip.most == 1
    assert not any(chip.taken.values())


@given(st.lists(st.sampled_from(PAIRS), max_size=20))
def test_syncs_of_all_kinds_do_not_disturb_each_other(pairs: list[tuple[str, str]]) -> None:
    """As many ids stay taken as there are syncs with pipes other than the scalar unit."""
    chip = Chip()
    chip.run(emit_block([Sync(*p) for p in pairs]))
    kept = sum(len(ids) for ids in chip.taken.values())
    assert kept == sum(target != "S" for _, target in pairs)
