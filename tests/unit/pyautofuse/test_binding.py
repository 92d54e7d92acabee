"""Names, signatures and errors of CANN's extension module, as its clients use them."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
from collections.abc import Callable

import pytest

from autofuse.base.diagnostics import AutofuseError
from autofuse.clients.cann import ascir_api, compile_adapter
from autofuse.clients.cann.pyautofuse import Autofuser, AutofuserOptions, CodeGen, Schedule, ascir
from autofuse.clients.cann.pyautofuse.cann_ops import op_names
from autofuse.clients.cann.pyautofuse.platform import chip
from autofuse.targets import load_target

ops, dtypes = ascir.ops, ascir.dtypes


def abs_graph(late: bool = True) -> ascir.HintGraph:
    """|x| of [s0, 24] float16; ``late``: nodes are linked from the last to the first, without their graph."""
    g = ascir.HintGraph("magnitude")
    s0 = g.create_size("s0")
    axes = [g.create_axis("z0", s0), g.create_axis("z1", 24)]
    data = ops.Data("data_0", g)
    data.y.dtype = dtypes.float16
    load, absolute, store = ops.Load("load_0"), ops.Abs("abs_0"), ops.Store("store_0")
    out = ops.Output("output_0", *(() if late else (g,)))
    links = [(out, store), (store, absolute), (absolute, load), (load, data)]
    for node, source in links if late else reversed(links):
        node.x = source
    for node in (load, absolute, store):
        node.attr.sched.axis = axes
        node.y.axis, node.y.size, node.y.strides = axes, [s0, 24], [24, 1]
    return g


def test_module_names() -> None:
    assert importlib.import_module("ascir") is ascir
    assert importlib.import_module("ascir.ops") is ops
    assert importlib.import_module("pyautofuse").Autofuser is Autofuser
    for name in ("Operator", "OpsOperatorOutput", "AscNodeAttr", "SchedInfo", "ApiInfo"):
        assert isinstance(getattr(ascir, name), type)


@pytest.mark.parametrize("late", [False, True])
def test_a_node_joins_the_graph_that_it_is_linked_to(late: bool) -> None:
    g = abs_graph(late)
    assert sorted(n.name for n in g.operators) == [
        "abs_0",
        "data_0",
        "load_0",
        "output_0",
        "store_0",
    ]
    g.infer_dtypes()
    assert all(n.y.dtype == dtypes.float16 for n in g.operators)
    want = abs_graph(False)
    assert Autofuser().autofuse_backend(g) == Autofuser().autofuse_backend(want)


def test_a_node_of_a_fused_graph_joins_it() -> None:
    whole = ascir.FusedGraph()
    assert whole.get_name() == ascir.HintGraph().get_name() == "fused_graph"
    x = ops.Data("x", whole)
    part = ops.AscBackend("part", abs_graph())
    part.x = [x.y]
    ops.Output("y", whole).x = part.y[0]
    assert Autofuser().schedule(whole).get_output_num() == 1


def test_nodes_without_inputs_need_their_graph() -> None:
    for kind in ("Data", "Scalar"):
        with pytest.raises(TypeError, match="AF1103"):
            getattr(ops, kind)("x")
    with pytest.raises(TypeError, match="AF1101"):
        ops.Load("alone").infer_dtype()


def test_outputs_by_number() -> None:
    g = ascir.HintGraph("g")
    x = ops.Data("x", g)
    x.y.dtype = dtypes.float16
    for arguments in ((3, g), (g, 3)):
        split = ops.Split("s", *arguments)
        split.x = x
        split.infer_dtype()
        assert [y.dtype for y in split.y] == [dtypes.float16] * 3
    for wrong in ((1, 2), (g, g), ("2",), (-1,)):
        with pytest.raises(TypeError, match="AF1103"):
            ops.Split("s", *wrong)


def test_what_is_set_reads_back_as_ids_and_sizes() -> None:
    g = ascir.HintGraph("g")
    s = g.create_size("s")
    z0, z1 = g.create_axis("z0", s), g.create_axis("z1", 8)
    load = ops.Load("load", g)
    assert (load.y.axis, load.y.size, load.y.strides, load.attr.sched.axis) == ([], [], [], [])
    load.attr.sched.axis = load.y.axis = [z1, z0]
    load.y.size, load.y.strides = [8, s], [s, 1]
    assert load.attr.sched.axis == load.y.axis == [z1.id, z0.id] == [1, 0]
    assert [n.expression for n in load.y.size] == ["8", "s"]
    assert load.y.strides == [s, 1]
    load.attr.ir_attr.offset = 3
    assert load.attr.ir_attr.offset.expression == "3"
    assert "offset: 3" in ascir.utils.debug_str(g)


def test_kind_of_computation() -> None:
    node = ops.Abs("abs", ascir.HintGraph("g"))
    assert node.attr.api.compute_type == "unknown"
    node.attr.api.compute_type = "elemwise"
    assert node.attr.api.compute_type == "elewise"
    with pytest.raises(ValueError, match="AF1104"):
        node.attr.api.compute_type = "elementwise"
    assert not hasattr(node.attr, "hint")


def test_sizes() -> None:
    assert ascir.SizeExpr() == 1
    g = ascir.HintGraph("g")
    a, b = g.create_size("a"), g.create_size("b")
    assert ascir.Mod(4 * a, 32).expression == "Mod((4 * a), 32)"
    assert ascir.Max(a + 100, 2 * b).expression == "Max((100 + a), (2 * b))"
    assert (a - a).expression == "0"


def wrong_types() -> list[Callable[[], object]]:
    g = ascir.HintGraph("g")
    load, s = ops.Load("load", g), g.create_size("s")

    def put(target: object, name: str, value: object) -> Callable[[], object]:
        return lambda: setattr(target, name, value)

    return [
        lambda: ascir.SizeExpr("8"),
        lambda: ascir.Max(None, 1),
        lambda: ascir.Min(1, None),
        lambda: ascir.Mod("8", 1),
        lambda: s * 0.5,
        put(load.attr.ir_attr, "offset", "3"),
        put(load.y, "axis", 3),
        put(load.y, "size", 8),
        put(load.y, "dtype", "float32"),
        lambda: ops.Abs("abs", "g"),
        lambda: ops.AscBackend("b", ascir.FusedGraph("f"), ascir.FusedGraph("f")),
        lambda: ascir.utils.dump(load),
        lambda: ascir.utils.set_platform(2201, 1, 1024),
        lambda: ascir.utils.set_platform("2201", "1", 1024),
        lambda: ascir.utils.deserialize("asc_graph", ""),
        lambda: ascir.utils.deserialize("symbol_source_info", "{"),
        lambda: ascir.utils.deserialize("symbol_source_info", '{"s0": 0}'),
        lambda: ascir.utils.duration_record(["step"], "time"),
        lambda: ascir.utils.duration_record([0], 1, 1),
        lambda: ascir.utils.duration_record(["step"], -1, 1),
        lambda: CodeGen().device_code_generator(g),
        lambda: CodeGen().host_code_generator(None, None, [], "", ""),
        lambda: Autofuser().codegen(None),
        lambda: Autofuser(3),  # type: ignore[arg-type]
        lambda: Schedule("ascend910b1"),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("call", wrong_types())
def test_wrong_types(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="AF1") as e:
        call()
    assert isinstance(e.value, AutofuseError)


def test_wrong_values() -> None:
    g = ascir.HintGraph("g")
    load = ops.Load("load", g)
    done = Schedule().schedule(abs_graph())
    make = CodeGen().host_code_generator
    calls: list[Callable[[], object]] = [
        lambda: setattr(load.y, "axis", [0]),
        lambda: setattr(load.attr.sched, "axis", ["z0"]),
        lambda: setattr(load.y, "strides", [None]),
        lambda: AutofuserOptions(graph_type=7),
        lambda: make(done, {"s0": ""}, [], "", ""),
        lambda: make(done, None, ["s0"], "", ""),
        lambda: make(done, None, [["s0", 24]], "", ""),
        lambda: make(done, None, [], "folder", ""),
        lambda: CodeGen().get_kernel_and_json_generator("a", "b"),
        lambda: ascir_api.Abs(g, load.y, axis=[], stride=[1]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="AF"):
            call()


def test_a_graph_that_cannot_be_scheduled_is_a_runtime_error() -> None:
    g = abs_graph()
    ops.MatMul("product", g)
    for call in (Autofuser().schedule, Autofuser().autofuse_backend, Schedule().schedule):
        with pytest.raises(RuntimeError, match="AF1201") as e:
            call(g)
        assert isinstance(e.value, AutofuseError)
    with pytest.raises(RuntimeError, match="AF1301"):
        Schedule().scheduleV2(ascir.HintComputeGraph("whole"))


def test_host_code_is_texts_and_the_inference_of_shapes() -> None:
    result = Schedule(AutofuserOptions()).schedule(abs_graph())
    with pytest.warns(UserWarning, match=r"'lib\.so' is not loaded"):
        maker = CodeGen(tiling_lib_path="lib.so", tiling_lib_codegen_symbol="gen")
    sources = ascir.utils.deserialize("symbol_source_info", '{"s0": "Dim(0, 0);"}')
    assert isinstance(sources, ascir.ShapeInfo)
    for shapes in (None, sources, ascir.ShapeInfo({"s0": "Dim(0, 0);"})):
        tilings, infer = maker.host_code_generator(result, shapes, [["s0", "24"]], "", "")
        assert list(tilings) == ["default"]
        assert list(tilings["default"].values()) == [Autofuser().codegen(result)[1]]
        assert "InferShape" in infer
    with pytest.warns(UserWarning, match=r"'lib\.so' is not loaded"):
        AutofuserOptions(tiling_lib_path="lib.so")


def test_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the chip has counts as what it has; what no chip is like is said when a graph is scheduled."""
    monkeypatch.setattr("autofuse.clients.cann.pyautofuse.platform._chosen", [])
    whole = load_target("ascend910b1")
    ascir.utils.set_platform("2201", 1, 245760)
    assert (chip().aiv_cores, chip().ub_usable) == (1, whole.ub_usable)
    ascir.utils.set_platform("2201", 1000, whole.ub_bytes - 32)
    assert (chip().aiv_cores, chip().ub_usable) == (whole.aiv_cores, whole.ub_usable - 32)
    for arguments, code in (
        (("no such", 1, 1024), "AF5006"),
        (("2201", 0, 245760), "AF5007"),
        (("2201", 1, 0), "AF5007"),
    ):
        ascir.utils.set_platform(*arguments)
        with pytest.raises(RuntimeError, match=code):
            Autofuser().schedule(abs_graph())


