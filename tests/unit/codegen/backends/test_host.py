"""The generated host files: compiled as they are, and called through their C functions."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.ascendc.host.abi import (
    c_string,
    overflow_guards,
    pointer_parameters,
    tiling_fields,
)
from autofuse.codegen.backends.ascendc.host.host import host_files
from autofuse.codegen.backends.ascendc.project import project_files
from autofuse.implgraph.expr.expression import CeilDiv, const, sym
from autofuse.implgraph.ir.dtypes import dtype
from autofuse.implgraph.ir.fusion import FusionGraph, GraphOutput, Symbol, Tensor
from autofuse.schedule.search.costs import Costs
from autofuse.targets import load_target

TARGET = load_target("ascend910b1")
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC"]
NEEDS_GPP = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
Writer = Callable[[dict[str, str]], Path]


class ResLimit(ctypes.Structure):
    _fields_ = [
        ("valid_num", ctypes.c_uint32),
        ("aiv_num", ctypes.c_uint32),
        ("aic_num", ctypes.c_uint32),
        ("ub_size", ctypes.c_uint32),
        ("resv", ctypes.c_uint32 * 10),
    ]


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_uint32), ("dims", ctypes.c_int64 * 16)]


class Host:
    """The host functions of a case, compiled without kernel and launcher."""

    def __init__(self, case, folder: Path) -> None:
        self.fields = tiling_fields(case.graph, case.results)
        sources = sorted(p for p in (folder / "host").glob("*.cpp") if "launch" not in p.name)
        library = folder / "host.so"
        flags = [
            *FLAGS,
            "-O1",
            "-shared",
            "-fsanitize=undefined",
            "-fsanitize-undefined-trap-on-error",
        ]
        includes = [f"-I{folder}", f"-I{folder / 'include'}"]
        subprocess.run(["g++", *flags, *includes, "-o", library, *sources], check=True, timeout=300)
        self.lib = ctypes.CDLL(str(library))
        self.lib.AutofuseErrorText.restype = ctypes.c_char_p
        self.lib.AutofuseErrorText.argtypes = [ctypes.c_int64]
        for name in ("AutofuseTiling", "AutofuseTilingForKey", "InferShape"):
            getattr(self.lib, name).restype = ctypes.c_int64
        self.lib.InferShapeFromSymbols.restype = ctypes.c_int64
        self.lib.GetTilingDataSize.restype = ctypes.c_uint64

    def tiling(self, *sizes: int, key: int | None = None, cores: int = 0, ub: int = 0):
        members = [
            (f.name, ctypes.c_uint32 if f.ctype == "uint32_t" else ctypes.c_int64)
            for f in self.fields
        ]
        data = type("Data", (ctypes.Structure,), {"_fields_": members})()
        assert self.lib.GetTilingDataSize() == ctypes.sizeof(data)
        workspace, block_dim = ctypes.c_uint32(77), ctypes.c_uint32(77)
        limit = ResLimit(aiv_num=cores, ub_size=ub)
        rest = [ctypes.byref(x) for x in (data, workspace, block_dim, limit)]
        given = [ctypes.c_int64(s) for s in sizes]
        if key is None:
            rc = self.lib.AutofuseTiling(*given, *rest)
        else:
            rc = self.lib.AutofuseTilingForKey(ctypes.c_uint32(key), *given, *rest)
        if rc:
            return self.lib.AutofuseErrorText(rc).decode()
        assert workspace.value == 0
        assert block_dim.value == data.block_dim
        return data

    def infer(self, *shapes: tuple[int, ...], outputs: int = 1) -> list[tuple[int, ...]] | str:
        given = (Shape * max(len(shapes), 1))()
        for s, dims in zip(given, shapes, strict=False):
            s.rank = len(dims)
            s.dims[: len(dims)] = list(dims)
        made = (Shape * max(outputs, 1))()
        rc = self.lib.InferShape(len(shapes), given, outputs, made)
        if rc:
            return self.lib.AutofuseErrorText(rc).decode()
        return [tuple(s.dims[: s.rank]) for s in made]


def renamed(case, **names: str):
    """The case with symbols renamed, ranges [1, 99]."""
    env = {old: sym(new) for old, new in names.items()}

    def impl(i):
        spec = replace(i.tiling, extent=i.tiling.extent.substitute(env))
        return replace(i, symbols=symbols, tiling=spec)

    symbols = tuple(Symbol(n, 1, 99) for n in names.values())
    (result,) = case.results
    groups = tuple(replace(g, impls=tuple(map(impl, g.impls))) for g in result.groups)
    tensors = {
        n: replace(t, shape=tuple(d.substitute(env) for d in t.shape))
        for n, t in case.graph.tensors.items()
    }
    graph = replace(case.graph, symbols=symbols, tensors=tensors)
    return replace(case, graph=graph, results=(replace(result, groups=groups),))


@pytest.fixture
def build(write: Writer) -> Callable[..., Host]:
    def do(case) -> Host:
        files = host_files(case.graph, case.results, Costs(TARGET)) | project_files(
            case.graph, TARGET
        )
        return Host(case, write(files))

    return do


def test_files_of_a_small_graph_are_small(abs_case) -> None:
    files = host_files(abs_case.graph, abs_case.results, Costs(TARGET))
    assert list(files) == [
        "autofuse_tiling_data.h",
        "host/abs_test_tiling.cpp",
        "host/abs_test_infer_shape.cpp",
        "host/abs_test_get_kernel.cpp",
        "host/abs_test_launch.cpp",
    ]
    assert files["host/abs_test_tiling.cpp"].count("\n") <= 212
    for text in files.values():
        assert text.startswith("// Generated by autofuse ")
        assert not any(line != line.rstrip() for line in text.splitlines())
        for banned in ("double", "float", "std::", "throw", "new "):
            assert banned not in text


def test_tiling_data(abs_case) -> None:
    text = host_files(abs_case.graph, abs_case.results, Costs(TARGET))["autofuse_tiling_data.h"]
    assert [line.split(";")[0].strip() for line in text.splitlines() if " = " in line] == [
        "uint32_t tiling_key = 0",
        "uint32_t block_dim = 1",
        "int64_t s0 = 0",
        "int64_t z0z1t_size = 1",
        "int64_t z0z1Tb_size = 1",
    ]


def test_every_output_is_a_parameter(abs_case) -> None:
    graph = replace(abs_case.graph, outputs=(GraphOutput("y", "y", "x"), GraphOutput("z", "y")))
    assert pointer_parameters(graph) == (
        "x",
        "y",
        "z",
        "workspace",
    )


def test_a_symbol_may_not_be_called_like_a_member(abs_case) -> None:
    for name in ("tiling_key", "z0z1t_size"):
        graph = replace(abs_case.graph, symbols=(Symbol(name),))
        with pytest.raises(AutofuseError, match="AF1106"):
            tiling_fields(graph, abs_case.results)


def test_products_are_guarded_only_where_they_may_overflow() -> None:
    small, large = {"a": (0, 1 << 20)}, {"a": (0, 1 << 40), "b": (0, 1 << 40)}
    a, b = sym("a"), sym("b")
    assert overflow_guards([a * 200], small, {}) == ()
    assert overflow_guards([a * b * 3, a * b * 3, a], large, {"b": "s.b"}) == ("3, a, s.b",)
    inner = overflow_guards([CeilDiv(a * a + 1, 8)], large, {})
    assert inner[0] == "a, a"


def test_c_string() -> None:
    assert c_string('say "x\\y"') == '"say \\"x\\\\y\\""'
    assert c_string("a\n\u00e9b") == '"a?\\?b"'
    assert c_string("???/") == '"?\\?\\?/"'


def test_too_many_dimensions(abs_case) -> None:
    graph = abs_case.graph
    wide = Tensor("x", dtype("float32"), (sym("s0"),) * 17)
    graph = replace(graph, tensors={**graph.tensors, "x": wide})
    with pytest.raises(AutofuseError, match="17 dimensions"):
        host_files(graph, abs_case.results, Costs(TARGET))


@NEEDS_GPP
@pytest.mark.twin
@pytest.mark.parametrize("fixture", ["abs_case", "two_templates", "two_groups"])
def test_compiles_file_by_file_and_as_one(
    fixture: str, request: pytest.FixtureRequest, write: Writer, repo: Path
) -> None:
    case = request.getfixturevalue(fixture)
    files = host_files(case.graph, case.results, Costs(TARGET))
    sources = [n for n in files if n.endswith(".cpp")]
    files["unit.cpp"] = "".join(f'#include "{n}"\n' for n in sources)
    folder = write(files | project_files(case.graph, TARGET))
    twin = repo / "runtime" / "include"
    includes = [folder, folder / "include", twin, twin / "autofuse_twin"]
    command = ["g++", *FLAGS, "-DAUTOFUSE_TWIN", *(f"-I{p}" for p in includes), "-fsyntax-only"]
    for source in (*sources, "unit.cpp"):
        subprocess.run([*command, str(folder / source)], check=True, timeout=120)


@NEEDS_GPP
@pytest.mark.twin
def test_solver_header(tmp_path: Path, repo: Path) -> None:
    """Legal tiles, all work covered once, cores respected: 100000 random problems."""
    binary = tmp_path / "solver_test"
    source = repo / "tests" / "cpp_host" / "solver_test.cpp"
    flags = [*FLAGS, "-O1", "-Wconversion", "-Wno-sign-conversion", "-Wshadow"]
    flags += [
        "-fsanitize=undefined",
        "-fno-sanitize-recover=all",
        f"-I{repo / 'host_templates' / 'headers'}",
    ]
    subprocess.run(["g++", *flags, str(source), "-o", str(binary)], check=True, timeout=120)
    done = subprocess.run([str(binary)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_GPP
@pytest.mark.twin
@pytest.mark.parametrize("sanitize", ["undefined", "thread"])
def test_memo_header(sanitize: str, tmp_path: Path, repo: Path) -> None:
    """Four threads, more calls than there are entries: a hit is the answer to that very call."""
    binary = tmp_path / "memo_test"
    source = repo / "tests" / "cpp_host" / "memo_test.cpp"
    flags = [*FLAGS, "-O2", "-Wconversion", "-Wno-sign-conversion", "-Wshadow", "-pthread"]
    flags += [
        f"-fsanitize={sanitize}",
        "-fno-sanitize-recover=all",
        f"-I{repo / 'host_templates' / 'headers'}",
    ]
    subprocess.run(["g++", *flags, str(source), "-o", str(binary)], check=True, timeout=120)
    done = subprocess.run([str(binary)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_GPP
@pytest.mark.twin
def test_tiling_of_one_template(abs_case, build) -> None:
    host = build(abs_case)
    for s0 in (1, 2, 3, 7, 200, 4096, 65537, 1 << 20):
        data = host.tiling(s0)
        elements = s0 * 200
        tiles = -(-elements // data.z0z1t_size)
        assert data.tiling_key == 0
        assert data.s0 == s0
        assert data.z0z1t_size % 8 == 0
        assert 16 * data.z0z1t_size <= 188160
        assert data.z0z1Tb_size * data.block_dim >= tiles > data.z0z1Tb_size * (data.block_dim - 1)
        assert data.block_dim <= 48
    # A tiny tensor takes few cores, a large one about as many as GM can feed.
    assert host.tiling(1).block_dim <= 4
    assert 4 < host.tiling(200).block_dim <= 48
    assert 20 < host.tiling(1 << 20).block_dim <= 48
    assert host.tiling(1 << 20, cores=4).block_dim == 4
    assert 16 * host.tiling(1 << 20, ub=1024).z0z1t_size <= 1024
    assert host.lib.GetTilingKeyCount() == 1
    assert not host.lib.AutofuseIsStaticShape()


@NEEDS_GPP
@pytest.mark.twin
def test_tiling_errors_have_names(abs_case, build) -> None:
    host = build(abs_case)
    assert host.tiling(0) == "s0 is not in [1, 1048576]"
    assert host.tiling(1 << 60) == "s0 is not in [1, 1048576]"
    assert host.tiling(1, key=1) == "no such tiling key"
    assert host.tiling(9, ub=64).startswith(
        "template abs_test_0_general_0_nil_2_nil: even the smallest tile does not fit 188160 bytes"
        " of UB, or those that are granted"
    )
    assert host.lib.AutofuseTiling(ctypes.c_int64(1), None, None, None, None) == 1
    assert host.lib.AutofuseErrorText(1) == b"a pointer that must not be null is null"
    assert host.lib.AutofuseErrorText(0) == b"ok"
    assert host.lib.AutofuseErrorText(-5) == b"unknown error"
    assert host.lib.AutofuseErrorText(99) == b"unknown error"


@NEEDS_GPP
@pytest.mark.twin
@pytest.mark.parametrize("fixture", ["abs_case", "two_groups"])
def test_limits_are_honoured_also_where_the_tiling_is_folded(
    fixture: str, request: pytest.FixtureRequest, build
) -> None:
    host = build(request.getfixturevalue(fixture))
    sizes = (1 << 16,) if fixture == "abs_case" else ()
    all_of_it = host.tiling(*sizes)
    for cores in (1, 2, 7):
        assert 1 <= host.tiling(*sizes, cores=cores).block_dim <= cores
    # No more cores than there are, whatever is granted.
    assert host.tiling(*sizes, cores=1000).block_dim == all_of_it.block_dim <= 48
    tiles = [f.name for f in host.fields if f.name.endswith("t_size")]
    less = host.tiling(*sizes, ub=4096)
    chosen = [n for n in tiles if getattr(less, n) > 1]
    assert chosen
    assert all(16 * getattr(less, n) <= 4096 or n == "z0t_size" for n in chosen)
    refused = host.tiling(*sizes, ub=32)
    assert isinstance(refused, str)
    assert (
        "smallest tile" in refused or refused == "no template is legal for these sizes and limits"
    )


@NEEDS_GPP
@pytest.mark.twin
def test_choice_between_templates(two_templates, build) -> None:
    host = build(two_templates)
    assert host.lib.GetTilingKeyCount() == 2
    # A row that does not fit UB leaves the general template only.
    assert host.tiling(100, 1 << 20).tiling_key == 0
    assert "even the smallest tile" in host.tiling(100, 1 << 20, key=1)
    assert "it does not hold that s1 is a multiple of 8" in host.tiling(100, 201, key=1)
    row = host.tiling(10000, 200, key=1)
    assert row.tiling_key == 1
    assert 1 <= row.z0t_size <= 58
    assert row.z0z1t_size == 1, "members of the other template keep their start value"
    assert host.tiling(10000, 200, key=0).z0z1t_size > 1
    assert "the sizes do not fit 64 bits" in host.tiling(1 << 40, 1 << 40, key=0)
    assert host.tiling(1 << 40, 1 << 40) == "no template is legal for these sizes and limits"


@NEEDS_GPP
@pytest.mark.twin
@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0), (1, 1)])
def test_empty_and_smallest_sizes(sizes: tuple[int, int], two_templates, build) -> None:
    host = build(two_templates)
    data = host.tiling(*sizes)
    assert data.block_dim == 1
    for f in host.fields[4:]:
        assert getattr(data, f.name) >= 1


@NEEDS_GPP
@pytest.mark.twin
def test_groups_are_chosen_one_by_one(two_groups, build) -> None:
    host = build(two_groups)
    assert host.lib.AutofuseIsStaticShape()
    assert host.lib.GetTilingKeyCount() == 4
    for key in range(4):
        data = host.tiling(key=key)
        assert data.tiling_key == key
        first = data.z0t_size if key >= 2 else data.z0z1t_size
        other = data.z0z1t_size if key >= 2 else data.z0t_size
        assert first > 1
        assert other == 1
        assert data.b_t_size > 1
    best = host.tiling()
    assert best.tiling_key in (0, 2), "of equal templates the first is taken"
    assert host.tiling(key=4) == "no such tiling key"


@NEEDS_GPP
@pytest.mark.twin
def test_infer_shape(abs_case, build) -> None:
    host = build(abs_case)
    assert host.infer((7, 200)) == [(7, 200)]
    assert host.infer((7, 201)) == "input x does not have the shape [s0, 200]"
    assert host.infer((7,)) == "input x does not have the shape [s0, 200]"
    assert host.infer((0, 200)) == "s0 is not in [1, 1048576]"
    assert host.infer((7, 200), (1,)) == "wrong number of inputs"
    assert host.infer((7, 200), outputs=2) == "wrong number of outputs"
    made = Shape()
    assert host.lib.InferShapeFromSymbols(ctypes.c_int64(9), 1, ctypes.byref(made)) == 0
    assert tuple(made.dims[:2]) == (9, 200)


def _shapes(graph: FusionGraph, x: tuple, y: tuple) -> FusionGraph:
    f32 = dtype("float32")
    tensors = {"x": Tensor("x", f32, x), "y": Tensor("y", f32, y)}
    return replace(graph, tensors=tensors)


@NEEDS_GPP
@pytest.mark.twin
def test_infer_shape_solves_lines_exactly(abs_case, build) -> None:
    s0 = sym("s0")
    graph = _shapes(abs_case.graph, (s0 * 4 - 2,), (CeilDiv(s0, 2), const(3)))
    host = build(replace(abs_case, graph=graph))
    assert host.infer((26,)) == [(4, 3)]
    assert host.infer((27,)) == "input x does not have the shape [(-2 + (4 * s0))]"


@NEEDS_GPP
@pytest.mark.twin
def test_infer_shape_does_not_overflow(two_templates, build) -> None:
    s0, s1 = sym("s0"), sym("s1")
    host = build(replace(two_templates, graph=_shapes(two_templates.graph, (s0, s1), (s0 * s1,))))
    assert host.infer((1 << 20, 1 << 20)) == [(1 << 40,)]
    assert host.infer((1 << 40, 1 << 40)) == "the sizes do not fit 64 bits"


@NEEDS_GPP
@pytest.mark.twin
def test_infer_shape_without_a_solution_says_so(abs_case, build) -> None:
    graph = _shapes(abs_case.graph, (sym("s0") * sym("s0"),), (sym("s0"),))
    host = build(replace(abs_case, graph=graph))
    assert host.infer((9,)) == "s0 does not follow from the input shapes"


@NEEDS_GPP
@pytest.mark.twin
def test_scalars_have_no_dimensions(two_groups, build) -> None:
    host = build(replace(two_groups, graph=_shapes(two_groups.graph, (), ())))
    assert host.infer(()) == [()]
    assert host.infer((1,)) == "input x does not have the shape []"


@NEEDS_GPP
@pytest.mark.twin
@pytest.mark.parametrize(
    "name", ["key", "data", "t", "s", "rc", "limit", "outputs", "memo", "call"]
)
def test_symbols_may_be_called_like_variables(name: str, abs_case, build) -> None:
    host = build(renamed(abs_case, s0=name))
    assert host.infer((3, 200)) == [(3, 200)]
    assert getattr(host.tiling(99), name) == 99
    assert host.tiling(100) == f"{name} is not in [1, 99]"


@NEEDS_GPP
@pytest.mark.twin
def test_kernel_binary(abs_case, build) -> None:
    host = build(abs_case)
    data, size = ctypes.c_void_p(1), ctypes.c_uint64(1)
    rc = host.lib.GetKernelBin(ctypes.byref(data), ctypes.byref(size))
    assert host.lib.AutofuseErrorText(rc) == b"built without a device binary"
    assert (data.value, size.value) == (None, 0)


@NEEDS_GPP
@pytest.mark.twin
def test_kernel_binary_that_the_build_made(abs_case, write: Writer) -> None:
    files = host_files(abs_case.graph, abs_case.results, Costs(TARGET))
    files |= project_files(abs_case.graph, TARGET)
    files["abs_test_kernel_bin.inc"] = "0x01,0x41,"
    host = Host(abs_case, write(files))
    data, size = ctypes.POINTER(ctypes.c_uint8)(), ctypes.c_uint64()
    assert host.lib.GetKernelBin(ctypes.byref(data), ctypes.byref(size)) == 0
    assert bytes(data[: size.value]) == b"\x01A"


@NEEDS_GPP
@pytest.mark.twin
def test_choice_between_results(two_groups, build) -> None:
    """Keys go on over results; the result with fewer groups costs less."""
    (both,) = two_groups.results
    single = replace(both, index=1, groups=both.groups[:1])
    host = build(replace(two_groups, results=(both, single)))
    assert host.lib.GetTilingKeyCount() == 6
    assert host.tiling().tiling_key in (4, 5)
    for key in range(6):
        data = host.tiling(key=key)
        assert data.tiling_key == key
        assert (data.b_t_size > 1) == (key < 4)
    assert host.tiling(key=6) == "no such tiling key"
    assert host.tiling(key=5, ub=64).startswith("template abs_static_0_row")
    assert host.tiling(ub=64) == "no template is legal for these sizes and limits"
