"""What a client's graph may not have: the diagnostic names the construct and its node, all of them at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from client_calls import Calls, executed, fused

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.cann import ascir_api
from autofuse.clients.cann.compile_adapter import (
    host_compile,
    jit_compile,
    kernel_compile,
    pgo_get_top_result,
)
from autofuse.clients.cann.pyautofuse import Autofuser, CodeGen, Schedule, ascir
from autofuse.clients.cann.pyautofuse.bundle import pack, unpack
from autofuse.clients.cann.pyautofuse.cann_ops import find_op, op_names
from autofuse.clients.cann.pyautofuse.reading.translate import translate


def base(edit: Callable[[Calls, str], object] | None = None, **replaced: str) -> str:
    """abs(x) * 2 with an edit of the graph, and of the text."""
    c = Calls("g", [6, 10])
    x = c.load(c.data("float32"))
    y = c.op("Mul", c.op("Abs", x), c.scalar("2.0"))
    if edit is not None:
        edit(c, x)
    c.store(y)
    text = fused("refused", [(c, ["in0"])])
    for old, new in replaced.items():
        assert TEXTS[old] in text, old
        text = text.replace(TEXTS[old], new)
    return text


TEXTS = {
    "output_type": "y.dtype = ascir.dtypes.float32\ng.infer_dtypes()",
    "outer_input": "g_node.x = [in0]",
    "outer_output": "out0.x = [g_y0]",
    "outer_index": "out0.attr.ir_attr.index = 0",
    "data_type": "data0_g.y.dtype = ascir.dtypes.float32",
    "value": "attr.ir_attr.value = '2.0'",
    "mul": "mul4_g.x2 = scalar3_g.y",
}

CASES: dict[str, tuple[str, str, list[str]]] = {
    "debug ops of the client": (
        base(lambda c, x: [c.op("index_expr", x), c.op("indirect_load", x)]),
        "AF1201",
        ["'index_expr'", "'indirect_load'"],
    ),
    "matrix product": (base(lambda c, x: c.op("MatMul", x, x)), "AF1201", ["'MatMul'"]),
    "close name": (base(lambda c, x: c.op("Sigmoyd", x)), "AF1201", ["'Sigmoyd'", "'Sigmoid'"]),
    "unknown attribute": (
        base(lambda c, x: c.op("Abs", x, alpha=2)),
        "AF1205",
        ["Abs has no attribute 'alpha'"],
    ),
    "wrong attribute": (
        base(lambda c, x: c.op("LeakyRelu", x, negative_slope="steep")),
        "AF1205",
        ["'negative_slope'", "'steep'"],
    ),
    "unknown input": (
        base(lambda c, x: c.node("Abs", f"x2 = {x}.y")),
        "AF1202",
        ["Abs has no input 'x2'"],
    ),
    "missing input": (base(mul="pass"), "AF1202", ["Mul needs the input 'x2'"]),
    "not a node": (base(mul="mul4_g.x2 = 3"), "AF1103", ["is 3, which is not an output"]),
    "data without a load": (
        base(mul="mul4_g.x2 = data0_g.y"),
        "AF1301",
        ["data0_g.y[0]", "a Load is needed"],
    ),
    "axes in another order": (
        base(lambda c, x: c.op("Add", x, c.load("data0_g", [10, 6], [1, 10], axes=["a1", "a0"]))),
        "AF1301",
        ["(a0, a1) and (a1, a0)", "only Transpose"],
    ),
    "sizes that do not fit": (
        base(lambda c, x: c.op("Abs", x, sizes=[6, 5])),
        "AF1204",
        ["[6, 5]", "[6, 10]"],
    ),
    "a reduction that shrinks": (
        base(lambda c, x: c.op("Sum", x, sizes=[6, 5])),
        "AF1204",
        ["size 10 along (a1) cannot become 5"],
    ),
    "elements that are written twice": (
        base(lambda c, x: c.store(x, strides=[5, 1])),
        "AF1301",
        ["[5, 1]", "may write an element twice"],
    ),
    "no type": (base(data_type="pass"), "AF1101", ["element type of Data"]),
    "a type that differs": (
        base(output_type="y.dtype = ascir.dtypes.float16\ng.infer_dtypes()"),
        "AF1207",
        ["float16", "float32"],
    ),
    "mixed types": (
        base(lambda c, x: c.op("Add", x, c.op("Cast", x, dtype="float16"))),
        "AF1203",
        ["float32, float16"],
    ),
    "no number": (base(value="attr.ir_attr.value = 'two'"), "AF1104", ["'two'", "'inf'"]),
    "a buffer of nothing": (base(outer_input="g_node.x = [g_node.y[4]]"), "AF1107", ["y[4]"]),
    "too few buffers": (base(outer_input="g_node.x = []"), "AF1202", ["0 inputs", "1 Data"]),
    "a cycle": (base(outer_input="g_node.x = [g_y0]"), "AF1206", ["cycle"]),
    "an input as output": (base(outer_output="out0.x = [in0]"), "AF1301", ["in0"]),
    "two buffers for one output": (
        base(outer_output="out0.x = [g_y0, g_y0]"),
        "AF1202",
        ["one input, not 2"],
    ),
    "indices with a hole": (base(outer_index="out0.attr.ir_attr.index = 1"), "AF1205", ["[1]"]),
    "compute in the outer graph": (
        base(outer_output="more = ascir.ops.Abs('more', whole)\nout0.x = [g_y0]"),
        "AF1301",
        ["Abs is not supported in a FusedGraph"],
    ),
    "a gather along no axis": (
        base(lambda c, x: c.gather(x, c.op("Cast", x, dtype="int32"), 2, [6, 10], ["a0", "a1"])),
        "AF1205",
        ["'axis' is 2", "x1 has 2 axes"],
    ),
    "a gather with other axes": (
        base(lambda c, x: c.gather(x, c.op("Cast", x, dtype="int32"), 0, [6, 10], ["a0", "a1"])),
        "AF1301",
        ["the axes of y are (a0, a1)", "make (a0, a1, a1)"],
    ),
    "a gather from a table without a layout": (
        base(
            lambda c, x: c.gather(
                "data0_g", c.op("Cast", x, dtype="int32"), 0, [6, 10], ["a0", "a1"]
            )
        ),
        "AF1101",
        ["y.axis and y.size of Data are not set"],
    ),
    "a gather by fractions": (
        base(
            lambda c, x: c.gather(c.load("data0_g", [10], axes=["a1"]), x, 0, [6, 10], ["a0", "a1"])
        ),
        "AF1203",
        ["int32 or int64"],
    ),
    "a load from before its buffer": (
        base(lambda c, x: c.store(c.load("data0_g", strides=[10, -1], offset=8))),
        "AF1109",
        ["-1 can be negative"],
    ),
    "run-time scalars": (base(lambda c, x: c.node("ScalarData")), "AF1201", ["'ScalarData'"]),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    text, code, words = CASES[case]
    with pytest.raises(AutofuseError) as e:
        translate(executed(text))
    assert code in {d.code for d in e.value.diagnostics}
    for word in words:
        assert word in str(e.value)


def test_the_graph_without_edits_is_fine() -> None:
    assert [n.op for n in translate(executed(base())).graph.nodes] == ["Abs", "Mul"]


def test_a_node_is_named_and_what_depends_on_it_is_not() -> None:
    with pytest.raises(AutofuseError) as e:
        translate(executed(base(lambda c, x: c.op("Exp", c.op("nothing", x)))))
    assert [d.where.node for d in e.value.diagnostics] == ["g/nothing5_g"]


def test_element_types_that_no_kernel_holds() -> None:
    """CANN's own names can be set, and are refused with the node; others are none."""
    text = base(data_type="data0_g.y.dtype = ascir.dtypes.complex64")
    with pytest.raises(AutofuseError, match=r"AF1203: complex64 .*\n.*data0_g"):
        translate(executed(text))
    with pytest.raises(AutofuseError, match="AF1203"):
        _ = ascir.dtypes.float64
    assert not hasattr(ascir.dtypes, "float64")


