"""Kernels move no byte twice that they can keep: what the DMA moves, counted by the twin."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import traffic

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.twin

CASES = {c.name: c for c in traffic.cases()}
#: Nothing is read or written twice.
ONCE = (
    "element-wise 4096 x 1024",
    "broadcast of a column 4096 x 1024",
    "reduce AR 4096 x 1024",
    "reduce RA 4096 x 1024",
    "reduce RA 4099 x 1021",
    "reduce ARA 64 x 64 x 512",
    "softmax 4096 x 1024",
    "softmax 96 x 6424",
    "softmax 96 x 12000",
    "softmax 96 x 20000",
    "norm 96 x 20000",
    "log-sum-exp 96 x 40000",
    "running sums of rows 4099 x 1021",
    "concat 4096 x 1024",
    "rotary embedding 4096 x 1024",
    "rotary embedding 4099 x 1021",
    "pad 4096 x 1024",
    "slice 4096 x 1024",
    "pairs of neighbours 4096 x 1024",
    "rows from their end 4096 x 1024",
    "rows from their end 4099 x 1021",
    "transpose 4096 x 1024",
    "element-wise 4099 x 1021",
    "concat 4099 x 1021",
    "add to a transpose 4099 x 1021",
    "softmax 4099 x 1021",
)
#: A loop over rows shares what is loaded for them: for so many bytes as these, one time in so many rows.
SHARED = (
    "broadcast of a long row 96 x 40000",
    "broadcast of a long row 97 x 40009",
    "scale and shift of long rows 96 x 40000",
    "scale and shift of long rows 97 x 40009",
)
#: Every core reads the rows that all of them need.
NEARLY = ("broadcast of a row 4096 x 1024", "layer norm 4096 x 1024", "rms norm 4099 x 1021")
#: The cores share what is reduced: partial results go through a workspace.
DIVIDED = (
    "reduce R 4194304",
    "reduce R 4194381",
    "reduce RA, many cores 8192 x 64",
)


@pytest.mark.parametrize("name", ONCE)
def test_every_byte_once(name: str) -> None:
    found = traffic.measure(CASES[name])
    assert (found.loaded, found.stored) == (found.inputs, found.outputs), found.templates


@pytest.mark.parametrize("name", NEARLY)
def test_hardly_a_byte_twice(name: str) -> None:
    found = traffic.measure(CASES[name])
    assert found.stored == found.outputs
    assert 1 <= found.ratio <= 1.02, found.templates


@pytest.mark.parametrize("name", SHARED)
def test_long_rows_share_what_is_loaded(name: str) -> None:
    found = traffic.measure(CASES[name])
    assert found.stored == found.outputs
    assert 1 < found.ratio <= 1.035, found.templates
    assert found.templates.startswith("general_rows_")


@pytest.mark.parametrize("name", DIVIDED)
def test_partial_results_are_few(name: str) -> None:
    found = traffic.measure(CASES[name])
    assert found.stored > found.outputs
    assert 1 <= found.ratio <= 1.02, found.templates


@pytest.mark.parametrize("size", ["4096 x 1024", "4099 x 1021"])
def test_elements_that_lie_apart_are_loaded_with_what_lies_between(size: str) -> None:
    """Of every sector of 32 bytes each byte once, up to the last element of a row."""
    found = traffic.measure(CASES[f"every third column {size}"])
    assert found.stored == found.outputs
    assert 0.998 < found.loaded / found.inputs <= 1, found.templates


@pytest.mark.parametrize("name", ["softmax 96 x 40000", "norm 96 x 40000"])
def test_a_row_that_does_not_fit_is_read_twice(name: str) -> None:
    found = traffic.measure(CASES[name])
    assert found.templates == "reduce"
    assert (found.loaded, found.stored) == (2 * found.inputs, found.outputs)


def test_two_rows_that_do_not_fit_share_scale_and_shift() -> None:
    affine = {"x": (96, 24000), "scale": (24000,), "shift": (24000,)}
    found = traffic.measure(replace(CASES["layer norm 96 x 40000"], inputs=affine))
    assert found.templates == "reduce_rows_2"
    assert found.loaded == 4 * (2 * 96 * 24000 + 96 // 2 * 2 * 24000)
    assert found.stored == found.outputs


def test_longer_rows_have_statistics_of_their_own_and_share_more() -> None:
    found = traffic.measure(CASES["layer norm 96 x 60000"])
    assert found.templates.endswith("general_rows_32")
    assert found.loaded <= 4 * 1.02 * (2 * 96 * 60000 + 96 // 32 * 2 * 60000)
    assert found.stored <= 1.01 * found.outputs


def test_running_sums_of_columns_in_parts_move_everything_twice() -> None:
    """The pass for the totals of the parts leaves these in a workspace, from where the one for the sums has them."""
    found = traffic.measure(CASES["running sums of columns 4096 x 1024"])
    assert "+" in found.templates
    assert 2 <= found.loaded / found.inputs <= 2.01, found.templates
    assert found.stored <= 2.01 * found.outputs, found.templates


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("softmax 2 x 500009", 2),
        ("norm 2 x 500009", 2),
        ("log-sum-exp 2 x 500009", 1),
        ("running sums of rows 2 x 500009", 2),
    ],
)
def test_cores_that_share_a_row_read_it_once_per_phase(name: str, reads: int) -> None:
    """And what goes through the workspace, which is little."""
    found = traffic.measure(CASES[name])
    assert "+" in found.templates
    assert reads <= found.loaded / found.inputs <= reads + 0.01, found.templates
    assert 0 < found.stored - found.outputs <= 0.01 * found.inputs


def test_table_has_a_line_for_every_case() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "model" / "traffic.py"), "--case", "slice 4096"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    head, rule, row = done.stdout.splitlines()
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.startswith("| slice 4096 x 1024 |")
