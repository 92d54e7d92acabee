"""Kernels for architecture 3510 on the twin, which has its UB, casts and subnormal numbers: a graph of every family."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from twin_graphs import every_template, graph

from autofuse import api
from autofuse.implgraph.ir.dtypes import BY_NAME, numpy_dtype
from autofuse.machines.twin.run.compile import compile_kernel
from autofuse.machines.twin.run.kernel import TwinKernel
from autofuse.machines.twin.verify.verify import verify_kernel
from autofuse.results import BuildResult
from autofuse.targets import load_target

pytestmark = [pytest.mark.twin, pytest.mark.slow]

REPO = Path(__file__).resolve().parents[3]
CHIP = "ascend950pr"
GRAPHS = (
    *(
        f"tests/snapshot/graphs/{name}.json"
        for name in (
            "abs_test",
            "bias_unaligned",
            "cast_chain",
            "reduce_rows",
            "running_sum_rows",
            "short_rows",
            "softmax",
            "transpose",
            "transpose_64_bits",
            "two_groups",
        )
    ),
    *(
        f"examples/gallery/{name}.json"
        for name in ("masked_softmax", "quantise_per_token", "rms_norm_residual")
    ),
)


@pytest.mark.parametrize("path", GRAPHS, ids=lambda p: Path(p).stem)
def test_kernels_are_right_in_checked_mode(path: str) -> None:
    built = api.build(REPO / path, target=CHIP)
    report = verify_kernel(built.files, built.graph, count=2, opt="-O0")
    assert report.ok, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize(
    "dtype", ["int64", "uint64", "float32", "float16", "bfloat16", "int8", "bool"]
)
@pytest.mark.parametrize("shape", [(64, 6, 10, 67), (64, 3, 17, 131)], ids=str)
def test_short_rows_on_both_sides(dtype: str, shape: tuple[int, ...]) -> None:
    """Runs in GM are whole axes, what is stored is one run whatever its rows are: loads of several dimensions."""
    graph = {
        "schema": "autofuse.graph/1",
        "name": f"turn_{dtype}",
        "inputs": [{"name": "x", "dtype": dtype, "shape": list(shape)}],
        "nodes": [
            {
                "name": "t",
                "op": "Transpose",
                "inputs": ["x"],
                "outputs": ["y"],
                "attrs": {"perm": [0, 3, 2, 1]},
            }
        ],
        "outputs": ["y"],
    }
    built = api.build(graph, target=CHIP, verify_ir=True)
    suffixes = {i.suffix for r in built.schedule for g in r.groups for i in g.impls}
    assert any("permuted" in s for s in suffixes), suffixes
    report = verify_kernel(built.files, built.graph, count=2, opt="-O0")
    assert report.ok, "\n".join(map(str, report.diagnostics))


def test_tiles_go_beyond_the_ub_of_atlas_a2() -> None:
    built = api.build(REPO / "examples" / "demo.json", target=CHIP)
    used = max(i.tiling.ub_limit for r in built.schedule for g in r.groups for i in g.impls)
    assert used == load_target(CHIP).ub_usable == 248 * 1024


def one_op(op: str, dtype: str) -> BuildResult:
    graph = {
        "schema": "autofuse.graph/1",
        "name": f"{op}_{dtype}".lower(),
        "inputs": [{"name": "x", "dtype": dtype, "shape": [1024]}],
        "nodes": [{"name": "n", "op": op, "inputs": ["x"], "outputs": ["y"]}],
        "outputs": ["y"],
    }
    return api.build(graph, target=CHIP)


def kernel(built: BuildResult, chip: str = CHIP) -> TwinKernel:
    path = compile_kernel(built.files, built.name, opt="-O0")
    return TwinKernel(path, built.graph, chip=load_target(chip))


@pytest.mark.parametrize("op", ["Ln", "Sqrt", "Exp", "Reciprocal"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_subnormal_numbers_are_allowed_to_be_zeros(op: str, dtype: str) -> None:
    built = one_op(op, dtype)
    report = verify_kernel(built.files, built.graph, count=2, special=True, opt="-O0")
    assert report.ok, "\n".join(map(str, report.diagnostics))


def test_subnormal_float32_numbers_are_zeros_to_a_root() -> None:
    built = one_op("Sqrt", "float32")
    x = np.resize(np.array([1e-40, -1e-40, 4.0, 0.0], np.float32), 1024)
    got = kernel(built)(x)
    assert np.array_equal(got[:4], np.array([0, 0, 2, 0], np.float32))
    assert np.signbit(got[1])
    kept = kernel(built, "ascend910b1")(x)
    assert kept[0] == np.sqrt(x[0]) > 0


def test_subnormal_float16_numbers_are_kept_by_a_root() -> None:
    x = np.resize(np.array([3e-5, 6e-8, 4.0], np.float16), 1024)
    got = kernel(one_op("Sqrt", "float16"))(x)
    assert np.array_equal(got, np.sqrt(x.astype(np.float32)).astype(np.float16))


def test_a_call_of_no_elements_is_a_finding() -> None:
    built = one_op("Abs", "float32")
    path = f"device/{built.name}_kernel.cpp"
    text = built.files[path]
    call = next(line for line in text.splitlines() if "Abs(" in line and line.endswith(");"))
    head, _, _ = call.rpartition(", ")
    files = {**built.files, path: text.replace(call, f"{call}\n{head}, 0);")}
    report = verify_kernel(files, built.graph, count=1, opt="-O0")
    assert {d.code for d in report.diagnostics} == {"AF5004"}
    assert "architecture 3510 is not documented to do nothing" in str(report.diagnostics[0])
    own = load_target(CHIP)
    lenient = replace(own, arch=replace(own.arch, name="3510 as 2201", zero_is_nothing=True))
    library = compile_kernel(files, built.name, opt="-O0", checked=True)
    twin = TwinKernel(library, built.graph, check="all", chip=lenient)
    x = np.arange(-512, 512, dtype=np.float32)
    assert np.array_equal(twin(x), np.abs(x))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Transpose", {"perm": [1, 0]}),
        ("Slice", {"starts": [0, 0], "shape": ["rows", 20], "steps": [1, 3]}),
        ("Slice", {"starts": [0, 59], "shape": ["rows", 60], "steps": [1, -1]}),
    ],
    ids=["transposed", "picked", "backwards"],
)
def test_bytes_are_moved_as_halves_with_the_casts_of_the_architecture(
    dtype: str, op: str, attrs: dict[str, object]
) -> None:
    graph = {
        "schema": "autofuse.graph/1",
        "name": "moved",
        "symbols": {"rows": {"min": 1, "max": 4096}},
        "inputs": [{"name": "x", "dtype": dtype, "shape": ["rows", 60]}],
        "nodes": [{"name": "n", "op": op, "inputs": ["x"], "outputs": ["y"], "attrs": attrs}],
        "outputs": ["y"],
    }
    built = api.build(graph, target=CHIP, verify_ir=True)
    assert any("RoundMode::CAST_RINT" in text for text in built.files.values())
    report = verify_kernel(built.files, built.graph, count=2, opt="-O0")
    assert report.ok, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize("columns", [5, 33])
def test_partial_results_of_a_transposed_tensor(columns: int) -> None:
    """Bytes have rows of 32 as they are loaded, but there are as many partial results as there are columns."""
    nodes = [
        ("t", "Transpose", ["x"], {"perm": [1, 0]}),
        ("m", "ReduceMin", ["t"], {"axes": [0, 1], "keepdims": True}),
        ("y", "Add", ["t", "m"]),
    ]
    with every_template():
        document = graph({"x": ("int8", (277, columns))}, nodes)
        built = api.build(document, target=CHIP, verify_ir=True)
    templates = {i.template for r in built.schedule for g in r.groups for i in g.impls}
    assert "reduce_all" in templates
    report = verify_kernel(built.files, built.graph, count=2, opt="-O0")
    assert report.ok, "\n".join(map(str, report.diagnostics))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("op", ["Tanh", "Erf"])
def test_formulas_end_at_1_exactly(op: str, dtype: str) -> None:
    """So that 1 added to -1 leaves nothing that a large number makes larger, where ops round at the end only."""
    nodes = [
        {"name": "a", "op": op, "inputs": ["x"], "outputs": ["f"]},
        {"name": "b", "op": "Add", "inputs": ["f", {"const": 1.0}], "outputs": ["g"]},
        {"name": "c", "op": "Mul", "inputs": ["g", "x"], "outputs": ["h"]},
    ]
    graph = {
        "schema": "autofuse.graph/1",
        "name": "ends",
        "inputs": [{"name": "x", "dtype": dtype, "shape": [64]}],
        "nodes": nodes,
        "outputs": ["f", "h"],
    }
    large = 6e4 if dtype == "float16" else 1e30
    far = np.array([9.5, 11.0, 40.0, 1e3, large, np.inf], np.float32)
    x = np.concatenate((far, -far, [np.nan], np.zeros(51))).astype(numpy_dtype(BY_NAME[dtype]))
    built = api.build(graph, target=CHIP)
    f, h = TwinKernel(compile_kernel(built.files, "ends"), built.graph)(x)
    f, h = np.asarray(f, np.float32), np.asarray(h, np.float32)
    assert (f[:6] == 1.0).all()
    assert (f[6:12] == -1.0).all()
    assert np.isnan(f[12])
    assert (f[13:] == 0.0).all()
    assert (h[6:11] == 0.0).all()