def test_a_graph_that_stores_nothing() -> None:
    g = ascir.HintGraph("g")
    ascir.ops.Data("x", g).y.dtype = ascir.dtypes.float32
    with pytest.raises(RuntimeError, match="AF1107: nothing in the graph is stored"):
        Autofuser().schedule(g)


@pytest.mark.parametrize(
    "ends", [(), ("Workspace",), ("Workspace", "Workspace"), ("Workspace", "")]
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_graph_without_an_output(ends: tuple[str, ...], inside: bool) -> None:
    g = ascir.HintGraph("g")
    z = g.create_axis("z0", g.create_size("s0"))
    at = ascir_api.Data(g, dtype=ascir.dtypes.float16)
    for end in ends or ("",):
        at = ascir_api.Store(g, ascir_api.Load(g, at, axis=[z]), axis=[z])
        if end:
            at = getattr(ascir_api, end)(g, at, axis=[z])
    graph = g
    if inside:
        graph = ascir.FusedGraph("f")
        data = ascir.ops.Data("x", graph)
        data.y.dtype = ascir.dtypes.float16
        ascir.ops.AscBackend("run", g, graph).x = [data.y]
    with pytest.raises(RuntimeError, match="AF1107: the graph has no Output"):
        Autofuser().schedule(graph)


@pytest.mark.parametrize("value", [10**30, 10**400, -1, "1.5", "nan", "inf"])
def test_a_constant_that_its_type_has_not(value: object) -> None:
    text = base(value="attr.ir_attr.value = 0")
    graph = executed(text.replace("value = 0", f"value = {value!r}").replace("float32", "uint8"))
    with pytest.raises(RuntimeError, match=r"AF1203: the constant .* does not fit uint8"):
        Autofuser().schedule(graph)


def test_a_reduction_of_a_constant_along_no_axis() -> None:
    g = ascir.HintGraph("g")
    two = ascir_api.Scalar(g, dtype=ascir.dtypes.float32, value="2")
    total = ascir_api.Sum(g, two, axis=[])
    ascir_api.Output(g, ascir_api.Store(g, total, axis=[]))
    assert Autofuser().schedule(g).get_output_num() == 1


@pytest.mark.parametrize(
    "graph", [None, 3, "g", [], ascir.HintComputeGraph("g")], ids=lambda g: type(g).__name__
)
def test_what_is_no_graph(graph: Any) -> None:
    with pytest.raises(TypeError, match=r"AF1103: .* is not a graph"):
        Autofuser().schedule(graph)
    with pytest.raises(TypeError, match=r"AF1103: .* is not a HintGraph"):
        ascir_api.Data(graph, dtype=None)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ascir.Assert(1), "ascir.Assert"),
        (lambda: ascir.utils.deserialize("compute_graph", ""), "deserialize"),
        (lambda: ascir.utils.from_file(), "from_file"),
        (lambda: Schedule().scheduleV2(None), "scheduleV2"),
        (lambda: CodeGen().pgo_code_generator(None, ""), "pgo_code_generator"),
        (lambda: CodeGen().get_kernel_and_json_generator("a", "b"), "get_kernel_and_json"),
        (lambda: pgo_get_top_result(), "pgo_get_top_result"),
        (lambda: kernel_compile("", "", [], tiling_repr="x"), "tiling_repr"),
    ],
)
def test_what_is_not_supported_says_so(call: Callable[[], object], name: str) -> None:
    with pytest.raises(AutofuseError, match="AF1301") as e:
        call()
    assert name in str(e.value)