def test_durations(caplog: pytest.LogCaptureFixture) -> None:
    ascir.utils.duration_record(["device", "kernel"], 10, 20)
    with caplog.at_level(logging.INFO, "autofuse.pyautofuse"):
        ascir.utils.report_durations()
        ascir.utils.report_durations()
    assert caplog.messages == ["device kernel: start 10 ns, duration 20 ns"]


def test_keywords_of_the_compiler() -> None:
    for name, want in {
        "jit_compile": ["tiling_def", "host_tiling", "op_kernel", "argv"],
        "host_compile": ["tiling_def_code", "tiling_impl_code", "argv"],
        "kernel_compile": ["tiling_def_code", "kernel_impl_code", "argv", "tiling_repr"],
    }.items():
        assert list(inspect.signature(getattr(compile_adapter, name)).parameters) == want


def test_a_call_makes_a_node() -> None:
    """The graph of calls is that of nodes which are set piece by piece."""
    g = ascir.HintGraph("magnitude")
    s0 = g.create_size("s0")
    axes = [g.create_axis("z0", s0), g.create_axis("z1", 24)]
    load = ascir_api.Load(g, ascir_api.Data(g, dtype=dtypes.float16), offset=0, axis=axes)
    assert (load.axis, load.size, load.strides) == ([0, 1], [s0, 24], [24, 1])
    y = ascir_api.Abs(g, load, axis=axes)
    assert ascir_api.Output(g, ascir_api.Store(g, y, axis=axes)).dtype == dtypes.float16
    assert Autofuser().autofuse_backend(g) == Autofuser().autofuse_backend(abs_graph())


