"""Parameters, tensors, queues and buffers of a kernel are called after the tensors of the graph, whatever those are."""

from typing import Any

import pytest

from autofuse import api
from autofuse.codegen.lower.names import parameter_names

#: Names that C++, Ascend C, the generated files or the kernel itself use otherwise.
_USED = """t workspace tpipe pointers stream block_dim tiling_data x_local x_gm x_queue x_buf x_bytes n_tmp z0 z0T
    z1t_size block0 offset0 row_size bank_gap int half float Abs Add DataCopy TQue GM_ADDR PIPE_V min g g_0 autofuse n
    g_0_general_0_nil_0_nil model.0/weight x- _x x__y"""
NAMES = [*_USED.split(), "onnx::Add_1", "9lives", "\u65e5\u672c", 'a "b"; c', "a_b_c"]


def graph(names: list[str]) -> dict[str, Any]:
    """The sum of inputs with the names, each exponentiated; also the first by itself."""
    nodes = [
        {"name": f"e{k}", "op": "Abs", "inputs": [n], "outputs": [f"abs_of_{k}"]}
        for k, n in enumerate(names)
    ]
    total = names[0]
    for k in range(len(names)):
        out = f"sum_{k}"
        nodes.append(
            {"name": f"s{k}", "op": "Add", "inputs": [total, f"abs_of_{k}"], "outputs": [out]}
        )
        total = out
    return {
        "schema": "autofuse.graph/1",
        "name": "g",
        "symbols": {"n_size": {"min": 1, "max": 50}},
        "inputs": [{"name": n, "dtype": "float32", "shape": ["n_size", 20]} for n in names],
        "nodes": nodes,
        "outputs": [{"name": "v_t", "tensor": total}, {"name": "y", "tensor": "abs_of_0"}],
    }


@pytest.mark.twin
@pytest.mark.parametrize("names", [NAMES[:13], NAMES[13:26], NAMES[26:]], ids=["a", "b", "c"])
def test_all_names_compile_and_compute(names: list[str]) -> None:
    report = api.verify(graph(names), shapes=2)
    assert report.ok, report


def test_plain_names_stay_and_all_are_different() -> None:
    built = api.build(graph(["x", "bias", "t", "x_local", "g_0", "v_g_0"]))
    params = parameter_names(built.graph)
    assert params.inputs[:2] == ("x", "bias")
    assert len(set(params.names)) == len(params.names) == 8
    text = built.files["device/g_kernel.cpp"]
    for words in (
        "GM_ADDR bias",
        "bias_gm.SetGlobalBuffer",
        "x_local_v_queue, 2",
        "> bias_local =",
    ):
        assert words in text
    assert built.metadata["inputs"][2] | {"name": "t"} == built.metadata["inputs"][2]
    assert built.metadata["inputs"][2]["parameter"] == params.inputs[2] != "t"


def test_what_two_tensors_share_is_called_after_the_first() -> None:
    """A tensor that is loaded twice, and a node that is called like an input."""
    document = graph(["x", "b"])
    document["nodes"][0]["name"] = "x"
    text = api.build(document).files["device/g_kernel.cpp"]
    assert "x_local" in text
    assert "LocalTensor<float> x_local = x_queue" in text