def test_attributes_that_no_node_has() -> None:
    g = ascir.HintGraph("g")
    x = ascir.ops.Abs("abs", g)
    with pytest.raises(AutofuseError, match="AF1102"):
        x.y.shape = [1]
    with pytest.raises(AutofuseError, match="AF1102"):
        x.input = None
    with pytest.raises(AttributeError):
        x.attr.sched.nothing = 1
    with pytest.raises(AutofuseError, match="AF1103"):
        ascir.ops.Abs("abs", "g")
    with pytest.raises(AutofuseError, match="AF1103"):
        ascir.ops.AscBackend("b", ascir.FusedGraph("f"), ascir.FusedGraph("f"))


# ops --------------------------------------------------------------------------------------------


def test_every_name_makes_a_node_of_its_op() -> None:
    """Nothing else in the module is in the way of an op's name."""
    g = ascir.HintGraph("g")
    for name in op_names():
        node = getattr(ascir.ops, name)(name, g)
        assert isinstance(node, ascir.Operator)
        assert node.type == name
        row = find_op(name)
        assert row is not None
        assert not row.op or row.row.user


def test_inferred_types() -> None:
    scope: dict[str, object] = {"ascir": ascir}
    c = Calls("g", [4, 4])
    x = c.load(c.data("float16"))
    wide = c.op("Cast", x, dtype="float32")
    names = {
        x: "float16",
        c.op("Exp", wide): "float32",
        c.op("Gt", x, x): "uint8",
        c.op("Isnan", x): "uint8",
        c.op("Where", c.op("Lt", x, x), wide, wide): "float32",
        c.op("Sum", wide, sizes=[4, 1]): "float32",
        c.op("Any", wide, sizes=[4, 1]): "uint8",
        c.op("ArgMax", wide, sizes=[4, 1]): "int64",
        c.op("unknown", wide): None,
    }
    exec("\n".join([*c.lines, "g.infer_dtypes()"]), scope)
    for name, want in names.items():
        dtype = scope[name].y.dtype  # type: ignore[attr-defined]
        assert (dtype and dtype.name) == want, name


