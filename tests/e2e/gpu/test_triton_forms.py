"""Every form of a kernel and every choice of blocks computes the same: rules are replaced, small graphs are built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from triton_checks import TARGET, assert_right
from triton_graphs import MOVES, REDUCTIONS, SUMS

from autofuse import api
from autofuse.codegen.backends.triton import blocks
from autofuse.codegen.backends.triton.blocks import power
from autofuse.codegen.backends.triton.kernels import Blocks
from autofuse.machines.twin.run.worker import WorkerPool

pytestmark = [pytest.mark.sampled(2), pytest.mark.triton]

Rules = dict[str, Callable[..., Any]]


def _held(rows: int, parts: int = 1) -> Rules:
    """Rows in the registers of a block, or of a cluster."""

    def rule(count: int, cols: int, *given: Any) -> Blocks | None:
        return Blocks(rows, power(cols) // parts, parts) if power(cols) >= parts else None

    return {"rows_in_registers": rule, "looped": _blocks(rows, 8)}


def _blocks(rows: int, cols: int, **more: int) -> Callable[..., Blocks]:
    return lambda *given: Blocks(rows, cols, **more)


def _looped(rows: int, cols: int, **more: int) -> Rules:
    """A loop over columns."""
    return {
        "rows_in_registers": lambda *given: None,
        "looped": _blocks(rows, cols, **more),
    }


def _beside(rows: int, programs: int, stages: int = 1) -> Rules:
    """Sums over rows beside them."""
    return {
        "beside_sums": lambda count, cols, *given: Blocks(
            rows, power(cols), programs=programs, stages=stages
        ),
        "has_room_for_sums": lambda *given: True,
    }


#: What is chosen, and words that the text of a kernel then has; rows and columns of blocks are powers of 2.
CHOICES: dict[str, tuple[Rules, str]] = {
    "rows": (_held(1), "ROWS=1, COLS=64"),
    "four rows": (_held(4), "ROWS=4, COLS=64"),
    "two parts": (_held(1, 2), "PARTS=2, COLS=32"),
    "sixteen parts": (_held(1, 16), "PARTS=16, COLS=4"),
    "two rows in four parts": (_held(2, 4), "PARTS=4, ROWS=2, COLS=16"),
    "loop": (_looped(1, 8), "for start in range(0, 37, COLS)"),
    "loop of four rows": (_looped(4, 16), "ROWS=4, COLS=16"),
    "loop of one block": (_looped(2, 64), "ROWS=2, COLS=64"),
    "loop in stages": (_looped(2, 8, stages=3), "tl.range(0, 37, COLS, num_stages=3)"),
    "two chunks": (_looped(1, 8, chunks=2), "(5, 2, 1)"),
    "eight chunks": (_looped(4, 4, chunks=8), "(triton.cdiv(5, 4), 8, 1)"),
}
SUMS_BESIDE: dict[str, tuple[Rules, str]] = {
    "one program": (_beside(2, 1), "(1, 1, 1)"),
    "programs": (_beside(1, 3, 3), "tl.range(tl.program_id(0), tl.cdiv(5, ROWS)"),
    "more programs than rows": (_beside(4, 16, 2), "(16, 1, 1)"),
}
ITEMS: dict[str, tuple[Rules, str]] = {
    "short runs": ({"items": _blocks(4, 1), "tiles": _blocks(2, 4)}, "num_warps"),
    "long runs": ({"items": _blocks(256, 1), "tiles": _blocks(64, 8)}, "num_warps"),
}
#: Rows and columns: primes, tails of every block, whole blocks.
SIZES = ((5, 37), (7, 3), (2, 64))


def _set(rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rule in rules.items():
        assert hasattr(blocks, name)
        monkeypatch.setattr(blocks, name, rule)


def _cases(
    choices: dict[str, tuple[Rules, str]], graphs: Mapping[str, Callable[..., dict[str, Any]]]
) -> Iterator[Any]:
    for choice, (rules, _) in choices.items():
        for what, made in graphs.items():
            yield pytest.param(rules, made, id=f"{choice}, {what}")


@pytest.mark.parametrize(
    ("rules", "made"),
    [*_cases(CHOICES, REDUCTIONS), *_cases(SUMS_BESIDE, SUMS), *_cases(ITEMS, MOVES)],
)
def test_every_choice_of_blocks(
    interpreter: WorkerPool,
    rules: Rules,
    made: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _set(rules, monkeypatch)
    for rows, cols in SIZES:
        assert_right(interpreter, made(rows, cols), special=(rows, cols) == (5, 37))


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_is_what_is_written(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, words = CHOICES[choice]
    _set(rules, monkeypatch)
    built = api.build(REDUCTIONS["sum" if "chunks" in choice else "softmax"](5, 37), target=TARGET)
    assert words in next(text for file, text in built.files.items() if file.endswith(".py"))


@pytest.mark.parametrize("choice", SUMS_BESIDE)
def test_sums_are_beside_rows(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, words = SUMS_BESIDE[choice]
    _set(rules, monkeypatch)
    text = api.build(SUMS["norm backward"](5, 37), target=TARGET).files["backward_triton.py"]
    assert words in text


#: Rows and columns, of which those above 32 are in a loop.
BINDINGS = [
    {"rows": rows, "cols": cols} for rows, cols in ((0, 5), (1, 1), (5, 31), (3, 67), (13, 32))
]


@pytest.mark.parametrize("what", [*REDUCTIONS, *SUMS, *MOVES])
def test_sizes_that_are_known_at_run_time(
    interpreter: WorkerPool, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One text for all sizes, which chooses between rows in registers and a loop."""
    monkeypatch.setattr(blocks, "MOST_COLS", 32)
    made = {**REDUCTIONS, **SUMS, **MOVES}[what]
    assert_right(interpreter, made("rows", "cols"), BINDINGS)
