"""A bounded run of benchmarks/corpus/accuracy.py: measured errors are within what the rows allow."""

from pathlib import Path

import accuracy
import numpy as np
import pytest

from autofuse import api
from autofuse.implgraph.ops.registry import all_ops, lookup
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = pytest.mark.twin

ROOT = Path(__file__).resolve().parents[3]
#: What no call of the chip sets the accuracy of stays within 2 ulp.
ELEMENTARY = ("Expm1", "Log2", "Sinh", "Cosh", "Tan", "Asin", "Atan2", "Hypot", "Fmod")
OTHERS = (
    "Log1p",
    "Acosh",
    "Atanh",
    "LogSigmoid",
    "Ndtr",
    "Tanh",
    "Erf",
    "Erfc",
    "Gelu",
    "GeluSlope",
    "Elu",
    "Selu",
    "Lgamma",
    "BesselJ0",
    "Igamma",
    "ShiftedChebyshevPolynomialV",
)


@pytest.mark.parametrize("op", [*ELEMENTARY, *OTHERS])
def test_errors_are_within_their_bounds(op):
    row = lookup(op)
    dtypes = ("float32",) if op in ELEMENTARY[3:] else accuracy.FLOATS
    for dtype, worst in accuracy.measure(row, 1, dtypes).items():
        assert worst.wrong == 0
        if row.absolute and dtype == "float32":
            assert worst.absolute <= row.absolute
        elif not row.absolute:
            assert worst.ulp <= (2.0 if op in ELEMENTARY else row.ulp), worst


@pytest.mark.parametrize("op", [r.name for r in all_ops() if r.short])
def test_short_compositions_are_nearly_rounded_right(op):
    """Of all 16-bit numbers."""
    for worst in accuracy.measure(lookup(op), 1, ("float16", "bfloat16")).values():
        assert worst.wrong == 0
        assert worst.ulp <= 0.65, worst


@pytest.mark.parametrize("op", [r.name for r in all_ops() if r.short])
def test_short_compositions_take_float32_where_casts_follow(op):
    """Of float32 with all exponents."""
    row = lookup(op)
    nodes = [{"name": "n", "op": op, "inputs": ["x"], "outputs": ["t"]}]
    for dtype in accuracy.FLOATS[1:]:
        cast = {"op": "Cast", "inputs": ["t"], "outputs": [dtype], "attrs": {"dtype": dtype}}
        nodes.append({"name": f"c_{dtype}", **cast})
    graph = {
        "schema": "autofuse.graph/1",
        "name": "k",
        "inputs": [{"name": "x", "dtype": "float32", "shape": [accuracy.LENGTH]}],
        "nodes": nodes,
        "outputs": list(accuracy.FLOATS[1:]),
    }
    kernel = api.load(api.build(graph, target=accuracy.target_of(row)))
    x = accuracy.operands(row, "float32", 7)
    with np.errstate(all="ignore"):
        results = kernel(*x)
    for dtype, y in zip(accuracy.FLOATS[1:], results, strict=True):
        worst = accuracy.errors(row, dtype, x, np.asarray(y))
        assert worst.wrong == 0
        assert worst.ulp <= 0.65, worst


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Silu", {"alpha": 1.702}),
        ("Silu", {"alpha": -3.0}),
        ("Silu", {"alpha": 0.01}),
        ("Silu", {"alpha": 0.0}),
        ("Elu", {"alpha": 0.25}),
        ("Elu", {"alpha": -2.0}),
        ("Selu", {"alpha": 0.5, "gamma": 3.0}),
        ("Celu", {"alpha": 0.0625}),
        ("Celu", {"alpha": 40.0}),
        ("Celu", {"alpha": -2.0}),
    ],
)
@pytest.mark.parametrize("dtype", accuracy.FLOATS)
def test_compositions_take_attributes(op, attrs, dtype):
    graph = {
        "schema": "autofuse.graph/1",
        "name": "k",
        "inputs": [{"name": "x", "dtype": dtype, "shape": [4096]}],
        "nodes": [{"name": "n", "op": op, "inputs": ["x"], "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }
    built = api.build(graph)
    report = verify_kernel(built.files, built.graph, special=True)
    assert report.ok, report


def test_the_page_has_every_op():
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    missing = [r.name for r in accuracy.float_ops() if f"| {r.name} |" not in page]
    assert not missing, "run: python benchmarks/corpus/accuracy.py --out docs/accuracy.md"


def test_some_rows_of_the_page_are_replaced():
    head = "# Accuracy\n\n| op | ulp |\n| --- | --- |\n"
    old = head + "| A | 1 |\n| B | 2 |\n"
    assert accuracy.merged(old, head + "| B | 9 |\n| C | 3 |\n") == (
        head + "| A | 1 |\n| B | 9 |\n| C | 3 |\n"
    )