# texts ------------------------------------------------------------------------------------------


def test_texts_give_the_files_back() -> None:
    result = Autofuser().schedule(executed(base()))
    bundle = pack(result.files, result.get_name())
    files, name = unpack(bundle.tiling_def, bundle.host_impl, bundle.device_impl)
    assert name == "refused"
    same = 0
    for path, text in result.files.items():
        if path.endswith((".cpp", ".inc", ".txt", "Presets.json")):
            assert files[path] == text, path
            same += 1
        elif path.endswith(".h"):
            # Lines that go on are joined.
            assert "".join(files[path].split()) == "".join(text.replace("\\\n", "").split()), path
            same += 1
        else:
            assert path not in files
    assert same == len(files) >= 10


def test_odd_characters_survive() -> None:
    text = "a '''b''' \\ %5C 100%\n\n// autofuse file: x.cpp\n"
    files = {"autofuse_tiling_data.h": "x\n", "host/a.cpp": text, "CMakeLists.txt": text}
    bundle = pack(files, "k")
    joined = bundle.tiling_def + bundle.host_impl + bundle.device_impl
    assert "\\" not in joined
    assert "'''" not in joined
    assert unpack(bundle.tiling_def, bundle.host_impl, bundle.device_impl)[0] == files


@pytest.mark.twin
def test_arguments_of_jit_compile(tmp_path: os.PathLike[str]) -> None:
    texts = Autofuser().codegen(Autofuser().schedule(executed(base())))
    other = Autofuser().codegen(Autofuser().schedule(executed(base().replace("refused", "other"))))
    for argv, code in (
        (["--nothing=1"], "AF5007"),
        (["--config_file=x.json"], "AF5007"),
        (["--compile_options=-g"], "AF5007"),
    ):
        with pytest.raises(AutofuseError, match=code):
            jit_compile(*texts, argv)
    with pytest.raises(AutofuseError, match="AF5007"):
        jit_compile(texts[0], texts[1], other[2], [f"--output_path={tmp_path}"])
    with pytest.raises(AutofuseError, match="AF1002"):
        host_compile(texts[0], "int x;", [f"--output_path={tmp_path}"])
    with pytest.raises(AutofuseError, match="AF5007"):
        host_compile(texts[0], "// autofuse kernel: \n", [f"--output_path={tmp_path}"])
    for k in range(3):
        for odd in (None, b"", 3):
            given: list[Any] = list(texts)
            given[k] = odd
            with pytest.raises(AutofuseError, match="AF5007: the code is not text"):
                jit_compile(*given, [f"--output_path={tmp_path}"])
    for argv in (None, 3, "--output_path=x"):
        with pytest.raises(AutofuseError, match="AF5007: jit_compile: argv is"):
            jit_compile(*texts, argv)  # type: ignore[arg-type]
    with pytest.raises(AutofuseError, match="AF5005"):
        host_compile(texts[0], texts[1], ["--output_file=a\0b", "--soc_version=cpu"])
