"""Generated kernels on the CPU twin: sizes and dtypes that go wrong first."""

import numpy as np
import pytest
from twin_graphs import graph

import autofuse
from autofuse import api
from autofuse.implgraph.ir.dtypes import dtype, numpy_dtype
from autofuse.machines.twin.verify.verify import verify_kernel

pytestmark = pytest.mark.twin


def check(document, **options):
    built = api.build(document, verify_ir=True)
    report = verify_kernel(built.files, built.graph, **options)
    assert report.ok, "\n".join(map(str, report.diagnostics))
    assert not report.inconclusive
    return report


@pytest.mark.parametrize("d", ["float32", "float16", "bfloat16", "int32", "int16"])
def test_every_inner_size_from_1_to_40(d):
    """Rows narrower than a block of 32 bytes, and their tails."""
    symbols = {"r": {"min": 0, "max": 64, "hint": 3}, "c": {"min": 0, "max": 64, "hint": 17}}
    inputs = {
        "a": (d, ("r", "c")),
        "b": (d, ("r", "c")),
        "row": (d, (1, "c")),
        "col": (d, ("r", 1)),
    }
    nodes = [("t", "Add", ("a", "row")), ("u", "Mul", ("t", "col")), ("y", "Maximum", ("u", "b"))]
    bindings = [{"r": 3, "c": c} for c in range(1, 41)] + [{"r": 37, "c": 1}]
    check(graph(inputs, nodes, **symbols), bindings=bindings)


@pytest.mark.parametrize("sizes", [(3, 0), (0, 5), (0, 0)])
def test_nothing_to_do(sizes):
    symbols = {"r": {"min": 0, "max": 64, "hint": 3}, "c": {"min": 0, "max": 64, "hint": 17}}
    inputs = {"a": ("float32", ("r", "c")), "row": ("float32", (1, "c"))}
    document = graph(inputs, [("y", "Add", ("a", "row"))], **symbols)
    check(document, bindings=[dict(zip("rc", sizes, strict=True))])


@pytest.mark.parametrize("d", ["float32", "float16", "bfloat16", "int32"])
def test_comparisons_to_the_edge(d):
    ops = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
    nodes = [(f"c{i}", op, ("a", "b")) for i, op in enumerate(ops)]
    nodes.append(("y", "Select", ("c2", "a", "b")))
    inputs = {"a": (d, (3, 77)), "b": (d, (3, 77))}
    outputs = ("c0", "c1", "c2", "c3", "c4", "c5", "y")
    check(graph(inputs, nodes, outputs=outputs), special=d != "int32")


DTYPES = ("float32", "float16", "bfloat16", "int32", "bool")


@pytest.mark.parametrize("source", DTYPES)
def test_casts(source):
    """All but a 16-bit float to an integer: out of range that has no common meaning."""
    targets = [d for d in DTYPES if d != source and not (d == "int32" and "float" in source)]
    nodes = [(f"y_{d}", "Cast", ("x",), {"dtype": d}) for d in targets]
    check(graph({"x": (source, (5, 100))}, nodes, outputs=[f"y_{d}" for d in targets]))


def test_a_float_becomes_an_integer():
    built = api.build(graph({"x": ("float32", (64,))}, [("y", "Cast", ("x",), {"dtype": "int32"})]))
    x = np.linspace(-40, 40, 64, dtype=np.float32)
    assert np.array_equal(autofuse.load(built)(x), x.astype(np.int32))


def test_the_result_does_not_depend_on_the_number_of_cores():
    nodes = [("t", "Exp", ("x",)), ("y", "Add", ("t", "b"))]
    inputs = {"x": ("float32", ("r", 100)), "b": ("float32", (1, 100))}
    built = api.build(graph(inputs, nodes, r={"min": 1, "max": 4096, "hint": 50}))
    kernel = autofuse.load(built)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((333, 100), dtype=np.float32)
    b = rng.standard_normal((1, 100), dtype=np.float32)
    whole = kernel(x, b)
    for cores in (1, 2, 7, 48):
        for key in range(kernel.key_count):
            y = kernel.run({"x": x, "b": b}, cores=cores, key=key).outputs["y"]
            assert np.array_equal(y, whole)


@pytest.mark.parametrize("d", ["float32", "float16", "bfloat16"])
def test_a_call_equals_numpy(d):
    nodes = [("t", "Sub", ("a", "b")), ("y", "Relu", ("t",))]
    kernel = autofuse.load(api.build(graph({"a": (d, (7, 9)), "b": (d, (7, 9))}, nodes)))
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((7, 9)).astype(numpy_dtype(dtype(d))) for _ in range(2))
    assert np.array_equal(kernel(a, b), np.maximum(a - b, 0).astype(a.dtype))