def test_calls_with_other_arguments() -> None:
    g = ascir.HintGraph("g")
    z = g.create_axis("z", 8)
    x = ascir_api.Load(g, ascir_api.Data(g, dtype=dtypes.float32), axis=[z])
    half = ascir_api.Scalar(g, dtype=dtypes.float32, value="0.5")
    assert half.node.attr.ir_attr.value == "0.5"
    assert ascir_api.Data(g, dtype=dtypes.float32).node.attr.ir_attr.index == 1
    assert ascir_api.Cast(g, x, dtype=dtypes.float16, axis=[z]).dtype == dtypes.float16
    leaky = ascir_api.LeakyRelu(g, x, negative_slope=0.1, axis=[z]).node
    assert (leaky.attr.ir_attr.negative_slope, leaky.x) == (0.1, x)
    filled = ascir_api.MaskedFill(g, x, x, value=half, axis=[z]).node
    assert (filled.x, filled.mask, filled.value) == (x, x, half)
    clipped = ascir_api.ClipByValue(g, x, half, half, axis=[z]).node
    assert (clipped.x1, clipped.x2, clipped.x3) == (x, half, half)
    names = [n.name for n in g.operators]
    assert len(set(names)) == len(names)
    with pytest.raises(TypeError, match="AF1103"):
        ascir_api.Abs(g, x, x, x, axis=[z])
    with pytest.raises(TypeError, match="AF1103"):
        ascir_api.Abs("g", x, axis=[z])


def test_every_op_is_a_function() -> None:
    assert set(op_names()) <= set(dir(ascir_api))


def test_names_of_any_characters_hold() -> None:
    g = abs_graph()
    g.set_name("my graph/v1")
    kernel = Autofuser().schedule(g)
    assert kernel.get_name() == "my_graph_v1"
    assert kernel.graph.label == "my graph/v1"
    metadata = json.loads(kernel.files["my_graph_v1.json"])
    assert (metadata["kernelName"], metadata["called"]) == ("my_graph_v1", "my graph/v1")
